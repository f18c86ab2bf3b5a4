#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::spec {

/// The input of a run as JSON text: `{"params":{...},"input":{...}}`, with every parameter of the
/// workflow, given or by default; without those whose default is a template and that are not given:
/// its value is known when the run is.
///
/// `assignments` are "name=value".  A value is read as the type of the default: text stays text,
/// numbers, booleans, lists and objects are JSON.  A parameter without default takes JSON lists and
/// objects as such and anything else as text.
/// `input_json` is a JSON object; empty = `{}`.
/// Errors.  kInvalidArgument names everything that is wrong, one a line, with codes for `Explain`.
Result<std::string> ParseParams(const model::WorkflowDefinition& workflow,
                                std::span<const std::string> assignments,
                                std::string_view input_json);

/// Adds to `context`'s "params" those that were not given and whose default is a template, made
/// from the context's "run" and "slot".  kInvalidArgument names the parameter and what is wrong.
Status RenderDefaults(const model::WorkflowDefinition& workflow, boost::json::object& context);

}  // namespace headworks::spec
