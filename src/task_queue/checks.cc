#include "headworks/task_queue/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks::task_queue {
namespace {

Error Invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status CheckBatch(std::string_view what, std::size_t count) {
  if (count >= 1 && count <= kMaxBatch) return {};
  return Invalid(fmt::format("{} {} at once; give 1 to {}", count, what, kMaxBatch));
}

/// Text without control characters.
bool IsVisible(std::string_view text) {
  if (ValidUtf8Prefix(text) != text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) return false;
    if (c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) return false;  // U+0080 to 9F
  }
  return true;
}

Status CheckItemId(std::string_view id) {
  if (!id.empty() && id.size() <= kMaxIdBytes && IsVisible(id)) return {};
  return Invalid(
      fmt::format("'{}' cannot be the id of an item; give 1 to {} bytes of UTF-8 "
                  "without control characters",
                  IsVisible(id) ? id.substr(0, kMaxIdBytes) : "...", kMaxIdBytes));
}

Status CheckRange(std::string_view what, Duration value, Duration from, Duration to) {
  if (value >= from && value <= to) return {};
  return Invalid(fmt::format("{} is {}; give {} to {}", what, FormatDuration(value),
                             FormatDuration(from), FormatDuration(to)));
}

Status CheckRange(std::string_view what, std::int64_t value, std::int64_t from, std::int64_t to) {
  if (value >= from && value <= to) return {};
  return Invalid(fmt::format("{} is {}; give {} to {}", what, value, from, to));
}

Status CheckVisibility(Duration visibility) {
  return CheckRange("visibility", visibility, std::chrono::milliseconds(1), kLongestLease);
}

Status CheckItem(const NewItem& item) {
  HEADWORKS_TRY(CheckItemId(item.id));
  if (item.payload.size() > kMaxPayloadBytes) {
    return Invalid(
        fmt::format("payload of item '{}' has {} bytes; at most {} are taken: store it "
                    "elsewhere, and send where it is",
                    item.id, item.payload.size(), kMaxPayloadBytes));
  }
  const auto parsed = ParseJson(item.payload, {.max_bytes = kMaxPayloadBytes});
  if (!parsed) {
    return Invalid(fmt::format("payload of item '{}': {}", item.id, parsed.error().message));
  }
  const auto of = [&](std::string_view what) {
    return fmt::format("{} of item '{}'", what, item.id);
  };
  HEADWORKS_TRY(CheckRange(of("priority"), item.priority, -kMaxPriority, kMaxPriority));
  HEADWORKS_TRY(CheckRange(of("delay"), item.delay, Duration(), kLongestDelay));
  return CheckRange(of("max_attempts"), item.max_attempts, 0, kMaxAttempts);
}

Status CheckRate(const RateLimit& rate) {
  HEADWORKS_TRY(CheckRange("rate", rate.count, 1, 1'000'000));
  return CheckRange("time of the rate", rate.per, std::chrono::seconds(1), std::chrono::hours(24));
}

}  // namespace

Status CheckQueue(const TenantId& tenant, std::string_view queue) {
  if (tenant.value.empty()) return Invalid("no tenant given; every call speaks for one");
  const auto taken = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (!queue.empty() && queue.size() <= 64 && std::ranges::all_of(queue, taken)) return {};
  return Invalid(fmt::format("'{}' cannot name a queue; use letters, digits, _ and -, at most 64",
                             IsVisible(queue) ? queue.substr(0, 80) : "..."));
}

Status CheckEnqueue(const TenantId& tenant, std::string_view queue,
                    std::span<const NewItem> items) {
  HEADWORKS_TRY(CheckQueue(tenant, queue));
  HEADWORKS_TRY(CheckBatch("items", items.size()));
  std::size_t bytes = 0;
  for (const NewItem& item : items) {
    HEADWORKS_TRY(CheckItem(item));
    bytes += item.payload.size();
  }
  if (bytes <= kMaxBatchBytes) return {};
  return Invalid(fmt::format("{} items with {} bytes at once; give at most {}", items.size(), bytes,
                             kMaxBatchBytes));
}

Status CheckPoll(const PollRequest& request) {
  HEADWORKS_TRY(CheckQueue(request.tenant, request.queue));
  HEADWORKS_TRY(CheckBatch("items", request.max_items));
  if (request.visibility != Duration()) HEADWORKS_TRY(CheckVisibility(request.visibility));
  HEADWORKS_TRY(CheckRange("max_bytes", static_cast<std::int64_t>(request.max_bytes), 1,
                           static_cast<std::int64_t>(kMaxBatchBytes)));
  if (request.holder.size() <= kMaxHolderBytes && IsVisible(request.holder)) return {};
  return Invalid(
      fmt::format("a holder is named by at most {} bytes of UTF-8 without control "
                  "characters",
                  kMaxHolderBytes));
}

bool Passes(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kAtCapacity;
}

Status CheckSettle(const TenantId& tenant, std::string_view queue,
                   std::span<const Settlement> settlements) {
  HEADWORKS_TRY(CheckQueue(tenant, queue));
  HEADWORKS_TRY(CheckBatch("claims", settlements.size()));
  for (const Settlement& settlement : settlements) {
    if (settlement.delay) {
      HEADWORKS_TRY(CheckRange(fmt::format("delay of claim {}", FormatClaim(settlement.claim)),
                               *settlement.delay, Duration(), kLongestDelay));
    }
  }
  return {};
}

Status CheckExtend(const TenantId& tenant, std::string_view queue, std::span<const Claim> claims,
                   Duration visibility) {
  HEADWORKS_TRY(CheckQueue(tenant, queue));
  HEADWORKS_TRY(CheckBatch("claims", claims.size()));
  return visibility == Duration() ? Status() : CheckVisibility(visibility);
}

Status CheckId(const TenantId& tenant, std::string_view queue, std::string_view id) {
  HEADWORKS_TRY(CheckQueue(tenant, queue));
  return CheckItemId(id);
}

Status CheckFilter(const TenantId& tenant, std::string_view queue, const ItemFilter& filter,
                   std::span<const ItemState> allowed) {
  HEADWORKS_TRY(CheckQueue(tenant, queue));
  HEADWORKS_TRY(CheckBatch("items", filter.limit));
  if (filter.ids.size() > kMaxBatch) HEADWORKS_TRY(CheckBatch("ids", filter.ids.size()));
  for (const std::string& id : filter.ids) HEADWORKS_TRY(CheckItemId(id));
  HEADWORKS_TRY(CheckRange("older_than", filter.older_than, Duration(), kLongestDelay));
  for (const ItemState state : filter.states) {
    if (std::ranges::find(allowed, state) == allowed.end()) {
      std::string names;
      for (const ItemState each : allowed)
        names.append(names.empty() ? "" : ", ").append(StateName(each));
      return Invalid(
          fmt::format("items that are {} are not for this call; give {}", StateName(state), names));
    }
  }
  return {};
}

Status CheckSweep(std::size_t limit) { return CheckBatch("rows", limit); }

Result<QueueSettings> Changed(QueueSettings settings, const SettingsChange& change) {
  const auto set = [](auto& to, const auto& from) {
    if (from) to = *from;
  };
  set(settings.visibility, change.visibility);
  set(settings.max_attempts, change.max_attempts);
  set(settings.backoff, change.backoff);
  set(settings.max_backoff, change.max_backoff);
  set(settings.max_depth, change.max_depth);
  set(settings.dedup_window, change.dedup_window);
  set(settings.dead_retention, change.dead_retention);
  if (change.rate && change.rate->count == 0) {
    settings.rate.reset();
  } else if (change.rate) {
    HEADWORKS_TRY(CheckRate(*change.rate));
    settings.rate = change.rate;
  }
  HEADWORKS_TRY(CheckVisibility(settings.visibility));
  HEADWORKS_TRY(CheckRange("max_attempts", settings.max_attempts, 1, kMaxAttempts));
  HEADWORKS_TRY(CheckRange("backoff", settings.backoff, Duration(), kLongestDelay));
  HEADWORKS_TRY(CheckRange("max_backoff", settings.max_backoff, Duration(), kLongestDelay));
  if (settings.backoff > settings.max_backoff)
    return Invalid(fmt::format("backoff is {}, above max_backoff, which is {}; change both",
                               FormatDuration(settings.backoff),
                               FormatDuration(settings.max_backoff)));
  HEADWORKS_TRY(CheckRange("max_depth", settings.max_depth, 1, kMaxDepth));
  HEADWORKS_TRY(CheckRange("dedup_window", settings.dedup_window, Duration(), kLongestDelay));
  HEADWORKS_TRY(CheckRange("dead_retention", settings.dead_retention, Duration(), kLongestDelay));
  return settings;
}

bool Fits(const ItemRecord& item, const ItemFilter& filter, std::span<const ItemState> states,
          Instant now) {
  const Instant since = item.state == ItemState::kDead ? item.ended_at : item.enqueued_at;
  return std::ranges::find(states, item.state) != states.end() &&
         (filter.ids.empty() || std::ranges::find(filter.ids, item.id) != filter.ids.end()) &&
         item.reason.find(filter.reason) != std::string::npos &&
         (filter.older_than == Duration() || since <= now - filter.older_than);
}

std::int64_t Digest(std::string_view payload) {
  const std::string hex = Sha256Hex(payload);
  std::uint64_t value = 0;
  std::from_chars(hex.data(), hex.data() + 16, value, 16);
  return static_cast<std::int64_t>(value);
}

std::vector<std::int64_t> Digests(std::span<const NewItem> items) {
  std::vector<std::int64_t> digests;
  digests.reserve(items.size());
  for (const NewItem& item : items) digests.push_back(Digest(item.payload));
  return digests;
}

std::int64_t BootNumber(std::string_view boot_id) { return Digest(boot_id); }

Error NoSuchQueue(std::string_view queue) {
  return {Code::kNotFound,
          fmt::format("there is no queue '{}'; see 'headworks queue list'", queue)};
}

Error NoSuchItem(std::string_view queue, std::string_view id) {
  return {Code::kNotFound, fmt::format("queue '{}' has no item '{}'", queue, id)};
}

Error NoSuchClaim(std::string_view queue, Claim claim) {
  return {Code::kNotFound,
          fmt::format("queue '{}' has no item of claim {} any more", queue, FormatClaim(claim))};
}

Error QueueIsInUse(const QueueRecord& queue) {
  return {Code::kConflict,
          fmt::format("queue {} has {} items pending, {} processing and {} dead; purge them, and "
                      "settle what is being processed, before the queue is deleted",
                      queue.name, queue.pending, queue.processing, queue.dead)};
}

Error QueueIsFull(std::string_view queue, std::int64_t max_depth) {
  return {Code::kAtCapacity,
          fmt::format("queue '{}' would hold more than {} items; try again when some are done, or "
                      "raise its max_depth",
                      queue, max_depth)};
}

Error TooManyQueues() {
  return {Code::kAtCapacity,
          fmt::format("this tenant has {} queues already, and may have no more; `headworks queue "
                      "delete` forgets an empty one",
                      kMaxQueues)};
}

}  // namespace headworks::task_queue
