// Permits: tasks that name a pool, between the ready queue and the dispatcher.

#include <algorithm>
#include <set>

#include "headworks/engine/engine.h"
#include "headworks/executor/attempt_log.h"

namespace headworks::engine {

PermitAsk Engine::AskOf(const Slot& slot, const ReadyTask& ready) const {
  const model::Task& task = slot.run.workflow->task(ready.task);
  return {slot.run.header.tenant, task.pool, task.weight, ready};
}

bool Engine::LimitsAreFresh(const TenantId& tenant) {
  const Duration mono = clock_.Monotonic();
  if (pools_.IsFresh(tenant, mono)) return true;
  if (mono < limits_failed_at_ + Pools::kFresh) return false;
  const auto pools = database_.limits().ListPools(tenant);
  if (!pools) {
    limits_failed_at_ = mono;
    logger_.Warning("pools cannot be listed; their tasks wait",
                    {{"tenant", tenant.value}, {"error", pools.error().message}});
    return false;
  }
  pools_.SetLimits(tenant, *pools, mono);
  return true;
}

void Engine::RefreshLimits() {
  const Duration mono = clock_.Monotonic();
  if (pools_.waiting() == 0 || mono < limits_at_) return;
  limits_at_ = mono + Pools::kFresh;
  for (const TenantId& tenant : pools_.Stale(mono)) static_cast<void>(LimitsAreFresh(tenant));
}

bool Engine::MayTakePermits(const PermitAsk& ask) {
  return LimitsAreFresh(ask.tenant) && pools_.MayTake(ask, clock_.Monotonic());
}

bool Engine::GetPermits(Slot& slot, const ReadyTask& ready, std::vector<Work>& works) {
  if (slot.run.workflow->task(ready.task).pool.empty()) return true;
  const PermitAsk ask = AskOf(slot, ready);
  if (MayTakePermits(ask)) return true;
  // One that waits already is not visited: nothing in the round would bring it back if that fails.
  if (slot.run.tasks[ready.task.value].reason != model::Reason::kPermit) {
    const model::AskPermits event{ready.task};
    Visit(slot);
    works.push_back(EventOf(slot, event));
    if (const auto stepped = StepSlot(slot, event); !stepped)
      executor::ForAttempt(logger_,
                           MakeAttempt(slot, ready.task, slot.run.tasks[ready.task.value].epoch))
          .Warning("ready task does not wait for permits", {{"error", stepped.error().message}});
  }
  // One whose run is paused, say, is ready anew when that is over.
  if (slot.run.tasks[ready.task.value].reason != model::Reason::kPermit ||
      slot.run.header.paused_at != Instant{})
    return false;
  slot.asking = true;
  pools_.Wait(ask);
  if (!options_.recover) WakeHolders(ask);
  return false;
}

void Engine::WakeHolders(const PermitAsk& ask) {
  if (!woken_pools_.emplace(ask.tenant.value, ask.pool).second) return;
  for (const store::Permit& permit : pools_.Held()) {
    if (permit.tenant != ask.tenant || permit.pool != ask.pool || slots_.contains(permit.run))
      continue;
    logger_.Warning("an older run goes on, too: a task waits for the permits that it holds",
                    {{"tenant", permit.tenant.value},
                     {"run", std::to_string(permit.run.value)},
                     {"pool", permit.pool}});
    holders_.insert({permit.tenant, permit.run});
  }
}

void Engine::LoadHolders() {
  if (clock_.Monotonic() < holders_at_) return;
  for (std::size_t states = 0; !holders_.empty() && states < kAdmitStates;) {
    const auto holder = holders_.begin();
    const auto loaded = Load(holder->tenant, holder->run, clock_.Now());
    if (!loaded && loaded.error().code == Code::kUnavailable) {
      holders_at_ = clock_.Monotonic() + kScanAgain;
      return;
    }
    if (loaded) {
      Continue(**loaded, model::ContinueRun{});
      states += (*loaded)->run.tasks.size() + kLoadStates;
    }
    holders_.erase(holder);
  }
}

void Engine::MovePermits(Slot& slot, std::size_t attempts, std::size_t offers) {
  const model::Workflow& workflow = *slot.run.workflow;
  const model::RunHeader& header = slot.run.header;
  std::size_t rows = 0;
  for (; attempts < slot.changes.attempts.size(); ++attempts) {
    const model::AttemptRecord& over = slot.changes.attempts[attempts];
    if (workflow.task(over.task).pool.empty()) continue;
    pools_.Free(header.run_no, over.epoch);
    ++rows;
  }
  for (; offers < slot.changes.offers.size(); ++offers) {
    const auto& [no, epoch] = slot.changes.offers[offers];
    const model::Task& task = workflow.task(no);
    if (task.pool.empty()) continue;
    pools_.Take(header.tenant, task.pool, task.weight, header.run_no, no, epoch);
    ++rows;
  }
  round_rows_ += rows;
}

void Engine::ForgetAsks() {
  for (const RunNo run : visited_) {
    const auto found = slots_.find(run);
    if (found == slots_.end() || !found->second->asking) continue;
    Slot& slot = *found->second;
    if (slot.run.header.paused_at != Instant{}) pools_.Forget(run);
    for (const TaskNo task : slot.changes.tasks)
      if (slot.run.tasks[task.value].state != model::TaskState::kReady) pools_.Forget(run, task);
    slot.asking = pools_.IsWaiting(run);
  }
}

void Engine::WritePermits(const Slot& slot, store::RunWrite& write, Instant now) const {
  for (const model::AttemptRecord& over : slot.changes.attempts)
    if (!slot.run.workflow->task(over.task).pool.empty()) write.freed.push_back(over.epoch);
  for (const auto& [no, epoch] : slot.changes.offers) {
    const model::Task& task = slot.run.workflow->task(no);
    if (!task.pool.empty()) write.grants.push_back({task.pool, epoch, no, task.weight, now});
  }
}

void Engine::ReservePermits() {
  if (pools_.waiting() == 0) return;
  for (const PermitAsk& ask : pools_.Reserve(clock_.Monotonic())) {
    const auto slot = slots_.find(ask.ready.run);
    if (slot == slots_.end()) continue;
    PushReady(ask.tenant, *slot->second->run.workflow, ask.ready);
  }
}

bool Engine::LoadHolder(const store::Permit& permit) {
  if (HasRoom(1)) return false;  // then it was loaded with the others
  const auto loaded = Load(permit.tenant, permit.run, clock_.Now());
  if (loaded) Continue(**loaded, model::ContinueRun{});
  return loaded || loaded.error().code == Code::kUnavailable;
}

void Engine::AuditPermits() {
  const auto stored = database_.limits().ListAllPermits();
  if (!stored)
    return logger_.Warning("permits cannot be listed, so they are not audited",
                           {{"error", stored.error().message}});
  const auto complain = [&](std::string_view what, const store::Permit& permit) {
    ++stats_.permits_astray;
    // Of a run that is over, or was never known, the number of the task is all there is.
    executor::Attempt of;
    of.key = {permit.tenant, permit.run, permit.task, -1, permit.epoch};
    if (const auto slot = slots_.find(permit.run);
        slot != slots_.end() && permit.task.value < slot->second->run.tasks.size())
      of = MakeAttempt(*slot->second, permit.task, permit.epoch);
    executor::ForAttempt(logger_, of).Error(what, {{"pool", permit.pool}});
  };
  std::set<std::pair<RunNo, Epoch>> held, rows;
  for (const store::Permit& permit : *stored) rows.emplace(permit.run, permit.epoch);
  for (const store::Permit& permit : pools_.Held()) {
    held.emplace(permit.run, permit.epoch);
    if (!rows.contains({permit.run, permit.epoch}))
      complain("a permit is held in memory only", permit);
    const auto slot = slots_.find(permit.run);
    if (slot == slots_.end()) {
      // Those with live attempts are in memory, but for what cannot be, or is still to be loaded.
      const bool aside = !CheckLoadable(permit.run) || !options_.recover ||
                         holders_.contains({permit.tenant, permit.run});
      if (!aside && !LoadHolder(permit)) complain("a permit is held by a run that is over", permit);
      continue;
    }
    const auto& tasks = slot->second->run.tasks;
    const model::TaskRun* task =
        permit.task.value < tasks.size() ? &tasks[permit.task.value] : nullptr;
    if (task == nullptr || task->epoch != permit.epoch ||
        !(model::IsLive(task->state) || task->zombie))
      complain("a permit is held by an attempt that is over", permit);
  }
  for (const store::Permit& permit : *stored)
    if (!held.contains({permit.run, permit.epoch}))
      complain("a permit is stored that nobody holds", permit);
}

}  // namespace headworks::engine
