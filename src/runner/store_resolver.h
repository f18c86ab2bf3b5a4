#pragma once

#include <functional>
#include <string>
#include <utility>

#include "compiled_tasks.h"
#include "headworks/executor/executor.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Loads what an attempt needs from the store (the run's input, the outputs of its upstreams) and
/// renders its templates with it.
///
/// `scratch`: the folder that the tasks of a run share, which they see as `run.dir`; empty: they
/// have none, and a text that asks for it is an error that says what to use.
/// Threads.  May be called concurrently; what it is made with must outlive it.
class StoreResolver final : public executor::Resolver {
 public:
  using ScratchOf = std::function<std::string(const RunId&)>;

  StoreResolver(store::RunQuery& query, CompiledTasks& compiled, ScratchOf scratch = {})
      : query_(query), compiled_(compiled), scratch_(std::move(scratch)) {}
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override;

 private:
  store::RunQuery& query_;
  CompiledTasks& compiled_;
  ScratchOf scratch_;
};

}  // namespace headworks
