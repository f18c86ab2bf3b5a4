#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::spec {

/// The input of a run as JSON text: `{"params":{...},"input":{...}}`, with every parameter of the
/// workflow, given or by default; without those whose default holds templates and that are not
/// given: their value is known when the run is.
///
/// `assignments` are "name=value".  A value is read as the type of the default: text stays text,
/// numbers, booleans, lists and objects are JSON.  A parameter without default takes JSON lists and
/// objects as such and anything else as text.
/// `input_json` is a JSON object; empty = `{}`.
/// Errors.  kInvalidArgument names everything that is wrong, one a line, with codes for `Explain`.
Result<std::string> ParseParams(const model::WorkflowDefinition& workflow,
                                std::span<const std::string> assignments,
                                std::string_view input_json);

/// The value of the workflow's `concurrency.key` for an input as ParseParams makes it; none = the
/// workflow has no `concurrency`.  At most 256 bytes.
/// kInvalidArgument: the expression failed, or its value is no text, whole number or boolean.
Result<std::optional<std::string>> ConcurrencyKey(const model::WorkflowDefinition& workflow,
                                                  std::string_view input_json);

/// Whether the default of the parameter holds templates: then its value is known when the run is.
bool HasTemplateDefault(const model::Param& param);
/// That value.  `variables`: `run` and `slot`.  A text that is one expression as a whole keeps the
/// type of its value; where that is null and the default nothing else, the parameter has none.
/// kInvalidArgument: an expression failed, or the parameter `name` does not take the value.
Result<boost::json::value> RenderDefault(std::string_view name, const model::Param& param,
                                         const boost::json::object& variables);
/// Adds to `context`'s "params" those that were not given and whose defaults hold templates, made
/// from the context's "run" and "slot".  Errors as of RenderDefault.
Status RenderDefaults(const model::WorkflowDefinition& workflow, boost::json::object& context);

}  // namespace headworks::spec
