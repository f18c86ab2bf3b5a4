#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"

namespace headworks::task_queue {

/// Queues for callers that must not block, as those of a server: a few threads use the store, and
/// whoever waits for items holds none of them.
///
/// Life.  The destructor returns when what is being done is done; what has not begun by then is not
///   answered any more.  All ports are borrowed.
/// Threads.  All methods may be called concurrently; answers come on threads of its own.
/// Bounds.  As many waits and pieces of work as its callers let in.
class AsyncQueues {
 public:
  /// Told what a poll brought; false: nobody heard it, so the items are handed back.
  using Hear = std::function<bool(Result<Polled>)>;
  class Wait;

  AsyncQueues(Queues& queues, Clock& clock, Logger& log, std::size_t threads);
  ~AsyncQueues();
  AsyncQueues(const AsyncQueues&) = delete;
  AsyncQueues& operator=(const AsyncQueues&) = delete;

  /// As LongPoll.  Of one `key` one waits at a time: the one before is ended, as by End.
  std::weak_ptr<Wait> Await(const std::string& key, PollRequest request, Duration wait, Hear hear);
  /// Heard with nothing, soon; unless it is just being answered otherwise, or was.
  void End(const std::weak_ptr<Wait>& wait);
  /// The one of this key, if there is any.
  void End(const std::string& key);
  /// What does not wait.
  void Do(std::function<void(TaskQueue&)> work);

 private:
  void Run(const std::stop_token& stop);
  void Look(const std::shared_ptr<Wait>& wait);
  void Finish(Wait& wait, Result<Polled> polled);
  void HandBack(const PollRequest& request, const std::vector<Claim>& claims);
  void QueueLocked(std::shared_ptr<Wait> wait);
  void RouseLocked(Wait& wait);

  Queues& queues_;
  Clock& clock_;
  Logger& log_;
  std::mutex mutex_;  // after the bell's
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> work_;
  std::map<std::string, std::shared_ptr<Wait>> waits_;
  /// Those that are to look again at a time, by the clock.
  std::multimap<Duration, std::shared_ptr<Wait>> alarms_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace headworks::task_queue
