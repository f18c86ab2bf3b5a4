#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/task_queue.h"

namespace headworks::task_queue {

/// Sweeps the queues of a database, so that leases end and ids are forgotten in queues that nobody
/// uses, too.  Any number of processes may do so.
///
/// Life.  Start, or call Tick; the destructor stops.  `admin`, `clock` and `log` must outlive it.
/// Threads.  All methods may be called concurrently.
/// Errors.  Are logged once, shown by `trouble`, and tried again.
class Sweeper {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  Sweeper(QueueAdmin& admin, Clock& clock, Logger& log) : admin_(admin), clock_(clock), log_(log) {}

  /// On a thread of its own from now on.
  void Start();
  /// Sweeps if it is time to; returns how long until the next time, on the monotonic clock.
  Duration Tick();
  /// Why the last sweep failed; empty = it did not.
  std::string trouble() const;

 private:
  void Loop(const std::stop_token& stop);

  QueueAdmin& admin_;
  Clock& clock_;
  Logger& log_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  Duration next_{};      // under mutex_
  std::string trouble_;  // under mutex_
  std::jthread thread_;  // last: stops first
};

}  // namespace headworks::task_queue
