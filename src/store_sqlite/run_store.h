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

 private:
  Status AcquireShard(Connection& connection, Shard shard, std::string_view owner, Duration ttl,
                      std::vector<store::Guard>& guards);

  Core& core_;
  Instant next_forgetting_{};  // of old answers; under the writer's mutex
};

// ListDueTenants: from one tenant's first entry in the index to the next one's.  Most entries of a
// tenant are passed over unread, which no DISTINCT would do.
#define HEADWORKS_IS_DUE_ONCE "stuck_reason = '' AND wake_at < 9223372036854775807"
#define HEADWORKS_NEXT_TENANT(after)                                                  \
  "SELECT (SELECT tenant_id FROM run INDEXED BY run_due WHERE " HEADWORKS_IS_DUE_ONCE \
  " AND tenant_id > " after " ORDER BY tenant_id LIMIT 1)"
#define HEADWORKS_WITH_TENANTS(after)                      \
  "WITH RECURSIVE tenant (id) AS (" HEADWORKS_NEXT_TENANT( \
      after) " UNION ALL " HEADWORKS_NEXT_TENANT("id") " FROM tenant WHERE id IS NOT NULL) "
inline constexpr const char* kDueTenants = HEADWORKS_WITH_TENANTS("?1")
    "SELECT id FROM tenant WHERE id IS NOT NULL AND EXISTS (SELECT 1 FROM run INDEXED BY run_due "
    "WHERE " HEADWORKS_IS_DUE_ONCE " AND tenant_id = id AND wake_at <= ?2 AND (?3 >> shard) & 1) "
    "LIMIT ?4";

// ListDue, in the order of the index: what is left of the time and priority of `after`, then of
// that time, then what is to be woken later.  "Unlikely", or the planner would rather look through
// all times below the last one, which the index's condition names.
#define HEADWORKS_SELECT_DUE                                                                  \
  "SELECT " HEADWORKS_RUN_COLUMNS " FROM run INDEXED BY run_due WHERE " HEADWORKS_IS_DUE_ONCE \
  " AND tenant_id = ?1 AND "
inline constexpr const char* kDueOfPriority = HEADWORKS_SELECT_DUE
    "unlikely(wake_at = ?2) AND priority = ?3 AND run_no > ?4 AND (?5 >> shard) & 1 "
    "ORDER BY run_no LIMIT ?6";
inline constexpr const char* kDueBelow = HEADWORKS_SELECT_DUE
    "unlikely(wake_at = ?2) AND priority < ?3 AND (?4 >> shard) & 1 ORDER BY priority DESC, run_no "
    "LIMIT ?5";
inline constexpr const char* kDueLater = HEADWORKS_SELECT_DUE
    "wake_at > ?2 AND wake_at <= ?3 AND (?4 >> shard) & 1 "
    "ORDER BY wake_at, priority DESC, run_no LIMIT ?5";
#undef HEADWORKS_SELECT_DUE

// A run with live attempts is due at once, or stuck: of each there is an index.  It is named and
// read first, because the planner does not know how few rows are in it.  A pending run has no
// tasks.
#define HEADWORKS_SELECT_HELD(runs, condition)                                      \
  "SELECT t.executor, r.run_no, count(*) FROM " runs                                \
  " CROSS JOIN task t ON t.tenant_id = r.tenant_id AND t.run_no = r.run_no "        \
  "WHERE (t.state IN (2, 3) OR t.zombie) AND (?1 >> r.shard) & 1 AND r.state <> 1 " \
  "AND " condition " GROUP BY t.executor, r.run_no"
inline constexpr const char* kHeld = HEADWORKS_WITH_TENANTS("''") HEADWORKS_SELECT_HELD(
    "tenant CROSS JOIN run r INDEXED BY run_due",
    "r.tenant_id = tenant.id AND unlikely(r.wake_at = 0) AND r.stuck_reason = '' "
    "AND r.wake_at < 9223372036854775807");
inline constexpr const char* kHeldByStuck =
    HEADWORKS_SELECT_HELD("run r INDEXED BY run_stuck", "r.stuck_reason <> ''");
#undef HEADWORKS_SELECT_HELD
#undef HEADWORKS_WITH_TENANTS
#undef HEADWORKS_NEXT_TENANT
#undef HEADWORKS_IS_DUE_ONCE

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
