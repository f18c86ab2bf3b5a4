#include "param_value.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <boost/json.hpp>

#include "headworks/base/json.h"
#include "headworks/model/declared_type.h"

namespace headworks::spec {
namespace json = boost::json;
using model::ParamType;
namespace {

/// "3 to 5", "3 or more", "5 or less"
std::string DescribeRange(const model::Param& param) {
  if (param.min && param.max) return fmt::format("{} to {}", *param.min, *param.max);
  return param.min ? fmt::format("{} or more", *param.min) : fmt::format("{} or less", *param.max);
}

bool IsAllowed(const model::Param& param, const json::value& value) {
  const std::string text = CanonicalJson(value);
  for (const std::string& allowed : param.allowed) {
    const auto parsed = ParseJson(allowed, {});
    if (parsed && CanonicalJson(*parsed) == text) return true;
  }
  return param.allowed.empty();
}

}  // namespace

ParamType TypeOfValue(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return ParamType::kAny;
    case json::kind::string:
      return ParamType::kString;
    case json::kind::bool_:
      return ParamType::kBoolean;
    case json::kind::array:
      return ParamType::kArray;
    case json::kind::object:
      return ParamType::kObject;
    default:
      return model::IsOfType(ParamType::kInteger, value) ? ParamType::kInteger : ParamType::kNumber;
  }
}

bool HasTemplate(const json::value& value) {
  if (const json::array* array = value.if_array()) return std::ranges::any_of(*array, HasTemplate);
  if (const json::object* object = value.if_object())
    return std::ranges::any_of(*object,
                               [](const auto& member) { return HasTemplate(member.value()); });
  return value.is_string() && value.get_string().find("${{") != json::string::npos;
}

std::string ParamProblem(const model::Param& param, const json::value& value) {
  if (!model::IsOfType(param.type, value)) return std::string(model::DescribeType(param.type));
  if (!IsAllowed(param, value)) return fmt::format("one of {}", fmt::join(param.allowed, ", "));
  if (value.is_number() && (param.min || param.max)) {
    const double number = value.to_number<double>();
    if (number < param.min.value_or(number) || number > param.max.value_or(number))
      return DescribeRange(param);
  }
  if (!param.pattern.empty() && value.is_string()) {
    const json::string& text = value.get_string();
    const re2::RE2 pattern(param.pattern, re2::RE2::Quiet);
    if (!pattern.ok() || !re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), pattern))
      return fmt::format("text that matches {}", QuoteJson(param.pattern));
  }
  return "";
}

Status CheckParam(std::string_view name, const model::Param& param, const json::value& value) {
  const std::string problem = ParamProblem(param, value);
  if (problem.empty()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("parameter {} takes {}, not {}", name, problem, CanonicalJson(value))};
}

}  // namespace headworks::spec
