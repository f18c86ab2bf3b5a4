#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "rows.h"
#include "run_store.h"

/// The rows of a round.  All of it happens inside the transaction of `Commit`.
namespace headworks::store_sqlite {
namespace {

/// So that a large deleted run delays no round.
constexpr std::int64_t kSweepBudget = 2'000;

using model::RunHeader;
using store::Round;
using store::RunWrite;

Status MoveGuard(Connection& c, const store::Guard& guard, Duration lease_until,
                 const std::string& boot_id) {
  HEADWORKS_TRY(
      c.Run("UPDATE guard SET round = ?3, lease_until = ?4, boot_id = ?5 "
            "WHERE shard = ?1 AND term = ?2 AND round = ?3 - 1 AND owner IS NOT NULL",
            guard.shard, guard.term, guard.round, lease_until, boot_id));
  if (c.Changes() == 1) return {};
  return Error{Code::kLeaseLost,
               fmt::format("shard {}: round {} of term {} does not follow what is stored",
                           guard.shard.value, guard.round.value, guard.term.value)};
}

/// Nothing is due before the first of all times, at which ListDue finds what waits for nothing.
Instant WakeAt(const RunHeader& h) { return std::max(h.wake_at, Instant{}); }

Status InsertRun(Connection& c, const RunWrite& write) {
  const RunHeader& h = write.header;
  const std::string counts = EncodeCounts(h.counts);
  HEADWORKS_TRY(c.Run(
      "INSERT INTO run (" HEADWORKS_RUN_COLUMNS
      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
      "?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31)",
      h.tenant, h.run_no, h.run_id, h.name.package, h.name.workflow, h.version, h.shard,
      h.created_at, h.start_key, h.trace_context, h.rerun_of, h.root_run, h.state, h.reason,
      h.priority, h.generation, h.next_epoch, h.started_at, h.finished_at, h.paused_at,
      h.cancel_requested_at, h.finally_started_at, h.finally_stopped, h.expires_at, WakeAt(h),
      h.stuck_since, h.reset.kind, h.reset.task, Blob{counts}, h.stuck_reason, h.concurrency_key));
  return c.Run("INSERT INTO run_input (tenant_id, run_no, input) VALUES (?1, ?2, ?3)", h.tenant,
               h.run_no, Payload{*write.insert_input});
}

Status UpdateRun(Connection& c, const RunWrite& write) {
  const RunHeader& h = write.header;
  const std::string counts = EncodeCounts(h.counts);
  const auto run = [&](const char* sql, const auto&... more) {
    return c.Run(sql, h.tenant, h.run_no, h.state, h.reason, h.generation, h.next_epoch,
                 h.started_at, h.paused_at, h.cancel_requested_at, h.finally_started_at,
                 h.finally_stopped, h.expires_at, h.stuck_since, h.reset.kind, h.reset.task,
                 Blob{counts}, more...);
  };
  if (write.relist) {
    HEADWORKS_TRY(run(kRelistRun, h.priority, h.finished_at, WakeAt(h), h.stuck_reason));
  } else {
    // One that starts has no ended attempts yet, as a rule.
    if (!write.attempts.empty()) HEADWORKS_TRY(run(kUpdateRun));
    if (write.attempts.empty() || c.Changes() == 0) HEADWORKS_TRY(run(kStartRun));
  }
  if (c.Changes() == 0) return NoRun(h.run_no);
  return {};
}

#define HEADWORKS_SET_TASK                                                                \
  " SET state = ?4, reason = ?5, epoch = ?6, generation = ?7, snoozes = ?8, tries = ?9, " \
  "losses = ?10, dispatch_failures = ?11, zombie = ?12, admitted = ?13, "                 \
  "not_before = ?14, since = ?15, deadline = ?16, executor = ?17, holder = ?18, "         \
  "output = iif(?20, ?19, output)"

Status WriteTask(Connection& c, const RunHeader& h, const RunWrite::TaskWrite& task) {
  const model::StoredTask& t = task.row;
  const auto output =
      task.output && !task.output->empty() ? std::optional(Payload{*task.output}) : std::nullopt;
  // An upsert would look for the row twice.
  const char* const sql =
      task.known
          ? "UPDATE task" HEADWORKS_SET_TASK
            " WHERE tenant_id = ?1 AND run_no = ?2 AND task_no = ?3 AND map_index = -1"
          : "INSERT INTO task (tenant_id, run_no, map_index, " HEADWORKS_TASK_COLUMNS
            ", output) VALUES (?1, ?2, -1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
            "?15, ?16, ?17, ?18, ?19) ON CONFLICT DO UPDATE" HEADWORKS_SET_TASK;
  HEADWORKS_TRY(c.Run(sql, h.tenant, h.run_no, t.task, t.state, t.reason, t.epoch, t.generation,
                      t.snoozes, t.tries, t.losses, t.dispatch_failures, t.zombie, t.admitted,
                      t.not_before, t.since, t.deadline, task.executor, task.holder, output,
                      task.output.has_value()));
  if (c.Changes() == 1) return {};
  return Error{Code::kNotFound,
               fmt::format("run {}: task {} has no row", h.run_no.value, t.task.value)};
}

Status InsertAttempt(Connection& c, const RunHeader& h, const model::AttemptRecord& a) {
  const model::Outcome& o = a.outcome;
  return c.Run(
      "INSERT INTO attempt (tenant_id, run_no, epoch, task_no, map_index, try_no, generation, "
      "verdict, reason, exit_code, signal, queued_at, started_at, ended_at, not_before, error) "
      "VALUES (?1, ?2, ?3, ?4, -1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
      h.tenant, h.run_no, a.epoch, a.task, a.try_no, a.generation, o.verdict, o.reason, o.exit_code,
      o.signal, a.queued_at, o.started_at, o.ended_at, o.not_before, o.error);
}

Status InsertEvents(Connection& c, const RunWrite& write) {
  const RunHeader& h = write.header;
  std::int64_t seq = 0;
  if (!write.insert_input) {
    HEADWORKS_ASSIGN(const auto last, c.Value<std::int64_t>("SELECT max(seq) FROM run_event "
                                                            "WHERE tenant_id = ?1 AND run_no = ?2",
                                                            h.tenant, h.run_no));
    seq = last.value_or(0);
  }
  for (const model::RunEventRecord& event : write.events) {
    HEADWORKS_TRY(
        c.Run("INSERT INTO run_event (tenant_id, run_no, seq, at, kind, actor, detail) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
              h.tenant, h.run_no, ++seq, event.at, event.kind, event.actor, event.detail));
  }
  return {};
}

Status WriteStart(Connection& c, const RunWrite& write) {
  constexpr std::int64_t kForgotten = 100;  // at a time, so that no start waits long
  const RunHeader& h = write.header;
  HEADWORKS_TRY(
      c.Run("DELETE FROM run_start WHERE (tenant_id, package, workflow, concurrency_key, "
            "started_at, run_no) IN (SELECT tenant_id, package, workflow, concurrency_key, "
            "started_at, run_no FROM run_start WHERE counts_until <= ?1 LIMIT ?2)",
            write.start->at, kForgotten));
  return c.Run(
      "INSERT INTO run_start (tenant_id, package, workflow, concurrency_key, started_at, run_no, "
      "counts_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
      h.tenant, h.name.package, h.name.workflow, *h.concurrency_key, write.start->at, h.run_no,
      write.start->until);
}

Status WritePermits(Connection& c, const RunWrite& write) {
  const RunHeader& h = write.header;
  for (const Epoch epoch : write.freed) {
    HEADWORKS_TRY(c.Run("DELETE FROM permit WHERE tenant_id = ?1 AND run_no = ?2 AND epoch = ?3",
                        h.tenant, h.run_no, epoch));
  }
  for (const RunWrite::Grant& grant : write.grants) {
    HEADWORKS_TRY(c.Run(
        "INSERT INTO permit (tenant_id, run_no, epoch, task_no, pool, weight, granted_at) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        h.tenant, h.run_no, grant.epoch, grant.task, grant.pool, grant.weight, grant.granted_at));
  }
  return {};
}

Status WriteRun(Connection& c, const RunWrite& write) {
  if (write.insert_input) {
    HEADWORKS_TRY(InsertRun(c, write));
  } else {
    HEADWORKS_TRY(UpdateRun(c, write));
  }
  for (const auto& task : write.tasks) HEADWORKS_TRY(WriteTask(c, write.header, task));
  for (const auto& attempt : write.attempts) HEADWORKS_TRY(InsertAttempt(c, write.header, attempt));
  if (!write.events.empty()) HEADWORKS_TRY(InsertEvents(c, write));
  if (write.start) HEADWORKS_TRY(WriteStart(c, write));
  HEADWORKS_TRY(WritePermits(c, write));
  return {};
}

/// Takes the run's row away, which makes the rest unreachable; SweepDeletedRuns does the rest.
Status DeleteRun(Connection& c, const store::RunKey& key, const std::vector<store::Guard>& guards) {
  std::optional<std::pair<Shard, model::RunState>> stored;
  HEADWORKS_TRY(c.ForEach(
      "SELECT shard, state FROM run WHERE tenant_id = ?1 AND run_no = ?2",
      [&](Row row) {
        stored.emplace();
        row.Read(stored->first, stored->second);
      },
      key.tenant, key.run));
  if (!stored) return {};
  if (std::ranges::find(guards, stored->first, &store::Guard::shard) == guards.end()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("round: run {} is on shard {}, which the round does not guard",
                             key.run.value, stored->first.value)};
  }
  if (!model::IsTerminal(stored->second)) {
    return Error{Code::kConflict,
                 fmt::format("run {} is not finished; cancel it first", key.run.value)};
  }
  HEADWORKS_TRY(
      c.Run("DELETE FROM permit WHERE tenant_id = ?1 AND run_no = ?2", key.tenant, key.run));
  HEADWORKS_TRY(c.Run("DELETE FROM run WHERE tenant_id = ?1 AND run_no = ?2", key.tenant, key.run));
  return c.Run("INSERT INTO deleted_run (tenant_id, run_no) VALUES (?1, ?2)", key.tenant, key.run);
}

}  // namespace

Result<bool> SweepDeletedRuns(Connection& c, std::int64_t budget) {
  // The keys' first rows, because a DELETE with a LIMIT is not in every build of SQLite.
  static constexpr std::array kDeletes{
      "DELETE FROM run_input WHERE tenant_id = ?1 AND run_no = ?2 AND ?3 > 0",
      "DELETE FROM task WHERE tenant_id = ?1 AND run_no = ?2 AND task_no <= "
      "(SELECT max(task_no) FROM (SELECT task_no FROM task WHERE tenant_id = ?1 AND run_no = ?2 "
      "ORDER BY task_no LIMIT ?3))",
      "DELETE FROM attempt WHERE tenant_id = ?1 AND run_no = ?2 AND epoch <= "
      "(SELECT max(epoch) FROM (SELECT epoch FROM attempt WHERE tenant_id = ?1 AND run_no = ?2 "
      "ORDER BY epoch LIMIT ?3))",
      "DELETE FROM live_attempt WHERE tenant_id = ?1 AND run_no = ?2 AND epoch <= "
      "(SELECT max(epoch) FROM (SELECT epoch FROM live_attempt WHERE tenant_id = ?1 "
      "AND run_no = ?2 ORDER BY epoch LIMIT ?3))",
      "DELETE FROM run_event WHERE tenant_id = ?1 AND run_no = ?2 AND seq <= "
      "(SELECT max(seq) FROM (SELECT seq FROM run_event WHERE tenant_id = ?1 AND run_no = ?2 "
      "ORDER BY seq LIMIT ?3))"};
  while (budget > 0) {
    std::optional<store::RunKey> key;
    HEADWORKS_TRY(c.ForEach("SELECT tenant_id, run_no FROM deleted_run LIMIT 1",
                            [&](Row row) { row.Read(key.emplace().tenant, key->run); }));
    if (!key) return false;
    for (const char* sql : kDeletes) {
      if (budget <= 0) return true;
      HEADWORKS_TRY(c.Run(sql, key->tenant, key->run, budget));
      budget -= c.Changes();
    }
    if (budget <= 0) return true;
    HEADWORKS_TRY(c.Run("DELETE FROM deleted_run WHERE tenant_id = ?1 AND run_no = ?2", key->tenant,
                        key->run));
    --budget;
  }
  return true;
}

namespace {

Status PutAnswer(Connection& c, const store::Answer& a, Instant now) {
  using Text = std::string_view;
  return c.Run(
      "INSERT INTO answer (tenant_id, dedupe_key, answered_at, run_no, run_id, code, message) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET answered_at = ?3, "
      "run_no = ?4, run_id = ?5, code = ?6, message = ?7",
      a.tenant, a.dedupe_key, now, a.run, a.run_id,
      a.error ? std::optional(a.error->code) : std::nullopt,
      a.error ? Text(a.error->message) : Text());
}

/// Consumes what the round consumed or answered, and answers it.
Status WriteAnswers(Connection& c, const Round& round) {
  std::set<std::pair<std::string_view, std::string_view>> answered;
  for (const auto& answer : round.answers) {
    answered.emplace(answer.tenant.value, answer.dedupe_key);
  }
  std::int64_t starts = 0;
  for (const std::int64_t id : round.consumed) {
    bool found = false;
    store::Answer done;
    HEADWORKS_TRY(c.ForEach(
        "DELETE FROM inbox WHERE id = ?1 RETURNING tenant_id, dedupe_key, run_no, kind = 'start'",
        [&](Row row) {
          bool start = false;
          row.Read(done.tenant, done.dedupe_key, done.run, start);
          starts += start ? 1 : 0;
          found = true;
        },
        id));
    if (!found) {
      return Error{Code::kConflict,
                   fmt::format("inbox row {} is not there; it was consumed before", id)};
    }
    if (!answered.contains({done.tenant.value, done.dedupe_key})) {
      HEADWORKS_TRY(PutAnswer(c, done, round.now));
    }
  }
  for (const auto& answer : round.answers) {
    HEADWORKS_TRY(c.ForEach(
        "DELETE FROM inbox WHERE tenant_id = ?1 AND dedupe_key = ?2 RETURNING kind = 'start'",
        [&](Row row) { starts += row.Get<std::int64_t>(0); }, answer.tenant, answer.dedupe_key));
    HEADWORKS_TRY(PutAnswer(c, answer, round.now));
  }
  if (starts == 0) return {};
  return c.Run("UPDATE store SET waiting_starts = waiting_starts - ?1", starts);
}

}  // namespace

Status WriteRound(Connection& c, const Round& round, Duration lease_until,
                  const std::string& boot_id) {
  for (const auto& guard : round.guards) HEADWORKS_TRY(MoveGuard(c, guard, lease_until, boot_id));
  for (const RunWrite& write : round.runs) HEADWORKS_TRY(WriteRun(c, write));
  for (const auto& key : round.deleted_runs) HEADWORKS_TRY(DeleteRun(c, key, round.guards));
  HEADWORKS_TRY(WriteAnswers(c, round));
  HEADWORKS_TRY(SweepDeletedRuns(c, kSweepBudget));
  return {};
}

Result<bool> ForgetOldAnswers(Connection& c, Instant now) {
  constexpr std::int64_t kAtOnce = 500;
  HEADWORKS_TRY(
      c.Run("DELETE FROM answer WHERE (tenant_id, dedupe_key) IN (SELECT tenant_id, dedupe_key "
            "FROM answer WHERE answered_at < ?1 ORDER BY answered_at LIMIT ?2)",
            now - store::Inbox::kAnswerTtl, kAtOnce));
  return c.Changes() == kAtOnce;
}

}  // namespace headworks::store_sqlite
