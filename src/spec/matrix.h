#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "headworks/model/workflow.h"
#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

/// Combinations of one matrix.
inline constexpr std::size_t kMaxInstances = 1'000;
/// Looks at combinations while all matrices of a file are read.
inline constexpr std::size_t kMaxMatrixWork = 20'000'000;
/// Needs between the instances of all matrices of a workflow.
inline constexpr std::size_t kMaxInstanceNeeds = 2'000'000;

/// What the matrix of one task comes to.
struct Matrix {
  /// Position in WorkflowDefinition::tasks.
  std::size_t task = 0;
  YamlTree::NodeNo node = 0;
  /// Names with lists of values, as written; where there are no lists, what all entries have.
  std::vector<std::string> axes;
  bool lists = false;
  /// In the order of the lists, the last axis fastest; those of `include` follow.  Each has all
  /// axes, and what `include` added.
  std::vector<boost::json::object> combinations;
  /// Something of it is wrong and told, so other names may be meant to be there.
  bool faulty = false;
};

/// Reads the value of `matrix`.  What is wrong goes to `source`; nullopt = nothing useful is left.
/// `work` counts what has been looked at, over all matrices of the file.
std::optional<Matrix> ReadMatrix(const YamlTree& tree, YamlTree::NodeNo no, Source& source,
                                 std::size_t& work);

enum class Instances { kOne, kSeveral, kEither };

/// How many instances of `needed` one instance of a task with the matrix `own` (nullptr = none)
/// needs.
Instances NeededInstances(const Matrix* own, const Matrix& needed);

/// Puts in the place of each task with a matrix one task per combination, `id[value,value]`.
///
/// A need that names such a task becomes needs of its instances: of those that agree in the axes
/// which both tasks have, and of all if there is no such axis, or none that agrees.
void ExpandMatrices(model::WorkflowDefinition& definition, const std::vector<Matrix>& matrices,
                    const YamlTree& tree, Source& source);

}  // namespace headworks::spec
