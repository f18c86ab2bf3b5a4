#include "jobs.h"

#include <fmt/format.h>

#include <utility>

namespace headworks::worker {

model::AttemptKey LocalKey(model::AttemptKey key) {
  key.task = TaskNo(0);
  return key;
}

Result<executor::Attempt> Jobs::Add(const model::AttemptKey& key, worker_api::Job job) {
  const auto refuse = [](const std::string& why) {
    return Error{Code::kInvalidArgument,
                 fmt::format("this worker cannot read the job's definition: {}; do worker and "
                             "engine have the same version?",
                             why)};
  };
  const auto given = model::Workflow::FromCanonicalJson(job.definition_json);
  if (!given) return refuse(given.error().message);
  if ((*given)->size() != 1) return refuse(fmt::format("it has {} tasks", (*given)->size()));
  // Its key is made from more than this one task.
  model::WorkflowDefinition definition = (*given)->definition();
  definition.tasks.front().idempotency_key = job.idempotency_key;
  auto workflow = model::Workflow::Create(std::move(definition));
  if (!workflow) return refuse(workflow.error().message);
  if (job.resolved.rendered) job.resolved.rendered->idempotency_key = job.idempotency_key;
  {
    const std::scoped_lock lock(mutex_);
    resolved_.insert_or_assign(key, std::move(job.resolved));
  }
  return executor::Attempt{.key = key,
                           .run_id = std::move(job.run_id),
                           .try_no = job.try_no,
                           .generation = job.generation,
                           .timeout = job.timeout,
                           .workflow = *std::move(workflow)};
}

void Jobs::Remove(const model::AttemptKey& key) {
  const std::scoped_lock lock(mutex_);
  resolved_.erase(key);
}

Result<executor::Resolved> Jobs::Resolve(const executor::Attempt& attempt) {
  const std::scoped_lock lock(mutex_);
  const auto found = resolved_.find(attempt.key);
  if (found == resolved_.end()) return Error{Code::kNotFound, "the attempt is no longer held"};
  return found->second;
}

}  // namespace headworks::worker
