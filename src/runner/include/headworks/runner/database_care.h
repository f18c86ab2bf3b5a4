#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/runner/runner.h"

/// What an operator does to a store, whoever is its engine: to the database, to the logs beside it,
/// and to the artifacts, which lie beside it or in `artifact_dir`.
///
/// Options are those of Open.  All are kNotFound where there is no database, and kInvalidArgument
/// for one in memory.
namespace headworks {

struct CareReport {
  /// What was found wrong, or done: one sentence each.
  std::vector<std::string> lines;
  /// Name and number, e.g. "runs" or "bytes_after".
  std::vector<std::pair<std::string, std::int64_t>> figures;
};

/// Reads everything, lines and artifacts too, and changes nothing; the engine may run meanwhile.
/// No lines = all is well.
Result<CareReport> CheckDatabase(const RunnerOptions& options);
/// Copies one consistent state of the database to the new file `target`, and beside it the logs and
/// the artifacts of that state, so that the copy is a store; the engine may run meanwhile.  Each
/// line is an artifact that could not be read, and that the copy lacks.  kConflict if one of them
/// exists; after an error there is none.
Result<CareReport> BackUpDatabase(const RunnerOptions& options, const std::string& target);
/// Removes what deleted runs left, and gives free space back to the disk.  kConflict while an
/// engine runs.
Result<CareReport> VacuumDatabase(const RunnerOptions& options);
/// Brings the database to this program's level.  With `dry_run` it only says what that would do.
Result<CareReport> MigrateDatabase(std::string_view url, bool dry_run);

/// Who is the engine of this database, e.g. "process 4711 on host"; empty = nobody.  Costs two
/// system calls and is in nobody's way; what it says may have changed when you read it.
Result<std::string> LiveEngine(std::string_view url);

}  // namespace headworks
