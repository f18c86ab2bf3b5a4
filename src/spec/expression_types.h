#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "headworks/expr/environment.h"
#include "headworks/expr/type.h"
#include "workflow_reader.h"

namespace headworks::spec {

/// What the expressions of one workflow may name, and of which types that is.
///
/// `params`, `input`, `needs`, `run`, `slot`, `matrix`, `env`, as a run's context has them.  A
/// number that JSON may write without fraction is dyn, because it will be an int then.
class ExpressionTypes {
 public:
  /// `draft` must outlive it.
  explicit ExpressionTypes(const WorkflowDraft& draft);

  /// Of texts at the workflow, and under `defaults`.
  expr::Environment OfWorkflow() const;
  /// Of `concurrency.key`: what is known before there is a run.
  expr::Environment OfKey() const;
  /// Of the default of a parameter.
  expr::Environment OfParam() const;
  /// `rendered`: of texts that are rendered at each try, which see `env` as well.
  expr::Environment OfTask(std::size_t task, bool rendered) const;
  /// Its place in the draft.
  std::optional<std::size_t> FindTask(std::string_view id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  const Matrix* MatrixOf(std::size_t task) const;
  expr::Type NeedsType(std::size_t task, bool rendered) const;
  expr::Type NeedType(std::size_t task, std::size_t need, bool rendered) const;
  expr::Type EnvType(const model::Task& task) const;
  const expr::Type& RunType(const model::Task& task, bool rendered) const;

  const WorkflowDraft& draft_;
  std::unordered_map<std::string_view, std::size_t> by_id_;
  std::unordered_map<std::size_t, const Matrix*> matrices_;
  expr::Type params_, env_, run_, run_of_finally_, run_of_command_, run_of_finally_command_;
};

}  // namespace headworks::spec
