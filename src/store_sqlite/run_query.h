#pragma once

#include "core.h"
#include "headworks/store/run_store.h"

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

}  // namespace headworks::store_sqlite
