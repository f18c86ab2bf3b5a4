#pragma once

#include "compiled_tasks.h"
#include "headworks/executor/executor.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Loads what an attempt needs from the store (the run's input, the outputs of its upstreams) and
/// renders its templates with it.
///
/// Threads.  May be called concurrently; what it is made with must outlive it.
class StoreResolver final : public executor::Resolver {
 public:
  StoreResolver(store::RunQuery& query, CompiledTasks& compiled)
      : query_(query), compiled_(compiled) {}
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override;

 private:
  store::RunQuery& query_;
  CompiledTasks& compiled_;
};

}  // namespace headworks
