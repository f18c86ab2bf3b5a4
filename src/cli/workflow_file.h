#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headworks/author/registry.h"
#include "headworks/base/result.h"
#include "headworks/model/resources.h"
#include "headworks/model/workflow.h"
#include "headworks/runner/runner.h"
#include "session.h"
#include "settings.h"

namespace headworks::cli {

/// Reads and validates a workflow file.  The error lists all faults with their places.
/// `name`, if not empty, replaces the workflow's own.
Result<std::shared_ptr<const model::Workflow>> LoadWorkflow(const Settings& settings,
                                                            const std::string& path,
                                                            const std::string& name = "");
/// The same for what is to run here: with pools and resources checked against what there is.
/// `runner`: where pools are looked up; nullptr = in the store of `context`, if there is one.
Result<std::shared_ptr<const model::Workflow>> LoadRunnable(const Context& context,
                                                            const std::string& path,
                                                            const std::string& name = "",
                                                            Runner* runner = nullptr);
/// Reads a workflow against these limits.
using ParseWorkflow =
    std::function<Result<model::WorkflowDefinition>(const model::PlatformLimits& limits)>;
/// What `parse` makes of the limits that hold here.  `pools`: why pools could not be looked up, and
/// so were not checked.
Result<model::WorkflowDefinition> ParseWithin(const Context& context, Runner* runner,
                                              const ParseWorkflow& parse, Status& pools);
/// How a registered workflow names the file that it came from: the same from every folder.
std::string SourceOf(const std::string& path);
/// A JSON object as text, from the argument of `option` itself or, with "@FILE", from a file;
/// empty = {}.
Result<std::string> ReadInput(const std::string& argument, std::string_view option);
/// Workflow files in `folder` (.yaml, .yml, .json), sorted by name; not below it.
Result<std::vector<std::string>> ListWorkflowFiles(const std::string& folder);
/// The folders below `folder` with files called like workflows, for people: but those `named` and
/// hidden ones, and among the first 10,000 entries; empty = none.
std::string FoldersBelow(const std::string& folder, const std::vector<std::string>& named = {});
/// `arguments` with folders replaced by the workflow files in them, not below them, which is noted
/// where there are some; a folder without any is kNotFound.
Result<std::vector<std::string>> ExpandFolders(const std::vector<std::string>& arguments);
/// All of a stream, up to one byte more than a workflow file may have.
std::string ReadStandardInput(const Settings& settings);
bool IsWorkflowFileName(std::string_view name);
/// Which functions of the workflow this program does not have, with their tasks and what to do;
/// empty = it has all.
std::string MissingFunctions(const model::Workflow& workflow, const TaskRegistry& registry);
/// The same as kInvalidArgument, for the functions that are linked into this program, unless
/// workers call them.
Status CheckFunctions(const Settings& settings, const model::Workflow& workflow,
                      const std::string& path);
/// Whether tasks of the workflow go to workers.
bool NeedsWorkers(const Settings& settings, const model::Workflow& workflow);
/// A task that names a queue or labels of workers, and that an engine with these settings runs
/// itself, and what to do; empty = there is none.
std::string IgnoredQueue(const Settings& settings, const model::Workflow& workflow);
/// What a task does, on one line.
std::string DescribeAction(const model::Task& task);

}  // namespace headworks::cli
