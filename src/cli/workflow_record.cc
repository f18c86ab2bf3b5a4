#include "workflow_record.h"

#include <fmt/format.h>

#include "records.h"

namespace headworks::cli {

boost::json::object WorkflowJson(const store::WorkflowRecord& record) {
  return {{"workflow", record.name.workflow}, {"package", record.name.package},
          {"version", record.version},        {"source", record.source},
          {"enabled", record.enabled},        {"registered_at", JsonTime(record.registered_at)}};
}

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

}  // namespace headworks::cli
