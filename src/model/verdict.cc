#include <fmt/format.h>
#include <algorithm>

#include "headworks/base/random.h"
#include "stepper.h"

/// How the end of an attempt moves its task, and the three budgets: tries, dispatch failures,
/// losses.  Never mixed (I7).
namespace headworks::model {
namespace {

constexpr int kMaxDispatchFailures = 6;
constexpr std::size_t kMaxErrorBytes = 4096;  // of what an executor says

/// 5 s doubling to 5 min.
constexpr RetryPolicy kDispatchBackoff{.max_attempts = kMaxDispatchFailures,
                                       .backoff = Backoff::kExponential,
                                       .initial = std::chrono::seconds(5),
                                       .max = std::chrono::minutes(5),
                                       .jitter = 0.2};

/// 0.5 s doubling to 1 min, from the second loss on; widely drawn, so that what takes its host
/// down with it and what merely ran beside it do not meet again each time.
constexpr RetryPolicy kLossBackoff{.backoff = Backoff::kExponential,
                                   .initial = std::chrono::milliseconds(500),
                                   .max = std::chrono::minutes(1),
                                   .jitter = 0.5};

void Truncate(std::string& text) {
  if (text.size() <= kMaxErrorBytes) return;
  std::size_t end = kMaxErrorBytes;
  // Back to the start of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
}

}  // namespace

std::uint64_t Stepper::Seed(TaskNo no) const {
  const auto mix = [](std::uint64_t seed, std::uint64_t value) { return Mix64(seed + value); };
  return mix(
      mix(mix(0x9e3779b97f4a7c15U, static_cast<std::uint64_t>(header_.run_no.value)), no.value),
      static_cast<std::uint64_t>(At(no).epoch.value));
}

void Stepper::Record(TaskNo no, const Outcome& outcome) {
  const TaskRun& task = At(no);
  AttemptRecord record{.task = no,
                       .epoch = task.epoch,
                       .try_no = task.tries + 1,
                       .generation = task.generation,
                       .queued_at = task.zombie ? Instant{} : task.not_before,
                       .outcome = {.verdict = outcome.verdict,
                                   .reason = outcome.reason,
                                   .error = outcome.error,
                                   .output = {},
                                   .exit_code = outcome.exit_code,
                                   .signal = outcome.signal,
                                   .not_before = outcome.not_before,
                                   .started_at = outcome.started_at,
                                   .ended_at = outcome.ended_at}};
  // What is lost says nothing of its times, but the engine heard of its start.
  if (!IsSet(outcome.started_at) && task.state == TaskState::kRunning)
    record.outcome.started_at = task.since;
  if (!IsSet(outcome.ended_at)) record.outcome.ended_at = now_;
  Truncate(record.outcome.error);
  changes_.attempts.push_back(std::move(record));
}

Status Stepper::On(const AttemptEnded& event) {
  if (!Exists(event.task)) return Superseded();
  TaskRun& task = At(event.task);
  if (task.epoch != event.epoch || !(IsLive(task.state) || task.zombie)) return Superseded();
  if (event.unstarted && task.state == TaskState::kRunning) return Stale();
  Record(event.task, event.outcome);
  if (task.zombie) {
    // Its task is settled long since; now the attempt is provably over too.
    task.zombie = false;
    task.cancel_sent = false;
    --run_.live;
    Touch(event.task);
    return {};
  }
  ApplyVerdict(event.task, event.outcome);
  return {};
}

void Stepper::ApplyVerdict(TaskNo no, const Outcome& outcome) {
  TaskRun& task = At(no);
  const Task& spec = Spec(no);
  const bool stop = GateOf(spec.role) == Gate::kStop;
  const bool overdue = !stop && task.reason == Reason::kDeadline;
  const Reason failure = outcome.reason == Reason::kNone ? Reason::kError : outcome.reason;
  switch (outcome.verdict) {
    case Verdict::kSucceeded:
      ++task.tries;
      if (!outcome.output.empty()) changes_.outputs.emplace_back(no, outcome.output);
      return Settle(no, TaskState::kSucceeded, Reason::kNone);
    case Verdict::kSkipped:
      return Settle(no, TaskState::kSkipped, Reason::kNone);
    case Verdict::kFailed:
      ++task.tries;
      return Settle(no, TaskState::kFailed, failure);
    case Verdict::kRetry:
      ++task.tries;
      if (stop || overdue) break;
      if (task.tries >= spec.retry.max_attempts) return Settle(no, TaskState::kFailed, failure);
      return Park(no, Reason::kBackoff, now_ + spec.retry.DelayAfter(task.tries, Seed(no)));
    case Verdict::kSnoozed:
      ++task.snoozes;
      if (stop || overdue) break;
      return Park(no, Reason::kSnooze, std::max(outcome.not_before, now_));
    case Verdict::kInterrupted:
      if (stop || overdue) break;
      return Requeue(no);
    case Verdict::kLost:
      ++task.losses;
      if (stop || overdue) break;
      if (task.losses >= spec.retry.max_losses) {
        return Settle(no, TaskState::kFailed, Reason::kLost);
      }
      if (task.losses == 1) return Requeue(no);
      return Park(no, Reason::kLost, now_ + kLossBackoff.DelayAfter(task.losses - 1, Seed(no)));
    case Verdict::kCancelled:
      break;
  }
  if (overdue) return Settle(no, TaskState::kFailed, Reason::kDeadline);
  // Stopped on request: the run's, or somebody's who reached the attempt alone.
  Settle(no, TaskState::kCancelled, stop ? StopReason(spec.role) : Reason::kCancelRequested);
}

bool Stepper::WaitsForStart(TaskNo no, Epoch epoch) const {
  return Exists(no) && At(no).epoch == epoch && At(no).state == TaskState::kQueued &&
         !At(no).cancel_sent && At(no).reason != Reason::kDeadline;
}

Status Stepper::On(const AttemptOverdue& event) {
  if (!WaitsForStart(event.task, event.epoch) || At(event.task).reason == event.reason)
    return Stale();
  TaskRun& task = At(event.task);
  // Both count towards one bound, from the first of them on.
  if (task.reason == Reason::kNone || event.reason == Reason::kNone) task.since = now_;
  task.reason = event.reason;
  Touch(event.task);
  if (event.reason == Reason::kNone) return {};
  std::string why = event.why;
  Truncate(why);
  AddEvent("overdue", {}, fmt::format("{}: {}", Spec(event.task).id, why));
  return {};
}

Status Stepper::On(const AttemptHeldUp& event) {
  if (!WaitsForStart(event.task, event.epoch)) return Stale();
  std::string why = event.why;
  Truncate(why);
  AddEvent("held_up", {}, fmt::format("{}: {}", Spec(event.task).id, why));
  return {};
}

Status Stepper::On(const AttemptGivenUp& event) {
  if (!WaitsForStart(event.task, event.epoch) || At(event.task).reason == Reason::kNone)
    return Stale();
  const bool unknown = At(event.task).reason == Reason::kUnknown;
  Zombify(event.task, TaskState::kFailed, unknown ? Reason::kUnknown : Reason::kPendingTimeout);
  return {};
}

Status Stepper::On(const OfferAnswered& event) {
  if (!Exists(event.task)) return Superseded();
  TaskRun& task = At(event.task);
  if (task.epoch != event.epoch || !IsLive(task.state)) return Superseded();
  // One that started was dispatched, whatever the late answer says (I5).
  if (task.state == TaskState::kRunning) return Stale();
  Outcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.error = event.cause;
  outcome.ended_at = now_;
  if (event.disposition == Disposition::kRefused) {
    outcome.reason = Reason::kRefused;
    Record(event.task, outcome);
    Settle(event.task, TaskState::kFailed, Reason::kRefused);
    return {};
  }
  if (event.disposition != Disposition::kRejected) return Stale();
  ++task.dispatch_failures;
  outcome.reason = Reason::kDispatchFailed;
  const bool stop = GateOf(Spec(event.task).role) == Gate::kStop;
  const bool last = task.dispatch_failures >= kMaxDispatchFailures;
  if (!stop && !last) outcome.verdict = Verdict::kRetry;
  Record(event.task, outcome);
  if (stop) {
    Settle(event.task, TaskState::kCancelled, StopReason(Spec(event.task).role));
  } else if (last) {
    Settle(event.task, TaskState::kFailed, Reason::kDispatchFailed);
  } else {
    Park(event.task, Reason::kDispatchFailed,
         now_ + kDispatchBackoff.DelayAfter(task.dispatch_failures, Seed(event.task)));
  }
  return {};
}

void Stepper::Requeue(TaskNo no) {
  SetState(no, TaskState::kWaiting);
  if (IsSet(At(no).deadline)) AddWake(At(no).deadline, no);  // a paused run keeps it waiting
  Touch(no);
  Reconsider(no);
}

void Stepper::Park(TaskNo no, Reason reason, Instant until) {
  SetState(no, TaskState::kParked, reason);
  At(no).not_before = until;
  Touch(no);
  if (IsSet(At(no).deadline)) AddWake(At(no).deadline, no);
  if (until == kNever) return;
  changes_.timers.push_back({until, no});
  AddWake(until, no);
}

void Stepper::AddWake(Instant when, TaskNo no) {
  auto& wakes = run_.wakes;
  if (wakes.size() > 64 + 4 * header_.counts[static_cast<std::size_t>(TaskState::kParked)]) {
    std::erase_if(wakes, [this](const auto& wake) { return !Wakes(wake.first, wake.second); });
    std::ranges::make_heap(wakes, std::greater<>{});
  }
  wakes.emplace_back(when, no);
  std::ranges::push_heap(wakes, std::greater<>{});
}

void Stepper::Zombify(TaskNo no, TaskState state, Reason reason) {
  Tell(no);
  AddEvent("zombie", {},
           fmt::format("{}: attempt {} is not known to be over", Spec(no).id, At(no).epoch.value));
  Settle(no, state, reason);
  At(no).zombie = true;
  At(no).cancel_sent = true;
  ++run_.live;
}

}  // namespace headworks::model
