#pragma once

#include <vector>

#include "expression_check.h"
#include "headworks/model/workflow.h"
#include "matrix.h"
#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

/// A workflow as it is written: a task with a matrix is one task yet.
struct WorkflowDraft {
  model::WorkflowDefinition definition;
  std::vector<Matrix> matrices;
  /// In the order of the file; those of one task together.
  std::vector<ExpressionUse> expressions;
};

/// Turns a tree into a draft; what is wrong goes to `source`.  In the place of a faulty value
/// stands its default, or something harmless, so that a check of the result finds only new faults.
WorkflowDraft ReadWorkflow(const YamlTree& tree, Source& source);

/// Adds what `Workflow::Check` found, each where its field stands in the tree.
void AddModelFaults(const YamlTree& tree, const std::vector<model::Fault>& faults, Source& source);

}  // namespace headworks::spec
