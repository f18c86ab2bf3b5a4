#include "memory_queues.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/rules.h"

namespace headworks::store_memory {
namespace {

using task_queue::Claim;
using task_queue::ClaimNo;
using task_queue::Enqueued;
using task_queue::ItemFilter;
using task_queue::ItemNo;
using task_queue::ItemRecord;
using task_queue::ItemState;
using task_queue::Moved;
using task_queue::NewItem;
using task_queue::Polled;
using task_queue::PollRequest;
using task_queue::QueueRecord;
using task_queue::QueueTime;
using task_queue::Settlement;

/// A storage in memory lives in one boot.
constexpr std::int64_t kBoot = 1;

std::span<const ItemState> StatesOf(const ItemFilter& filter, std::span<const ItemState> usual) {
  return filter.states.empty() ? usual : std::span<const ItemState>(filter.states);
}

// ---- One queue: items, and where to find them

void Index(QueueOnDisk& q, const ItemRecord& item) {
  switch (item.state) {
    case ItemState::kPending:
      q.ready.insert({-item.priority, item.available_at, item.no});
      break;
    case ItemState::kProcessing:
      q.leases.insert({item.lease_boot, item.lease_until, item.no});
      break;
    default:
      q.over.insert({item.state, item.ended_at, item.no});
  }
}

void Unindex(QueueOnDisk& q, const ItemRecord& item) {
  q.ready.erase({-item.priority, item.available_at, item.no});
  q.leases.erase({item.lease_boot, item.lease_until, item.no});
  q.over.erase({item.state, item.ended_at, item.no});
}

/// Applies `change(row, item)` and puts the item where it belongs then.
template <typename Change>
auto Update(QueueOnDisk& q, ItemRecord& item, Change change) {
  Unindex(q, item);
  struct Finish {
    QueueOnDisk& q;
    ItemRecord& item;
    ~Finish() {
      Index(q, item);
      if (!task_queue::KeepsPayload(item.state)) q.payloads.erase(item.no);
    }
  } const finish{q, item};
  return change(q.row, item);
}

void Remove(QueueOnDisk& q, ItemNo no) {
  const ItemRecord& item = q.items.at(no);
  task_queue::Forget(q.row, item);
  Unindex(q, item);
  q.ids.erase(item.id);
  q.payloads.erase(no);
  q.items.erase(no);
}

std::size_t EndLeases(QueueOnDisk& q, const QueueTime& now, std::size_t limit) {
  std::vector<ItemNo> ended;
  for (const auto& [boot, until, no] : q.leases) {
    if (ended.size() == limit) break;
    if (boot != now.boot || until <= now.monotonic) ended.push_back(no);
  }
  for (const ItemNo no : ended) {
    Update(q, q.items.at(no), [&](auto& row, auto& item) { EndLease(row, item, now); });
  }
  return ended.size();
}

/// At most `limit` of each state; how many in all, and whether a bound was reached.
std::pair<std::size_t, bool> ForgetOld(QueueOnDisk& q, Instant now, std::size_t limit) {
  std::size_t all = 0;
  bool more = false;
  for (const ItemState state : task_queue::kOver) {
    std::vector<ItemNo> old;
    for (auto it = q.over.lower_bound({state, Instant::min(), ItemNo()});
         it != q.over.end() && std::get<0>(*it) == state && old.size() < limit; ++it) {
      if (!IsForgettable(q.items.at(std::get<2>(*it)), q.row.record.settings, now)) break;
      old.push_back(std::get<2>(*it));
    }
    for (const ItemNo no : old) Remove(q, no);
    all += old.size();
    more |= old.size() == limit;
  }
  return {all, more};
}

/// The first item of each priority, from the highest on, until `each` says false.
template <typename Each>
void ForEachLevel(const QueueOnDisk& q, Each each) {
  auto it = q.ready.begin();
  while (it != q.ready.end() && each(it)) {
    it = q.ready.lower_bound({std::get<0>(*it) + 1, Instant::min(), ItemNo()});
  }
}

/// When the first item of any priority is available.
std::optional<Instant> FirstAvailable(const QueueOnDisk& q) {
  std::optional<Instant> first;
  ForEachLevel(q, [&](auto it) {
    first = std::min(std::get<1>(*it), first.value_or(kNever));
    return true;
  });
  return first;
}

std::vector<ItemNo> Available(const QueueOnDisk& q, Instant now, std::size_t limit,
                              std::size_t max_bytes) {
  std::vector<ItemNo> found;
  std::size_t bytes = 0;
  ForEachLevel(q, [&](auto it) {
    const int level = std::get<0>(*it);
    for (; it != q.ready.end() && std::get<0>(*it) == level && std::get<1>(*it) <= now; ++it) {
      const ItemRecord& item = q.items.at(std::get<2>(*it));
      bytes += static_cast<std::size_t>(item.payload_bytes);
      if (found.size() == limit || (!found.empty() && bytes > max_bytes)) {
        return false;
      }
      found.push_back(item.no);
    }
    return true;
  });
  return found;
}

std::optional<Duration> UntilNext(const QueueOnDisk& q, const QueueTime& now) {
  std::optional<Duration> next;
  if (const auto first = FirstAvailable(q)) {
    next = std::max({Duration(), *first - now.wall, UntilAllowed(q.row, now)});
  }
  if (!q.leases.empty()) {
    const auto& [boot, until, no] = *q.leases.begin();
    const Duration left =
        boot == now.boot ? std::max(Duration(), until - now.monotonic) : Duration();
    next = std::min(left, next.value_or(Duration::max()));
  }
  return next;
}

// ---- The ports

class MemoryQueues final : public task_queue::Queues,
                           public task_queue::TaskQueue,
                           public task_queue::QueueAdmin,
                           public task_queue::QueueSurvey {
 public:
  MemoryQueues(std::shared_ptr<Storage> storage, Clock& clock, Logger* logger)
      : storage_(std::move(storage)), s_(*storage_), clock_(clock), logger_(logger) {}

  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return *this; }
  task_queue::QueueSurvey& survey() override { return *this; }
  task_queue::Bell& bell() override { return s_.bell; }

  Result<std::vector<Enqueued>> Enqueue(const TenantId& tenant, std::string_view queue,
                                        std::span<const NewItem> items) override {
    HEADWORKS_TRY(task_queue::CheckEnqueue(tenant, queue, items));
    const std::lock_guard lock(s_.mutex);
    const QueueTime now = Now();
    HEADWORKS_TRY(CheckRoom(tenant, queue, items, now.wall));
    QueueOnDisk& q = GetOrMake(tenant, queue);
    std::vector<Enqueued> answers;
    answers.reserve(items.size());
    for (const NewItem& item : items) answers.push_back(EnqueueOne(q, item, now));
    ForgetOld(q, now.wall, 2 * items.size());
    Committed();
    s_.bell.Ring(tenant, queue, items.size());
    return answers;
  }

  Result<Polled> Poll(const PollRequest& request) override {
    HEADWORKS_TRY(task_queue::CheckPoll(request));
    const std::lock_guard lock(s_.mutex);
    QueueOnDisk* const q = Find(request.tenant, request.queue);
    Polled polled;
    const QueueTime now = Now();
    Committed();
    if (q == nullptr) return polled;
    EndLeases(*q, now, task_queue::kMaxBatch);
    polled.paused = q->row.record.paused;
    if (polled.paused) return polled;
    const auto wanted = static_cast<std::int64_t>(request.max_items);
    task_queue::QueueRow filled = q->row;
    const auto allowed = static_cast<std::size_t>(AllowedClaims(filled, wanted, now));
    const auto available = Available(*q, now.wall, allowed, request.max_bytes);
    if (!available.empty()) q->row = std::move(filled);
    for (const ItemNo no : available) {
      const ClaimNo claim(s_.next_queue_no++);
      ItemRecord& item = q->items.at(no);
      Update(*q, item, [&](auto& row, auto& i) { StartDelivery(row, i, claim, request, now); });
      polled.items.push_back(
          {{no, claim},
           item.id,
           q->payloads.at(no),
           item.priority,
           item.attempts,
           item.max_attempts > 0 ? item.max_attempts : q->row.record.settings.max_attempts,
           item.lease_until - now.monotonic,
           item.enqueued_at});
    }
    if (polled.items.empty()) polled.next = UntilNext(*q, now);
    return polled;
  }

  Result<std::vector<Result<ItemState>>> Settle(const TenantId& tenant, std::string_view queue,
                                                std::span<const Settlement> settlements) override {
    HEADWORKS_TRY(task_queue::CheckSettle(tenant, queue, settlements));
    const auto kept = task_queue::WithReasonsKept(settlements, task_queue::RedactCredentials);
    const std::lock_guard lock(s_.mutex);
    const QueueTime now = Now();
    QueueOnDisk* const q = Find(tenant, queue);
    std::vector<Result<ItemState>> answers;
    std::size_t again = 0;
    for (const Settlement& settlement : kept) {
      if (q == nullptr || !q->items.contains(settlement.claim.item)) {
        answers.emplace_back(q != nullptr ? task_queue::NoSuchClaim(queue, settlement.claim)
                                          : task_queue::NoSuchQueue(queue));
        continue;
      }
      answers.push_back(Update(*q, q->items.at(settlement.claim.item), [&](auto& row, auto& item) {
        return task_queue::Settle(row, item, settlement, now);
      }));
      if (answers.back() && *answers.back() == ItemState::kPending) ++again;
    }
    Committed();
    if (again > 0) s_.bell.Ring(tenant, queue, again);
    return answers;
  }

  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const Claim> claims, Duration visibility) override {
    HEADWORKS_TRY(task_queue::CheckExtend(tenant, queue, claims, visibility));
    const std::lock_guard lock(s_.mutex);
    const QueueTime now = Now();
    QueueOnDisk* const q = Find(tenant, queue);
    std::vector<Status> answers;
    for (const Claim& claim : claims) {
      if (q == nullptr || !q->items.contains(claim.item)) {
        answers.emplace_back(q != nullptr ? task_queue::NoSuchClaim(queue, claim)
                                          : task_queue::NoSuchQueue(queue));
        continue;
      }
      answers.push_back(Update(*q, q->items.at(claim.item), [&](auto& row, auto& item) {
        return ExtendLease(row, item, claim, visibility, now);
      }));
    }
    Committed();
    return answers;
  }

  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    HEADWORKS_TRY(task_queue::CheckId(tenant, queue, id));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(QueueOnDisk* const q, Get(tenant, queue));
    const auto no = q->ids.find(id);
    if (no == q->ids.end()) return task_queue::NoSuchItem(queue, id);
    auto state = Update(*q, q->items.at(no->second), [&](auto& row, auto& item) {
      return task_queue::Cancel(row, item, Now().wall);
    });
    if (state) Committed();
    return state;
  }

  // ---- QueueAdmin

  Result<task_queue::QueueSettings> Configure(const TenantId& tenant, std::string_view queue,
                                              const task_queue::SettingsChange& change) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
    const std::lock_guard lock(s_.mutex);
    const QueueOnDisk* const known = Find(tenant, queue);
    HEADWORKS_ASSIGN(const auto changed, Changed(known != nullptr ? known->row.record.settings
                                                                  : task_queue::QueueSettings(),
                                                 change));
    HEADWORKS_TRY(CheckQueues(tenant, queue));
    GetOrMake(tenant, queue).row.record.settings = changed;
    Committed();
    s_.bell.Ring(tenant, queue, task_queue::kMaxBatch);
    return changed;
  }

  Status SetPaused(const TenantId& tenant, std::string_view queue, bool paused) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(QueueOnDisk* const q, Get(tenant, queue));
    q->row.record.paused = paused;
    Committed();
    if (!paused) s_.bell.Ring(tenant, queue, task_queue::kMaxBatch);
    return {};
  }

  Result<QueueRecord> GetQueue(const TenantId& tenant, std::string_view queue) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(const QueueOnDisk* const q, Get(tenant, queue));
    return Described(*q);
  }

  Result<std::vector<QueueRecord>> ListQueues(const TenantId& tenant) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, task_queue::kDefaultQueue));
    const std::lock_guard lock(s_.mutex);
    std::vector<QueueRecord> all;
    for (auto it = s_.queues.lower_bound({tenant, ""});
         it != s_.queues.end() && it->first.first == tenant; ++it) {
      all.push_back(Described(it->second));
    }
    return all;
  }

  Result<std::vector<ItemRecord>> ListItems(const TenantId& tenant, std::string_view queue,
                                            const ItemFilter& filter) override {
    HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kAllStates));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(const QueueOnDisk* const q, Get(tenant, queue));
    const auto states = StatesOf(filter, task_queue::kAllStates);
    std::vector<ItemRecord> found;
    for (auto it = q->items.upper_bound(filter.after);
         it != q->items.end() && found.size() < filter.limit; ++it) {
      if (Fits(it->second, filter, states, Now().wall)) found.push_back(it->second);
    }
    return found;
  }

  Result<ItemWithPayload> GetItem(const TenantId& tenant, std::string_view queue,
                                  std::string_view id) override {
    HEADWORKS_TRY(task_queue::CheckId(tenant, queue, id));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(const QueueOnDisk* const q, Get(tenant, queue));
    const auto no = q->ids.find(id);
    if (no == q->ids.end()) return task_queue::NoSuchItem(queue, id);
    const auto payload = q->payloads.find(no->second);
    return ItemWithPayload{q->items.at(no->second),
                           payload == q->payloads.end() ? "" : payload->second};
  }

  Result<Moved> Redrive(const TenantId& tenant, std::string_view queue,
                        const ItemFilter& filter) override {
    HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kRedrivable));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(const Moved moved, MoveItems(tenant, queue, filter, task_queue::kRedrivable,
                                                  [&](auto& row, auto& item) {
                                                    task_queue::Redrive(row, item, Now().wall);
                                                  }));
    s_.bell.Ring(tenant, queue, static_cast<std::size_t>(moved.count));
    return moved;
  }

  Result<Moved> Purge(const TenantId& tenant, std::string_view queue,
                      const ItemFilter& filter) override {
    HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kPurgeable));
    const std::lock_guard lock(s_.mutex);
    return MoveItems(tenant, queue, filter, task_queue::kPurgeable,
                     [&](auto& row, auto& item) { task_queue::Purge(row, item, Now().wall); });
  }

  Result<Moved> Delete(const TenantId& tenant, std::string_view queue) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
    const std::lock_guard lock(s_.mutex);
    HEADWORKS_ASSIGN(QueueOnDisk* const q, Get(tenant, queue));
    if (task_queue::HasItems(q->row.record)) return task_queue::QueueIsInUse(q->row.record);
    Moved moved;
    while (!q->items.empty() && moved.count < static_cast<std::int64_t>(task_queue::kMaxBatch)) {
      Remove(*q, q->items.begin()->first);
      ++moved.count;
    }
    moved.more = !q->items.empty();
    if (!moved.more) s_.queues.erase(s_.queues.find(TenantKey(tenant, queue)));
    Committed();
    return moved;
  }

  Result<task_queue::Swept> Sweep(std::size_t limit) override {
    HEADWORKS_TRY(task_queue::CheckSweep(limit));
    const std::lock_guard lock(s_.mutex);
    const QueueTime now = Now();
    task_queue::Swept swept;
    for (auto& [key, q] : s_.queues) {
      const std::size_t ended = EndLeases(q, now, limit);
      const auto [forgotten, more] = ForgetOld(q, now.wall, limit);
      swept.leases_ended += static_cast<std::int64_t>(ended);
      swept.forgotten += static_cast<std::int64_t>(forgotten);
      swept.more |= more || ended == limit;
      if (ended > 0) s_.bell.Ring(key.first, key.second, ended);
    }
    ++s_.data_version;
    return swept;
  }

  // ---- QueueSurvey

  Result<std::vector<task_queue::TenantQueue>> ListAll() override {
    const std::lock_guard lock(s_.mutex);
    std::vector<task_queue::TenantQueue> all;
    all.reserve(s_.queues.size());
    for (const auto& [key, q] : s_.queues) all.push_back({key.first, q.row.record});
    return all;
  }

  Result<std::vector<ItemRecord>> ListDead(const TenantId& tenant, std::string_view queue,
                                           const DeadAfter& after, std::size_t limit) override {
    HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
    HEADWORKS_TRY(task_queue::CheckSweep(limit));
    const std::lock_guard lock(s_.mutex);
    std::vector<ItemRecord> dead;
    const QueueOnDisk* const q = Find(tenant, queue);
    if (q == nullptr) return dead;
    for (auto it = q->over.upper_bound({ItemState::kDead, after.ended_at, after.no});
         it != q->over.end() && std::get<0>(*it) == ItemState::kDead && dead.size() < limit; ++it)
      dead.push_back(q->items.at(std::get<2>(*it)));
    return dead;
  }

  // What follows is for callers that hold the mutex.

  std::size_t EnqueueWhatFits(std::span<const store::QueuedItem> items) {
    const QueueTime now = Now();
    std::size_t left_out = 0;
    for (const store::QueuedItem& item : items) {
      if (!CheckQueues(item.tenant, item.queue)) {
        ++left_out;
        continue;
      }
      QueueOnDisk& q = GetOrMake(item.tenant, item.queue);
      const QueueRecord& record = q.row.record;
      if (record.pending + record.processing >= record.settings.max_depth) {
        ++left_out;
        continue;
      }
      static_cast<void>(EnqueueOne(
          q, {.id = item.id, .payload = item.payload, .max_attempts = item.max_attempts}, now));
      ForgetOld(q, now.wall, 2);
      s_.bell.Ring(item.tenant, item.queue, 1);
    }
    Committed();
    return left_out;
  }

 private:
  QueueTime Now() { return CountFrom(s_.queue_clock, {clock_.Now(), clock_.Monotonic(), kBoot}); }
  /// The end of a call that may have changed something; the first begins to count the time.
  void Committed() {
    ++s_.data_version;
    if (s_.queue_clock.boot != kBoot) s_.queue_clock = {clock_.Now(), clock_.Monotonic(), kBoot};
  }

  QueueOnDisk* Find(const TenantId& tenant, std::string_view queue) {
    const auto it = s_.queues.find(TenantKey(tenant, queue));
    return it == s_.queues.end() ? nullptr : &it->second;
  }
  Result<QueueOnDisk*> Get(const TenantId& tenant, std::string_view queue) {
    if (QueueOnDisk* const q = Find(tenant, queue)) return q;
    return task_queue::NoSuchQueue(queue);
  }
  QueueOnDisk& GetOrMake(const TenantId& tenant, std::string_view queue) {
    QueueOnDisk& q = s_.queues[TenantKey(tenant, queue)];
    q.row.record.name = queue;
    return q;
  }

  /// Whether the tenant may have this queue.
  Status CheckQueues(const TenantId& tenant, std::string_view queue) {
    if (Find(tenant, queue) != nullptr) return {};
    const auto count =
        std::ranges::count_if(s_.queues, [&](const auto& q) { return q.first.first == tenant; });
    if (count < task_queue::kMaxQueues) return {};
    return task_queue::TooManyQueues();
  }

  /// Whether what is new of `items` may come in.
  Status CheckRoom(const TenantId& tenant, std::string_view queue, std::span<const NewItem> items,
                   Instant now) {
    HEADWORKS_TRY(CheckQueues(tenant, queue));
    const QueueOnDisk* const q = Find(tenant, queue);
    const QueueRecord record = q != nullptr ? q->row.record : QueueRecord();
    std::set<std::string_view> fresh;
    for (const NewItem& item : items) {
      const auto known = q == nullptr ? decltype(q->ids.find("")){} : q->ids.find(item.id);
      const bool is_known = q != nullptr && known != q->ids.end() &&
                            !IsForgettable(q->items.at(known->second), record.settings, now);
      if (!is_known) fresh.insert(item.id);
    }
    const auto depth = record.pending + record.processing + static_cast<std::int64_t>(fresh.size());
    if (fresh.empty() || depth <= record.settings.max_depth) return {};
    return task_queue::QueueIsFull(queue, record.settings.max_depth);
  }

  Enqueued EnqueueOne(QueueOnDisk& q, const NewItem& item, const QueueTime& now) {
    const std::int64_t digest = task_queue::Digest(item.payload);
    if (const auto known = q.ids.find(item.id); known != q.ids.end()) {
      const ItemRecord& first = q.items.at(known->second);
      if (!IsForgettable(first, q.row.record.settings, now.wall)) {
        const bool differs = first.payload_digest != digest;
        CountDuplicate(q.row, differs);
        if (!differs) return Enqueued::kDuplicate;
        if (logger_ != nullptr) {
          logger_->Warning("an item with a known id and another payload was dropped",
                           {{"queue", q.row.record.name}, {"id", item.id}});
        }
        return Enqueued::kDuplicateDiffers;
      }
      Remove(q, known->second);
    }
    ItemRecord record{.no = ItemNo(s_.next_queue_no++),
                      .id = item.id,
                      .priority = item.priority,
                      .max_attempts = item.max_attempts,
                      .enqueued_at = now.wall,
                      .available_at = now.wall + item.delay,
                      .payload_bytes = static_cast<std::int64_t>(item.payload.size()),
                      .payload_digest = digest};
    task_queue::Insert(q.row, record, now.wall);
    q.ids.emplace(item.id, record.no);
    q.payloads.emplace(record.no, item.payload);
    Index(q, record);
    q.items.emplace(record.no, std::move(record));
    return Enqueued::kInserted;
  }

  QueueRecord Described(const QueueOnDisk& q) {
    const Instant now = Now().wall;
    auto first = FirstAvailable(q);
    if (first && *first > now) first.reset();
    return Describe(q.row, first, now);
  }

  template <typename Change>
  Result<Moved> MoveItems(const TenantId& tenant, std::string_view queue, const ItemFilter& filter,
                          std::span<const ItemState> usual, Change change) {
    HEADWORKS_ASSIGN(QueueOnDisk* const q, Get(tenant, queue));
    const auto states = StatesOf(filter, usual);
    const Instant now = Now().wall;
    Moved moved;
    for (auto it = q->items.upper_bound(filter.after); it != q->items.end(); ++it) {
      if (!Fits(it->second, filter, states, now)) continue;
      if (static_cast<std::size_t>(moved.count) == filter.limit) {
        moved.more = true;
        break;
      }
      Update(*q, it->second, change);
      ++moved.count;
      moved.after = it->first;
    }
    Committed();
    return moved;
  }

  const std::shared_ptr<Storage> storage_;
  Storage& s_;
  Clock& clock_;
  Logger* const logger_;
};

}  // namespace

std::size_t EnqueueRoundItems(const std::shared_ptr<Storage>& storage, Clock& clock, Logger* logger,
                              std::span<const store::QueuedItem> items) {
  return MemoryQueues(storage, clock, logger).EnqueueWhatFits(items);
}

std::unique_ptr<task_queue::Queues> NewMemoryQueues(std::shared_ptr<Storage> storage, Clock& clock,
                                                    Logger* logger) {
  return std::make_unique<MemoryQueues>(std::move(storage), clock, logger);
}

}  // namespace headworks::store_memory
