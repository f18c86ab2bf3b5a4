#include "queues.h"

#include <algorithm>

#include "headworks/base/host.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/rules.h"
#include "schema.h"

namespace headworks::store_sqlite {
namespace {

using task_queue::Claim;
using task_queue::Enqueued;
using task_queue::ItemFilter;
using task_queue::ItemRecord;
using task_queue::ItemState;
using task_queue::Moved;
using task_queue::NewItem;
using task_queue::Polled;
using task_queue::QueueRecord;
using task_queue::Settlement;

void WarnOfDiffering(Logger& log, const TenantId& tenant, std::string_view queue,
                     std::span<const NewItem> items, std::span<const Enqueued> answers) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (answers[i] != Enqueued::kDuplicateDiffers) continue;
    log.Warning("an item with a known id and another payload was dropped",
                {{"tenant", tenant.value}, {"queue", std::string(queue)}, {"id", items[i].id}});
  }
}

std::size_t Count(const auto& answers, const auto& value) {
  return static_cast<std::size_t>(std::ranges::count(answers, value));
}

}  // namespace

// ---- QueueWatch

QueueClock::QueueClock(Core& core) : core_(core), boot_(task_queue::BootNumber(core.boot_id())) {}

QueueWatch::QueueWatch(Core& core, task_queue::Bell& bell, const QueueClock& clock)
    : core_(core),
      bell_(bell),
      clock_(clock),
      thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

void QueueWatch::Loop(const std::stop_token& stop) {
  std::int64_t seen = -1;
  std::vector<task_queue::Bell::Queue> known;
  while (bell_.AwaitWaiters(stop)) {
    // A failure is met by those who wait as well, when they poll.
    const std::int64_t version = core_.DataVersion().value_or(seen);
    auto waited = bell_.Waited();
    if (version != seen || waited != known) {
      seen = version;
      known = std::move(waited);
      Look();
    }
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, stop, kInterval, [] { return false; });
  }
}

void QueueWatch::Look() {
  std::map<task_queue::Bell::Queue, Instant> next;
  for (const auto& queue : bell_.Waited()) {
    Instant now{};
    const auto until = core_.Read([&](Connection& c) -> Result<std::optional<Duration>> {
      HEADWORKS_ASSIGN(const auto time, ReadQueueTime(c, clock_.Read(), false));
      now = time.wall;
      return QueueTransaction(c, queue.first, queue.second, time).UntilNext();
    });
    const bool is_due = !until || *until == Duration();
    const Instant at = until && *until ? now + **until : kNever;
    const auto known = next_.find(queue);
    const Instant before = known == next_.end() ? kNever : known->second;
    if (is_due || (at != kNever && at != before)) {
      bell_.Ring(queue.first, queue.second, task_queue::kMaxBatch);
    }
    next.emplace(queue, at);
  }
  next_ = std::move(next);
}

// ---- SqliteQueues

SqliteQueues::SqliteQueues(Core& core) : core_(core), clock_(core), writer_(core) {}

task_queue::Bell& SqliteQueues::bell() {
  std::call_once(watch_once_, [this] {
    if (core_.has_threads()) watch_.emplace(core_, bell_, clock_);
  });
  return bell_;
}

Result<std::vector<Enqueued>> SqliteQueues::Enqueue(const TenantId& tenant, std::string_view queue,
                                                    std::span<const NewItem> items) {
  HEADWORKS_TRY(task_queue::CheckEnqueue(tenant, queue, items));
  const auto digests = task_queue::Digests(items);
  auto answers =
      Write(tenant, queue, [&](QueueTransaction& t) { return t.Enqueue(items, digests); });
  if (!answers) return answers;
  WarnOfDiffering(core_.logger(), tenant, queue, items, *answers);
  bell_.Ring(tenant, queue, Count(*answers, Enqueued::kInserted));
  return answers;
}

Result<Polled> SqliteQueues::Poll(const task_queue::PollRequest& request) {
  HEADWORKS_TRY(task_queue::CheckPoll(request));
  std::vector<std::string> damaged;
  auto polled = Write(request.tenant, request.queue, [&](QueueTransaction& t) {
    auto answer = t.Poll(request);
    damaged = t.damaged();
    return answer;
  });
  if (polled)
    for (const std::string& why : damaged)
      core_.logger().Error(
          "a damaged item is set aside as dead",
          {{"tenant", request.tenant.value}, {"queue", request.queue}, {"error", why}});
  return polled;
}

Result<std::vector<Result<ItemState>>> SqliteQueues::Settle(
    const TenantId& tenant, std::string_view queue, std::span<const Settlement> settlements) {
  HEADWORKS_TRY(task_queue::CheckSettle(tenant, queue, settlements));
  const auto kept = task_queue::WithReasonsKept(settlements, core_.redact());
  auto answers = Write(tenant, queue, [&](QueueTransaction& t) { return t.Settle(kept); });
  if (!answers) return answers;
  bell_.Ring(tenant, queue,
             static_cast<std::size_t>(std::ranges::count_if(*answers, [](const auto& answer) {
               return answer && *answer == ItemState::kPending;
             })));
  return answers;
}

Result<std::vector<Status>> SqliteQueues::Extend(const TenantId& tenant, std::string_view queue,
                                                 std::span<const Claim> claims,
                                                 Duration visibility) {
  HEADWORKS_TRY(task_queue::CheckExtend(tenant, queue, claims, visibility));
  return Write(tenant, queue, [&](QueueTransaction& t) { return t.Extend(claims, visibility); });
}

Result<ItemState> SqliteQueues::Cancel(const TenantId& tenant, std::string_view queue,
                                       std::string_view id) {
  HEADWORKS_TRY(task_queue::CheckId(tenant, queue, id));
  return Write(tenant, queue, [&](QueueTransaction& t) { return t.Cancel(id); });
}

Result<task_queue::QueueSettings> SqliteQueues::Configure(
    const TenantId& tenant, std::string_view queue, const task_queue::SettingsChange& change) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
  auto changed = Write(tenant, queue, [&](QueueTransaction& t) { return t.Configure(change); });
  if (changed) bell_.Ring(tenant, queue, task_queue::kMaxBatch);
  return changed;
}

Status SqliteQueues::SetPaused(const TenantId& tenant, std::string_view queue, bool paused) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
  HEADWORKS_TRY(Write(tenant, queue, [&](QueueTransaction& t) { return t.SetPaused(paused); }));
  if (!paused) bell_.Ring(tenant, queue, task_queue::kMaxBatch);
  return {};
}

Result<QueueRecord> SqliteQueues::GetQueue(const TenantId& tenant, std::string_view queue) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
  return Read(tenant, queue, [](QueueTransaction& t) { return t.GetQueue(); });
}

Result<std::vector<QueueRecord>> SqliteQueues::ListQueues(const TenantId& tenant) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, task_queue::kDefaultQueue));
  return core_.Read([&](Connection& c) -> Result<std::vector<QueueRecord>> {
    HEADWORKS_ASSIGN(const auto now, ReadQueueTime(c, clock_.Read(), false));
    return QueueTransaction::ListQueues(c, tenant, now);
  });
}

Result<std::vector<ItemRecord>> SqliteQueues::ListItems(const TenantId& tenant,
                                                        std::string_view queue,
                                                        const ItemFilter& filter) {
  HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kAllStates));
  return Read(tenant, queue, [&](QueueTransaction& t) { return t.ListItems(filter); });
}

Result<task_queue::QueueAdmin::ItemWithPayload> SqliteQueues::GetItem(const TenantId& tenant,
                                                                      std::string_view queue,
                                                                      std::string_view id) {
  HEADWORKS_TRY(task_queue::CheckId(tenant, queue, id));
  return Read(tenant, queue, [&](QueueTransaction& t) { return t.GetItem(id); });
}

Result<Moved> SqliteQueues::Redrive(const TenantId& tenant, std::string_view queue,
                                    const ItemFilter& filter) {
  HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kRedrivable));
  auto moved = Write(tenant, queue, [&](QueueTransaction& t) { return t.Redrive(filter); });
  if (moved) bell_.Ring(tenant, queue, static_cast<std::size_t>(moved->count));
  return moved;
}

Result<Moved> SqliteQueues::Purge(const TenantId& tenant, std::string_view queue,
                                  const ItemFilter& filter) {
  HEADWORKS_TRY(task_queue::CheckFilter(tenant, queue, filter, task_queue::kPurgeable));
  return Write(tenant, queue, [&](QueueTransaction& t) { return t.Purge(filter); });
}

Result<Moved> SqliteQueues::Delete(const TenantId& tenant, std::string_view queue) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
  return Write(tenant, queue, [](QueueTransaction& t) { return t.Delete(); });
}

Result<task_queue::Swept> SqliteQueues::Sweep(std::size_t limit) {
  HEADWORKS_TRY(task_queue::CheckSweep(limit));
  std::vector<task_queue::Bell::Queue> due;
  HEADWORKS_TRY(core_.Read([&](Connection& c) -> Status {
    HEADWORKS_ASSIGN(const auto now, ReadQueueTime(c, clock_.Read(), false));
    HEADWORKS_ASSIGN(due, QueueTransaction::NeedSweep(c, now));
    return {};
  }));
  task_queue::Swept swept;
  Status first;
  for (const auto& [tenant, queue] : due) {
    const auto one = Write(tenant, queue, [&](QueueTransaction& t) { return t.Sweep(limit); });
    if (!one) {  // the others are swept all the same
      if (first) first = one.error();
      continue;
    }
    swept.leases_ended += one->leases_ended;
    swept.forgotten += one->forgotten;
    swept.more |= one->more;
    bell_.Ring(tenant, queue, static_cast<std::size_t>(one->leases_ended));
  }
  HEADWORKS_TRY(first);
  return swept;
}

Result<std::vector<task_queue::TenantQueue>> SqliteQueues::ListAll() {
  return core_.Read([](Connection& c) { return QueueTransaction::ListAll(c); });
}

Result<std::vector<ItemRecord>> SqliteQueues::ListDead(const TenantId& tenant,
                                                       std::string_view queue,
                                                       const DeadAfter& after, std::size_t limit) {
  HEADWORKS_TRY(task_queue::CheckQueue(tenant, queue));
  HEADWORKS_TRY(task_queue::CheckSweep(limit));
  return Read(tenant, queue, [&](QueueTransaction& t) { return t.ListDead(after, limit); });
}

// ---- Within transactions of others

namespace {

/// Whether the store itself is at fault, so that nothing of the round can be written.
bool IsOfTheStore(Code code) { return code == Code::kUnavailable || code == Code::kAtCapacity; }

/// Items of one queue, as far as there is room and they can be written: those that cannot are found
/// by halving, and left out.
Result<std::size_t> EnqueueSound(Connection& c, const task_queue::QueueTime& now,
                                 const store::QueuedItem& first, std::span<const NewItem> batch,
                                 Logger& log) {
  auto left = InSavepoint(c, [&](Connection&) {
    return QueueTransaction(c, first.tenant, first.queue, now)
        .EnqueueWhatFits(batch, task_queue::Digests(batch));
  });
  if (left || IsOfTheStore(left.error().code)) return left;
  if (batch.size() == 1) {
    log.Error("an item of a round cannot be written, and is left out",
              {{"tenant", first.tenant.value},
               {"queue", first.queue},
               {"item", batch[0].id},
               {"error", left.error().message}});
    return 1;
  }
  std::size_t sum = 0;
  const std::size_t middle = batch.size() / 2;
  for (const auto half : {batch.first(middle), batch.subspan(middle)}) {
    HEADWORKS_ASSIGN(const std::size_t of_half, EnqueueSound(c, now, first, half, log));
    sum += of_half;
  }
  return sum;
}

}  // namespace

Result<std::size_t> EnqueueRoundItems(Connection& connection, const QueueClock& clock,
                                      std::span<const store::QueuedItem> items, Logger& log) {
  HEADWORKS_ASSIGN(const auto now, ReadQueueTime(connection, clock.Read(), true));
  std::size_t left_out = 0;
  while (!items.empty()) {
    const store::QueuedItem& first = items.front();
    std::vector<NewItem> batch;
    for (const store::QueuedItem& item : items) {
      if (item.tenant != first.tenant || item.queue != first.queue) break;
      batch.push_back({.id = item.id, .payload = item.payload, .max_attempts = item.max_attempts});
    }
    items = items.subspan(batch.size());
    HEADWORKS_ASSIGN(const std::size_t left, EnqueueSound(connection, now, first, batch, log));
    left_out += left;
  }
  return left_out;
}

Result<std::vector<Enqueued>> EnqueueInTransaction(sqlite3* db, Clock& clock, Logger& log,
                                                   const TenantId& tenant, std::string_view queue,
                                                   std::span<const NewItem> items) {
  HEADWORKS_TRY(task_queue::CheckEnqueue(tenant, queue, items));
  if (sqlite3_get_autocommit(db) != 0) {
    return Error{Code::kInvalidArgument,
                 "no transaction is open on this connection; begin one with BEGIN IMMEDIATE"};
  }
  const auto connection = Connection::Borrow(db);
  Connection& c = *connection;
  const int program_level = Migrations().back().level;
  HEADWORKS_ASSIGN(const Levels levels, CheckLevels(c, program_level));
  if (levels.schema < program_level) {
    return Error{Code::kConflict,
                 "the database is of an older level; open it once with `store_sqlite::Open`, or "
                 "run `headworks db migrate`"};
  }
  auto answers = InSavepoint(c, [&](Connection&) -> Result<std::vector<Enqueued>> {
    const task_queue::QueueTime now{clock.Now(), clock.Monotonic(),
                                    task_queue::BootNumber(BootId())};
    HEADWORKS_ASSIGN(const auto time, ReadQueueTime(c, now, true));
    return QueueTransaction(c, tenant, queue, time).Enqueue(items, task_queue::Digests(items));
  });
  if (answers) WarnOfDiffering(log, tenant, queue, items, *answers);
  return answers;
}

}  // namespace headworks::store_sqlite
