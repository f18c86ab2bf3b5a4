#include "workflow_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/spec/workflow_file.h"
#include "output.h"

namespace headworks::cli {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kInputLimits{.max_bytes = std::size_t{1} << 20, .max_depth = 64};

/// Those of the configuration, and of the store if there is one.
Result<model::PoolLimits> KnownPools(const Context& context) {
  const RunnerOptions& options = context.settings().runner;
  if (!options.database_url.starts_with("sqlite:")) return options.pools;
  const auto runner = AttachRunner(context);
  if (runner) return (*runner)->Pools();
  if (runner.error().code == Code::kNotFound) return options.pools;
  return Error(runner.error());
}

}  // namespace

Result<std::shared_ptr<const model::Workflow>> LoadWorkflow(const Settings& settings,
                                                            const std::string& path,
                                                            const std::string& name) {
  HEADWORKS_ASSIGN(model::WorkflowDefinition definition,
                   spec::ParseWorkflowFile(path, nullptr, settings.max_workflow_bytes));
  definition.name.tenant = settings.runner.tenant;
  if (!name.empty()) definition.name.workflow = name;
  return model::Workflow::Create(std::move(definition));
}

Result<std::shared_ptr<const model::Workflow>> LoadRunnable(const Context& context,
                                                            const std::string& path,
                                                            const std::string& name,
                                                            Runner* runner) {
  const Settings& settings = context.settings();
  Status pools;
  std::vector<spec::Fault> doubts;
  auto parsed = ParseWithin(
      context, runner,
      [&](const model::PlatformLimits& limits) {
        return spec::ParseWorkflowFile(path, &doubts, settings.max_workflow_bytes, limits);
      },
      pools);
  HEADWORKS_ASSIGN(model::WorkflowDefinition definition, std::move(parsed));
  for (const spec::Fault& doubt : doubts) Note("warning: " + doubt.ToString() + "\n");
  HEADWORKS_TRY(pools);
  definition.name.tenant = settings.runner.tenant;
  if (!name.empty()) definition.name.workflow = name;
  return model::Workflow::Create(std::move(definition));
}

Result<model::WorkflowDefinition> ParseWithin(const Context& context, Runner* runner,
                                              const ParseWorkflow& parse, Status& pools) {
  // Faults of the file itself come first; the store is looked into only where a task names a pool.
  auto definition = parse({});
  if (!definition) return definition;
  model::PlatformLimits limits{.max_resources = context.settings().runner.max_resources};
  if (std::ranges::any_of(definition->tasks, [](const auto& task) { return !task.pool.empty(); })) {
    if (auto known = runner != nullptr ? runner->Pools() : KnownPools(context))
      limits.pools = *std::move(known);
    else
      pools = std::move(known).error();
  }
  if (model::CheckLimits(*definition, limits).empty()) return definition;
  return parse(limits);
}

std::string SourceOf(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

Result<std::string> ReadInput(const std::string& argument, std::string_view option) {
  if (argument.empty()) return std::string("{}");
  std::string text = argument;
  std::string what(option);
  if (argument.starts_with('@')) {
    what = argument.substr(1);
    std::ifstream file(what, std::ios::binary);
    if (!file)
      return Error{Code::kNotFound,
                   fmt::format("{}: cannot read {}: {}", option, what, std::strerror(errno))};
    // One byte over the limit is enough to be refused; more need not be held.
    std::vector<char> bytes(kInputLimits.max_bytes + 1);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    text.assign(bytes.data(), static_cast<std::size_t>(file.gcount()));
  }
  HEADWORKS_ASSIGN(const auto object, ParseJsonObject(text, what, kInputLimits));
  return CanonicalJson(object);
}

bool IsWorkflowFileName(std::string_view name) {
  return !name.starts_with('.') &&
         (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

Result<std::vector<std::string>> ListWorkflowFiles(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (IsWorkflowFileName(entry->path().filename().string()))
      files.push_back(entry->path().string());
  if (error)
    return Error{Code::kNotFound,
                 fmt::format("cannot read the folder {}: {}", folder, error.message())};
  std::ranges::sort(files);
  return files;
}

std::string FoldersBelow(const std::string& folder, const std::vector<std::string>& named) {
  constexpr std::size_t kMostLookedAt = 10'000;
  constexpr std::size_t kMostNamed = 5;
  std::set<std::string> found;
  std::error_code error;
  std::size_t looked_at = 0;
  for (fs::recursive_directory_iterator
           entry(folder, fs::directory_options::skip_permission_denied, error),
       end;
       !error && entry != end && looked_at < kMostLookedAt; entry.increment(error), ++looked_at) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;
    if (entry->is_directory(gone)) {
      if (name.starts_with('.')) entry.disable_recursion_pending();
    } else if (entry.depth() > 0 && IsWorkflowFileName(name)) {
      found.insert(entry->path().parent_path().string());
    }
  }
  std::erase_if(found, [&](const std::string& below) {
    std::error_code other;
    return std::ranges::any_of(
        named, [&](const std::string& path) { return fs::equivalent(path, below, other); });
  });
  const std::size_t told = std::min(found.size(), kMostNamed);
  const auto last = std::next(found.begin(), static_cast<std::ptrdiff_t>(told));
  std::string list = fmt::format("{}", fmt::join(found.begin(), last, ", "));
  if (found.size() > told) list += fmt::format(" and {} more", found.size() - told);
  return list;
}

Result<std::vector<std::string>> ExpandFolders(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code missing;  // told by whoever reads the file
    if (!fs::is_directory(argument, missing)) {
      files.push_back(argument);
      continue;
    }
    HEADWORKS_ASSIGN(const auto listed, ListWorkflowFiles(argument));
    const std::string below = FoldersBelow(argument, arguments);
    if (listed.empty())
      return Error{Code::kNotFound,
                   fmt::format("no workflow files (.yaml, .yml, .json) in {}{}", argument,
                               below.empty() ? ""
                                             : "; there are files of that kind in " + below +
                                                   ": name the folder")};
    if (!below.empty())
      Note(
          fmt::format("warning: sub-folders of {} are not looked at; there are files of that kind "
                      "in {}: name these folders, too",
                      argument, below));
    files.insert(files.end(), listed.begin(), listed.end());
  }
  return files;
}

std::string ReadStandardInput(const Settings& settings) {
  std::string text(settings.max_workflow_bytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  return text;
}

std::string MissingFunctions(const model::Workflow& workflow, const TaskRegistry& registry) {
  constexpr std::size_t kMostNamed = 20;
  std::map<std::string_view, std::string_view> missing;  // function → its first task
  for (const model::Task& task : workflow.definition().tasks)
    if (const auto* call = std::get_if<model::FunctionAction>(&task.action);
        call != nullptr && !registry.Find(workflow.name(), call->function))
      missing.emplace(call->function, task.id);
  if (missing.empty()) return {};
  const auto functions = registry.Functions();
  std::vector<std::string_view> known;
  known.reserve(functions.size());
  for (const FunctionName& name : functions) known.push_back(name.task);
  std::string text;
  for (const auto& [function, task] : missing)
    text += fmt::format("task {} calls the function {}, which this program does not have{}\n", task,
                        function, DidYouMean(function, known));
  if (known.size() > kMostNamed) known.resize(kMostNamed);
  return text + fmt::format(
                    "it has {}{}; functions are C++ code that a program registers with "
                    "HEADWORKS_TASK: run the file with the program that brings them, or say `run` "
                    "or `exec` instead",
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")),
                    functions.size() > kMostNamed ? ", ... (`headworks tasks list`)" : "");
}

namespace {

/// Where the tasks of the tenant go.
std::string_view ExecutorOf(const RunnerOptions& options, const model::Task& task) {
  if (const auto own = options.tenant_executors.find(options.tenant);
      own != options.tenant_executors.end())
    return own->second;
  return std::holds_alternative<model::FunctionAction>(task.action) ? options.function_executor
                                                                    : options.command_executor;
}

}  // namespace

bool NeedsWorkers(const Settings& settings, const model::Workflow& workflow) {
  return std::ranges::any_of(workflow.definition().tasks, [&](const model::Task& task) {
    return ExecutorOf(settings.runner, task) == "queue";
  });
}

std::string IgnoredQueue(const Settings& settings, const model::Workflow& workflow) {
  for (const model::Task& task : workflow.definition().tasks) {
    if (task.queue.empty() && task.required.empty()) continue;
    const std::string_view executor = ExecutorOf(settings.runner, task);
    if (executor == "queue") continue;
    const bool function = std::holds_alternative<model::FunctionAction>(task.action);
    return fmt::format(
        "task {} names {}, for workers that run it; the engine runs it itself, because {} "
        "is {}: set that to queue, or remove them",
        task.id, task.queue.empty() ? "labels (requires)" : "a queue",
        function ? "function_executor" : "command_executor", executor);
  }
  return {};
}

Status CheckFunctions(const Settings& settings, const model::Workflow& workflow,
                      const std::string& path) {
  if (std::ranges::all_of(workflow.definition().tasks, [&](const model::Task& task) {
        return ExecutorOf(settings.runner, task) == "queue";
      }))
    return {};
  TaskRegistry registry;
  HEADWORKS_TRY(registry.RegisterLinked());
  std::string missing = MissingFunctions(workflow, registry);
  if (missing.empty()) return {};
  return Error{Code::kInvalidArgument, fmt::format("{}: {}", path, missing)};
}

std::string DescribeAction(const model::Task& task) {
  if (const auto* shell = std::get_if<model::ShellAction>(&task.action)) {
    const auto first = shell->script.find_first_not_of(" \n");
    if (first == std::string::npos) return "nothing";
    return shell->script.substr(first, shell->script.find('\n', first) - first);
  }
  if (const auto* exec = std::get_if<model::ExecAction>(&task.action))
    return fmt::format("{}", fmt::join(exec->argv, " "));
  return std::get<model::FunctionAction>(task.action).function + "()";
}

}  // namespace headworks::cli
