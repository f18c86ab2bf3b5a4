#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// Ids of items for slots of schedules: whoever fires a slot, and however often, pushes one item.
namespace headworks::task_queue {

/// When a slot fires, as its schedule says it: civil time, and its offset from UTC if it has one.
/// The same instant with another offset is another text, and so another id.
struct PlannedTime {
  std::chrono::local_time<Duration> local{};
  /// None = without zone.  Less than 24 h either way.
  std::optional<std::chrono::seconds> utc_offset{};
  bool operator==(const PlannedTime&) const = default;
};

/// ISO 8601 exactly as Python's `datetime.isoformat()` writes it: "2026-05-06T12:00:00+00:00"; six
/// digits of a second where it is not whole, no suffix without an offset, never "Z", and seconds of
/// the offset where it has some.
/// kInvalidArgument: a year outside 1 to 9999, or an offset of 24 h or more.
Result<std::string> FormatPlannedTime(const PlannedTime& time);

/// Reads what FormatPlannedTime writes, and nothing else.  kInvalidArgument.
Result<PlannedTime> ParsePlannedTime(std::string_view text);

/// The first 32 hex digits of SHA-256 over the schedule's id, "|" and the formatted time.  Errors
/// are those of FormatPlannedTime.
Result<std::string> SlotTaskId(std::string_view schedule_id, const PlannedTime& time);

}  // namespace headworks::task_queue
