#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "commands.h"
#include "graph.h"
#include "headworks/spec/definition.h"
#include "headworks/spec/workflow_file.h"
#include "output.h"
#include "records.h"
#include "run_tree.h"
#include "run_view.h"
#include "workflow_file.h"
#include "workflow_record.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// A workflow, and how it is registered if it was asked for by name.
struct Shown {
  std::shared_ptr<const model::Workflow> workflow;
  std::optional<store::WorkflowRecord> record = {};
};

/// "-", a path, or the name of a file that is there; names of workflows have neither.
bool IsFile(const std::string& argument) {
  std::error_code missing;
  return argument == "-" || argument.find('/') != std::string::npos ||
         IsWorkflowFileName(argument) || std::filesystem::is_regular_file(argument, missing);
}

Result<Shown> Find(const Context& context, const std::string& argument) {
  if (argument == "-") {
    HEADWORKS_ASSIGN(auto definition,
                     spec::ParseWorkflow(ReadStandardInput(context.settings()), "stdin.yaml",
                                         std::filesystem::current_path().string(), nullptr,
                                         context.settings().max_workflow_bytes));
    definition.name.tenant = context.settings().runner.tenant;
    HEADWORKS_ASSIGN(auto workflow, model::Workflow::Create(std::move(definition)));
    return Shown{std::move(workflow)};
  }
  if (std::error_code missing; std::filesystem::is_directory(argument, missing))
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is a folder; name one of the files in it", argument)};
  if (IsFile(argument)) {
    HEADWORKS_ASSIGN(auto workflow, LoadWorkflow(context.settings(), argument));
    return Shown{std::move(workflow)};
  }
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(auto record, FindWorkflow(context, *runner, argument));
  HEADWORKS_ASSIGN(const std::string text,
                   runner->workflows().GetVersion(context.tenant(), record.version));
  HEADWORKS_ASSIGN(auto workflow, model::Workflow::FromCanonicalJson(text));
  return Shown{std::move(workflow), std::move(record)};
}

std::string TreeText(const model::Workflow& workflow, const Graph& graph, bool utf8) {
  std::string text;
  if (graph.nodes.size() != workflow.size()) {
    for (const Graph::Node& node : graph.nodes)
      text += fmt::format("level {}: {}\n", node.level, node.label);
    return text;
  }
  const std::vector<model::TaskRun> tasks(workflow.size());
  for (const TreeRow& row : DrawTree(workflow, tasks, Fold::kNothing, utf8, 60)) {
    const model::Task& task = workflow.task(row.tasks.front());
    text += fmt::format("{}{}{}", row.branch, task.id, RoleMark(task.role));
    std::vector<std::string_view> also;
    also.reserve(row.also_needs.size());
    for (const TaskNo up : row.also_needs) also.push_back(workflow.task(up).id);
    if (!also.empty()) text += fmt::format(" (+{})", fmt::join(also, ","));
    text += '\n';
  }
  return text;
}

Status PrintGraph(const Context& context, const model::Workflow& workflow,
                  const std::string& format) {
  HEADWORKS_ASSIGN(const Graph graph, GraphOf(workflow));
  const bool utf8 = Terminal::Of(stdout, context.settings().color, context.environment).utf8;
  Print(format == "text"      ? TreeText(workflow, graph, utf8)
        : format == "mermaid" ? Mermaid(graph)
        : format == "dot"     ? Dot(graph)
                              : Svg(graph));
  return {};
}

std::string TaskTable(const model::Workflow& workflow) {
  const auto levels = Levels(workflow);
  Table table({"LEVEL", "TASK", "NEEDS", "RULE", "DOES"});
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const model::Task& task = workflow.task(TaskNo(no));
    table.AddRow({fmt::format("{}", levels[no]), fmt::format("{}{}", task.id, RoleMark(task.role)),
                  FitToWidth(fmt::format("{}", fmt::join(task.needs, ", ")), 40),
                  std::string(model::TriggerRuleName(task.trigger_rule)),
                  FitToWidth(DescribeAction(task), 60)});
  }
  return table.Render();
}

}  // namespace

Result<Exit> ShowWorkflow(const Context& context, const ShowWorkflowArgs& args) {
  HEADWORKS_ASSIGN(Shown shown, Find(context, args.workflow));
  if (args.effective) {
    const model::PlatformDefaults& defaults = context.settings().runner.defaults;
    HEADWORKS_TRY(defaults.Check());
    HEADWORKS_ASSIGN(shown.workflow, model::Workflow::FromCanonicalJson(
                                         shown.workflow->canonical_json(), defaults));
  }
  const model::Workflow& workflow = *shown.workflow;
  if (!args.graph.empty()) {
    HEADWORKS_TRY(PrintGraph(context, workflow, args.graph));
    return Exit::kOk;
  }
  if (!context.wants_table()) {
    json::object definition = spec::DefinitionJson(
        workflow, args.effective ? spec::Detail::kEffective : spec::Detail::kSaid);
    if (shown.record) {
      json::object object = WorkflowJson(*shown.record);
      object["definition"] = std::move(definition);
      definition = std::move(object);
    }
    PrintValue(context.settings().output, definition);
    return Exit::kOk;
  }
  std::string text =
      fmt::format("workflow {}  version {}\n", workflow.name().ToString(), workflow.version());
  if (shown.record)
    text +=
        fmt::format("source {}  {}\n", shown.record->source.empty() ? "-" : shown.record->source,
                    shown.record->enabled ? "enabled" : "disabled");
  Print(fmt::format("{}{}\n{}", text, workflow.definition().description, TaskTable(workflow)));
  return Exit::kOk;
}

}  // namespace headworks::cli
