#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/author/fields.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/workflow.h"

namespace headworks {

using model::Backoff;
using model::OnFailure;
using model::RetryPolicy;
using model::TriggerRule;

/// One task of a WorkflowBuilder.  Each call sets one thing and returns the task; what each means,
/// its default and its bounds stand at model::Task.  Valid as long as the builder.
class TaskBuilder {
 public:
  // What it runs: exactly one of these.
  TaskBuilder& Run(std::string shell_script);
  TaskBuilder& Exec(std::vector<std::string> argv);
  TaskBuilder& Function(std::string name);

  TaskBuilder& Needs(std::vector<std::string> upstreams);
  /// The platform's default fills in each field that is as usual, but `max_attempts` never: 1 means
  /// once.
  TaskBuilder& Retry(RetryPolicy policy);
  /// So many tries in all, with the default delays.
  TaskBuilder& Retry(int max_attempts);
  /// Zero = no limit, whatever the platform's default is.
  TaskBuilder& Timeout(Duration timeout);
  /// For an attempt to start once its executor has it; above zero.
  TaskBuilder& StartTimeout(Duration timeout);
  TaskBuilder& Resources(model::Resources resources);
  TaskBuilder& Grace(Duration grace);
  /// From the start of the first try until the task is over.
  TaskBuilder& Deadline(Duration deadline);
  /// Instead of the one made of run and task; may hold templates.
  TaskBuilder& IdempotencyKey(std::string key);
  /// A CEL expression that must be true, or the task is skipped; may be called again, then all
  /// must.
  TaskBuilder& When(std::string expression);
  TaskBuilder& Priority(int priority);
  /// Each attempt holds `weight` permits of a declared pool (RunnerOptions::pools).
  TaskBuilder& Pool(std::string name, int weight = 1);
  /// Of workers, where they run tasks.
  TaskBuilder& Queue(std::string name);
  /// Labels that its worker must have.
  TaskBuilder& Requires(std::vector<std::string> labels);
  TaskBuilder& Rule(TriggerRule rule);
  TaskBuilder& AllowFailure(bool allow = true);
  TaskBuilder& Env(std::string name, std::string value);
  TaskBuilder& InheritEnv(std::vector<std::string> names);
  TaskBuilder& Cwd(std::string folder);

 private:
  friend class WorkflowBuilder;
  TaskBuilder(std::string id, model::TaskRole role);

  model::Task task_;
  int actions_ = 0;
};

/// Builds a workflow in code.
///
///   WorkflowBuilder w("nightly");
///   w.Param("limit", 100).Timeout(1h).OnFailure(OnFailure::kCancelRest);
///   w.Task("fetch").Run("curl -fO https://example.org/orders.json").Retry(3);
///   w.Task("report").Function("summarise").Needs({"fetch"});
///   w.Finally("clean").Run("rm -f orders.json");
///   auto workflow = w.Build();
///
/// Threads.  One.
class WorkflowBuilder {
 public:
  /// `[[tenant::]package::]workflow`.
  explicit WorkflowBuilder(std::string_view name);

  WorkflowBuilder& Description(std::string text);
  /// A parameter that must be given, one with a default value (anything that has a JSON form).
  WorkflowBuilder& Param(std::string name);
  template <typename T>
  WorkflowBuilder& Param(std::string name, const T& value) {
    return ParamJson(std::move(name), ToJson(value));
  }
  WorkflowBuilder& Env(std::string name, std::string value);
  /// Where relative folders of tasks start; absolute.
  WorkflowBuilder& BaseDir(std::string folder);
  WorkflowBuilder& Timeout(Duration timeout);
  WorkflowBuilder& FinallyTimeout(Duration timeout);
  WorkflowBuilder& CancelTimeout(Duration timeout);
  WorkflowBuilder& OnFailure(model::OnFailure what);
  /// Runs of this workflow that are under way at a time; 0 = no limit of its own.
  WorkflowBuilder& MaxActiveRuns(int runs);
  /// Which runs may be under way together, and how many may start.
  WorkflowBuilder& Concurrency(model::Concurrency limits);
  /// Live attempts of one run at a time; 0 = no limit of its own.
  WorkflowBuilder& MaxParallel(int attempts);

  TaskBuilder& Task(std::string id);
  /// Runs only after a cancel was asked for, before `Finally`.
  TaskBuilder& OnCancel(std::string id);
  /// Runs when everything else is settled, whatever the outcome.
  TaskBuilder& Finally(std::string id);

  /// kInvalidArgument joins all faults; `faults`, if given, receives them one by one.
  /// The builder stays as it is.
  Result<std::shared_ptr<const model::Workflow>> Build(
      std::vector<model::Fault>* faults = nullptr) const;

 private:
  WorkflowBuilder& ParamJson(std::string name, Result<Json> value);

  model::WorkflowDefinition definition_;
  std::deque<TaskBuilder> tasks_;  // a deque, so that references stay good
  std::vector<model::Fault> faults_;
};

}  // namespace headworks
