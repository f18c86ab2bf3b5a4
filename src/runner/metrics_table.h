#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headworks/alert/alerter.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "headworks/engine/stats.h"
#include "headworks/executor/executor.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/metrics/family.h"
#include "headworks/task_queue/task_queue.h"
#include "process_figures.h"

namespace headworks {

/// All that metrics are made from, as it stands at one moment.
struct Figures {
  std::optional<engine::EngineStats> engine;  // none: this process is not the engine
  std::vector<std::pair<std::string, executor::Metrics>> executors;
  std::optional<executor_queue::QueueFigures> workers;  // none: no task goes to workers
  std::optional<alert::Alerter::Figures> alerts;        // none: nobody wants them
  dispatch::DispatchMetrics::Figures dispatch;
  /// Bytes on disk: "database", "wal", "logs".  Empty: the store is in memory.
  std::vector<std::pair<std::string, std::uint64_t>> store_files;
  /// Of the runner's tenant.
  std::vector<task_queue::QueueRecord> queues;
  ProcessFigures process;
};

/// One family per row of the table, in its order.
std::vector<metrics::Family> MakeFamilies(const Figures& figures);

}  // namespace headworks
