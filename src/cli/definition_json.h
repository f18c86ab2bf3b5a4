#pragma once

#include <boost/json/object.hpp>

#include "headworks/model/workflow.h"

namespace headworks::cli {

/// A workflow in the words of its file, with what holds by default written out; what there is none
/// of (a timeout, an environment) is left out.  Tasks stand in the order in which they are
/// numbered. Read as a file in the same folder it is the same workflow, unless it holds a matrix,
/// whose combinations stand there one by one.
boost::json::object DefinitionJson(const model::Workflow& workflow);

}  // namespace headworks::cli
