#pragma once

#include "core.h"
#include "headworks/store/run_store.h"

namespace headworks::store_sqlite {

class SqliteRunStore final : public store::RunStore {
 public:
  explicit SqliteRunStore(Core& core) : core_(core) {}

  Result<std::vector<store::Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                            Duration ttl) override;
  Status Release(std::span<const store::Guard> guards) override;
  Result<store::Guard> ReadGuard(Shard shard) override;
  Status Commit(const store::Round& round) override;
  Status Renew(std::span<const store::Guard> guards, Duration ttl) override;
  Result<store::RunImage> LoadRun(const TenantId& tenant, RunNo run) override;
  Result<std::vector<DueRun>> ListDue(std::span<const Shard> shards, Instant until,
                                      std::optional<DueRun> after, std::size_t limit) override;
  Result<std::optional<model::RunHeader>> FindStartKey(const TenantId& tenant,
                                                       const model::Namespace& name,
                                                       std::string_view start_key) override;
  Result<RunNo> ReserveRunNos(std::int64_t count) override;
  Result<std::vector<store::InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                                 std::size_t limit) override;

 private:
  Status AcquireShard(Connection& connection, Shard shard, std::string_view owner, Duration ttl,
                      std::vector<store::Guard>& guards);

  Core& core_;
  Instant next_forgetting_{};  // of old answers; under the writer's mutex
};

// ListDue.  Pending runs may be millions, so they are read in the order of their index: first what
// is left of the priority of `after`, then what is below.  Running ones that are due are at most
// about as many as memory holds: they are sorted.
#define HEADWORKS_SELECT_DUE \
  "SELECT tenant_id, run_no, state, priority, wake_at, counts FROM run WHERE stuck_reason = '' "
inline constexpr const char* kPendingOfPriority = HEADWORKS_SELECT_DUE
    "AND state = 1 AND priority = ?1 AND run_no > ?2 AND (?3 >> shard) & 1 "
    "ORDER BY run_no LIMIT ?4";
inline constexpr const char* kPendingBelow = HEADWORKS_SELECT_DUE
    "AND state = 1 AND priority < ?1 AND (?2 >> shard) & 1 "
    "ORDER BY priority DESC, run_no LIMIT ?3";
inline constexpr const char* kRunningDue = HEADWORKS_SELECT_DUE
    "AND state = 2 AND wake_at <= ?1 AND (priority < ?2 OR (priority = ?2 AND run_no > ?3)) "
    "AND (?4 >> shard) & 1 ORDER BY priority DESC, run_no LIMIT ?5";

/// Writes all that `round` changes (round_writer.cc), inside the caller's transaction.
Status WriteRound(Connection& connection, const store::Round& round, Duration lease_until,
                  const std::string& boot_id);
/// Deletes about `budget` rows of runs whose own row is gone; false = none are left.
Result<bool> SweepDeletedRuns(Connection& connection, std::int64_t budget);
/// Deletes a bounded number of answers that are too old; false = none are left.
Result<bool> ForgetOldAnswers(Connection& connection, Instant now);

}  // namespace headworks::store_sqlite
