// Overdue: attempts that their executors took and that do not start.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "headworks/engine/engine.h"
#include "headworks/executor/attempt_log.h"

namespace headworks::engine {
namespace {

/// How often an overdue attempt is asked about: each `start_timeout`, within these.
constexpr Duration kShortestAskAgain = std::chrono::seconds(1);
constexpr Duration kLongestAskAgain = std::chrono::minutes(1);
/// How often is looked at what no executor takes.
constexpr Duration kHeldUpLook = std::chrono::seconds(5);
/// It is noted after this, and then whenever it has become so many times as old: a dozen notes are
/// years.
constexpr Duration kHeldUpFirst = std::chrono::seconds(10);
constexpr int kHeldUpAgain = 4;

std::string_view SayHeldUp(model::Disposition disposition) {
  switch (disposition) {
    case model::Disposition::kDeferred:
      return "has no room";
    case model::Disposition::kBackpressure:
      return "says later";
    default:
      return "could not answer";
  }
}

}  // namespace

void Engine::WatchStart(const Slot& slot, const LiveRef& ref) {
  WatchStartUntil(ref, clock_.Monotonic() + slot.run.workflow->task(ref.task).start_timeout);
}

void Engine::WatchStartUntil(const LiveRef& ref, Duration due) {
  unstarted_.push_back({ref, due});
  std::ranges::push_heap(unstarted_, std::greater<>{});
  watched_.insert_or_assign(ref, due);
  if (unstarted_.size() < tidy_unstarted_at_) return;
  std::erase_if(watched_, [this](const auto& watched) {
    return !WaitsForStart({watched.first, watched.second});
  });
  std::erase_if(unstarted_, [this](const Unstarted& waits) { return !IsWatched(waits); });
  std::ranges::make_heap(unstarted_, std::greater<>{});
  tidy_unstarted_at_ = std::max(kFewTimers, 2 * unstarted_.size());
}

bool Engine::IsUnstarted(const LiveRef& ref) const {
  const auto slot = slots_.find(ref.run);
  if (slot == slots_.end()) return false;
  const model::TaskRun& task = slot->second->run.tasks[ref.task.value];
  return task.epoch == ref.epoch && (task.state == model::TaskState::kQueued || task.zombie);
}

bool Engine::IsWatched(const Unstarted& waits) const {
  const auto watched = watched_.find(waits.ref);
  return watched != watched_.end() && watched->second == waits.due;
}

bool Engine::WaitsForStart(const Unstarted& waits) const {
  return !soft_failures_.contains(waits.ref) && IsUnstarted(waits.ref);
}

void Engine::CheckUnstarted() {
  const Duration mono = clock_.Monotonic();
  while (!unstarted_.empty() && unstarted_.front().due <= mono) {
    std::ranges::pop_heap(unstarted_, std::greater<>{});
    const Unstarted waits = unstarted_.back();
    unstarted_.pop_back();
    if (!IsWatched(waits)) continue;
    watched_.erase(waits.ref);
    if (!WaitsForStart(waits)) {
      if (!IsUnstarted(waits.ref)) DropOverdue(waits.ref);
      continue;
    }
    const Slot& slot = *slots_.at(waits.ref.run);
    // One that is to stop has other bounds, and yet nobody else would notice that it is gone.
    if (slot.run.tasks[waits.ref.task.value].cancel_sent)
      DropOverdue(waits.ref);
    else
      overdue_.try_emplace(waits.ref, Overdue{.since = mono});
    to_inspect_.push_back(MakeAttempt(slot, waits.ref.task, waits.ref.epoch));
  }
}

void Engine::NoteOverdue(const Slot& slot, const executor::Attempt& attempt, model::Reason reason,
                         const std::string& why, bool in_line) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const Duration mono = clock_.Monotonic();
  const Duration limit = attempt.task().start_timeout;
  Overdue& overdue = overdue_.try_emplace(ref, Overdue{.since = mono + limit}).first->second;
  overdue.absent = false;
  if (in_line)
    overdue.since = mono + limit;  // of which nothing has passed yet (I7)
  else if (mono < overdue.since)
    return AskAboutStart(attempt, overdue.since);
  if (overdue.reason != reason) {
    OverdueCount(overdue.reason) -= overdue.reason == model::Reason::kNone ? 0 : 1;
    ++OverdueCount(overdue.reason = reason);
    if (in_line)
      executor::ForAttempt(logger_, attempt).Info("an attempt waits for a place", {{"why", why}});
    else
      executor::ForAttempt(logger_, attempt)
          .Warning("an attempt has not started in time",
                   {{"start_timeout", FormatDuration(limit)},
                    {"executor_says", std::string(model::ReasonName(reason))},
                    {"why", why}});
    backlog_.push_back(EventOf(
        slot, model::AttemptOverdue{ref.task, ref.epoch, reason,
                                    fmt::format("attempt {} has not started within {}; {}",
                                                ref.epoch.value, FormatDuration(limit), why)}));
  }
  const Duration last = overdue.since + options_.pending_timeout;
  if (mono >= last && !in_line) {
    DropOverdue(ref);
    backlog_.push_back(EventOf(slot, model::AttemptGivenUp{ref.task, ref.epoch}));
  }
  AskAboutStart(attempt, last);
}

void Engine::AskAboutStart(const executor::Attempt& attempt, Duration latest) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  if (soft_failures_.contains(ref)) return;  // it has a timer of its own
  const Duration mono = clock_.Monotonic();
  const Duration due =
      mono + std::clamp(attempt.task().start_timeout, kShortestAskAgain, kLongestAskAgain);
  WatchStartUntil(ref, latest > mono ? std::min(due, latest) : due);
}

void Engine::ApplyOverdueAbsence(const executor::Attempt& attempt, Overdue& overdue) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  if (soft_failures_.contains(ref)) {  // it was not taken after all
    overdue.absent = false;
    return;
  }
  // That answer may be in the mail yet: it is sent before the attempt leaves a buffer.
  if (std::exchange(overdue.absent, true))
    return EndUnstarted(ref, model::Verdict::kLost,
                        "its executor took it, did not start it in time, and does not have it");
  to_inspect_.push_back(attempt);
}

void Engine::CountHeldUp(Soft& soft, const executor::OfferResult& result) {
  if (soft.offers++ == 0) {
    soft.since = clock_.Monotonic();
    soft.since_at = clock_.Now();
    soft.note_at = soft.since + kHeldUpFirst;
  }
  soft.said = fmt::format("it {} ({}){}{}", SayHeldUp(result.disposition),
                          model::DispositionName(result.disposition),
                          result.cause.empty() ? "" : ": ", result.cause);
}

void Engine::NoteHeldUp() {
  const Duration mono = clock_.Monotonic();
  if (soft_failures_.empty() || mono < held_up_at_) return;
  held_up_at_ = mono + kHeldUpLook;
  for (Lane& lane : lanes_) lane.held_up_since = Duration(0);
  for (auto& [ref, soft] : soft_failures_) {
    const auto slot = slots_.find(ref.run);
    if (soft.answers < 0 || soft.offers == 0 || slot == slots_.end()) continue;
    Duration& oldest = lanes_[LaneOf(*slot->second, ref.task)].held_up_since;
    oldest = oldest == Duration(0) ? soft.since : std::min(oldest, soft.since);
    if (mono < soft.note_at) continue;
    while (soft.note_at <= mono)
      soft.note_at = soft.since + kHeldUpAgain * (soft.note_at - soft.since);
    backlog_.push_back(EventOf(
        *slot->second,
        model::AttemptHeldUp{
            ref.task, ref.epoch,
            fmt::format("attempt {} is not taken by its executor since {}: offered {}, last {}",
                        ref.epoch.value, FormatInstant(soft.since_at),
                        soft.offers == 1 ? "once" : fmt::format("{} times", soft.offers),
                        soft.said)}));
  }
}

void Engine::DropOverdue(const LiveRef& ref) {
  if (overdue_.empty()) return;
  const auto overdue = overdue_.find(ref);
  if (overdue == overdue_.end()) return;
  if (overdue->second.reason != model::Reason::kNone) --OverdueCount(overdue->second.reason);
  overdue_.erase(overdue);
}

std::uint64_t& Engine::OverdueCount(model::Reason reason) {
  return reason == model::Reason::kUnknown ? stats_.attempts_unknown : stats_.attempts_pending;
}

}  // namespace headworks::engine
