#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/expr/program.h"
#include "headworks/expr/shell_template.h"
#include "headworks/expr/template.h"
#include "headworks/model/workflow.h"

namespace headworks {

/// The expressions and templates of one task.
struct CompiledTask {
  std::vector<expr::Program> when;
  /// Of the workflow, then of the task; only those with expressions in them.
  std::map<std::string, expr::Template> workflow_env, env, artifacts;
  std::vector<expr::Template> argv, env_file;
  expr::Template cwd, idempotency_key;
  std::optional<expr::ShellTemplate> script;
  /// The first text that reads run.dir; empty = none does.
  std::string scratch_user;
  /// A text of the task has an expression in it.
  bool renders = false;
};

/// Compiles each task of a workflow version once.
///
/// Types are not looked at again: the file was checked against declared ones, and what is stored
/// may be of another program.
/// Threads.  All methods may be called concurrently.
/// Bounds.  Forgets everything when `kMost` tasks are held.
class CompiledTasks {
 public:
  static constexpr std::size_t kMost = 10'000;

  /// kInvalidArgument: an expression is not one, and which.
  Result<std::shared_ptr<const CompiledTask>> Of(const model::Workflow& workflow, TaskNo task);

 private:
  std::mutex mutex_;
  /// Shared, because what is in use may be forgotten here.
  std::map<std::pair<std::string, TaskNo>, std::shared_ptr<const CompiledTask>> known_;
};

/// True if a text of the task, or of its workflow's environment, has an expression in it.
bool HasTemplates(const model::Workflow& workflow, const model::Task& task);

}  // namespace headworks
