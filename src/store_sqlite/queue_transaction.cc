#include "queue_transaction.h"

#include <fmt/format.h>

#include <algorithm>

#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/rules.h"
#include "queue_sql.h"

namespace headworks::store_sqlite {
namespace {

using task_queue::Claim;
using task_queue::ClaimNo;
using task_queue::Enqueued;
using task_queue::ItemFilter;
using task_queue::ItemNo;
using task_queue::ItemRecord;
using task_queue::ItemState;
using task_queue::Moved;
using task_queue::Polled;
using task_queue::QueueRecord;
using task_queue::QueueRow;

void ReadItem(Row row, ItemRecord& item) {
  row.Read(item.no, item.id, item.state, item.priority, item.attempts, item.max_attempts,
           item.redrives, item.cancel_requested, item.enqueued_at, item.available_at,
           item.claimed_at, item.ended_at, item.claim, item.lease_until, item.lease_boot,
           item.payload_bytes, item.payload_digest, item.holder, item.reason);
}

void ReadKey(Row row, ItemRecord& item) { row.Read(item.no, item.state); }

/// `before`: what stands in the columns before those of the queue.
void ReadQueue(Row row, QueueRow& queue, auto&... before) {
  QueueRecord& r = queue.record;
  auto& s = r.settings;
  auto& w = queue.window;
  task_queue::RateLimit rate;
  row.Read(before..., r.name, r.paused, s.visibility, s.max_attempts, s.backoff, s.max_backoff,
           rate.count, rate.per, s.max_depth, s.dedup_window, s.dead_retention, r.pending,
           r.processing, r.dead, r.enqueued, r.completed, r.failed, r.duplicates, r.differing,
           w.start, w.current[0], w.current[1], w.current[2], w.previous[0], w.previous[1],
           w.previous[2], queue.tokens, queue.refilled_at, queue.refill_boot);
  if (rate.count > 0) s.rate = rate;
}

}  // namespace

Result<task_queue::QueueTime> ReadQueueTime(Connection& connection,
                                            const task_queue::QueueTime& clock, bool may_write) {
  task_queue::ClockAnchor anchor;
  HEADWORKS_TRY(
      connection.ForEach("SELECT queue_wall, queue_monotonic, queue_boot FROM store",
                         [&](Row row) { row.Read(anchor.wall, anchor.monotonic, anchor.boot); }));
  if (anchor.boot != clock.boot && may_write) {
    HEADWORKS_TRY(
        connection.Run("UPDATE store SET queue_wall = ?1, queue_monotonic = ?2, queue_boot = ?3",
                       clock.wall, clock.monotonic, clock.boot));
  }
  return CountFrom(anchor, clock);
}

// ---- Rows

Result<bool> QueueTransaction::Load() {
  bool found = false;
  row_ = {};
  HEADWORKS_TRY(c_.ForEach(
      queue_sql::kQueue,
      [&](Row row) {
        found = true;
        ReadQueue(row, row_);
      },
      tenant_, queue_));
  return found;
}

Status QueueTransaction::MustLoad() {
  HEADWORKS_ASSIGN(const bool found, Load());
  return found ? Status() : task_queue::NoSuchQueue(queue_);
}

Status QueueTransaction::LoadOrMake() {
  HEADWORKS_ASSIGN(const bool found, Load());
  if (found) return {};
  row_.record.name = queue_;
  HEADWORKS_ASSIGN(
      const auto count,
      c_.Value<std::int64_t>("SELECT count(*) FROM queue WHERE tenant_id = ?1", tenant_));
  return count.value_or(0) < task_queue::kMaxQueues ? Status() : task_queue::TooManyQueues();
}

Status QueueTransaction::Store() {
  const QueueRecord& r = row_.record;
  const auto& s = r.settings;
  const auto& w = row_.window;
  const task_queue::RateLimit rate = s.rate.value_or(task_queue::RateLimit());
  return c_.Run(queue_sql::kPutQueue, tenant_, r.name, r.paused, s.visibility, s.max_attempts,
                s.backoff, s.max_backoff, rate.count, rate.per, s.max_depth, s.dedup_window,
                s.dead_retention, r.pending, r.processing, r.dead, r.enqueued, r.completed,
                r.failed, r.duplicates, r.differing, w.start, w.current[0], w.current[1],
                w.current[2], w.previous[0], w.previous[1], w.previous[2], row_.tokens,
                row_.refilled_at, row_.refill_boot);
}

Result<std::int64_t> QueueTransaction::NextNo() {
  HEADWORKS_ASSIGN(const auto next, c_.Value<std::int64_t>("SELECT next_queue_no FROM store"));
  return next.value_or(1);
}

Status QueueTransaction::SetNextNo(std::int64_t next) {
  return c_.Run("UPDATE store SET next_queue_no = ?1", next);
}

Result<std::optional<ItemRecord>> QueueTransaction::Find(ItemNo no) {
  std::optional<ItemRecord> item;
  HEADWORKS_TRY(c_.ForEach(
      queue_sql::kItem, [&](Row row) { ReadItem(row, item.emplace()); }, tenant_, queue_, no));
  return item;
}

Result<std::optional<ItemRecord>> QueueTransaction::FindId(std::string_view id) {
  std::optional<ItemRecord> item;
  HEADWORKS_TRY(c_.ForEach(
      queue_sql::kItemById, [&](Row row) { ReadItem(row, item.emplace()); }, tenant_, queue_, id));
  return item;
}

Result<std::string> QueueTransaction::Payload(ItemNo no) {
  HEADWORKS_ASSIGN(auto payload, c_.Value<OwnedPayload>(queue_sql::kPayload, tenant_, queue_, no));
  if (!payload) {
    return Error{
        Code::kCorrupt,
        fmt::format("item {} of queue '{}' has lost its payload; see `headworks db check`, "
                    "and purge the item",
                    no.value, queue_)};
  }
  return std::move(payload->bytes);
}

Status QueueTransaction::Update(const ItemRecord& item) {
  HEADWORKS_TRY(c_.Run(queue_sql::kUpdate, tenant_, queue_, item.no, item.state, item.attempts,
                       item.redrives, item.cancel_requested, item.available_at, item.claimed_at,
                       item.ended_at, item.claim, item.lease_until, item.lease_boot, item.holder,
                       item.reason));
  if (KeepsPayload(item.state)) return {};
  return c_.Run(queue_sql::kDeletePayload, tenant_, queue_, item.no);
}

Status QueueTransaction::Remove(const ItemRecord& item) {
  task_queue::Forget(row_, item);
  HEADWORKS_TRY(c_.Run(queue_sql::kDelete, tenant_, queue_, item.no));
  if (!KeepsPayload(item.state)) return {};
  return c_.Run(queue_sql::kDeletePayload, tenant_, queue_, item.no);
}

// ---- Producers and consumers

Result<std::vector<Enqueued>> QueueTransaction::Enqueue(std::span<const task_queue::NewItem> items,
                                                        std::span<const std::int64_t> digests) {
  HEADWORKS_TRY(LoadOrMake());
  HEADWORKS_ASSIGN(std::int64_t next_no, NextNo());
  const std::int64_t first_no = next_no;
  std::vector<Enqueued> answers;
  answers.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    HEADWORKS_ASSIGN(answers.emplace_back(), EnqueueOne(items[i], digests[i], next_no));
  }
  const QueueRecord& record = row_.record;
  if (next_no > first_no) {
    if (record.pending + record.processing > record.settings.max_depth) {
      return task_queue::QueueIsFull(queue_, record.settings.max_depth);
    }
    HEADWORKS_TRY(SetNextNo(next_no));
  }
  HEADWORKS_TRY(ForgetOld(2 * items.size()));
  HEADWORKS_TRY(Store());
  return answers;
}

Result<std::size_t> QueueTransaction::EnqueueWhatFits(std::span<const task_queue::NewItem> items,
                                                      std::span<const std::int64_t> digests) {
  if (const Status made = LoadOrMake(); !made) {
    if (made.error().code != Code::kAtCapacity) return made.error();
    return items.size();
  }
  HEADWORKS_ASSIGN(std::int64_t next_no, NextNo());
  const std::int64_t first_no = next_no;
  const QueueRecord& record = row_.record;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (record.pending + record.processing >= record.settings.max_depth)
      ++left_out;
    else
      HEADWORKS_TRY(EnqueueOne(items[i], digests[i], next_no));
  }
  if (next_no > first_no) HEADWORKS_TRY(SetNextNo(next_no));
  HEADWORKS_TRY(ForgetOld(2 * items.size()));
  HEADWORKS_TRY(Store());
  return left_out;
}

Result<Enqueued> QueueTransaction::EnqueueOne(const task_queue::NewItem& item, std::int64_t digest,
                                              std::int64_t& next_no) {
  const ItemRecord fresh{.no = ItemNo(next_no), .enqueued_at = now_.wall};
  const auto insert = [&]() -> Result<bool> {
    HEADWORKS_TRY(c_.Run(queue_sql::kInsert, tenant_, queue_, fresh.no, item.id, item.priority,
                         item.max_attempts, now_.wall, now_.wall + item.delay, item.payload.size(),
                         digest));
    return c_.Changes() > 0;
  };
  HEADWORKS_ASSIGN(bool inserted, insert());
  if (!inserted) {
    HEADWORKS_ASSIGN(const auto first, FindId(item.id));
    if (first && !IsForgettable(*first, row_.record.settings, now_.wall)) {
      const bool differs = first->payload_digest != digest;
      CountDuplicate(row_, differs);
      return differs ? Enqueued::kDuplicateDiffers : Enqueued::kDuplicate;
    }
    if (first) HEADWORKS_TRY(Remove(*first));
    HEADWORKS_ASSIGN(inserted, insert());
  }
  if (!inserted) {
    return Error{Code::kCorrupt,
                 fmt::format("number {} is in use among the items of queue '{}'; see `headworks db "
                             "check`",
                             next_no, queue_)};
  }
  ++next_no;
  HEADWORKS_TRY(c_.Run(queue_sql::kInsertPayload, tenant_, queue_, fresh.no,
                       store_sqlite::Payload{item.payload}));
  task_queue::Insert(row_, fresh, now_.wall);
  return Enqueued::kInserted;
}

template <typename Each>
Status QueueTransaction::ForEachLevel(Each each) {
  int below = task_queue::kMaxPriority + 1;
  for (bool go_on = true; go_on;) {
    std::optional<std::pair<int, Instant>> level;
    HEADWORKS_TRY(c_.ForEach(
        queue_sql::kLevel,
        [&](Row row) {
          auto& [priority, first] = level.emplace();
          row.Read(priority, first);
        },
        tenant_, queue_, below));
    if (!level) return {};
    below = level->first;
    HEADWORKS_ASSIGN(go_on, each(level->first, level->second));
  }
  return {};
}

Result<std::optional<Instant>> QueueTransaction::FirstAvailable() {
  std::optional<Instant> first;
  HEADWORKS_TRY(ForEachLevel([&](int, Instant at) -> Result<bool> {
    first = std::min(at, first.value_or(kNever));
    return true;
  }));
  return first;
}

Result<QueueTransaction::Items> QueueTransaction::Available(std::size_t limit,
                                                            std::size_t max_bytes) {
  Items items;
  std::size_t bytes = 0;
  HEADWORKS_TRY(ForEachLevel([&](int priority, Instant first) -> Result<bool> {
    if (items.size() == limit) return false;
    if (first > now_.wall) return true;
    HEADWORKS_TRY(c_.ForEach(
        queue_sql::kAvailable, [&](Row row) { ReadItem(row, items.emplace_back()); }, tenant_,
        queue_, priority, now_.wall, limit - items.size()));
    return true;
  }));
  const auto too_many = std::ranges::find_if(items, [&](const ItemRecord& item) {
    bytes += static_cast<std::size_t>(item.payload_bytes);
    return bytes > max_bytes;
  });
  if (too_many != items.end()) items.erase(std::max(too_many, items.begin() + 1), items.end());
  return items;
}

Result<std::optional<Duration>> QueueTransaction::UntilNext() {
  std::optional<Duration> next;
  HEADWORKS_ASSIGN(const bool found, Load());
  if (!found || row_.record.paused) return next;
  HEADWORKS_ASSIGN(const auto first, FirstAvailable());
  if (first) next = std::max({Duration(), *first - now_.wall, UntilAllowed(row_, now_)});
  HEADWORKS_ASSIGN(const auto lease, UntilLeaseEnds());
  if (lease) next = std::min(*lease, next.value_or(Duration::max()));
  return next;
}

Result<Polled> QueueTransaction::Poll(const task_queue::PollRequest& request) {
  Polled polled;
  HEADWORKS_ASSIGN(const bool found, Load());
  if (!found) return polled;
  HEADWORKS_ASSIGN(const std::size_t ended, EndLeases(task_queue::kMaxBatch));
  polled.paused = row_.record.paused;
  if (polled.paused) {
    if (ended > 0) HEADWORKS_TRY(Store());
    return polled;
  }
  const auto wanted = static_cast<std::int64_t>(request.max_items);
  const auto allowed = static_cast<std::size_t>(AllowedClaims(row_, wanted, now_));
  HEADWORKS_ASSIGN(Items items, Available(allowed, request.max_bytes));
  if (!items.empty()) {
    HEADWORKS_ASSIGN(std::int64_t next_no, NextNo());
    for (ItemRecord& item : items) {
      StartDelivery(row_, item, ClaimNo(next_no++), request, now_);
      auto payload = Payload(item.no);
      if (!payload && payload.error().code == Code::kCorrupt) {  // it holds up no other (I11)
        HEADWORKS_TRY(SetAside(item, payload.error().message));
        continue;
      }
      if (!payload) return Error(payload.error());
      HEADWORKS_TRY(Update(item));
      polled.items.push_back(
          {{item.no, item.claim},
           std::move(item.id),
           *std::move(payload),
           item.priority,
           item.attempts,
           item.max_attempts > 0 ? item.max_attempts : row_.record.settings.max_attempts,
           item.lease_until - now_.monotonic,
           item.enqueued_at});
    }
    HEADWORKS_TRY(SetNextNo(next_no));
  }
  if (!items.empty() || ended > 0) HEADWORKS_TRY(Store());
  if (items.empty()) {
    HEADWORKS_ASSIGN(polled.next, UntilNext());
  } else if (polled.items.empty()) {
    polled.next = Duration();  // others may be whole
  }
  return polled;
}

Status QueueTransaction::SetAside(ItemRecord& item, const std::string& why) {
  HEADWORKS_TRY(task_queue::Settle(row_, item,
                                   {.claim = {item.no, item.claim},
                                    .kind = task_queue::Settlement::Kind::kReject,
                                    .reason = why},
                                   now_));
  damaged_.push_back(why);
  return Update(item);
}

Result<std::vector<Result<ItemState>>> QueueTransaction::Settle(
    std::span<const task_queue::Settlement> settlements) {
  std::vector<Result<ItemState>> answers;
  answers.reserve(settlements.size());
  HEADWORKS_ASSIGN(const bool found, Load());
  bool changed = false;
  for (const task_queue::Settlement& settlement : settlements) {
    std::optional<ItemRecord> item;
    if (found) {
      HEADWORKS_ASSIGN(item, Find(settlement.claim.item));
    }
    if (!item) {
      answers.emplace_back(found ? task_queue::NoSuchClaim(queue_, settlement.claim)
                                 : task_queue::NoSuchQueue(queue_));
      continue;
    }
    const ItemState before = item->state;
    answers.push_back(task_queue::Settle(row_, *item, settlement, now_));
    if (!answers.back() || before != ItemState::kProcessing) continue;
    HEADWORKS_TRY(Update(*item));
    changed = true;
  }
  if (changed) HEADWORKS_TRY(Store());
  return answers;
}

Result<std::vector<Status>> QueueTransaction::Extend(std::span<const Claim> claims,
                                                     Duration visibility) {
  std::vector<Status> answers;
  answers.reserve(claims.size());
  HEADWORKS_ASSIGN(const bool found, Load());
  for (const Claim& claim : claims) {
    std::optional<ItemRecord> item;
    if (found) {
      HEADWORKS_ASSIGN(item, Find(claim.item));
    }
    if (!item) {
      answers.emplace_back(found ? task_queue::NoSuchClaim(queue_, claim)
                                 : task_queue::NoSuchQueue(queue_));
      continue;
    }
    answers.push_back(ExtendLease(row_, *item, claim, visibility, now_));
    if (!answers.back() && answers.back().error().code != Code::kCancelled) continue;
    HEADWORKS_TRY(
        c_.Run(queue_sql::kExtend, tenant_, queue_, item->no, item->lease_until, item->lease_boot));
  }
  return answers;
}

Result<ItemState> QueueTransaction::Cancel(std::string_view id) {
  HEADWORKS_TRY(MustLoad());
  HEADWORKS_ASSIGN(auto item, FindId(id));
  if (!item) return task_queue::NoSuchItem(queue_, id);
  HEADWORKS_ASSIGN(const ItemState state, task_queue::Cancel(row_, *item, now_.wall));
  HEADWORKS_TRY(Update(*item));
  HEADWORKS_TRY(Store());
  return state;
}

// ---- What time brings

Result<std::size_t> QueueTransaction::EndLeases(std::size_t limit) {
  Items items;
  const auto add = [&](Row row) { ReadItem(row, items.emplace_back()); };
  HEADWORKS_TRY(
      c_.ForEach(queue_sql::kLeasesOfBootsBefore, add, tenant_, queue_, now_.boot, limit));
  HEADWORKS_TRY(c_.ForEach(queue_sql::kLeasesUpTo, add, tenant_, queue_, now_.boot, now_.monotonic,
                           limit - items.size()));
  HEADWORKS_TRY(c_.ForEach(queue_sql::kLeasesOfBootsAfter, add, tenant_, queue_, now_.boot,
                           limit - items.size()));
  for (ItemRecord& item : items) {
    EndLease(row_, item, now_);
    HEADWORKS_TRY(Update(item));
  }
  return items.size();
}

Result<std::optional<Duration>> QueueTransaction::UntilLeaseEnds() {
  std::optional<Duration> left;
  // Boots are numbered by a hash: older ones stand before this one or behind it.
  for (const char* const others : {queue_sql::kLeasesOfBootsBefore, queue_sql::kLeasesOfBootsAfter})
    HEADWORKS_TRY(
        c_.ForEach(others, [&](Row) { left = Duration(); }, tenant_, queue_, now_.boot, 1));
  if (left) return left;
  HEADWORKS_ASSIGN(const auto until,
                   c_.Value<Duration>(queue_sql::kFirstLease, tenant_, queue_, now_.boot));
  if (until) left = std::max(Duration(), *until - now_.monotonic);
  return left;
}

Result<QueueTransaction::Forgotten> QueueTransaction::ForgetOld(std::size_t limit) {
  Forgotten forgotten;
  for (const ItemState state : task_queue::kOver) {
    Items items;
    HEADWORKS_TRY(c_.ForEach(
        queue_sql::kOver, [&](Row row) { ReadKey(row, items.emplace_back()); }, tenant_, queue_,
        state, ForgetBefore(state, row_.record.settings, now_.wall), limit));
    for (const ItemRecord& item : items) HEADWORKS_TRY(Remove(item));
    forgotten.count += items.size();
    forgotten.more |= items.size() == limit;
  }
  return forgotten;
}

Result<bool> QueueTransaction::NeedsSweep() {
  if (row_.record.processing > 0) {
    HEADWORKS_ASSIGN(const auto lease, UntilLeaseEnds());
    if (lease == Duration()) return true;
  }
  const auto before = [&](ItemState state) {
    return ForgetBefore(state, row_.record.settings, now_.wall);
  };
  HEADWORKS_ASSIGN(const auto old,
                   c_.Value<bool>(queue_sql::kAnyOver, tenant_, queue_, before(ItemState::kDead),
                                  before(ItemState::kCompleted)));
  return old.value_or(false);
}

Result<std::vector<task_queue::TenantQueue>> QueueTransaction::ListAll(Connection& connection) {
  std::vector<task_queue::TenantQueue> all;
  HEADWORKS_TRY(connection.ForEach(queue_sql::kAllQueues, [&](Row row) {
    auto& [tenant, record] = all.emplace_back();
    QueueRow queue;
    ReadQueue(row, queue, tenant);
    record = std::move(queue.record);
  }));
  return all;
}

Result<QueueTransaction::Items> QueueTransaction::ListDead(
    const task_queue::QueueSurvey::DeadAfter& after, std::size_t limit) {
  Items items;
  HEADWORKS_TRY(c_.ForEach(
      queue_sql::kDeadAfter, [&](Row row) { ReadItem(row, items.emplace_back()); }, tenant_, queue_,
      after.ended_at, after.no, limit));
  return items;
}

Result<std::vector<QueueTransaction::Name>> QueueTransaction::NeedSweep(
    Connection& connection, const task_queue::QueueTime& now) {
  std::vector<std::pair<TenantId, QueueRow>> rows;
  HEADWORKS_TRY(connection.ForEach(queue_sql::kAllQueues, [&](Row row) {
    auto& [tenant, queue] = rows.emplace_back();
    ReadQueue(row, queue, tenant);
  }));
  std::vector<Name> due;
  for (auto& [tenant, row] : rows) {
    QueueTransaction queue(connection, tenant, row.record.name, now);
    queue.row_ = std::move(row);
    HEADWORKS_ASSIGN(const bool needed, queue.NeedsSweep());
    if (needed) due.emplace_back(std::move(tenant), queue.queue_);
  }
  return due;
}

Result<task_queue::Swept> QueueTransaction::Sweep(std::size_t limit) {
  task_queue::Swept swept;
  HEADWORKS_ASSIGN(const bool found, Load());
  if (!found) return swept;
  HEADWORKS_ASSIGN(const std::size_t ended, EndLeases(limit));
  HEADWORKS_ASSIGN(const Forgotten forgotten, ForgetOld(limit));
  if (ended + forgotten.count > 0) HEADWORKS_TRY(Store());
  swept.leases_ended = static_cast<std::int64_t>(ended);
  swept.forgotten = static_cast<std::int64_t>(forgotten.count);
  swept.more = forgotten.more || ended == limit;
  return swept;
}

// ---- Operators

Result<task_queue::QueueSettings> QueueTransaction::Configure(
    const task_queue::SettingsChange& change) {
  HEADWORKS_ASSIGN(const bool found, Load());
  HEADWORKS_ASSIGN(const auto changed, Changed(row_.record.settings, change));
  if (!found) HEADWORKS_TRY(LoadOrMake());
  row_.record.settings = changed;
  HEADWORKS_TRY(Store());
  return changed;
}

Status QueueTransaction::SetPaused(bool paused) {
  HEADWORKS_TRY(MustLoad());
  row_.record.paused = paused;
  return Store();
}

Result<QueueRecord> QueueTransaction::Described() {
  HEADWORKS_ASSIGN(auto first, FirstAvailable());
  if (first && *first > now_.wall) first.reset();
  return Describe(row_, first, now_.wall);
}

Result<QueueRecord> QueueTransaction::GetQueue() {
  HEADWORKS_TRY(MustLoad());
  return Described();
}

Result<std::vector<QueueRecord>> QueueTransaction::ListQueues(Connection& connection,
                                                              const TenantId& tenant,
                                                              const task_queue::QueueTime& now) {
  std::vector<QueueRow> rows;
  HEADWORKS_TRY(connection.ForEach(
      queue_sql::kQueues, [&](Row row) { ReadQueue(row, rows.emplace_back()); }, tenant));
  std::vector<QueueRecord> all;
  all.reserve(rows.size());
  for (QueueRow& row : rows) {
    QueueTransaction queue(connection, tenant, row.record.name, now);
    queue.row_ = std::move(row);
    HEADWORKS_ASSIGN(all.emplace_back(), queue.Described());
  }
  return all;
}

Result<QueueTransaction::Items> QueueTransaction::Fitting(const ItemFilter& filter,
                                                          std::span<const ItemState> usual,
                                                          std::size_t limit) {
  const std::span<const ItemState> states =
      filter.states.empty() ? usual : std::span<const ItemState>(filter.states);
  Items items;
  if (!filter.ids.empty()) {
    for (const std::string& id : filter.ids) {
      HEADWORKS_ASSIGN(auto item, FindId(id));
      if (item && item->no > filter.after && Fits(*item, filter, states, now_.wall)) {
        items.push_back(*std::move(item));
      }
    }
    std::ranges::sort(items, {}, &ItemRecord::no);
    const auto same = std::ranges::unique(items, {}, &ItemRecord::no);
    items.erase(same.begin(), same.end());
    if (items.size() > limit) items.resize(limit);
    return items;
  }
  int bits = 0;
  for (const ItemState state : states) bits |= 1 << static_cast<int>(state);
  const auto list = [&](const char* sql, const auto&... more) {
    return c_.ForEach(
        sql, [&](Row row) { ReadItem(row, items.emplace_back()); }, tenant_, queue_, filter.after,
        bits, filter.reason,
        filter.older_than == Duration() ? kNever : now_.wall - filter.older_than, limit, more...);
  };
  const ItemState only = states.size() == 1 ? states[0] : ItemState::kPending;
  HEADWORKS_TRY(only == ItemState::kDead         ? list(queue_sql::kListDead, only)
                : only == ItemState::kProcessing ? list(queue_sql::kListProcessing, only)
                                                 : list(queue_sql::kList));
  return items;
}

Result<std::vector<ItemRecord>> QueueTransaction::ListItems(const ItemFilter& filter) {
  HEADWORKS_TRY(MustLoad());
  return Fitting(filter, task_queue::kAllStates, filter.limit);
}

Result<task_queue::QueueAdmin::ItemWithPayload> QueueTransaction::GetItem(std::string_view id) {
  HEADWORKS_TRY(MustLoad());
  HEADWORKS_ASSIGN(auto item, FindId(id));
  if (!item) return task_queue::NoSuchItem(queue_, id);
  std::string payload;
  if (KeepsPayload(item->state)) {
    HEADWORKS_ASSIGN(payload, Payload(item->no));
  }
  return task_queue::QueueAdmin::ItemWithPayload{*std::move(item), std::move(payload)};
}

template <typename Change>
Result<Moved> QueueTransaction::MoveItems(const ItemFilter& filter,
                                          std::span<const ItemState> usual, Change change) {
  HEADWORKS_TRY(MustLoad());
  HEADWORKS_ASSIGN(Items items, Fitting(filter, usual, filter.limit + 1));
  Moved moved;
  moved.more = items.size() > filter.limit;
  if (moved.more) items.pop_back();
  for (ItemRecord& item : items) {
    change(item);
    HEADWORKS_TRY(Update(item));
    ++moved.count;
    moved.after = item.no;
  }
  if (moved.count > 0) HEADWORKS_TRY(Store());
  return moved;
}

Result<Moved> QueueTransaction::Redrive(const ItemFilter& filter) {
  return MoveItems(filter, task_queue::kRedrivable,
                   [&](ItemRecord& item) { task_queue::Redrive(row_, item, now_.wall); });
}

Result<Moved> QueueTransaction::Purge(const ItemFilter& filter) {
  return MoveItems(filter, task_queue::kPurgeable,
                   [&](ItemRecord& item) { task_queue::Purge(row_, item, now_.wall); });
}

Result<Moved> QueueTransaction::Delete() {
  HEADWORKS_TRY(MustLoad());
  if (HasItems(row_.record)) return task_queue::QueueIsInUse(row_.record);
  Items items;
  HEADWORKS_TRY(c_.ForEach(
      queue_sql::kSome, [&](Row row) { ReadKey(row, items.emplace_back()); }, tenant_, queue_,
      task_queue::kMaxBatch + 1));
  Moved moved;
  moved.more = items.size() > task_queue::kMaxBatch;
  if (moved.more) items.pop_back();
  for (const ItemRecord& item : items) HEADWORKS_TRY(Remove(item));
  moved.count = static_cast<std::int64_t>(items.size());
  HEADWORKS_TRY(moved.more ? Store() : c_.Run(queue_sql::kDeleteQueue, tenant_, queue_));
  return moved;
}

}  // namespace headworks::store_sqlite
