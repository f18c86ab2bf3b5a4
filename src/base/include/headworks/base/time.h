#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks {

/// A span of time, in microseconds: the resolution of every stored time.
using Duration = std::chrono::microseconds;
/// A point in time, UTC, microseconds since 1970.
using Instant = std::chrono::sys_time<Duration>;

/// "No such time": later than every real one, so that `min` over deadlines works.
inline constexpr Instant kNever = Instant::max();

/// The clock, as a port: the engine never asks the system itself.
///
/// Threads.  All methods may be called concurrently.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Wall time.  May jump in both directions: planned instants and display only, no lease (I10).
  virtual Instant Now() = 0;
  /// Time since an arbitrary start that never jumps and counts while the machine sleeps.
  virtual Duration Monotonic() = 0;
};

/// The machine's clock (CLOCK_REALTIME, CLOCK_BOOTTIME).
class SystemClock final : public Clock {
 public:
  Instant Now() override;
  Duration Monotonic() override;
};

/// "2026-01-02T03:04:05.678901Z"; always UTC, always six digits, so that text order is time order.
std::string FormatInstant(Instant instant);

/// Human length, e.g. "850ms", "12.3s", "4m05s", "2h03m".
std::string FormatDuration(Duration duration);

/// Reads "250ms", "30s", "10m", "2h", "1d", or sums of them ("1h30m").  Not negative; at most
/// 10 years.  A bare number is refused, because its unit would be a guess.
Result<Duration> ParseDuration(std::string_view text);

}  // namespace headworks
