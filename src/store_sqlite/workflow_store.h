#pragma once

#include "core.h"
#include "headworks/store/run_store.h"

namespace headworks::store_sqlite {

class SqliteWorkflowStore final : public store::WorkflowStore {
 public:
  explicit SqliteWorkflowStore(Core& core) : core_(core) {}

  Status PutVersion(const TenantId& tenant, std::string_view version,
                    std::string_view canonical_json, Instant now) override;
  Result<std::string> GetVersion(const TenantId& tenant, std::string_view version) override;
  Status Register(const store::WorkflowRecord& record) override;
  Result<store::WorkflowRecord> Get(const model::Namespace& name) override;
  Result<std::vector<store::WorkflowRecord>> List(const TenantId& tenant) override;
  Status Remove(const model::Namespace& name) override;
  Status SetEnabled(const model::Namespace& name, bool enabled) override;

 private:
  Core& core_;
};

}  // namespace headworks::store_sqlite
