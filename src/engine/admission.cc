// Admission: runs in the store that come into memory, tenants in turn.

#include <algorithm>
#include <numeric>

#include "headworks/engine/engine.h"

namespace headworks::engine {
namespace {

/// With more to do than this, no runs are admitted.
constexpr std::size_t kAdmitBacklog = 1'000;
/// So many runs come in whatever the credit.
constexpr std::size_t kAdmitFew = 64;
/// Tenants that are looked up at once.
constexpr std::size_t kTenantPage = 1'000;
/// All that is due is looked for so often, should something have been missed; what is to be woken
/// later than the next look is left to it.
constexpr Duration kScanInterval = std::chrono::minutes(5);

}  // namespace

bool Engine::HasRoom(std::uint32_t tasks) const {
  return slots_.empty() ||
         (slots_.size() < options_.max_runs && task_states_ + tasks <= options_.max_task_states);
}

std::size_t Engine::RoomForRuns() const {
  const std::size_t most = std::max(options_.max_runs, 1U);
  return most - std::min<std::size_t>(slots_.size(), most);
}

bool Engine::MayAdmit() const {
  return (due_tenants_after_ || !due_.empty()) && !memory_full_ && backlog_.size() <= kAdmitBacklog;
}

void Engine::Admit() {
  const Duration mono = clock_.Monotonic();
  if (mono >= next_scan_) {
    next_scan_ = mono + kScanInterval;
    if (options_.recover) due_tenants_after_.emplace();
    PassPlaceOn(RunNo(0));  // should one have missed its turn
    active_runs_.Tidy(mono);
    AuditPermits();
  }
  if (!MayAdmit() || mono < admit_at_) return;
  if (!FindDueTenants() || !AdmitInTurn()) admit_at_ = mono + kScanAgain;
}

bool Engine::FindDueTenants() {
  if (!due_tenants_after_) return true;
  const Instant until = clock_.Now() + kScanInterval;
  const auto tenants =
      database_.runs().ListDueTenants(shards_, until, *due_tenants_after_, kTenantPage);
  if (!tenants) {
    logger_.Warning("tenants with due runs cannot be listed", {{"error", tenants.error().message}});
    return false;
  }
  for (const TenantId& tenant : *tenants) due_.AddAll(tenant, until);
  if (tenants->size() < kTenantPage)
    due_tenants_after_.reset();
  else
    due_tenants_after_ = tenants->back();
  return true;
}

std::size_t Engine::AdmitBatch() const {
  // Each attempt whose end waits frees a place, each run that waits to go on may take one.
  std::size_t has = 0, takes = 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    if (lanes_[l].has_lines) return options_.admit_batch;
    const std::uint32_t max = dispatcher_.GetCapacity(l).max;
    has += max - std::min(lanes_[l].live, max);
    takes += lanes_[l].ready.size();
  }
  for (const Work& work : backlog_)
    if (const auto* event = std::get_if<model::Event>(&work.what))
      ++(std::holds_alternative<model::AttemptEnded>(*event) ? has : takes);
  return std::min(options_.admit_batch, std::max(has - std::min(has, takes), kAdmitFew));
}

bool Engine::AdmitInTurn() {
  const Instant now = clock_.Now();
  std::size_t states = 0;
  const std::size_t batch = AdmitBatch();
  due_.ShareOut(batch, RoomForRuns());
  for (std::size_t rows = batch; rows > 0 && !due_.empty();) {
    const std::size_t room = RoomForRuns();
    memory_full_ = room == 0;  // until a run leaves it
    if (memory_full_) return true;
    const DueTenants::Page page = due_.Next(rows, room);
    auto listed =
        database_.runs().ListDue(page.tenant, shards_, page.until, page.after, page.limit);
    if (!listed) {
      logger_.Warning("due runs cannot be listed", {{"error", listed.error().message}});
      return false;
    }
    rows -= std::min(rows, listed->size());  // an empty page ends its list
    const bool complete = listed->size() < page.limit;
    bool turn_over = false;
    for (std::size_t i = 0; i < listed->size() && !turn_over; ++i) {
      if (states >= kAdmitStates) return true;  // the rest after this round
      model::RunHeader& run = (*listed)[i];
      const DueTenants::Place place = DueTenants::PlaceOf(run);
      const Admission done = AdmitRun(std::move(run), now, states);
      if (done == Admission::kUnavailable) return false;  // from this one on
      memory_full_ = done == Admission::kNoRoom;
      if (memory_full_) return true;
      turn_over = !due_.Passed(place, done == Admission::kDone) && i + 1 < listed->size();
    }
    due_.PageOver(complete && !turn_over);
  }
  return true;
}

Engine::Admission Engine::AdmitRun(model::RunHeader run, Instant now, std::size_t& states) {
  if (slots_.contains(run.run_no) || active_runs_.IsWaiting(run.run_no))
    return Admission::kPassedOver;
  if (run.wake_at > now) {
    AddTimer(Timer{.due = clock_.Monotonic() + (run.wake_at - now),
                   .kind = Timer::Kind::kWake,
                   .when = run.wake_at,
                   .tenant = run.tenant,
                   .ref = {run.run_no, TaskNo(0), Epoch(0)}});
    return Admission::kPassedOver;
  }
  const bool pending = run.state == model::RunState::kPending;
  if ((pending && !start_tasks_) || !CheckLoadable(run.run_no)) return Admission::kPassedOver;
  const std::uint32_t tasks = std::accumulate(run.counts.begin(), run.counts.end(), 0U);
  if (!HasRoom(tasks)) return Admission::kNoRoom;
  states += tasks + (pending ? 0 : kLoadStates);
  // A pending run has no rows but its own, which is here.  One that is paused, that has ended and
  // left zombies, or that only recovers, is loaded all the same: its commands, timers and live
  // attempts are to be followed.
  const auto loaded =
      pending ? Build({.header = std::move(run), .tasks = {}, .executors = {}, .holders = {}}, now)
              : Load(run.tenant, run.run_no, now);
  if (!loaded)
    return loaded.error().code == Code::kUnavailable ? Admission::kUnavailable
                                                     : Admission::kPassedOver;
  Continue(**loaded,
           pending ? model::Event(model::StartRun{}) : model::Event(model::ContinueRun{}));
  return Admission::kDone;
}

void Engine::WakeRun(const Timer& timer) {
  if (slots_.contains(timer.ref.run)) return;
  if (!HasRoom(1))  // it is listed when there is
    return due_.AddWoken(timer.tenant, std::max(timer.when, clock_.Now()));
  // Due by the monotonic clock: where the wall stands by now does not count.
  const auto loaded = Load(timer.tenant, timer.ref.run, std::max(timer.when, clock_.Now()));
  if (loaded) {
    const bool starts = start_tasks_ && (*loaded)->run.header.state == model::RunState::kPending;
    return Continue(**loaded,
                    starts ? model::Event(model::StartRun{}) : model::Event(model::ContinueRun{}));
  }
  if (loaded.error().code != Code::kUnavailable) return;
  Timer again = timer;
  again.due = clock_.Monotonic() + kScanAgain;
  AddTimer(std::move(again));
}

}  // namespace headworks::engine
