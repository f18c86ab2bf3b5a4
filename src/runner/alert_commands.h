#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "headworks/alert/commands.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/log_store/log_store.h"

namespace headworks {

/// Runs the alert command as attempts of a process executor of its own, so it is ended like any
/// task: by its timeout with all its processes, and with the engine.
///
/// Life.  Open, use, destroy (stops what runs).  The clock and the log must outlive it.
class AlertCommands final : public alert::Commands,
                            public executor::AttemptSink,
                            public executor::Resolver {
 public:
  struct Options {
    /// For /bin/sh; its standard input is the alert.
    std::string command;
    Duration timeout{};
    std::string supervisor_path;
    /// Its own, as executor_process::ProcessExecutorOptions has them.
    std::string state_dir;
    std::string store_id;
  };
  /// Errors as of ProcessExecutor::Open.
  static Result<std::unique_ptr<AlertCommands>> Open(Options options, Clock& clock, Logger& log);
  ~AlertCommands() override;

  Status Start(const alert::Call& call, std::function<void(alert::CommandEnd)> done) override;
  void Stop() override;

  // Of the executor.
  void Started(const model::AttemptKey& key) override;
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override;
  void Hear(executor::Word word, std::function<void(executor::Heard)> reply) override;
  void CapacityChanged() override;
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override;

 private:
  AlertCommands(Options options, Clock& clock, Logger& log);
  std::string WhyOf(const model::AttemptKey& key, const model::Outcome& outcome);

  const Options options_;
  Clock& clock_;
  Logger& log_;
  std::unique_ptr<log_store::LogStore> lines_;
  std::int64_t calls_ = 0;
  std::mutex mutex_;
  std::condition_variable over_;
  model::AttemptKey running_;                     // under mutex_
  std::string input_;                             // under mutex_
  std::function<void(alert::CommandEnd)> done_;   // under mutex_; null: nothing runs
  std::unique_ptr<executor::Executor> executor_;  // last: stops first
};

}  // namespace headworks
