#include "headworks/task_queue/task_queue.h"

#include <fmt/format.h>

#include <charconv>

namespace headworks::task_queue {

std::string_view StateName(ItemState state) {
  switch (state) {
    case ItemState::kPending:
      return "pending";
    case ItemState::kProcessing:
      return "processing";
    case ItemState::kCompleted:
      return "completed";
    case ItemState::kDead:
      return "dead";
    case ItemState::kCancelled:
      return "cancelled";
    case ItemState::kPurged:
      return "purged";
  }
  return "unknown";
}

std::string_view EnqueuedName(Enqueued enqueued) {
  switch (enqueued) {
    case Enqueued::kInserted:
      return "inserted";
    case Enqueued::kDuplicate:
      return "duplicate";
    case Enqueued::kDuplicateDiffers:
      return "duplicate_differs";
  }
  return "unknown";
}

std::string FormatClaim(Claim claim) {
  return fmt::format("{}-{}", claim.item.value, claim.number.value);
}

Result<Claim> ParseClaim(std::string_view text) {
  Claim claim;
  const char* const end = text.data() + text.size();
  const auto item = std::from_chars(text.data(), end, claim.item.value);
  if (item.ec == std::errc() && item.ptr != end && *item.ptr == '-') {
    const auto number = std::from_chars(item.ptr + 1, end, claim.number.value);
    if (number.ec == std::errc() && number.ptr == end && claim.item.value > 0 &&
        claim.number.value > 0 && FormatClaim(claim) == text) {
      return claim;
    }
  }
  return Error{Code::kInvalidArgument,
               fmt::format("'{}' is not a claim; give it as the poll did, e.g. 17-42", text)};
}

}  // namespace headworks::task_queue
