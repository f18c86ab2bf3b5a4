#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "headworks/model/step.h"

namespace headworks::model {

inline constexpr bool IsSet(Instant instant) { return instant != Instant{}; }
/// Waiting or ready: what a task is then is derived from its upstreams and the run's phase.
inline constexpr bool IsUnstarted(TaskState s) {
  return s == TaskState::kWaiting || s == TaskState::kReady;
}

/// What may happen to tasks of one role at this point of the run's life.
enum class Gate : std::uint8_t {
  kClosed,  // not yet
  kOpen,
  kStop,  // never again: unstarted tasks are settled, live ones told
};

/// One application of one event to one run; lives as long as one call of Step or Rebuild.
///
/// The idea.  A task that is waiting or ready has no stored state of its own: `Derive` says what it
/// is, from the header (phase, cancel, reset) and the counts of its settled upstreams, which are
/// pushed along the edges the moment a task settles.  Where it says that the task settles without
/// running, the task stands in `Run::to_settle` until the budget allows its row.  So header and
/// rows determine the whole memory state after every step, and Rebuild needs no log.
class Stepper {
 public:
  Stepper(Run& run, Instant now, std::size_t budget, Changes& changes);

  Status Apply(const Event& event);

  /// Rebuild: everything that follows from header and rows, and the effects a crash may have lost.
  Status Load(const std::vector<StoredTask>& rows);

 private:
  // step.cc: one handler per event.  A handler that finds nothing to do sets `stale_`.
  Status On(const StartRun&);
  Status On(const QueueTask&);
  Status On(const AskPermits&);
  Status On(const AttemptStarted&);
  Status On(const AttemptOverdue&);
  Status On(const AttemptHeldUp&);
  Status On(const AttemptGivenUp&);
  Status On(const AttemptEnded&);
  Status On(const OfferAnswered&);
  Status On(const WhenEvaluated&);
  Status On(const TimerDue&);
  Status On(const CancelRun&);
  Status On(const PauseRun&);
  Status On(const ResumeRun&);
  Status On(const RerunTasks&);
  Status On(const MarkTask&);
  Status On(const ContinueRun&);
  /// Nothing but credit and permits keeps it from being queued.
  bool MayQueue(TaskNo no) const;
  void GiveEpoch(TaskNo no);
  Status Stale();
  Status Superseded();
  Status OnTaskTimer(TaskNo no, Instant when);
  Status OnRunTimer(Instant when);

  // verdict.cc: how an attempt's end moves its task.
  void Record(TaskNo no, const Outcome& outcome);
  void ApplyVerdict(TaskNo no, const Outcome& outcome);
  void Requeue(TaskNo no);
  void Park(TaskNo no, Reason reason, Instant until);
  void Zombify(TaskNo no, TaskState state, Reason reason);
  /// Queued under that epoch, and nobody has asked it to stop.
  bool WaitsForStart(TaskNo no, Epoch epoch) const;
  std::uint64_t Seed(TaskNo no) const;

  // settle.cc: derivation, propagation, phases.
  struct Target {
    TaskState state;
    Reason reason = Reason::kNone;
  };
  Gate GateOf(TaskRole role) const;
  Reason StopReason(TaskRole role) const;
  Target Derive(TaskNo no) const;
  bool MustEvaluate(TaskNo no) const { return !Spec(no).when.empty() && !At(no).admitted; }
  /// Asks for what a ready task needs next: credit, or an answer to its `when`.
  void AskFor(TaskNo no);
  /// Brings an unstarted or parked task in line with `Derive`; tells a live one to stop.
  void Reconsider(TaskNo no);
  void ReconsiderAll(TaskNo from = TaskNo{0});
  void Settle(TaskNo no, TaskState state, Reason reason);
  void BeginCancel(Reason reason, const std::string& actor);
  void StopFinally(std::string_view why, const std::string& actor);
  void StartFinally();
  /// Gives up on live attempts of all roles up to `last`.
  void ZombifyLive(TaskRole last);
  void Finish();
  bool DrainSettles();
  bool NextPhase();
  /// Goes on with whatever follows from the state, as far as the budget reaches.
  void Advance();

  // reset.cc: rerun and mark.
  Status CheckRerun(const RerunTasks& event) const;
  Status CheckMark(const MarkTask& event, const ResetCursor& cursor) const;
  /// `no` is the cursor's task, or one of its group.
  bool Covers(const ResetCursor& cursor, TaskNo no) const;
  std::vector<bool> ResetMembers(const ResetCursor& cursor, std::uint32_t generation) const;
  bool LeftToReset(TaskNo no, ResetCursor::Kind kind, std::uint32_t generation) const;
  void StartReset(const ResetCursor& cursor);
  void FillToReset();
  bool ContinueReset();
  void ResetTask(TaskNo no);

  // rebuild.cc
  Status LoadRow(const StoredTask& row);
  void EmitEffects();
  /// Whoever reads a run must not say that what was ready long ago is so since now: it is since the
  /// last of its upstreams ended, even where its trigger rule would not have waited for that one.
  void DeriveReady(TaskNo no);

  // State, with every counter that hangs on it.
  void SetState(TaskNo no, TaskState to, Reason reason = Reason::kNone);
  /// Adds (or takes back) how `no` ended in its successors' counts.
  void Count(TaskNo no, int sign);
  bool Decides(TaskNo no, TaskState state) const;
  void Touch(TaskNo no);
  /// What the run's row is about to forget.
  void KeepStart();
  void KeepEnd();
  void AddEvent(std::string_view kind, const std::string& actor, std::string detail = {});
  void Tell(TaskNo no);
  void AddBackstop(TaskNo no);
  void AddWake(Instant when, TaskNo no);

  // Deadlines.
  Instant RunDeadline() const;
  Instant Backstop(TaskNo no) const;
  void OnDeadline(TaskNo no);
  /// Until when an attempt that was told of its deadline may take to stop.
  Instant LastWait(TaskNo no) const;
  void TellOverdue(TaskNo no);
  Instant NextParked();
  /// True if an entry of `Run::wakes` still holds.
  bool Wakes(Instant when, TaskNo no) const;
  void UpdateWake();

  TaskRun& At(TaskNo no) { return run_.tasks[no.value]; }
  const TaskRun& At(TaskNo no) const { return run_.tasks[no.value]; }
  const Task& Spec(TaskNo no) const { return run_.workflow->task(no); }
  bool Exists(TaskNo no) const { return no.value < run_.tasks.size(); }
  std::uint32_t& Unsettled(TaskRole role) { return run_.unsettled[static_cast<std::size_t>(role)]; }
  bool Cancelling() const { return IsSet(header_.cancel_requested_at); }
  bool InFinally() const { return IsSet(header_.finally_started_at); }
  bool Resetting() const { return header_.reset.kind != ResetCursor::Kind::kNone; }
  std::string Name(TaskNo no) const;

  Run& run_;
  RunHeader& header_;
  const Instant now_;
  std::size_t budget_;
  Changes& changes_;
  bool stale_ = false;
  bool revived_ = false;  // a main task became ready after `finally` had begun
};

/// True if the run must be in memory: something is live, can be queued, or goes on.
bool NeedsMemory(const Run& run);

}  // namespace headworks::model
