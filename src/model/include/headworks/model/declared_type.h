#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

/// Values against the types that parameters and outputs are declared to be of.
namespace headworks::model {

/// "a whole number", "text": what a value of `type` looks like to a person.
std::string_view DescribeType(ParamType type);

/// Whether `value` is of `type`.  A whole number may be written 2.0, a number 2.
bool IsOfType(ParamType type, const boost::json::value& value);

/// Whether expressions know `value` as an int: a whole number within 64 bits, or one written 2.0.
bool IsInt(const boost::json::value& value);

/// Whether a task's result has the fields that its `output` declares, each of its type.
///
/// No output is one without fields.  A field that is declared `any` may be missing or null, and the
/// result may have fields that are not declared.
/// kInvalidArgument names the first field at fault, what is declared, and what was found.
Status CheckOutput(const OutputSpec& spec, const boost::json::object& output);

/// For results that are lines of text: makes of a field that is text, and declared to be of another
/// type, the value that the text is as JSON.  What is none of that type stays text.
void ReadTextFields(const OutputSpec& spec, boost::json::object& fields);

}  // namespace headworks::model
