#pragma once

#include <span>
#include <string_view>

#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"

/// What every store checks of its arguments before it looks at a stored row, so that all refuse
/// alike.  All errors are kInvalidArgument.
namespace headworks::store {

Status CheckTenant(const TenantId& tenant);
/// In range, each once, not none.
Status CheckShards(std::span<const Shard> shards);
Status CheckGuards(std::span<const Guard> guards);
Status CheckTtl(Duration ttl);
/// Guards, lease, tenants; runs that rise and stand on a guarded shard, with an end if and only if
/// they ended, and without tasks or wake-up while they are pending; no run both written and
/// deleted.
Status CheckRound(const Round& round);
/// Tenant, name and limit of a pool, or of several.
Status CheckPool(const TenantId& tenant, std::string_view name, int limit);
Status CheckPools(const TenantId& tenant, const model::PoolLimits& pools);
/// Names, and an end if and only if they are gone.
Status CheckWorkers(std::span<const WorkerRecord> workers);
/// Names, and who says so.
Status CheckOrders(std::span<const WorkerOrder> orders);
Status CheckInboxRows(std::span<const InboxRow> rows);

/// What a text may mean that names a run (`RunQuery::GetRun`).
struct RunReference {
  bool last = false;
  std::optional<RunNo> number;
  /// Lower case; may also be a whole id.  Empty = too short to be one.
  std::string prefix;
};
Result<RunReference> ParseRunReference(std::string_view text);

/// The errors of LimitStore, in one wording.
Error NoSuchPool(std::string_view name);
Error DeclaredPool(std::string_view name);
Error HeldPool(std::string_view name, std::int64_t permits);

Error TooManyOrders(const TenantId& tenant);

/// The errors of GetRun, in one wording.
Error NoSuchRun(std::string_view reference);
Error AmbiguousRun(std::string_view reference, std::span<const std::string> ids);

}  // namespace headworks::store
