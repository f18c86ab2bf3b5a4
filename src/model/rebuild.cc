#include <fmt/format.h>
#include <algorithm>

#include "stepper.h"

namespace headworks::model {

Result<Run> Rebuild(RunHeader header, std::shared_ptr<const Workflow> workflow,
                    const std::vector<StoredTask>& rows, Instant now, Changes& changes) {
  Run run;
  run.header = std::move(header);
  run.workflow = std::move(workflow);
  const bool header_changed = changes.header;
  HEADWORKS_TRY(Stepper(run, now, 0, changes).Load(rows));
  changes.header = header_changed;
  return run;
}

Status Stepper::Load(const std::vector<StoredTask>& rows) {
  run_.tasks.assign(run_.workflow->size(), TaskRun{});
  header_.counts.fill(0);
  header_.counts[static_cast<std::size_t>(TaskState::kWaiting)] = run_.workflow->size();
  for (const TaskRole role : {TaskRole::kMain, TaskRole::kOnCancel, TaskRole::kFinally}) {
    const auto [first, last] = run_.workflow->range(role);
    Unsettled(role) = last.value - first.value;
  }
  for (const StoredTask& row : rows) HEADWORKS_TRY(LoadRow(row));
  std::ranges::make_heap(run_.wakes, std::greater<>{});
  if (Resetting()) FillToReset();
  EmitEffects();
  return {};
}

Status Stepper::LoadRow(const StoredTask& row) {
  const auto corrupt = [&](std::string_view why) -> Status {
    return Error{Code::kCorrupt,
                 fmt::format("run {}, row of task number {}: {}; restore or repair the database",
                             header_.run_no.value, row.task.value, why)};
  };
  if (!Exists(row.task)) return corrupt("its workflow version has no such task");
  TaskRun& task = At(row.task);
  if (task.has_row) return corrupt("stored twice");
  if (row.state > TaskState::kCancelled) return corrupt("unknown state");
  if (row.epoch >= header_.next_epoch) return corrupt("its epoch was never given out");
  if (IsLive(row.state) && header_.state != RunState::kRunning) {
    return corrupt("it has a live attempt, but the run is not running");
  }
  if (row.zombie && !IsTerminal(row.state)) return corrupt("a zombie that is not settled");
  // Waiting and ready are derived below, when all counts stand.
  SetState(row.task, row.state == TaskState::kReady ? TaskState::kWaiting : row.state, row.reason);
  task.epoch = row.epoch;
  task.not_before = row.not_before;
  task.since = row.since;
  task.generation = row.generation;
  task.snoozes = row.snoozes;
  task.tries = row.tries;
  task.losses = row.losses;
  task.dispatch_failures = row.dispatch_failures;
  task.has_row = task.stored = true;
  task.zombie = row.zombie;
  task.admitted = row.admitted;
  task.deadline = row.deadline;
  if (task.zombie) ++run_.live;
  if (IsTerminal(task.state)) Count(row.task, +1);
  if (task.state == TaskState::kParked && task.not_before != kNever) {
    run_.wakes.emplace_back(task.not_before, row.task);
  }
  if (IsSet(task.deadline) && !IsTerminal(task.state) && !IsLive(task.state)) {
    run_.wakes.emplace_back(task.deadline, row.task);
  }
  return {};
}

void Stepper::EmitEffects() {
  for (TaskNo no; Exists(no); ++no.value) {
    const TaskRun& task = At(no);
    if (IsLive(task.state) || task.zombie) changes_.offers.push_back({no, task.epoch});
    if (task.zombie) Tell(no);
    if (task.state == TaskState::kRunning) AddBackstop(no);
    if (task.state == TaskState::kParked && task.not_before != kNever) {
      changes_.timers.push_back({task.not_before, no});
    }
    if (IsLive(task.state) && task.reason == Reason::kDeadline) {
      TellOverdue(no);
    } else if (IsSet(task.deadline) && !IsTerminal(task.state)) {
      changes_.timers.push_back({task.deadline, no});
    }
    DeriveReady(no);
  }
  if (const Instant due = RunDeadline(); due != kNever) {
    changes_.timers.push_back({due, std::nullopt});
  }
  if (!run_.to_settle.empty() || !run_.to_reset.empty()) changes_.more = true;
  UpdateWake();
}

void Stepper::DeriveReady(TaskNo no) {
  TaskRun& task = At(no);
  const bool waits = task.state == TaskState::kWaiting;
  Instant since = std::max(task.since, header_.started_at);  // of its row, if it has one
  Reconsider(no);
  if (!waits || task.state != TaskState::kReady) return;
  if (Spec(no).role == TaskRole::kFinally) since = std::max(since, header_.finally_started_at);
  if (Spec(no).role == TaskRole::kOnCancel) since = std::max(since, header_.cancel_requested_at);
  for (const TaskNo up : run_.workflow->upstreams(no))
    if (IsTerminal(At(up).state)) since = std::max(since, At(up).since);
  task.since = since;
  if (!changes_.evaluate.empty() && changes_.evaluate.back().task == no)
    changes_.evaluate.back().since = since;
}

StoredTask ToStored(const Run& run, TaskNo task) {
  const TaskRun& t = run.tasks[task.value];
  return {.task = task,
          .state = t.state,
          .reason = t.reason,
          .epoch = t.epoch,
          .generation = t.generation,
          .snoozes = t.snoozes,
          .tries = t.tries,
          .losses = t.losses,
          .dispatch_failures = t.dispatch_failures,
          .zombie = t.zombie,
          .admitted = t.admitted,
          .not_before = t.not_before,
          .since = t.since,
          .deadline = t.deadline};
}

void MarkCommitted(Run& run, const Changes& changes) {
  for (const TaskNo no : changes.tasks) {
    run.tasks[no.value].dirty = false;
    run.tasks[no.value].stored = true;
  }
}

bool IsEvictable(const Run& run) { return !NeedsMemory(run); }

}  // namespace headworks::model
