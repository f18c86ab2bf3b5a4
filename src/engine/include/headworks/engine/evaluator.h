#pragma once

#include <functional>
#include <memory>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::engine {

/// A task whose trigger rule says that it runs: does its `when` say so too?
struct Question {
  TenantId tenant;
  RunNo run;
  RunId run_id;
  TaskNo task;
  /// Shared because the run may leave memory meanwhile.
  std::shared_ptr<const model::Workflow> workflow;
};

/// Answers the expressions of tasks; the engine knows no expression language.
///
/// Life.  Must have answered or dropped every question before the engine is destroyed.
/// Threads.  `Evaluate` is called on the control thread and must not wait; `answer` may be called
///   from any thread, also within `Evaluate`, once.
class Evaluator {
 public:
  /// kUnavailable: the store could not be asked; the same question comes again.  Any other error
  /// fails the task.
  using Answer = std::function<void(Result<bool>)>;

  virtual ~Evaluator() = default;
  virtual void Evaluate(Question question, Answer answer) = 0;
};

}  // namespace headworks::engine
