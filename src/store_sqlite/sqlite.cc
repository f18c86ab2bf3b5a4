#include "sqlite.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace headworks::store_sqlite {
namespace {

/// SQLite counts every allocation under one lock of the process.  It can be told not to only before
/// its first use; told later, it says no and goes on counting.
[[maybe_unused]] const int kNotCounting = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);

std::string Why(int system_errno) {
  return system_errno == 0 ? std::string()
                           : fmt::format(" ({})", std::generic_category().message(system_errno));
}

}  // namespace

Error ToError(int rc, std::string_view detail, int system_errno, std::string_view path) {
  const auto error = [&](Code code, std::string_view what) {
    return Error{code, fmt::format("{}: {}", path, what)};
  };
  if (rc == SQLITE_READONLY_DBMOVED) {
    return error(Code::kUnavailable,
                 "the file was moved, replaced or deleted while it was open; put it back and start "
                 "again");
  }
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return error(Code::kAtCapacity,
                   "the disk is full and nothing was written; free space there and try again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(Code::kUnavailable,
                   "another process kept the database locked for too long; try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return error(Code::kPermissionDenied,
                   "the database is read-only for this user; make the file and its folder writable "
                   "(SQLite needs both), or choose another place");
    case SQLITE_CANTOPEN:
      return error(system_errno == EACCES || system_errno == EPERM || system_errno == EROFS
                       ? Code::kPermissionDenied
                       : Code::kUnavailable,
                   fmt::format("cannot open the database{}; check that its folder exists and that "
                               "this user may write there",
                               Why(system_errno)));
    case SQLITE_NOTADB:
      return error(Code::kCorrupt,
                   "not a database, or its first page is damaged; restore it from a backup, or "
                   "choose another file");
    case SQLITE_CORRUPT:
      return error(
          Code::kCorrupt,
          fmt::format("the database is damaged ({}); run `headworks db check`, and restore "
                      "it from a backup",
                      detail));
    case SQLITE_IOERR:
      if (system_errno == ENOSPC || system_errno == EDQUOT) {
        return ToError(SQLITE_FULL, detail, 0, path);
      }
      if (rc == SQLITE_IOERR_CORRUPTFS || rc == SQLITE_IOERR_DATA) {
        return ToError(SQLITE_CORRUPT, detail, system_errno, path);
      }
      return error(Code::kUnavailable,
                   fmt::format("{}{}, code {}: check the disk, and that the file is still there",
                               detail, Why(system_errno), rc));
    case SQLITE_CONSTRAINT:
      return error(Code::kConflict, detail);
    case SQLITE_TOOBIG:
      return error(Code::kInvalidArgument, "a value is larger than 1,000,000,000 bytes");
    case SQLITE_NOMEM:
      return error(Code::kUnavailable, "out of memory");
    default:
      return error(Code::kInternal, fmt::format("{}, code {}", detail, rc));
  }
}

Result<std::unique_ptr<Connection>> Connection::Open(const std::string& path,
                                                     const OpenOptions& options) {
  std::unique_ptr<Connection> connection(new Connection(path));
  const int rc = sqlite3_open_v2(path.c_str(), &connection->db_,
                                 options.flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                 options.vfs.empty() ? nullptr : options.vfs.c_str());
  if (connection->db_ == nullptr) return ToError(SQLITE_NOMEM, "", 0, path);
  if (rc != SQLITE_OK) return connection->Failure(rc);
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.busy_timeout);
  sqlite3_busy_timeout(connection->db_, static_cast<int>(timeout.count()));
  sqlite3_db_config(connection->db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection->db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return connection;
}

std::unique_ptr<Connection> Connection::Borrow(sqlite3* db) {
  const char* const path = sqlite3_db_filename(db, "main");
  std::unique_ptr<Connection> connection(new Connection(path == nullptr ? "" : path));
  connection->db_ = db;
  connection->borrowed_ = true;
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, stmt] : statements_) sqlite3_finalize(stmt);
  if (!borrowed_) sqlite3_close(db_);
}

Error Connection::Failure(int rc) {
  if (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC) flush_failed_ = true;
  // SQLite opens what it may only read; that its log cannot be made beside it is the consequence.
  if ((rc & 0xff) == SQLITE_CANTOPEN && sqlite3_db_readonly(db_, "main") == 1) rc = SQLITE_READONLY;
  return ToError(rc, sqlite3_errmsg(db_), sqlite3_system_errno(db_), path_);
}

Status Connection::Script(const char* sql) {
  if (const int rc = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); rc != SQLITE_OK) {
    return Failure(rc);
  }
  return {};
}

Result<sqlite3_stmt*> Connection::Prepare(const char* sql) {
  if (const auto it = statements_.find(sql); it != statements_.end()) return it->second;
  sqlite3_stmt* stmt = nullptr;
  const int rc = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
  if (rc != SQLITE_OK) return Failure(rc);
  return statements_.emplace(sql, stmt).first->second;
}

int Connection::Bind(sqlite3_stmt* s, int i, Payload v) {
  constexpr char kRawFormat = 1;
  auto* const bytes = static_cast<char*>(sqlite3_malloc64(v.bytes.size() + 1));
  if (bytes == nullptr) return SQLITE_NOMEM;
  bytes[0] = kRawFormat;
  v.bytes.copy(bytes + 1, v.bytes.size());
  return sqlite3_bind_blob64(s, i, bytes, v.bytes.size() + 1, sqlite3_free);
}

Result<Transaction> Transaction::Begin(Connection& connection, const char* sql) {
  HEADWORKS_TRY(connection.Run(sql));
  return Transaction(connection);
}

Transaction::~Transaction() {
  // Some errors have rolled back already.  Should this fail, the next BEGIN says so.
  if (connection_ != nullptr && sqlite3_get_autocommit(connection_->handle()) == 0) {
    static_cast<void>(connection_->Run("ROLLBACK"));
  }
}

Status Transaction::Commit() {
  HEADWORKS_TRY(connection_->Run("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace headworks::store_sqlite
