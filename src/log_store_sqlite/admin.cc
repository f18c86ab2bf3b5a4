#include "headworks/log_store_sqlite/admin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "database.h"
#include "headworks/log_store/chunk.h"
#include "headworks/log_store_sqlite/sqlite_log_store.h"

namespace headworks::log_store_sqlite {
namespace {

namespace fs = std::filesystem;

Result<Database> OpenExisting(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return Error{Code::kNotFound, fmt::format("{}: there is no log file here", path)};
  return OpenDatabase(path);
}

/// Calls `each(row)` for every row of a statement without parameters.
template <typename Each>
Status ForEach(sqlite3* db, std::string_view sql, Each each) {
  Statement statement;
  HEADWORKS_TRY(statement.Prepare(db, sql));
  Statement::Use row(statement);
  int step = SQLITE_DONE;
  while ((step = row.Step()) == SQLITE_ROW) HEADWORKS_TRY(each(row));
  return step == SQLITE_DONE ? Status() : ErrorOf(db, "read");
}

Result<std::int64_t> SizeOf(sqlite3* db) {
  std::int64_t size = 0;
  HEADWORKS_TRY(ForEach(db,
                        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                        [&](const Statement::Use& row) -> Status {
                          size = row.Int(0);
                          return {};
                        }));
  return size;
}

Status ReadAll(sqlite3* db, LogCheck& check) {
  const auto add = [&check](std::string problem) {
    if (check.problems.size() < LogCheck::kMaxProblems)
      check.problems.push_back(std::move(problem));
  };
  HEADWORKS_TRY(Run(db, "BEGIN", "read"));  // one state, to the end
  HEADWORKS_TRY(ForEach(db, "PRAGMA integrity_check(50)", [&](const Statement::Use& row) -> Status {
    if (row.Blob(0) != "ok") add(fmt::format("logs: {}", row.Blob(0)));
    return {};
  }));
  return ForEach(db, "SELECT tenant, run, task, epoch, first_number, data FROM chunk ORDER BY id",
                 [&](const Statement::Use& row) -> Status {
                   const auto lines = log_store::DecodeChunk(row.Blob(5), row.Int(4));
                   if (lines)
                     check.lines += static_cast<std::int64_t>(lines->size());
                   else
                     add(fmt::format(
                         "logs: lines of run {} of tenant {}, task number {}, epoch {}, "
                         "are damaged",
                         row.Int(1), row.Blob(0), row.Int(2), row.Int(3)));
                   return {};
                 });
}

Status Copy(sqlite3* from, sqlite3* to) {
  sqlite3_backup* const backup = sqlite3_backup_init(to, "main", from, "main");
  if (backup == nullptr) return ErrorOf(to, "write to");
  // In one step: the copy is of one moment, and a writer does not make it start over.
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  // Whichever file it was about, this one's connection has it.
  return step == SQLITE_DONE && finish == SQLITE_OK ? Status() : ErrorOf(to, "write to");
}

Result<std::int64_t> CopyTo(sqlite3* from, const std::string& target) {
  HEADWORKS_ASSIGN(const Database copy, OpenDatabase(target));
  HEADWORKS_TRY(Copy(from, copy.get()));
  std::string first;
  HEADWORKS_TRY(
      ForEach(copy.get(), "PRAGMA quick_check(1)", [&](const Statement::Use& row) -> Status {
        first = row.Blob(0);
        return {};
      }));
  if (first != "ok")
    return Error{Code::kCorrupt, fmt::format("{}: the copy is damaged ({}); check the store with "
                                             "`headworks db check`, and both disks",
                                             target, first)};
  return SizeOf(copy.get());
}

Result<std::vector<std::pair<TenantId, RunNo>>> RunsOf(sqlite3* db) {
  std::vector<std::pair<TenantId, RunNo>> runs;
  HEADWORKS_TRY(ForEach(db, "SELECT DISTINCT tenant, run FROM chunk",
                        [&](const Statement::Use& row) -> Status {
                          runs.emplace_back(TenantId(std::string(row.Blob(0))), RunNo(row.Int(1)));
                          return {};
                        }));
  return runs;
}

}  // namespace

Result<LogCheck> CheckLogs(const std::string& path) {
  LogCheck check;
  const auto damage = [&check](const Error& error) -> Result<LogCheck> {
    if (error.code != Code::kCorrupt) return error;
    check.problems.push_back(error.message);
    return std::move(check);
  };
  auto db = OpenExisting(path);
  if (!db) return damage(db.error());
  HEADWORKS_TRY(Run(db->get(), "PRAGMA query_only = ON", "read"));
  if (const Status read = ReadAll(db->get(), check); !read) return damage(read.error());
  return check;
}

Result<std::int64_t> BackUpLogs(const std::string& path, const std::string& target) {
  HEADWORKS_ASSIGN(const Database db, OpenExisting(path));
  const int fd = open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return Error{errno == EEXIST ? Code::kConflict : Code::kUnavailable,
                 errno == EEXIST
                     ? fmt::format("{}: exists already; a backup overwrites nothing", target)
                     : fmt::format("{}: cannot be made: {}", target,
                                   std::generic_category().message(errno))};
  close(fd);
  auto bytes = CopyTo(db.get(), target);
  if (!bytes) {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
      fs::remove(target + suffix, ignored);
  }
  return bytes;
}

Result<LogVacuum> VacuumLogs(const std::string& path,
                             const std::function<Result<bool>(const TenantId&, RunNo)>& kept) {
  HEADWORKS_ASSIGN(const Database db, OpenExisting(path));
  LogVacuum vacuum;
  HEADWORKS_ASSIGN(vacuum.bytes_before, SizeOf(db.get()));
  HEADWORKS_ASSIGN(const auto store, OpenSqliteLogStore(path));
  HEADWORKS_ASSIGN(const auto runs, RunsOf(db.get()));
  for (const auto& [tenant, run] : runs) {
    HEADWORKS_ASSIGN(const bool keep, kept(tenant, run));
    if (!keep) HEADWORKS_TRY(store->DeleteRun(tenant, run));
  }
  HEADWORKS_TRY(Run(db.get(), "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", "vacuum"));
  HEADWORKS_ASSIGN(vacuum.bytes_after, SizeOf(db.get()));
  return vacuum;
}

}  // namespace headworks::log_store_sqlite
