#include "headworks/sim/workflow_generator.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

model::Task GenerateTask(Dice& dice, std::uint32_t number) {
  model::Task task;
  task.id = fmt::format("t{}", number);
  if (dice.Chance(600))
    task.action = model::FunctionAction{"f"};
  else
    task.action = model::ExecAction{{"/bin/true"}};
  if (dice.Chance(400)) {
    task.retry.max_attempts = 1 + static_cast<int>(dice.Below(4));
    task.retry.max_losses = 1 + static_cast<int>(dice.Below(6));
    task.retry.backoff = static_cast<model::Backoff>(dice.Below(3));
    task.retry.initial = dice.Between(milliseconds(0), seconds(5));
    task.retry.max = task.retry.initial + dice.Between(milliseconds(0), minutes(1));
  }
  if (dice.Chance(150)) task.timeout = dice.Between(seconds(1), minutes(2));
  if (dice.Chance(300)) task.priority = static_cast<int>(dice.Below(7)) - 3;
  if (dice.Chance(350)) task.trigger_rule = static_cast<model::TriggerRule>(dice.Below(11));
  task.allow_failure = dice.Chance(150);
  return task;
}

}  // namespace

model::WorkflowDefinition GenerateWorkflow(Dice& dice, std::string name, std::uint32_t max_tasks) {
  model::WorkflowDefinition definition;
  definition.name.workflow = std::move(name);
  if (dice.Chance(150)) definition.timeout = dice.Between(seconds(1), minutes(5));
  if (dice.Chance(200)) definition.finally_timeout = dice.Between(seconds(1), minutes(2));
  if (dice.Chance(300)) definition.cancel_timeout = dice.Between(seconds(1), minutes(2));
  if (dice.Chance(250)) definition.on_failure = model::OnFailure::kCancelRest;
  if (dice.Chance(250)) definition.max_parallel = 1 + static_cast<int>(dice.Below(3));

  const std::uint32_t size = 1 + dice.Below(1 + dice.Below(max_tasks));
  std::vector<std::string> main, on_cancel, finally;
  const bool special = dice.Chance(350);
  // At most as many edges as keep the rules interesting: with too many, nothing ever runs.
  const std::uint32_t most_needs = 1 + dice.Below(4);
  for (std::uint32_t i = 0; i < size; ++i) {
    model::Task task = GenerateTask(dice, i);
    if (special && i > 0 && dice.Chance(250))
      task.role = dice.Chance(500) ? model::TaskRole::kFinally : model::TaskRole::kOnCancel;
    auto& peers = task.role == model::TaskRole::kMain      ? main
                  : task.role == model::TaskRole::kFinally ? finally
                                                           : on_cancel;
    for (std::uint32_t n = peers.empty() ? 0 : dice.Below(most_needs + 1); n > 0; --n) {
      const auto& need = peers[dice.Below(static_cast<std::uint32_t>(peers.size()))];
      if (std::ranges::find(task.needs, need) == task.needs.end()) task.needs.push_back(need);
    }
    peers.push_back(task.id);
    definition.tasks.push_back(std::move(task));
  }
  return definition;
}

void AddConditions(Dice& dice, model::WorkflowDefinition& definition) {
  if (dice.Chance(250)) definition.max_active_runs = 1 + static_cast<int>(dice.Below(2));
  for (model::Task& task : definition.tasks) {
    if (dice.Chance(250)) task.when = {"asked"};
    if (dice.Chance(150)) task.deadline = dice.Between(seconds(1), minutes(2));
  }
}

void AddConcurrency(Dice& dice, model::WorkflowDefinition& definition) {
  model::Concurrency concurrency{.key = "params.key"};
  concurrency.on_conflict = static_cast<model::OnConflict>(dice.Below(3));
  if (dice.Chance(750)) concurrency.limit = 1 + static_cast<int>(dice.Below(2));
  if (concurrency.limit == 0 || dice.Chance(250)) {
    concurrency.rate = 1 + static_cast<int>(dice.Below(3));
    concurrency.rate_per = dice.Between(seconds(1), minutes(2));
  }
  if (concurrency.limit == 0 && concurrency.on_conflict == model::OnConflict::kCancelPrevious)
    concurrency.on_conflict = model::OnConflict::kQueue;
  definition.concurrency = concurrency;
}

void AddPools(Dice& dice, model::WorkflowDefinition& definition) {
  for (model::Task& task : definition.tasks) {
    if (!dice.Chance(500)) continue;
    task.pool = fmt::format("pool-{}", dice.Below(kPools));
    task.weight = 1 + static_cast<int>(dice.Below(kMostPermits));
  }
}

void AddQueue(Dice& dice, std::string_view queue, std::string_view label,
              model::WorkflowDefinition& definition) {
  for (model::Task& task : definition.tasks) {
    if (dice.Chance(400)) task.queue = queue;
    if (dice.Chance(150)) task.required = {std::string(label)};
  }
}

}  // namespace headworks::sim
