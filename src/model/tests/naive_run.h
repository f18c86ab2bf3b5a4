#pragma once

#include <algorithm>
#include <vector>

#include "headworks/model/step.h"

namespace headworks::model {

/// What a run must look like, written down from the design without regard to cost: no counters, no
/// work lists, no rounds.  After every event it looks at all tasks again until nothing changes.
class NaiveRun {
 public:
  struct NaiveTask {
    TaskState state = TaskState::kWaiting;
    bool by_rule = false;  // settled by its trigger rule
    bool marked = false;
    bool zombie = false;
    int tries = 0;
    int losses = 0;
    int dispatch_failures = 0;
    bool admitted = false;  // its `when` is true
    bool overdue = false;   // told so
  };

  explicit NaiveRun(const Workflow& workflow) : workflow_(workflow), tasks(workflow.size()) {}

  void Start() {
    if (state != RunState::kPending) return;
    state = RunState::kRunning;
    Fix();
  }
  void Queue(TaskNo no) {
    if (At(no).state != TaskState::kReady || state != RunState::kRunning || paused) return;
    if (!workflow_.task(no).when.empty() && !At(no).admitted) return;
    At(no).state = TaskState::kQueued;
  }
  /// The answer to the question of a task that is ready.
  void Evaluated(TaskNo no, bool holds, bool error) {
    if (error) {
      End(no, TaskState::kFailed);
    } else if (!holds) {
      End(no, TaskState::kSkipped);
    } else {
      At(no).admitted = true;
    }
    Fix();
  }
  void Deadline(TaskNo no) {
    if (IsTerminal(At(no).state) || Stopped(no)) return;
    if (IsLive(At(no).state))
      At(no).overdue = true;
    else
      End(no, TaskState::kFailed);
    Fix();
  }
  void Started(TaskNo no) { At(no).state = TaskState::kRunning; }

  void Ended(TaskNo no, Verdict verdict) {
    NaiveTask& task = At(no);
    if (task.zombie) {
      task.zombie = false;
      return;
    }
    const RetryPolicy& retry = workflow_.task(no).retry;
    const bool stop = Stopped(no);
    if (verdict == Verdict::kSucceeded || verdict == Verdict::kFailed || verdict == Verdict::kRetry)
      ++task.tries;
    if (verdict == Verdict::kLost) ++task.losses;
    const bool again = verdict == Verdict::kRetry || verdict == Verdict::kSnoozed ||
                       verdict == Verdict::kInterrupted || verdict == Verdict::kLost;
    if (verdict == Verdict::kSucceeded) {
      End(no, TaskState::kSucceeded);
    } else if (verdict == Verdict::kSkipped) {
      End(no, TaskState::kSkipped);
    } else if (task.overdue && !stop && verdict != Verdict::kFailed) {
      End(no, TaskState::kFailed);
    } else if (verdict == Verdict::kCancelled || (again && stop)) {
      End(no, TaskState::kCancelled);
    } else if (verdict == Verdict::kFailed ||
               (verdict == Verdict::kRetry && task.tries == retry.max_attempts) ||
               (verdict == Verdict::kLost && task.losses == retry.max_losses)) {
      End(no, TaskState::kFailed);
    } else if (verdict == Verdict::kInterrupted ||
               (verdict == Verdict::kLost && task.losses == 1)) {
      task.state = TaskState::kWaiting;
    } else {
      task.state = TaskState::kParked;
    }
    Fix();
  }

  void Answered(TaskNo no, Disposition disposition) {
    NaiveTask& task = At(no);
    if (task.state != TaskState::kQueued) return;
    if (disposition == Disposition::kRefused) End(no, TaskState::kFailed);
    if (disposition == Disposition::kRejected) {
      ++task.dispatch_failures;
      if (Stopped(no)) {
        End(no, TaskState::kCancelled);
      } else if (task.dispatch_failures == 6) {
        End(no, TaskState::kFailed);
      } else {
        task.state = TaskState::kParked;
      }
    }
    Fix();
  }

  /// The timer of a parked task, or the backstop of a running one.
  void TaskTimer(TaskNo no) {
    if (At(no).state == TaskState::kParked) {
      At(no).state = TaskState::kWaiting;
    } else {
      End(no, TaskState::kFailed);
      At(no).zombie = true;
    }
    Fix();
  }

  /// The run's present deadline: timeout, cancel_timeout, finally_timeout, then the last one.
  void RunTimer() {
    if (!in_finally && !cancelled) {
      Cancel(Reason::kRunTimeout);
    } else if (in_finally && !finally_stopped) {
      finally_stopped = true;
    } else {
      for (TaskNo no; no.value < tasks.size(); ++no.value) {
        if (!IsLive(At(no).state)) continue;
        if (!in_finally && workflow_.task(no).role == TaskRole::kFinally) continue;
        End(no, TaskState::kCancelled);
        At(no).zombie = true;
      }
      if (!in_finally) EnterFinally();
    }
    Fix();
  }

  bool CancelByUser() {
    if (IsTerminal(state)) return false;
    if (state == RunState::kPending) {
      cancelled = true;
      paused = false;
      state = RunState::kCancelled;
    } else if (cancelled) {
      finally_stopped = true;
    } else {
      Cancel(Reason::kCancelRequested);
    }
    Fix();
    return true;
  }
  bool Pause() {
    if (IsTerminal(state) || cancelled) return false;
    paused = true;
    return true;
  }
  bool Resume() {
    if (IsTerminal(state)) return false;
    paused = false;
    Fix();
    return true;
  }

  bool Rerun(ResetCursor::Kind kind, TaskNo from) {
    using Kind = ResetCursor::Kind;
    const bool group = kind == Kind::kFromGroup;
    const bool is_from = group || kind == Kind::kFrom;
    if (state == RunState::kPending) return false;
    if (state == RunState::kRunning &&
        (!is_from || cancelled || std::ranges::any_of(Named(from, group), [&](TaskNo no) {
          return !IsTerminal(At(no).state);
        }))) {
      return false;
    }
    std::vector<bool> in(tasks.size());
    bool any = false;
    bool unsettled = false;
    for (TaskNo no; no.value < tasks.size(); ++no.value) {
      const TaskState s = At(no).state;
      const bool bad =
          s == TaskState::kFailed || s == TaskState::kUpstreamFailed || s == TaskState::kCancelled;
      any |= bad;
      unsettled |= !IsTerminal(s);
      in[no.value] = kind == Kind::kAll || (kind == Kind::kFailed && bad) ||
                     workflow_.task(no).role != TaskRole::kMain;
    }
    if (is_from)
      for (const TaskNo no : Named(from, group)) in[no.value] = true;
    if (kind == Kind::kFailed && !any && !unsettled) return false;
    Close(in, [](TaskNo) { return true; });
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] && (IsLive(tasks[i].state) || tasks[i].zombie)) return false;
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i]) tasks[i] = {};
    }
    state = RunState::kRunning;
    cancelled = in_finally = finally_stopped = false;
    Fix();
    return true;
  }

  bool Mark(TaskNo task, TaskState as, bool group) {
    const std::vector<TaskNo> named = Named(task, group);
    if (state == RunState::kPending ||
        std::ranges::any_of(named, [&](TaskNo no) { return IsLive(At(no).state); }))
      return false;
    // Successors that a rule settled, and theirs, are decided again.
    std::vector<bool> in(tasks.size());
    for (const TaskNo no : named) in[no.value] = true;
    Close(in, [this](TaskNo next) { return At(next).by_rule; });
    for (const TaskNo no : named) in[no.value] = false;
    const bool again = !cancelled && std::ranges::find(in, true) != in.end();
    const bool ended = IsTerminal(state);
    const bool live =
        std::ranges::any_of(tasks, [](const NaiveTask& t) { return IsLive(t.state) || t.zombie; });
    if (again && ended && live) return false;
    if (again && !ended && in_finally && workflow_.task(task).role == TaskRole::kMain) return false;
    for (const TaskNo no : named) {
      End(no, as);
      At(no).marked = true;
    }
    if (again) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i]) tasks[i] = {};
      }
      if (ended) {
        state = RunState::kRunning;
        EnterFinally();
      }
    } else if (ended && !cancelled) {
      state = Outcome();
    }
    Fix();
    return true;
  }

  /// What the present tasks make of the run.
  RunState Outcome() const {
    if (cancelled) {
      return reason == Reason::kCancelRequested ? RunState::kCancelled : RunState::kFailed;
    }
    for (TaskNo no; no.value < tasks.size(); ++no.value) {
      const TaskState s = At(no).state;
      if ((s == TaskState::kFailed || s == TaskState::kCancelled) &&
          !workflow_.task(no).allow_failure) {
        return RunState::kFailed;
      }
    }
    return RunState::kSucceeded;
  }

  bool Stopped(TaskNo no) const {
    switch (workflow_.task(no).role) {
      case TaskRole::kMain:
        return cancelled;
      case TaskRole::kOnCancel:
        return in_finally || finally_stopped;
      case TaskRole::kFinally:
        return finally_stopped;
    }
    return false;
  }

 private:
  const Workflow& workflow_;
  bool cancelled_in_finally_ = false;

 public:
  std::vector<NaiveTask> tasks;
  RunState state = RunState::kPending;
  Reason reason = Reason::kNone;
  bool paused = false;
  bool cancelled = false;
  bool in_finally = false;
  bool finally_stopped = false;

 private:
  NaiveTask& At(TaskNo no) { return tasks[no.value]; }
  const NaiveTask& At(TaskNo no) const { return tasks[no.value]; }

  /// `no`, or all of its group.
  std::vector<TaskNo> Named(TaskNo no, bool group) const {
    if (!group) return {no};
    std::vector<TaskNo> all;
    for (TaskNo other; other.value < tasks.size(); ++other.value)
      if (workflow_.task(other).group == workflow_.task(no).group) all.push_back(other);
    return all;
  }

  template <typename Through>
  void Close(std::vector<bool>& in, Through through) const {
    for (bool grown = true; grown;) {
      grown = false;
      for (TaskNo no; no.value < tasks.size(); ++no.value) {
        for (const TaskNo up : workflow_.upstreams(no)) {
          if (in[up.value] && !in[no.value] && through(no)) in[no.value] = grown = true;
        }
      }
    }
  }

  void Cancel(Reason why) {
    cancelled = true;
    cancelled_in_finally_ = in_finally;
    reason = why;
    paused = false;
  }
  void EnterFinally() {
    in_finally = true;
    finally_stopped = finally_stopped && cancelled;
  }

  void End(TaskNo no, TaskState as) {
    At(no).state = as;
    At(no).by_rule = false;
    At(no).overdue = false;
    const bool bad = as == TaskState::kFailed || as == TaskState::kCancelled;
    if (bad && !workflow_.task(no).allow_failure && state == RunState::kRunning && !cancelled &&
        !in_finally && workflow_.definition().on_failure == OnFailure::kCancelRest) {
      Cancel(Reason::kCancelRest);
    }
  }

  enum class Choice { kWait, kRun, kSkip, kUpstreamFailed };

  /// The table of the design, column by column.
  Choice Choose(TaskNo no) const {
    int s = 0, f = 0, uf = 0, k = 0, a = 0;
    for (const TaskNo up : workflow_.upstreams(no)) {
      switch (At(up).state) {
        case TaskState::kSucceeded:
          ++s;
          break;
        case TaskState::kFailed:
          ++(workflow_.task(up).allow_failure ? s : f);
          break;
        case TaskState::kCancelled:
          ++f;
          break;
        case TaskState::kUpstreamFailed:
          ++uf;
          break;
        case TaskState::kSkipped:
          ++k;
          break;
        default:
          ++a;
      }
    }
    const int n = s + f + uf + k + a;
    bool upstream_failed = false, skipped = false, waits = a > 0;
    switch (workflow_.task(no).trigger_rule) {
      case TriggerRule::kAllSuccess:
        upstream_failed = f + uf > 0, skipped = k > 0;
        break;
      case TriggerRule::kAllFailed:
        skipped = s + k > 0;
        break;
      case TriggerRule::kAllDone:
        break;
      case TriggerRule::kAllSkipped:
        skipped = s + f + uf > 0;
        break;
      case TriggerRule::kOneSuccess:
        upstream_failed = s == 0 && k < n, skipped = k == n, waits = s == 0 && a > 0;
        break;
      case TriggerRule::kOneFailed:
        skipped = f + uf == 0, waits = f + uf == 0 && a > 0;
        break;
      case TriggerRule::kOneDone:
        skipped = s + f == 0, waits = s + f == 0 && a > 0;
        break;
      case TriggerRule::kNoneFailed:
        upstream_failed = f + uf > 0;
        break;
      case TriggerRule::kNoneFailedMinOneSuccess:
        upstream_failed = f + uf > 0, skipped = k == n;
        break;
      case TriggerRule::kNoneSkipped:
        skipped = k > 0;
        break;
      case TriggerRule::kAlways:
        return Choice::kRun;
    }
    if (n == 0) return Choice::kRun;
    if (waits) return Choice::kWait;
    if (a == 0 && upstream_failed) return Choice::kUpstreamFailed;
    if (a == 0 && skipped) return Choice::kSkip;
    return Choice::kRun;
  }

  /// Looks at one task; true if it changed in a way that others may see.
  bool Look(TaskNo no) {
    NaiveTask& task = At(no);
    if (IsTerminal(task.state) || IsLive(task.state)) return false;
    const TaskRole role = workflow_.task(no).role;
    if (Stopped(no)) {
      const bool not_cancelled =
          role == TaskRole::kOnCancel && in_finally && (!cancelled || cancelled_in_finally_);
      End(no, not_cancelled ? TaskState::kSkipped : TaskState::kCancelled);
      return true;
    }
    if (task.state == TaskState::kParked) return false;
    const bool open = role == TaskRole::kMain || (role == TaskRole::kOnCancel && cancelled) ||
                      (role == TaskRole::kFinally && in_finally);
    const Choice choice = open ? Choose(no) : Choice::kWait;
    if (choice == Choice::kSkip || choice == Choice::kUpstreamFailed) {
      End(no, choice == Choice::kSkip ? TaskState::kSkipped : TaskState::kUpstreamFailed);
      task.by_rule = true;
      return true;
    }
    task.state = choice == Choice::kRun ? TaskState::kReady : TaskState::kWaiting;
    if (choice != Choice::kRun || role != TaskRole::kMain || !in_finally) return false;
    // A mark made a main task run after `finally`: the run's end comes once more.
    in_finally = finally_stopped = false;
    for (TaskNo other; other.value < tasks.size(); ++other.value) {
      if (workflow_.task(other).role != TaskRole::kMain && !At(other).marked) At(other) = {};
    }
    return true;
  }

  bool AllSettled(TaskRole role) const {
    const auto [first, last] = workflow_.range(role);
    for (TaskNo no = first; no < last; ++no.value) {
      if (!IsTerminal(At(no).state)) return false;
    }
    return true;
  }

  void Fix() {
    while (state == RunState::kRunning) {
      bool changed = false;
      for (TaskNo no; no.value < tasks.size(); ++no.value) changed |= Look(no);
      if (changed) continue;
      if (!in_finally) {
        if (!AllSettled(TaskRole::kMain)) return;
        if (cancelled && !AllSettled(TaskRole::kOnCancel)) return;
        if (paused && !AllSettled(TaskRole::kFinally)) return;
        EnterFinally();
        continue;
      }
      for (const TaskRole role : {TaskRole::kMain, TaskRole::kOnCancel, TaskRole::kFinally}) {
        if (!AllSettled(role)) return;
      }
      state = Outcome();
      paused = false;
    }
  }
};

}  // namespace headworks::model
