#pragma once

#include <sqlite3.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace headworks::bench {

/// The tables of Headworks, written by hand: what no program can do faster.  Makes the file.
class Tables {
 public:
  explicit Tables(const std::filesystem::path& path);
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  void Begin();
  void Commit();
  void InsertRun(std::int64_t run);
  void UpdateRun(std::int64_t run, std::int64_t epoch, bool ended);
  void Queue(std::int64_t run, std::int64_t task);
  void Settle(std::int64_t run, std::int64_t task);
  void Event(std::int64_t run, std::int64_t number);

 private:
  enum Statement {
    kBegin,
    kCommit,
    kGuard,
    kInsertRun,
    kInsertInput,
    kQueueRun,
    kEndRun,
    kInsertTask,
    kUpdateTask,
    kInsertAttempt,
    kInsertEvent,
    kStatements,
  };
  void Check(int rc);
  void Exec(const char* sql) { Check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  void Text(Statement which, int parameter, std::string_view text);
  void Step(Statement which);
  void Step(Statement which, std::int64_t run);
  void Step(Statement which, std::int64_t run, std::int64_t second);

  sqlite3* db_ = nullptr;
  std::array<sqlite3_stmt*, kStatements> statements_{};
};

/// As a run of that number might be called.
std::string RunIdText(std::int64_t run);
/// As a version might be called.
std::string VersionText();

}  // namespace headworks::bench
