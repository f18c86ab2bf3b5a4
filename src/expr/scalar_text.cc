#include "scalar_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "headworks/base/check.h"
#include "time_value.h"

namespace headworks::expr::internal {

std::string DoubleText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string ScalarText(const Value& value) {
  using Kind = Value::Kind;
  switch (value.kind) {
    case Kind::kBool:
      return value.boolean ? "true" : "false";
    case Kind::kInt:
      return std::to_string(value.integer);
    case Kind::kUint:
      return std::to_string(value.uint);
    case Kind::kDouble:
      return DoubleText(value.number);
    case Kind::kString:
      return std::string(value.view());
    case Kind::kTimestamp:
      return WriteTimestamp(value);
    case Kind::kDuration:
      return WriteDuration(value);
    default:
      HEADWORKS_CHECK(false);  // Callers have asked.
  }
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

}  // namespace headworks::expr::internal
