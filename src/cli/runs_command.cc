#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>

#include "commands.h"
#include "follow.h"
#include "headworks/base/text.h"
#include "headworks/model/artifact.h"
#include "output.h"
#include "records.h"
#include "run_view.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;
using Reset = model::ResetCursor::Kind;

constexpr std::size_t kMostEvents = 1'000;
constexpr std::size_t kWidestLine = 100;

std::string When(Instant instant) {
  // To the second: a table is for people.
  return instant == Instant{} ? "-" : FormatInstant(instant).substr(0, 19) + "Z";
}

Result<std::vector<model::RunState>> ParseStates(const std::vector<std::string>& names,
                                                 bool& stuck_only) {
  static constexpr std::string_view kKnown[] = {"pending", "running",   "succeeded",
                                                "failed",  "cancelled", "stuck"};
  std::vector<model::RunState> states;
  for (const std::string& name : names) {
    const auto state = model::RunStateFromName(name);
    if (state)
      states.push_back(*state);
    else if (name == "stuck")
      stuck_only = true;
    else
      return Error{Code::kInvalidArgument,
                   fmt::format("--state: '{}' is none of {}{}", name, fmt::join(kKnown, ", "),
                               DidYouMean(name, kKnown))};
  }
  return states;
}

/// "3/10" or, when it matters, "3/10, 1 failed".
std::string Progress(const model::RunHeader& header) {
  RunView view;
  view.header = header;
  std::uint32_t all = 0;
  for (const std::uint32_t count : header.counts) all += count;
  std::string text = fmt::format("{}/{}", view.settled(), all);
  if (const auto failed = view.count(model::TaskState::kFailed); failed > 0)
    text += fmt::format(", {} failed", failed);
  return text;
}

/// From its first start to its end or, where it runs, to `now`; "-" = nobody saw it run.
std::string TimeOf(const model::TaskRun& task, Instant first, const model::AttemptRecord* last,
                   Instant now) {
  const bool runs = task.state == model::TaskState::kRunning;
  if (first == Instant{} && runs) first = task.since;
  if (first == Instant{} || task.reason == model::Reason::kMarked || (last == nullptr && !runs))
    return "-";
  return FormatDuration(std::max((runs ? now : last->outcome.ended_at) - first, Duration(0)));
}

/// Why it is as it is, and of what failed the last that it printed.
std::string WhatOf(const RunView& view, TaskNo no) {
  const std::string what = DescribeTask(view, no);
  const model::AttemptRecord* last = CountingAttempt(view, no);
  std::string more = last == nullptr ? "" : FaultOf(last->outcome);
  if (const auto line = view.last_lines.find(no); more.empty() && line != view.last_lines.end())
    more = line->second;
  return more.empty() ? what : what + ": " + FitToWidth(more, kWidestLine);
}

void PrintRunTables(const RunView& view, Instant now) {
  const model::RunHeader& h = view.header;
  const std::string end = DescribeRunEnd(view);
  std::string text = fmt::format(
      "run {}  {}\nworkflow {}  version {}\nstate {}{}{}\n", h.run_no.value, h.run_id.value,
      h.name.ToString(), h.version.substr(0, 12), RunStateText(h),
      h.reason == model::Reason::kNone ? std::string()
                                       : fmt::format(" ({})", model::ReasonName(h.reason)),
      end.empty() ? "" : ": " + end);
  if (!h.stuck_reason.empty()) text += fmt::format("stuck: {}\n", h.stuck_reason);
  text += fmt::format("created {}  started {}  finished {}  took {}\n\n", When(h.created_at),
                      When(h.started_at), When(h.finished_at), FormatDuration(view.Elapsed(now)));
  Table table({"TASK", "STATE", "TRIES", "TOOK", "WHAT"});
  const std::vector<Instant> starts = FirstStarts(view);
  for (std::uint32_t no = 0; no < view.tasks.size(); ++no) {
    const model::TaskRun& task = view.tasks[no];
    const model::AttemptRecord* last = CountingAttempt(view, TaskNo(no));
    // A try that the deadline cut short was one, though it counts as none that failed.
    const bool cut_short =
        last != nullptr && StoppedByDeadline(view, *last) && !NeverBegan(view, *last);
    table.AddRow({view.id(TaskNo(no)), StateText(view, TaskNo(no)),
                  fmt::format("{}", cut_short ? last->try_no : task.tries),
                  TimeOf(task, starts[no], last, now), WhatOf(view, TaskNo(no))});
  }
  Print(text + table.Render());
}

/// All that happened to the run as such, in order.  Its last start and end are in its row.
Result<std::vector<model::RunEventRecord>> ReadHistory(const Context& context, Runner& runner,
                                                       const model::RunHeader& header) {
  HEADWORKS_ASSIGN(auto events,
                   runner.query().ListEvents(context.tenant(), header.run_no, kMostEvents));
  if (header.started_at != Instant{}) events.push_back({header.started_at, "started", {}, {}});
  if (header.finished_at != Instant{})
    events.push_back(
        {header.finished_at, "finished", {}, std::string(model::RunStateName(header.state))});
  // What happened at the same time stays as it was written.
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(events[i].at, i); });
  std::vector<model::RunEventRecord> sorted;
  sorted.reserve(order.size());
  for (const std::size_t i : order) sorted.push_back(std::move(events[i]));
  return sorted;
}

/// Of a run whose tasks cannot be read: what its row says, if it is parked for that.
Result<Exit> TellStuck(const Context& context, Runner& runner, const std::string& reference,
                       const Error& why, Instant now) {
  const auto run = runner.query().GetRun(context.tenant(), reference);
  if (!run || run->header.stuck_reason.empty()) return why;
  if (context.wants_table())
    Print(fmt::format("run {}: {}\n", run->header.run_no.value, ExplainStuck(run->header, now)));
  else
    PrintValue(context.settings().output, RunJson(run->header));
  return Exit::kOk;
}

Result<RunNo> Execute(const Context& context, Runner& runner, const RunCommandArgs& args) {
  const auto known = runner.query().GetRun(context.tenant(), args.run);
  if (!known) return NameStore(context, known.error());
  const RunNo run = known->header.run_no;
  control::Command command = MakeCommand(context, args.kind, run);
  command.rerun = args.rerun;
  command.task = args.task;
  command.mark = args.mark;
  HEADWORKS_TRY(runner.control().Execute(command, kAnswerTimeout));
  return run;
}

/// "run FILE" for the workflow that was registered from it, which may have been given a name.
std::string RunLine(const Context& context, const store::WorkflowRecord& record) {
  const auto own = LoadWorkflow(context.settings(), record.source, "");
  const std::string& name = record.name.workflow;
  return fmt::format("run {}{}", record.source,
                     own && (*own)->name().workflow != name ? " --name " + name : "");
}

/// How a run that is not over goes on, where no engine is at work.
Result<std::string> HowToGoOn(const Context& context, Runner& runner, const RunView& view) {
  const auto record = runner.workflows().Get(view.header.name);
  if (!record && record.error().code != Code::kNotFound) return record.error();
  // Of another version the file may be another one, too.
  const bool has_file = record && !record->source.empty() && view.header.stuck_reason.empty() &&
                        record->version == view.header.version;
  return fmt::format(
      "no engine is running on this store: {}`{}` continues all runs",
      has_file ? fmt::format("`{}` continues this run, ",
                             CommandLine(context, RunLine(context, *record) + " --resume"))
               : std::string(),
      CommandLine(context, "up"));
}

/// A rerun as a whole is for runs that are over.  Of one that nobody works on it would have to be
/// refused, and waiting for its end, as is said then, would be in vain.
Status CheckNotLeft(const Context& context, const RunCommandArgs& args) {
  if (args.kind != control::CommandKind::kRerun || args.rerun == Reset::kFrom) return {};
  HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
  if (!engine.empty()) return {};
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const RunView view, RunReader(context).ReadSummary(*runner, args.run));
  if (model::IsTerminal(view.header.state)) return {};
  HEADWORKS_ASSIGN(const std::string how, HowToGoOn(context, *runner, view));
  return Error{Code::kConflict, fmt::format("run {} is not over, so there is nothing to rerun; {}",
                                            view.header.run_no.value, how)};
}

/// The run as the command left it.
Result<RunView> AfterCommand(const Context& context, Runner& runner, RunNo run,
                             control::CommandKind kind) {
  const std::string reference = fmt::format("{}", run.value);
  // Attempts that nobody has any more are known to be over, so a cancel may well be complete at
  // once; or not, where tasks are still to run.
  if (runner.is_engine() && kind == control::CommandKind::kCancel) {
    HEADWORKS_ASSIGN(const RunHandle handle, runner.Find(reference));
    (void)handle.Wait(kSilence);
  }
  return RunReader(context).ReadSummary(runner, reference);
}

/// A rerun keeps its version (I2): said where the file that it came from says something else now.
Status NoteOtherVersion(const Context& context, Runner& runner, RunNo run) {
  HEADWORKS_ASSIGN(const RunView view,
                   RunReader(context).ReadSummary(runner, fmt::format("{}", run.value)));
  const auto record = runner.workflows().Get(view.header.name);
  if (!record && record.error().code == Code::kNotFound) return {};
  if (!record) return record.error();
  if (record->source.empty()) return {};
  if (record->version != view.header.version) {
    Note(fmt::format(
        "workflow {} is another version than run {} started with, since it was registered last "
        "from {}: the rerun keeps the version of the run; `{}` starts a new run of that one",
        view.header.name.workflow, run.value, record->source,
        CommandLine(context, RunLine(context, *record))));
    return {};
  }
  const auto now = LoadWorkflow(context.settings(), record->source, view.header.name.workflow);
  if (now && (*now)->version() == view.header.version) return {};
  if (!now && now.error().code == Code::kNotFound) return {};
  Note(
      fmt::format("{0} is no longer as it was when run {1} started: the rerun keeps the version of "
                  "the run; `{2}` starts a new run with the file as it is now",
                  record->source, run.value, CommandLine(context, RunLine(context, *record))));
  return {};
}

/// What is to be said of the run as such; empty = nothing.
std::string ExplainWholeRun(const RunView& view, Instant now) {
  const model::RunHeader& header = view.header;
  if (!header.stuck_reason.empty())
    return fmt::format("run {}: {}", header.run_no.value, ExplainStuck(header, now));
  const std::string end = DescribeRunEnd(view);
  if (end.empty()) return "";
  return fmt::format("run {} is {}: {}", header.run_no.value, RunStateText(header), end);
}

}  // namespace

Result<Exit> ListRuns(const Context& context, const ListRunsArgs& args) {
  store::RunQuery::RunFilter filter;
  HEADWORKS_ASSIGN(filter.states, ParseStates(args.states, filter.stuck_only));
  if (!args.workflow.empty()) filter.workflow = args.workflow;
  filter.limit = args.limit;
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto runs, runner->query().ListRuns(context.tenant(), filter));
  if (!context.wants_table()) {
    json::array list;
    for (const auto& run : runs) list.emplace_back(RunJson(run.header));
    PrintValue(context.settings().output, list);
    return Exit::kOk;
  }
  if (runs.empty()) {
    Note(fmt::format("no {}runs in {}", args.workflow.empty() && args.states.empty() ? "" : "such ",
                     StoreName(context.settings().runner)));
    return Exit::kOk;
  }
  Table table({"RUN", "ID", "WORKFLOW", "STATE", "TASKS", "CREATED", "TOOK"});
  const Instant now = context.clock.Now();
  for (const auto& run : runs) {
    RunView view;
    view.header = run.header;
    table.AddRow({fmt::format("{}", run.header.run_no.value), run.header.run_id.value,
                  run.workflow_name(), RunStateText(run.header), Progress(run.header),
                  When(run.header.created_at), FormatDuration(view.Elapsed(now))});
  }
  Print(table.Render());
  return Exit::kOk;
}

Result<Exit> ShowRun(const Context& context, const std::string& reference) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  const Instant now = context.clock.Now();
  RunReader reader(context);
  auto read = reader.Read(*runner, reference, now);
  if (!read) return TellStuck(context, *runner, reference, read.error(), now);
  RunView& view = *read;
  if (context.wants_table()) {
    HEADWORKS_TRY(reader.ReadLastLines(*runner, view));
    PrintRunTables(view, now);
    return Exit::kOk;
  }
  const RunNo run = view.header.run_no;
  std::vector<TaskNo> all;
  all.reserve(view.tasks.size());
  for (std::uint32_t no = 0; no < view.tasks.size(); ++no) all.emplace_back(no);
  HEADWORKS_ASSIGN(const auto ends, runner->query().ReadEnds(context.tenant(), run, all));
  HEADWORKS_ASSIGN(const auto events, ReadHistory(context, *runner, view.header));
  HEADWORKS_ASSIGN(const auto input, runner->query().ReadInput(context.tenant(), run));
  json::object object = RunJson(view.header);
  object["input"] = ParsedJson(input);
  json::array& tasks = object["tasks"].emplace_array();
  for (const TaskNo no : all) {
    json::object task = TaskJson(view, no);
    HEADWORKS_ASSIGN(const model::TaskResult result, model::ReadResult(ends[no.value].output));
    task["output"] = ParsedJson(result.output);
    tasks.emplace_back(std::move(task));
  }
  json::array& attempts = object["attempts"].emplace_array();
  for (const auto& attempt : view.attempts) attempts.emplace_back(AttemptJson(view, attempt));
  json::array& list = object["events"].emplace_array();
  for (const auto& event : events)
    list.emplace_back(json::object{{"at", JsonTime(event.at)},
                                   {"kind", event.kind},
                                   {"actor", event.actor},
                                   {"detail", event.detail}});
  PrintValue(context.settings().output, object);
  return Exit::kOk;
}

Result<Exit> Why(const Context& context, const std::string& run, const std::string& task) {
  HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  const Instant now = context.clock.Now();
  RunReader reader(context);
  auto read = reader.Read(*runner, run, now);
  if (!read) return TellStuck(context, *runner, run, read.error(), now);
  RunView& view = *read;
  HEADWORKS_TRY(reader.ReadLimits(*runner, view));
  HEADWORKS_TRY(reader.ReadLastLines(*runner, view));
  std::vector<TaskNo> tasks;
  if (task.empty()) {
    for (std::uint32_t no = 0; no < view.tasks.size(); ++no)
      if (view.tasks[no].state == model::TaskState::kFailed) tasks.emplace_back(no);
  } else {
    HEADWORKS_ASSIGN(tasks, view.workflow->Select(task));
  }
  std::string text;
  json::array list;
  if (const std::string line = ExplainWholeRun(view, now); task.empty() && !line.empty()) {
    text = InOneParagraph(line) + "\n";
    list.emplace_back(json::object{{"run", view.header.run_no.value},
                                   {"engine_live", !engine.empty()},
                                   {"why", json::array{line}}});
  }
  for (const TaskNo no : tasks) {
    const auto lines = ExplainTask(view, no, !engine.empty(), now);
    if (!text.empty()) text += '\n';
    for (const std::string& line : lines) text += InOneParagraph(line) + "\n";
    json::object& object = list.emplace_back(TaskJson(view, no)).as_object();
    object["run"] = view.header.run_no.value;
    object["engine_live"] = !engine.empty();
    object["why"] = json::array(lines.begin(), lines.end());
  }
  const bool one = !task.empty() && view.workflow->task(tasks.front()).id == task;
  if (context.wants_table())
    Print(!text.empty() ? text
                        : fmt::format("no task of run {} failed; `headworks runs why {} TASK` is "
                                      "about any task\n",
                                      view.header.run_no.value, view.header.run_no.value));
  else
    PrintValue(context.settings().output, one ? list.front() : json::value(std::move(list)));
  return Exit::kOk;
}

Result<Exit> RerunAndFollow(const Context& context, const RunCommandArgs& args) {
  HEADWORKS_TRY(CheckNotLeft(context, args));
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  OtherRuns others;
  RunnerOptions options = others.Watch(context.options());
  options.create = options.enable_recovery = false;
  HEADWORKS_ASSIGN(auto runner, OpenOrAttach(context, options));
  HEADWORKS_ASSIGN(RunView before, RunReader(context).ReadSummary(*runner, args.run));
  const bool listed = before.workflow->size() <= kMostListedTasks;
  if (listed) {
    HEADWORKS_ASSIGN(before, RunReader(context).Read(*runner, args.run, context.clock.Now()));
  }
  HEADWORKS_ASSIGN(const RunNo run, AskEngine(context, runner, options, [&](Runner& engine) {
                     return Execute(context, engine, args);
                   }));
  HEADWORKS_TRY(NoteOtherVersion(context, *runner, run));
  return FollowToEnd(context, std::move(runner), run, signals, others,
                     listed && before.header.run_no == run ? &before : nullptr);
}

Result<Exit> CommandRun(const Context& context, const RunCommandArgs& args) {
  HEADWORKS_TRY(CheckNotLeft(context, args));
  HEADWORKS_ASSIGN(auto runner, OpenForCommands(context));
  HEADWORKS_ASSIGN(const RunNo run,
                   AskEngine(context, runner, OptionsForCommands(context),
                             [&](Runner& engine) { return Execute(context, engine, args); }));
  if (args.kind == control::CommandKind::kRerun)
    HEADWORKS_TRY(NoteOtherVersion(context, *runner, run));
  std::string state = "deleted";
  if (args.kind != control::CommandKind::kDelete) {
    HEADWORKS_ASSIGN(const RunView after, AfterCommand(context, *runner, run, args.kind));
    state = RunStateText(after.header);
    if (!context.wants_table()) PrintValue(context.settings().output, RunJson(after.header));
    // Without an engine, what was decided waits until one comes.
    if (runner->is_engine() && !model::IsTerminal(after.header.state)) {
      HEADWORKS_ASSIGN(const std::string how, HowToGoOn(context, *runner, after));
      Note(how);
    }
  } else if (!context.wants_table()) {
    PrintValue(context.settings().output, json::object{{"run", run.value}, {"state", state}});
  }
  if (context.wants_table())
    Print(fmt::format("run {}: {} done, now {}\n", run.value, control::CommandKindName(args.kind),
                      state));
  HEADWORKS_TRY(runner->Shutdown());
  return Exit::kOk;
}

Result<Exit> PruneRuns(const Context& context, const PruneArgs& args) {
  HEADWORKS_ASSIGN(const auto runner, OpenForCommands(context));
  const Instant oldest = context.clock.Now() - args.older_than;
  store::RunQuery::RunFilter filter;
  filter.states = {model::RunState::kSucceeded, model::RunState::kFailed,
                   model::RunState::kCancelled};
  filter.limit = 1'000;
  std::size_t removed = 0;
  for (;;) {
    HEADWORKS_ASSIGN(const auto page, runner->query().ListRuns(context.tenant(), filter));
    for (const store::RunRecord& run : page) {
      if (run.header.finished_at > oldest) continue;
      ++removed;
      if (args.dry_run) continue;
      RunCommandArgs remove;
      remove.run = fmt::format("{}", run.header.run_no.value);
      remove.kind = control::CommandKind::kDelete;
      const auto deleted = Execute(context, *runner, remove);
      // Somebody else removed it, or reran it: either way it is no longer ours to prune.
      if (!deleted &&
          (deleted.error().code == Code::kNotFound || deleted.error().code == Code::kConflict)) {
        --removed;
        continue;
      }
      HEADWORKS_TRY(deleted);
    }
    if (page.size() < filter.limit) break;
    filter.before = page.back().header.run_no;
  }
  if (context.wants_table())
    Print(fmt::format("{} {} runs\n", args.dry_run ? "would remove" : "removed", removed));
  else
    PrintValue(context.settings().output,
               json::object{{"removed", removed}, {"dry_run", args.dry_run}});
  HEADWORKS_TRY(runner->Shutdown());
  return Exit::kOk;
}

}  // namespace headworks::cli
