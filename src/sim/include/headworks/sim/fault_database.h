#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "headworks/sim/dice.h"
#include "headworks/sim/site.h"
#include "headworks/store/run_store.h"

namespace headworks::sim {

/// Chances per mille of what goes wrong between an engine and its store.
struct StoreFaults {
  unsigned crash_before_commit = 0;
  unsigned crash_after_commit = 0;  // the reply never comes
  unsigned unavailable = 0;         // nothing happened
  unsigned reply_lost = 0;          // it happened
  unsigned read_unavailable = 0;
  unsigned full = 0;  // begins a time of kAtCapacity
  bool restart_after_each_commit = false;
};

/// What the store is like for everybody, whatever process asks.
struct StoreWeather {
  StoreFaults faults;
  /// Rounds that write tasks of these runs fail for good.
  std::set<RunNo> poisoned;
  Duration full_until{0};
  /// Number of the incarnation that owns the shards: nobody else's round can have been written.
  int owner = 0;
  /// A round that failed, though it may have been written: the guard row will tell.
  std::optional<store::Round> doubtful;
  bool crash_wanted = false;  // restart mode: crash when the tick is over
};

/// A database as one incarnation of an engine sees it: every call may fail as a real one can.
///
/// Appending to the inbox and what only other processes ask pass straight through.
class FaultDatabase final : public store::Database,
                            private store::RunStore,
                            private store::Inbox,
                            private store::RunQuery,
                            private store::WorkflowStore,
                            private store::LimitStore {
 public:
  /// Told of each round that was really committed, also when the engine never learns of it.
  using Committed = std::function<void(const store::Round&)>;
  /// Says so of a doubtful round, if the guard row shows that it was.
  static void Resolve(store::Database& inner, StoreWeather& weather, const Committed& committed);

  FaultDatabase(store::Database& inner, StoreWeather& weather, Incarnation& incarnation, Dice& dice,
                Clock& clock, Journal& journal, Committed committed);

  store::RunStore& runs() override { return *this; }
  store::Inbox& inbox() override { return *this; }
  store::RunQuery& query() override { return *this; }
  store::WorkflowStore& workflows() override { return *this; }
  store::LimitStore& limits() override { return *this; }

 private:
  Result<store::RunRecord> GetRun(const TenantId& tenant, std::string_view reference) override;
  Result<std::vector<store::RunRecord>> ListRuns(const TenantId& tenant,
                                                 const RunFilter& filter) override;
  Result<std::vector<store::RunRecord>> ListActive(const TenantId& tenant,
                                                   const ActiveFilter& filter) override;
  Result<std::size_t> CountActive(const TenantId& tenant, const ActiveFilter& filter) override;
  Result<std::vector<Instant>> ListStarts(const model::Namespace& name, std::string_view key,
                                          Instant after) override;
  Result<std::vector<store::TaskRecord>> ListTasks(const TenantId& tenant, RunNo run,
                                                   std::optional<TaskNo> after,
                                                   std::size_t limit) override;
  Result<std::vector<model::AttemptRecord>> ListAttempts(const TenantId& tenant, RunNo run,
                                                         std::optional<TaskNo> task, Epoch after,
                                                         std::size_t limit) override;
  Result<std::vector<model::RunEventRecord>> ListEvents(const TenantId& tenant, RunNo run,
                                                        std::size_t limit) override;
  Result<std::vector<store::TaskEnd>> ReadEnds(const TenantId& tenant, RunNo run,
                                               std::span<const TaskNo> tasks) override;
  Result<std::string> ReadInput(const TenantId& tenant, RunNo run) override;
  Result<std::vector<store::Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                            Duration ttl) override;
  Status Release(std::span<const store::Guard> guards) override;
  Result<store::Guard> ReadGuard(Shard shard) override;
  Status Commit(const store::Round& round) override;
  Status Renew(std::span<const store::Guard> guards, Duration ttl) override;
  Result<store::RunImage> LoadRun(const TenantId& tenant, RunNo run) override;
  Result<std::vector<TenantId>> ListDueTenants(std::span<const Shard> shards, Instant until,
                                               const TenantId& after, std::size_t limit) override;
  Result<std::vector<model::RunHeader>> ListDue(const TenantId& tenant,
                                                std::span<const Shard> shards, Instant until,
                                                const DueAfter& after, std::size_t limit) override;
  Result<std::vector<Held>> ListHeld(std::span<const Shard> shards) override;
  Result<std::optional<model::RunHeader>> FindStartKey(const TenantId& tenant,
                                                       const model::Namespace& name,
                                                       std::string_view start_key) override;
  Result<RunNo> ReserveRunNos(std::int64_t count) override;
  Result<std::vector<store::InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                                 std::size_t limit) override;

  Status Append(std::span<const store::InboxRow> rows) override;
  /// One thread, so nobody is told: the engine polls.
  std::unique_ptr<Watch> WatchAppends(std::function<void()>) override { return nullptr; }
  Result<std::optional<store::Answer>> GetAnswer(const TenantId& tenant,
                                                 std::string_view dedupe_key) override;
  Result<std::int64_t> DataVersion() override;

  Status PutVersion(const TenantId& tenant, std::string_view version,
                    std::string_view canonical_json, Instant now) override;
  Result<std::string> GetVersion(const TenantId& tenant, std::string_view version) override;
  Status Register(const store::WorkflowRecord& record) override;
  Result<store::WorkflowRecord> Get(const model::Namespace& name) override;
  Result<std::vector<store::WorkflowRecord>> List(const TenantId& tenant) override;
  Status Remove(const model::Namespace& name) override;
  Status SetEnabled(const model::Namespace& name, bool enabled) override;

  Status SetPool(const TenantId& tenant, std::string_view name, int limit, Instant now) override;
  Status DeletePool(const TenantId& tenant, std::string_view name) override;
  Status DeclarePools(const TenantId& tenant, const model::PoolLimits& pools, Instant now) override;
  Result<std::vector<store::PoolRecord>> ListPools(const TenantId& tenant) override;
  Result<std::vector<store::Permit>> ListPermits(const TenantId& tenant) override;
  Result<std::vector<store::Permit>> ListAllPermits() override;

  bool Fails(std::string_view call);
  bool IsPoisoned(const store::Round& round) const;
  Status CommitInner(const store::Round& round);

  store::Database& inner_;
  StoreWeather& weather_;
  Incarnation& incarnation_;
  Dice& dice_;
  Clock& clock_;
  Journal& journal_;
  const Committed committed_;
};

}  // namespace headworks::sim
