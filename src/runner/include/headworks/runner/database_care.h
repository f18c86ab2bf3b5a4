#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/result.h"

/// What an operator does to a database, whoever is its engine.
///
/// `url` as in RunnerOptions.  All are kNotFound where there is no database, and kInvalidArgument
/// for one in memory.
namespace headworks {

struct CareReport {
  /// What was found wrong, or done: one sentence each.
  std::vector<std::string> lines;
  /// Name and number, e.g. "runs" or "bytes_after".
  std::vector<std::pair<std::string, std::int64_t>> figures;
};

/// Reads everything and changes nothing; the engine may run meanwhile.  No lines = all is well.
Result<CareReport> CheckDatabase(std::string_view url);
/// Copies one consistent state to the new file `target`; the engine may run meanwhile.
/// kConflict if `target` exists.
Result<CareReport> BackUpDatabase(std::string_view url, const std::string& target);
/// Gives free space back to the disk.  kConflict while an engine runs.
Result<CareReport> VacuumDatabase(std::string_view url);
/// Brings it to this program's level.  With `dry_run` it only says what that would do.
Result<CareReport> MigrateDatabase(std::string_view url, bool dry_run);

/// Who is the engine of this database, e.g. "process 4711 on host"; empty = nobody.  Costs two
/// system calls and is in nobody's way; what it says may have changed when you read it.
Result<std::string> LiveEngine(std::string_view url);

}  // namespace headworks
