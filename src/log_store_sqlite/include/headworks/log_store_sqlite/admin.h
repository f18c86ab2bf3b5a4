#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

/// What an operator does to the file of a log store.  All of them are kNotFound where there is
/// none; the engine may run meanwhile.
namespace headworks::log_store_sqlite {

struct LogCheck {
  /// One sentence each; empty = all is well.  At most kMaxProblems.
  std::vector<std::string> problems;
  std::int64_t lines = 0;

  static constexpr std::size_t kMaxProblems = 100;
};
/// Reads everything, every line too, and changes nothing.  A file that cannot be read to the end is
/// a problem in the report, not an error.
Result<LogCheck> CheckLogs(const std::string& path);

/// Copies one consistent state to the new file `target` and verifies the copy: its bytes.
/// kConflict if `target` exists; after an error there is none.
Result<std::int64_t> BackUpLogs(const std::string& path, const std::string& target);

struct LogVacuum {
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
};
/// Removes the lines of all runs that are not `kept`, and gives the space of what was removed back
/// to the disk; needs as much again while it works, and who writes lines waits.
Result<LogVacuum> VacuumLogs(const std::string& path,
                             const std::function<Result<bool>(const TenantId&, RunNo)>& kept);

}  // namespace headworks::log_store_sqlite
