#include "worker_store.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <limits>
#include <optional>
#include <set>

#include "headworks/base/json.h"
#include "headworks/store/checks.h"

namespace headworks::store_sqlite {
namespace {

namespace json = boost::json;
using store::WorkerOrder;
using store::WorkerPresence;
using store::WorkerRecord;

#define HEADWORKS_SELECT_WORKER                                                         \
  "SELECT tenant_id, name, incarnation, presence, connected_at, heard_at, written_at, " \
  "gone_at, protocol, gone_why, version, host, labels, queues FROM worker "

/// Of a row of this program's own; beyond what the border lets in.
constexpr JsonLimits kLimits{.max_bytes = std::size_t{1} << 20, .max_depth = 4};

std::string LabelsText(const WorkerRecord& worker) {
  json::array labels;
  for (const std::string& label : worker.labels) labels.emplace_back(label);
  return json::serialize(labels);
}

std::string QueuesText(const WorkerRecord& worker) {
  json::array queues;
  for (const auto& queue : worker.queues)
    queues.emplace_back(json::array{queue.name, queue.slots, queue.held, queue.running});
  return json::serialize(queues);
}

std::optional<std::uint32_t> Count(const json::value& value) {
  const std::int64_t* const number = value.if_int64();
  if (number == nullptr || *number < 0 || *number > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

Status ReadTexts(const std::string& labels, const std::string& queues, WorkerRecord& worker) {
  const auto corrupt = [&](std::string_view what) {
    return Error{Code::kCorrupt,
                 fmt::format("worker {}: its {} cannot be read", worker.name, what)};
  };
  const auto names = ParseJson(labels, kLimits);
  if (!names || !names->is_array()) return corrupt("labels");
  for (const json::value& label : names->get_array()) {
    if (!label.is_string()) return corrupt("labels");
    worker.labels.emplace_back(label.get_string());
  }
  const auto rows = ParseJson(queues, kLimits);
  if (!rows || !rows->is_array()) return corrupt("queues");
  for (const json::value& row : rows->get_array()) {
    const json::array* cells = row.if_array();
    if (cells == nullptr || cells->size() != 4 || !(*cells)[0].is_string())
      return corrupt("queues");
    const auto slots = Count((*cells)[1]), held = Count((*cells)[2]), running = Count((*cells)[3]);
    if (!slots || !held || !running) return corrupt("queues");
    worker.queues.push_back({.name = std::string((*cells)[0].get_string()),
                             .slots = *slots,
                             .held = *held,
                             .running = *running});
  }
  return {};
}

Status ReadWorker(Row row, std::vector<WorkerRecord>& workers) {
  WorkerRecord& worker = workers.emplace_back();
  std::string labels, queues;
  row.Read(worker.tenant, worker.name, worker.incarnation, worker.presence, worker.connected_at,
           worker.heard_at, worker.written_at, worker.gone_at, worker.protocol, worker.gone_why,
           worker.version, worker.host, labels, queues);
  return ReadTexts(labels, queues, worker);
}

Status Write(Connection& c, const WorkerRecord& worker) {
  return c.Run(
      "INSERT INTO worker (tenant_id, name, incarnation, presence, connected_at, heard_at, "
      "written_at, gone_at, protocol, gone_why, version, host, labels, queues) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) "
      "ON CONFLICT DO UPDATE SET presence = ?4, connected_at = ?5, heard_at = ?6, "
      "written_at = ?7, gone_at = ?8, protocol = ?9, gone_why = ?10, version = ?11, host = ?12, "
      "labels = ?13, queues = ?14",
      worker.tenant, worker.name, worker.incarnation, worker.presence, worker.connected_at,
      worker.heard_at, worker.written_at, worker.gone_at, worker.protocol, worker.gone_why,
      worker.version, worker.host, LabelsText(worker), QueuesText(worker));
}

#define HEADWORKS_SELECT_ORDER \
  "SELECT tenant_id, name, incarnation, stands, actor, at, taken FROM worker_order "

void ReadOrder(Row row, std::vector<WorkerOrder>& orders) {
  WorkerOrder& order = orders.emplace_back();
  row.Read(order.tenant, order.name, order.incarnation, order.stands, order.actor, order.at,
           order.taken);
}

}  // namespace

Status SqliteWorkerStore::WriteWorkers(std::span<const WorkerRecord> workers, Instant now) {
  HEADWORKS_TRY(store::CheckWorkers(workers));
  return core_.Write([&](Connection& c) -> Status {
    std::set<TenantId> left;
    for (const WorkerRecord& worker : workers) {
      HEADWORKS_TRY(Write(c, worker));
      if (worker.presence == WorkerPresence::kGone) left.insert(worker.tenant);
    }
    HEADWORKS_TRY(c.Run("DELETE FROM worker WHERE gone_at <> 0 AND gone_at <= ?1", now - kGoneTtl));
    bool forgot = workers.empty() || c.Changes() > 0;
    for (const TenantId& tenant : left) {
      HEADWORKS_TRY(
          c.Run("DELETE FROM worker WHERE tenant_id = ?1 AND (name, incarnation) IN "
                "(SELECT name, incarnation FROM worker WHERE tenant_id = ?1 AND gone_at <> 0 "
                "ORDER BY gone_at DESC, name DESC, incarnation DESC LIMIT -1 OFFSET ?2)",
                tenant, static_cast<std::int64_t>(kMaxGone)));
      forgot |= c.Changes() > 0;
    }
    if (!forgot) return {};
    return c.Run(
        "DELETE FROM worker_order WHERE CASE incarnation WHEN '' THEN stands = 0 AND at <= ?1 "
        "ELSE NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.tenant_id = worker_order.tenant_id "
        "AND w.name = worker_order.name AND w.incarnation = worker_order.incarnation) END",
        now - kGoneTtl);
  });
}

Result<std::vector<WorkerRecord>> SqliteWorkerStore::ListWorkers(const TenantId& tenant) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkerRecord>> {
    std::vector<WorkerRecord> workers;
    HEADWORKS_TRY(c.ForEach(
        HEADWORKS_SELECT_WORKER "WHERE tenant_id = ?1 ORDER BY name, connected_at, incarnation",
        [&](Row row) { return ReadWorker(row, workers); }, tenant));
    return workers;
  });
}

Result<std::vector<WorkerRecord>> SqliteWorkerStore::ListPresent() {
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkerRecord>> {
    std::vector<WorkerRecord> workers;
    HEADWORKS_TRY(c.ForEach(HEADWORKS_SELECT_WORKER
                            "WHERE gone_at = 0 ORDER BY tenant_id, name, incarnation",
                            [&](Row row) {
                              const Status read = ReadWorker(row, workers);
                              if (read) return;
                              workers.back().fault = read.error().message;
                              workers.back().labels.clear();
                              workers.back().queues.clear();
                            }));
    return workers;
  });
}

Status SqliteWorkerStore::Order(std::span<const WorkerOrder> orders) {
  HEADWORKS_TRY(store::CheckOrders(orders));
  return core_.Write([&](Connection& c) -> Status {
    std::set<TenantId> tenants;
    for (const WorkerOrder& order : orders) {
      tenants.insert(order.tenant);
      HEADWORKS_TRY(
          c.Run("INSERT INTO worker_order (tenant_id, name, incarnation, stands, taken, at, actor) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET stands = ?4, "
                "taken = ?5, at = ?6, actor = ?7",
                order.tenant, order.name, order.incarnation, order.stands, order.taken, order.at,
                order.actor));
    }
    for (const TenantId& tenant : tenants) {
      HEADWORKS_ASSIGN(
          const auto count,
          c.Value<std::int64_t>(
              "SELECT count(*) FROM worker_order WHERE tenant_id = ?1 AND stands = 1", tenant));
      if (count.value_or(0) > static_cast<std::int64_t>(kMaxOrders))
        return store::TooManyOrders(tenant);
      HEADWORKS_TRY(
          c.Run("DELETE FROM worker_order WHERE tenant_id = ?1 AND (name, incarnation) IN "
                "(SELECT name, incarnation FROM worker_order WHERE tenant_id = ?1 AND stands = 0 "
                "AND taken = 1 ORDER BY at DESC, name DESC, incarnation DESC LIMIT -1 OFFSET ?2)",
                tenant, static_cast<std::int64_t>(kMaxOrders)));
    }
    return {};
  });
}

Result<std::vector<WorkerOrder>> SqliteWorkerStore::ListOrders(const TenantId& tenant) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkerOrder>> {
    std::vector<WorkerOrder> orders;
    HEADWORKS_TRY(c.ForEach(
        HEADWORKS_SELECT_ORDER "WHERE tenant_id = ?1 ORDER BY name, incarnation",
        [&](Row row) { ReadOrder(row, orders); }, tenant));
    return orders;
  });
}

Result<std::vector<WorkerOrder>> SqliteWorkerStore::ListAllOrders() {
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkerOrder>> {
    std::vector<WorkerOrder> orders;
    HEADWORKS_TRY(c.ForEach(HEADWORKS_SELECT_ORDER "ORDER BY tenant_id, name, incarnation",
                            [&](Row row) { ReadOrder(row, orders); }));
    return orders;
  });
}

Result<std::vector<WorkerOrder>> SqliteWorkerStore::ListNewOrders() {
  return core_.Read([&](Connection& c) -> Result<std::vector<WorkerOrder>> {
    std::vector<WorkerOrder> orders;
    HEADWORKS_TRY(c.ForEach(HEADWORKS_SELECT_ORDER
                            "WHERE taken = 0 ORDER BY tenant_id, name, incarnation",
                            [&](Row row) { ReadOrder(row, orders); }));
    return orders;
  });
}

Status SqliteWorkerStore::NoteTaken(std::span<const WorkerOrder> orders) {
  return core_.Write([&](Connection& c) -> Status {
    for (const WorkerOrder& order : orders)
      HEADWORKS_TRY(
          c.Run("UPDATE worker_order SET taken = 1 WHERE tenant_id = ?1 AND name = ?2 AND "
                "incarnation = ?3 AND at = ?4 AND stands = ?5",
                order.tenant, order.name, order.incarnation, order.at, order.stands));
    return {};
  });
}

}  // namespace headworks::store_sqlite
