#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <utility>

#include "commands.h"
#include "headworks/spec/workflow_file.h"
#include "output.h"
#include "workflow_file.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// What became of one file.
struct Checked {
  std::string file;
  std::shared_ptr<const model::Workflow> workflow;
  std::vector<spec::Fault> faults;
  /// What only matters to the program that runs it.
  std::string warning;
  /// Where the file could not be read, so that there is nothing to point at.
  Error unreadable{};
};

void Warn(Checked& checked, const std::string& text) {
  checked.warning += (checked.warning.empty() ? "" : "\n") + text;
}

Checked Check(const Context& context, const std::string& file) {
  Checked checked{.file = file};
  const std::size_t most = context.settings().max_workflow_bytes;
  const std::string text = file == "-" ? ReadStandardInput(context.settings()) : "";
  const auto parse = [&](const model::PlatformLimits& limits) {
    return file == "-"
               ? spec::ParseWorkflow(text, "stdin.yaml", std::filesystem::current_path().string(),
                                     &checked.faults, most, limits)
               : spec::ParseWorkflowFile(file, &checked.faults, most, limits);
  };
  Status pools;
  auto definition = ParseWithin(context, nullptr, parse, pools);
  if (!pools) Warn(checked, "pools are not checked: " + pools.error().message);
  if (definition) {
    for (const spec::Fault& doubt : std::exchange(checked.faults, {}))
      Warn(checked, doubt.ToString());
    definition->name.tenant = context.settings().runner.tenant;
    auto workflow = model::Workflow::Create(*std::move(definition));
    if (workflow) {
      checked.workflow = *std::move(workflow);
      if (const Status has_functions = CheckFunctions(context.settings(), *checked.workflow, file);
          !has_functions)
        Warn(checked, has_functions.error().message);
    } else {
      checked.unreadable = std::move(workflow).error();
    }
  } else if (checked.faults.empty()) {
    checked.unreadable = std::move(definition).error();
  }
  return checked;
}

void PrintChecked(const Checked& checked) {
  for (const spec::Fault& fault : checked.faults) Note(fault.ToString() + "\n");
  if (!checked.unreadable.message.empty()) Note(checked.unreadable.message + "\n");
  if (!checked.warning.empty()) Note("warning: " + checked.warning + "\n");
}

json::object FaultJson(const spec::Fault& fault) {
  return {{"code", fault.code},
          {"file", fault.file},
          {"line", fault.line},
          {"column", fault.column},
          {"message", fault.message}};
}

json::object CheckedJson(const Checked& checked) {
  json::object entry{{"file", checked.file}, {"valid", checked.workflow != nullptr}};
  if (checked.workflow) {
    entry["workflow"] = checked.workflow->name().workflow;
    entry["version"] = checked.workflow->version();
    entry["tasks"] = checked.workflow->size();
  }
  entry["warnings"] = checked.warning.empty() ? json::array() : json::array{checked.warning};
  json::array& faults = entry["faults"].emplace_array();
  for (const spec::Fault& fault : checked.faults) faults.emplace_back(FaultJson(fault));
  if (!checked.unreadable.message.empty())
    faults.emplace_back(FaultJson({.file = checked.file, .message = checked.unreadable.message}));
  return entry;
}

}  // namespace

Result<Exit> ValidateWorkflows(const Context& context, const std::vector<std::string>& arguments) {
  HEADWORKS_ASSIGN(const auto files, ExpandFolders(arguments));
  json::array list;
  std::size_t good = 0;
  std::size_t faults = 0;
  bool missing = true;                         // every file that is not good cannot be found
  std::map<std::string, std::string> file_of;  // workflow → the first that defines it
  for (const std::string& file : files) {
    Checked checked = Check(context, file);
    if (checked.workflow) {
      const std::string& name = checked.workflow->name().workflow;
      if (const auto& first = file_of.emplace(name, file).first->second; first != file)
        Warn(checked,
             fmt::format("workflow {} is defined by {} as well, and one name stands for one "
                         "workflow: rename one",
                         name, first));
    }
    good += checked.workflow != nullptr;
    faults += checked.faults.size() + !checked.unreadable.message.empty();
    missing &= checked.workflow != nullptr || checked.unreadable.code == Code::kNotFound;
    if (context.wants_table())
      PrintChecked(checked);
    else
      list.emplace_back(CheckedJson(checked));
  }
  if (context.wants_table())
    Print(fmt::format("{} of {} files good{}\n", good, files.size(),
                      faults == 0
                          ? std::string()
                          : fmt::format(", {} {}", faults, faults == 1 ? "fault" : "faults")));
  else
    PrintValue(context.settings().output, list);
  if (good == files.size()) return Exit::kOk;
  return missing ? Exit::kNotFound : Exit::kUsage;
}

}  // namespace headworks::cli
