#include "number.h"

#include <fmt/format.h>

#include <charconv>

namespace headworks::cli {

Result<std::int64_t> ParseNumber(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  // Written anew it reads the same unless it had leading zeros, or was "-0".
  if (ec != std::errc() || end != text.data() + text.size() || number < low || number > high ||
      fmt::format_int(number).str() != text)
    return Error{
        Code::kInvalidArgument,
        fmt::format("'{}' is not a number from {} to {} in plain decimal digits", text, low, high)};
  return number;
}

}  // namespace headworks::cli
