#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/attempt.h"
#include "headworks/model/run.h"

/// The pure state machine of a run: `Step(run, event, now) -> changes`.
///
/// Deterministic: no I/O, no clock, no randomness (jitter is a hash of run, task and epoch), no
/// reading of outputs.  The same run, event and `now` always give the same changes, which is what
/// lets the simulator replay a seed and the engine repeat a round.
namespace headworks::model {

// ---- Events.  Times come from the engine; `actor` is who asked, for the audit.

/// Admission: pending → running; the run clock starts, roots become ready.
struct StartRun {};
/// There is credit for this ready task: it becomes queued under the next epoch.
struct QueueTask {
  TaskNo task;
};
/// There are too few permits for this ready task: from now on it waits for them, under the epoch
/// that it will be queued with.
struct AskPermits {
  TaskNo task;
};
struct AttemptStarted {
  TaskNo task;
  Epoch epoch;
};
/// What the executor of an attempt says that has not started within its `start_timeout`: kPending
/// or kUnknown, and why; kNone: that is over, because it is offered again.  One that is being
/// stopped has other bounds: stale.
struct AttemptOverdue {
  TaskNo task;
  Epoch epoch;
  Reason reason = Reason::kNone;
  std::string why = {};
};
/// For a while now its executor does not take this attempt; `why` says what it answers.  Changes
/// nothing: a note for people.
struct AttemptHeldUp {
  TaskNo task;
  Epoch epoch;
  std::string why;
};
/// An overdue attempt stayed so for too long: its task ends as failed, without another epoch.
struct AttemptGivenUp {
  TaskNo task;
  Epoch epoch;
};
/// A verdict.  For an epoch that is not the task's live one: superseded, changes nothing (I3).
struct AttemptEnded {
  TaskNo task;
  Epoch epoch;
  Outcome outcome;
  /// The owner ends it because nobody has it: stale once somebody has claimed the start (I5).
  bool unstarted = false;
};
/// What an offer ended in.  Only kRejected and kRefused change state; the soft ones are kept in
/// memory by the engine (no budget, no row).
struct OfferAnswered {
  TaskNo task;
  Epoch epoch;
  Disposition disposition;
  std::string cause;
};
/// The answer to `Changes::evaluate`: may the task run?  One about a state that is over is stale.
struct WhenEvaluated {
  TaskNo task;
  /// As asked.
  Instant since;
  bool holds = false;
  /// Why there is no answer; the task fails.  Empty = there is one.
  std::string error;
};
/// A timer that `Changes::timers` asked for is due; stale ones change nothing.  `when` is what it
/// asked for, to the microsecond, and says which one it is, whatever `now` says: timers run on the
/// monotonic clock, so a wall clock that jumps neither fires nor loses one.
struct TimerDue {
  Instant when;
  std::optional<TaskNo> task;  // none = the run's own (timeout, finally_timeout, cancel_timeout)
};
struct CancelRun {
  std::string actor;
};
struct PauseRun {
  std::string actor;
};
struct ResumeRun {
  std::string actor;
};
/// kConflict if the run is live and a member of the reset set is not provably over, or (kFailed,
/// kAll) if it is not terminal.
struct RerunTasks {
  ResetCursor::Kind kind = ResetCursor::Kind::kFailed;
  TaskNo task;  // kFrom, kFromGroup
  std::string actor;
};
/// Sets how a task ended.  `state` is kSucceeded, kFailed or kSkipped.  kConflict if it is live.
struct MarkTask {
  TaskNo task;
  TaskState state = TaskState::kSucceeded;
  std::string actor;
  bool group = false;  // with all instances of the matrix that `task` is one of
};
/// Goes on with a large consequence (`Changes::more`).
struct ContinueRun {};

using Event =
    std::variant<StartRun, QueueTask, AskPermits, AttemptStarted, AttemptOverdue, AttemptGivenUp,
                 AttemptEnded, OfferAnswered, WhenEvaluated, TimerDue, CancelRun, PauseRun,
                 ResumeRun, RerunTasks, MarkTask, ContinueRun, AttemptHeldUp>;

// ---- Changes: rows to write, then effects to perform after the commit (I1).

/// One history row: how an attempt ended.
struct AttemptRecord {
  TaskNo task;
  Epoch epoch;
  int try_no = 1;
  std::uint32_t generation = 0;
  Instant queued_at{};
  Outcome outcome;  // `output` is moved to the task row
};

/// What happened to the run as such; kept for the audit.
struct RunEventRecord {
  Instant at{};
  /// "created", "cancel", "pause", "resume", "rerun", "mark", "overdue", "zombie", "expression",
  /// "stuck", "unstuck".  Start and end are in the run's row; "started" and "finished" stand here
  /// once a rerun or mark took that one away.
  std::string kind;
  std::string actor;
  std::string detail;
};

struct Changes {
  // Rows.
  bool header = false;
  std::vector<TaskNo> tasks;  // each once; `TaskRun::dirty` is set
  std::vector<AttemptRecord> attempts;
  std::vector<std::pair<TaskNo, std::string>> outputs;  // new output of a task, JSON text
  std::vector<TaskNo> outputs_cleared;                  // by a reset
  std::vector<RunEventRecord> events;

  // Effects.
  struct Timer {
    Instant when;
    std::optional<TaskNo> task;
  };
  struct Offer {
    TaskNo task;
    Epoch epoch;
  };
  struct Evaluation {
    TaskNo task;
    Instant since;
  };
  std::vector<TaskNo> ready;   // may be queued from now on (may repeat, may be stale when used)
  std::vector<Offer> offers;   // newly queued; after Rebuild: live (or zombie), to inspect first
  std::vector<Offer> cancels;  // live attempts to tell; repeatable
  std::vector<Evaluation> evaluate;  // ready but for their `when`; repeatable
  std::vector<Timer> timers;
  bool more = false;        // post ContinueRun behind other runs
  bool started = false;     // the run began in this step
  bool finished = false;    // the run ended in this step
  bool superseded = false;  // the event spoke for an epoch that is over: metered, dropped

  std::size_t rows() const {
    return (header ? 1U : 0U) + tasks.size() + attempts.size() + events.size();
  }
};

/// Applies `event` to `run` in place and adds what follows to `changes`.
///
/// Bounds.  Adds about `budget` rows at most; what a large consequence leaves is marked by
///   `changes.more` and continued by ContinueRun.
/// Errors.  kConflict, kNotFound, kInvalidArgument: the event is refused and nothing changed; the
///   message is for the person who asked.  Any other code is a fault in this run's state: the
///   caller reloads it and parks it as stuck.
Status Step(Run& run, const Event& event, Instant now, std::size_t budget, Changes& changes);

/// One task row as stored; what is not in a row is derived.
struct StoredTask {
  TaskNo task;
  TaskState state = TaskState::kWaiting;
  Reason reason = Reason::kNone;
  Epoch epoch;
  std::uint32_t generation = 0;
  std::uint32_t snoozes = 0;
  std::uint16_t tries = 0;
  std::uint16_t losses = 0;
  std::uint8_t dispatch_failures = 0;
  bool zombie = false;
  bool admitted = false;
  Instant not_before{};
  Instant since{};
  Instant deadline{};
};

/// Builds a run in memory from its rows: derives waiting and ready, counts, unfinished cascades and
/// what a crash interrupted (cancel, reset), by the same function that Step uses.  `changes`
/// receives effects only: ready tasks, those to evaluate, live attempts (as offers), timers,
/// cancels, `more`.
Result<Run> Rebuild(RunHeader header, std::shared_ptr<const Workflow> workflow,
                    const std::vector<StoredTask>& rows, Instant now, Changes& changes);

/// The row of `task` as it stands.
StoredTask ToStored(const Run& run, TaskNo task);

/// Clears `dirty` on everything that `changes` lists: the round that wrote it is committed.
void MarkCommitted(Run& run, const Changes& changes);

/// True if the run needs no memory until an event or `header.wake_at`: no live attempt, no ready
/// task, nothing to continue.  Step keeps `wake_at` right whenever this holds.
bool IsEvictable(const Run& run);

}  // namespace headworks::model
