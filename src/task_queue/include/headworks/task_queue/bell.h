#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"

namespace headworks::task_queue {

/// Wakes those who wait for items of a queue, in this process.  It carries no items, only the news
/// that there may be some: whoever is woken polls.
///
/// Threads.  All methods may be called concurrently.
/// Bounds.  Holds the queues that somebody waits for, and nothing else.
class Bell {
 public:
  using Queue = std::pair<TenantId, std::string>;

  /// One who waits.  What rings after its construction is heard, whether it waits yet or not.
  class Seat {
   public:
    Seat(Bell& bell, const TenantId& tenant, std::string_view queue);
    /// For one that waits elsewhere, for several queues: `on_ring` is called when this one rings,
    /// by whoever rings; it must neither block nor call the bell.
    Seat(Bell& bell, const TenantId& tenant, std::string_view queue, std::function<void()> on_ring);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    /// True once the queue rang; false after `at_most`, or when `stop` asks for it.
    bool Wait(Duration at_most, const std::stop_token& stop);
    /// Whether it rang since the last time that this or Wait said so.
    bool Rang();
    /// For one that rang and leaves without an item: the next one is woken instead.
    void PassOn();

   private:
    friend class Bell;
    void WakeLocked();

    Bell& bell_;
    const Queue queue_;
    const std::function<void()> on_ring_;
    std::condition_variable_any rung_;
    bool woken_ = false;  // under the bell's mutex
  };

  /// Wakes as many as there are new items; those who came first.
  void Ring(const TenantId& tenant, std::string_view queue, std::size_t items);
  /// Those that somebody waits for.
  std::vector<Queue> Waited();
  /// Blocks until somebody waits; false when `stop` asks for it.
  bool AwaitWaiters(const std::stop_token& stop);

 private:
  std::mutex mutex_;
  std::map<Queue, std::vector<Seat*>> seats_;  // in order of coming; under mutex_
  std::condition_variable_any occupied_;
};

}  // namespace headworks::task_queue
