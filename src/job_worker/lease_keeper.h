#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/item_source.h"

namespace headworks {

/// Why a handler was told to stop.  A later one of these outranks those before it.
enum class StopCause : std::uint8_t {
  kNone,
  kDrain,
  /// Its item is to be cancelled.
  kCancel,
  /// The lease is not this worker's any more.
  kLost,
};

/// An item that this worker holds, from its claim until it is settled.
struct HeldJob {
  HeldJob(const std::string& q, task_queue::ClaimedItem i, Duration claimed_at)
      : queue(q), item(std::move(i)), until(claimed_at + item.lease) {}

  /// The line's, which outlives it.
  const std::string& queue;
  const task_queue::ClaimedItem item;
  std::stop_source stop;

  // Guarded by the keeper's mutex.
  /// By the clock of this worker, which began to count before the store did.
  Duration until;
  Duration extend_at{};
  StopCause cause = StopCause::kNone;
  bool is_settling = false;
};

/// Keeps the leases of what is held, tells handlers to stop, and settles.
///
/// Threads.  All methods may be called concurrently.  Extends on a thread of its own, so that
///   nothing but the store can hold that up.
class LeaseKeeper {
 public:
  LeaseKeeper(TenantId tenant, task_queue::ItemSource& items, Clock& clock, Logger& log);

  void Add(const std::shared_ptr<HeldJob>& job);
  void Remove(const HeldJob& job);
  StopCause CauseOf(const HeldJob& job) const;
  /// How many of this queue run beyond their lease.
  std::uint32_t CountLost(std::string_view queue) const;
  /// Tells all handlers to stop; returns which: "queue/id".
  std::vector<std::string> StopAll();

  /// Says it until it is known, or the lease is over.  Where the item went; none: it is lost, and
  /// that is logged.
  std::optional<task_queue::ItemState> Settle(HeldJob& job, task_queue::Settlement settlement);

 private:
  using Jobs = std::vector<std::shared_ptr<HeldJob>>;

  void Watch(const std::stop_token& stop);
  void Extend(const std::string& queue, const Jobs& jobs);
  /// What became of a lease; true if its handler is to be told.
  bool HeardLocked(HeldJob& job, const Status& answer, Duration asked_at);
  bool RaiseLocked(HeldJob& job, StopCause cause);
  void Lost(HeldJob& job, std::string_view why);

  const TenantId tenant_;
  task_queue::ItemSource& items_;
  Clock& clock_;
  Logger& log_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::map<task_queue::ClaimNo, std::shared_ptr<HeldJob>> held_;
  /// By the clock, unless one is added that is due before that.
  Duration looks_at_{};
  bool earlier_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks
