#pragma once

#include "core.h"
#include "headworks/store/run_store.h"
#include "rows.h"

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
  Result<std::vector<model::RunHeader>> ListDue(std::span<const Shard> shards, Instant until,
                                                std::optional<DueAfter> after,
                                                std::size_t limit) override;
  Result<std::vector<Held>> ListHeld(std::span<const Shard> shards) override;
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

// ListDue.  Those that wait for nothing may be millions, so they are read in the order of their
// index: first what is left of the priority of `after`, then what is below.  Those whose time has
// come are few: they are sorted.
#define HEADWORKS_SELECT_DUE          \
  "SELECT " HEADWORKS_RUN_COLUMNS     \
  " FROM run WHERE stuck_reason = ''" \
  " AND wake_at < 9223372036854775807 AND "
inline constexpr const char* kDueOfPriority = HEADWORKS_SELECT_DUE
    "wake_at = 0 AND priority = ?1 AND run_no > ?2 AND (?3 >> shard) & 1 ORDER BY run_no LIMIT ?4";
inline constexpr const char* kDueBelow = HEADWORKS_SELECT_DUE
    "wake_at = 0 AND priority < ?1 AND (?2 >> shard) & 1 ORDER BY priority DESC, run_no LIMIT ?3";
inline constexpr const char* kDueByTime = HEADWORKS_SELECT_DUE
    "wake_at > 0 AND wake_at <= ?1 AND (priority < ?2 OR (priority = ?2 AND run_no > ?3)) "
    "AND (?4 >> shard) & 1 ORDER BY priority DESC, run_no LIMIT ?5";

// A run with live attempts is due at once, or stuck: of each there is an index.  It is named and
// read first, because the planner does not know how few rows are in it.  A pending run has no
// tasks.
#define HEADWORKS_SELECT_HELD(index, condition)                                     \
  "SELECT t.executor, r.run_no, count(*) FROM run r INDEXED BY " index              \
  " CROSS JOIN task t ON t.tenant_id = r.tenant_id AND t.run_no = r.run_no "        \
  "WHERE (t.state IN (2, 3) OR t.zombie) AND (?1 >> r.shard) & 1 AND r.state <> 1 " \
  "AND " condition " GROUP BY t.executor, r.run_no"
inline constexpr const char* kHeld = HEADWORKS_SELECT_HELD(
    "run_due", "r.wake_at = 0 AND r.stuck_reason = '' AND r.wake_at < 9223372036854775807");
inline constexpr const char* kHeldByStuck =
    HEADWORKS_SELECT_HELD("run_stuck", "r.stuck_reason <> ''");
#undef HEADWORKS_SELECT_HELD

// SQLite writes an index anew for every column of it that a statement names, changed or not: so a
// run that stays where it is in the lists has a statement that names none of theirs.
#define HEADWORKS_UPDATE_RUN(more, condition)                                                   \
  "UPDATE run SET reason = ?4, generation = ?5, next_epoch = ?6, started_at = ?7, "             \
  "paused_at = ?8, cancel_requested_at = ?9, finally_started_at = ?10, finally_stopped = ?11, " \
  "expires_at = ?12, stuck_since = ?13, reset_kind = ?14, reset_task = ?15, counts = ?16" more  \
  " WHERE tenant_id = ?1 AND run_no = ?2" condition
/// Changes nothing if the state is another one: it is in the condition of two indexes.
inline constexpr const char* kUpdateRun = HEADWORKS_UPDATE_RUN("", " AND state = ?3");
inline constexpr const char* kStartRun = HEADWORKS_UPDATE_RUN(", state = ?3", "");
inline constexpr const char* kRelistRun = HEADWORKS_UPDATE_RUN(
    ", state = ?3, priority = ?17, finished_at = ?18, wake_at = ?19, stuck_reason = ?20", "");
#undef HEADWORKS_UPDATE_RUN

/// Writes all that `round` changes (round_writer.cc), inside the caller's transaction.
Status WriteRound(Connection& connection, const store::Round& round, Duration lease_until,
                  const std::string& boot_id);
/// Deletes about `budget` rows of runs whose own row is gone; false = none are left.
Result<bool> SweepDeletedRuns(Connection& connection, std::int64_t budget);
/// Deletes a bounded number of answers that are too old; false = none are left.
Result<bool> ForgetOldAnswers(Connection& connection, Instant now);

}  // namespace headworks::store_sqlite
