#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "headworks/base/text.h"
#include "headworks/model/artifact_flow.h"
#include "run_view.h"

namespace headworks::cli {
namespace {

using model::TaskState;

std::string Ago(Instant since, Instant now) {
  if (since == Instant{}) return {};
  return fmt::format(" since {} ({} ago)", FormatInstant(since),
                     FormatDuration(std::max(now - since, Duration(0))));
}

/// Upstreams that are not over, with their states; at most a screenful.
void ExplainUpstreams(const RunView& view, TaskNo task, std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 20;
  std::size_t active = 0;
  for (const TaskNo up : view.workflow->upstreams(task)) {
    const model::TaskRun& state = view.tasks[up.value];
    if (model::IsTerminal(state.state)) continue;
    if (++active <= kMost)
      lines.push_back(
          fmt::format("waits for task {}, which is {}", view.id(up), TaskStateName(state.state)));
  }
  if (active > kMost) lines.push_back(fmt::format("... and for {} more tasks", active - kMost));
  const auto& rule = view.workflow->task(task).trigger_rule;
  if (active > 0 && rule != model::TriggerRule::kAllSuccess)
    lines.push_back(fmt::format("its trigger rule is {}", model::TriggerRuleName(rule)));
}

void ExplainWaiting(const RunView& view, TaskNo task, std::vector<std::string>& lines) {
  const std::size_t before = lines.size();
  switch (view.workflow->task(task).role) {
    case model::TaskRole::kMain:
      break;
    case model::TaskRole::kOnCancel:
      if (view.header.cancel_requested_at == Instant{})
        lines.push_back("runs only if the run is cancelled (on_cancel)");
      break;
    case model::TaskRole::kFinally:
      lines.push_back(fmt::format("runs when everything else is over (finally); {} of {} tasks are",
                                  view.settled(), view.workflow->size()));
      break;
  }
  ExplainUpstreams(view, task, lines);
  if (lines.size() == before && view.header.state != model::RunState::kPending)
    lines.push_back("the engine has yet to take up what its upstreams ended in");
}

void ExplainReady(const RunView& view, TaskNo task, bool engine_live,
                  std::vector<std::string>& lines) {
  // Then something else keeps it, and is told.
  if (!engine_live || view.header.paused_at != Instant{}) return;
  const std::uint32_t live = view.count(TaskState::kQueued) + view.count(TaskState::kRunning);
  const int most = view.workflow->definition().max_parallel;
  if (most > 0 && live >= static_cast<std::uint32_t>(most))
    return lines.push_back(fmt::format("the run has its max_parallel of {} tasks at work", most));
  lines.push_back(
      fmt::format("waits for credit of its executor; {} tasks of this run are at work "
                  "(max_concurrent_tasks bounds those of all runs)",
                  live));
  if (const model::Task& spec = view.workflow->task(task);
      !spec.queue.empty() || !spec.required.empty())
    lines.push_back(fmt::format(
        "where workers run it: only so many wait for those of queue '{}'{} at a time "
        "(max_waiting_for_workers)",
        model::QueueOf(spec),
        spec.required.empty() ? "" : fmt::format(" with {}", fmt::join(spec.required, ", "))));
}

/// What keeps a task from its permits, and who has them; at most a screenful.
void ExplainPermits(const RunView& view, TaskNo task, Instant now,
                    std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 20;
  const model::Task& spec = view.workflow->task(task);
  const auto pool = std::ranges::find(view.pools, spec.pool, &PoolView::name);
  lines.push_back(fmt::format("waits for {} {} of pool {}{}", spec.weight,
                              spec.weight == 1 ? "permit" : "permits", spec.pool,
                              Ago(view.tasks[task.value].not_before, now)));
  if (pool == view.pools.end() || !pool->limit) {
    lines.push_back(fmt::format("pool {} is not declared; `headworks pool set {} LIMIT` does that",
                                spec.pool, spec.pool));
  } else if (*pool->limit < spec.weight) {
    lines.push_back(
        fmt::format("pool {} has only {} in all; raise its limit, or the task never "
                    "starts",
                    spec.pool, *pool->limit));
  } else {
    lines.push_back(fmt::format("{} of {} are held{}", pool->held, *pool->limit,
                                pool->held + spec.weight <= *pool->limit
                                    ? "; those that are free are for tasks with higher priority, "
                                      "or older ones"
                                    : ""));
  }
  if (pool == view.pools.end()) return;
  for (std::size_t i = 0; i < std::min(kMost, pool->holders.size()); ++i) {
    const PermitHolder& holder = pool->holders[i];
    lines.push_back(fmt::format("run {} holds {}{}{}", holder.run.value, holder.permits,
                                holder.task.empty() ? "" : " for task " + holder.task,
                                Ago(holder.since, now)));
  }
  if (pool->holders.size() > kMost)
    lines.push_back(fmt::format("... and {} more; `headworks pool show {}` names all",
                                pool->holders.size() - kMost, spec.pool));
}

/// "run 7 (running), run 9 (cancelled, but an attempt is not known to be over)"
std::string NameRuns(const std::vector<model::RunHeader>& runs) {
  constexpr std::size_t kMost = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, runs.size()); ++i)
    text += fmt::format(
        "{}run {} ({}{})", text.empty() ? "" : ", ", runs[i].run_no.value, RunStateText(runs[i]),
        model::IsTerminal(runs[i].state) ? ", but an attempt is not known to be over" : "");
  return text + (runs.size() > kMost ? fmt::format(" and {} more", runs.size() - kMost) : "");
}

/// Whether its workflow keeps a pending run waiting, as far as can be told.
bool WaitsForPlace(const RunView& view, Instant now) {
  const model::WorkflowDefinition& definition = view.workflow->definition();
  const auto full = [](int most, const std::vector<model::RunHeader>& holders) {
    return most > 0 && holders.size() >= std::min(static_cast<std::size_t>(most), kMostPicked);
  };
  const auto& concurrency = definition.concurrency;
  return full(definition.max_active_runs, view.active) ||
         (concurrency && ((view.next_start && *view.next_start > now) ||
                          full(concurrency->limit, view.active_with_key)));
}

/// Which limits of its workflow a pending run may wait for, and who has the places.
void ExplainPlaces(const RunView& view, Instant now, std::vector<std::string>& lines) {
  const model::WorkflowDefinition& definition = view.workflow->definition();
  const auto add = [&](const std::string& whose, int most, std::string_view setting,
                       const std::vector<model::RunHeader>& holders) {
    lines.push_back(fmt::format("of {} at most {} runs are under way at a time ({}){}{}", whose,
                                most, setting, holders.empty() ? "" : ": ", NameRuns(holders)));
  };
  if (definition.max_active_runs > 0)
    add("workflow " + view.header.name.workflow, definition.max_active_runs, "max_active_runs",
        view.active);
  const auto& concurrency = definition.concurrency;
  if (!concurrency || !view.header.concurrency_key) return;
  const std::string whose =
      concurrency->key.empty()
          ? "workflow " + view.header.name.workflow
          : fmt::format("workflow {} with concurrency key '{}'", view.header.name.workflow,
                        OneLine(*view.header.concurrency_key));
  if (concurrency->limit > 0)
    add(whose, concurrency->limit, "concurrency.limit", view.active_with_key);
  if (concurrency->rate == 0) return;
  lines.push_back(fmt::format(
      "of {} at most {} runs start within {} (concurrency.rate){}", whose, concurrency->rate,
      FormatDuration(concurrency->rate_per),
      view.next_start && *view.next_start > now
          ? fmt::format("; the next one may at {} (in {})", FormatInstant(*view.next_start),
                        FormatDuration(*view.next_start - now))
          : ""));
}

/// What keeps a pending run that its own limits let start.
void ExplainAdmission(const RunView& view, bool engine_live, std::vector<std::string>& lines) {
  if (engine_live && view.max_in_memory > 0 && view.under_way >= view.max_in_memory)
    return lines.push_back(
        fmt::format("{} runs are under way, and an engine holds as many at a time "
                    "(max_runs_in_memory): the run is taken up when there is room",
                    view.under_way));
  lines.push_back("the run is accepted and not yet taken up by an engine");
  if (engine_live && view.under_way > 0)
    lines.push_back(
        fmt::format("{} runs of its tenant are under way; an engine holds at most {} of "
                    "all tenants at a time (max_runs_in_memory)",
                    view.under_way, view.max_in_memory));
}

/// What keeps a whole run from going on.
void ExplainRun(const RunView& view, bool engine_live, Instant now,
                std::vector<std::string>& lines) {
  const model::RunHeader& header = view.header;
  if (!header.stuck_reason.empty()) lines.push_back(ExplainStuck(header, now));
  if (header.paused_at != Instant{})
    lines.push_back(fmt::format("the run is paused{}; `headworks runs resume {}` lets it go on",
                                Ago(header.paused_at, now), header.run_no.value));
  if (header.cancel_requested_at != Instant{})
    lines.push_back(fmt::format("the run is being cancelled{}: no further task of it starts",
                                Ago(header.cancel_requested_at, now)));
  if (header.state == model::RunState::kPending) {
    if (!WaitsForPlace(view, now)) ExplainAdmission(view, engine_live, lines);
    ExplainPlaces(view, now, lines);
  }
  if (header.reset.kind != model::ResetCursor::Kind::kNone)
    lines.push_back("a rerun or mark is still being applied; nothing is queued meanwhile");
  if (!engine_live)
    lines.push_back("no engine is running on this store; `headworks up` continues all runs");
}

/// Of an attempt that does not start: what its executor says.
void ExplainOverdue(const RunView& view, TaskNo task, std::vector<std::string>& lines) {
  const model::Reason reason = view.tasks[task.value].reason;
  if (reason != model::Reason::kPending && reason != model::Reason::kPendingTimeout &&
      reason != model::Reason::kUnknown)
    return;
  if (const auto why = view.overdue.find(task); why != view.overdue.end())
    lines.push_back(why->second);
}

/// Of an attempt that its executor does not take: what it answers.
void ExplainHeldUp(const RunView& view, TaskNo task, Instant now, std::vector<std::string>& lines) {
  const auto note = view.held_up.find(task);
  // It stands there for good, and may be about an earlier attempt.
  if (note == view.held_up.end() || !note->second.first.starts_with(fmt::format(
                                        "attempt {} ", view.tasks[task.value].epoch.value)))
    return;
  const auto& [why, noted_at] = note->second;
  lines.push_back(
      fmt::format("{} (as of {} ago)", why, FormatDuration(std::max(now - noted_at, Duration(0)))));
}

bool IsWithWorkers(const std::string& executor) {
  return executor == "queue" || executor.starts_with("queue (");
}

std::string WaitsForWorker(const model::Workflow& workflow, TaskNo no, Instant since, Instant now) {
  const model::Task& task = workflow.task(no);
  return fmt::format(
      "waits for a worker of queue '{}'{}{}{}", model::QueueOf(task),
      task.required.empty() ? "" : fmt::format(" that has {}", fmt::join(task.required, ", ")),
      model::PassesArtifacts(workflow, no) ? " that passes artifacts on" : "", Ago(since, now));
}

/// What to write should it run all the same.
void ExplainRule(const RunView& view, TaskNo no, std::vector<std::string>& lines) {
  const model::TriggerRule rule = view.workflow->task(no).trigger_rule;
  const auto skipped = std::ranges::count(view.workflow->upstreams(no), TaskState::kSkipped,
                                          [&](TaskNo up) { return view.task(up).state; });
  if (rule == model::TriggerRule::kAllSuccess && skipped > 0)
    lines.emplace_back(
        "its trigger_rule is all_success, and what is skipped has not succeeded; with "
        "trigger_rule: "
        "none_failed it runs unless something failed");
  else
    lines.push_back(fmt::format("its trigger_rule is {}", model::TriggerRuleName(rule)));
}

void ExplainSettled(const RunView& view, TaskNo task, std::vector<std::string>& lines) {
  const model::TaskRun& state = view.tasks[task.value];
  if (state.reason != model::Reason::kNone)
    lines.push_back(fmt::format("reason: {}", state.reason == model::Reason::kRunTimeout
                                                  ? DescribeReason(view, task)
                                                  : model::ReasonName(state.reason)));
  if (IsAllowedFailure(view, task))
    lines.emplace_back(
        "it may fail (allow_failure): for the run, and for what needs it, it counts as a success");
  if (state.reason == model::Reason::kWhen)
    lines.push_back(
        fmt::format("its `when` is false: {}", fmt::join(view.workflow->task(task).when, " && ")));
  ExplainOverdue(view, task, lines);
  if (const auto error = view.expression_errors.find(task); error != view.expression_errors.end())
    lines.push_back(fmt::format("error: {}", error->second));
  if (const model::AttemptRecord* last = view.LastAttempt(task)) {
    const bool no_more =
        last->outcome.verdict == model::Verdict::kRetry && state.state == TaskState::kFailed;
    // A task that was given up is so by no end of its own.
    if (NeverBegan(view, *last)) {
      lines.push_back(fmt::format("it ended at its {}", DescribeEnd(view, *last)));
    } else {
      const std::string_view verdict =
          no_more ? "failure" : model::VerdictName(last->outcome.verdict);
      const std::string end = DescribeEnd(view, *last);
      lines.push_back(fmt::format(
          "{}, try {}, {} {}{}",
          last->epoch == state.epoch ? "its last attempt" : "an earlier attempt", last->try_no,
          CameTooLate(*last) ? "came too late to count: it ended in" : "ended in", verdict,
          end == verdict ? "" : fmt::format(" ({})", end)));
    }
    if (!last->outcome.error.empty() && !StoppedByDeadline(view, *last) &&
        last->outcome.error != model::VerdictName(last->outcome.verdict))
      lines.push_back(fmt::format("error: {}", last->outcome.error));
  }
  if (const auto line = view.last_lines.find(task); line != view.last_lines.end())
    lines.push_back(fmt::format("last line: {}", line->second));
  if (state.state == TaskState::kUpstreamFailed || state.state == TaskState::kSkipped)
    for (const TaskNo up : view.workflow->upstreams(task)) {
      const TaskState ended = view.tasks[up.value].state;
      if (ended != TaskState::kSucceeded)
        lines.push_back(
            fmt::format("upstream task {} is {}{}", view.id(up), model::TaskStateName(ended),
                        IsAllowedFailure(view, up) ? " (allowed, counts as success)" : ""));
    }
  if (state.state == TaskState::kSkipped && state.reason == model::Reason::kTriggerRule)
    ExplainRule(view, task, lines);
  if (state.zombie)
    lines.push_back("its attempt is not provably over (zombie); it still holds its place");
}

void ExplainParked(const RunView& view, TaskNo task, Instant now, std::vector<std::string>& lines) {
  const model::TaskRun& state = view.tasks[task.value];
  const model::Task& task_of = view.workflow->task(task);
  lines.push_back(fmt::format("waits until {} (in {}): {}", FormatInstant(state.not_before),
                              FormatDuration(std::max(state.not_before - now, Duration(0))),
                              model::ReasonName(state.reason)));
  lines.push_back(fmt::format("{} of {} tries are used, {} of {} losses", state.tries,
                              task_of.retry.max_attempts, state.losses, task_of.retry.max_losses));
  if (const model::AttemptRecord* last = view.LastAttempt(task);
      last && !last->outcome.error.empty())
    lines.push_back(fmt::format("last error: {}", last->outcome.error));
}

}  // namespace

std::string ExplainStuck(const model::RunHeader& header, Instant now) {
  return fmt::format("the run is stuck{}: {}; `headworks runs unstick {}` tries again",
                     Ago(header.stuck_since, now), header.stuck_reason, header.run_no.value);
}

std::vector<std::string> ExplainTask(const RunView& view, TaskNo task, bool engine_live,
                                     Instant now) {
  const model::TaskRun& state = view.tasks[task.value];
  std::vector<std::string> lines;
  lines.push_back(fmt::format("task {} of run {} is {}{}", view.id(task), view.header.run_no.value,
                              StateText(view, task), Ago(state.since, now)));
  if (model::IsTerminal(state.state)) {
    ExplainSettled(view, task, lines);
    return lines;
  }
  ExplainRun(view, engine_live, now, lines);
  switch (state.state) {
    case TaskState::kWaiting:
      ExplainWaiting(view, task, lines);
      break;
    case TaskState::kReady:
      if (!view.workflow->task(task).when.empty() && !state.admitted)
        lines.emplace_back("its `when` is being evaluated");
      else if (state.reason == model::Reason::kPermit)
        ExplainPermits(view, task, now, lines);
      else
        ExplainReady(view, task, engine_live, lines);
      break;
    case TaskState::kQueued:
    case TaskState::kRunning: {
      const auto holder = view.holders.find(task);
      if (holder != view.holders.end() && !holder->second.empty())
        lines.push_back(fmt::format("it is with executor {}", holder->second));
      if (state.state == TaskState::kQueued)
        lines.push_back(holder != view.holders.end() && IsWithWorkers(holder->second)
                            ? WaitsForWorker(*view.workflow, task, state.since, now)
                            : "it was offered to its executor and has not reported a start yet");
      if (state.state == TaskState::kQueued) ExplainHeldUp(view, task, now, lines);
      ExplainOverdue(view, task, lines);
      break;
    }
    case TaskState::kParked:
      ExplainParked(view, task, now, lines);
      break;
    default:
      break;
  }
  return lines;
}

}  // namespace headworks::cli
