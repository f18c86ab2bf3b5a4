#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/task_queue/redact.h"
#include "headworks/task_queue/task_queue.h"

/// What happens to an item and to its queue's figures, without storage: every adapter keeps rows
/// and asks here, so that all of them answer alike.
namespace headworks::task_queue {

/// States of items: all there are, those that are over, and what may be redriven and purged.
inline constexpr std::array kAllStates{ItemState::kPending,   ItemState::kProcessing,
                                       ItemState::kCompleted, ItemState::kDead,
                                       ItemState::kCancelled, ItemState::kPurged};
inline constexpr std::array kOver{ItemState::kCompleted, ItemState::kDead, ItemState::kCancelled,
                                  ItemState::kPurged};
inline constexpr std::array kRedrivable{ItemState::kDead};
inline constexpr std::array kPurgeable{ItemState::kPending, ItemState::kDead};

/// When a store's queues began to count in this boot.  From then on their time follows the
/// monotonic clock, so that a wall clock that jumps neither hides what is available nor releases
/// what is not (I10).
struct ClockAnchor {
  Instant wall{};
  Duration monotonic{};
  std::int64_t boot = 0;  // 0 = never
};

/// One look at the store's clock, as queues count.
struct QueueTime {
  Instant wall{};
  Duration monotonic{};
  /// Names the boot that `monotonic` belongs to.
  std::int64_t boot = 0;
};

/// The time of a store with this anchor, given what its clock says; another boot's anchor does not
/// count.
QueueTime CountFrom(const ClockAnchor& anchor, const QueueTime& clock);

/// Counts what happened over the last minute: the whole one before this, weighed, and this one.
struct RateWindow {
  Instant start{};
  std::array<std::int64_t, 3> current{};  // enqueued, completed, failed
  std::array<std::int64_t, 3> previous{};

  void Roll(Instant now);
  double PerMinute(std::size_t which, Instant now) const;
  bool operator==(const RateWindow&) const = default;
};

/// A queue's stored row.
struct QueueRow {
  QueueRecord record;
  RateWindow window;
  /// Of the token bucket.
  std::int64_t tokens = 0;
  Duration refilled_at{};
  std::int64_t refill_boot = 0;
};

/// How many claims the rate lets through now, at most `wanted`; fills the bucket up.
std::int64_t AllowedClaims(QueueRow& queue, std::int64_t wanted, const QueueTime& now);
/// How long until it lets through one more; zero = now.
Duration UntilAllowed(const QueueRow& queue, const QueueTime& now);

bool LeaseHolds(const ItemRecord& item, const QueueTime& now);
/// Whether the id of an item that is over is to be forgotten.
bool IsForgettable(const ItemRecord& item, const QueueSettings& settings, Instant now);
/// At or before this an item in `state` must have ended to be forgotten.
Instant ForgetBefore(ItemState state, const QueueSettings& settings, Instant now);

// What follows changes item and queue alike.

void Insert(QueueRow& queue, const ItemRecord& item, Instant now);
void CountDuplicate(QueueRow& queue, bool differs);
void StartDelivery(QueueRow& queue, ItemRecord& item, ClaimNo claim, const PollRequest& request,
                   const QueueTime& now);
/// With their reasons as they are stored, redacted and cut: made before whatever holds others up.
std::vector<Settlement> WithReasonsKept(std::span<const Settlement> settlements,
                                        const Redactor& redact);
/// Errors as for TaskQueue::Settle; then nothing changes.
Result<ItemState> Settle(QueueRow& queue, ItemRecord& item, const Settlement& settlement,
                         const QueueTime& now);
/// Errors as for TaskQueue::Extend; after kCancelled the lease is extended all the same.
Status ExtendLease(const QueueRow& queue, ItemRecord& item, Claim claim, Duration visibility,
                   const QueueTime& now);
void EndLease(QueueRow& queue, ItemRecord& item, const QueueTime& now);
Result<ItemState> Cancel(QueueRow& queue, ItemRecord& item, Instant now);
void Redrive(QueueRow& queue, ItemRecord& item, Instant now);
void Purge(QueueRow& queue, ItemRecord& item, Instant now);
/// The row of an item that is over is taken away.
void Forget(QueueRow& queue, const ItemRecord& item);
/// Whether some are pending, processing or dead.
bool HasItems(const QueueRecord& queue);
/// Whether an item in this state still has its payload.
bool KeepsPayload(ItemState state);

/// The record with rates and age; `oldest` = when the first available item became so.
QueueRecord Describe(const QueueRow& queue, std::optional<Instant> oldest, Instant now);

}  // namespace headworks::task_queue
