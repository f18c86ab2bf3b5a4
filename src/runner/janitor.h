#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "headworks/base/ids.h"

namespace headworks {

/// Removes what deleted runs leave outside the store (logs, scratch folders), on a thread of its
/// own, because it may take long and no round shall wait for it.
///
/// Life.  The destructor first does what is left.  A crash in between leaves files, never rows.
/// Threads.  All methods may be called concurrently.
class Janitor {
 public:
  struct Deleted {
    TenantId tenant;
    RunNo run;
    RunId run_id;
  };

  explicit Janitor(std::function<void(const Deleted&)> remove);
  ~Janitor();

  void Add(Deleted run);

 private:
  void Loop(const std::stop_token& stop);

  const std::function<void(const Deleted&)> remove_;
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::deque<Deleted> left_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace headworks
