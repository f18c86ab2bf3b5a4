// Slots: the runs that are in memory, and how they get there.

#include <fmt/format.h>

#include <algorithm>

#include "headworks/engine/engine.h"

namespace headworks::engine {
namespace {

constexpr std::int64_t kMaxRunNoBlock = 4'096;

Error IsStuck() {
  return {Code::kConflict,
          "the run is parked as stuck; `headworks runs why` says why, and `headworks runs unstick` "
          "tries again"};
}

}  // namespace

Result<std::shared_ptr<const model::Workflow>> Engine::LoadWorkflow(const TenantId& tenant,
                                                                    const std::string& version) {
  const std::string key = tenant.value + "/" + version;
  if (const auto known = workflows_.find(key); known != workflows_.end()) return known->second;
  HEADWORKS_ASSIGN(const std::string text, database_.workflows().GetVersion(tenant, version));
  HEADWORKS_ASSIGN(auto workflow, model::Workflow::FromCanonicalJson(text, options_.defaults));
  // Versions that no run in memory uses are dropped once there are many.
  if (workflows_.size() > 1'000)
    std::erase_if(workflows_, [](const auto& entry) { return entry.second.use_count() == 1; });
  workflows_.emplace(key, workflow);
  return workflow;
}

Engine::Slot& Engine::Insert(model::Run run) {
  const RunNo no = run.header.run_no;
  task_states_ += static_cast<std::uint32_t>(run.tasks.size());
  auto& slot = slots_[no];
  slot = std::make_unique<Slot>();
  slot->run = std::move(run);
  CountTasks(*slot, false);
  return *slot;
}

Status Engine::CheckLoadable(RunNo run) const {
  if (stuck_works_.contains(run)) return IsStuck();
  if (const auto why = unloadable_.find(run); why != unloadable_.end()) return Error(why->second);
  return {};
}

Status Engine::CheckExecutors(const model::Workflow& workflow, const store::RunImage& image,
                              const model::Changes& effects) const {
  for (const auto& live : effects.offers) {
    const model::Task& task = workflow.task(live.task);
    const std::string_view now =
        dispatcher_.LaneName(dispatcher_.LaneOf(TenantId(workflow.name().tenant), task));
    const auto row = std::ranges::lower_bound(image.tasks, live.task, {}, &model::StoredTask::task);
    const std::string& then = image.executors[static_cast<std::size_t>(row - image.tasks.begin())];
    if (then != now)
      return Error{Code::kConflict,
                   fmt::format("task '{}' has an attempt with executor '{}', but would go to '{}' "
                               "now; the run is left alone: stop the engine, and start it with "
                               "'{}' for such tasks until their attempts are over",
                               task.id, then, now, then)};
  }
  return {};
}

Result<Engine::Slot*> Engine::Load(const TenantId& tenant, RunNo run, Instant now) {
  if (const auto found = slots_.find(run); found != slots_.end()) return found->second.get();
  HEADWORKS_TRY(CheckLoadable(run));
  auto image = database_.runs().LoadRun(tenant, run);
  if (!image && image.error().code == Code::kCorrupt)
    return ParkUnreadable(tenant, run, image.error());
  HEADWORKS_TRY(image);
  round_states_ += image->tasks.size() + kLoadStates;
  if (!image->header.stuck_reason.empty()) {
    stuck_works_.try_emplace(run);
    return IsStuck();
  }
  return Build(*std::move(image), now);
}

Error Engine::ParkUnreadable(const TenantId& tenant, RunNo run, const Error& why) {
  Park(tenant, run, "it cannot be read: " + why.message, {});
  return IsStuck();
}

Result<Engine::Slot*> Engine::Build(store::RunImage image, Instant now) {
  const RunNo run = image.header.run_no;
  const TenantId tenant = image.header.tenant;
  const Listing listed(image.header);  // Rebuild may find that it is to be looked at earlier
  auto workflow = LoadWorkflow(image.header.tenant, image.header.version);
  model::Changes effects;
  Result<model::Run> built =
      workflow ? model::Rebuild(std::move(image.header), *workflow, image.tasks, now, effects)
               : Result<model::Run>(Error(workflow.error()));
  if (built)
    if (const auto known = CheckExecutors(**workflow, image, effects); !known)
      built = Error(known.error());
  if (!built && built.error().code == Code::kConflict) {  // with this engine's configuration
    logger_.Error("run cannot be loaded; it is left alone", {{"tenant", tenant.value},
                                                             {"run", std::to_string(run.value)},
                                                             {"error", built.error().message}});
    unloadable_.insert_or_assign(run, built.error());
    return Error(built.error());
  }
  if (!built && built.error().code == Code::kUnavailable) return Error(built.error());
  if (!built) return ParkUnreadable(tenant, run, built.error());
  Slot& slot = Insert(std::move(*built));
  slot.listed = listed;
  slot.active = TakesPlace(slot.run);
  Visit(slot);
  for (const TaskNo task : effects.ready) PushReady(tenant, **workflow, MakeReady(slot, task));
  for (const auto& asked : effects.evaluate) Ask(slot, asked);
  for (const auto& timer : effects.timers) {
    if (timer.when <= now)
      slot.due.push_back({.when = timer.when, .task = timer.task});
    else
      PushTimer(slot, timer, now);
  }
  RestoreAttempts(slot, image, effects, now);
  for (const auto& cancel : effects.cancels) {
    CancelAttempt(slot, cancel.task, cancel.epoch);
    // Should its executor no longer have it, it tells nobody that it is over.
    if (slot.run.tasks[cancel.task.value].state != model::TaskState::kRunning)
      WatchStart(slot, {run, cancel.task, cancel.epoch});
  }
  if (effects.more || !slot.due.empty()) Continue(slot, model::ContinueRun{});
  return &slot;
}

void Engine::RestoreAttempts(Slot& slot, const store::RunImage& image,
                             const model::Changes& effects, Instant now) {
  const RunNo run = slot.run.header.run_no;
  std::unordered_map<TaskNo, const std::string*> holders;
  for (std::size_t i = 0; i < image.tasks.size(); ++i) {
    const model::StoredTask& row = image.tasks[i];
    holders.emplace(row.task, &image.holders[i]);
    if ((row.state == model::TaskState::kRunning || row.zombie) &&
        image.holders[i] != options_.owner)
      slot.claims.emplace(row.task, Claim{row.epoch, image.holders[i], false, clock_.Monotonic()});
    else if (row.state == model::TaskState::kQueued &&
             (row.reason == model::Reason::kPending || row.reason == model::Reason::kUnknown))
      // Its clock goes on: no further incarnation gives it another hour.
      overdue_.try_emplace(
          {run, row.task, row.epoch},
          Overdue{.since = clock_.Monotonic() - std::max(now - row.since, Duration(0))});
  }
  for (const auto& offer : effects.offers) {
    ++lanes_[LaneOf(slot, offer.task)].live;
    // What this incarnation handed out is still where it was.
    const auto holder = holders.find(offer.task);
    const LiveRef ref{run, offer.task, offer.epoch};
    const auto soft = soft_failures_.find(ref);
    if (soft != soft_failures_.end() && soft->second.answers == kAnsweredNo) continue;
    const bool mine = holder != holders.end() && *holder->second == options_.owner;
    if (mine && soft == soft_failures_.end() &&
        slot.run.tasks[offer.task.value].state == model::TaskState::kQueued &&
        !watched_.contains(ref))  // a run that comes back keeps its clock
      WatchStart(slot, ref);
    if (!mine || (soft != soft_failures_.end() && soft->second.answers == kInDoubt))
      Doubt(MakeAttempt(slot, offer.task, offer.epoch));
    else if (soft != soft_failures_.end())
      Defer(slot.run.header.tenant, *slot.run.workflow, ref);
  }
}

void Engine::Continue(Slot& slot, model::Event event) {
  if (!std::exchange(slot.continuing, true)) backlog_.push_back(EventOf(slot, std::move(event)));
}

void Engine::Visit(Slot& slot) {
  if (std::exchange(slot.visited, true)) return;
  visited_.push_back(slot.run.header.run_no);
}

ReadyTask Engine::MakeReady(const Slot& slot, TaskNo task) {
  const model::Task& spec = slot.run.workflow->task(task);
  const model::RunHeader& header = slot.run.header;
  const ReadyQueue& ready = lanes_[LaneOf(slot, task)].ready;
  Duration since = clock_.Monotonic();
  // One that asked for permits before a restart is as old as its question.
  if (const model::TaskRun& state = slot.run.tasks[task.value];
      state.reason == model::Reason::kPermit)
    since -= std::max(clock_.Now() - state.not_before, Duration(0));
  return {ready.Rank(header.priority + spec.priority, since), ready_order_++, header.run_no, task};
}

void Engine::PushReady(const TenantId& tenant, const model::Workflow& workflow,
                       const ReadyTask& ready) {
  const std::size_t at = dispatcher_.LaneOf(tenant, workflow.task(ready.task));
  Lane& lane = lanes_[at];
  if (lane.has_lines)
    lane.ready.PushToLine(tenant, dispatcher_.LineOf(at, workflow, ready.task), ready);
  else
    lane.ready.Push(tenant, ready);
}

void Engine::Hold(Slot& slot, const ReadyTask& ready) {
  const std::size_t lane = LaneOf(slot, ready.task);
  slot.held[lane].Hold(LineOf(lane, slot.run.header.tenant, *slot.run.workflow, ready.task).second,
                       ready);
}

bool Engine::ReleaseHeld(Slot& slot) {
  bool any = false;
  const auto limit = static_cast<std::uint32_t>(slot.run.workflow->definition().max_parallel);
  // So many of each lane, for others may have no credit (I11); what is too many is held again.
  for (auto lane = slot.held.begin(); lane != slot.held.end();) {
    HeldTasks& held = lane->second;
    const bool has_lines = lanes_[lane->first].has_lines;
    for (std::uint32_t live = slot.run.live; live < limit; ++live) {
      const auto next = held.LetGo();
      if (!next) break;
      any = true;
      PushReady(slot.run.header.tenant, *slot.run.workflow, *next);
      if (!has_lines) held.Over("");  // any number of them competes
    }
    if (has_lines && held.has_next()) lanes_[lane->first].letting_go.insert(slot.run.header.run_no);
    lane = held.empty() ? slot.held.erase(lane) : std::next(lane);
  }
  return any;
}

bool Engine::ReleaseOthers(std::size_t lane) {
  bool any = false;
  std::erase_if(lanes_[lane].letting_go, [&](RunNo run) {
    const auto found = slots_.find(run);
    if (found == slots_.end() || AtMaxParallel(*found->second)) return true;
    Slot& slot = *found->second;
    const auto held = slot.held.find(lane);
    const auto next = held == slot.held.end() ? std::nullopt : held->second.LetGo();
    if (!next) return true;
    any = true;
    PushReady(slot.run.header.tenant, *slot.run.workflow, *next);
    if (held->second.empty()) slot.held.erase(held);
    return false;
  });
  return any;
}

void Engine::PushTimer(const Slot& slot, const model::Changes::Timer& timer, Instant now) {
  if (timer.when == kNever) return;
  const Duration delay = std::max(timer.when - now, Duration(0));
  AddTimer(Timer{.due = clock_.Monotonic() + delay,
                 .kind = timer.task ? Timer::Kind::kTask : Timer::Kind::kRun,
                 .when = timer.when,
                 .ref = {slot.run.header.run_no, timer.task.value_or(TaskNo(0)), Epoch(0)}});
}

void Engine::Evict(RunNo run) {
  const auto found = slots_.find(run);
  if (found == slots_.end()) return;
  Slot& slot = *found->second;
  slot.run.header.counts = {};
  CountTasks(slot, false);
  if (slot.run.live > 0)
    for (std::uint32_t t = 0; t < slot.run.workflow->size(); ++t)
      if (model::IsLive(slot.run.tasks[t].state) || slot.run.tasks[t].zombie)
        --lanes_[LaneOf(slot, TaskNo(t))].live;
  if (slot.asking) pools_.Forget(run);
  task_states_ -= static_cast<std::uint32_t>(slot.run.tasks.size());
  memory_full_ = false;
  slots_.erase(found);
}

void Engine::EvictVisited() {
  for (const RunNo run : visited_) {
    const auto found = slots_.find(run);
    if (found == slots_.end()) continue;
    Slot& slot = *found->second;
    slot.visited = false;
    const model::RunHeader& header = slot.run.header;
    const bool pending = header.state == model::RunState::kPending;
    if (!slot.deleted && (slot.continuing || !model::IsEvictable(slot.run))) continue;
    // A pending run that is to be started right away stays.
    if (pending && !slot.deleted && !active_runs_.IsWaiting(run)) due_.AddPending(header);
    std::optional<Timer> wake;
    if (!slot.deleted && !model::IsTerminal(header.state) && !pending && header.wake_at != kNever &&
        header.wake_at - clock_.Now() < std::chrono::hours(1))
      wake = Timer{.due = clock_.Monotonic() + std::max(header.wake_at - clock_.Now(), Duration(0)),
                   .kind = Timer::Kind::kWake,
                   .when = header.wake_at,
                   .tenant = header.tenant,
                   .ref = {run, TaskNo(0), Epoch(0)}};
    Evict(run);
    if (wake) AddTimer(*std::move(wake));  // wanted once the run is gone
  }
  visited_.clear();
}

Status Engine::ReserveRunNos() {
  if (next_run_no_ != run_no_end_) return {};
  HEADWORKS_ASSIGN(next_run_no_, database_.runs().ReserveRunNos(run_no_block_));
  run_no_end_ = RunNo(next_run_no_.value + run_no_block_);
  run_no_block_ = std::min(run_no_block_ * 2, kMaxRunNoBlock);
  return {};
}

Result<RunNo> Engine::NextRunNo() {
  HEADWORKS_TRY(ReserveRunNos());
  const RunNo run = next_run_no_;
  ++next_run_no_.value;
  return run;
}

}  // namespace headworks::engine
