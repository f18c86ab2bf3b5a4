#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "headworks/base/time.h"
#include "headworks/model/attempt.h"

namespace headworks::worker {

/// Ends this program when a C++ function runs beyond its lease, because another worker may begin it
/// (I4): on a thread of its own, which does nothing else, so that nothing can hold it up.
///
/// Threads.  All methods may be called concurrently.
class LeaseGuard {
 public:
  /// `end_program` is called with why, once for each attempt; unset = std::_Exit(5), before which
  /// why is written to standard error, unless that would block.
  LeaseGuard(Clock& clock, std::function<void(const std::string& why)> end_program);

  /// It must be cleared before the monotonic clock passes `at`, unless that is moved.
  void Add(const model::AttemptKey& attempt, Duration at);
  /// One that is not (any more) watched is ignored.
  void Move(const model::AttemptKey& attempt, Duration at);
  void Clear(const model::AttemptKey& attempt);

 private:
  void Watch(const std::stop_token& stop);
  void WakeLocked(Duration at);

  Clock& clock_;
  const std::function<void(const std::string&)> end_program_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::map<model::AttemptKey, Duration> ends_;
  /// By the clock, unless something is moved to before that.
  Duration looks_at_{};
  bool moved_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks::worker
