#pragma once

#include "core.h"
#include "headworks/store/run_store.h"
#include "rows.h"

namespace headworks::store_sqlite {

/// The statement of ListRuns: it uses the narrowest index that can answer; all give the newest
/// first.
const char* ListStatement(const store::RunQuery::RunFilter& filter);

class SqliteRunQuery final : public store::RunQuery {
 public:
  explicit SqliteRunQuery(Core& core) : core_(core) {}

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

 private:
  Core& core_;
};

// Their indexes are named, because the planner does not know how few rows are in them.
#define HEADWORKS_ACTIVE(index) \
  " FROM run INDEXED BY " index " WHERE tenant_id = ?1 AND workflow = ?2 AND package = ?3 "
#define HEADWORKS_ACTIVE_OF_KEY      \
  HEADWORKS_ACTIVE("run_key_active") \
  "AND concurrency_key = ?4 AND (finished_at = 0 OR wake_at = 0) AND (?5 OR state <> 1) "
#define HEADWORKS_UNDER_WAY HEADWORKS_ACTIVE("run_under_way") "AND finished_at = 0 AND state <> 1 "
#define HEADWORKS_UNFINISHED HEADWORKS_ACTIVE("run_unfinished") "AND finished_at = 0 "
#define HEADWORKS_ZOMBIES HEADWORKS_ACTIVE("run_zombie") "AND finished_at > 0 AND wake_at = 0 "
#define HEADWORKS_LIST(runs, limit) \
  "SELECT " HEADWORKS_RUN_COLUMNS runs "ORDER BY run_no LIMIT " limit
inline constexpr const char* kActiveOfKey = HEADWORKS_LIST(HEADWORKS_ACTIVE_OF_KEY, "?6");
inline constexpr const char* kUnderWay = HEADWORKS_LIST(HEADWORKS_UNDER_WAY, "?4");
inline constexpr const char* kUnfinished = HEADWORKS_LIST(HEADWORKS_UNFINISHED, "?4");
inline constexpr const char* kZombies = HEADWORKS_LIST(HEADWORKS_ZOMBIES, "?4");
inline constexpr const char* kCountActiveOfKey = "SELECT count(*)" HEADWORKS_ACTIVE_OF_KEY;
inline constexpr const char* kCountUnderWay = "SELECT count(*)" HEADWORKS_UNDER_WAY;
inline constexpr const char* kCountUnfinished = "SELECT count(*)" HEADWORKS_UNFINISHED;
inline constexpr const char* kCountZombies = "SELECT count(*)" HEADWORKS_ZOMBIES;
#undef HEADWORKS_LIST
#undef HEADWORKS_ZOMBIES
#undef HEADWORKS_UNFINISHED
#undef HEADWORKS_UNDER_WAY
#undef HEADWORKS_ACTIVE_OF_KEY
#undef HEADWORKS_ACTIVE
inline constexpr const char* kStartsOfKey =
    "SELECT started_at FROM run_start WHERE tenant_id = ?1 AND package = ?2 AND workflow = ?3 "
    "AND concurrency_key = ?4 AND started_at > ?5 ORDER BY started_at";

}  // namespace headworks::store_sqlite
