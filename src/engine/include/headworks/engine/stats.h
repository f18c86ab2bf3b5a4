#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/metrics/histogram.h"
#include "headworks/model/attempt.h"
#include "headworks/model/run.h"

namespace headworks::engine {

/// 1 to 5,000 rows of a round.
inline constexpr double kRoundRows[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1'000, 2'000, 5'000};

/// How it stands with one executor.
struct LaneStats {
  std::string executor;
  std::uint64_t ready = 0;  // tasks that wait for credit; may count some that no longer do
  std::uint64_t live = 0;   // attempts not yet settled, those included that it deferred
  Duration held_up{0};      // how long the oldest of these waits that it does not take; 0 = none
  metrics::Histogram attempt_duration{metrics::kTaskSeconds};
};

/// How it stands with one pool.
struct PoolStats {
  std::string tenant, pool;
  std::uint64_t limit = 0;  // as it was read last; 0 until a task asks
  std::uint64_t held = 0;
  std::uint64_t waiting = 0;  // tasks
};

/// Figures for health, metrics, benches and tests.  Counted on the control thread alone, published
/// once per Tick; what is counted has been committed.
struct EngineStats {
  // Since the start.
  std::uint64_t rounds = 0;
  std::uint64_t rows = 0;
  std::uint64_t runs_started = 0;
  std::uint64_t runs_finished = 0;
  std::uint64_t attempts = 0;
  std::uint64_t superseded = 0;
  std::uint64_t fenced = 0;  // told to stop: another one held the attempt, or it was over
  std::uint64_t commits_failed = 0;
  std::uint64_t inbox_messages = 0;
  std::uint64_t alerts_of_tasks = 0;
  std::uint64_t alerts_of_runs = 0;
  std::uint64_t permits_astray = 0;  // that an audit found with nobody, or not stored: a bug
  std::array<std::uint64_t, 6> runs_ended{};      // by RunState
  std::array<std::uint64_t, 9> attempts_ended{};  // by Verdict
  std::array<std::uint64_t, model::kTaskStateCount> tasks_ended{};
  metrics::Histogram round_duration{metrics::kAnswerSeconds};  // from gather to the last effect
  metrics::Histogram round_rows{kRoundRows};
  metrics::Histogram commit_duration{metrics::kAnswerSeconds};

  // Now.
  std::uint64_t runs_in_memory = 0;
  std::uint64_t task_states_in_memory = 0;
  std::array<std::int64_t, model::kTaskStateCount> tasks{};  // of those runs
  std::uint64_t live_attempts = 0;
  std::uint64_t attempts_pending = 0;  // not started in time, and their executors have them
  std::uint64_t attempts_unknown = 0;  // ... and cannot say what became of them
  std::uint64_t runs_stuck = 0;
  std::uint64_t timers = 0;
  std::uint64_t permits_held = 0;       // of all pools
  std::uint64_t tasks_for_permits = 0;  // ready tasks that wait for permits
  std::uint64_t tasks_above_limit = 0;  // of these, as long as no limit is raised
  std::vector<PoolStats> pools;         // that tasks have asked for
  std::uint64_t runs_for_workflow = 0;  // pending ones that wait for max_active_runs
  std::uint64_t runs_for_key = 0;       // ... for a place of their concurrency key
  std::uint64_t runs_for_rate = 0;      // ... for its rate
  std::vector<LaneStats> lanes;
  bool queueing = true;  // false: nothing is queued any more, and live_attempts only falls
  bool lost = false;     // another engine owns the shards, or the store is damaged: it has stopped
  std::string trouble;   // the store refuses rounds or the lease: why; empty = none
};

}  // namespace headworks::engine
