#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "value.h"

namespace date {
class time_zone;
}

namespace headworks::expr::internal {

/// A fixed distance from UTC, or a zone of the IANA database.
struct Zone {
  std::chrono::seconds offset{0};
  const date::time_zone* named = nullptr;
};

/// "Europe/Berlin", "UTC", "+02:00", "-02:30", "02:00".
Result<Zone> FindZone(std::string_view name);

/// RFC 3339 text, years 0001 to 9999, to the nanosecond.
Result<Value> ReadTimestamp(std::string_view text);
/// In UTC with "Z", and as many digits of the fraction as are needed.
std::string WriteTimestamp(const Value& timestamp);
/// Sums of numbers with units, "1h30m", "-1.5s", "100ms"; d, h, m, s, ms, us, ns; up to 292 years.
Result<Value> ReadDuration(std::string_view text);
/// Seconds: "5400s", "0.1s".
std::string WriteDuration(const Value& duration);

/// Seconds since 1970 as a timestamp, if it is in the years 0001 to 9999.
Result<Value> TimestampFromSeconds(std::int64_t seconds);
/// `sign` is 1 or -1.
Result<Value> AddToTimestamp(const Value& timestamp, const Value& duration, int sign);
Result<Value> AddDurations(const Value& a, const Value& b, int sign);
Result<Value> SubtractTimestamps(const Value& a, const Value& b);

/// What the accessor `name` ("getHours") gives of a timestamp in `zone`, or of a duration.
std::int64_t TimestampField(std::string_view name, const Value& timestamp, const Zone& zone);
std::int64_t DurationField(std::string_view name, const Value& duration);

}  // namespace headworks::expr::internal
