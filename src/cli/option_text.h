#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// Texts of options that several commands take.  kInvalidArgument names the option.
namespace headworks::cli {

Result<Duration> DurationOf(std::string_view option, std::string_view text);

struct QueueSlots {
  std::string queue;
  std::uint32_t slots = 0;
};
/// "mail=4", of --queue; "mail" alone has the `usual` slots.
Result<QueueSlots> QueueSlotsOf(const std::string& text, std::uint32_t usual,
                                std::uint32_t at_most);

}  // namespace headworks::cli
