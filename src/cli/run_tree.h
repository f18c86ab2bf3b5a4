#pragma once

#include <span>
#include <string>
#include <vector>

#include "headworks/model/run.h"
#include "headworks/model/workflow.h"

namespace headworks::cli {

/// Which tasks may share a line: leaves below the same task, in the same state, three or more.
enum class Fold : unsigned char {
  kNothing,
  /// All but those that run, wait for their next try or failed.
  kQuiet,
  kEverything,
};

/// One line of a drawn run.
struct TreeRow {
  /// The lines that lead to it: "│  ├─ ".
  std::string branch;
  /// One, or several that are folded; all in the same state.
  std::vector<TaskNo> tasks;
  /// What the task needs besides the task that it hangs below.
  std::vector<TaskNo> also_needs;
};

/// The DAG as a tree: every task once, below the upstream that is farthest from the roots, so that
/// a task stands after all that it needs in time.  `tasks` has the state of each.  Branches are
/// cut on the left to `branch_width` characters, so that deep chains stay on the screen.
std::vector<TreeRow> DrawTree(const model::Workflow& workflow,
                              std::span<const model::TaskRun> tasks, Fold fold, bool utf8,
                              std::size_t branch_width);

}  // namespace headworks::cli
