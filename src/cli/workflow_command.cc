#include <fmt/format.h>

#include <boost/json.hpp>
#include <filesystem>

#include "commands.h"
#include "output.h"
#include "records.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

json::object WorkflowJson(const store::WorkflowRecord& record) {
  return {{"workflow", record.name.workflow}, {"package", record.name.package},
          {"version", record.version},        {"source", record.source},
          {"enabled", record.enabled},        {"registered_at", JsonTime(record.registered_at)}};
}

/// "workflow" or "package::workflow".
Result<store::WorkflowRecord> FindWorkflow(const Context& context, Runner& runner,
                                           const std::string& text) {
  model::Namespace name;
  name.tenant = context.tenant().value;
  name.workflow = text;
  if (const auto colons = text.find("::"); colons != std::string::npos) {
    name.package = text.substr(0, colons);
    name.workflow = text.substr(colons + 2);
  }
  auto record = runner.workflows().Get(name);
  if (!record && record.error().code == Code::kNotFound)
    return Error{Code::kNotFound,
                 fmt::format("no workflow {} in {}; `headworks workflow list` shows what there is",
                             text, StoreName(context.settings().runner))};
  return record;
}

/// Folders stand for the workflow files in them.
Result<std::vector<std::string>> Expand(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code missing;  // told by whoever reads the file
    if (!std::filesystem::is_directory(argument, missing)) {
      files.push_back(argument);
      continue;
    }
    HEADWORKS_ASSIGN(const auto listed, ListWorkflowFiles(argument));
    if (listed.empty())
      return Error{Code::kNotFound,
                   fmt::format("no workflow files (.yaml, .yml, .json) in {}", argument)};
    files.insert(files.end(), listed.begin(), listed.end());
  }
  return files;
}

}  // namespace

Result<Exit> RegisterWorkflows(const Context& context, const std::vector<std::string>& arguments) {
  HEADWORKS_ASSIGN(const auto files, Expand(arguments));
  // All are read before the first is registered: all or nothing.
  std::vector<std::shared_ptr<const model::Workflow>> workflows;
  for (const std::string& file : files) {
    HEADWORKS_ASSIGN(auto workflow, LoadWorkflow(file, context.settings().runner.tenant));
    workflows.push_back(std::move(workflow));
  }
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  json::array list;
  for (std::size_t i = 0; i < files.size(); ++i) {
    HEADWORKS_TRY(runner->Register(workflows[i], files[i]));
    list.emplace_back(json::object{{"workflow", workflows[i]->name().workflow},
                                   {"version", workflows[i]->version()},
                                   {"source", files[i]}});
    if (context.wants_table())
      Print(fmt::format("registered {} as version {}\n", workflows[i]->name().workflow,
                        workflows[i]->version().substr(0, 12)));
  }
  if (!context.wants_table()) PrintValue(context.settings().output, list);
  return Exit::kOk;
}

Result<Exit> ValidateWorkflows(const Context& context, const std::vector<std::string>& arguments) {
  HEADWORKS_ASSIGN(const auto files, Expand(arguments));
  Exit exit = Exit::kOk;
  json::array list;
  for (const std::string& file : files) {
    const auto workflow = LoadWorkflow(file, context.settings().runner.tenant);
    if (!workflow) exit = Exit::kUsage;
    if (context.wants_table()) {
      if (workflow)
        Print(fmt::format("{}: ok, {} tasks\n", file, (*workflow)->size()));
      else
        Fail(workflow.error());
      continue;
    }
    json::object entry{{"file", file}, {"valid", workflow.has_value()}};
    if (workflow) {
      entry["workflow"] = (*workflow)->name().workflow;
      entry["version"] = (*workflow)->version();
      entry["tasks"] = (*workflow)->size();
    } else {
      entry["error"] = workflow.error().message;
    }
    list.emplace_back(std::move(entry));
  }
  if (!context.wants_table()) PrintValue(context.settings().output, list);
  return exit;
}

Result<Exit> ListWorkflows(const Context& context) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto records, runner->workflows().List(context.tenant()));
  json::array list;
  Table table({"WORKFLOW", "VERSION", "ENABLED", "REGISTERED", "SOURCE"});
  for (const store::WorkflowRecord& record : records) {
    list.emplace_back(WorkflowJson(record));
    table.AddRow({record.name.workflow, record.version.substr(0, 12), record.enabled ? "yes" : "no",
                  FormatInstant(record.registered_at).substr(0, 19),
                  record.source.empty() ? "-" : record.source});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(fmt::format("no workflows in {}", StoreName(context.settings().runner)));
  else
    Print(table.Render());
  return Exit::kOk;
}

Result<Exit> ShowWorkflow(const Context& context, const std::string& name) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto record, FindWorkflow(context, *runner, name));
  HEADWORKS_ASSIGN(const std::string text,
                   runner->workflows().GetVersion(context.tenant(), record.version));
  HEADWORKS_ASSIGN(const auto workflow, model::Workflow::FromCanonicalJson(text));
  if (!context.wants_table()) {
    json::object object = WorkflowJson(record);
    object["definition"] = ParsedJson(text);
    PrintValue(context.settings().output, object);
    return Exit::kOk;
  }
  const auto levels = Levels(*workflow);
  Table table({"LEVEL", "TASK", "NEEDS", "RULE", "DOES"});
  for (std::uint32_t no = 0; no < workflow->size(); ++no) {
    const model::Task& task = workflow->task(TaskNo(no));
    table.AddRow({fmt::format("{}", levels[no]), task.id,
                  FitToWidth(fmt::format("{}", fmt::join(task.needs, ", ")), 40),
                  std::string(model::TriggerRuleName(task.trigger_rule)),
                  FitToWidth(DescribeAction(task), 60)});
  }
  Print(fmt::format("workflow {}  version {}\nsource {}  {}\n{}\n{}", record.name.ToString(),
                    record.version, record.source.empty() ? "-" : record.source,
                    record.enabled ? "enabled" : "disabled", workflow->definition().description,
                    table.Render()));
  return Exit::kOk;
}

Result<Exit> RemoveWorkflow(const Context& context, const std::string& name) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(const auto record, FindWorkflow(context, *runner, name));
  HEADWORKS_TRY(runner->workflows().Remove(record.name));
  if (context.wants_table())
    Print(fmt::format("forgot workflow {}; its runs stay\n", record.name.workflow));
  else
    PrintValue(context.settings().output, WorkflowJson(record));
  return Exit::kOk;
}

Result<Exit> EnableWorkflow(const Context& context, const std::string& name, bool enabled) {
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context));
  HEADWORKS_ASSIGN(auto record, FindWorkflow(context, *runner, name));
  HEADWORKS_TRY(runner->workflows().SetEnabled(record.name, enabled));
  record.enabled = enabled;
  if (context.wants_table())
    Print(fmt::format("workflow {} is {}\n", record.name.workflow,
                      enabled ? "enabled" : "disabled: no new runs start"));
  else
    PrintValue(context.settings().output, WorkflowJson(record));
  return Exit::kOk;
}

}  // namespace headworks::cli
