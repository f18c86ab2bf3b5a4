#include "run_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "headworks/store/checks.h"
#include "headworks/task_queue/checks.h"
#include "queues.h"
#include "rows.h"

namespace headworks::store_sqlite {
namespace {

using store::Guard;

constexpr std::size_t kUsualPage = 1'000;

std::uint64_t MaskOf(std::span<const Shard> shards) {
  std::uint64_t mask = 0;
  for (const Shard shard : shards) mask |= std::uint64_t{1} << static_cast<unsigned>(shard.value);
  return mask;
}

}  // namespace

Result<std::vector<Guard>> SqliteRunStore::Acquire(std::span<const Shard> shards,
                                                   std::string_view owner, Duration ttl) {
  HEADWORKS_TRY(store::CheckShards(shards));
  HEADWORKS_TRY(store::CheckTtl(ttl));
  if (owner.empty()) return Error{Code::kInvalidArgument, "acquire: no owner given"};
  const std::lock_guard lock(core_.writer_mutex());
  HEADWORKS_ASSIGN(const bool fresh, core_.TakeOwnership());
  auto guards = core_.WriteLocked([&](Connection& c) -> Result<std::vector<Guard>> {
    // Who held a shard before is gone, since its lock is: no lease is waited for.
    if (fresh) HEADWORKS_TRY(c.Run("UPDATE guard SET owner = NULL"));
    std::vector<Guard> taken;
    for (const Shard shard : shards) HEADWORKS_TRY(AcquireShard(c, shard, owner, ttl, taken));
    return taken;
  });
  if (!guards && fresh) core_.DropOwnership();
  return guards;
}

Status SqliteRunStore::AcquireShard(Connection& c, Shard shard, std::string_view owner,
                                    Duration ttl, std::vector<Guard>& guards) {
  const Duration now = core_.Monotonic();
  const char* const kUpsert =
      "INSERT INTO guard (shard, term, round, owner, lease_until, boot_id) "
      "VALUES (?1, 1, 0, ?2, ?3, ?4) "
      "ON CONFLICT (shard) DO UPDATE SET term = term + 1, owner = excluded.owner, "
      "lease_until = excluded.lease_until, boot_id = excluded.boot_id "
      "WHERE owner IS NULL OR owner = ?2 OR lease_until <= ?5 OR boot_id <> ?4";
  HEADWORKS_TRY(c.Run(kUpsert, shard, owner, now + ttl, core_.boot_id(), now));
  if (c.Changes() == 0) {
    HEADWORKS_ASSIGN(const auto holder,
                     c.Value<std::string>("SELECT owner FROM guard WHERE shard = ?1", shard));
    return Error{Code::kConflict,
                 fmt::format("shard {} is owned by {}", shard.value, holder.value_or("nobody"))};
  }
  return c.ForEach(
      "SELECT term, round FROM guard WHERE shard = ?1",
      [&](Row row) {
        Guard& guard = guards.emplace_back(Guard{shard, {}, {}});
        row.Read(guard.term, guard.round);
      },
      shard);
}

Status SqliteRunStore::Release(std::span<const Guard> guards) {
  HEADWORKS_TRY(store::CheckGuards(guards));
  const std::lock_guard lock(core_.writer_mutex());
  HEADWORKS_ASSIGN(const auto held, core_.WriteLocked([&](Connection& c) -> Result<std::int64_t> {
    for (const Guard& guard : guards) {
      HEADWORKS_TRY(c.Run("UPDATE guard SET owner = NULL WHERE shard = ?1 AND term = ?2",
                          guard.shard, guard.term));
    }
    HEADWORKS_ASSIGN(const auto count,
                     c.Value<std::int64_t>("SELECT count(*) FROM guard WHERE owner IS NOT NULL"));
    return count.value_or(0);
  }));
  if (held == 0) core_.DropOwnership();
  return {};
}

Result<Guard> SqliteRunStore::ReadGuard(Shard shard) {
  HEADWORKS_TRY(store::CheckShards(std::span(&shard, 1)));
  // A write transaction: it waits for a commit that is under way, here or in another process.
  return core_.Write([&](Connection& c) -> Result<Guard> {
    Guard guard{shard, {}, {}};
    HEADWORKS_TRY(c.ForEach(
        "SELECT term, round FROM guard WHERE shard = ?1",
        [&](Row row) { row.Read(guard.term, guard.round); }, shard));
    return guard;
  });
}

Status SqliteRunStore::Renew(std::span<const Guard> guards, Duration ttl) {
  HEADWORKS_TRY(store::CheckGuards(guards));
  HEADWORKS_TRY(store::CheckTtl(ttl));
  return core_.Write([&](Connection& c) -> Status {
    for (const Guard& guard : guards) {
      HEADWORKS_TRY(
          c.Run("UPDATE guard SET lease_until = ?3, boot_id = ?4 "
                "WHERE shard = ?1 AND term = ?2 AND owner IS NOT NULL",
                guard.shard, guard.term, core_.Monotonic() + ttl, core_.boot_id()));
      if (c.Changes() == 0) {
        return Error{Code::kLeaseLost,
                     fmt::format("shard {}: term {} is over", guard.shard.value, guard.term.value)};
      }
    }
    return {};
  });
}

Status SqliteRunStore::Commit(const store::Round& round) {
  HEADWORKS_TRY(store::CheckRound(round));
  for (const store::QueuedItem& item : round.items) {
    const task_queue::NewItem checked{
        .id = item.id, .payload = item.payload, .max_attempts = item.max_attempts};
    HEADWORKS_TRY(task_queue::CheckEnqueue(item.tenant, item.queue, {&checked, 1}));
  }
  std::size_t left_out = 0;
  HEADWORKS_TRY(core_.Write([&](Connection& c) -> Status {
    HEADWORKS_TRY(WriteRound(c, round, core_.Monotonic() + round.lease_ttl, core_.boot_id()));
    if (!round.items.empty()) {
      HEADWORKS_ASSIGN(left_out,
                       EnqueueRoundItems(c, QueueClock(core_), round.items, core_.logger()));
    }
    if (round.now >= next_forgetting_) {
      HEADWORKS_ASSIGN(const bool more, ForgetOldAnswers(c, round.now));
      next_forgetting_ = more ? round.now : round.now + std::chrono::minutes(1);
    }
    return {};
  }));
  if (left_out > 0)
    core_.logger().Warning("items of a round were left out: their queue is full, or damaged",
                           {{"items", std::to_string(left_out)}, {"queue", round.items[0].queue}});
  return {};
}

Result<store::RunImage> SqliteRunStore::LoadRun(const TenantId& tenant, RunNo run) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<store::RunImage> {
    std::optional<store::RunImage> image;
    HEADWORKS_TRY(c.ForEach(
        "SELECT " HEADWORKS_RUN_COLUMNS " FROM run WHERE tenant_id = ?1 AND run_no = ?2",
        [&](Row row) { return ReadHeader(row, image.emplace().header); }, tenant, run));
    if (!image) return NoRun(run);
    store::TaskRecord task;
    HEADWORKS_TRY(c.ForEach(
        "SELECT " HEADWORKS_TASK_COLUMNS
        " FROM task WHERE tenant_id = ?1 AND run_no = ?2 ORDER BY task_no, map_index",
        [&](Row row) {
          ReadTask(row, task);
          image->tasks.push_back(task.row);
          image->executors.push_back(task.executor);
          image->holders.push_back(task.holder);
        },
        tenant, run));
    return *std::move(image);
  });
}

Result<std::vector<TenantId>> SqliteRunStore::ListDueTenants(std::span<const Shard> shards,
                                                             Instant until, const TenantId& after,
                                                             std::size_t limit) {
  HEADWORKS_TRY(store::CheckShards(shards));
  return core_.Read([&](Connection& c) -> Result<std::vector<TenantId>> {
    std::vector<TenantId> tenants;
    HEADWORKS_TRY(c.ForEach(
        kDueTenants, [&](Row row) { tenants.push_back(row.Get<TenantId>(0)); }, after, until,
        MaskOf(shards), limit));
    return tenants;
  });
}

Result<std::vector<model::RunHeader>> SqliteRunStore::ListDue(const TenantId& tenant,
                                                              std::span<const Shard> shards,
                                                              Instant until, const DueAfter& after,
                                                              std::size_t limit) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  HEADWORKS_TRY(store::CheckShards(shards));
  const std::uint64_t mask = MaskOf(shards);
  return core_.Read([&](Connection& c) -> Result<std::vector<model::RunHeader>> {
    std::vector<model::RunHeader> due;
    due.reserve(std::min(limit, kUsualPage));
    const auto read = [&](Row row) { return ReadHeader(row, due.emplace_back()); };
    if (after.wake_at >= Instant{} && after.wake_at <= until) {
      HEADWORKS_TRY(c.ForEach(kDueOfPriority, read, tenant, after.wake_at, after.priority,
                              after.run, mask, limit));
      if (due.size() < limit)
        HEADWORKS_TRY(c.ForEach(kDueBelow, read, tenant, after.wake_at, after.priority, mask,
                                limit - due.size()));
    }
    if (due.size() < limit && after.wake_at < until)
      HEADWORKS_TRY(
          c.ForEach(kDueLater, read, tenant, after.wake_at, until, mask, limit - due.size()));
    return due;
  });
}

Result<std::vector<store::RunStore::Held>> SqliteRunStore::ListHeld(std::span<const Shard> shards) {
  HEADWORKS_TRY(store::CheckShards(shards));
  const std::uint64_t mask = MaskOf(shards);
  return core_.Read([&](Connection& c) -> Result<std::vector<Held>> {
    std::map<std::string, Held> held;
    const auto add = [&](Row row) {
      std::string executor;
      std::int64_t run = 0, attempts = 0;
      row.Read(executor, run, attempts);
      Held& of = held.try_emplace(executor, Held{.executor = executor}).first->second;
      ++of.runs;
      of.attempts += static_cast<std::uint64_t>(attempts);
    };
    HEADWORKS_TRY(c.ForEach(kHeld, add, mask));
    HEADWORKS_TRY(c.ForEach(kHeldByStuck, add, mask));
    std::vector<Held> all;
    all.reserve(held.size());
    for (auto& [name, of] : held) all.push_back(std::move(of));
    return all;
  });
}

Result<std::optional<model::RunHeader>> SqliteRunStore::FindStartKey(const TenantId& tenant,
                                                                     const model::Namespace& name,
                                                                     std::string_view start_key) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  std::optional<model::RunHeader> found;
  if (start_key.empty() || name.tenant != tenant.value) return found;
  return core_.Read([&](Connection& c) -> Result<std::optional<model::RunHeader>> {
    HEADWORKS_TRY(c.ForEach(
        "SELECT " HEADWORKS_RUN_COLUMNS
        " FROM run WHERE tenant_id = ?1 AND package = ?2 AND workflow = ?3 AND start_key = ?4 "
        "AND start_key <> ''",
        [&](Row row) { return ReadHeader(row, found.emplace()); }, tenant, name.package,
        name.workflow, start_key));
    return found;
  });
}

Result<RunNo> SqliteRunStore::ReserveRunNos(std::int64_t count) {
  if (count <= 0) return Error{Code::kInvalidArgument, "reserve: count must be 1 or more"};
  return core_.Write([&](Connection& c) -> Result<RunNo> {
    HEADWORKS_ASSIGN(const auto first, c.Value<RunNo>("SELECT next_run_no FROM store"));
    HEADWORKS_TRY(c.Run("UPDATE store SET next_run_no = next_run_no + ?1", count));
    return first.value_or(RunNo());
  });
}

Result<std::vector<store::InboxRow>> SqliteRunStore::ReadInbox(std::span<const Shard> shards,
                                                               std::int64_t after,
                                                               std::size_t limit) {
  HEADWORKS_TRY(store::CheckShards(shards));
  return core_.Read([&](Connection& c) -> Result<std::vector<store::InboxRow>> {
    std::vector<store::InboxRow> rows;
    HEADWORKS_TRY(c.ForEach(
        "SELECT id, tenant_id, dedupe_key, shard, kind, run_no, appended_at, payload FROM inbox "
        "WHERE id > ?1 AND (?2 >> shard) & 1 ORDER BY id LIMIT ?3",
        [&](Row row) {
          store::InboxRow& r = rows.emplace_back();
          OwnedPayload payload;
          row.Read(r.id, r.tenant, r.dedupe_key, r.shard, r.kind, r.run, r.appended_at, payload);
          r.payload = std::move(payload.bytes);
        },
        after, MaskOf(shards), limit));
    return rows;
  });
}

}  // namespace headworks::store_sqlite
