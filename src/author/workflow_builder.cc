#include "headworks/author/workflow_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "headworks/author/registry.h"

namespace headworks {
namespace {

model::Fault MakeFault(std::string field, std::string message) {
  model::Fault fault;
  fault.field = std::move(field);
  fault.message = std::move(message);
  return fault;
}

std::string FieldOf(const model::Task& task) {
  constexpr std::array<std::string_view, 3> kSections = {"tasks", "on_cancel", "finally"};
  return fmt::format("{}.{}", kSections[static_cast<std::size_t>(task.role)], task.id);
}

}  // namespace

TaskBuilder::TaskBuilder(std::string id, model::TaskRole role) {
  task_.id = std::move(id);
  task_.role = role;
}

TaskBuilder& TaskBuilder::Run(std::string shell_script) {
  task_.action = model::ShellAction{.script = std::move(shell_script)};
  ++actions_;
  return *this;
}
TaskBuilder& TaskBuilder::Exec(std::vector<std::string> argv) {
  task_.action = model::ExecAction{std::move(argv)};
  ++actions_;
  return *this;
}
TaskBuilder& TaskBuilder::Function(std::string name) {
  task_.action = model::FunctionAction{std::move(name)};
  ++actions_;
  return *this;
}
TaskBuilder& TaskBuilder::Needs(std::vector<std::string> upstreams) {
  task_.needs = std::move(upstreams);
  return *this;
}
TaskBuilder& TaskBuilder::Retry(RetryPolicy policy) {
  task_.retry = std::move(policy);
  task_.Say(model::Gap::kMaxAttempts);
  return *this;
}
TaskBuilder& TaskBuilder::Retry(int max_attempts) {
  task_.retry.max_attempts = max_attempts;
  task_.Say(model::Gap::kMaxAttempts);
  return *this;
}
TaskBuilder& TaskBuilder::Timeout(Duration timeout) {
  task_.timeout = timeout;
  task_.Say(model::Gap::kTimeout);
  return *this;
}
TaskBuilder& TaskBuilder::StartTimeout(Duration timeout) {
  task_.start_timeout = timeout;
  return *this;
}
TaskBuilder& TaskBuilder::Resources(model::Resources resources) {
  task_.resources = resources;
  return *this;
}
TaskBuilder& TaskBuilder::Deadline(Duration deadline) {
  task_.deadline = deadline;
  return *this;
}
TaskBuilder& TaskBuilder::IdempotencyKey(std::string key) {
  task_.idempotency_key = std::move(key);
  return *this;
}
TaskBuilder& TaskBuilder::When(std::string expression) {
  task_.when.push_back(std::move(expression));
  return *this;
}
TaskBuilder& TaskBuilder::Grace(Duration grace) {
  task_.grace = grace;
  return *this;
}
TaskBuilder& TaskBuilder::Pool(std::string name, int weight) {
  task_.pool = std::move(name);
  task_.weight = weight;
  return *this;
}
TaskBuilder& TaskBuilder::Queue(std::string name) {
  task_.queue = std::move(name);
  return *this;
}
TaskBuilder& TaskBuilder::Requires(std::vector<std::string> labels) {
  task_.required = std::move(labels);
  return *this;
}
TaskBuilder& TaskBuilder::Priority(int priority) {
  task_.priority = priority;
  return *this;
}
TaskBuilder& TaskBuilder::Rule(TriggerRule rule) {
  task_.trigger_rule = rule;
  return *this;
}
TaskBuilder& TaskBuilder::AllowFailure(bool allow) {
  task_.allow_failure = allow;
  return *this;
}
TaskBuilder& TaskBuilder::Env(std::string name, std::string value) {
  task_.env.insert_or_assign(std::move(name), std::move(value));
  return *this;
}
TaskBuilder& TaskBuilder::InheritEnv(std::vector<std::string> names) {
  task_.inherit_env = std::move(names);
  return *this;
}
TaskBuilder& TaskBuilder::Cwd(std::string folder) {
  task_.cwd = std::move(folder);
  return *this;
}

WorkflowBuilder::WorkflowBuilder(std::string_view name) {
  if (auto parsed = ParseWorkflowName(name))
    definition_.name = *std::move(parsed);
  else
    faults_.push_back(MakeFault("name", parsed.error().message));
}

WorkflowBuilder& WorkflowBuilder::Description(std::string text) {
  definition_.description = std::move(text);
  return *this;
}
WorkflowBuilder& WorkflowBuilder::Param(std::string name) {
  return ParamJson(std::move(name), Json("null"));
}
WorkflowBuilder& WorkflowBuilder::ParamJson(std::string name, Result<Json> value) {
  const std::string field = "params." + name;
  if (!value)
    faults_.push_back(MakeFault(field, value.error().message));
  else if (!definition_.params.emplace(std::move(name), model::Param::Plain(std::move(value->text)))
                .second)
    faults_.push_back(MakeFault(field, "stands twice; remove one"));
  return *this;
}
WorkflowBuilder& WorkflowBuilder::Env(std::string name, std::string value) {
  definition_.env.insert_or_assign(std::move(name), std::move(value));
  return *this;
}
WorkflowBuilder& WorkflowBuilder::BaseDir(std::string folder) {
  definition_.base_dir = std::move(folder);
  return *this;
}
WorkflowBuilder& WorkflowBuilder::Timeout(Duration timeout) {
  definition_.timeout = timeout;
  return *this;
}
WorkflowBuilder& WorkflowBuilder::FinallyTimeout(Duration timeout) {
  definition_.finally_timeout = timeout;
  return *this;
}
WorkflowBuilder& WorkflowBuilder::CancelTimeout(Duration timeout) {
  definition_.cancel_timeout = timeout;
  return *this;
}
WorkflowBuilder& WorkflowBuilder::OnFailure(model::OnFailure what) {
  definition_.on_failure = what;
  return *this;
}
WorkflowBuilder& WorkflowBuilder::MaxActiveRuns(int runs) {
  definition_.max_active_runs = runs;
  return *this;
}
WorkflowBuilder& WorkflowBuilder::Concurrency(model::Concurrency limits) {
  definition_.concurrency = std::move(limits);
  return *this;
}
WorkflowBuilder& WorkflowBuilder::MaxParallel(int attempts) {
  definition_.max_parallel = attempts;
  return *this;
}

TaskBuilder& WorkflowBuilder::Task(std::string id) {
  return tasks_.emplace_back(TaskBuilder(std::move(id), model::TaskRole::kMain));
}
TaskBuilder& WorkflowBuilder::OnCancel(std::string id) {
  return tasks_.emplace_back(TaskBuilder(std::move(id), model::TaskRole::kOnCancel));
}
TaskBuilder& WorkflowBuilder::Finally(std::string id) {
  return tasks_.emplace_back(TaskBuilder(std::move(id), model::TaskRole::kFinally));
}

Result<std::shared_ptr<const model::Workflow>> WorkflowBuilder::Build(
    std::vector<model::Fault>* faults) const {
  std::vector<model::Fault> all = faults_;
  model::WorkflowDefinition definition = definition_;
  for (const TaskBuilder& task : tasks_) {
    if (task.actions_ != 1)
      all.push_back(MakeFault(
          FieldOf(task.task_),
          fmt::format("call exactly one of Run, Exec and Function, not {}", task.actions_)));
    definition.tasks.push_back(task.task_);
    // Said above, so the model need not say that the script is empty.
    if (task.actions_ == 0) definition.tasks.back().action = model::ShellAction{.script = ":"};
  }
  std::vector<model::Fault> in_model;
  auto workflow = model::Workflow::Create(std::move(definition), &in_model);
  for (model::Fault& fault : in_model) {
    // One fault a field: what was said here is closer to what the author wrote.
    const bool said = std::ranges::any_of(
        faults_, [&](const model::Fault& known) { return known.field == fault.field; });
    if (!said) all.push_back(std::move(fault));
  }
  if (all.empty()) return workflow;
  std::string text;
  for (const model::Fault& fault : all)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", fault.field, fault.message);
  if (faults != nullptr) *faults = std::move(all);
  return Error{Code::kInvalidArgument, std::move(text)};
}

}  // namespace headworks
