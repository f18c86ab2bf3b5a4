#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headworks/expr/program.h"
#include "workflow_reader.h"

/// Reads of outputs that may not be there.
namespace headworks::spec {

/// Finds expressions that read a field of `needs.ID.output` where the task may run although ID did
/// not succeed, and so has the output {}.
///
/// What asks anything else about the same need, by has() or its state, say, in the same text or in
/// a `when` of the task, is taken to know.
class MissingOutputs {
 public:
  /// `draft` must outlive it.
  explicit MissingOutputs(const WorkflowDraft& draft) : draft_(draft) {}

  /// Offset in the text, and what to say.
  using Found = std::vector<std::pair<std::size_t, std::string>>;
  /// Of a text of `task` with these references; `when`: it is this one of its conditions.
  Found Find(std::size_t task, const std::vector<expr::Reference>& references,
             std::optional<std::string_view> when);
  /// Whether Find() could find anything in a text of `task`.
  bool MayLack(std::size_t task) { return !LackedBy(task).empty(); }

 private:
  /// Needs that may be without output when `task` runs, and why: "where it was skipped".
  using Lacked = std::unordered_map<std::string_view, std::string>;
  const Lacked& LackedBy(std::size_t task);
  void FindSkippable();

  const WorkflowDraft& draft_;
  std::size_t task_ = ~std::size_t{0};
  Lacked lacked_;  // of task_
  /// By task, whether a `when` of it or of what it needs can skip it; empty = not looked at yet.
  std::vector<bool> skippable_;
  std::unordered_map<std::string_view, std::size_t> by_id_;
};

}  // namespace headworks::spec
