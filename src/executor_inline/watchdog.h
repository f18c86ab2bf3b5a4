#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "headworks/base/time.h"

namespace headworks::executor_inline {

/// Requests stops of tasks on a thread of its own, at once or when a deadline passes: a stop
/// callback is foreign code and must not run on the engine's thread.
///
/// Threads.  All methods may be called concurrently.
class Watchdog {
 public:
  using Id = std::uint64_t;

  /// `expired` is called on the watchdog's thread for each deadline that passed.
  Watchdog(Clock& clock, std::function<void(Id)> expired);
  ~Watchdog();

  /// `deadline` is by `Clock::Monotonic`.
  void Arm(Id id, Duration deadline);
  /// Idempotent.  An expiry that is already under way may still come.
  void Disarm(Id id, Duration deadline);
  /// Requests a stop soon.
  void Stop(std::stop_source source);

 private:
  void Run(const std::stop_token& stop);

  Clock& clock_;
  const std::function<void(Id)> expired_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::set<std::pair<Duration, Id>> deadlines_;
  std::vector<std::stop_source> stops_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks::executor_inline
