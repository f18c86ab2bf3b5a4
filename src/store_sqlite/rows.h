#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/store/run_store.h"
#include "sqlite.h"

/// Columns of the tables that several files read, and what they mean.
namespace headworks::store_sqlite {

/// In the order of ReadHeader.
#define HEADWORKS_RUN_COLUMNS                                                             \
  "tenant_id, run_no, run_id, package, workflow, version, shard, created_at, start_key, " \
  "trace_context, rerun_of, root_run, state, reason, priority, generation, next_epoch, "  \
  "started_at, finished_at, paused_at, cancel_requested_at, finally_started_at, "         \
  "finally_stopped, expires_at, wake_at, stuck_since, reset_kind, reset_task, counts, "   \
  "stuck_reason, concurrency_key"
/// In the order of ReadTask.
#define HEADWORKS_TASK_COLUMNS                                                             \
  "task_no, state, reason, epoch, generation, snoozes, tries, losses, dispatch_failures, " \
  "zombie, admitted, not_before, since, deadline, executor, holder"

using Counts = std::array<std::uint32_t, model::kTaskStateCount>;
/// A format number, then the counts as varints.
std::string EncodeCounts(const Counts& counts);
/// False if `bytes` are not that.
bool DecodeCounts(std::string_view bytes, Counts& counts);

/// kCorrupt if the row is not one that this program can have written.
Status ReadHeader(Row row, model::RunHeader& header);
void ReadTask(Row row, store::TaskRecord& task);

Error NoRun(RunNo run);
/// kNotFound unless the run is there.
Status RequireRun(Connection& connection, const TenantId& tenant, RunNo run);

}  // namespace headworks::store_sqlite
