#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <thread>

#include "headworks/base/json.h"
#include "headworks/base/random.h"
#include "headworks/run_queue/run_taker.h"
#include "headworks/run_queue/task.h"
#include "news.h"
#include "option_text.h"
#include "output.h"
#include "records.h"
#include "runner_commands.h"
#include "signals.h"
#include "worker_commands.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

constexpr Duration kLook = std::chrono::milliseconds(50);

Result<run_queue::TakerOptions> OptionsOf(const Context& context, const RunnerArgs& args) {
  run_queue::TakerOptions options{.tenant = context.tenant(),
                                  .source = context.settings().runner.database_url,
                                  .name = args.name.empty() ? DefaultName() : args.name,
                                  .runner = context.options()};
  HEADWORKS_ASSIGN(const auto queue, QueueSlotsOf(args.queue, options.slots, run_queue::kMaxSlots));
  options.queue = queue.queue;
  options.slots = queue.slots;
  options.state_dir = args.state_dir;
  if (options.state_dir.empty()) {
    HEADWORKS_ASSIGN(options.state_dir, DefaultStateDir(context, "runners", options.name));
  }
  HEADWORKS_ASSIGN(options.lease, DurationOf("--lease", args.lease));
  HEADWORKS_ASSIGN(options.drain_timeout, DurationOf("--drain-timeout", args.drain_timeout));
  HEADWORKS_ASSIGN(options.keep, DurationOf("--keep", args.keep));
  return options;
}

/// What lies beside a workflow file is not where the run is.
Status CheckFolders(const model::Workflow& workflow) {
  const auto relative = [](const std::string& path) {
    return !path.empty() && path[0] != '/' && path.find("${{") == std::string::npos;
  };
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const model::Task& task = workflow.task(TaskNo(no));
    if (relative(task.cwd) || std::ranges::any_of(task.env_file, relative))
      return Error{Code::kInvalidArgument,
                   fmt::format("task {} names a cwd or env_file below the folder of the workflow "
                               "file, which the runner does not have; give absolute paths that "
                               "it has, or leave them out",
                               task.id)};
  }
  return {};
}

/// Those of them that were given: the others are the runner's to find.
json::object Given(const RunArgs& args, const json::object& params) {
  json::object given;
  for (const std::string& param : args.params) {
    const std::string name = param.substr(0, param.find('='));
    given[name] = params.at(name);
  }
  return given;
}

}  // namespace

Result<Exit> PushRun(const Context& context, const RunArgs& args, const model::Workflow& workflow,
                     const std::string& input) {
  HEADWORKS_TRY(CheckFolders(workflow));
  model::WorkflowDefinition definition = workflow.definition();
  definition.base_dir.clear();
  HEADWORKS_ASSIGN(const auto moved, model::Workflow::Create(std::move(definition)));
  const json::object object = ParsedJson(input).as_object();
  SystemRandom random;
  HEADWORKS_ASSIGN(const auto task,
                   run_queue::Task::Create(
                       {.task_id = args.start_key.empty() ? NewUuidV7(context.clock.Now(), random)
                                                          : args.start_key,
                        .workflow_blob = moved->canonical_json(),
                        .queue_name = *args.to_queue,
                        .kwargs = CanonicalJson(Given(args, object.at("params").as_object())),
                        .input = CanonicalJson(object.at("input"))}));
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context, NoStore::kCreate));
  HEADWORKS_ASSIGN(const auto pushed, run_queue::Push(runner->queues().tasks(), context.tenant(),
                                                      task, args.priority));
  const std::string& id = task.fields().task_id;
  if (context.wants_table())
    Print(fmt::format("{} {}\n", id, task_queue::EnqueuedName(pushed)));
  else
    PrintValue(
        context.settings().output,
        json::object{
            {"queue", *args.to_queue}, {"id", id}, {"outcome", task_queue::EnqueuedName(pushed)}});
  return Exit::kOk;
}

Result<Exit> TakeRuns(const Context& context, const RunnerArgs& args) {
  HEADWORKS_ASSIGN(const auto options, OptionsOf(context, args));
  SystemRandom random;
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  News news(signals);
  HEADWORKS_ASSIGN(const auto store, AttachRunner(context, NoStore::kCreate));
  HEADWORKS_ASSIGN(const auto taker,
                   run_queue::RunTaker::Open(
                       options, {.queues = store->queues(),
                                 .clock = context.clock,
                                 .random = random,
                                 .log = context.logger,
                                 .tell = [&](const std::string& line) { news.Say(line); }}));
  news.Say(fmt::format("runner {} takes runs from queue {} of {}", options.name, options.queue,
                       StoreName(context.settings().runner)));
  std::atomic<bool> ended = false;
  std::jthread runs([&] {
    taker->Run();
    ended = true;
  });
  for (int seen = 0; !ended;) {
    news.Wait(kLook);
    for (; seen < signals.interrupts() + signals.terminations(); ++seen) taker->Drain();
  }
  runs.join();
  news.Say("left");
  return Exit::kOk;
}

}  // namespace headworks::cli
