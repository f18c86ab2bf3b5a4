#include "workflow_store.h"

#include <fmt/format.h>

#include "headworks/store/checks.h"

namespace headworks::store_sqlite {
namespace {

using store::WorkflowRecord;

Error NoVersion(std::string_view version) {
  return {Code::kNotFound, fmt::format("no workflow version {}", version)};
}
Error NoWorkflow(const model::Namespace& name) {
  return {Code::kNotFound, fmt::format("no workflow {}::{}", name.package, name.workflow)};
}

#define HEADWORKS_SELECT_WORKFLOW                                                 \
  "SELECT tenant_id, package, workflow, version, source, enabled, registered_at " \
  "FROM workflow WHERE tenant_id = ?1 "

void ReadWorkflow(Row row, WorkflowRecord& w) {
  row.Read(w.name.tenant, w.name.package, w.name.workflow, w.version, w.source, w.enabled,
           w.registered_at);
}

}  // namespace

Status SqliteWorkflowStore::PutVersion(const TenantId& tenant, std::string_view version,
                                       std::string_view canonical_json, Instant now) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  if (version.empty()) return Error{Code::kInvalidArgument, "no version given"};
  return core_.Write([&](Connection& c) {
    return c.Run(
        "INSERT INTO workflow_version (tenant_id, version, created_at, canonical_json) "
        "VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        tenant, version, now, Payload{canonical_json});
  });
}

Result<std::string> SqliteWorkflowStore::GetVersion(const TenantId& tenant,
                                                    std::string_view version) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::string> {
    HEADWORKS_ASSIGN(auto json, c.Value<OwnedPayload>("SELECT canonical_json FROM workflow_version "
                                                      "WHERE tenant_id = ?1 AND version = ?2",
                                                      tenant, version));
    if (!json) return NoVersion(version);
    return std::move(json->bytes);
  });
}

Status SqliteWorkflowStore::Register(const WorkflowRecord& record) {
  HEADWORKS_TRY(store::CheckTenant(TenantId(record.name.tenant)));
  return core_.Write([&](Connection& c) -> Status {
    HEADWORKS_TRY(
        c.Run("INSERT INTO workflow (tenant_id, package, workflow, version, source, enabled, "
              "registered_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM workflow_version "
              "WHERE tenant_id = ?1 AND version = ?4 ON CONFLICT DO UPDATE SET version = ?4, "
              "source = ?5, enabled = ?6, registered_at = ?7",
              record.name.tenant, record.name.package, record.name.workflow, record.version,
              record.source, record.enabled, record.registered_at));
    if (c.Changes() == 0) return NoVersion(record.version);
    return {};
  });
}

Result<WorkflowRecord> SqliteWorkflowStore::Get(const model::Namespace& name) {
  HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
  return core_.Read([&](Connection& c) -> Result<WorkflowRecord> {
    std::optional<WorkflowRecord> found;
    HEADWORKS_TRY(c.ForEach(
        HEADWORKS_SELECT_WORKFLOW "AND package = ?2 AND workflow = ?3",
        [&](Row row) { ReadWorkflow(row, found.emplace()); }, name.tenant, name.package,
        name.workflow));
    if (!found) return NoWorkflow(name);
    return *std::move(found);
  });
}

Result<std::vector<WorkflowRecord>> SqliteWorkflowStore::List(const TenantId& tenant) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkflowRecord>> {
    std::vector<WorkflowRecord> records;
    HEADWORKS_TRY(c.ForEach(
        HEADWORKS_SELECT_WORKFLOW "ORDER BY package, workflow",
        [&](Row row) { ReadWorkflow(row, records.emplace_back()); }, tenant));
    return records;
  });
}

Status SqliteWorkflowStore::Remove(const model::Namespace& name) {
  HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
  return core_.Write([&](Connection& c) -> Status {
    HEADWORKS_TRY(
        c.Run("DELETE FROM workflow WHERE tenant_id = ?1 AND package = ?2 AND workflow = ?3",
              name.tenant, name.package, name.workflow));
    if (c.Changes() == 0) return NoWorkflow(name);
    return {};
  });
}

Status SqliteWorkflowStore::SetEnabled(const model::Namespace& name, bool enabled) {
  HEADWORKS_TRY(store::CheckTenant(TenantId(name.tenant)));
  return core_.Write([&](Connection& c) -> Status {
    HEADWORKS_TRY(
        c.Run("UPDATE workflow SET enabled = ?4 "
              "WHERE tenant_id = ?1 AND package = ?2 AND workflow = ?3",
              name.tenant, name.package, name.workflow, enabled));
    if (c.Changes() == 0) return NoWorkflow(name);
    return {};
  });
}

}  // namespace headworks::store_sqlite
