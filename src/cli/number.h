#pragma once

#include <cstdint>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks::cli {

/// A whole number from `low` to `high` in plain decimal digits, as the command line, the
/// environment and the configuration take it: no sign but "-", no leading zeros, no other base, so
/// that nobody reads another number than was meant.  kInvalidArgument.
Result<std::int64_t> ParseNumber(std::string_view text, std::int64_t low, std::int64_t high);

}  // namespace headworks::cli
