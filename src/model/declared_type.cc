#include "headworks/model/declared_type.h"

#include <boost/json.hpp>
#include <chrono>
#include <cmath>

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

bool IsWhole(const json::value& value) {
  return value.is_int64() || value.is_uint64() ||
         (value.is_double() && std::trunc(value.get_double()) == value.get_double());
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
      return IsWhole(value);
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

}  // namespace headworks::model
