#include "run_query.h"

#include <algorithm>
#include <numeric>

#include "headworks/store/checks.h"
#include "rows.h"

namespace headworks::store_sqlite {
namespace {

using store::RunRecord;

/// Rows that are passed over rather than looked up anew.
constexpr std::uint32_t kNearTasks = 8;

#define HEADWORKS_SELECT_RUN "SELECT " HEADWORKS_RUN_COLUMNS " FROM run WHERE tenant_id = ?1 "

Result<std::vector<RunRecord>> FindByPrefix(Connection& c, const TenantId& tenant,
                                            std::string_view prefix, std::int64_t limit) {
  std::vector<RunRecord> runs;
  if (prefix.empty()) return runs;
  // A range, because LIKE and GLOB would read wildcards into the prefix.  No UTF-8 text is above
  // its own prefix followed by the highest character.
  const std::string above = std::string(prefix) + "\xF4\x8F\xBF\xBF";
  HEADWORKS_TRY(c.ForEach(
      HEADWORKS_SELECT_RUN "AND run_id >= ?2 AND run_id < ?3 ORDER BY run_id LIMIT ?4",
      [&](Row row) { return ReadHeader(row, runs.emplace_back().header); }, tenant, prefix, above,
      limit));
  return runs;
}

}  // namespace

const char* ListStatement(const store::RunQuery::RunFilter& filter) {
#define HEADWORKS_LIST_RUNS(condition)                                             \
  HEADWORKS_SELECT_RUN "AND run_no < ?2 AND " condition                            \
                       " AND (?3 >> state) & 1 AND (?4 IS NULL OR workflow = ?4) " \
                       "AND (NOT ?5 OR stuck_reason <> '') ORDER BY run_no DESC LIMIT ?6"
  const auto only = [&](model::RunState one, model::RunState other) {
    return !filter.states.empty() && std::ranges::all_of(filter.states, [&](auto state) {
      return state == one || state == other;
    });
  };
  if (filter.stuck_only) return HEADWORKS_LIST_RUNS("stuck_reason <> ''");
  if (only(model::RunState::kPending, model::RunState::kRunning)) {
    return HEADWORKS_LIST_RUNS("finished_at = 0");
  }
  if (only(model::RunState::kFailed, model::RunState::kCancelled)) {
    return HEADWORKS_LIST_RUNS("state IN (4, 5)");
  }
  if (filter.workflow) return HEADWORKS_LIST_RUNS("workflow = ?4");
  return HEADWORKS_LIST_RUNS("TRUE");
#undef HEADWORKS_LIST_RUNS
}

Result<RunRecord> SqliteRunQuery::GetRun(const TenantId& tenant, std::string_view reference) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  HEADWORKS_ASSIGN(const auto wanted, store::ParseRunReference(reference));
  return core_.Read([&](Connection& c) -> Result<RunRecord> {
    std::optional<RunRecord> found;
    const auto read = [&](Row row) { return ReadHeader(row, found.emplace().header); };
    if (wanted.last) {
      HEADWORKS_TRY(c.ForEach(HEADWORKS_SELECT_RUN "ORDER BY run_no DESC LIMIT 1", read, tenant));
    } else if (wanted.number) {
      HEADWORKS_TRY(
          c.ForEach(HEADWORKS_SELECT_RUN "AND run_no = ?2", read, tenant, *wanted.number));
    }
    if (found) return *std::move(found);
    HEADWORKS_ASSIGN(auto runs, FindByPrefix(c, tenant, wanted.prefix, 6));
    if (runs.empty()) return store::NoSuchRun(reference);
    if (runs.size() > 1 && runs[0].header.run_id.value != wanted.prefix) {
      std::vector<std::string> ids;
      ids.reserve(runs.size());
      for (const RunRecord& run : runs) ids.push_back(run.header.run_id.value);
      return store::AmbiguousRun(reference, ids);
    }
    return std::move(runs[0]);
  });
}

Result<std::vector<RunRecord>> SqliteRunQuery::ListRuns(const TenantId& tenant,
                                                        const RunFilter& filter) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  std::uint64_t states = 0;
  for (const model::RunState state : filter.states) {
    states |= std::uint64_t{1} << static_cast<unsigned>(state);
  }
  if (states == 0) states = ~states;
  return core_.Read([&](Connection& c) -> Result<std::vector<RunRecord>> {
    std::vector<RunRecord> runs;
    HEADWORKS_TRY(c.ForEach(
        ListStatement(filter), [&](Row row) { return ReadHeader(row, runs.emplace_back().header); },
        tenant, filter.before ? filter.before->value : INT64_MAX, states, filter.workflow,
        filter.stuck_only, filter.limit));
    return runs;
  });
}

Result<std::vector<RunRecord>> SqliteRunQuery::ListActive(const TenantId& tenant,
                                                          const ActiveFilter& filter) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  std::vector<RunRecord> runs;
  if (filter.name.tenant != tenant.value) return runs;
  return core_.Read([&](Connection& c) -> Result<std::vector<RunRecord>> {
    const auto read = [&](Row row) { return ReadHeader(row, runs.emplace_back().header); };
    if (filter.key) {
      HEADWORKS_TRY(c.ForEach(kActiveOfKey, read, tenant, filter.name.workflow, filter.name.package,
                              *filter.key, filter.pending, filter.limit));
      return std::move(runs);
    }
    HEADWORKS_TRY(c.ForEach(filter.pending ? kUnfinished : kUnderWay, read, tenant,
                            filter.name.workflow, filter.name.package, filter.limit));
    HEADWORKS_TRY(
        c.ForEach(kZombies, read, tenant, filter.name.workflow, filter.name.package, filter.limit));
    std::ranges::sort(runs, {}, [](const RunRecord& run) { return run.header.run_no; });
    runs.resize(std::min(runs.size(), filter.limit));
    return std::move(runs);
  });
}

Result<std::size_t> SqliteRunQuery::CountActive(const TenantId& tenant,
                                                const ActiveFilter& filter) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  if (filter.name.tenant != tenant.value) return 0;
  const model::Namespace& name = filter.name;
  return core_.Read([&](Connection& c) -> Result<std::size_t> {
    std::optional<std::size_t> found, zombies;
    if (filter.key) {
      HEADWORKS_ASSIGN(found, c.Value<std::size_t>(kCountActiveOfKey, tenant, name.workflow,
                                                   name.package, *filter.key, filter.pending));
    } else {
      HEADWORKS_ASSIGN(
          found, c.Value<std::size_t>(filter.pending ? kCountUnfinished : kCountUnderWay, tenant,
                                      name.workflow, name.package));
      HEADWORKS_ASSIGN(zombies,
                       c.Value<std::size_t>(kCountZombies, tenant, name.workflow, name.package));
    }
    return std::min(found.value_or(0) + zombies.value_or(0), filter.limit);
  });
}

Result<std::vector<Instant>> SqliteRunQuery::ListStarts(const model::Namespace& name,
                                                        std::string_view key, Instant after) {
  const TenantId tenant(name.tenant);
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<Instant>> {
    std::vector<Instant> starts;
    HEADWORKS_TRY(c.ForEach(
        kStartsOfKey, [&](Row row) { starts.push_back(row.Get<Instant>(0)); }, tenant, name.package,
        name.workflow, key, after));
    return starts;
  });
}

Result<std::vector<store::TaskRecord>> SqliteRunQuery::ListTasks(const TenantId& tenant, RunNo run,
                                                                 std::optional<TaskNo> after,
                                                                 std::size_t limit) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<store::TaskRecord>> {
    HEADWORKS_TRY(RequireRun(c, tenant, run));
    std::vector<store::TaskRecord> tasks;
    HEADWORKS_TRY(c.ForEach(
        "SELECT " HEADWORKS_TASK_COLUMNS
        ", output IS NOT NULL FROM task WHERE tenant_id = ?1 AND run_no = ?2 AND task_no > ?3 "
        "ORDER BY task_no, map_index LIMIT ?4",
        [&](Row row) {
          constexpr int kAfterTaskColumns = 16;
          ReadTask(row, tasks.emplace_back());
          tasks.back().has_output = row.Get<bool>(kAfterTaskColumns);
        },
        tenant, run, after ? std::int64_t{after->value} : -1, limit));
    return tasks;
  });
}

Result<std::vector<model::AttemptRecord>> SqliteRunQuery::ListAttempts(
    const TenantId& tenant, RunNo run, std::optional<TaskNo> task, Epoch after, std::size_t limit) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<model::AttemptRecord>> {
    HEADWORKS_TRY(RequireRun(c, tenant, run));
    std::vector<model::AttemptRecord> attempts;
    HEADWORKS_TRY(c.ForEach(
        "SELECT task_no, epoch, try_no, generation, queued_at, verdict, reason, error, exit_code, "
        "signal, not_before, started_at, ended_at FROM attempt WHERE tenant_id = ?1 "
        "AND run_no = ?2 AND epoch > ?3 AND (?4 IS NULL OR task_no = ?4) ORDER BY epoch LIMIT ?5",
        [&](Row row) {
          model::AttemptRecord& a = attempts.emplace_back();
          model::Outcome& o = a.outcome;
          row.Read(a.task, a.epoch, a.try_no, a.generation, a.queued_at, o.verdict, o.reason,
                   o.error, o.exit_code, o.signal, o.not_before, o.started_at, o.ended_at);
        },
        tenant, run, after, task, limit));
    return attempts;
  });
}

Result<std::vector<model::RunEventRecord>> SqliteRunQuery::ListEvents(const TenantId& tenant,
                                                                      RunNo run,
                                                                      std::size_t limit) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<model::RunEventRecord>> {
    HEADWORKS_TRY(RequireRun(c, tenant, run));
    std::vector<model::RunEventRecord> events;
    HEADWORKS_TRY(c.ForEach(
        "SELECT at, kind, actor, detail FROM run_event WHERE tenant_id = ?1 AND run_no = ?2 "
        "ORDER BY seq DESC LIMIT ?3",
        [&](Row row) {
          model::RunEventRecord& e = events.emplace_back();
          row.Read(e.at, e.kind, e.actor, e.detail);
        },
        tenant, run, limit));
    std::ranges::reverse(events);
    return events;
  });
}

Result<std::vector<store::TaskEnd>> SqliteRunQuery::ReadEnds(const TenantId& tenant, RunNo run,
                                                             std::span<const TaskNo> tasks) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::vector<store::TaskEnd>> {
    HEADWORKS_TRY(RequireRun(c, tenant, run));
    std::vector<store::TaskEnd> ends(tasks.size());
    // In order of number, and neighbours by one walk along the key: a join of 10,000 asks once.
    std::vector<std::size_t> order(tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return tasks[i]; });
    for (std::size_t next = 0; next < order.size();) {
      std::size_t end = next + 1;
      while (end < order.size() &&
             tasks[order[end]].value - tasks[order[end - 1]].value <= kNearTasks)
        ++end;
      HEADWORKS_TRY(c.ForEach(
          "SELECT task_no, state, output FROM task WHERE tenant_id = ?1 AND run_no = ?2 "
          "AND task_no BETWEEN ?3 AND ?4 AND map_index = -1 ORDER BY task_no",
          [&](Row row) {
            const auto task = row.Get<TaskNo>(0);
            while (next < end && tasks[order[next]] < task) ++next;
            for (; next < end && tasks[order[next]] == task; ++next) {
              ends[order[next]].state = row.Get<model::TaskState>(1);
              if (auto output = row.Get<std::optional<OwnedPayload>>(2))
                ends[order[next]].output = std::move(output->bytes);
            }
          },
          tenant, run, tasks[order[next]], tasks[order[end - 1]]));
      next = end;
    }
    return ends;
  });
}

Result<std::string> SqliteRunQuery::ReadInput(const TenantId& tenant, RunNo run) {
  HEADWORKS_TRY(store::CheckTenant(tenant));
  return core_.Read([&](Connection& c) -> Result<std::string> {
    HEADWORKS_TRY(RequireRun(c, tenant, run));
    HEADWORKS_ASSIGN(auto input,
                     c.Value<OwnedPayload>("SELECT input FROM run_input WHERE tenant_id = ?1 "
                                           "AND run_no = ?2",
                                           tenant, run));
    return input ? std::move(input->bytes) : std::string();
  });
}

}  // namespace headworks::store_sqlite
