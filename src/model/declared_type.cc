#include "headworks/model/declared_type.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>

#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks::model {
namespace json = boost::json;
namespace {

/// The decimal number that the whole of `text` is, or -1.
int Digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return text.empty() ? -1 : value;
}

bool IsDate(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const int year = Digits(text.substr(0, 4));
  const int month = Digits(text.substr(5, 2));
  const int day = Digits(text.substr(8, 2));
  return year >= 0 && month >= 0 && day >= 0 &&
         std::chrono::year_month_day(std::chrono::year(year),
                                     std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
             .ok();
}

/// "hh:mm", each within its range.
bool IsHourAndMinute(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return false;
  const int hour = Digits(text.substr(0, 2));
  const int minute = Digits(text.substr(3, 2));
  return hour >= 0 && hour < 24 && minute >= 0 && minute < 60;
}

/// RFC 3339: 2026-01-31T08:30:00Z, with a fraction or an offset such as +01:00.
bool IsDateTime(std::string_view text) {
  constexpr std::size_t kUpToSeconds = 19;
  if (text.size() <= kUpToSeconds || !IsDate(text.substr(0, 10)) || text[10] != 'T' ||
      !IsHourAndMinute(text.substr(11, 5)) || text[16] != ':')
    return false;
  const int second = Digits(text.substr(17, 2));
  if (second < 0 || second > 60) return false;
  std::string_view rest = text.substr(kUpToSeconds);
  if (rest.front() == '.') {
    const std::size_t end = rest.find_first_not_of("0123456789", 1);
    if (end == std::string_view::npos || end == 1) return false;
    rest.remove_prefix(end);
  }
  return rest == "Z" ||
         ((rest.front() == '+' || rest.front() == '-') && IsHourAndMinute(rest.substr(1)));
}

/// Of a declared output: the name of a type.
ParamType TypeNamed(std::string_view name) {
  for (auto type = ParamType::kString; type <= ParamType::kDateTime;
       type = static_cast<ParamType>(static_cast<int>(type) + 1))
    if (ParamTypeName(type) == name) return type;
  return ParamType::kAny;
}

std::string Found(const json::value& value) {
  constexpr std::size_t kShown = 60;
  std::string text = CanonicalJson(value);
  if (text.size() > kShown) text = text.substr(0, ValidUtf8Prefix(text.substr(0, kShown))) + "...";
  return text;
}

/// What differs first.
struct Mismatch {
  std::string field;  // from the value that was looked at: ".rows[3].n"
  std::string what;
};

std::optional<Mismatch> MismatchOf(const json::value& declared, const json::value& value);

std::optional<Mismatch> MismatchOfFields(const json::object& declared, const json::object& fields) {
  for (const auto& member : declared) {
    std::optional<Mismatch> mismatch;
    if (const json::value* value = fields.if_contains(member.key()))
      mismatch = MismatchOf(member.value(), *value);
    else if (!member.value().is_string() || member.value().get_string() != "any")
      mismatch = {"", "is missing, but is declared as " + CanonicalJson(member.value())};
    if (!mismatch) continue;
    mismatch->field.insert(0, fmt::format(".{}", std::string_view(member.key())));
    return mismatch;
  }
  return std::nullopt;
}

/// nullopt = it fits.  `declared`: the name of a type, [type], or a map of fields.
std::optional<Mismatch> MismatchOf(const json::value& declared, const json::value& value) {
  if (declared.is_object() && value.is_object())
    return MismatchOfFields(declared.get_object(), value.get_object());
  if (declared.is_array() && value.is_array()) {
    const json::array& elements = value.get_array();
    for (std::size_t i = 0; !declared.get_array().empty() && i < elements.size(); ++i) {
      auto mismatch = MismatchOf(declared.get_array().front(), elements[i]);
      if (!mismatch) continue;
      mismatch->field.insert(0, fmt::format("[{}]", i));
      return mismatch;
    }
    return std::nullopt;
  }
  if (declared.is_string()) {
    const ParamType type = TypeNamed(std::string_view(declared.get_string()));
    if (IsOfType(type, value)) return std::nullopt;
  }
  return Mismatch{
      "", fmt::format("is {}, but is declared as {}", Found(value), CanonicalJson(declared))};
}

}  // namespace

std::string_view DescribeType(ParamType type) {
  switch (type) {
    case ParamType::kAny:
      return "anything";
    case ParamType::kString:
      return "text";
    case ParamType::kInteger:
      return "a whole number";
    case ParamType::kNumber:
      return "a number";
    case ParamType::kBoolean:
      return "true or false";
    case ParamType::kArray:
      return "a JSON list, e.g. [1, 2]";
    case ParamType::kObject:
      return "a JSON object, e.g. {\"a\": 1}";
    case ParamType::kDate:
      return "a date, e.g. 2026-01-31";
    case ParamType::kDateTime:
      return "a time with its zone, e.g. 2026-01-31T08:30:00Z";
  }
  return "anything";
}

bool IsOfType(ParamType type, const json::value& value) {
  switch (type) {
    case ParamType::kAny:
      return true;
    case ParamType::kString:
      return value.is_string();
    case ParamType::kInteger:
      return IsInt(value);
    case ParamType::kNumber:
      return value.is_number();
    case ParamType::kBoolean:
      return value.is_bool();
    case ParamType::kArray:
      return value.is_array();
    case ParamType::kObject:
      return value.is_object();
    case ParamType::kDate:
      return value.is_string() && IsDate(value.get_string());
    case ParamType::kDateTime:
      return value.is_string() && IsDateTime(value.get_string());
  }
  return false;
}

bool IsInt(const json::value& value) {
  if (!value.is_double()) return value.is_int64();
  // -2^63 as a double may have been a smaller number.
  constexpr double kEnd = 0x1p63;
  const double number = value.get_double();
  return std::trunc(number) == number && number > -kEnd && number < kEnd;
}

Status CheckOutput(const OutputSpec& spec, const json::object& output) {
  if (spec.type_json.empty()) return {};
  HEADWORKS_ASSIGN(const json::value declared, ParseJson(spec.type_json, {}));
  if (!declared.is_object())
    return Error{Code::kInvalidArgument,
                 fmt::format("output is declared as {}; declare a map of its fields",
                             CanonicalJson(declared))};
  const auto mismatch = MismatchOfFields(declared.get_object(), output);
  if (!mismatch) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("output{} {}; correct what the task gives, or the type of its output",
                           mismatch->field, mismatch->what)};
}

void ReadTextFields(const OutputSpec& spec, json::object& fields) {
  const auto declared = ParseJson(spec.type_json, {});
  if (!declared || !declared->is_object()) return;
  for (const auto& member : declared->get_object()) {
    json::value* field = fields.if_contains(member.key());
    if (field == nullptr || !field->is_string()) continue;
    auto value = ParseJson(std::string_view(field->get_string()), {});
    if (value && MismatchOf(member.value(), *field) && !MismatchOf(member.value(), *value))
      *field = *std::move(value);
  }
}

}  // namespace headworks::model
