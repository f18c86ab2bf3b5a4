#include "database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace headworks::log_store_sqlite {
namespace {

constexpr int kBusyTimeoutMs = 5'000;
/// Raised when a program that knows only the level below can no longer write the file.
constexpr int kSchemaLevel = 1;
constexpr char kSchema[] = R"(
CREATE TABLE IF NOT EXISTS chunk(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, run INTEGER NOT NULL, task INTEGER NOT NULL, map_index INTEGER NOT NULL,
  epoch INTEGER NOT NULL, first_number INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS chunk_by_run ON chunk(tenant, run);
CREATE INDEX IF NOT EXISTS chunk_by_attempt ON chunk(tenant, run, epoch);
)";

}  // namespace

Error ErrorOf(sqlite3* db, std::string_view what) {
  const int code = sqlite3_errcode(db) & 0xFF;
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  const char* file = sqlite3_db_filename(db, "main");
  std::string_view help;
  if (code == SQLITE_FULL) help = "; free some space on its disk";
  if (damaged) help = "; move the file away: the runs themselves are in another one";
  return Error{damaged ? Code::kCorrupt : Code::kUnavailable,
               fmt::format("cannot {} the log file {}: {}{}", what, file == nullptr ? "" : file,
                           sqlite3_errmsg(db), help)};
}

Status Statement::Prepare(sqlite3* db, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &raw, nullptr) != SQLITE_OK) {
    return ErrorOf(db, "use");
  }
  statement_.reset(raw);
  return {};
}

Status Run(sqlite3* db, const char* sql, std::string_view what) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return ErrorOf(db, what);
  return {};
}

namespace {

/// Others do the same to a new file, and SQLite does not wait for that; for a transaction it does.
Status SetWal(sqlite3* db) {
  constexpr int kTries = 100;
  for (int tries = 1;; ++tries) {
    Status set = Run(db, "PRAGMA journal_mode=WAL", "open");
    if (set || (sqlite3_errcode(db) & 0xFF) != SQLITE_BUSY || tries == kTries) return set;
    HEADWORKS_TRY(Run(db, "BEGIN IMMEDIATE; COMMIT", "open"));
  }
}

}  // namespace

Result<Database> OpenDatabase(const std::string& path) {
  // SQLite would create it for everybody to read, and its side files like it.
  if (const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); fd >= 0)
    close(fd);
  sqlite3* raw = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(raw);
  if (opened != SQLITE_OK) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot open the log file {}: {}; check its folder's permissions",
                             path, raw == nullptr ? "out of memory" : sqlite3_errmsg(raw))};
  }
  sqlite3_extended_result_codes(raw, 0);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  // NORMAL: a commit does not wait for the disk.  Only a power cut can cost lines, the last ones.
  HEADWORKS_TRY(SetWal(raw));
  HEADWORKS_TRY(Run(raw, "PRAGMA synchronous=NORMAL", "open"));
  return db;
}

Status Migrate(sqlite3* db) {
  HEADWORKS_TRY(Run(db, "BEGIN IMMEDIATE", "open"));
  int level = 0;
  {
    Statement pragma;
    HEADWORKS_TRY(pragma.Prepare(db, "PRAGMA user_version"));
    Statement::Use use(pragma);
    if (use.Step() != SQLITE_ROW) return ErrorOf(db, "open");
    level = static_cast<int>(use.Int(0));
  }
  if (level > kSchemaLevel) {
    HEADWORKS_TRY(Run(db, "ROLLBACK", "open"));
    return Error{Code::kConflict,
                 fmt::format("the log file {} was written by a later program (level {}, this one "
                             "knows {}): upgrade this program",
                             sqlite3_db_filename(db, "main"), level, kSchemaLevel)};
  }
  if (level < kSchemaLevel) {
    HEADWORKS_TRY(Run(db, kSchema, "set up"));
    HEADWORKS_TRY(Run(db, fmt::format("PRAGMA user_version={}", kSchemaLevel).c_str(), "set up"));
  }
  return Run(db, "COMMIT", "open");
}

}  // namespace headworks::log_store_sqlite
