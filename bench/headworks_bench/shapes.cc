/// W3, W4 and W7: one run of many tasks.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "floor.h"
#include "headworks/dag_gen/dag_gen.h"
#include "site.h"

namespace headworks::bench {
namespace {

using WorkflowPtr = std::shared_ptr<const model::Workflow>;

WorkflowPtr Create(model::WorkflowDefinition definition) {
  auto workflow = model::Workflow::Create(std::move(definition));
  if (!workflow) Die(workflow.error().message);
  return *workflow;
}

WorkflowPtr Generate(dag_gen::Shape shape, std::uint32_t size) {
  auto definition =
      dag_gen::Generate({.shape = shape, .size = size, .action = model::FunctionAction{"nothing"}});
  if (!definition) Die(definition.error().message);
  return Create(*std::move(definition));
}

/// How many tasks stand at each distance from the start.
std::vector<std::uint32_t> Waves(const model::Workflow& workflow) {
  std::vector<std::uint32_t> depth(workflow.size(), UINT32_MAX), waves;
  // Upstreams may have higher numbers: settle depths by a stack of those that wait for others.
  std::vector<std::uint32_t> stack;
  for (std::uint32_t root = 0; root < workflow.size(); ++root)
    for (stack.push_back(root); !stack.empty();) {
      const std::uint32_t task = stack.back();
      std::uint32_t own = 0;
      bool known = true;
      for (const TaskNo up : workflow.upstreams(TaskNo(task))) {
        if (depth[up.value] == UINT32_MAX) {
          stack.push_back(up.value);
          known = false;
        } else {
          own = std::max(own, depth[up.value] + 1);
        }
      }
      if (!known) continue;
      stack.pop_back();
      if (depth[task] != UINT32_MAX) continue;
      depth[task] = own;
      if (waves.size() <= own) waves.resize(own + 1);
      ++waves[own];
    }
  return waves;
}

/// Runs it once, as already stored, so that only its burning down is measured; then its floor.
Figure Measure(const Options& options, const WorkflowPtr& workflow) {
  const Scratch scratch(options);
  Figure figure{.flush_us = FlushMicros(scratch.path())};
  const fs::path database = scratch.path() / "engine.db";
  Site site(database);
  site.options.start_tasks = false;
  site.Open();
  site.Register(workflow);
  site.StartMany(workflow->name().workflow, 1);
  site.Close();
  const Written before = ReadWritten(database);
  site.options.start_tasks = true;
  Stopwatch watch;
  site.watch = [&, first = true](const RunEvent&) mutable {
    if (std::exchange(first, false)) watch = Stopwatch();  // the first commit of the run
  };
  site.Open();
  site.AwaitEnds(1);
  const Spent spent{watch.Seconds(), watch.Cpu()};
  site.Close();
  const Written after = ReadWritten(database);
  if (after.attempts != workflow->size()) Die("a task did not run exactly once");
  const auto waves = Waves(*workflow);
  const Spent floor = MeasureFloor(scratch.path() / "floor.db",
                                   {.waves = waves, .events = after.events - before.events});
  figure.what = fmt::format("{} ({} tasks, {} deep), inline", workflow->name().workflow,
                            workflow->size(), waves.size());
  figure.unit = "tasks/s";
  figure.engine = workflow->size() / spent.seconds;
  figure.floor = workflow->size() / floor.seconds;
  figure.engine_cpu_us = spent.cpu * 1e6 / workflow->size();
  figure.floor_cpu_us = floor.cpu * 1e6 / workflow->size();
  figure.commits = after.commits - before.commits;
  figure.rows = 2 * after.tasks + after.attempts + after.events - before.events;
  return figure;
}

/// Tasks a second as milliseconds for all of them, or for each.
Figure InMilliseconds(Figure figure, std::string workload, std::string unit, double tasks) {
  figure.workload = std::move(workload);
  figure.unit = std::move(unit);
  figure.smaller_is_better = true;
  figure.engine = tasks * 1e3 / figure.engine;
  figure.floor = tasks * 1e3 / *figure.floor;
  return figure;
}

/// A workflow of others as one of functions that do nothing: its edges are what counts.  Reads
/// WfCommons (`parents`) and {"tasks": [{"id", "needs"}]}.
WorkflowPtr ReadDag(const fs::path& file) {
  const auto bad = [&](std::string_view why) { Die(fmt::format("{}: {}", file.string(), why)); };
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  boost::system::error_code error;
  const auto json = boost::json::parse(text, error);
  if (error || !json.is_object()) bad("not a JSON object");
  const boost::json::object* holder = &json.as_object();
  for (const char* inner : {"workflow", "specification"})
    if (const auto* found = holder->if_contains(inner); found && found->is_object())
      holder = &found->as_object();
  const auto* tasks = holder->if_contains("tasks");
  if (!tasks || !tasks->is_array()) bad("no list of tasks");
  const auto id_of = [](const boost::json::object& task) {
    const auto* id = task.if_contains("id");
    return std::string((id ? *id : task.at("name")).as_string());
  };
  std::map<std::string, std::string> ids;
  for (const auto& task : tasks->as_array())
    ids.emplace(id_of(task.as_object()), fmt::format("t{}", ids.size()));
  model::WorkflowDefinition definition;
  definition.name.workflow = file.stem().string();
  for (const auto& entry : tasks->as_array()) {
    const auto& from = entry.as_object();
    model::Task& task = definition.tasks.emplace_back();
    task.id = ids.at(id_of(from));
    task.action = model::FunctionAction{"nothing"};
    for (const char* key : {"parents", "needs"})
      if (const auto* upstreams = from.if_contains(key))
        for (const auto& up : upstreams->as_array())
          task.needs.push_back(ids.at(std::string(up.as_string())));
  }
  return Create(std::move(definition));
}

}  // namespace

Figures Chain(const Options& options) {
  const std::uint32_t hops = options.quick ? 100 : 1'000;
  Figure figure =
      InMilliseconds(Measure(options, Generate(dag_gen::Shape::kChain, hops)), "W3", "ms/hop", 1);
  figure.aim = "0.5 ms";
  return {figure};
}

Figures Fan(const Options& options) {
  Figures figures;
  for (const std::uint32_t width : {1'000U, 10'000U}) {
    if (options.quick && width > 1'000) break;
    figures.push_back(InMilliseconds(Measure(options, Generate(dag_gen::Shape::kFan, width)), "W4",
                                     "ms", width + 2));
    if (width == 10'000) figures.back().aim = "1,000 ms";
  }
  return figures;
}

Figures Shapes(const Options& options) {
  Figures figures;
  const auto add = [&](const WorkflowPtr& workflow) {
    figures.push_back(Measure(options, workflow));
    figures.back().workload = "W7";
  };
  for (const auto shape : {dag_gen::Shape::kIndependent, dag_gen::Shape::kLayered,
                           dag_gen::Shape::kGrid, dag_gen::Shape::kMontage})
    add(Generate(shape, options.quick ? 500 : 10'000));
  const char* folder = std::getenv("HEADWORKS_DAGS");
  if (folder == nullptr) return figures;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) add(ReadDag(file));
  return figures;
}

}  // namespace headworks::bench
