#pragma once

#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "headworks/author/task.h"
#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks {

/// A task's code with types erased.  An empty Json is "no output".  May throw what task.h names,
/// and any exception.
using TaskFunction = std::function<TaskResult<Json>(TaskContext&)>;

/// `tenant::package::workflow::task`.  Read from one to four parts, from the right; what is not
/// said is `public`, `embedded` and every workflow (`*`).
struct FunctionName {
  std::string tenant = "public";
  std::string package = "embedded";
  /// Empty = any workflow of the package.
  std::string workflow;
  std::string task;

  auto operator<=>(const FunctionName&) const = default;
  /// "public::embedded::*::resize".
  std::string ToString() const;
  /// kInvalidArgument: too many parts, or a part that is not `[A-Za-z0-9_.-]{1,100}`.
  static Result<FunctionName> Parse(std::string_view text);
};

/// `tenant::package::workflow`, read from one to three parts like a FunctionName.
Result<model::Namespace> ParseWorkflowName(std::string_view text);

/// All code and all workflows that this program brings along, by name.
///
/// Isolation.  A lookup never leaves its tenant and its package; a tenant for which nothing is
///   registered is kNotFound, never served from another's names (I13).
/// Threads.  All methods may be called concurrently.  Functions are never replaced or removed, so
///   what Find returned stays valid as long as the registry.
class TaskRegistry {
 public:
  TaskRegistry() = default;
  TaskRegistry(const TaskRegistry&) = delete;
  TaskRegistry& operator=(const TaskRegistry&) = delete;

  /// `place` ("thumbnails.cc:12") is named when the same name is registered twice: kConflict.
  Status Register(FunctionName name, TaskFunction function, std::string place);
  Status RegisterWorkflow(std::shared_ptr<const model::Workflow> workflow, std::string place);
  /// Takes over every HEADWORKS_TASK and HEADWORKS_WORKFLOW that is linked in (or loaded since).
  /// The error joins all faults; what was good is registered all the same.
  Status RegisterLinked();

  /// The function that a task of `workflow` names: one made for that workflow, else the package's.
  /// kNotFound says what was looked for and what there is.
  Result<const TaskFunction*> Find(const model::Namespace& workflow,
                                   std::string_view function) const;
  /// Null if there is none.
  std::shared_ptr<const model::Workflow> FindWorkflow(const model::Namespace& name) const;

  std::vector<FunctionName> Functions() const;
  std::vector<std::shared_ptr<const model::Workflow>> Workflows() const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
  struct Function {
    FunctionName name;
    TaskFunction call;
    std::string place;
  };
  struct KnownWorkflow {
    std::shared_ptr<const model::Workflow> workflow;
    std::string place;
  };

  std::string WhyNotFound(const model::Namespace& workflow, std::string_view function) const;

  mutable std::shared_mutex mutex_;
  // Keys view the names in their values, which never move.
  std::map<Key, std::unique_ptr<const Function>> functions_;
  std::map<model::Namespace, KnownWorkflow> workflows_;
  const void* linked_until_ = nullptr;  // the newest static registration taken over
};

}  // namespace headworks
