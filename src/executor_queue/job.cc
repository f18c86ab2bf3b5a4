#include "job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headworks/model/artifact_flow.h"

namespace headworks::executor_queue {
namespace {

constexpr std::string_view kScratch = "HEADWORKS_SCRATCH";

bool IsTemplate(std::string_view text) { return text.find("${{") != std::string_view::npos; }
/// Where a file lies on this host only.
bool IsRelative(std::string_view path) { return !path.empty() && path[0] != '/'; }

std::string CwdIsRelative(std::string_view cwd) {
  return fmt::format(
      "cwd '{}' is below the folder of the workflow file, which workers do not have; give an "
      "absolute path that they have, or leave it out",
      cwd);
}
std::string EnvFileIsRelative(std::string_view file) {
  return fmt::format(
      "env_file '{}' is below the folder of the workflow file, which workers do not have; give an "
      "absolute path that they have, or use env",
      file);
}

std::string UsesScratch() {
  return fmt::format(
      "uses {}, a folder that the tasks of a run share, and workers on other hosts do not; pass "
      "values by outputs, and files by artifacts below the working folder",
      kScratch);
}

bool LeavesInScratch(const std::map<std::string, std::string>& artifacts) {
  return std::ranges::any_of(
      artifacts, [](const auto& each) { return each.second.starts_with(model::kScratchPath); });
}

bool Mentions(const model::Action& action, std::string_view word) {
  const auto has = [&](std::string_view text) { return text.find(word) != std::string_view::npos; };
  if (const auto* shell = std::get_if<model::ShellAction>(&action)) return has(shell->script);
  if (const auto* exec = std::get_if<model::ExecAction>(&action))
    return std::ranges::any_of(exec->argv, has);
  return false;
}

}  // namespace

bool HasArtifacts(const executor::Attempt& attempt) {
  return model::PassesArtifacts(*attempt.workflow, attempt.key.task);
}

std::string WhyNotElsewhere(const executor::Attempt& attempt) {
  const model::Task& task = attempt.task();
  if (IsRelative(task.cwd) && !IsTemplate(task.cwd))
    return fmt::format("task {}: {}", task.id, CwdIsRelative(task.cwd));
  for (const std::string& file : task.env_file)
    if (IsRelative(file) && !IsTemplate(file))
      return fmt::format("task {}: {}", task.id, EnvFileIsRelative(file));
  if (Mentions(task.action, kScratch) || LeavesInScratch(task.artifacts))
    return fmt::format("task {} {}", task.id, UsesScratch());
  return {};
}

std::string WhyNotElsewhere(const executor::Rendered& rendered) {
  if (IsRelative(rendered.cwd)) return CwdIsRelative(rendered.cwd);
  for (const std::string& file : rendered.env_file)
    if (IsRelative(file)) return EnvFileIsRelative(file);
  if (LeavesInScratch(rendered.artifacts)) return fmt::format("the task {}", UsesScratch());
  return {};
}

std::string WhyTooMuch(const std::vector<executor::NeededArtifact>& artifacts) {
  if (artifacts.size() > kMostNeeded)
    return fmt::format(
        "the task needs {} artifacts, and a worker is given at most {}: leave them as one archive",
        artifacts.size(), kMostNeeded);
  std::uint64_t left = kMostNeededBytes;
  for (const executor::NeededArtifact& each : artifacts) {
    if (each.artifact.size > left)
      return fmt::format(
          "the artifacts that the task needs have more than {} bytes together, the most that a "
          "worker is given, with {}: keep what is so large where all tasks reach it",
          kMostNeededBytes, each.name);
    left -= each.artifact.size;
  }
  return {};
}

Result<worker_api::Job> MakeJob(const executor::Attempt& attempt, executor::Resolved resolved) {
  const model::WorkflowDefinition& whole = attempt.workflow->definition();
  model::WorkflowDefinition alone;
  alone.name = whole.name;
  alone.env = whole.env;
  model::Task task = attempt.task();
  task.role = model::TaskRole::kMain;
  task.needs.clear();
  task.when.clear();
  task.trigger_rule = model::TriggerRule::kAllSuccess;
  task.allow_failure = false;
  task.deadline = Duration(0);
  task.pool.clear();
  task.weight = 1;
  alone.tasks = {std::move(task)};
  const auto workflow = model::Workflow::Create(std::move(alone));
  if (!workflow)
    return Error{Code::kInternal,
                 "the task makes no workflow of its own: " + workflow.error().message};
  worker_api::Job job;
  job.attempt = attempt.key;
  job.run_id = attempt.run_id;
  job.workflow = whole.name.workflow;
  job.task = attempt.task().id;
  job.version = attempt.workflow->version();
  job.try_no = attempt.try_no;
  job.generation = attempt.generation;
  job.timeout = attempt.timeout;
  job.idempotency_key =
      resolved.rendered ? resolved.rendered->idempotency_key : attempt.task().idempotency_key;
  if (job.idempotency_key.empty()) job.idempotency_key = attempt.IdempotencyKey();
  job.definition_json = (*workflow)->canonical_json();
  job.resolved = std::move(resolved);
  return job;
}

}  // namespace headworks::executor_queue
