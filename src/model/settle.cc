#include <fmt/format.h>

#include "stepper.h"

/// What unstarted tasks are, how ends spread along the edges, and the phases of a run:
/// main → on_cancel (if a cancel was asked for) → finally → ended.
namespace headworks::model {

Gate Stepper::GateOf(TaskRole role) const {
  switch (role) {
    case TaskRole::kMain:
      return Cancelling() ? Gate::kStop : Gate::kOpen;
    case TaskRole::kOnCancel:
      if (InFinally() || header_.finally_stopped) return Gate::kStop;
      return Cancelling() ? Gate::kOpen : Gate::kClosed;
    case TaskRole::kFinally:
      if (header_.finally_stopped) return Gate::kStop;
      return InFinally() ? Gate::kOpen : Gate::kClosed;
  }
  return Gate::kClosed;
}

Reason Stepper::StopReason(TaskRole role) const {
  if (role == TaskRole::kMain) return header_.reason;
  if (role == TaskRole::kOnCancel) {
    return header_.finally_stopped ? Reason::kCancelRequested : Reason::kCancelTimeout;
  }
  return InFinally() &&
                 now_ >= header_.finally_started_at + run_.workflow->definition().finally_timeout
             ? Reason::kFinallyTimeout
             : Reason::kCancelRequested;
}

Stepper::Target Stepper::Derive(TaskNo no) const {
  const TaskRun& task = At(no);
  const Target stay{task.state == TaskState::kParked ? TaskState::kParked : TaskState::kWaiting};
  if (header_.state != RunState::kRunning || Resetting()) return stay;
  const Task& spec = Spec(no);
  switch (GateOf(spec.role)) {
    case Gate::kClosed:
      return stay;
    case Gate::kStop:
      // `finally` began without a cancel (or before it), so these have nothing to do.
      if (spec.role == TaskRole::kOnCancel && InFinally() &&
          (!Cancelling() || header_.cancel_requested_at >= header_.finally_started_at)) {
        return {TaskState::kSkipped, Reason::kNotCancelled};
      }
      return {TaskState::kCancelled, StopReason(spec.role)};
    case Gate::kOpen:
      break;
  }
  if (task.state == TaskState::kParked) return stay;
  const auto total = static_cast<std::uint32_t>(run_.workflow->upstreams(no).size());
  switch (Decide(spec.trigger_rule, task.upstreams, total)) {
    case TriggerDecision::kWait:
      break;
    case TriggerDecision::kRun:
      return {TaskState::kReady};
    case TriggerDecision::kSkip:
      return {TaskState::kSkipped, Reason::kTriggerRule};
    case TriggerDecision::kUpstreamFailed:
      return {TaskState::kUpstreamFailed, Reason::kTriggerRule};
  }
  return {TaskState::kWaiting};
}

void Stepper::Tell(TaskNo no) {
  At(no).cancel_sent = true;
  changes_.cancels.push_back({no, At(no).epoch});
}

void Stepper::AskFor(TaskNo no) {
  if (MustEvaluate(no))
    changes_.evaluate.push_back({no, At(no).since});
  else
    changes_.ready.push_back(no);
}

void Stepper::Reconsider(TaskNo no) {
  TaskRun& task = At(no);
  if (IsTerminal(task.state)) return;
  if (IsLive(task.state)) {
    if (!task.cancel_sent && GateOf(Spec(no).role) == Gate::kStop) Tell(no);
    return;
  }
  const Target target = Derive(no);
  if (IsTerminal(target.state)) {
    // A parked task keeps its row's state until its own turn.
    if (task.state == TaskState::kReady) SetState(no, TaskState::kWaiting);
    run_.to_settle.push_back(no);
    return;
  }
  if (target.state == task.state) return;
  SetState(no, target.state);
  if (target.state != TaskState::kReady) return;
  if (!IsSet(header_.paused_at)) AskFor(no);
  if (Spec(no).role == TaskRole::kMain && InFinally()) revived_ = true;
}

void Stepper::ReconsiderAll(TaskNo from) {
  for (TaskNo no = from; Exists(no); ++no.value) Reconsider(no);
}

void Stepper::Settle(TaskNo no, TaskState state, Reason reason) {
  SetState(no, state, reason);
  Touch(no);
  Count(no, +1);
  for (const TaskNo next : run_.workflow->downstreams(no)) {
    if (IsUnstarted(At(next).state)) Reconsider(next);
  }
  if (Decides(no, state) && header_.state == RunState::kRunning && !Cancelling() && !InFinally() &&
      run_.workflow->definition().on_failure == OnFailure::kCancelRest) {
    BeginCancel(Reason::kCancelRest, {});
  }
}

void Stepper::BeginCancel(Reason reason, const std::string& actor) {
  header_.cancel_requested_at = now_;
  header_.reason = reason;
  header_.paused_at = {};  // else on_cancel and finally tasks would wait for a resume
  changes_.header = true;
  AddEvent("cancel", actor, std::string(ReasonName(reason)));
  ReconsiderAll();
}

void Stepper::StopFinally(std::string_view why, const std::string& actor) {
  header_.finally_stopped = true;
  changes_.header = true;
  AddEvent("cancel", actor, std::string(why));
  ReconsiderAll(run_.workflow->range(TaskRole::kMain).second);
}

void Stepper::StartFinally() {
  header_.finally_started_at = now_;
  changes_.header = true;
  ReconsiderAll(run_.workflow->range(TaskRole::kMain).second);
}

void Stepper::ZombifyLive(TaskRole last) {
  const TaskNo end = run_.workflow->range(last).second;
  for (TaskNo no; no < end; ++no.value) {
    if (IsLive(At(no).state)) Zombify(no, TaskState::kCancelled, Reason::kCancelTimeout);
  }
}

void Stepper::Finish() {
  if (Cancelling()) {
    header_.state =
        header_.reason == Reason::kCancelRequested ? RunState::kCancelled : RunState::kFailed;
  } else {
    header_.state = run_.failed_deciding > 0 ? RunState::kFailed : RunState::kSucceeded;
  }
  header_.finished_at = now_;
  header_.paused_at = {};
  changes_.header = true;
  changes_.finished = true;
}

bool Stepper::DrainSettles() {
  while (!run_.to_settle.empty()) {
    const TaskNo no = run_.to_settle.front();
    const bool open = !IsTerminal(At(no).state) && !IsLive(At(no).state);
    const Target target = open ? Derive(no) : Target{At(no).state};
    if (open && IsTerminal(target.state)) {
      if (budget_ == 0) return false;
      --budget_;
      run_.to_settle.pop_front();
      Settle(no, target.state, target.reason);
    } else {
      run_.to_settle.pop_front();  // listed twice, or settled by a mark meanwhile
    }
  }
  return true;
}

bool Stepper::NextPhase() {
  if (!InFinally()) {
    if (Unsettled(TaskRole::kMain) > 0) return false;
    if (Cancelling() && Unsettled(TaskRole::kOnCancel) > 0) return false;
    // A paused run would only burn its finally_timeout.
    if (IsSet(header_.paused_at) && Unsettled(TaskRole::kFinally) > 0) return false;
    StartFinally();
    return true;
  }
  for (const std::uint32_t unsettled : run_.unsettled) {
    if (unsettled > 0) return false;
  }
  Finish();
  return false;
}

void Stepper::Advance() {
  while (header_.state == RunState::kRunning) {
    const bool done = (!Resetting() || ContinueReset()) && DrainSettles();
    if (revived_) {
      revived_ = false;
      header_.finally_started_at = {};
      header_.finally_stopped = false;
      KeepStart();
      header_.started_at = now_;
      StartReset({ResetCursor::Kind::kFinally, {}});
      continue;
    }
    if (!done || !NextPhase()) break;
  }
  if (!run_.to_settle.empty() || !run_.to_reset.empty()) changes_.more = true;
}

}  // namespace headworks::model
