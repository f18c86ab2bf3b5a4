#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"
#include "headworks/model/attempt.h"
#include "headworks/model/workflow.h"

namespace headworks::model {

/// Stored: append, never renumber.
enum class RunState : std::uint8_t {
  /// Accepted, not yet admitted to memory.  The engine moves it on when there is room.
  kPending = 1,
  kRunning = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCancelled = 5,
};

/// Stored: append, never renumber.
enum class TaskState : std::uint8_t {
  /// Upstreams are active.  No row.
  kWaiting = 0,
  /// May run; waits for credit.  No row, unless it waits for permits too.
  kReady = 1,
  /// Has an epoch and is being offered to its executor.
  kQueued = 2,
  /// Its executor said that it started.
  kRunning = 3,
  /// Waits for a time or an event (`reason`); no attempt, no permit.
  kParked = 4,
  kSucceeded = 5,
  kFailed = 6,
  kSkipped = 7,
  kUpstreamFailed = 8,
  kCancelled = 9,
};
inline constexpr std::size_t kTaskStateCount = 10;

constexpr bool IsTerminal(RunState s) { return s >= RunState::kSucceeded; }
constexpr bool IsTerminal(TaskState s) { return s >= TaskState::kSucceeded; }
/// Has an attempt that is not known to be over.
constexpr bool IsLive(TaskState s) { return s == TaskState::kQueued || s == TaskState::kRunning; }

std::string_view RunStateName(RunState state);
std::string_view TaskStateName(TaskState state);
std::optional<RunState> RunStateFromName(std::string_view name);

/// How the upstreams of one task stand; what is missing to their number is still active.
struct UpstreamCounts {
  std::uint32_t succeeded = 0;
  std::uint32_t failed = 0;
  std::uint32_t upstream_failed = 0;
  std::uint32_t skipped = 0;
  bool operator==(const UpstreamCounts&) const = default;
};

enum class TriggerDecision : std::uint8_t { kWait, kRun, kSkip, kUpstreamFailed };

/// The trigger table of section 3, with `total` upstreams.  Pure.
TriggerDecision Decide(TriggerRule rule, const UpstreamCounts& counts, std::uint32_t total);

/// One task of one run in memory.  64 bytes, because there may be 1,000,000 of them.
struct TaskRun {
  UpstreamCounts upstreams;
  Epoch epoch;  // of the last attempt; 0 = none yet
  /// kParked: wakes then; live: when the attempt was queued; waiting for permits (`reason` is
  /// kPermit): when they were first asked for; else unset.
  Instant not_before{};
  Instant since{};     // of the present state; persisted once there is a row
  Instant deadline{};  // fails then if it is not over; unset = none, or not begun
  std::uint32_t generation = 0;
  std::uint32_t snoozes = 0;
  std::uint16_t tries = 0;
  std::uint16_t losses = 0;
  std::uint8_t dispatch_failures = 0;
  TaskState state = TaskState::kWaiting;
  Reason reason = Reason::kNone;
  bool has_row : 1 = false;
  bool stored : 1 = false;       // the row was there before the round under way
  bool dirty : 1 = false;        // in Changes of the round under way
  bool cancel_sent : 1 = false;  // the live attempt was told
  bool zombie : 1 = false;       // shown settled, attempt not provably over
  bool admitted : 1 = false;     // its `when` is true
};
static_assert(sizeof(TaskRun) <= 64);

/// What a reset (rerun, mark) still has to do; it goes on over several rounds, and what is left is
/// derived from it and the tasks' rows.  Nothing is queued or decided meanwhile.
struct ResetCursor {
  enum class Kind : std::uint8_t {
    kNone = 0,
    /// Failed, upstream_failed and cancelled tasks, and what is downstream of them.
    kFailed = 1,
    /// `task` and what is downstream of it.
    kFrom = 2,
    kAll = 3,
    /// What a trigger rule settled downstream of the marked `task`.
    kMark = 4,
    /// A mark made main tasks run after `finally`: on_cancel and finally tasks once more.
    kFinally = 5,
    /// kFrom and kMark of all instances of the matrix that `task` is one of.
    kFromGroup = 6,
    kMarkGroup = 7,
  };
  Kind kind = Kind::kNone;
  TaskNo task;  // of a task or a group
};

/// The run row.
struct RunHeader {
  RunNo run_no;
  RunId run_id;
  TenantId tenant;
  Namespace name;
  std::string version;
  Shard shard;
  RunState state = RunState::kPending;
  /// What a cancel-like end will be called: kCancelled, or kFailed with `reason`.
  Reason reason = Reason::kNone;
  int priority = 0;
  std::uint32_t generation = 0;
  Epoch next_epoch{1};
  Instant created_at{};
  Instant started_at{};   // run clock; cleared by rerun
  Instant finished_at{};  // zero = not finished
  Instant paused_at{};
  Instant cancel_requested_at{};
  /// When the rest was over and `finally` began; set in runs without such tasks too.
  Instant finally_started_at{};
  bool finally_stopped = false;  // second cancel, or finally_timeout
  Instant expires_at{};
  /// When a run that is not in memory must be looked at (backoff, timeouts); kNever = only by
  /// events.  Unset, so the past: pending, or it needs memory (live attempts, ready tasks).
  Instant wake_at = kNever;
  std::string start_key;  // empty = none
  /// The value of `Concurrency::key` as text; none: its workflow has no `concurrency`.
  std::optional<std::string> concurrency_key;
  std::string trace_context;  // W3C traceparent, empty = none
  RunNo rerun_of;             // 0 = none
  RunNo root_run;             // 0 = itself
  /// Parked as stuck (poison): why.  Empty = not stuck.
  std::string stuck_reason;
  Instant stuck_since{};
  ResetCursor reset;
  /// Task runs per TaskState; kWaiting holds the rest.
  std::array<std::uint32_t, kTaskStateCount> counts{};
};

/// Tasks that wait for their turn.  No std::deque, because most runs never have any, and that one
/// allocates while it is empty.
class TaskQueue {
 public:
  bool empty() const { return next_ == tasks_.size(); }
  TaskNo front() const { return tasks_[next_]; }
  void push_back(TaskNo task) { tasks_.push_back(task); }
  void pop_front() {
    if (++next_ == tasks_.size()) clear();
  }
  void clear() {
    tasks_.clear();
    next_ = 0;
  }
  auto begin() const { return tasks_.begin() + static_cast<std::ptrdiff_t>(next_); }
  auto end() const { return tasks_.end(); }
  bool operator==(const TaskQueue& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::vector<TaskNo> tasks_;  // those before `next_` had their turn
  std::size_t next_ = 0;
};

/// A run that the engine holds in memory: header, tasks, and what follows from them.
struct Run {
  RunHeader header;
  std::shared_ptr<const Workflow> workflow;
  std::vector<TaskRun> tasks;

  // Derived; rebuilt by `Rebuild` from header and task rows.
  std::uint32_t live = 0;                    // queued or running, zombies included
  std::uint32_t failed_deciding = 0;         // tasks whose end makes the run failed
  std::array<std::uint32_t, 3> unsettled{};  // per TaskRole
  /// Unstarted tasks that a trigger rule or a cancel settles next.  Their successors learn of it
  /// only then: this is all that a large cascade leaves to later rounds.
  TaskQueue to_settle;
  /// What `header.reset` has left to do.
  TaskQueue to_reset;
  /// Min-heap over `not_before` and `deadline` of parked tasks; entries that no longer hold are
  /// dropped late.
  std::vector<std::pair<Instant, TaskNo>> wakes;
};

}  // namespace headworks::model
