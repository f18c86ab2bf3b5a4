#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "headworks/model/workflow.h"

/// Values against the types that they are declared to be of.
namespace headworks::model {

/// "a whole number", "text": what a value of `type` looks like to a person.
std::string_view DescribeType(ParamType type);

/// Whether `value` is of `type`.  A whole number may be written 2.0, a number 2.
bool IsOfType(ParamType type, const boost::json::value& value);

}  // namespace headworks::model
