#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/log_store/log_store.h"

namespace headworks::executor_process {

struct ProcessExecutorOptions {
  /// The headworks-supervisor binary; empty = beside this executable, or in
  /// ../libexec/headworks from there.
  std::string supervisor_path;
  /// Folder of its own, kept over restarts: input and output files of attempts, scratch folders
  /// of runs, the supervisor's lock.  One engine at a time.
  std::string state_dir;
  /// Names the store in the mark of every process.  Letters, digits, '-' and '_'.
  std::string store_id;
  /// Processes at a time; at least 1.
  std::uint32_t max_concurrent = 64;
  /// Output kept of one attempt; beyond it one note line says so.
  std::size_t max_log_bytes = std::size_t{64} << 20;
  /// How long opening waits for an earlier engine's tasks to end.
  Duration lock_wait = std::chrono::seconds(30);
  /// Makes this process the parent of orphaned processes (prctl PR_SET_CHILD_SUBREAPER), so that
  /// what a killed supervisor leaves is found without a search.
  bool become_subreaper = true;
};

/// Runs shell scripts and commands as processes of this host, under one supervisor process.
///
/// A task sees: the environment that its workflow names and nothing else, HEADWORKS_INPUT (a JSON
/// file, the Resolver's context), HEADWORKS_OUTPUT (a file to write a JSON object or key=value
/// lines to), HEADWORKS_SCRATCH (a folder shared by the run), /dev/null as standard input.
///
/// Ends.  Whatever ends an attempt (its own exit, timeout, cancel, Drain, the death of this
///   process or of the supervisor), no process of it is left when its verdict is given; output
///   lines are in the log store by then (I6).
/// Evidence (I4, I5).  An attempt's input file is written before it starts and removed by
///   Settled; after a crash, Inspect answers Absent without it and lost with it.  After another
///   boot, when files may have been lost too, everything unknown is lost.
/// Threads.  As the port says; two of its own.
class ProcessExecutor final : public executor::Executor {
 public:
  /// Waits for an earlier engine's tasks to end, kills what a crash left, starts the supervisor.
  /// `resolver`, `log_store`, `clock` and `log` must outlive the executor.
  static Result<std::unique_ptr<ProcessExecutor>> Open(ProcessExecutorOptions options,
                                                       executor::Resolver& resolver,
                                                       log_store::LogStore& log_store, Clock& clock,
                                                       Logger& log);
  ~ProcessExecutor() override;

  std::string_view Name() const override { return "process"; }
  Status Start(executor::AttemptSink& sink) override;
  executor::OfferResult Offer(const executor::Attempt& attempt) override;
  void Cancel(const model::AttemptKey& key) override;
  executor::Capacity GetCapacity() const override;
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override;
  std::vector<model::AttemptKey> List() const override;
  executor::Metrics GetMetrics() const override;
  void Settled(std::span<const model::AttemptKey> keys) override;
  Status Drain(Duration timeout) override;

  /// Removes the scratch folder of a run and what is left of its attempts' files.  For runs that
  /// are over.
  Status RemoveRun(RunNo run, const RunId& run_id);

  class Impl;

 private:
  explicit ProcessExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::executor_process
