#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::cli {

/// Reads and validates a workflow file.  The error lists all faults with their places.
/// `name`, if not empty, replaces the workflow's own.
Result<std::shared_ptr<const model::Workflow>> LoadWorkflow(const std::string& path,
                                                            const std::string& tenant,
                                                            const std::string& name = "");
/// A JSON object as text, from the argument itself or, with "@FILE", from a file; empty = {}.
Result<std::string> ReadInput(const std::string& argument);
/// Workflow files in `folder` (.yaml, .yml, .json), sorted by name; not below it.
Result<std::vector<std::string>> ListWorkflowFiles(const std::string& folder);
bool IsWorkflowFileName(std::string_view name);
/// What a task does, on one line.
std::string DescribeAction(const model::Task& task);

}  // namespace headworks::cli
