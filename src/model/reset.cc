#include <fmt/format.h>

#include "stepper.h"

/// Rerun and mark: what is run or decided again, over several rounds where it is much.
namespace headworks::model {
namespace {

/// Settled by its trigger rule, so it never ran.  Not so what its `when` ruled out: that was asked
/// once, maybe before all upstreams had settled, and stays until a rerun.
bool IsTriggerSettled(const TaskRun& task) {
  return (task.state == TaskState::kSkipped || task.state == TaskState::kUpstreamFailed) &&
         task.reason == Reason::kTriggerRule;
}

bool IsRerun(ResetCursor::Kind kind) {
  return kind == ResetCursor::Kind::kFailed || kind == ResetCursor::Kind::kFrom ||
         kind == ResetCursor::Kind::kAll;
}

std::string_view KindName(ResetCursor::Kind kind) {
  if (kind == ResetCursor::Kind::kFailed) return "failed";
  return kind == ResetCursor::Kind::kFrom ? "from" : "all";
}

}  // namespace

std::vector<bool> Stepper::ResetMembers(const ResetCursor& cursor, std::uint32_t generation) const {
  using Kind = ResetCursor::Kind;
  std::vector<bool> member(run_.tasks.size());
  for (TaskNo no; Exists(no); ++no.value) {
    const TaskRun& task = At(no);
    const auto upstream = [&](auto&& holds) {
      for (const TaskNo up : run_.workflow->upstreams(no)) {
        if (member[up.value] || holds(up)) return true;
      }
      return false;
    };
    const auto none = [](TaskNo) { return false; };
    bool in = false;
    switch (cursor.kind) {
      case Kind::kNone:
        break;
      case Kind::kAll:
        in = true;
        break;
      case Kind::kFailed:
        // After a crash half-way, those done already show their generation.
        in = (task.has_row && task.generation == generation) || task.state == TaskState::kFailed ||
             task.state == TaskState::kUpstreamFailed || task.state == TaskState::kCancelled ||
             upstream(none);
        break;
      case Kind::kFrom:
        in = no == cursor.task || upstream(none);
        break;
      case Kind::kMark:
        // A rule settles a task only after all its upstreams, so an unsettled one was reset.
        in = IsTriggerSettled(task) &&
             upstream([&](TaskNo up) { return up == cursor.task || !IsTerminal(At(up).state); });
        break;
      case Kind::kFinally:
        in = Spec(no).role != TaskRole::kMain && IsTerminal(task.state) &&
             task.reason != Reason::kMarked;
        break;
    }
    member[no.value] = in || (IsRerun(cursor.kind) && Spec(no).role != TaskRole::kMain);
  }
  return member;
}

bool Stepper::LeftToReset(TaskNo no, ResetCursor::Kind kind, std::uint32_t generation) const {
  return !IsRerun(kind) || (At(no).has_row && At(no).generation < generation);
}

void Stepper::FillToReset() {
  const std::vector<bool> member = ResetMembers(header_.reset, header_.generation);
  run_.to_reset.clear();
  for (TaskNo no; Exists(no); ++no.value) {
    if (member[no.value] && LeftToReset(no, header_.reset.kind, header_.generation)) {
      run_.to_reset.push_back(no);
    }
  }
}

void Stepper::StartReset(const ResetCursor& cursor) {
  header_.reset = cursor;
  changes_.header = true;
  FillToReset();
  run_.to_settle.clear();  // decided again when the reset is complete
  for (TaskNo no; Exists(no); ++no.value) {
    if (At(no).state == TaskState::kReady) SetState(no, TaskState::kWaiting);
  }
}

bool Stepper::ContinueReset() {
  while (!run_.to_reset.empty()) {
    if (budget_ == 0) return false;
    --budget_;
    ResetTask(run_.to_reset.front());
    run_.to_reset.pop_front();
  }
  header_.reset = {};
  changes_.header = true;
  ReconsiderAll();
  return true;
}

void Stepper::ResetTask(TaskNo no) {
  TaskRun& task = At(no);
  if (IsTerminal(task.state)) Count(no, -1);
  if (task.epoch != Epoch{}) {
    std::erase_if(changes_.outputs, [no](const auto& output) { return output.first == no; });
    changes_.outputs_cleared.push_back(no);
  }
  SetState(no, TaskState::kWaiting);
  Touch(no);
  task.epoch = {};
  task.generation = header_.generation;
  task.snoozes = 0;
  task.tries = 0;
  task.losses = 0;
  task.dispatch_failures = 0;
  task.admitted = false;
  task.deadline = {};
}

Status Stepper::CheckRerun(const RerunTasks& event) const {
  const auto conflict = [this](std::string_view why) -> Status {
    return Error{Code::kConflict, fmt::format("run {} {}", header_.run_no.value, why)};
  };
  if (!IsRerun(event.kind)) {
    return Error{Code::kInvalidArgument, "rerun: choose failed, from a task, or all"};
  }
  const bool from = event.kind == ResetCursor::Kind::kFrom;
  if (from && !Exists(event.task)) {
    return Error{Code::kNotFound, fmt::format("run {} has no task number {}", header_.run_no.value,
                                              event.task.value)};
  }
  if (header_.state == RunState::kPending) return conflict("has not started yet: nothing to rerun");
  if (Resetting()) return conflict("is still being reset by another rerun or mark: try again");
  if (header_.state == RunState::kRunning) {
    if (!from) return conflict("is still running: wait for its end, or rerun from a settled task");
    if (Cancelling()) return conflict("is being cancelled: wait for its end, then rerun");
    if (!IsTerminal(At(event.task).state)) {
      return Error{Code::kConflict,
                   fmt::format("{} has not ended yet: nothing to rerun", Name(event.task))};
    }
  }
  if (event.kind == ResetCursor::Kind::kFailed && run_.unsettled == decltype(run_.unsettled){} &&
      header_.counts[static_cast<std::size_t>(TaskState::kFailed)] +
              header_.counts[static_cast<std::size_t>(TaskState::kUpstreamFailed)] +
              header_.counts[static_cast<std::size_t>(TaskState::kCancelled)] ==
          0) {
    return conflict("has no failed, upstream_failed or cancelled task: rerun all, or from a task");
  }
  const std::vector<bool> member = ResetMembers({event.kind, event.task}, header_.generation + 1);
  for (TaskNo no; run_.live > 0 && Exists(no); ++no.value) {
    if (member[no.value] && (IsLive(At(no).state) || At(no).zombie)) {
      return Error{Code::kConflict,
                   fmt::format("{} has an attempt that is not known to be over ({}, epoch {}): "
                               "wait for its end, then rerun",
                               Name(no), At(no).zombie ? "zombie" : TaskStateName(At(no).state),
                               At(no).epoch.value)};
    }
  }
  return {};
}

void Stepper::KeepStart() { changes_.events.push_back({header_.started_at, "started", {}, {}}); }

void Stepper::KeepEnd() {
  if (IsTerminal(header_.state))
    changes_.events.push_back(
        {header_.finished_at, "finished", {}, std::string(RunStateName(header_.state))});
}

Status Stepper::On(const RerunTasks& event) {
  HEADWORKS_TRY(CheckRerun(event));
  KeepStart();
  KeepEnd();
  ++header_.generation;
  header_.state = RunState::kRunning;
  header_.reason = Reason::kNone;
  header_.started_at = now_;
  header_.finished_at = {};
  header_.cancel_requested_at = {};
  header_.finally_started_at = {};
  header_.finally_stopped = false;
  std::string detail(KindName(event.kind));
  if (event.kind == ResetCursor::Kind::kFrom) detail += " " + Spec(event.task).id;
  AddEvent("rerun", event.actor, std::move(detail));
  StartReset({event.kind, event.kind == ResetCursor::Kind::kFrom ? event.task : TaskNo{}});
  return {};
}

Status Stepper::On(const MarkTask& event) {
  const auto conflict = [&](std::string_view why) -> Status {
    return Error{Code::kConflict, fmt::format("{} {}", Name(event.task), why)};
  };
  if (!Exists(event.task)) {
    return Error{Code::kNotFound, fmt::format("run {} has no task number {}", header_.run_no.value,
                                              event.task.value)};
  }
  if (event.state != TaskState::kSucceeded && event.state != TaskState::kFailed &&
      event.state != TaskState::kSkipped) {
    return Error{Code::kInvalidArgument, "mark: choose success, failed or skipped"};
  }
  if (header_.state == RunState::kPending)
    return conflict("cannot be marked before its run starts");
  if (Resetting()) return conflict("cannot be marked while its run is being reset: try again");
  if (IsLive(At(event.task).state)) {
    return conflict("is queued or running: cancel it or wait for its end, then mark it");
  }
  // In a run that is being or was cancelled nothing downstream starts again: rerun does that.
  const ResetCursor cursor{ResetCursor::Kind::kMark, event.task};
  bool decide_again = false;
  if (!Cancelling()) {
    for (const bool in : ResetMembers(cursor, header_.generation)) decide_again |= in;
  }
  const bool ended = IsTerminal(header_.state);
  if (decide_again && ended && run_.live > 0) {
    return conflict("cannot be marked while its run has an attempt that is not known to be over");
  }
  if (decide_again && !ended && InFinally() && Spec(event.task).role == TaskRole::kMain) {
    return conflict("cannot be marked while finally tasks run: wait for the end of the run");
  }
  AddEvent("mark", event.actor,
           fmt::format("{} {}", Spec(event.task).id, TaskStateName(event.state)));
  if (IsTerminal(At(event.task).state)) Count(event.task, -1);
  Settle(event.task, event.state, Reason::kMarked);
  if (ended && decide_again) {
    KeepEnd();
    header_.state = RunState::kRunning;
    header_.finished_at = {};
    header_.finally_started_at = now_;  // until a main task turns out to run again
    header_.finally_stopped = false;
  } else if (ended && !Cancelling() && IsSet(header_.finally_started_at)) {
    header_.state = run_.failed_deciding > 0 ? RunState::kFailed : RunState::kSucceeded;
  }
  if (decide_again) StartReset(cursor);
  return {};
}

}  // namespace headworks::model
