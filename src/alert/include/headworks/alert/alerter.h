#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "headworks/alert/commands.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"

namespace headworks::alert {

/// The engine's part in alerts that no round can play: tells of items that die, and takes what
/// waits for the command to it.
///
/// Life.  Construct, Start (or call Tick), Close, destroy.  What it borrows must outlive it.
/// Threads.  Tick and Close on one; the others on any.
/// Errors.  Are logged once, shown by `trouble`, and tried again.
class Alerter {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  /// `targets`: the queues that alerts go to.  `commands`: null where nothing is to be run.
  Alerter(const std::vector<std::string>& targets, task_queue::Queues& queues, Commands* commands,
          Clock& clock, Logger& log);
  ~Alerter();
  Alerter(const Alerter&) = delete;
  Alerter& operator=(const Alerter&) = delete;

  /// On a thread of its own from now on.
  void Start();
  /// Looks and delivers; returns how long until it has to be called again, at the latest.
  Duration Tick();
  /// Ends the thread.  Takes what waits now to the command, for at most `at_most`; then what runs
  /// is stopped, and waits for the next engine.  Repeatable.
  void Close(Duration at_most);

  struct Figures {
    /// Alerts of dead items, each counted once however many ways it is told.
    std::uint64_t dead_letters = 0;
    // Commands, and alerts that none was good for.
    std::uint64_t succeeded = 0, failed = 0, given_up = 0;
  };
  Figures figures() const;
  /// Why the last look or delivery failed; empty = it did not.
  std::string trouble() const;

 private:
  struct Parts;
  Status Work(bool& more);
  void Wait(Duration at_most, const std::stop_token& stop);
  void Note(const Status& status);

  task_queue::Queues& queues_;
  Clock& clock_;
  Logger& log_;
  mutable std::mutex mutex_;
  std::condition_variable_any wakes_;
  bool woken_ = false;              // under mutex_
  std::string trouble_;             // under mutex_
  std::uint64_t dead_letters_ = 0;  // under mutex_
  std::unique_ptr<Parts> parts_;
  std::jthread thread_;  // last: stops first
};

}  // namespace headworks::alert
