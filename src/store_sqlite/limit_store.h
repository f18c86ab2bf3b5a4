#pragma once

#include "core.h"
#include "headworks/store/run_store.h"

namespace headworks::store_sqlite {

class SqliteLimitStore final : public store::LimitStore {
 public:
  explicit SqliteLimitStore(Core& core) : core_(core) {}

  Status SetPool(const TenantId& tenant, std::string_view name, int limit, Instant now) override;
  Status DeletePool(const TenantId& tenant, std::string_view name) override;
  Status DeclarePools(const TenantId& tenant, const model::PoolLimits& pools, Instant now) override;
  Result<std::vector<store::PoolRecord>> ListPools(const TenantId& tenant) override;
  Result<std::vector<store::Permit>> ListPermits(const TenantId& tenant) override;
  Result<std::vector<store::Permit>> ListAllPermits() override;

 private:
  Core& core_;
};

}  // namespace headworks::store_sqlite
