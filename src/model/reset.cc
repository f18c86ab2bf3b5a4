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

bool IsFrom(ResetCursor::Kind kind) {
  return kind == ResetCursor::Kind::kFrom || kind == ResetCursor::Kind::kFromGroup;
}

bool IsRerun(ResetCursor::Kind kind) {
  return kind == ResetCursor::Kind::kFailed || kind == ResetCursor::Kind::kAll || IsFrom(kind);
}

std::string_view KindName(ResetCursor::Kind kind) {
  if (kind == ResetCursor::Kind::kFailed) return "failed";
  return IsFrom(kind) ? "from" : "all";
}

}  // namespace

bool Stepper::Covers(const ResetCursor& cursor, TaskNo no) const {
  const bool group =
      cursor.kind == ResetCursor::Kind::kFromGroup || cursor.kind == ResetCursor::Kind::kMarkGroup;
  return no == cursor.task ||
         (group && !Spec(cursor.task).group.empty() && Spec(no).group == Spec(cursor.task).group);
}

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
      case Kind::kFromGroup:
        in = Covers(cursor, no) || upstream(none);
        break;
      case Kind::kMark:
      case Kind::kMarkGroup:
        // A rule settles a task only after all its upstreams, so an unsettled one was reset.
        in = !Covers(cursor, no) && IsTriggerSettled(task) &&
             upstream([&](TaskNo up) { return Covers(cursor, up) || !IsTerminal(At(up).state); });
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
  task.reason = Reason::kNone;
  task.not_before = {};
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
  const bool from = IsFrom(event.kind);
  const ResetCursor cursor{event.kind, event.task};
  if (from && !Exists(event.task)) {
    return Error{Code::kNotFound, fmt::format("run {} has no task number {}", header_.run_no.value,
                                              event.task.value)};
  }
  if (header_.state == RunState::kPending) return conflict("has not started yet: nothing to rerun");
  if (Resetting()) return conflict("is still being reset by another rerun or mark: try again");
  if (header_.state == RunState::kRunning) {
    if (!from) return conflict("is still running: wait for its end, or rerun from a settled task");
    if (Cancelling()) return conflict("is being cancelled: wait for its end, then rerun");
    for (TaskNo no; Exists(no); ++no.value) {
      if (Covers(cursor, no) && !IsTerminal(At(no).state)) {
        return Error{Code::kConflict,
                     fmt::format("{} has not ended yet: nothing to rerun", Name(no))};
      }
    }
  }
  if (event.kind == ResetCursor::Kind::kFailed && run_.unsettled == decltype(run_.unsettled){} &&
      header_.counts[static_cast<std::size_t>(TaskState::kFailed)] +
              header_.counts[static_cast<std::size_t>(TaskState::kUpstreamFailed)] +
              header_.counts[static_cast<std::size_t>(TaskState::kCancelled)] ==
          0) {
    return conflict("has no failed, upstream_failed or cancelled task: rerun all, or from a task");
  }
  const std::vector<bool> member = ResetMembers(cursor, header_.generation + 1);
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
  if (IsFrom(event.kind)) {
    const Task& task = Spec(event.task);
    detail += " " + (event.kind == ResetCursor::Kind::kFrom ? task.id : task.group);
  }
  AddEvent("rerun", event.actor, std::move(detail));
  StartReset({event.kind, IsFrom(event.kind) ? event.task : TaskNo{}});
  return {};
}

Status Stepper::CheckMark(const MarkTask& event, const ResetCursor& cursor) const {
  const auto conflict = [this](TaskNo no, std::string_view why) -> Status {
    return Error{Code::kConflict, fmt::format("{} {}", Name(no), why)};
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
    return conflict(event.task, "cannot be marked before its run starts");
  if (Resetting())
    return conflict(event.task, "cannot be marked while its run is being reset: try again");
  for (TaskNo no; Exists(no); ++no.value) {
    if (Covers(cursor, no) && IsLive(At(no).state))
      return conflict(no, "is queued or running: cancel it or wait for its end, then mark it");
  }
  return {};
}

Status Stepper::On(const MarkTask& event) {
  using Kind = ResetCursor::Kind;
  const ResetCursor cursor{event.group ? Kind::kMarkGroup : Kind::kMark, event.task};
  HEADWORKS_TRY(CheckMark(event, cursor));
  const auto conflict = [&](std::string_view why) -> Status {
    return Error{Code::kConflict, fmt::format("{} {}", Name(event.task), why)};
  };
  // In a run that is being or was cancelled nothing downstream starts again: rerun does that.
  bool decide_again = false;
  if (!Cancelling()) {
    for (const bool in : ResetMembers(cursor, header_.generation)) decide_again |= in;
  }
  const bool ended = IsTerminal(header_.state);
  const Task& task = Spec(event.task);
  if (decide_again && ended && run_.live > 0) {
    return conflict("cannot be marked while its run has an attempt that is not known to be over");
  }
  if (decide_again && !ended && InFinally() && task.role == TaskRole::kMain) {
    return conflict("cannot be marked while finally tasks run: wait for the end of the run");
  }
  AddEvent("mark", event.actor,
           fmt::format("{} {}", event.group ? task.group : task.id, TaskStateName(event.state)));
  // All are active for their successors until the last one is settled.
  std::vector<TaskNo> marked;
  for (TaskNo no; Exists(no); ++no.value) {
    if (!Covers(cursor, no)) continue;
    marked.push_back(no);
    if (IsTerminal(At(no).state)) Count(no, -1);
  }
  for (const TaskNo no : marked) Settle(no, event.state, Reason::kMarked);
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
