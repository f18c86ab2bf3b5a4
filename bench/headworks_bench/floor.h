#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "bench.h"

namespace headworks::bench {

/// What the engine left in a database: to write the same, and to count.
struct Written {
  std::int64_t commits = 0;  // rounds of all shards
  std::int64_t tasks = 0;
  std::int64_t attempts = 0;
  std::int64_t events = 0;
};
Written ReadWritten(const std::filesystem::path& database);

struct FloorOptions {
  /// Sizes of the groups of tasks of which each waits for the one before.
  std::span<const std::uint32_t> waves;
  /// Each task is a run of its own (then there is one wave), or all are of one run.
  bool run_per_task = false;
  /// Events of each run that are written while it goes on.
  std::int64_t events = 0;
};

/// What a bare program needs for the same burn-down: the runs are there already, each task is
/// queued and then settled (row, attempt), with the commits' bound of 2,000 rows.  Makes the file.
Spent MeasureFloor(const std::filesystem::path& database, const FloorOptions& options);

}  // namespace headworks::bench
