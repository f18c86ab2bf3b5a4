#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <span>

#include "follow.h"
#include "output.h"
#include "records.h"

namespace headworks::cli {
namespace {

constexpr std::size_t kLastLines = 20;
/// Of many failed tasks, the first ones are shown; `runs show` has them all.
constexpr std::size_t kMostFailures = 3;
/// Of the runs that are waited for, too.
constexpr std::size_t kMostOthers = 10;
/// A drain that takes less needs no word.
constexpr Duration kIdle = std::chrono::milliseconds(100);

/// Those that made the run fail, or those that may fail.
std::vector<TaskNo> FailedTasks(const RunView& view, bool allowed) {
  std::vector<TaskNo> tasks;
  for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
    if (view.tasks[no].state == model::TaskState::kFailed &&
        IsAllowedFailure(view, TaskNo(no)) == allowed)
      tasks.emplace_back(no);
  return tasks;
}

/// Of what the engine ended, not the task's own code: why, and what to do.
std::string DescribeSettled(const Context& context, const RunView& view, TaskNo task) {
  const model::TaskRun& state = view.tasks[task.value];
  std::string text = fmt::format("task {} {}", view.id(task), StateText(view, task));
  if (const std::string why = DescribeReason(view, task); !why.empty()) text += ": " + why;
  if (const auto why = view.overdue.find(task); why != view.overdue.end())
    text += "\n  " + why->second;
  if (state.reason == model::Reason::kPendingTimeout)
    text += fmt::format(
        "\n  give it longer with start_timeout in the file, or with --pending-timeout (now {}), or "
        "run fewer tasks at a time",
        FormatDuration(context.settings().runner.pending_timeout));
  return text;
}

std::string DescribeFailure(const Context& context, const RunView& view, TaskNo task,
                            const Terminal& terminal) {
  const model::AttemptRecord* last = view.LastAttempt(task);
  const model::TaskRun& state = view.tasks[task.value];
  const bool deadline = state.reason == model::Reason::kDeadline;
  if (!deadline && (last == nullptr || last->epoch != state.epoch || CameTooLate(*last) ||
                    state.reason == model::Reason::kMarked))
    return DescribeSettled(context, view, task);
  const bool stopped = last != nullptr && StoppedByDeadline(view, *last);
  std::string text = fmt::format("task {} {}", view.id(task), StateText(view, task));
  if (deadline && (!stopped || CameTooLate(*last)))
    text +=
        fmt::format(" at its deadline of {}", FormatDuration(view.workflow->task(task).deadline));
  if (last == nullptr || CameTooLate(*last)) return text;
  text += fmt::format(": {}{}", DescribeEnd(view, *last), DescribeTry(view, *last));
  if (!last->outcome.error.empty() && last->outcome.error != DescribeOutcome(last->outcome) &&
      !stopped)
    text += "\n  " + terminal.Foreign(last->outcome.error);
  return text;
}

/// Tasks that ran though others had failed: they may have cleaned up, and taken away what a rerun
/// would keep.  None where it would keep nothing.
std::vector<std::string_view> CleanUps(const RunView& view) {
  std::vector<std::string_view> names;
  bool keeps = false;
  for (std::uint32_t no = 0; no < view.tasks.size(); ++no) {
    if (view.tasks[no].state != model::TaskState::kSucceeded) continue;
    const model::Task& task = view.workflow->task(TaskNo(no));
    if (task.role == model::TaskRole::kFinally ||
        (task.trigger_rule == model::TriggerRule::kAllDone && !task.needs.empty()))
      names.push_back(task.id);
    else
      keeps = true;
  }
  return keeps ? names : std::vector<std::string_view>();
}

/// All that is told of a run from here to the end of this process's part in it, beside what the
/// presenter shows by itself.
class Story {
 public:
  /// All is borrowed.
  Story(const Following& following, const Terminal& terminal)
      : following_(following),
        context_(following.context),
        runner_(following.runner),
        run_(following.run.value),
        presenter_(following.presenter),
        terminal_(terminal) {}

  /// Returns how the run was when that end came.  Shuts the runner down.
  Result<FollowResult> Tell(const RunView* before) {
    if (before != nullptr) HEADWORKS_TRY(TellRerun(*before));
    HEADWORKS_ASSIGN(FollowResult result, Follow(following_));
    if (result.end == FollowEnd::kLeft) LeaveAtOnce();
    following_.signals.Release();
    if (result.end == FollowEnd::kTerminated) HEADWORKS_TRY(Terminate(result.view));
    const model::RunHeader& header = result.view.header;
    if (result.end == FollowEnd::kStuck)
      presenter_.Say(fmt::format("run {} is stuck: {}\n`{}` tries again", run_, header.stuck_reason,
                                 OfRun("runs unstick")));
    if (model::IsTerminal(header.state))
      HEADWORKS_TRY(Report(result.view));
    else if (result.end == FollowEnd::kTerminated)
      return result;
    HEADWORKS_TRY(GiveBack());
    return result;
  }

 private:
  /// A command about this run: "headworks ARGUMENTS RUN MORE".
  std::string OfRun(std::string_view arguments, std::string_view more = {}) const {
    return CommandLine(context_, fmt::format("{} {}{}", arguments, run_, more));
  }
  Result<RunView> Read() const {
    return RunReader(context_).Read(*runner_, fmt::format("{}", run_), context_.clock.Now());
  }

  /// With the last of what it printed: where it may fail, one line is enough.
  Status ShowFailure(const RunView& view, TaskNo task) {
    const std::size_t last_lines = IsAllowedFailure(view, task) ? 1 : kLastLines;
    std::string text = DescribeFailure(context_, view, task, terminal_);
    if (const auto error = view.expression_errors.find(task); error != view.expression_errors.end())
      text += "\n  " + terminal_.Foreign(error->second);
    presenter_.Say(text);
    LineReader lines(runner_->logs(), context_.tenant(), view.header.run_no);
    HEADWORKS_ASSIGN(const auto page, lines.Last(task, view.tasks[task.value].epoch, last_lines));
    for (const log_store::Entry& entry : page.entries)
      presenter_.Say(fmt::format("  {} | {}", view.id(task), LineText(entry.line, terminal_)));
    return {};
  }

  Status ShowFailures(const RunView& view, bool allowed) {
    const auto failed = FailedTasks(view, allowed);
    for (std::size_t i = 0; i < std::min(failed.size(), kMostFailures); ++i)
      HEADWORKS_TRY(ShowFailure(view, failed[i]));
    if (failed.size() > kMostFailures)
      presenter_.Say(
          fmt::format("... and {} more: {}", failed.size() - kMostFailures, OfRun("runs show")));
    return {};
  }

  void SayHowToRetry(const RunView& view) {
    presenter_.Say("retry with: " + OfRun("runs rerun", " --failed"));
    const std::vector<std::string_view> names = CleanUps(view);
    if (names.empty()) return;
    const auto told = std::span(names).first(std::min(names.size(), kMostFailures));
    presenter_.Say(fmt::format("or, if {}{} took away what that needs: {}", fmt::join(told, ", "),
                               names.size() > told.size() ? ", ..." : "",
                               OfRun("runs rerun", " --all")));
  }

  Status Report(const RunView& summary) {
    const model::RunHeader& header = summary.header;
    RunView view;
    const bool again = header.state != model::RunState::kSucceeded;
    if (again || summary.count(model::TaskState::kFailed) > 0) {
      HEADWORKS_ASSIGN(view, Read());
      // On a terminal the tree has those that may fail, with their last lines.
      if (!terminal_.interactive || view.tasks.size() > kMostListedTasks)
        HEADWORKS_TRY(ShowFailures(view, true));
      if (header.state == model::RunState::kFailed) HEADWORKS_TRY(ShowFailures(view, false));
    }
    if (header.state == model::RunState::kFailed)
      if (const std::string end = DescribeRunEnd(summary); !end.empty()) presenter_.Say(end);
    presenter_.Say(fmt::format("run {} of {} {}{} in {}", run_, header.name.workflow,
                               terminal_.Paint(header.state, model::RunStateName(header.state)),
                               header.reason == model::Reason::kNone || !again
                                   ? std::string()
                                   : fmt::format(" ({})", model::ReasonName(header.reason)),
                               FormatDuration(summary.Elapsed(context_.clock.Now()))));
    if (again) SayHowToRetry(view);
    return {};
  }

  /// Begins the story of a rerun.
  Status TellRerun(const RunView& before) {
    HEADWORKS_ASSIGN(const RunView now, Read());
    std::size_t kept = 0;
    for (std::uint32_t no = 0; no < now.tasks.size(); ++no) kept += IsKept(before, now, TaskNo(no));
    const std::size_t again = now.tasks.size() - kept;
    presenter_.Say(fmt::format("rerunning {} {} of run {}, keeping {}", again,
                               again == 1 ? "task" : "tasks", run_, kept));
    presenter_.Skip(before);
    return {};
  }

  /// The second Ctrl-C: nothing is waited for, not even destructors.  What runs is stopped by its
  /// supervisor, as after a crash.
  [[noreturn]] void LeaveAtOnce() {
    presenter_.Say(
        runner_->is_engine()
            ? fmt::format("left run {} as it is; `{}` completes its cancellation, and then\n"
                          "`{}` continues it",
                          run_, CommandLine(context_, "up"), OfRun("runs rerun", " --failed"))
            : fmt::format("left run {}; its engine goes on without this terminal: `{}`", run_,
                          OfRun("runs show")));
    std::_Exit(static_cast<int>(Exit::kInterrupted));
  }

  /// SIGTERM: leaves the run to the next engine, unless its last task ends while it is waited for,
  /// and with it the run, of which `view` has the end then; it may not have been seen yet.
  Status Terminate(RunView& view) {
    if (!runner_->is_engine()) {
      presenter_.Say("terminated: the engine goes on with the run");
      return runner_->Shutdown();
    }
    presenter_.Say(fmt::format("terminated: waiting up to {} for running tasks",
                               FormatDuration(runner_->options().drain_timeout)));
    HEADWORKS_TRY(runner_->Shutdown());
    HEADWORKS_ASSIGN(view, RunReader(context_).ReadSummary(*runner_, fmt::format("{}", run_)));
    if (!model::IsTerminal(view.header.state))
      presenter_.Say(
          fmt::format("left run {}; `{}` continues it", run_, CommandLine(context_, "up")));
    return {};
  }

  /// Ends the engine.  Runs that it went on with beside the one that is over may still be at work.
  Status GiveBack() {
    const Status idle = runner_->Drain(kIdle);
    if (idle || idle.error().code != Code::kDrainTimeout) return runner_->Shutdown();
    HEADWORKS_ASSIGN(const auto unfinished,
                     runner_->query().ListRuns(context_.tenant(), UnfinishedRuns()));
    std::vector<std::string> names;
    for (const auto& run : unfinished)
      if (names.size() < kMostOthers && following_.others.Has(run.header.run_no))
        names.push_back(
            fmt::format("run {} of {}", run.header.run_no.value, run.header.name.workflow));
    Note(
        fmt::format("{} in this process: waiting up to {} for them; what is left then is stopped, "
                    "and `{}` continues it",
                    names.empty() ? std::string("other attempts are at work")
                                  : fmt::format("tasks of {} are at work", fmt::join(names, ", ")),
                    FormatDuration(runner_->options().drain_timeout), CommandLine(context_, "up")));
    return runner_->Shutdown();
  }

  const Following& following_;
  const Context& context_;
  std::unique_ptr<Runner>& runner_;
  const std::int64_t run_;
  Presenter& presenter_;
  const Terminal& terminal_;
};

}  // namespace

std::string CommandLine(const Context& context, std::string_view arguments) {
  std::string line = fmt::format("headworks {}", arguments);
  // "store" is the first row of the table.
  if (context.loaded.origins.front() == "--store")
    line += fmt::format(" --store {}", StoreName(context.settings().runner));
  return line;
}

Result<Exit> FollowToEnd(const Context& context, std::unique_ptr<Runner> runner, RunNo run,
                         SignalWatch& signals, OtherRuns& others, const RunView* before) {
  // With -o json, standard output carries nothing but the result.
  std::FILE* stream = context.wants_table() ? stdout : stderr;
  Outlet outlet(fileno(stream));
  const Terminal terminal = Terminal::Of(stream, context.settings().color, context.environment);
  const auto presenter = terminal.interactive ? NewLivePresenter(outlet, stream, terminal)
                                              : NewPlainPresenter(outlet, terminal);
  const Following following{.context = context,
                            .runner = runner,
                            .run = run,
                            .signals = signals,
                            .others = others,
                            .outlet = outlet,
                            .presenter = *presenter};
  const auto told = Story(following, terminal).Tell(before);
  // The run is no longer this process's: its reader may take as long as it likes.
  const bool is_asked_to_leave = signals.interrupts() + signals.terminations() > 0;
  if (!outlet.Drain(is_asked_to_leave ? kStalled : Duration::max()))
    Note(fmt::format("the reader of this output takes no more: `{}` has what it has not seen",
                     CommandLine(context, fmt::format("runs logs {}", run.value))));
  HEADWORKS_TRY(told);
  const model::RunHeader& header = told->view.header;
  if (told->end == FollowEnd::kTerminated && !model::IsTerminal(header.state))
    return Exit::kTerminated;
  if (!context.wants_table()) PrintValue(context.settings().output, RunJson(header));
  return header.state == model::RunState::kSucceeded ? Exit::kOk : Exit::kRunFailed;
}

}  // namespace headworks::cli
