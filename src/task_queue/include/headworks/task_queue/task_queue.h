#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// Durable queues: whoever has work puts items in, whoever has time takes them out, under a lease.
///
/// Delivery.  At least once: an item whose lease ends is delivered again.  A claim is fenced by its
///   number, so a holder that lost its item can neither finish nor prolong it.
/// Time.  Only the store's clock counts: callers give durations, and one whose own clock is wrong
///   changes nothing.  Leases run on its monotonic clock, and end with the boot (I10).  All else is
///   wall time as it was when the queues were first used since the boot, and goes on evenly.
/// Tenants.  As everywhere: an empty one is kInvalidArgument, another's queues do not exist (I13).
namespace headworks::task_queue {

/// Number of an item in its store: rises in the order of arrival, is never used twice.
using ItemNo = StrongId<struct ItemNoTag, std::int64_t>;
/// Number of one delivery of an item; rises over the store's whole life.
using ClaimNo = StrongId<struct ClaimNoTag, std::int64_t>;

inline constexpr char kDefaultQueue[] = "default";
/// Queues whose names begin so are the engine's own, and never given to those who come over a
/// network.
inline constexpr std::string_view kEnginePrefix = "headworks-";
/// The "type" of a payload that is a whole run (see run_queue).
inline constexpr std::string_view kRunType = "headworks.run";
inline constexpr std::size_t kMaxPayloadBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxReasonBytes = std::size_t{4} << 10;
inline constexpr std::size_t kMaxIdBytes = 256;
inline constexpr std::size_t kMaxHolderBytes = 256;
/// Items of one call: enqueued, claimed, settled, or moved by an operator.
inline constexpr std::size_t kMaxBatch = 1'000;
/// Payload bytes of one call; the first item is always taken, whatever its size.
inline constexpr std::size_t kMaxBatchBytes = std::size_t{64} << 20;
inline constexpr std::int64_t kMaxQueues = 1'000;  // of one tenant
inline constexpr std::int64_t kMaxDepth = 100'000'000;
inline constexpr int kMaxPriority = 1'000;  // and -1'000
inline constexpr int kMaxAttempts = 1'000;
inline constexpr Duration kLongestLease = std::chrono::hours(24);
inline constexpr Duration kLongestDelay = std::chrono::hours(24 * 3650);

/// Values are stored: append, never renumber.
enum class ItemState : std::uint8_t {
  /// Waits for its time, or for somebody to claim it.
  kPending = 1,
  /// Claimed.  Back to pending by a nack, a hand-back or the end of the lease.
  kProcessing = 2,
  /// Acknowledged.  The payload is gone; the id is remembered for `dedup_window`.
  kCompleted = 3,
  /// Used up its attempts, or was rejected.  Kept for `dead_retention`; a redrive makes it pending
  /// again.
  kDead = 4,
  /// As kCompleted, by `Cancel` ...
  kCancelled = 5,
  /// ... and by `Purge`.
  kPurged = 6,
};
std::string_view StateName(ItemState state);

/// At most `count` claims per `per` on average; so many may go at once after an idle time (a token
/// bucket of that size).
struct RateLimit {
  std::int64_t count = 0;
  Duration per{};
  bool operator==(const RateLimit&) const = default;
};

/// What holds for a queue as a whole; the defaults are those of a queue that nobody configured.
struct QueueSettings {
  /// How long a claim holds, unless the poll says otherwise.  1 ms to 24 h.
  Duration visibility = std::chrono::seconds(300);
  /// Deliveries, unless the item says otherwise; after the last one that fails it is dead.  1 to
  /// 1,000.
  int max_attempts = 3;
  /// Wait before the next delivery, doubled after each failed one, jittered by 20 %.  0 to 10
  /// years.
  Duration backoff = std::chrono::seconds(1);
  Duration max_backoff = std::chrono::minutes(5);
  /// None = as fast as they are asked for.  1 to 1,000,000 per 1 s to 24 h.
  std::optional<RateLimit> rate{};
  /// Items that are pending or processing.  1 to 100,000,000.
  std::int64_t max_depth = 1'000'000;
  /// How long an id is known after its item completed, was cancelled or purged; 0 = not at all.
  Duration dedup_window = std::chrono::hours(24);
  /// How long dead items are kept; not less than `dedup_window` counts.
  Duration dead_retention = std::chrono::hours(24 * 30);
  bool operator==(const QueueSettings&) const = default;
};

struct NewItem {
  /// 1 to 256 bytes of visible UTF-8, known once in its queue.
  std::string id;
  /// JSON text, at most 8 MiB.
  std::string payload;
  int priority = 0;
  /// Not before so long from now.
  Duration delay{};
  /// 0 = the queue's.
  int max_attempts = 0;
};

/// All of these are success: the first item with an id stands (I8).
enum class Enqueued : std::uint8_t { kInserted, kDuplicate, kDuplicateDiffers };
std::string_view EnqueuedName(Enqueued enqueued);

/// The right to settle one delivery of one item.
struct Claim {
  ItemNo item;
  ClaimNo number;
  auto operator<=>(const Claim&) const = default;
};
/// "17-42": item, then number.
std::string FormatClaim(Claim claim);
Result<Claim> ParseClaim(std::string_view text);

struct ClaimedItem {
  Claim claim;
  std::string id;
  std::string payload;
  int priority = 0;
  /// 1-based, this delivery included.
  int attempt = 1;
  int max_attempts = 1;
  Duration lease{};
  Instant enqueued_at{};
};

struct PollRequest {
  TenantId tenant;
  std::string queue = kDefaultQueue;
  /// 1 to 1,000; fewer where they are large (`max_bytes`).
  std::size_t max_items = 1;
  /// Zero = the queue's.
  Duration visibility{};
  /// Who asks, for people; at most 256 bytes.
  std::string holder;
  /// Of their payloads together, but for the first; 1 to kMaxBatchBytes.
  std::size_t max_bytes = kMaxBatchBytes;
};

struct Polled {
  std::vector<ClaimedItem> items;
  /// If there are none: how long until there may be some without a further call; none = not before
  /// one.
  std::optional<Duration> next;
  bool paused = false;
  /// How long a call that waits had waited before it claimed them, or less: leases began no earlier
  /// than so long after the call.
  Duration waited{};
};

/// What a holder says of its item.
struct Settlement {
  enum class Kind : std::uint8_t {
    kAck,
    /// Failed: again after `delay`, or dead.
    kNack,
    /// Not begun: at once, at its old place, and the attempt does not count.
    kHandBack,
    /// Failed, and would again: dead at once, whatever attempts are left.
    kReject,
  };
  Claim claim;
  Kind kind = Kind::kAck;
  /// Of a nack or a reject.  Redacted, and cut to 4 KiB.
  std::string reason{};
  /// Of a nack.  None = the queue's backoff.
  std::optional<Duration> delay{};
};

/// One queue item as people see it, without its payload.
struct ItemRecord {
  ItemNo no;
  std::string id;
  ItemState state = ItemState::kPending;
  int priority = 0;
  /// Deliveries so far, or since the last redrive.
  int attempts = 0;
  int max_attempts = 0;  // 0 = the queue's
  int redrives = 0;
  bool cancel_requested = false;
  Instant enqueued_at{};
  Instant available_at{};
  Instant claimed_at{};  // epoch = never
  Instant ended_at{};    // epoch = not yet
  ClaimNo claim;         // of the last delivery
  std::string holder;    // of the last delivery
  /// On the store's monotonic clock, of the boot that `lease_boot` names.
  Duration lease_until{};
  std::int64_t lease_boot = 0;
  std::int64_t payload_bytes = 0;
  std::int64_t payload_digest = 0;
  /// Of the last failure.
  std::string reason;
};

/// Producers and consumers.
///
/// Atomicity.  Each call is one transaction, durable when it returns.
/// Threads.  All methods may be called concurrently; callers that wait for the same commit share
///   it.
/// Errors.  kInvalidArgument: an argument out of bounds (the message says which and how).
///   kUnavailable: it may have happened; every call may be repeated, except Poll, whose items then
///   come again when their leases end.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;

  /// All items or none, in the order given; makes the queue if needed.  One answer for each item.
  /// kAtCapacity: the queue would hold more than `max_depth`, or the tenant more queues than
  /// `kMaxQueues`.
  virtual Result<std::vector<Enqueued>> Enqueue(const TenantId& tenant, std::string_view queue,
                                                std::span<const NewItem> items) = 0;
  /// Claims what is available, by priority (high first), then since when it has been available,
  /// then in order of arrival.  Never waits: see LongPoll.  A queue that is not there has no items.
  virtual Result<Polled> Poll(const PollRequest& request) = 0;
  /// What a settlement says of its own item; the others are settled all the same.  Where the item
  /// went, or
  ///   kLeaseLost: the lease has ended, or somebody else holds the item;
  ///   kConflict: it is settled already (an ack may be repeated: that is success);
  ///   kNotFound: there is no such item (any more).
  virtual Result<std::vector<Result<ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue, std::span<const Settlement> settlements) = 0;
  /// Lets the leases end `visibility` (zero = the queue's) from now.  Errors as for Settle; and
  /// kCancelled: the item shall be cancelled, so stop; the lease holds on for a nack or an ack.
  virtual Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                             std::span<const Claim> claims,
                                             Duration visibility) = 0;
  /// A pending or dead item becomes cancelled; one that is being processed does so unless its
  /// holder acknowledges it, and its holder is told by Extend.  Returns its state now.
  /// kConflict: it is completed or purged.  kNotFound.
  virtual Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                                   std::string_view id) = 0;
};

/// Figures of a queue, and its settings.
struct QueueRecord {
  std::string name;
  QueueSettings settings;
  bool paused = false;
  std::int64_t pending = 0;  // delayed ones included
  std::int64_t processing = 0;
  std::int64_t dead = 0;
  // Since the queue was made:
  std::int64_t enqueued = 0;
  std::int64_t completed = 0;
  /// Deliveries that failed: nacks, and leases that ended.
  std::int64_t failed = 0;
  std::int64_t duplicates = 0;
  /// Those of them with another payload than the first.
  std::int64_t differing = 0;
  /// Since when the first of the available items has been so; 0 = none is.
  Duration oldest_age{};
  // Per minute, over the last one:
  double enqueue_rate = 0;
  double complete_rate = 0;
  double fail_rate = 0;
};

/// What is left unset stays as it is; a rate with count 0 takes the limit away.
struct SettingsChange {
  std::optional<Duration> visibility{};
  std::optional<int> max_attempts{};
  std::optional<Duration> backoff{};
  std::optional<Duration> max_backoff{};
  std::optional<RateLimit> rate{};
  std::optional<std::int64_t> max_depth{};
  std::optional<Duration> dedup_window{};
  std::optional<Duration> dead_retention{};
};

/// Which items; those that fit all of it.
struct ItemFilter {
  /// Empty = the default of the call.
  std::vector<ItemState> states{};
  /// Empty = any.
  std::vector<std::string> ids{};
  /// Part of the last failure's reason; empty = any.
  std::string reason{};
  /// Enqueued at least so long ago; of dead ones: dead for so long.
  Duration older_than{};
  /// For paging.
  ItemNo after{};
  /// 1 to 1,000.
  std::size_t limit = 100;
};

/// What one call of Redrive, Purge or Delete did.  If `more`, call again with `after`.
struct Moved {
  std::int64_t count = 0;
  bool more = false;
  ItemNo after{};
};

struct Swept {
  std::int64_t leases_ended = 0;
  std::int64_t forgotten = 0;
  /// A bound was reached: sweep again at once.
  bool more = false;
};

/// Operators.  Threads and errors as for TaskQueue; a queue that is not there is kNotFound.
class QueueAdmin {
 public:
  virtual ~QueueAdmin() = default;

  /// Makes the queue if needed.
  virtual Result<QueueSettings> Configure(const TenantId& tenant, std::string_view queue,
                                          const SettingsChange& change) = 0;
  /// Nothing is claimed from a paused queue; all else goes on.
  virtual Status SetPaused(const TenantId& tenant, std::string_view queue, bool paused) = 0;
  virtual Result<QueueRecord> GetQueue(const TenantId& tenant, std::string_view queue) = 0;
  /// By name.
  virtual Result<std::vector<QueueRecord>> ListQueues(const TenantId& tenant) = 0;
  /// In order of arrival; all states by default.
  virtual Result<std::vector<ItemRecord>> ListItems(const TenantId& tenant, std::string_view queue,
                                                    const ItemFilter& filter) = 0;
  struct ItemWithPayload {
    ItemRecord item;
    /// Empty if it is not kept any more.
    std::string payload;
  };
  virtual Result<ItemWithPayload> GetItem(const TenantId& tenant, std::string_view queue,
                                          std::string_view id) = 0;
  /// Makes dead items pending, with all their attempts, whatever `max_depth` says; others that the
  /// filter names are passed over, so that twice is harmless.  Only kDead may be asked for.
  virtual Result<Moved> Redrive(const TenantId& tenant, std::string_view queue,
                                const ItemFilter& filter) = 0;
  /// Removes pending and dead items (the default is both); their ids stay known for `dedup_window`.
  virtual Result<Moved> Purge(const TenantId& tenant, std::string_view queue,
                              const ItemFilter& filter) = 0;
  /// Forgets a queue: its settings, its figures and the ids that it remembers, at most kMaxBatch
  /// of them a call; `count` is the ids.  kConflict: it has items that are pending, processing or
  /// dead.
  virtual Result<Moved> Delete(const TenantId& tenant, std::string_view queue) = 0;
  /// Ends what leases have run out, and forgets what is over, in all queues of all tenants; at most
  /// `limit` of each in one queue.  Poll and Enqueue do some of it for the queue that they use.
  virtual Result<Swept> Sweep(std::size_t limit) = 0;
};

struct TenantQueue {
  TenantId tenant;
  /// `oldest_age` and the rates are not made.
  QueueRecord record;
};

/// What an engine asks about the queues of all tenants.  Reads only; threads and errors as for
/// TaskQueue.
class QueueSurvey {
 public:
  virtual ~QueueSurvey() = default;

  /// By tenant, then name.
  virtual Result<std::vector<TenantQueue>> ListAll() = 0;
  /// Dead items by when they died, then number: those behind `after` in that order, at most
  /// `limit` (1 to 1,000).  What dies later stands behind all that died before.  None if there is
  /// no such queue.
  struct DeadAfter {
    Instant ended_at = Instant::min();
    ItemNo no{};
  };
  virtual Result<std::vector<ItemRecord>> ListDead(const TenantId& tenant, std::string_view queue,
                                                   const DeadAfter& after, std::size_t limit) = 0;
};

}  // namespace headworks::task_queue
