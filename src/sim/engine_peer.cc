#include "engine_peer.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::engine {

std::int64_t EnginePeer::LiveMismatch(const Engine& engine) {
  std::int64_t mismatch = 0;
  for (const auto& lane : engine.lanes_) mismatch += static_cast<std::int32_t>(lane.live);
  for (const auto& [no, slot] : engine.slots_) mismatch -= slot->run.live;
  return mismatch;
}

bool EnginePeer::MayWriteYet(const Engine& engine) { return engine.pending_.has_value(); }

bool EnginePeer::HoldsAsStored(const Engine& engine, std::vector<store::Permit> stored) {
  std::vector<store::Permit> held = engine.pools_.Held();
  const auto key = [](const store::Permit& permit) { return std::pair(permit.run, permit.epoch); };
  std::ranges::sort(stored, {}, key);
  for (store::Permit& permit : stored) permit.granted_at = {};
  return held == stored;
}

std::string EnginePeer::WaitsForWorkers(const Engine& engine, std::string_view queue) {
  for (const auto& [no, slot] : engine.slots_) {
    const model::Run& run = slot->run;
    for (std::uint32_t t = 0; t < run.tasks.size(); ++t) {
      const model::Task& task = run.workflow->task(TaskNo(t));
      const model::TaskRun& state = run.tasks[t];
      const bool ready = state.state == model::TaskState::kReady &&
                         run.header.state == model::RunState::kRunning &&
                         run.header.paused_at == Instant{} && !Engine::AtMaxParallel(*slot) &&
                         state.reason != model::Reason::kPermit;
      if ((ready || state.state == model::TaskState::kQueued) &&
          std::holds_alternative<model::ExecAction>(task.action) && task.required.empty() &&
          model::QueueOf(task) == queue)
        return fmt::format("{} of run {}", task.id, no.value);
    }
  }
  return {};
}

std::string EnginePeer::Leftovers(const Engine& engine) {
  std::string left;
  const auto add = [&](std::string_view what, std::size_t count) {
    if (count > 0) left += fmt::format("{}{} {}", left.empty() ? "" : ", ", count, what);
  };
  add("runs", engine.slots_.size());
  add("task states", engine.task_states_);
  add("cancels", engine.cancels_.size());
  add("works", engine.backlog_.size());
  add("works for later", engine.later_.size());
  add("unacknowledged offers", engine.soft_failures_.size());
  add("offers that were once not answered", engine.overcome_failures_.size());
  add("overdue attempts", engine.overdue_.size());
  add("holders of permits to load", engine.holders_.size());
  add("late answers", engine.late_.size());
  add("attempts to inspect", engine.to_inspect_.size());
  add("stuck runs", engine.stuck_works_.size());
  add("unreadable runs", engine.unloadable_.size());
  add("inbox rows", engine.inbox_held_.size());
  add("pending rounds", engine.pending_ ? 1 : 0);
  add("tasks that wait for permits", engine.pools_.waiting());
  add("permits", static_cast<std::size_t>(engine.pools_.used()));
  for (const auto& lane : engine.lanes_) {
    add("live attempts", lane.live);
    for (const auto& [line, refs] : lane.deferred) add("deferred attempts", refs.size());
  }
  return left;
}

}  // namespace headworks::engine
