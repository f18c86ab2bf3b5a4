#include "headworks/sim/fault_database.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::sim {
namespace {

Error Unavailable(std::string_view call) {
  return {Code::kUnavailable, fmt::format("{}: no answer", call)};
}

}  // namespace

FaultDatabase::FaultDatabase(store::Database& inner, StoreWeather& weather,
                             Incarnation& incarnation, Dice& dice, Clock& clock, Journal& journal,
                             Committed committed)
    : inner_(inner),
      weather_(weather),
      incarnation_(incarnation),
      dice_(dice),
      clock_(clock),
      journal_(journal),
      committed_(std::move(committed)) {}

bool FaultDatabase::Fails(std::string_view call) {
  if (incarnation_.crashed) return true;
  if (!dice_.Chance(weather_.faults.read_unavailable)) return false;
  if (journal_.keeps()) journal_.Note(fmt::format("store: {} is unavailable", call));
  return true;
}

bool FaultDatabase::IsPoisoned(const store::Round& round) const {
  // Marking a run as stuck writes its header alone, which the poison does not reach.
  return std::ranges::any_of(round.runs, [&](const store::RunWrite& write) {
    return weather_.poisoned.contains(write.header.run_no) && write.header.stuck_reason.empty();
  });
}

void FaultDatabase::Resolve(store::Database& inner, StoreWeather& weather,
                            const Committed& committed) {
  if (!weather.doubtful) return;
  const store::Guard& mine = weather.doubtful->guards.front();
  const auto stored = inner.runs().ReadGuard(mine.shard);
  if (!stored) return;
  if (stored->round == mine.round) committed(*weather.doubtful);
  weather.doubtful.reset();
}

Status FaultDatabase::CommitInner(const store::Round& round) {
  Status done = inner_.runs().Commit(round);
  if (done) {
    weather_.doubtful.reset();
    committed_(round);
  } else if (done.error().code != Code::kLeaseLost && incarnation_.number == weather_.owner) {
    weather_.doubtful = round;
  }
  if (!done && journal_.keeps()) journal_.Note("store: round refused: " + done.error().message);
  return done;
}

Status FaultDatabase::Commit(const store::Round& round) {
  if (incarnation_.crashed) return Unavailable("commit");
  const StoreFaults& faults = weather_.faults;
  const Duration now = clock_.Monotonic();
  if (dice_.Chance(faults.full))
    weather_.full_until = now + dice_.Between(Duration(0), std::chrono::seconds(3));
  if (now < weather_.full_until) return Error{Code::kAtCapacity, "disk full"};
  if (IsPoisoned(round)) {
    journal_.Note("store: poisoned round");
    return Error{Code::kInternal, "constraint failed"};
  }
  if (dice_.Chance(faults.crash_before_commit)) {
    journal_.Note("crash before the commit");
    incarnation_.crashed = true;
    return Unavailable("commit");
  }
  if (dice_.Chance(faults.unavailable)) {
    journal_.Note("store: commit did not happen, nobody knows");
    return Unavailable("commit");
  }
  Status done = CommitInner(round);
  if (!done) return done;
  if (faults.restart_after_each_commit) {
    if (dice_.Chance(500))
      weather_.crash_wanted = true;  // after the effects
    else
      incarnation_.crashed = true;
  }
  if (dice_.Chance(faults.crash_after_commit)) {
    journal_.Note("crash after the commit");
    incarnation_.crashed = true;
  }
  if (incarnation_.crashed) return Unavailable("commit");
  if (dice_.Chance(faults.reply_lost)) {
    journal_.Note("store: commit happened, nobody knows");
    return Unavailable("commit");
  }
  return done;
}

Result<std::vector<store::Guard>> FaultDatabase::Acquire(std::span<const Shard> shards,
                                                         std::string_view owner, Duration ttl) {
  if (incarnation_.crashed) return Unavailable("acquire");
  return inner_.runs().Acquire(shards, owner, ttl);
}

Status FaultDatabase::Release(std::span<const store::Guard> guards) {
  if (incarnation_.crashed) return Unavailable("release");
  return inner_.runs().Release(guards);
}

Result<store::Guard> FaultDatabase::ReadGuard(Shard shard) {
  if (Fails("read guard")) return Unavailable("read guard");
  Resolve(inner_, weather_, committed_);
  return inner_.runs().ReadGuard(shard);
}

Status FaultDatabase::Renew(std::span<const store::Guard> guards, Duration ttl) {
  if (Fails("renew")) return Unavailable("renew");
  return inner_.runs().Renew(guards, ttl);
}

Result<store::RunImage> FaultDatabase::LoadRun(const TenantId& tenant, RunNo run) {
  if (Fails("load run")) return Unavailable("load run");
  return inner_.runs().LoadRun(tenant, run);
}

Result<std::vector<TenantId>> FaultDatabase::ListDueTenants(std::span<const Shard> shards,
                                                            Instant until, const TenantId& after,
                                                            std::size_t limit) {
  if (Fails("list due tenants")) return Unavailable("list due tenants");
  return inner_.runs().ListDueTenants(shards, until, after, limit);
}

Result<std::vector<model::RunHeader>> FaultDatabase::ListDue(const TenantId& tenant,
                                                             std::span<const Shard> shards,
                                                             Instant until, const DueAfter& after,
                                                             std::size_t limit) {
  if (Fails("list due")) return Unavailable("list due");
  return inner_.runs().ListDue(tenant, shards, until, after, limit);
}

Result<std::vector<store::RunStore::Held>> FaultDatabase::ListHeld(std::span<const Shard> shards) {
  if (Fails("list held")) return Unavailable("list held");
  return inner_.runs().ListHeld(shards);
}

Result<std::optional<model::RunHeader>> FaultDatabase::FindStartKey(const TenantId& tenant,
                                                                    const model::Namespace& name,
                                                                    std::string_view start_key) {
  if (Fails("find start key")) return Unavailable("find start key");
  return inner_.runs().FindStartKey(tenant, name, start_key);
}

Result<RunNo> FaultDatabase::ReserveRunNos(std::int64_t count) {
  if (Fails("reserve")) return Unavailable("reserve");
  return inner_.runs().ReserveRunNos(count);
}

Result<std::vector<store::InboxRow>> FaultDatabase::ReadInbox(std::span<const Shard> shards,
                                                              std::int64_t after,
                                                              std::size_t limit) {
  if (Fails("read inbox")) return Unavailable("read inbox");
  return inner_.runs().ReadInbox(shards, after, limit);
}

Status FaultDatabase::Append(std::span<const store::InboxRow> rows) {
  return inner_.inbox().Append(rows);
}

Result<std::optional<store::Answer>> FaultDatabase::GetAnswer(const TenantId& tenant,
                                                              std::string_view dedupe_key) {
  return inner_.inbox().GetAnswer(tenant, dedupe_key);
}

Result<std::int64_t> FaultDatabase::DataVersion() {
  if (Fails("data version")) return Unavailable("data version");
  return inner_.inbox().DataVersion();
}

Status FaultDatabase::SetPool(const TenantId& tenant, std::string_view name, int limit,
                              Instant now) {
  return inner_.limits().SetPool(tenant, name, limit, now);
}

Status FaultDatabase::DeletePool(const TenantId& tenant, std::string_view name) {
  return inner_.limits().DeletePool(tenant, name);
}

Status FaultDatabase::DeclarePools(const TenantId& tenant, const model::PoolLimits& pools,
                                   Instant now) {
  return inner_.limits().DeclarePools(tenant, pools, now);
}

Result<std::vector<store::PoolRecord>> FaultDatabase::ListPools(const TenantId& tenant) {
  if (Fails("list pools")) return Unavailable("list pools");
  return inner_.limits().ListPools(tenant);
}

Result<std::vector<store::Permit>> FaultDatabase::ListPermits(const TenantId& tenant) {
  return inner_.limits().ListPermits(tenant);
}

Result<store::RunRecord> FaultDatabase::GetRun(const TenantId& tenant, std::string_view reference) {
  return inner_.query().GetRun(tenant, reference);
}

Result<std::vector<store::RunRecord>> FaultDatabase::ListRuns(const TenantId& tenant,
                                                              const RunFilter& filter) {
  return inner_.query().ListRuns(tenant, filter);
}

Result<std::vector<store::RunRecord>> FaultDatabase::ListActive(const TenantId& tenant,
                                                                const ActiveFilter& filter) {
  if (Fails("list active")) return Unavailable("list active");
  return inner_.query().ListActive(tenant, filter);
}

Result<std::size_t> FaultDatabase::CountActive(const TenantId& tenant, const ActiveFilter& filter) {
  if (Fails("count active")) return Unavailable("count active");
  return inner_.query().CountActive(tenant, filter);
}

Result<std::vector<Instant>> FaultDatabase::ListStarts(const model::Namespace& name,
                                                       std::string_view key, Instant after) {
  if (Fails("list starts")) return Unavailable("list starts");
  return inner_.query().ListStarts(name, key, after);
}

Result<std::vector<store::TaskRecord>> FaultDatabase::ListTasks(const TenantId& tenant, RunNo run,
                                                                std::optional<TaskNo> after,
                                                                std::size_t limit) {
  return inner_.query().ListTasks(tenant, run, after, limit);
}

Result<std::vector<model::AttemptRecord>> FaultDatabase::ListAttempts(
    const TenantId& tenant, RunNo run, std::optional<TaskNo> task, Epoch after, std::size_t limit) {
  return inner_.query().ListAttempts(tenant, run, task, after, limit);
}

Result<std::vector<model::RunEventRecord>> FaultDatabase::ListEvents(const TenantId& tenant,
                                                                     RunNo run, std::size_t limit) {
  return inner_.query().ListEvents(tenant, run, limit);
}

Result<std::vector<store::TaskEnd>> FaultDatabase::ReadEnds(const TenantId& tenant, RunNo run,
                                                            std::span<const TaskNo> tasks) {
  return inner_.query().ReadEnds(tenant, run, tasks);
}

Result<std::string> FaultDatabase::ReadInput(const TenantId& tenant, RunNo run) {
  return inner_.query().ReadInput(tenant, run);
}

Result<std::vector<store::Permit>> FaultDatabase::ListAllPermits() {
  if (Fails("list permits")) return Unavailable("list permits");
  return inner_.limits().ListAllPermits();
}

Status FaultDatabase::PutVersion(const TenantId& tenant, std::string_view version,
                                 std::string_view canonical_json, Instant now) {
  return inner_.workflows().PutVersion(tenant, version, canonical_json, now);
}

Result<std::string> FaultDatabase::GetVersion(const TenantId& tenant, std::string_view version) {
  if (Fails("get version")) return Unavailable("get version");
  return inner_.workflows().GetVersion(tenant, version);
}

Status FaultDatabase::Register(const store::WorkflowRecord& record) {
  return inner_.workflows().Register(record);
}

Result<store::WorkflowRecord> FaultDatabase::Get(const model::Namespace& name) {
  return inner_.workflows().Get(name);
}

Result<std::vector<store::WorkflowRecord>> FaultDatabase::List(const TenantId& tenant) {
  return inner_.workflows().List(tenant);
}

Status FaultDatabase::Remove(const model::Namespace& name) {
  return inner_.workflows().Remove(name);
}

Status FaultDatabase::SetEnabled(const model::Namespace& name, bool enabled) {
  return inner_.workflows().SetEnabled(name, enabled);
}

}  // namespace headworks::sim
