#pragma once

#include <map>
#include <mutex>

#include "headworks/executor/executor.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::worker {

/// Jobs as the executors of this host take them: an attempt of a workflow of one task, and a
/// Resolver that answers from what came with it.
///
/// Threads.  All methods may be called concurrently.
class Jobs final : public executor::Resolver {
 public:
  /// `key` names it here.  kInvalidArgument: its definition is no workflow of one task.
  Result<executor::Attempt> Add(const model::AttemptKey& key, worker_api::Job job);
  void Remove(const model::AttemptKey& key);

  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override;

 private:
  std::mutex mutex_;
  std::map<model::AttemptKey, executor::Resolved> resolved_;  // guarded by mutex_
};

/// The key under which an attempt runs here: its workflow has one task, so that is the first.
model::AttemptKey LocalKey(model::AttemptKey key);

}  // namespace headworks::worker
