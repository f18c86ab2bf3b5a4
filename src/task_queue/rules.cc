#include "headworks/task_queue/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "headworks/base/check.h"
#include "headworks/base/random.h"
#include "headworks/base/text.h"
#include "headworks/model/workflow.h"

namespace headworks::task_queue {
namespace {

constexpr Duration kWindow = std::chrono::minutes(1);
enum Measure : std::uint8_t { kEnqueuedMeasure, kCompletedMeasure, kFailedMeasure };

std::int64_t* CountOf(QueueRecord& record, ItemState state) {
  switch (state) {
    case ItemState::kPending:
      return &record.pending;
    case ItemState::kProcessing:
      return &record.processing;
    case ItemState::kDead:
      return &record.dead;
    case ItemState::kCompleted:
    case ItemState::kCancelled:
    case ItemState::kPurged:
      return nullptr;
  }
  return nullptr;
}

void Move(QueueRow& queue, ItemRecord& item, ItemState to) {
  if (auto* const from = CountOf(queue.record, item.state)) --*from;
  if (auto* const count = CountOf(queue.record, to)) ++*count;
  item.state = to;
}

void End(QueueRow& queue, ItemRecord& item, ItemState to, Instant now) {
  Move(queue, item, to);
  item.ended_at = now;
  item.cancel_requested = false;
}

void Measured(QueueRow& queue, Measure measure, Instant now) {
  queue.window.Roll(now);
  ++queue.window.current[measure];
}

/// How often an item is delivered at most.
int AttemptsOf(const QueueRow& queue, const ItemRecord& item) {
  return item.max_attempts > 0 ? item.max_attempts : queue.record.settings.max_attempts;
}

/// A delivery failed; true if its item shall be cancelled, and is.
bool CountFailure(QueueRow& queue, ItemRecord& item, std::string reason, Instant now) {
  ++queue.record.failed;
  Measured(queue, kFailedMeasure, now);
  item.reason = std::move(reason);
  if (!item.cancel_requested) return false;
  End(queue, item, ItemState::kCancelled, now);
  return true;
}

/// After a delivery that failed; `delay` none = the backoff.
void Fail(QueueRow& queue, ItemRecord& item, std::string reason, std::optional<Duration> delay,
          Instant now) {
  if (CountFailure(queue, item, std::move(reason), now)) return;
  if (item.attempts >= AttemptsOf(queue, item)) return End(queue, item, ItemState::kDead, now);
  if (!delay) {
    const QueueSettings& settings = queue.record.settings;
    const model::RetryPolicy policy{.initial = settings.backoff, .max = settings.max_backoff};
    delay = policy.DelayAfter(item.attempts, Mix64(static_cast<std::uint64_t>(item.no.value)));
  }
  item.available_at = now + *delay;
  Move(queue, item, ItemState::kPending);
}

/// Valid UTF-8 of at most `bytes`, with a word on what was cut off.
std::string Fitted(std::string text, std::size_t bytes) {
  text = ReplaceInvalidUtf8(text);
  if (text.size() <= bytes) return text;
  constexpr std::string_view kCut = " ... (cut)";
  text.resize(bytes - kCut.size());
  text.resize(ValidUtf8Prefix(text));
  return text.append(kCut);
}

/// Whether the claim may settle or prolong the item now.
Status CheckHeld(const ItemRecord& item, Claim claim, const QueueTime& now) {
  if (item.claim != claim.number) {
    return Error{Code::kLeaseLost,
                 fmt::format("item '{}': claim {} holds it no more, its lease ended; drop its "
                             "result",
                             item.id, FormatClaim(claim))};
  }
  if (item.state != ItemState::kProcessing) {
    return Error{Code::kConflict, fmt::format("item '{}': claim {} is settled already, it is {}",
                                              item.id, FormatClaim(claim), StateName(item.state))};
  }
  if (!LeaseHolds(item, now)) {
    return Error{Code::kLeaseLost,
                 fmt::format("item '{}': the lease of claim {} has ended; drop its result, and "
                             "extend leases in time",
                             item.id, FormatClaim(claim))};
  }
  return {};
}

void Fill(QueueRow& queue, const RateLimit& rate, const QueueTime& now) {
  if (queue.refill_boot != now.boot || queue.tokens > rate.count) {
    queue.tokens = rate.count;
    queue.refilled_at = now.monotonic;
    queue.refill_boot = now.boot;
    return;
  }
  const std::int64_t per = rate.per.count();
  const std::int64_t elapsed =
      std::clamp<std::int64_t>((now.monotonic - queue.refilled_at).count(), 0, per);
  const std::int64_t gained = elapsed * rate.count / per;
  if (queue.tokens + gained >= rate.count) {
    queue.tokens = rate.count;
    queue.refilled_at = now.monotonic;
  } else if (gained > 0) {
    queue.tokens += gained;
    // Rounded up: what is gained too early would add up.
    queue.refilled_at += Duration((gained * per + rate.count - 1) / rate.count);
  }
}

}  // namespace

QueueTime CountFrom(const ClockAnchor& anchor, const QueueTime& clock) {
  if (anchor.boot != clock.boot) return clock;
  return {anchor.wall + (clock.monotonic - anchor.monotonic), clock.monotonic, clock.boot};
}

void RateWindow::Roll(Instant now) {
  if (now >= start && now < start + kWindow) return;
  const bool next = now >= start && now < start + 2 * kWindow;
  previous = next ? current : std::array<std::int64_t, 3>{};
  current = {};
  start = next ? start + kWindow : now;
}

double RateWindow::PerMinute(std::size_t which, Instant now) const {
  RateWindow window = *this;
  window.Roll(now);
  const double passed = std::chrono::duration<double>(now - window.start) / kWindow;
  return static_cast<double>(window.previous[which]) * (1 - passed) +
         static_cast<double>(window.current[which]);
}

std::int64_t AllowedClaims(QueueRow& queue, std::int64_t wanted, const QueueTime& now) {
  const auto& rate = queue.record.settings.rate;
  if (!rate) return wanted;
  Fill(queue, *rate, now);
  return std::min(wanted, queue.tokens);
}

Duration UntilAllowed(const QueueRow& queue, const QueueTime& now) {
  const auto& rate = queue.record.settings.rate;
  if (!rate) return {};
  QueueRow filled = queue;
  Fill(filled, *rate, now);
  if (filled.tokens > 0) return {};
  const Duration one((rate->per.count() + rate->count - 1) / rate->count);
  return std::max(Duration(1), filled.refilled_at + one - now.monotonic);
}

bool LeaseHolds(const ItemRecord& item, const QueueTime& now) {
  return item.lease_boot == now.boot && item.lease_until > now.monotonic;
}

Instant ForgetBefore(ItemState state, const QueueSettings& settings, Instant now) {
  return now - (state == ItemState::kDead ? std::max(settings.dead_retention, settings.dedup_window)
                                          : settings.dedup_window);
}

bool IsForgettable(const ItemRecord& item, const QueueSettings& settings, Instant now) {
  return item.state != ItemState::kPending && item.state != ItemState::kProcessing &&
         item.ended_at <= ForgetBefore(item.state, settings, now);
}

void Insert(QueueRow& queue, const ItemRecord& item, Instant now) {
  HEADWORKS_CHECK(item.state == ItemState::kPending);
  ++queue.record.pending;
  ++queue.record.enqueued;
  Measured(queue, kEnqueuedMeasure, now);
}

void CountDuplicate(QueueRow& queue, bool differs) {
  ++queue.record.duplicates;
  if (differs) ++queue.record.differing;
}

void StartDelivery(QueueRow& queue, ItemRecord& item, ClaimNo claim, const PollRequest& request,
                   const QueueTime& now) {
  Move(queue, item, ItemState::kProcessing);
  ++item.attempts;
  item.claim = claim;
  item.holder = request.holder;
  item.claimed_at = now.wall;
  item.lease_until =
      now.monotonic +
      (request.visibility > Duration() ? request.visibility : queue.record.settings.visibility);
  item.lease_boot = now.boot;
  if (queue.record.settings.rate) --queue.tokens;
}

std::vector<Settlement> WithReasonsKept(std::span<const Settlement> settlements,
                                        const Redactor& redact) {
  std::vector<Settlement> kept;
  kept.reserve(settlements.size());
  for (const Settlement& each : settlements)
    kept.push_back({.claim = each.claim,
                    .kind = each.kind,
                    .reason = Fitted(redact(each.reason), kMaxReasonBytes),
                    .delay = each.delay});
  return kept;
}

Result<ItemState> Settle(QueueRow& queue, ItemRecord& item, const Settlement& settlement,
                         const QueueTime& now) {
  if (settlement.kind == Settlement::Kind::kAck && item.state == ItemState::kCompleted &&
      item.claim == settlement.claim.number) {
    return item.state;
  }
  HEADWORKS_TRY(CheckHeld(item, settlement.claim, now));
  switch (settlement.kind) {
    case Settlement::Kind::kAck:
      ++queue.record.completed;
      Measured(queue, kCompletedMeasure, now.wall);
      item.reason.clear();
      End(queue, item, ItemState::kCompleted, now.wall);
      break;
    case Settlement::Kind::kNack:
      Fail(queue, item, settlement.reason, settlement.delay, now.wall);
      break;
    case Settlement::Kind::kReject:
      if (!CountFailure(queue, item, settlement.reason, now.wall))
        End(queue, item, ItemState::kDead, now.wall);
      break;
    case Settlement::Kind::kHandBack:
      --item.attempts;
      if (queue.record.settings.rate) ++queue.tokens;  // Fill holds them to what there may be
      if (item.cancel_requested) {
        End(queue, item, ItemState::kCancelled, now.wall);
      } else {
        Move(queue, item, ItemState::kPending);
      }
      break;
  }
  return item.state;
}

Status ExtendLease(const QueueRow& queue, ItemRecord& item, Claim claim, Duration visibility,
                   const QueueTime& now) {
  HEADWORKS_TRY(CheckHeld(item, claim, now));
  item.lease_until =
      now.monotonic + (visibility > Duration() ? visibility : queue.record.settings.visibility);
  if (!item.cancel_requested) return {};
  return Error{Code::kCancelled,
               fmt::format("item '{}' shall be cancelled: stop, and nack it", item.id)};
}

void EndLease(QueueRow& queue, ItemRecord& item, const QueueTime& now) {
  std::string reason = fmt::format("the lease of delivery {} ended without a word from {}",
                                   item.attempts, item.holder.empty() ? "its holder" : item.holder);
  item.claim = ClaimNo();
  Fail(queue, item, std::move(reason), Duration(), now.wall);
}

Result<ItemState> Cancel(QueueRow& queue, ItemRecord& item, Instant now) {
  switch (item.state) {
    case ItemState::kPending:
    case ItemState::kDead:
      End(queue, item, ItemState::kCancelled, now);
      break;
    case ItemState::kProcessing:
      item.cancel_requested = true;
      break;
    case ItemState::kCancelled:
      break;
    case ItemState::kCompleted:
    case ItemState::kPurged:
      return Error{Code::kConflict,
                   fmt::format("item '{}' is {} already", item.id, StateName(item.state))};
  }
  return item.state;
}

void Redrive(QueueRow& queue, ItemRecord& item, Instant now) {
  HEADWORKS_CHECK(item.state == ItemState::kDead);
  Move(queue, item, ItemState::kPending);
  item.attempts = 0;
  ++item.redrives;
  item.available_at = now;
  item.ended_at = {};
}

void Purge(QueueRow& queue, ItemRecord& item, Instant now) {
  End(queue, item, ItemState::kPurged, now);
}

void Forget(QueueRow& queue, const ItemRecord& item) {
  if (auto* const count = CountOf(queue.record, item.state)) --*count;
}

bool HasItems(const QueueRecord& queue) {
  return queue.pending + queue.processing + queue.dead > 0;
}

bool KeepsPayload(ItemState state) {
  return state == ItemState::kPending || state == ItemState::kProcessing ||
         state == ItemState::kDead;
}

QueueRecord Describe(const QueueRow& queue, std::optional<Instant> oldest, Instant now) {
  QueueRecord record = queue.record;
  record.oldest_age = oldest ? std::max(Duration(), now - *oldest) : Duration();
  record.enqueue_rate = queue.window.PerMinute(kEnqueuedMeasure, now);
  record.complete_rate = queue.window.PerMinute(kCompletedMeasure, now);
  record.fail_rate = queue.window.PerMinute(kFailedMeasure, now);
  return record;
}

}  // namespace headworks::task_queue
