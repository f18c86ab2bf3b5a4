#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace headworks {

/// Removes what deleted runs leave outside the store (logs, scratch folders, artifacts), on a
/// thread of its own, because it may take long and no round shall wait for it.
///
/// Life.  The destructor first does what is left.  A crash in between leaves files, never rows.
/// Threads.  All methods may be called concurrently.
class Janitor {
 public:
  Janitor();
  ~Janitor();

  void Add(std::function<void()> work);

 private:
  void Loop(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any added_;
  std::deque<std::function<void()>> left_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks
