#pragma once

#include <string>

#include "headworks/model/workflow.h"
#include "source.h"
#include "yaml_tree.h"

namespace headworks::spec {

/// Turns a tree into a definition; what is wrong goes to `source`.  In the place of a faulty value
/// stands its default, or something harmless, so that a check of the result finds only new faults.
model::WorkflowDefinition ReadWorkflow(const YamlTree& tree, Source& source);

/// Adds what `Workflow::Check` found, each where its field stands in the tree.
void AddModelFaults(const YamlTree& tree, const std::vector<model::Fault>& faults, Source& source);

}  // namespace headworks::spec
