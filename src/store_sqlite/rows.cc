#include "rows.h"

#include <fmt/format.h>

namespace headworks::store_sqlite {
namespace {

constexpr char kCountsFormat = 1;

}  // namespace

std::string EncodeCounts(const Counts& counts) {
  std::string bytes(1, kCountsFormat);
  for (std::uint32_t count : counts) {
    for (; count >= 0x80; count >>= 7) bytes.push_back(static_cast<char>(count | 0x80));
    bytes.push_back(static_cast<char>(count));
  }
  return bytes;
}

bool DecodeCounts(std::string_view bytes, Counts& counts) {
  if (bytes.empty() || bytes[0] != kCountsFormat) return false;
  std::size_t next = 1;
  for (std::uint32_t& count : counts) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (next == bytes.size() || shift > 28) return false;
      const auto byte = static_cast<unsigned char>(bytes[next++]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) break;
    }
    if (value > UINT32_MAX) return false;
    count = static_cast<std::uint32_t>(value);
  }
  return next == bytes.size();
}

Status ReadHeader(Row row, model::RunHeader& h) {
  std::string counts;
  row.Read(h.tenant, h.run_no, h.run_id, h.name.package, h.name.workflow, h.version, h.shard,
           h.created_at, h.start_key, h.trace_context, h.rerun_of, h.root_run, h.state, h.reason,
           h.priority, h.generation, h.next_epoch, h.started_at, h.finished_at, h.paused_at,
           h.cancel_requested_at, h.finally_started_at, h.finally_stopped, h.expires_at, h.wake_at,
           h.stuck_since, h.reset.kind, h.reset.task, counts, h.stuck_reason, h.concurrency_key);
  h.name.tenant = h.tenant.value;
  if (!DecodeCounts(counts, h.counts)) {
    return Error{
        Code::kCorrupt,
        fmt::format("run {}: its counts are damaged; run `headworks db check`", h.run_no.value)};
  }
  return {};
}

void ReadTask(Row row, store::TaskRecord& task) {
  auto& t = task.row;
  row.Read(t.task, t.state, t.reason, t.epoch, t.generation, t.snoozes, t.tries, t.losses,
           t.dispatch_failures, t.zombie, t.admitted, t.not_before, t.since, t.deadline,
           task.executor, task.holder);
}

Error NoRun(RunNo run) { return {Code::kNotFound, fmt::format("no run {}", run.value)}; }

Status RequireRun(Connection& connection, const TenantId& tenant, RunNo run) {
  HEADWORKS_ASSIGN(
      const auto found,
      connection.Value<int>("SELECT 1 FROM run WHERE tenant_id = ?1 AND run_no = ?2", tenant, run));
  if (!found) return NoRun(run);
  return {};
}

}  // namespace headworks::store_sqlite
