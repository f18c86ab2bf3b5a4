#include "headworks/model/step.h"

#include <fmt/format.h>
#include <algorithm>

#include "stepper.h"

namespace headworks::model {

Status Step(Run& run, const Event& event, Instant now, std::size_t budget, Changes& changes) {
  if (!run.workflow || run.tasks.size() != run.workflow->size()) {
    return Error{Code::kInternal, fmt::format("run {} is not built from its workflow version",
                                              run.header.run_no.value)};
  }
  return Stepper(run, now, budget, changes).Apply(event);
}

Stepper::Stepper(Run& run, Instant now, std::size_t budget, Changes& changes)
    : run_(run),
      header_(run.header),
      now_(now),
      budget_(std::max<std::size_t>(budget, 1)),
      changes_(changes) {}

Status Stepper::Apply(const Event& event) {
  const Instant deadline = RunDeadline();
  HEADWORKS_TRY(std::visit([this](const auto& e) { return On(e); }, event));
  if (stale_) return {};
  Advance();
  UpdateWake();
  if (const Instant next = RunDeadline(); next != deadline && next != kNever) {
    changes_.timers.push_back({next, std::nullopt});
  }
  return {};
}

Status Stepper::Stale() {
  stale_ = true;
  return {};
}

Status Stepper::Superseded() {
  changes_.superseded = true;
  return Stale();
}

Status Stepper::On(const StartRun&) {
  if (header_.state != RunState::kPending) return Stale();
  header_.state = RunState::kRunning;
  header_.started_at = now_;
  changes_.header = true;
  changes_.started = true;
  ReconsiderAll();
  return {};
}

bool Stepper::MayQueue(TaskNo no) const {
  // Derivation keeps what may not run from being ready, so only the run's own brakes are left.
  return Exists(no) && At(no).state == TaskState::kReady && header_.state == RunState::kRunning &&
         !IsSet(header_.paused_at) && !Resetting() && !MustEvaluate(no);
}

void Stepper::GiveEpoch(TaskNo no) {
  At(no).epoch = header_.next_epoch;
  ++header_.next_epoch.value;
  changes_.header = true;
}

Status Stepper::On(const AskPermits& event) {
  if (!MayQueue(event.task) || At(event.task).reason == Reason::kPermit) return Stale();
  TaskRun& task = At(event.task);
  GiveEpoch(event.task);
  task.reason = Reason::kPermit;
  task.not_before = now_;
  Touch(event.task);
  return {};
}

Status Stepper::On(const QueueTask& event) {
  if (!MayQueue(event.task)) return Stale();
  TaskRun& task = At(event.task);
  if (const Duration limit = Spec(event.task).deadline;
      limit > Duration{0} && !IsSet(task.deadline)) {
    task.deadline = now_ + limit;
    changes_.timers.push_back({task.deadline, event.task});
  }
  if (task.reason != Reason::kPermit) GiveEpoch(event.task);
  task.not_before = now_;
  SetState(event.task, TaskState::kQueued);
  Touch(event.task);
  changes_.offers.push_back({event.task, task.epoch});
  return {};
}

Status Stepper::On(const AttemptStarted& event) {
  if (!Exists(event.task) || At(event.task).epoch != event.epoch || !IsLive(At(event.task).state)) {
    return Superseded();
  }
  if (At(event.task).state == TaskState::kRunning) return Stale();
  const bool overdue = At(event.task).reason == Reason::kDeadline;
  SetState(event.task, TaskState::kRunning, overdue ? Reason::kDeadline : Reason::kNone);
  Touch(event.task);
  AddBackstop(event.task);
  return {};
}

Status Stepper::On(const WhenEvaluated& event) {
  if (!Exists(event.task) || At(event.task).state != TaskState::kReady ||
      At(event.task).since != event.since || !MustEvaluate(event.task)) {
    return Stale();
  }
  if (!event.error.empty()) {
    AddEvent("expression", {}, fmt::format("{}: {}", Spec(event.task).id, event.error));
    Settle(event.task, TaskState::kFailed, Reason::kExpression);
  } else if (!event.holds) {
    Settle(event.task, TaskState::kSkipped, Reason::kWhen);
  } else {
    At(event.task).admitted = true;
    Touch(event.task);
    if (!IsSet(header_.paused_at)) AskFor(event.task);
  }
  return {};
}

Status Stepper::On(const TimerDue& event) {
  if (header_.state != RunState::kRunning) return Stale();
  return event.task ? OnTaskTimer(*event.task, event.when) : OnRunTimer(event.when);
}

Status Stepper::OnTaskTimer(TaskNo no, Instant when) {
  if (!Exists(no)) return Stale();
  const TaskRun& task = At(no);
  if (IsSet(task.deadline) && task.deadline == when && !IsTerminal(task.state) &&
      task.reason != Reason::kDeadline && GateOf(Spec(no).role) != Gate::kStop) {
    OnDeadline(no);
    return {};
  }
  if (IsLive(task.state) && task.reason == Reason::kDeadline && LastWait(no) == when) {
    Zombify(no, TaskState::kFailed, Reason::kDeadline);
    return {};
  }
  if (task.state == TaskState::kParked && task.not_before == when &&
      GateOf(Spec(no).role) != Gate::kStop) {  // else it stands in `to_settle`
    Requeue(no);
    return {};
  }
  if (task.state == TaskState::kRunning && Backstop(no) == when) {
    Zombify(no, TaskState::kFailed, Reason::kTimeout);
    return {};
  }
  return Stale();
}

Instant Stepper::LastWait(TaskNo no) const {
  return At(no).deadline + run_.workflow->definition().cancel_timeout;
}

void Stepper::TellOverdue(TaskNo no) {
  Tell(no);
  changes_.timers.push_back({LastWait(no), no});
}

void Stepper::OnDeadline(TaskNo no) {
  if (!IsLive(At(no).state)) return Settle(no, TaskState::kFailed, Reason::kDeadline);
  At(no).reason = Reason::kDeadline;
  Touch(no);
  TellOverdue(no);
}

Status Stepper::OnRunTimer(Instant when) {
  if (RunDeadline() != when) return Stale();
  if (!InFinally() && !Cancelling()) {
    BeginCancel(Reason::kRunTimeout, {});
  } else if (!InFinally()) {
    ZombifyLive(TaskRole::kOnCancel);
    StartFinally();
  } else if (!header_.finally_stopped) {
    StopFinally("finally_timeout", {});
  } else {
    ZombifyLive(TaskRole::kFinally);
  }
  return {};
}

Status Stepper::On(const CancelRun& event) {
  if (IsTerminal(header_.state)) {
    return Error{Code::kConflict, fmt::format("run {} has already ended ({}): nothing to cancel",
                                              header_.run_no.value, RunStateName(header_.state))};
  }
  if (header_.state == RunState::kPending) {
    // Nothing ran, so there is nothing to clean up: on_cancel and finally tasks do not run, and no
    // task gets a row.
    header_.cancel_requested_at = now_;
    header_.reason = Reason::kCancelRequested;
    AddEvent("cancel", event.actor);
    Finish();
    return {};
  }
  if (!Cancelling()) {
    BeginCancel(Reason::kCancelRequested, event.actor);
  } else if (!header_.finally_stopped) {
    StopFinally("second cancel", event.actor);
  } else {
    return Stale();
  }
  return {};
}

Status Stepper::On(const PauseRun& event) {
  if (IsTerminal(header_.state) || Cancelling()) {
    return Error{Code::kConflict,
                 fmt::format("run {} {}: it cannot be paused", header_.run_no.value,
                             IsTerminal(header_.state) ? "has ended" : "is being cancelled")};
  }
  if (IsSet(header_.paused_at)) return Stale();
  header_.paused_at = now_;
  changes_.header = true;
  AddEvent("pause", event.actor);
  return {};
}

Status Stepper::On(const ResumeRun& event) {
  if (IsTerminal(header_.state)) {
    return Error{Code::kConflict, fmt::format("run {} has ended: use rerun to run tasks again",
                                              header_.run_no.value)};
  }
  if (!IsSet(header_.paused_at)) return Stale();
  header_.paused_at = {};
  changes_.header = true;
  AddEvent("resume", event.actor);
  if (header_.counts[static_cast<std::size_t>(TaskState::kReady)] > 0) {
    for (std::uint32_t i = 0; i < run_.tasks.size(); ++i) {
      if (run_.tasks[i].state == TaskState::kReady) AskFor(TaskNo{i});
    }
  }
  return {};
}

Status Stepper::On(const ContinueRun&) { return {}; }

// ---- State and counters.

bool Stepper::Decides(TaskNo no, TaskState state) const {
  return (state == TaskState::kFailed || state == TaskState::kCancelled) && !Spec(no).allow_failure;
}

void Stepper::SetState(TaskNo no, TaskState to, Reason reason) {
  TaskRun& task = At(no);
  const TaskState from = task.state;
  --header_.counts[static_cast<std::size_t>(from)];
  ++header_.counts[static_cast<std::size_t>(to)];
  run_.live = run_.live + (IsLive(to) ? 1U : 0U) - (IsLive(from) ? 1U : 0U);
  run_.failed_deciding =
      run_.failed_deciding + (Decides(no, to) ? 1U : 0U) - (Decides(no, from) ? 1U : 0U);
  std::uint32_t& unsettled = Unsettled(Spec(no).role);
  unsettled = unsettled + (IsTerminal(to) ? 0U : 1U) - (IsTerminal(from) ? 0U : 1U);
  // What asked for permits keeps its turn while its run is reset, say; its row is not written then.
  const bool asked = task.reason == Reason::kPermit && IsUnstarted(from) && IsUnstarted(to);
  task.state = to;
  task.since = now_;
  if (asked) {
    changes_.header = true;
    return;
  }
  task.reason = reason;
  if (!IsLive(to)) {
    task.cancel_sent = task.zombie;
    if (to != TaskState::kParked) task.not_before = {};
  }
  changes_.header = true;
}

void Stepper::Count(TaskNo no, int sign) {
  std::uint32_t UpstreamCounts::* field = &UpstreamCounts::succeeded;
  switch (At(no).state) {
    case TaskState::kFailed:
      // For its successors, a task that may fail succeeded.
      if (!Spec(no).allow_failure) field = &UpstreamCounts::failed;
      break;
    case TaskState::kCancelled:
      field = &UpstreamCounts::failed;
      break;
    case TaskState::kSkipped:
      field = &UpstreamCounts::skipped;
      break;
    case TaskState::kUpstreamFailed:
      field = &UpstreamCounts::upstream_failed;
      break;
    default:
      break;
  }
  for (const TaskNo next : run_.workflow->downstreams(no)) {
    At(next).upstreams.*field += static_cast<std::uint32_t>(sign);
  }
}

void Stepper::Touch(TaskNo no) {
  TaskRun& task = At(no);
  if (!task.has_row) {
    task.has_row = true;
    task.generation = header_.generation;
  }
  if (task.dirty) return;
  task.dirty = true;
  changes_.tasks.push_back(no);
}

void Stepper::AddEvent(std::string_view kind, const std::string& actor, std::string detail) {
  changes_.events.push_back({now_, std::string(kind), actor, std::move(detail)});
}

std::string Stepper::Name(TaskNo no) const {
  return fmt::format("task '{}' of run {}", Spec(no).id, header_.run_no.value);
}

// ---- Deadlines.

Instant Stepper::RunDeadline() const {
  if (header_.state != RunState::kRunning) return kNever;
  const WorkflowDefinition& definition = run_.workflow->definition();
  if (InFinally()) {
    const Instant stop = header_.finally_started_at + definition.finally_timeout;
    return header_.finally_stopped ? stop + definition.cancel_timeout : stop;
  }
  if (Cancelling()) return header_.cancel_requested_at + definition.cancel_timeout;
  return definition.timeout > Duration{0} ? header_.started_at + definition.timeout : kNever;
}

Instant Stepper::Backstop(TaskNo no) const {
  const Duration timeout = Spec(no).timeout;
  if (timeout <= Duration{0}) return kNever;
  return At(no).since + timeout + run_.workflow->definition().cancel_timeout;
}

void Stepper::AddBackstop(TaskNo no) {
  if (const Instant due = Backstop(no); due != kNever) changes_.timers.push_back({due, no});
}

bool Stepper::Wakes(Instant when, TaskNo no) const {
  const TaskRun& task = At(no);
  return (task.state == TaskState::kParked && task.not_before == when) ||
         (task.deadline == when && !IsTerminal(task.state) && !IsLive(task.state));
}

Instant Stepper::NextParked() {
  while (!run_.wakes.empty()) {
    const auto [when, no] = run_.wakes.front();
    if (Wakes(when, no)) return when;
    std::ranges::pop_heap(run_.wakes, std::greater<>{});
    run_.wakes.pop_back();
  }
  return kNever;
}

bool NeedsMemory(const Run& run) {
  const RunHeader& header = run.header;
  return run.live > 0 || !run.to_settle.empty() || !run.to_reset.empty() ||
         (!IsSet(header.paused_at) &&
          header.counts[static_cast<std::size_t>(TaskState::kReady)] > 0);
}

void Stepper::UpdateWake() {
  Instant wake = kNever;
  if (header_.state == RunState::kPending || NeedsMemory(run_)) {
    wake = Instant{};  // the past: whoever takes over finds it
  } else if (header_.state == RunState::kRunning) {
    wake = std::min(NextParked(), RunDeadline());
  }
  if (wake == header_.wake_at) return;
  header_.wake_at = wake;
  changes_.header = true;
}

}  // namespace headworks::model
