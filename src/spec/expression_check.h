#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "language.h"
#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

struct WorkflowDraft;

/// Bytes of expressions and templates of one file that are compiled, a text once for each task.
inline constexpr std::size_t kMaxCompiledBytes = std::size_t{32} << 20;

/// A value that holds expressions, as it was met while reading.
struct ExpressionUse {
  static constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();

  /// Of the key: says where in the value expressions stand.  kAny: a parameter's default.
  ValueType type;
  /// The key.
  std::string_view key;
  YamlTree::NodeNo node;
  /// Position in WorkflowDefinition::tasks; kNoTask = of the workflow or of `defaults`, where only
  /// `params`, `input`, `run`, `slot` and `env` are known.
  std::size_t task;
};

/// Compiles all expressions of a draft against what its parameters, needs, matrices and outputs are
/// declared to be.  What is wrong goes to `source`, at its place within the text.
void CheckExpressions(const WorkflowDraft& draft, const YamlTree& tree, Source& source);

}  // namespace headworks::spec
