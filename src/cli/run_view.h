#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headworks/model/run.h"
#include "headworks/model/step.h"
#include "headworks/runner/runner.h"
#include "pool_view.h"
#include "session.h"

namespace headworks::cli {

/// A run as it stood a moment ago.
struct RunView {
  model::RunHeader header;
  std::shared_ptr<const model::Workflow> workflow;
  /// Every task, waiting and ready derived as the engine derives them; empty in a summary.
  std::vector<model::TaskRun> tasks;
  /// In their place some tasks of a run that is too large to be listed, see ReadPicked.
  std::map<TaskNo, model::TaskRun> picked;
  /// Ended attempts in order of epoch, by AddAttempt; empty in a summary.
  std::vector<model::AttemptRecord> attempts;
  /// Where in `attempts` the latest of a task is.
  std::map<TaskNo, std::size_t> latest;
  /// Who cancelled the run; empty = nobody, or the latest events do not tell.
  std::string cancelled_by;
  /// The last line that a failed task printed in the attempt that it failed at; by ReadLastLines.
  std::map<TaskNo, std::string> last_lines;
  /// Why the `when` of a task has no value; as far as the latest events tell.
  std::map<TaskNo, std::string> expression_errors;
  /// All pools of the tenant, if a task waits for one; by ReadLimits.
  std::vector<PoolView> pools;
  /// Of a pending run: those that have the places it may wait for, by `max_active_runs` and by its
  /// concurrency key; by ReadLimits.
  std::vector<model::RunHeader> active, active_with_key;
  /// ... when its `concurrency.rate` lets the next one start; nothing = at once.  By ReadLimits.
  std::optional<Instant> next_start;
  /// ... how many of its tenant are under way, at most `max_in_memory`, and how many of all tenants
  /// an engine with the settings of this command holds in memory.  By ReadLimits.
  std::size_t under_way = 0;
  std::size_t max_in_memory = 0;
  /// Why an attempt had not started in time, by the last look.
  std::map<TaskNo, std::string> overdue;
  /// That its executor does not take an attempt, by the latest note, and when that was made.
  std::map<TaskNo, std::pair<std::string, Instant>> held_up;
  /// Executor and holder of tasks that are queued or running.
  std::map<TaskNo, std::string> holders;

  const std::string& id(TaskNo task) const { return workflow->task(task).id; }
  const model::TaskRun& task(TaskNo no) const {
    return tasks.empty() ? picked.at(no) : tasks[no.value];
  }
  void AddAttempt(model::AttemptRecord attempt);
  /// The latest ended attempt of `task`, if any.
  const model::AttemptRecord* LastAttempt(TaskNo task) const;
  /// From start to end, or to `now` while it runs.
  Duration Elapsed(Instant now) const;
  std::uint32_t count(model::TaskState state) const {
    return header.counts[static_cast<std::size_t>(state)];
  }
  /// Tasks that are over.
  std::uint32_t settled() const;
};

/// Whether it failed and may: for the run and its successors it counts as a success.
bool IsAllowedFailure(const RunView& view, TaskNo task);
/// The state of a task; "failed (allowed)" where it may fail.
std::string StateText(const RunView& view, TaskNo task);

/// Whether the task was over in `before` and nothing happened to it since.
bool IsKept(const RunView& before, const RunView& now, TaskNo task);

/// More do not fit a screen.
inline constexpr std::size_t kMostPicked = 100;

/// Reads views of runs; keeps the last workflow, which never changes under a run (I2).
class RunReader {
 public:
  /// Borrows the context.
  explicit RunReader(const Context& context) : context_(context), tenant_(context.tenant()) {}

  /// Counts only: independent of the number of tasks.  An error names the store: a run that is not
  /// there may be in another.
  Result<RunView> ReadSummary(Runner& runner, std::string_view reference);
  Result<RunView> Read(Runner& runner, std::string_view reference, Instant now);
  /// Adds to a summary the first kMostPicked tasks of each kind that people look for (failed,
  /// waiting for another try, running), with their last attempts.
  Status ReadPicked(Runner& runner, RunView& view);
  /// Adds what only ExplainTask looks at: who has the places or the permits that it waits for.
  Status ReadLimits(Runner& runner, RunView& view);
  /// Adds the last lines of the first kMostPicked tasks that failed.
  Status ReadLastLines(Runner& runner, RunView& view);

 private:
  Status ReadNotes(Runner& runner, RunView& view);
  Status ReadPlaces(Runner& runner, RunView& view);
  Status CountUnderWay(Runner& runner, RunView& view);
  /// All task rows, and the holders of those that are live.
  Result<std::vector<model::StoredTask>> ReadRows(Runner& runner, RunView& view);

  const Context& context_;
  TenantId tenant_;
  std::shared_ptr<const model::Workflow> workflow_;
};

/// Longest way from a root, per task; on_cancel and finally tasks stand behind all others, as they
/// run.
std::vector<std::uint32_t> Levels(const model::Workflow& workflow);

/// "exit code 3", "timeout", "signal 9 (Killed)".
std::string DescribeOutcome(const model::Outcome& outcome);
/// What was wrong, where its name alone does not say it: of a command that could not be started, an
/// output that could not be read.  Its first line; empty = what it printed says more.
std::string FaultOf(const model::Outcome& outcome);
/// Whether it was the task's deadline that stopped this attempt.
bool StoppedByDeadline(const RunView& view, const model::AttemptRecord& attempt);
/// The same, while it was still to start: it is no try that anybody saw.
bool NeverBegan(const RunView& view, const model::AttemptRecord& attempt);
/// DescribeOutcome, or "deadline of 1m30s".
std::string DescribeEnd(const RunView& view, const model::AttemptRecord& attempt);
/// " (try 1 of 3)"; empty if it was not begun.
std::string DescribeTry(const RunView& view, const model::AttemptRecord& attempt);
/// Whether its task was settled before this attempt was known to be over: how it ended changed
/// nothing, and when it was queued is not known any more.
bool CameTooLate(const model::AttemptRecord& attempt);
/// Why a task is as it is that no end of an attempt made so: "did not start within start_timeout
/// (1m) and the time after it (pending_timeout)", "marked"; empty = there is no reason.
std::string DescribeReason(const RunView& view, TaskNo no);
/// The latest ended attempt of a task that its present state goes by: none from before a rerun, nor
/// one that came too late.  Null = none.
const model::AttemptRecord* CountingAttempt(const RunView& view, TaskNo no);
/// What ended the run before all its tasks had ended by themselves, and when: "the run's timeout of
/// 10s ended it at ..."; empty = nothing did.
std::string DescribeRunEnd(const RunView& view);
/// What made a task as it is: the end of its last attempt, unless that went well, or
/// DescribeReason; empty = nothing of note.
std::string DescribeTask(const RunView& view, TaskNo no);
/// When the first attempt since the last rerun began, of each task; Instant{} = none did.
std::vector<Instant> FirstStarts(const RunView& view);
/// "running", "paused", "cancelling", "stuck": the state and the flags in one word.
std::string RunStateText(const model::RunHeader& header);

/// Why a run that is parked as stuck is so, and what to do.
std::string ExplainStuck(const model::RunHeader& header, Instant now);
/// Why `task` is not running, line by line, from what the task itself says to what it waits for
/// (I14).  `engine_live`: some process runs the tasks of this store.
std::vector<std::string> ExplainTask(const RunView& view, TaskNo task, bool engine_live,
                                     Instant now);

}  // namespace headworks::cli
