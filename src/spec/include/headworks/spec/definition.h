#pragma once

#include <boost/json/object.hpp>

#include "headworks/model/workflow.h"

namespace headworks::spec {

/// A workflow in the words of its file, with what holds by default written out; what there is none
/// of (a timeout, an environment) is left out.  Tasks stand in the order in which they are
/// numbered, and a matrix as one task.  Written with PlainJson and read in the same folder, a
/// workflow that came from a file has the same version again.  (Dozens of matrices of about 1,000
/// combinations each, all with further values, may come out too long to be read.)
boost::json::object DefinitionJson(const model::Workflow& workflow);

}  // namespace headworks::spec
