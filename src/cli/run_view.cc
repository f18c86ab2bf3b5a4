#include "run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "line_reader.h"
#include "terminal.h"

namespace headworks::cli {
namespace {

constexpr std::size_t kPage = 10'000;
constexpr int kMostTries = 5;
constexpr std::size_t kMostEvents = 1'000;

}  // namespace

void RunView::AddAttempt(model::AttemptRecord attempt) {
  latest[attempt.task] = attempts.size();
  attempts.push_back(std::move(attempt));
}

const model::AttemptRecord* RunView::LastAttempt(TaskNo task) const {
  const auto found = latest.find(task);
  return found == latest.end() ? nullptr : &attempts[found->second];
}

Duration RunView::Elapsed(Instant now) const {
  if (header.started_at == Instant{}) return Duration(0);
  return (header.finished_at == Instant{} ? now : header.finished_at) - header.started_at;
}

std::uint32_t RunView::settled() const {
  std::uint32_t sum = 0;
  for (std::size_t state = 0; state < model::kTaskStateCount; ++state)
    if (model::IsTerminal(static_cast<model::TaskState>(state))) sum += header.counts[state];
  return sum;
}

Result<RunView> RunReader::ReadSummary(Runner& runner, std::string_view reference) {
  RunView view;
  auto record = runner.query().GetRun(tenant_, reference);
  if (!record) return NameStore(context_, std::move(record).error());
  view.header = std::move(record->header);
  if (workflow_ == nullptr || workflow_->version() != view.header.version) {
    const auto text = runner.workflows().GetVersion(tenant_, view.header.version);
    auto read = text ? model::Workflow::FromCanonicalJson(*text) : Error(text.error());
    if (!read)
      return Error{read.error().code,
                   fmt::format("the workflow version of run {} cannot be read: {}",
                               view.header.run_no.value, read.error().message)};
    workflow_ = *std::move(read);
  }
  view.workflow = workflow_;
  return view;
}

Result<RunView> RunReader::Read(Runner& runner, std::string_view reference, Instant now) {
  HEADWORKS_ASSIGN(RunView view, ReadSummary(runner, reference));
  const std::string number = fmt::format("{}", view.header.run_no.value);
  for (int tries = 1;; ++tries) {
    view.holders.clear();
    HEADWORKS_ASSIGN(const auto rows, ReadRows(runner, view));
    // Rows and header come from two reads.  The header is the later one, so it knows every epoch
    // of the rows; if the run ended or was reset in between, the rows are read again.
    const model::RunHeader before = std::move(view.header);
    HEADWORKS_ASSIGN(store::RunRecord record, runner.query().GetRun(tenant_, number));
    view.header = std::move(record.header);
    if ((before.state != view.header.state || before.generation != view.header.generation) &&
        tries < kMostTries)
      continue;
    model::Changes effects;  // a reader performs none
    auto run = model::Rebuild(view.header, view.workflow, rows, now, effects);
    if (!run && tries < kMostTries) continue;
    if (!run) return run.error();
    view.tasks = std::move(run->tasks);
    view.header.counts = run->header.counts;
    break;
  }
  // After the rows, so that every row that is settled finds its attempt.
  for (Epoch after;;) {
    HEADWORKS_ASSIGN(auto page, runner.query().ListAttempts(tenant_, view.header.run_no,
                                                            std::nullopt, after, kPage));
    for (model::AttemptRecord& attempt : page) view.AddAttempt(std::move(attempt));
    if (page.size() < kPage) break;
    after = view.attempts.back().epoch;
  }
  HEADWORKS_TRY(ReadNotes(runner, view));
  return view;
}

Status RunReader::ReadLimits(Runner& runner, RunView& view) {
  if (view.header.state == model::RunState::kPending) HEADWORKS_TRY(ReadPlaces(runner, view));
  if (std::ranges::find(view.tasks, model::Reason::kPermit, &model::TaskRun::reason) !=
      view.tasks.end()) {
    HEADWORKS_ASSIGN(view.pools, ReadPools(context_, runner, HolderNames::kYes));
  }
  return {};
}

Status RunReader::ReadPlaces(Runner& runner, RunView& view) {
  const model::WorkflowDefinition& definition = view.workflow->definition();
  const auto read = [&](std::optional<std::string> key,
                        std::vector<model::RunHeader>& into) -> Status {
    HEADWORKS_ASSIGN(
        const auto active,
        runner.query().ListActive(
            tenant_, {.name = view.header.name, .key = std::move(key), .limit = kMostPicked}));
    for (const store::RunRecord& run : active) into.push_back(run.header);
    return {};
  };
  if (definition.max_active_runs > 0) HEADWORKS_TRY(read(std::nullopt, view.active));
  if (const auto& concurrency = definition.concurrency;
      concurrency && view.header.concurrency_key) {
    HEADWORKS_TRY(read(view.header.concurrency_key, view.active_with_key));
    const auto rate = static_cast<std::size_t>(concurrency->rate);
    if (rate > 0) {
      HEADWORKS_ASSIGN(const auto starts,
                       runner.query().ListStarts(view.header.name, *view.header.concurrency_key,
                                                 context_.clock.Now() - concurrency->rate_per));
      if (starts.size() >= rate)
        view.next_start = starts[starts.size() - rate] + concurrency->rate_per;
    }
  }
  return CountUnderWay(runner, view);
}

Status RunReader::CountUnderWay(Runner& runner, RunView& view) {
  view.max_in_memory = context_.settings().runner.max_runs_in_memory;
  store::RunQuery::RunFilter filter{.states = {model::RunState::kRunning}};
  while (view.under_way < view.max_in_memory) {
    filter.limit = std::min<std::size_t>(kPage, view.max_in_memory - view.under_way);
    HEADWORKS_ASSIGN(const auto page, runner.query().ListRuns(tenant_, filter));
    view.under_way += page.size();
    if (page.size() < filter.limit) break;
    filter.before = page.back().header.run_no;
  }
  return {};
}

Status RunReader::ReadPicked(Runner& runner, RunView& view) {
  using model::TaskState;
  std::map<TaskState, std::size_t> count;
  for (std::optional<TaskNo> after;;) {
    HEADWORKS_ASSIGN(const auto page,
                     runner.query().ListTasks(tenant_, view.header.run_no, after, kPage));
    for (const store::TaskRecord& record : page) {
      const model::StoredTask& row = record.row;
      after = row.task;
      if ((row.state != TaskState::kFailed && row.state != TaskState::kParked &&
           row.state != TaskState::kRunning) ||
          ++count[row.state] > kMostPicked)
        continue;
      model::TaskRun& task = view.picked[row.task];
      task.state = row.state;
      task.reason = row.reason;
      task.epoch = row.epoch;
      task.since = row.since;
      task.not_before = row.not_before;
    }
    if (page.size() < kPage) break;
  }
  for (const auto& [no, task] : view.picked) {
    if (task.state == TaskState::kRunning) continue;
    const Epoch before(task.epoch.value - 1);
    HEADWORKS_ASSIGN(auto last,
                     runner.query().ListAttempts(tenant_, view.header.run_no, no, before, 1));
    for (model::AttemptRecord& attempt : last) view.AddAttempt(std::move(attempt));
  }
  return {};
}

Status RunReader::ReadLastLines(Runner& runner, RunView& view) {
  LineReader lines(runner.logs(), tenant_, view.header.run_no);
  for (std::uint32_t no = 0; no < view.tasks.size() && view.last_lines.size() < kMostPicked; ++no) {
    const model::TaskRun& task = view.tasks[no];
    if (task.state != model::TaskState::kFailed || task.epoch.value == 0) continue;
    HEADWORKS_ASSIGN(const auto page, lines.Last(TaskNo(no), task.epoch, 1));
    for (const log_store::Entry& entry : page.entries)
      view.last_lines[TaskNo(no)] = ForScreen(entry.line.bytes);
  }
  return {};
}

Status RunReader::ReadNotes(Runner& runner, RunView& view) {
  using enum model::Reason;
  constexpr std::array kTold = {kExpression, kPending, kPendingTimeout, kUnknown};
  if (std::ranges::find_first_of(view.tasks, kTold, {}, &model::TaskRun::reason) ==
          view.tasks.end() &&
      view.count(model::TaskState::kQueued) == 0 && view.header.reason != kCancelRequested)
    return {};
  HEADWORKS_ASSIGN(const auto events,
                   runner.query().ListEvents(tenant_, view.header.run_no, kMostEvents));
  for (const model::RunEventRecord& event : events) {
    if (event.kind == "cancel" && event.at == view.header.cancel_requested_at)
      view.cancelled_by = event.actor;
    const bool held_up = event.kind == "held_up";
    if (event.kind != "expression" && event.kind != "overdue" && !held_up) continue;
    auto& notes = event.kind == "overdue" ? view.overdue : view.expression_errors;
    // "TASK: why"; the id of a task has no colon unless a matrix made it.
    for (std::size_t colon = event.detail.find(": "); colon != std::string::npos;
         colon = event.detail.find(": ", colon + 1)) {
      const auto task = view.workflow->Find(event.detail.substr(0, colon));
      if (!task) continue;
      if (held_up)
        view.held_up[*task] = {event.detail.substr(colon + 2), event.at};
      else
        notes[*task] = event.detail.substr(colon + 2);
      break;
    }
  }
  return {};
}

Result<std::vector<model::StoredTask>> RunReader::ReadRows(Runner& runner, RunView& view) {
  std::vector<model::StoredTask> rows;
  std::optional<TaskNo> after;
  for (;;) {
    HEADWORKS_ASSIGN(const auto page,
                     runner.query().ListTasks(tenant_, view.header.run_no, after, kPage));
    for (const store::TaskRecord& record : page) {
      rows.push_back(record.row);
      if (model::IsLive(record.row.state))
        view.holders[record.row.task] =
            record.holder.empty() ? record.executor
                                  : fmt::format("{} ({})", record.executor, record.holder);
    }
    if (page.size() < kPage) return rows;
    after = page.back().row.task;
  }
}

std::vector<std::uint32_t> Levels(const model::Workflow& workflow) {
  std::vector<std::uint32_t> levels(workflow.size(), 0);
  std::uint32_t behind = 0;
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const bool main = workflow.task(TaskNo(no)).role == model::TaskRole::kMain;
    if (!main) levels[no] = behind;
    for (const TaskNo up : workflow.upstreams(TaskNo(no)))
      levels[no] = std::max(levels[no], levels[up.value] + 1);
    if (main) behind = std::max(behind, levels[no] + 1);
  }
  return levels;
}

std::string DescribeOutcome(const model::Outcome& outcome) {
  std::string text;
  if (outcome.exit_code && outcome.reason == model::Reason::kExitCode)
    text = fmt::format("exit code {}", *outcome.exit_code);
  else if (outcome.signal && outcome.reason == model::Reason::kSignal)
    text = fmt::format("signal {} ({})", *outcome.signal, strsignal(*outcome.signal));
  else if (outcome.reason != model::Reason::kNone)
    text = model::ReasonName(outcome.reason);
  else
    text = model::VerdictName(outcome.verdict);
  return text;
}

std::string FaultOf(const model::Outcome& outcome) {
  using enum model::Reason;
  constexpr auto kTold =
      std::to_array({kError, kSpawn, kOutput, kArtifact, kExpression, kDispatchFailed, kRefused});
  if (std::ranges::find(kTold, outcome.reason) == kTold.end()) return "";
  return ForScreen(outcome.error.substr(0, outcome.error.find('\n')));
}

bool StoppedByDeadline(const RunView& view, const model::AttemptRecord& attempt) {
  const model::TaskRun& task = view.task(attempt.task);
  const model::Outcome& outcome = attempt.outcome;
  return task.reason == model::Reason::kDeadline && task.epoch == attempt.epoch &&
         (outcome.verdict == model::Verdict::kCancelled ||
          outcome.reason == model::Reason::kTimeout);
}

bool NeverBegan(const RunView& view, const model::AttemptRecord& attempt) {
  return StoppedByDeadline(view, attempt) && attempt.outcome.started_at == Instant{};
}

std::string DescribeEnd(const RunView& view, const model::AttemptRecord& attempt) {
  // It was asked to stop, and the task knows why.
  const model::TaskRun& task = view.task(attempt.task);
  if (attempt.outcome.verdict == model::Verdict::kCancelled && task.epoch == attempt.epoch &&
      task.state == model::TaskState::kCancelled && task.reason != model::Reason::kNone)
    return DescribeReason(view, attempt.task);
  if (!StoppedByDeadline(view, attempt)) return DescribeOutcome(attempt.outcome);
  return fmt::format(
      "deadline of {}{}", FormatDuration(view.workflow->task(attempt.task).deadline),
      NeverBegan(view, attempt) ? fmt::format(", before try {} could start", attempt.try_no) : "");
}

std::string DescribeTry(const RunView& view, const model::AttemptRecord& attempt) {
  if (NeverBegan(view, attempt)) return "";
  return fmt::format(" (try {} of {})", attempt.try_no,
                     view.workflow->task(attempt.task).retry.max_attempts);
}

bool CameTooLate(const model::AttemptRecord& attempt) { return attempt.queued_at == Instant{}; }

std::string DescribeReason(const RunView& view, TaskNo no) {
  const model::Reason reason = view.task(no).reason;
  if (reason == model::Reason::kPendingTimeout) {
    const Duration limit = view.workflow->task(no).start_timeout;
    return fmt::format("did not start within start_timeout{} and the time after it ({})",
                       limit > Duration(0) ? fmt::format(" ({})", FormatDuration(limit)) : "",
                       model::ReasonName(reason));
  }
  if (reason == model::Reason::kRunTimeout)
    return fmt::format("the run's timeout of {} ({})",
                       FormatDuration(view.workflow->definition().timeout),
                       model::ReasonName(reason));
  if (reason == model::Reason::kTriggerRule)
    for (const TaskNo up : view.workflow->upstreams(no))
      if (const model::TaskState state = view.task(up).state; state != model::TaskState::kSucceeded)
        return fmt::format("{} is {} ({})", view.id(up), model::TaskStateName(state),
                           model::ReasonName(reason));
  if (reason == model::Reason::kUnknown)
    return fmt::format("its executor cannot say what became of it ({})", model::ReasonName(reason));
  return reason == model::Reason::kNone ? std::string() : std::string(model::ReasonName(reason));
}

const model::AttemptRecord* CountingAttempt(const RunView& view, TaskNo no) {
  const model::TaskRun& task = view.task(no);
  const model::AttemptRecord* last = view.LastAttempt(no);
  if (last == nullptr || CameTooLate(*last) || last->generation != task.generation) return nullptr;
  return model::IsTerminal(task.state) && last->epoch != task.epoch ? nullptr : last;
}

std::string DescribeRunEnd(const RunView& view) {
  const model::RunHeader& header = view.header;
  if (header.cancel_requested_at == Instant{}) return "";
  const std::string at = FormatInstant(header.cancel_requested_at);
  if (header.reason == model::Reason::kRunTimeout)
    return fmt::format("the run's timeout of {} ended it at {}",
                       FormatDuration(view.workflow->definition().timeout), at);
  if (header.reason == model::Reason::kCancelRest)
    return fmt::format("a task failed, and on_failure: cancel_rest ended the rest at {}", at);
  return fmt::format("it was cancelled at {}{}", at,
                     view.cancelled_by.empty() ? "" : " by " + view.cancelled_by);
}

std::string DescribeTask(const RunView& view, TaskNo no) {
  const model::TaskRun& task = view.task(no);
  const model::AttemptRecord* last = CountingAttempt(view, no);
  // What a person said stands over what the attempt did.
  if (task.reason == model::Reason::kMarked)
    return last == nullptr ? "marked"
                           : fmt::format("marked; its last attempt: {}", DescribeEnd(view, *last));
  if (last == nullptr || last->outcome.verdict == model::Verdict::kSucceeded ||
      task.state == model::TaskState::kCancelled)
    return DescribeReason(view, no);
  const bool is_past = !model::IsTerminal(task.state) && task.state != model::TaskState::kParked;
  return (is_past ? "last attempt: " : "") + DescribeEnd(view, *last);
}

std::vector<Instant> FirstStarts(const RunView& view) {
  std::vector<Instant> starts(view.tasks.size());
  for (const model::AttemptRecord& attempt : view.attempts) {
    Instant& start = starts[attempt.task.value];
    if (start == Instant{} && !CameTooLate(attempt) &&
        attempt.generation == view.task(attempt.task).generation)
      start = attempt.outcome.started_at;
  }
  return starts;
}

std::string RunStateText(const model::RunHeader& header) {
  std::string text(model::RunStateName(header.state));
  if (model::IsTerminal(header.state)) return text;
  if (!header.stuck_reason.empty()) return "stuck";
  if (header.cancel_requested_at != Instant{}) return "cancelling";
  if (header.paused_at != Instant{}) return "paused";
  return text;
}

bool IsAllowedFailure(const RunView& view, TaskNo task) {
  return view.task(task).state == model::TaskState::kFailed &&
         view.workflow->task(task).allow_failure;
}

bool IsKept(const RunView& before, const RunView& now, TaskNo task) {
  const model::TaskRun& was = before.task(task);
  const model::TaskRun& is = now.task(task);
  return model::IsTerminal(was.state) && was.state == is.state && was.since == is.since;
}

std::string StateText(const RunView& view, TaskNo task) {
  return fmt::format("{}{}", model::TaskStateName(view.task(task).state),
                     IsAllowedFailure(view, task) ? " (allowed)" : "");
}

}  // namespace headworks::cli
