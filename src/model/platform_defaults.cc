#include "platform_defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "validate.h"

/// What the platform says of tasks where nobody else does.
namespace headworks::model {
namespace {

/// Calls `field(gap, member of RetryPolicy)` for each that can be filled.
void ForEachOfRetry(const auto& field) {
  field(Gap::kMaxAttempts, &RetryPolicy::max_attempts);
  field(Gap::kBackoff, &RetryPolicy::backoff);
  field(Gap::kInitial, &RetryPolicy::initial);
  field(Gap::kMax, &RetryPolicy::max);
  field(Gap::kJitter, &RetryPolicy::jitter);
  field(Gap::kMaxLosses, &RetryPolicy::max_losses);
}

}  // namespace

void NoteSaid(Task& task) {
  static const RetryPolicy kUsual;
  if (task.timeout != Duration(0)) task.Say(Gap::kTimeout);
  ForEachOfRetry([&](Gap gap, auto member) {
    if (task.retry.*member != kUsual.*member) task.Say(gap);
  });
}

void FillGaps(const PlatformDefaults& defaults, Task& task) {
  if (!task.Says(Gap::kTimeout)) task.timeout = defaults.timeout;
  ForEachOfRetry([&](Gap gap, auto member) {
    if (!task.Says(gap)) task.retry.*member = defaults.retry.*member;
  });
  // Of a delay that is said and one that is filled, the filled one gives way.
  RetryPolicy& retry = task.retry;
  if (task.Says(Gap::kInitial) && !task.Says(Gap::kMax))
    retry.max = std::max(retry.max, retry.initial);
  if (task.Says(Gap::kMax) && !task.Says(Gap::kInitial))
    retry.initial = std::min(retry.initial, retry.max);
  if (task.start_timeout == Duration(0)) task.start_timeout = defaults.start_timeout;
  if (task.resources.cpu == 0) task.resources.cpu = defaults.resources.cpu;
  if (task.resources.memory == 0) task.resources.memory = defaults.resources.memory;
}

Status PlatformDefaults::Check() const {
  if (retry.when || retry.unless)
    return Error{Code::kInvalidArgument,
                 "platform defaults: retry.when and retry.unless belong to tasks; leave them out"};
  if (start_timeout <= Duration(0))
    return Error{Code::kInvalidArgument,
                 "platform defaults: start_timeout must be above 0; it is 10m unless it is set"};
  WorkflowDefinition definition;
  definition.name.workflow = "defaults";
  Task& task = definition.tasks.emplace_back();
  task.id = "task";
  task.action = ShellAction{.script = "true", .shell = {}};
  FillGaps(*this, task);
  FaultList faults;
  CheckFields(definition, faults);
  if (faults.empty()) return {};
  const Fault fault = faults.Take().front();
  return Error{Code::kInvalidArgument,
               fmt::format("platform defaults: {}: {}",
                           fault.field.substr(TaskField(task).size() + 1), fault.message)};
}

}  // namespace headworks::model
