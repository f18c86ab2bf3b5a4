#pragma once

#include <boost/json/object.hpp>

#include "headworks/model/workflow.h"

namespace headworks::spec {

enum class Detail : unsigned char {
  /// What the platform may have a default for only where the workflow says it.
  kSaid,
  /// All of it as it stands in the workflow: of one with the platform's defaults, what holds there.
  kEffective,
};

/// A workflow in the words of its file, with what holds by default written out; what there is none
/// of (a timeout, an environment) is left out.  Tasks stand in the order in which they are
/// numbered, and a matrix as one task.  With kSaid, written with PlainJson and read in the same
/// folder, a workflow that came from a file has the same version again.  (Dozens of matrices of
/// about 1,000 combinations each, all with further values, may come out too long to be read.)
boost::json::object DefinitionJson(const model::Workflow& workflow, Detail detail);

}  // namespace headworks::spec
