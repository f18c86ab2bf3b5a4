#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "headworks/run_queue/run_taker.h"
#include "headworks/run_queue/task.h"

namespace headworks::run_queue {

/// One claimed item, from its claim to its settlement.
///
/// Threads.  Execute's, one that extends the claim, and where the workflow has C++ functions one
///   that watches its end, which nothing can hold up.
class TakenRun {
 public:
  /// `folder` is the run's own.  Borrows all; `stop` is asked for when it is to be handed back.
  TakenRun(const TakerOptions& options, const TakerPorts& ports, task_queue::ClaimedItem item,
           std::string folder, std::stop_token stop);
  /// Runs the workflow and settles the item, unless the claim is lost first.  False: this host
  /// cannot run it now, and perhaps not the next one.
  bool Execute();

 private:
  struct End {
    task_queue::Settlement::Kind kind = task_queue::Settlement::Kind::kHandBack;
    std::string why{};        // but for kAck
    model::RunState state{};  // kAck
  };

  /// Once.  False: it was not extended.
  bool Extend();
  void KeepClaim(const std::stop_token& done);
  void WatchEnd(const std::stop_token& done);
  void SetHeldUntil(Duration at);
  Duration held_until() const { return Duration(held_until_.load()); }
  /// When the run's tasks are to be stopped, so that they have stopped when the claim ends.
  Duration StopAt() const { return held_until() - to_stop_; }
  Duration KillAt() const;
  bool MayRun() const;

  /// With an engine of its own, which is closed again.
  End Run(const Task& task, std::jthread& keep);
  Result<std::unique_ptr<Runner>> OpenEngine();
  Result<RunHandle> Start(Runner& engine, const Task& task);
  End Follow(const RunHandle& run);
  End HostCannotRun(const Error& error);
  End CannotRun(const Error& error);
  void Settle(const End& end);
  std::string Name() const;

  const TakerOptions& options_;
  const TakerPorts& ports_;
  const task_queue::ClaimedItem item_;
  const std::string folder_;
  const std::stop_token stop_;

  Duration lease_;
  Duration to_stop_{0};  // how long its tasks may take to stop
  std::atomic<Duration::rep> held_until_;
  std::atomic<bool> lost_ = false, cancel_ = false, settling_ = false;
  bool warned_ = false;    // of what Extend was answered last
  bool troubled_ = false;  // this host
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Runner* engine_ = nullptr;  // under mutex_
  std::mutex watch_mutex_;    // of WatchEnd alone
  std::condition_variable_any watch_;
};

/// The time between two tries of what the queue did not answer.
inline constexpr Duration kAskAgain = std::chrono::milliseconds(200);

}  // namespace headworks::run_queue
