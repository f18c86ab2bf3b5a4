#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "headworks/author/registry.h"
#include "output.h"

namespace headworks::cli {

Result<Exit> ListTasks(const Context& context) {
  TaskRegistry registry;
  HEADWORKS_TRY(registry.RegisterLinked());
  boost::json::array list;
  Table table({"TENANT", "PACKAGE", "WORKFLOW", "TASK"});
  for (const FunctionName& name : registry.Functions()) {
    list.emplace_back(boost::json::object{
        {"name", name.ToString()}, {"package", name.package}, {"task", name.task}});
    table.AddRow(
        {name.tenant, name.package, name.workflow.empty() ? "*" : name.workflow, name.task});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(
        "this program brings no C++ functions along; an embedding program registers its own with "
        "HEADWORKS_TASK");
  else
    Print(table.Render());
  return Exit::kOk;
}

}  // namespace headworks::cli
