#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "follow.h"
#include "headworks/base/json.h"
#include "headworks/spec/params.h"
#include "output.h"
#include "records.h"
#include "runner_commands.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// `input` with the defaults that are computed when a run starts, as they would be now; `computed`
/// has their names.
Result<json::object> RenderInput(const Context& context, const model::Workflow& workflow,
                                 const std::string& input, std::vector<std::string>& computed) {
  json::object object = ParsedJson(input).as_object();
  const json::object given = object.at("params").as_object();
  const std::string now = FormatInstant(context.clock.Now());
  object["run"] = {{"id", "00000000-0000-0000-0000-000000000000"},  // it has none yet
                   {"workflow", workflow.name().workflow},
                   {"created_at", now},
                   {"date", now.substr(0, 10)}};
  object["slot"] = nullptr;
  HEADWORKS_TRY(spec::RenderDefaults(workflow.definition(), object));
  for (const auto& member : object.at("params").as_object())
    if (!given.contains(member.key())) computed.emplace_back(member.key());
  object.erase("run");
  object.erase("slot");
  return object;
}

/// `input`: {"params": ..., "input": ...}.
Result<Exit> PrintPlan(const Context& context, const model::Workflow& workflow,
                       const std::string& input) {
  std::vector<std::string> computed;
  HEADWORKS_ASSIGN(json::object rendered, RenderInput(context, workflow, input, computed));
  const auto levels = Levels(workflow);
  if (!context.wants_table()) {
    json::array tasks;
    for (std::uint32_t no = 0; no < workflow.size(); ++no) {
      const model::Task& task = workflow.task(TaskNo(no));
      tasks.emplace_back(json::object{{"task", task.id},
                                      {"level", levels[no]},
                                      {"needs", json::value_from(task.needs)},
                                      {"action", DescribeAction(task)}});
    }
    PrintValue(context.settings().output, json::object{{"workflow", workflow.name().workflow},
                                                       {"version", workflow.version()},
                                                       {"input", std::move(rendered)},
                                                       {"computed", json::value_from(computed)},
                                                       {"tasks", std::move(tasks)}});
    return Exit::kOk;
  }
  Table table({"LEVEL", "TASK", "NEEDS", "DOES"});
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const model::Task& task = workflow.task(TaskNo(no));
    table.AddRow({fmt::format("{}", levels[no]), task.id,
                  FitToWidth(fmt::format("{}", fmt::join(task.needs, ", ")), 40),
                  FitToWidth(DescribeAction(task), 60)});
  }
  const std::string note =
      computed.empty() ? std::string()
                       : fmt::format("computed as of now, and again when a run starts: {}\n",
                                     fmt::join(computed, ", "));
  Print(fmt::format("workflow {}  version {}\ninput {}\n{}\n{}\nnothing was started (--dry-run)\n",
                    workflow.name().workflow, workflow.version().substr(0, 12),
                    CanonicalJson(rendered), note, table.Render()));
  return Exit::kOk;
}

/// Unfinished runs of the workflow that are not stuck, oldest first.
Result<std::vector<RunNo>> ResumableRuns(const Context& context, Runner& runner,
                                         const model::Workflow& workflow) {
  auto filter = UnfinishedRuns();
  filter.workflow = workflow.name().workflow;
  HEADWORKS_ASSIGN(const auto records, runner.query().ListRuns(context.tenant(), filter));
  std::vector<RunNo> runs;
  for (auto record = records.rbegin(); record != records.rend(); ++record)
    if (record->header.stuck_reason.empty()) runs.push_back(record->header.run_no);
  return runs;
}

Result<Exit> Resume(const Context& context, const model::Workflow& workflow) {
  OtherRuns others;
  RunnerOptions options = others.Watch(context.options());
  options.create = false;
  HEADWORKS_ASSIGN(auto runner, OpenOrAttach(context, options));
  HEADWORKS_ASSIGN(const auto runs, ResumableRuns(context, *runner, workflow));
  if (runs.empty())
    return Error{Code::kNotFound,
                 fmt::format("{} has no unfinished run to resume in {}; without --resume a new "
                             "one is started",
                             workflow.name().workflow, StoreName(context.settings().runner))};
  Exit worst = Exit::kOk;
  for (const RunNo run : runs) {
    HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
    if (runner == nullptr) {
      HEADWORKS_ASSIGN(runner, OpenOrAttach(context, options));
    }
    Note(fmt::format("resuming run {} of {}", run.value, workflow.name().workflow));
    HEADWORKS_ASSIGN(const Exit exit,
                     FollowToEnd(context, std::move(runner), run, signals, others));
    if (exit != Exit::kOk) worst = exit;
    if (exit == Exit::kTerminated) break;
  }
  return worst;
}

/// Workers reach the engine of `up`, and no other.
Status CheckReach(const Context& context, const model::Workflow& workflow) {
  if (!NeedsWorkers(context.settings(), workflow)) return {};
  return Error{Code::kUnavailable,
               fmt::format("tasks of {} go to workers, who do not reach this command; start an "
                           "engine with `{}`, or run them here: --command-executor process "
                           "--function-executor inline",
                           workflow.name().workflow, CommandLine(context, "up"))};
}

/// Says what this process will not touch, so that nobody waits for it.
Status NoteUnfinished(const Context& context, Runner& runner) {
  HEADWORKS_ASSIGN(const auto others, runner.query().ListRuns(context.tenant(), UnfinishedRuns()));
  if (!others.empty())
    Note(fmt::format(
        "{} unfinished {} in this store {} left alone, but for what this run has to wait for; "
        "`{}` continues {}",
        others.size(), others.size() == 1 ? "run" : "runs", others.size() == 1 ? "is" : "are",
        CommandLine(context, "up"), others.size() == 1 ? "it" : "them"));
  return {};
}

}  // namespace

Result<Exit> RunFile(const Context& context, const RunArgs& args) {
  // A run that goes on keeps what it started with: what there is now does not matter to it.
  HEADWORKS_ASSIGN(const auto workflow, args.resume || args.to_queue
                                            ? LoadWorkflow(context.settings(), args.file, args.name)
                                            : LoadRunnable(context, args.file, args.name));
  StartOptions start;
  start.start_key = args.start_key;
  start.priority = args.priority;
  start.actor = context.actor;
  start.params = args.params;
  HEADWORKS_ASSIGN(start.input, ReadInput(args.input, "--input"));
  // Before anything is opened, so that a bad parameter leaves no trace.
  HEADWORKS_ASSIGN(const std::string input,
                   spec::ParseParams(workflow->definition(), start.params, start.input));
  HEADWORKS_TRY(spec::ConcurrencyKey(workflow->definition(), input));
  const Status has_functions = CheckFunctions(context.settings(), *workflow, args.file);
  if (args.dry_run) {
    if (!has_functions) Note("warning: " + has_functions.error().message);
    return PrintPlan(context, *workflow, input);
  }
  if (args.resume) return Resume(context, *workflow);
  if (args.to_queue) return PushRun(context, args, *workflow, input);

  if (args.detach || !has_functions) {
    HEADWORKS_ASSIGN(const std::string engine, FindEngine(context));
    // Another engine may well have the functions: it is the one that calls them.
    if (engine.empty()) HEADWORKS_TRY(has_functions);
    if (engine.empty())
      return Error{Code::kUnavailable,
                   fmt::format("no engine is running on {} that could take the run; start one "
                               "with `{}`, or leave out --detach",
                               StoreName(context.settings().runner), CommandLine(context, "up"))};
  }
  const Instant began = context.clock.Now();
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  OtherRuns others;
  RunnerOptions options = others.Watch(context.options());
  options.enable_recovery = false;
  HEADWORKS_ASSIGN(auto runner,
                   args.detach ? AttachRunner(context) : OpenOrAttach(context, options));
  if (runner->is_engine()) {
    HEADWORKS_TRY(CheckReach(context, *workflow));
    HEADWORKS_TRY(NoteUnfinished(context, *runner));
    if (const std::string ignored = IgnoredQueue(context.settings(), *workflow); !ignored.empty())
      Note("warning: " + ignored);
  }
  if (!runner->is_engine() && !args.detach)
    Note("another process is the engine of this store: following it");
  HEADWORKS_TRY(runner->Register(workflow, SourceOf(args.file)));
  const auto ask = [&](Runner& engine) -> Result<RunNo> {
    HEADWORKS_ASSIGN(const RunHandle handle, engine.Start(workflow->name().workflow, start));
    return handle.run();
  };
  HEADWORKS_ASSIGN(const RunNo run, AskEngine(context, runner, options, ask));
  HEADWORKS_ASSIGN(const RunView view,
                   RunReader(context).ReadSummary(*runner, fmt::format("{}", run.value)));
  if (!args.start_key.empty() && view.header.created_at < began)
    Note(fmt::format("start key {} has started run {} before: nothing new is started",
                     args.start_key, run.value));
  if (args.detach) {
    if (context.wants_table())
      Print(fmt::format("run {} {}\n", run.value, view.header.run_id.value));
    else
      PrintValue(context.settings().output, RunJson(view.header));
    return Exit::kOk;
  }
  return FollowToEnd(context, std::move(runner), run, signals, others);
}

}  // namespace headworks::cli
