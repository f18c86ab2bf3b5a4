#include "tables.h"

#include <fmt/format.h>

#include "bench.h"
#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks::bench {
namespace {

// In the order of Tables::Statement.
constexpr std::array kSql{
    "BEGIN IMMEDIATE",
    "COMMIT",
    "UPDATE guard SET round = round + 1 WHERE shard = 0",
    "INSERT INTO run VALUES ('public', ?1, ?2, 'embedded', 'report', ?3, 0, 1800000000000000, "
    "'', '', 0, 0, NULL, NULL, NULL, NULL, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, "
    "0, 0, 0, 0, 0, x'0101000000000000000000', '', NULL)",
    "INSERT INTO run_input VALUES ('public', ?1, x'017b7d')",
    "UPDATE run SET state = 2, next_epoch = ?2, started_at = 1800000000000000, "
    "counts = x'0100000100000000000000' WHERE tenant_id = 'public' AND run_no = ?1",
    "UPDATE run SET state = 3, next_epoch = ?2, finished_at = 1800000000000000, "
    "wake_at = 9223372036854775807, counts = x'0100000000000100000000' "
    "WHERE tenant_id = 'public' AND run_no = ?1",
    "INSERT INTO task VALUES ('public', ?1, ?2, -1, 2, 0, ?2 + 1, 0, 0, 0, 0, 0, 0, 0, 0, "
    "1800000000000000, 0, NULL, NULL, 'inline', NULL, "
    "'host:12345:0191a0b1-0000-7000-8000-000000000000', NULL)",
    "UPDATE task SET state = 5, tries = 1, executor = '', holder = '' "
    "WHERE tenant_id = 'public' AND run_no = ?1 AND task_no = ?2 AND map_index = -1",
    "INSERT INTO attempt VALUES ('public', ?1, ?2 + 1, ?2, -1, 1, 0, 1, 0, NULL, NULL, "
    "1800000000000000, 1800000000000000, 1800000000000000, 0, '')",
    "INSERT INTO run_event VALUES ('public', ?1, ?2, 1800000000000000, 'started', '', '')"};

}  // namespace

std::string RunIdText(std::int64_t run) {
  return fmt::format("0191a0b1-{:04x}-7{:03x}-8000-{:012x}", run >> 12, run & 0xfff, run);
}

std::string VersionText() { return std::string(64, 'a'); }

Tables::Tables(const std::filesystem::path& path) {
  if (auto created = store_sqlite::Open(path.string(), {}); !created) Die(created.error().message);
  Check(sqlite3_open(path.c_str(), &db_));
  Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536");
  Exec("INSERT INTO guard VALUES (0, 1, 0, 'bench', 0, 'boot')");
  static_assert(kSql.size() == kStatements);
  for (std::size_t i = 0; i < kSql.size(); ++i)
    Check(sqlite3_prepare_v2(db_, kSql[i], -1, &statements_[i], nullptr));
}

Tables::~Tables() {
  for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

void Tables::Begin() {
  Step(kBegin);
  Step(kGuard);
}

void Tables::Commit() { Step(kCommit); }

void Tables::InsertRun(std::int64_t run) {
  const std::string id = RunIdText(run);
  const std::string version = VersionText();
  Text(kInsertRun, 2, id);
  Text(kInsertRun, 3, version);
  Step(kInsertRun, run);
  Step(kInsertInput, run);
}

void Tables::UpdateRun(std::int64_t run, std::int64_t epoch, bool ended) {
  Step(ended ? kEndRun : kQueueRun, run, epoch);
}

void Tables::Queue(std::int64_t run, std::int64_t task) { Step(kInsertTask, run, task); }

void Tables::Settle(std::int64_t run, std::int64_t task) {
  Step(kUpdateTask, run, task);
  Step(kInsertAttempt, run, task);
}

void Tables::Event(std::int64_t run, std::int64_t number) { Step(kInsertEvent, run, number); }

void Tables::Check(int rc) {
  if (rc != SQLITE_OK) Die(fmt::format("floor: {}", sqlite3_errmsg(db_)));
}

void Tables::Text(Statement which, int parameter, std::string_view text) {
  Check(sqlite3_bind_text(statements_[which], parameter, text.data(), static_cast<int>(text.size()),
                          SQLITE_STATIC));
}

void Tables::Step(Statement which) {
  sqlite3_step(statements_[which]);
  Check(sqlite3_reset(statements_[which]));
}

void Tables::Step(Statement which, std::int64_t run) {
  Check(sqlite3_bind_int64(statements_[which], 1, run));
  Step(which);
}

void Tables::Step(Statement which, std::int64_t run, std::int64_t second) {
  Check(sqlite3_bind_int64(statements_[which], 2, second));
  Step(which, run);
}

}  // namespace headworks::bench
