#pragma once

#include <boost/json/object.hpp>

#include "headworks/runner/runner.h"
#include "session.h"

namespace headworks::cli {

boost::json::object WorkflowJson(const store::WorkflowRecord& record);
/// By "workflow" or "package::workflow"; kNotFound says how to see what there is.
Result<store::WorkflowRecord> FindWorkflow(const Context& context, Runner& runner,
                                           const std::string& text);

}  // namespace headworks::cli
