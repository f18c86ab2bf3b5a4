#include "schema.h"

#include <fmt/format.h>

#include <array>

namespace headworks::store_sqlite {
namespace {

// Keys start with the tenant and go on with rising numbers, so that what is written together lies
// together; random keys cost 13 to 20 times as much.  Each column that may be large stands last,
// so that the ones before it are read without its overflow pages.
//
// The index for the engine alone (run_due) is partial and holds only runs that are to be looked at;
// it does not start with the shard, because the one engine of a file owns all of them.
constexpr const char* kLevel1 = R"sql(
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema_level INTEGER NOT NULL,
  min_program_level INTEGER NOT NULL,
  next_run_no INTEGER NOT NULL DEFAULT 1,
  next_inbox_id INTEGER NOT NULL DEFAULT 1,
  waiting_starts INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO store (id, schema_level, min_program_level) VALUES (1, 0, 0);

CREATE TABLE guard (
  shard INTEGER PRIMARY KEY,
  term INTEGER NOT NULL,
  round INTEGER NOT NULL,
  owner TEXT,                      -- NULL = free
  lease_until INTEGER NOT NULL,    -- microseconds of CLOCK_BOOTTIME ...
  boot_id TEXT NOT NULL            -- ... of this boot
) STRICT;

CREATE TABLE run (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  package TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT NOT NULL,
  shard INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  start_key TEXT NOT NULL,
  trace_context TEXT NOT NULL,
  rerun_of INTEGER NOT NULL,
  root_run INTEGER NOT NULL,
  parent_run INTEGER,
  parent_task INTEGER,
  parent_map INTEGER,
  parent_epoch INTEGER,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  next_epoch INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  paused_at INTEGER NOT NULL,
  cancel_requested_at INTEGER NOT NULL,
  finally_started_at INTEGER NOT NULL,
  finally_stopped INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  wake_at INTEGER NOT NULL,
  stuck_since INTEGER NOT NULL,
  reset_kind INTEGER NOT NULL,
  reset_task INTEGER NOT NULL,
  counts BLOB NOT NULL,
  stuck_reason TEXT NOT NULL,
  PRIMARY KEY (tenant_id, run_no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX run_id ON run (tenant_id, run_id);
CREATE UNIQUE INDEX run_start_key ON run (tenant_id, package, workflow, start_key)
  WHERE start_key <> '';
CREATE INDEX run_workflow ON run (tenant_id, workflow, run_no);
CREATE INDEX run_unfinished ON run (tenant_id, run_no) WHERE state IN (1, 2);
CREATE INDEX run_unsuccessful ON run (tenant_id, run_no) WHERE state IN (4, 5);
CREATE INDEX run_stuck ON run (tenant_id, run_no) WHERE stuck_reason <> '';
CREATE INDEX run_pending ON run (priority DESC, run_no, shard)
  WHERE state = 1 AND stuck_reason = '';
CREATE INDEX run_running ON run (wake_at, priority DESC, run_no, shard)
  WHERE state = 2 AND stuck_reason = '';

CREATE TABLE run_input (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  input BLOB NOT NULL,
  PRIMARY KEY (tenant_id, run_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE task (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  task_no INTEGER NOT NULL,
  map_index INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  snoozes INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  losses INTEGER NOT NULL,
  dispatch_failures INTEGER NOT NULL,
  zombie INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  since INTEGER NOT NULL,
  blocked_reason TEXT,
  blocked_since INTEGER,
  executor TEXT NOT NULL,
  external_ref TEXT,
  holder TEXT NOT NULL,
  output BLOB,
  PRIMARY KEY (tenant_id, run_no, task_no, map_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  task_no INTEGER NOT NULL,
  map_index INTEGER NOT NULL,
  try_no INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  verdict INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  exit_code INTEGER,
  signal INTEGER,
  queued_at INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  error TEXT NOT NULL,
  PRIMARY KEY (tenant_id, run_no, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE live_attempt (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  task_no INTEGER NOT NULL,
  map_index INTEGER NOT NULL,
  executor TEXT NOT NULL,
  external_ref TEXT NOT NULL,
  holder TEXT NOT NULL,
  worker_incarnation INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  token_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_no, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_event (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (tenant_id, run_no, seq)
) STRICT, WITHOUT ROWID;

-- Runs whose row is gone and whose other rows are being deleted, a bounded number per round.
CREATE TABLE deleted_run (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
  id INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  dedupe_key TEXT NOT NULL,
  shard INTEGER NOT NULL,
  kind TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  appended_at INTEGER NOT NULL,
  payload BLOB NOT NULL,
  UNIQUE (tenant_id, dedupe_key)
) STRICT;

CREATE TABLE answer (
  tenant_id TEXT NOT NULL,
  dedupe_key TEXT NOT NULL,
  answered_at INTEGER NOT NULL,
  run_no INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  code INTEGER,                    -- NULL = done
  message TEXT NOT NULL,
  PRIMARY KEY (tenant_id, dedupe_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_age ON answer (answered_at);

CREATE TABLE workflow_version (
  tenant_id TEXT NOT NULL,
  version TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  canonical_json BLOB NOT NULL,
  PRIMARY KEY (tenant_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow (
  tenant_id TEXT NOT NULL,
  package TEXT NOT NULL,
  workflow TEXT NOT NULL,
  version TEXT NOT NULL,
  source TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  registered_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, package, workflow)
) STRICT, WITHOUT ROWID;
)sql";

// A copy, because a column that is added stands behind the output.
constexpr const char* kLevel2 = R"sql(
CREATE TABLE task_2 (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  task_no INTEGER NOT NULL,
  map_index INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  snoozes INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  losses INTEGER NOT NULL,
  dispatch_failures INTEGER NOT NULL,
  zombie INTEGER NOT NULL,
  admitted INTEGER NOT NULL DEFAULT 0,
  not_before INTEGER NOT NULL,
  since INTEGER NOT NULL,
  deadline INTEGER NOT NULL DEFAULT 0,
  blocked_reason TEXT,
  blocked_since INTEGER,
  executor TEXT NOT NULL,
  external_ref TEXT,
  holder TEXT NOT NULL,
  output BLOB,
  PRIMARY KEY (tenant_id, run_no, task_no, map_index)
) STRICT, WITHOUT ROWID;
INSERT INTO task_2
  SELECT tenant_id, run_no, task_no, map_index, state, reason, epoch, generation, snoozes, tries,
    losses, dispatch_failures, zombie, 0, not_before, since, 0, blocked_reason, blocked_since,
    executor, external_ref, holder, output
  FROM task;
DROP TABLE task;
ALTER TABLE task_2 RENAME TO task;
)sql";

// From its start to its end a run stays where it is in these two, so that only its end writes them.
constexpr const char* kLevel3 = R"sql(
DROP INDEX run_pending;
DROP INDEX run_running;
DROP INDEX run_unfinished;
CREATE INDEX run_due ON run (wake_at, priority DESC, run_no)
  WHERE stuck_reason = '' AND wake_at < 9223372036854775807;
CREATE INDEX run_unfinished ON run (tenant_id, run_no) WHERE finished_at = 0;
)sql";

// Only tasks that name a pool write here.
constexpr const char* kLevel4 = R"sql(
CREATE TABLE pool (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  permits INTEGER NOT NULL,
  declared INTEGER NOT NULL,       -- by the configuration
  set_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE permit (
  tenant_id TEXT NOT NULL,
  run_no INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  task_no INTEGER NOT NULL,
  pool TEXT NOT NULL,
  weight INTEGER NOT NULL,
  granted_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_no, epoch)
) STRICT, WITHOUT ROWID;
)sql";

// The indexes on runs hold those with a key, those that have started and not ended, and those that
// have ended with attempts left.
constexpr const char* kLevel5 = R"sql(
ALTER TABLE run ADD COLUMN concurrency_key TEXT;
CREATE INDEX run_key_active ON run (tenant_id, workflow, concurrency_key, run_no)
  WHERE concurrency_key IS NOT NULL AND (finished_at = 0 OR wake_at = 0);
CREATE INDEX run_under_way ON run (tenant_id, workflow, package, run_no)
  WHERE finished_at = 0 AND state <> 1;
CREATE INDEX run_zombie ON run (tenant_id, run_no) WHERE finished_at > 0 AND wake_at = 0;

-- Starts that count towards a rate, as long as they do.
CREATE TABLE run_start (
  tenant_id TEXT NOT NULL,
  package TEXT NOT NULL,
  workflow TEXT NOT NULL,
  concurrency_key TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  run_no INTEGER NOT NULL,
  counts_until INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, package, workflow, concurrency_key, started_at, run_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_start_over ON run_start (counts_until);
)sql";

// An item moves between indexes by its state alone, and is in one of them at a time.  Its payload
// lies apart, so that the row can change without it; of what is over only the row stays, for the
// id.
constexpr const char* kLevel6 = R"sql(
ALTER TABLE store ADD COLUMN next_queue_no INTEGER NOT NULL DEFAULT 1;
ALTER TABLE store ADD COLUMN queue_wall INTEGER NOT NULL DEFAULT 0;  -- the time of queues was this
ALTER TABLE store ADD COLUMN queue_monotonic INTEGER NOT NULL DEFAULT 0;  -- at this CLOCK_BOOTTIME
ALTER TABLE store ADD COLUMN queue_boot INTEGER NOT NULL DEFAULT 0;       -- of this boot

CREATE TABLE queue (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  paused INTEGER NOT NULL,
  visibility INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  backoff INTEGER NOT NULL,
  max_backoff INTEGER NOT NULL,
  rate_count INTEGER NOT NULL,     -- 0 = no limit
  rate_per INTEGER NOT NULL,
  max_depth INTEGER NOT NULL,
  dedup_window INTEGER NOT NULL,
  dead_retention INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  processing INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  enqueued INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  duplicates INTEGER NOT NULL,
  differing INTEGER NOT NULL,
  window_start INTEGER NOT NULL,
  enqueued_now INTEGER NOT NULL,
  completed_now INTEGER NOT NULL,
  failed_now INTEGER NOT NULL,
  enqueued_before INTEGER NOT NULL,
  completed_before INTEGER NOT NULL,
  failed_before INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  refilled_at INTEGER NOT NULL,    -- microseconds of CLOCK_BOOTTIME ...
  refill_boot INTEGER NOT NULL,    -- ... of this boot
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue_item (
  tenant_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  item_no INTEGER NOT NULL,
  id TEXT NOT NULL,
  state INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  redrives INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  available_at INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  claim_no INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,    -- microseconds of CLOCK_BOOTTIME ...
  lease_boot INTEGER NOT NULL,     -- ... of this boot
  payload_bytes INTEGER NOT NULL,
  payload_digest INTEGER NOT NULL,
  holder TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (tenant_id, queue, item_no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX queue_item_id ON queue_item (tenant_id, queue, id);
CREATE INDEX queue_item_ready ON queue_item (tenant_id, queue, priority DESC, available_at, item_no)
  WHERE state = 1;
CREATE INDEX queue_item_lease ON queue_item (tenant_id, queue, lease_boot, lease_until)
  WHERE state = 2;
CREATE INDEX queue_item_over ON queue_item (tenant_id, queue, state, ended_at)
  WHERE ended_at <> 0;

CREATE TABLE queue_payload (
  tenant_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  item_no INTEGER NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (tenant_id, queue, item_no)
) STRICT, WITHOUT ROWID;
)sql";

// The engine writes them, and people read them.
constexpr const char* kLevel7 = R"sql(
CREATE TABLE worker (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  presence INTEGER NOT NULL,
  connected_at INTEGER NOT NULL,
  heard_at INTEGER NOT NULL,
  written_at INTEGER NOT NULL,
  gone_at INTEGER NOT NULL,        -- 0 = it is there
  protocol INTEGER NOT NULL,
  gone_why TEXT NOT NULL,
  version TEXT NOT NULL,
  host TEXT NOT NULL,
  labels TEXT NOT NULL,            -- JSON: ["gpu", ...]
  queues TEXT NOT NULL,            -- JSON: [["mail", slots, held, running], ...]
  PRIMARY KEY (tenant_id, name, incarnation)
) STRICT, WITHOUT ROWID;
CREATE INDEX worker_gone ON worker (tenant_id, gone_at) WHERE gone_at <> 0;
CREATE INDEX worker_over ON worker (gone_at) WHERE gone_at <> 0;

CREATE TABLE worker_order (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  incarnation TEXT NOT NULL,       -- '' = all of that name are cordoned; else this one is to leave
  stands INTEGER NOT NULL,
  taken INTEGER NOT NULL,          -- by the engine
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  PRIMARY KEY (tenant_id, name, incarnation)
) STRICT, WITHOUT ROWID;
)sql";

// Each tenant's due runs lie together, in the order in which they are admitted.  The index keeps
// its name, by which older programs read it.
constexpr const char* kLevel8 = R"sql(
DROP INDEX run_due;
CREATE INDEX run_due ON run (tenant_id, wake_at, priority DESC, run_no)
  WHERE stuck_reason = '' AND wake_at < 9223372036854775807;
)sql";

constexpr std::array kMigrations{
    Migration{1, 1, "runs, tasks, attempts, inbox, workflows", kLevel1},
    Migration{2, 1, "when and deadline of tasks", kLevel2},
    Migration{3, 1, "fewer indexes to write for each run", kLevel3},
    Migration{4, 1, "pools and permits", kLevel4},
    Migration{5, 1, "concurrency keys of runs", kLevel5},
    Migration{6, 1, "queues", kLevel6},
    Migration{7, 1, "workers", kLevel7},
    Migration{8, 1, "due runs by tenant", kLevel8},
};

Result<Levels> ReadLevels(Connection& connection) {
  HEADWORKS_ASSIGN(const auto id, connection.Value<std::int64_t>("PRAGMA application_id"));
  HEADWORKS_ASSIGN(const auto tables,
                   connection.Value<std::int64_t>("SELECT count(*) FROM sqlite_schema"));
  if (id != kApplicationId && (id != 0 || tables != 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: this is a database of another program; choose another file",
                             connection.path())};
  }
  Levels levels;
  if (tables != 0) {
    HEADWORKS_TRY(
        connection.ForEach("SELECT schema_level, min_program_level FROM store",
                           [&](Row row) { row.Read(levels.schema, levels.min_program); }));
  }
  return levels;
}

}  // namespace

std::span<const Migration> Migrations() { return kMigrations; }

Result<Levels> CheckLevels(Connection& connection, int program_level) {
  // One state: another process may be creating the tables.  A savepoint, because the caller may
  // have a transaction already.
  HEADWORKS_TRY(connection.Run("SAVEPOINT levels"));
  const auto read = ReadLevels(connection);
  const Status released = connection.Run("RELEASE levels");
  HEADWORKS_ASSIGN(const Levels levels, read);  // some errors have ended the savepoint, too
  HEADWORKS_TRY(released);
  if (levels.min_program > program_level) {
    return Error{
        Code::kConflict,
        fmt::format("{}: written by a newer Headworks (level {}, needs a program of level {} "
                    "or later, this one is {}); use the newer program",
                    connection.path(), levels.schema, levels.min_program, program_level)};
  }
  return levels;
}

Result<std::vector<Migration>> ApplyMigrations(Connection& connection,
                                               std::span<const Migration> to) {
  HEADWORKS_ASSIGN(Transaction transaction, Transaction::BeginWrite(connection));
  HEADWORKS_ASSIGN(const Levels levels, CheckLevels(connection, to.back().level));
  std::vector<Migration> applied;
  for (const Migration& migration : to) {
    if (migration.level <= levels.schema) continue;
    if (applied.empty() && levels.schema == 0) {
      HEADWORKS_TRY(
          connection.Script(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str()));
    }
    HEADWORKS_TRY(connection.Script(migration.sql));
    HEADWORKS_TRY(connection.Run("UPDATE store SET schema_level = ?1, min_program_level = ?2",
                                 migration.level, migration.min_program_level));
    applied.push_back(migration);
  }
  HEADWORKS_TRY(transaction.Commit());
  return applied;
}

}  // namespace headworks::store_sqlite
