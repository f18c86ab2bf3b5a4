#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "bench.h"
#include "headworks/runner/runner.h"

namespace headworks::bench {

/// A database with an engine, and the functions that the workloads name: "nothing" returns at
/// once, "hold" waits until it is told to stop.
class Site {
 public:
  explicit Site(fs::path database);
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  RunnerOptions options;

  /// Opens with `options`, or dies.
  void Open();
  void Close();
  Runner& runner() { return *runner_; }
  const fs::path& database() const { return database_; }
  bool is_open() const { return runner_ != nullptr; }

  void Register(const std::shared_ptr<const model::Workflow>& workflow);
  /// Starts `count` runs and waits until they are stored.
  void StartMany(const std::string& workflow, std::int64_t count);
  /// Until so many runs ended since the site was made.
  void AwaitEnds(std::int64_t count);
  /// Until `condition` holds, looked at after each event under the lock: it must be cheap.
  void Await(const std::function<bool()>& condition);

  /// Called on the control thread for each event, before it is counted.
  std::function<void(const RunEvent&)> watch;
  std::int64_t ended() const {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }

 private:
  void OnEvent(const RunEvent& event);

  const fs::path database_;
  TaskRegistry registry_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t ended_ = 0;
  std::int64_t failed_ = 0;
  const std::function<bool()>* awaited_ = nullptr;
  std::unique_ptr<Runner> runner_;  // last: its threads use the rest
};

/// One task of its own that does `action`.
std::shared_ptr<const model::Workflow> SingleTask(const std::string& name, model::Action action);

}  // namespace headworks::bench
