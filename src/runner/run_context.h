#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/executor/executor.h"
#include "headworks/model/workflow.h"
#include "headworks/store/run_store.h"

namespace headworks {

/// Where the artifacts that a task needs will be, and which they are.
struct ArtifactsOf {
  /// Absolute.
  const std::string& folder;
  std::vector<executor::NeededArtifact> needed;
};

/// A task run whose context is wanted.
struct ContextOf {
  const TenantId& tenant;
  RunNo run;
  const RunId& run_id;
  TaskNo task;
  const model::Workflow& workflow;
  /// Null: it sees none.
  ArtifactsOf* artifacts = nullptr;
};

/// What a task sees of its run, under the names that expressions use: `params`, `input`, `needs`,
/// `run`, `slot`, `matrix`.
///
/// `needs` has a member for each upstream: {"state", "output"}, of a task with artifacts also
/// {"artifacts"}: the path of each by its name.  Of a matrix there is one member, by the id that
/// was written: {"states": [...], "outputs": [...], "matrices": [...], "all_artifacts": [...]}, in
/// one order; where one instance is needed beside them {"state", "output", "matrix", "artifacts"},
/// and where several are, "artifacts" is the list "all_artifacts" once more. `run`:
/// {"id", "workflow", "created_at", "date"} (both times UTC; a resolver adds "dir"), for `finally`
/// tasks also
/// {"outcome", "reason", "failed_tasks"} (what ended the run before its tasks did, or "", and ids
/// of those that make the run fail, at most kMostFailedTasks). `slot` is null in a run that no
/// schedule started.
inline constexpr std::size_t kMostFailedTasks = 1'000;
Result<boost::json::object> ReadRunContext(store::RunQuery& query, const ContextOf& of);

/// As expressions see it: what is declared as `number` (parameters, outputs) is a double, whether
/// it was written 1 or 1.0, which JSON does not tell apart.
void TypeNumbers(boost::json::object& context, const ContextOf& of);

/// `input` and `params` of a context, merged with the outputs of all upstreams in their order.
boost::json::value MergedContext(const boost::json::object& context, const ContextOf& of);

}  // namespace headworks
