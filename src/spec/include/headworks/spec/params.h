#pragma once

#include <span>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::spec {

/// The input of a run as JSON text: `{"params":{...},"input":{...}}`, with every parameter of the
/// workflow, given or by default.
///
/// `assignments` are "name=value".  A value is read as the type of the default: text stays text,
/// numbers, booleans, lists and objects are JSON.  A parameter without default takes JSON lists and
/// objects as such and anything else as text.
/// `input_json` is a JSON object; empty = `{}`.
/// Errors.  kInvalidArgument names everything that is wrong, one a line, with codes for `Explain`.
Result<std::string> ParseParams(const model::WorkflowDefinition& workflow,
                                std::span<const std::string> assignments,
                                std::string_view input_json);

}  // namespace headworks::spec
