#include "limit_store.h"

#include "headworks/store/checks.h"

namespace headworks::store_sqlite {
namespace {

using store::Permit;
using store::PoolRecord;

#define HEADWORKS_SELECT_PERMIT \
  "SELECT tenant_id, run_no, epoch, task_no, pool, weight, granted_at FROM permit "

void ReadPermit(Row row, Permit& permit) {
  row.Read(permit.tenant, permit.run, permit.epoch, permit.task, permit.pool, permit.weight,
           permit.granted_at);
}

}  // namespace

Status SqliteLimitStore::SetPool(const TenantId& tenant, std::string_view name, int limit,
                                 Instant now) {
  HEADWORKS_TRY(store::CheckPool(tenant, name, limit));
  return core_.Write([&](Connection& c) -> Status {
    HEADWORKS_TRY(
        c.Run("INSERT INTO pool (tenant_id, name, permits, declared, set_at) "
              "VALUES (?1, ?2, ?3, 0, ?4) ON CONFLICT DO UPDATE SET permits = ?3, set_at = ?4 "
              "WHERE declared = 0",
              tenant, name, limit, now));
    if (c.Changes() == 0) return store::DeclaredPool(name);
    return {};
  });
}

Status SqliteLimitStore::DeletePool(const TenantId& tenant, std::string_view name) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Write([&](Connection& c) -> Status {
    HEADWORKS_ASSIGN(const auto declared,
                     c.Value<bool>("SELECT declared FROM pool WHERE tenant_id = ?1 AND name = ?2",
                                   tenant, name));
    if (!declared) return store::NoSuchPool(name);
    if (*declared) return store::DeclaredPool(name);
    HEADWORKS_ASSIGN(
        const auto held,
        c.Value<std::int64_t>(
            "SELECT coalesce(sum(weight), 0) FROM permit WHERE tenant_id = ?1 AND pool = ?2",
            tenant, name));
    if (held.value_or(0) > 0) return store::HeldPool(name, *held);
    return c.Run("DELETE FROM pool WHERE tenant_id = ?1 AND name = ?2", tenant, name);
  });
}

Status SqliteLimitStore::DeclarePools(const TenantId& tenant, const model::PoolLimits& pools,
                                      Instant now) {
  HEADWORKS_TRY(store::CheckPools(tenant, pools));
  return core_.Write([&](Connection& c) -> Status {
    std::vector<std::string> declared;
    HEADWORKS_TRY(c.ForEach(
        "SELECT name FROM pool WHERE tenant_id = ?1 AND declared",
        [&](Row row) { declared.push_back(row.Get<std::string>(0)); }, tenant));
    for (const std::string& name : declared) {
      if (pools.contains(name)) continue;
      HEADWORKS_TRY(
          c.Run("UPDATE pool SET declared = 0 WHERE tenant_id = ?1 AND name = ?2", tenant, name));
    }
    for (const auto& [name, limit] : pools) {
      HEADWORKS_TRY(
          c.Run("INSERT INTO pool (tenant_id, name, permits, declared, set_at) "
                "VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT DO UPDATE SET permits = ?3, "
                "declared = 1, set_at = ?4 WHERE permits <> ?3 OR declared = 0",
                tenant, name, limit, now));
    }
    return {};
  });
}

Result<std::vector<PoolRecord>> SqliteLimitStore::ListPools(const TenantId& tenant) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<PoolRecord>> {
    std::vector<PoolRecord> pools;
    HEADWORKS_TRY(c.ForEach(
        "SELECT name, permits, declared, set_at FROM pool WHERE tenant_id = ?1 ORDER BY name",
        [&](Row row) {
          PoolRecord& pool = pools.emplace_back();
          row.Read(pool.name, pool.limit, pool.declared, pool.set_at);
        },
        tenant));
    return pools;
  });
}

Result<std::vector<Permit>> SqliteLimitStore::ListPermits(const TenantId& tenant) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<Permit>> {
    std::vector<Permit> permits;
    HEADWORKS_TRY(c.ForEach(
        HEADWORKS_SELECT_PERMIT "WHERE tenant_id = ?1 ORDER BY run_no, epoch",
        [&](Row row) { ReadPermit(row, permits.emplace_back()); }, tenant));
    return permits;
  });
}

Result<std::vector<Permit>> SqliteLimitStore::ListAllPermits() {
  return core_.Read([&](Connection& c) -> Result<std::vector<Permit>> {
    std::vector<Permit> permits;
    HEADWORKS_TRY(c.ForEach(HEADWORKS_SELECT_PERMIT "ORDER BY tenant_id, run_no, epoch",
                            [&](Row row) { ReadPermit(row, permits.emplace_back()); }));
    return permits;
  });
}

}  // namespace headworks::store_sqlite
