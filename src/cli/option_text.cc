#include "option_text.h"

#include <fmt/format.h>

#include "number.h"

namespace headworks::cli {

Result<Duration> DurationOf(std::string_view option, std::string_view text) {
  auto duration = ParseDuration(text);
  if (duration) return duration;
  return Error{Code::kInvalidArgument, fmt::format("{}: {}", option, duration.error().message)};
}

Result<QueueSlots> QueueSlotsOf(const std::string& text, std::uint32_t usual,
                                std::uint32_t at_most) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) return QueueSlots{text, usual};
  const auto slots = ParseNumber(std::string_view(text).substr(equals + 1), 1, at_most);
  if (!slots)
    return Error{Code::kInvalidArgument,
                 fmt::format("--queue {}: {}", text, slots.error().message)};
  return QueueSlots{text.substr(0, equals), static_cast<std::uint32_t>(*slots)};
}

}  // namespace headworks::cli
