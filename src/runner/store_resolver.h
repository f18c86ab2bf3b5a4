#pragma once

#include "headworks/executor/executor.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Loads what an attempt needs from the store: the run's input, and the outputs of its upstreams.
///
/// Threads.  May be called concurrently; the database must outlive it.
class StoreResolver final : public executor::Resolver {
 public:
  explicit StoreResolver(store::RunQuery& query) : query_(query) {}
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override;

 private:
  store::RunQuery& query_;
};

}  // namespace headworks
