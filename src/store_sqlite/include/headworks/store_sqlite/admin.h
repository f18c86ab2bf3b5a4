#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

/// What an operator does to a database file (`headworks db ...`).  All of them are kNotFound where
/// there is no file, and refuse what is not a Headworks database, as `Open` does.
namespace headworks::store_sqlite {

struct CheckReport {
  /// One sentence each; empty = all is well.  At most kMaxProblems.
  std::vector<std::string> problems;
  std::int64_t runs = 0;
  std::int64_t tasks = 0;
  std::int64_t attempts = 0;
  std::int64_t waiting_messages = 0;
  /// Those too that are over, as long as their ids are remembered.
  std::int64_t queue_items = 0;

  static constexpr std::size_t kMaxProblems = 100;
};
/// Reads everything: pages and indexes, rows that belong to nothing, counts against tasks, counters
/// against rows.  Changes nothing; the engine may run meanwhile.  A file that cannot be read to the
/// end is a problem in the report, not an error.
Result<CheckReport> Check(const std::string& path);

/// A task that left something.
struct StoredOutput {
  TenantId tenant;
  RunNo run;
  RunId run_id;
  TaskNo task;
  /// As the round wrote it; valid until the visit returns.
  std::string_view output;
};
/// All that there are at one moment, in order of tenant, run and task, until `visit` fails; changes
/// nothing, and the engine may run meanwhile.
Status ForEachOutput(const std::string& path,
                     const std::function<Status(const StoredOutput&)>& visit);

struct BackupReport {
  std::int64_t bytes = 0;
};
/// Copies one consistent state to `target` and verifies the copy; the engine may run meanwhile.
/// kConflict if `target` exists; after an error there is none.
Result<BackupReport> Backup(const std::string& path, const std::string& target);

struct VacuumReport {
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
};
/// Gives the space of deleted rows back to the disk; needs as much again while it works.
/// kConflict while an engine runs.
Result<VacuumReport> Vacuum(const std::string& path);

struct MigrateReport {
  int from_level = 0;
  int to_level = 0;
  /// What was done, or with `dry_run` would be.
  std::vector<std::string> steps;
};
Result<MigrateReport> Migrate(const std::string& path, bool dry_run);

/// Process and host of the file's engine; empty = none lives.  Neither opens the database nor
/// stands in the way of an engine that starts.
Result<std::string> LiveEngine(const std::string& path);

}  // namespace headworks::store_sqlite
