#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "output.h"
#include "records.h"
#include "workflow_file.h"
#include "workflow_record.h"

namespace headworks::cli {
namespace json = boost::json;

Result<Exit> RegisterWorkflows(const Context& context, const std::vector<std::string>& arguments) {
  HEADWORKS_ASSIGN(const auto files, ExpandFolders(arguments));
  // All are read before the first is registered: all or nothing.
  std::vector<std::shared_ptr<const model::Workflow>> workflows;
  for (const std::string& file : files) {
    HEADWORKS_ASSIGN(auto workflow, LoadRunnable(context, file));
    if (const Status has_functions = CheckFunctions(context.settings(), *workflow, file);
        !has_functions)
      Note("warning: " + has_functions.error().message);
    workflows.push_back(std::move(workflow));
  }
  HEADWORKS_ASSIGN(const auto runner, AttachRunner(context, NoStore::kCreate));
  json::array list;
  for (std::size_t i = 0; i < files.size(); ++i) {
    HEADWORKS_TRY(runner->Register(workflows[i], SourceOf(files[i])));
    list.emplace_back(json::object{{"workflow", workflows[i]->name().workflow},
                                   {"version", workflows[i]->version()},
                                   {"source", SourceOf(files[i])}});
    if (context.wants_table())
      Print(fmt::format("registered {} as version {}\n", workflows[i]->name().workflow,
                        workflows[i]->version().substr(0, 12)));
  }
  if (!context.wants_table()) PrintValue(context.settings().output, list);
  return Exit::kOk;
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
