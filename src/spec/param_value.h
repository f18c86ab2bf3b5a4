#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::spec {

/// The type that `value` shows; kAny for null.
model::ParamType TypeOfValue(const boost::json::value& value);

/// Whether a text in the value is a template, so that it is known only when a run starts.
bool HasTemplate(const boost::json::value& value);

/// Why `value` is none that `param` takes (its type, enum, min, max, pattern), as what follows
/// "takes"; empty = it takes it.
std::string ParamProblem(const model::Param& param, const boost::json::value& value);
/// The same as an error that names the parameter.
Status CheckParam(std::string_view name, const model::Param& param,
                  const boost::json::value& value);

}  // namespace headworks::spec
