#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "headworks/model/step.h"

namespace headworks::model {

using std::chrono::minutes;
using std::chrono::seconds;

/// A run with its rows as a store would hold them.  After every step the run that Rebuild makes
/// from the rows must equal the one in memory: this is a crash after every commit.
class TestRun {
 public:
  explicit TestRun(WorkflowDefinition definition, std::size_t budget = 1000) : budget(budget) {
    auto workflow = Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    stored.run_no = RunNo{7};
    Changes none;
    run = Rebuild(stored, *workflow, {}, now, none).value();
    stored = run.header;
  }

  /// One step, its "commit", and all checks.  `changes` holds what it changed.
  Status Do(const Event& event) {
    const model::Run before = run;
    changes = {};
    const Status status = Step(run, event, now, budget, changes);
    if (!status || changes.superseded) {
      if (!Same(run, before) || run.to_settle != before.to_settle ||
          run.to_reset != before.to_reset) {
        Fail("a refused event changed something");
      }
      if (changes.rows() != 0) Fail("a refused event wrote rows");
    }
    Commit();
    return status;
  }
  /// Time passes, and every timer that was asked for and comes due fires.  `changes` holds the
  /// effects of all of them.
  void Pass(Duration time) {
    now += time;
    Changes all;
    while (!timers.empty() && timers.begin()->first <= now) {
      const auto [when, task] = *timers.begin();
      timers.erase(timers.begin());
      EXPECT_TRUE(Do(TimerDue{when, task}));
      all.ready.insert(all.ready.end(), changes.ready.begin(), changes.ready.end());
      all.cancels.insert(all.cancels.end(), changes.cancels.begin(), changes.cancels.end());
      all.events.insert(all.events.end(), changes.events.begin(), changes.events.end());
      all.more = changes.more;
    }
    changes = std::move(all);
  }
  /// With everything that follows in later rounds.
  Status DoAll(const Event& event) {
    const Status status = Do(event);
    Changes all = changes;
    while (changes.more) {
      EXPECT_TRUE(Do(ContinueRun{}));
      for (const TaskNo no : changes.ready) all.ready.push_back(no);
      all.finished |= changes.finished;
    }
    all.more = false;
    changes = all;
    return status;
  }

  TaskNo No(std::string_view id) const { return run.workflow->Find(id).value(); }
  const TaskRun& At(std::string_view id) const { return run.tasks[No(id).value]; }
  TaskState State(std::string_view id) const { return At(id).state; }

  void Queue(std::string_view id) {
    ASSERT_TRUE(Do(QueueTask{No(id)}));
    ASSERT_EQ(State(id), TaskState::kQueued) << id;
  }
  /// Queues, starts and ends the task.
  void Run1(std::string_view id, Verdict verdict = Verdict::kSucceeded,
            Reason reason = Reason::kNone) {
    ASSERT_NO_FATAL_FAILURE(Queue(id));
    ASSERT_TRUE(Do(AttemptStarted{No(id), At(id).epoch}));
    End(id, verdict, reason);
  }
  void End(std::string_view id, Verdict verdict, Reason reason = Reason::kNone) {
    Outcome outcome;
    outcome.verdict = verdict;
    outcome.reason = reason;
    ASSERT_TRUE(Do(AttemptEnded{No(id), At(id).epoch, outcome}));
  }
  /// "a:succeeded b:ready", in the order of numbers.
  std::string States() const {
    std::string text;
    for (std::uint32_t i = 0; i < run.tasks.size(); ++i) {
      text += fmt::format("{}{}:{}", i ? " " : "", run.workflow->task(TaskNo{i}).id,
                          TaskStateName(run.tasks[i].state));
    }
    return text;
  }
  std::string Ready() const {
    std::string text;
    for (const TaskNo no : changes.ready) text += run.workflow->task(no).id + " ";
    return text;
  }

  /// What a crash leaves: the run from its rows, with the effects that follow.
  void Crash() {
    changes = {};
    run = Rebuilt(changes);
    timers.clear();
    for (const auto& timer : changes.timers) timers.emplace(timer.when, timer.task);
  }

  Run run;
  RunHeader stored;
  std::map<TaskNo, StoredTask> rows;
  std::set<std::pair<Instant, std::optional<TaskNo>>> timers;  // asked for, not yet due
  Instant now{std::chrono::hours(1000)};
  std::size_t budget;
  Changes changes;
  std::string fault;  // the first one

  void Fail(std::string what) {
    if (fault.empty()) fault = std::move(what);
    if (!quiet) ADD_FAILURE() << fault;
  }
  bool quiet = false;  // the caller reports `fault`

 private:
  static std::string Text(const RunHeader& h) {
    std::string text = fmt::format(
        "state {} reason {} generation {} next {} started {} finished {} paused {} cancel {} "
        "finally {} stopped {} wake {} reset {}/{} counts",
        RunStateName(h.state), ReasonName(h.reason), h.generation, h.next_epoch.value,
        Us(h.started_at), Us(h.finished_at), Us(h.paused_at), Us(h.cancel_requested_at),
        Us(h.finally_started_at), h.finally_stopped, Us(h.wake_at), static_cast<int>(h.reset.kind),
        h.reset.task.value);
    for (const auto count : h.counts) text += fmt::format(" {}", count);
    return text;
  }
  static std::string Text(const TaskRun& t) {
    const bool derived = t.state == TaskState::kWaiting || t.state == TaskState::kReady;
    return fmt::format(
        "{} reason {} epoch {} not_before {} since {} generation {} snoozes {} tries {} losses {} "
        "dispatch {} row {} told {} zombie {} admitted {} deadline {} up {} {} {} {}",
        TaskStateName(t.state), ReasonName(t.reason), t.epoch.value, Us(t.not_before),
        derived ? 0 : Us(t.since), t.generation, t.snoozes, t.tries, t.losses, t.dispatch_failures,
        bool{t.has_row}, bool{t.cancel_sent}, bool{t.zombie}, bool{t.admitted}, Us(t.deadline),
        t.upstreams.succeeded, t.upstreams.failed, t.upstreams.upstream_failed,
        t.upstreams.skipped);
  }
  static std::string Text(const Run& run) {
    std::string text =
        Text(run.header) + fmt::format("\nlive {} failed {} unsettled {} {} {}", run.live,
                                       run.failed_deciding, run.unsettled[0], run.unsettled[1],
                                       run.unsettled[2]);
    for (const TaskRun& task : run.tasks) text += "\n" + Text(task);
    return text;
  }
  /// Everything but what no row holds: since when a task waits or is ready.
  static bool Same(const Run& a, const Run& b) {
    const auto header = [](const RunHeader& h) {
      return std::tuple(h.state, h.reason, h.generation, h.next_epoch, h.started_at, h.finished_at,
                        h.paused_at, h.cancel_requested_at, h.finally_started_at, h.finally_stopped,
                        h.wake_at, h.reset.kind, h.reset.task, h.counts);
    };
    const auto task = [](const TaskRun& t) {
      const bool derived = t.state == TaskState::kWaiting || t.state == TaskState::kReady;
      return std::tuple(t.state, t.reason, t.epoch, t.not_before, derived ? Instant{} : t.since,
                        t.generation, t.snoozes, t.tries, t.losses, t.dispatch_failures,
                        bool{t.has_row}, bool{t.cancel_sent}, bool{t.zombie}, bool{t.admitted},
                        t.deadline,
                        std::tuple(t.upstreams.succeeded, t.upstreams.failed,
                                   t.upstreams.upstream_failed, t.upstreams.skipped));
    };
    return header(a.header) == header(b.header) && a.live == b.live &&
           a.failed_deciding == b.failed_deciding && a.unsettled == b.unsettled &&
           std::ranges::equal(a.tasks, b.tasks, {}, task, task);
  }
  static std::int64_t Us(Instant i) { return i.time_since_epoch().count(); }

  Run Rebuilt(Changes& effects) {
    std::vector<StoredTask> list;
    list.reserve(rows.size());
    for (const auto& [no, row] : rows) list.push_back(row);
    auto result = Rebuild(stored, run.workflow, list, now, effects);
    if (!result) {
      Fail("rebuild: " + result.error().message);
      return run;
    }
    return *std::move(result);
  }

  void Commit() {
    for (const TaskNo no : changes.tasks) {
      if (!run.tasks[no.value].dirty || !run.tasks[no.value].has_row) Fail("dirty row not marked");
      rows[no] = ToStored(run, no);
    }
    MarkCommitted(run, changes);
    for (const auto& timer : changes.timers) timers.emplace(timer.when, timer.task);
    if (changes.header) stored = run.header;
    CheckSums();
    Changes effects;
    const Run rebuilt = Rebuilt(effects);
    if (!Same(rebuilt, run)) Fail("rebuilt:\n" + Text(rebuilt) + "\nin memory:\n" + Text(run));
    CheckLists(rebuilt);
    if (effects.rows() != 0) Fail("rebuild changed rows");
    if (effects.more != (!run.to_settle.empty() || !run.to_reset.empty())) Fail("more differs");
    if (IsEvictable(run) != IsEvictable(rebuilt)) Fail("evictable differs");
    CheckWake();
  }

  void CheckSums() {
    std::array<std::uint32_t, kTaskStateCount> counts{};
    std::uint32_t live = 0;
    for (const TaskRun& task : run.tasks) {
      ++counts[static_cast<std::size_t>(task.state)];
      live += IsLive(task.state) || task.zombie ? 1 : 0;
      if (task.dirty) Fail("dirty after commit");
    }
    if (counts != run.header.counts) Fail("counts differ from the tasks");
    if (live != run.live) Fail("live differs from the tasks");
  }

  void CheckLists(const Run& rebuilt) {
    const std::set<TaskNo> want(rebuilt.to_settle.begin(), rebuilt.to_settle.end());
    const std::set<TaskNo> have(run.to_settle.begin(), run.to_settle.end());
    if (!std::ranges::includes(have, want)) Fail("to_settle misses tasks");
    if (want.empty() != have.empty()) Fail("to_settle holds only stale tasks");
    for (const TaskNo no : have) {
      if (!want.contains(no) && run.tasks[no.value].state == TaskState::kWaiting) {
        Fail("to_settle holds a task that waits");
      }
    }
    if (rebuilt.to_reset != run.to_reset) Fail("to_reset differs");
  }

  /// Recomputes `wake_at` from all tasks.
  void CheckWake() {
    const RunHeader& h = run.header;
    const bool memory =
        run.live > 0 || !run.to_settle.empty() || !run.to_reset.empty() ||
        (h.paused_at == Instant{} && h.counts[static_cast<std::size_t>(TaskState::kReady)] > 0);
    if (IsEvictable(run) == memory) Fail("evictable is wrong");
    Instant want = kNever;
    if (memory || h.state == RunState::kPending) {
      want = Instant{};
    } else if (h.state == RunState::kRunning) {
      for (const TaskRun& task : run.tasks) {
        if (task.state == TaskState::kParked) want = std::min(want, task.not_before);
        if (task.deadline != Instant{} && !IsTerminal(task.state) && !IsLive(task.state))
          want = std::min(want, task.deadline);
      }
      const WorkflowDefinition& d = run.workflow->definition();
      if (h.finally_started_at != Instant{}) {
        want = std::min(want, h.finally_started_at + d.finally_timeout +
                                  (h.finally_stopped ? d.cancel_timeout : Duration{0}));
      } else if (h.cancel_requested_at != Instant{}) {
        want = std::min(want, h.cancel_requested_at + d.cancel_timeout);
      } else if (d.timeout > Duration{0}) {
        want = std::min(want, h.started_at + d.timeout);
      }
    }
    if (want != h.wake_at) Fail(fmt::format("wake_at {} is not {}", Us(h.wake_at), Us(want)));
  }
};

inline Task Shell(std::string id, std::vector<std::string> needs = {},
                  TaskRole role = TaskRole::kMain) {
  Task task;
  task.id = std::move(id);
  task.needs = std::move(needs);
  task.role = role;
  task.action = ShellAction{.script = "true"};
  return task;
}

inline WorkflowDefinition Of(std::vector<Task> tasks) {
  WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks = std::move(tasks);
  return definition;
}

}  // namespace headworks::model
