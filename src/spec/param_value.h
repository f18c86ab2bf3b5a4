#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::spec {

/// "a whole number", "text": what a value of `type` looks like to a person.
std::string_view DescribeType(model::ParamType type);

/// The type that `value` shows; kAny for null.
model::ParamType TypeOfValue(const boost::json::value& value);

/// Whether the text is a template, whose value is known only when a run starts.
bool IsTemplate(const boost::json::value& value);

/// Why `value` is none that `param` takes (its type, enum, min, max, pattern), as what follows
/// "takes"; empty = it takes it.
std::string ParamProblem(const model::Param& param, const boost::json::value& value);
/// The same as an error that names the parameter.
Status CheckParam(std::string_view name, const model::Param& param,
                  const boost::json::value& value);

/// The template that makes the default of a parameter; nullopt = the default is a value.
std::optional<std::string> TemplateDefault(const model::Param& param);

}  // namespace headworks::spec
