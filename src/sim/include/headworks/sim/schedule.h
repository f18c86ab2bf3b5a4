#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headworks/base/time.h"

/// The real engine and dispatcher in one thread, over a store and executors that fail as real ones
/// do, under a seeded scheduler that checks the invariants of the design after every step.
namespace headworks::sim {

enum class StoreKind : std::uint8_t { kMemory, kSqlite };

struct ScheduleOptions {
  std::uint64_t seed = 0;
  StoreKind store = StoreKind::kMemory;
  /// The engine's process ends after every commit.
  bool restart_after_each_commit = false;
  /// Keep a line per step.
  bool trace = false;
  std::uint32_t max_tasks = 30;
  /// Without `when` and `deadline`.
  bool plain = false;
  /// With pools, unless it is plain.
  bool limits = true;
  /// In some of them commands go to workers, unless it is plain.
  bool workers = true;
};

struct ScheduleResult {
  /// Empty = all held.
  std::string violation;
  std::vector<std::string> trace;
  /// One more draw after the end: equal for equal seeds, or the schedule is not deterministic.
  std::uint64_t last_draw = 0;
  std::uint64_t rounds = 0;
  std::uint64_t crashes = 0;
  std::uint64_t runs = 0;
  /// Items of queues of alerts.
  std::uint64_t alerts = 0;
};

/// Runs one schedule to its end.  No state outside: may be called from several threads.
ScheduleResult RunSchedule(const ScheduleOptions& options);

}  // namespace headworks::sim
