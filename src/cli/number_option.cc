#include "number_option.h"

#include <fmt/format.h>

#include "number.h"

namespace headworks::cli {

CLI::Validator NumberFrom(std::int64_t low, std::int64_t high) {
  return {[low, high](const std::string& text) {
            const auto number = ParseNumber(text, low, high);
            return number ? std::string() : number.error().message;
          },
          fmt::format("{} to {}", low, high)};
}

}  // namespace headworks::cli
