#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/executor/start_ledger.h"
#include "headworks/log_store/log_store.h"

namespace headworks::executor_process {

/// Where a build or an installation put the headworks-supervisor that this program starts: `given`
/// if it is not empty, else beside this executable, else in ../libexec/headworks from there.
/// kInvalidArgument or kNotFound names the places.
Result<std::string> FindSupervisor(const std::string& given);

struct ProcessExecutorOptions {
  /// As FindSupervisor takes it.
  std::string supervisor_path;
  /// Folder of its own, kept over restarts: input and output files of attempts, scratch folders
  /// of runs, the supervisor's lock.  One engine at a time.
  std::string state_dir;
  /// Names the store in the mark of every process.  Letters, digits, '-' and '_'.
  std::string store_id;
  /// Processes at a time; at least 1.
  std::uint32_t max_concurrent = 64;
  /// Ended attempts that wait for Settled, each with its output; beyond it nothing is taken.
  std::size_t max_unsettled = 10'000;
  /// Output kept of one attempt (16 bytes are added per line); beyond it one note says so.
  std::size_t max_log_bytes = std::size_t{64} << 20;
  /// Of one artifact; a larger one fails its task.
  std::uint64_t max_artifact_bytes = std::uint64_t{10} << 30;
  /// How long opening waits for an earlier engine's tasks to end.
  Duration lock_wait = std::chrono::seconds(30);
  /// Makes this process the parent of orphaned processes (prctl PR_SET_CHILD_SUBREAPER), so that
  /// what a killed supervisor leaves is found without a search.
  bool become_subreaper = true;
  /// Keeps each attempt in a control group of its own, version 2 or 1, where this process may make
  /// them (root, or a service with Delegate=yes): then nothing that a task starts can hide, not
  /// even when engine and supervisor are killed at once.  Elsewhere, or if false, processes are
  /// told by their session, their descent and a mark in their environment.
  bool control_groups = true;
  /// The group (a folder below /sys/fs/cgroup) to make them in; empty = this process's own.
  std::string control_group_parent;
  /// As KillAllAt, from the first attempt on.
  std::optional<Duration> kill_all_at{};
};

/// What a process executor works with; all borrowed, all must outlive it.
struct ProcessPorts {
  executor::Resolver& resolver;
  log_store::LogStore& log_store;
  Clock& clock;
  Logger& log;
  /// Null only where attempts do not outlive the process (memory store).
  executor::StartLedger* ledger = nullptr;
  /// Null: tasks that leave artifacts are not taken, and none sees those of others.
  artifact_store::BlobStore* artifacts = nullptr;
  /// Instead of it: the store as one attempt may use it, asked for once before each use.
  std::function<std::shared_ptr<artifact_store::BlobStore>(const executor::Attempt&)> artifacts_of =
      {};
};

/// Runs shell scripts and commands as processes of this host, under a supervisor process; a task
/// that was lost with one has one of its own then.
///
/// A task sees: the environment that its workflow and its env_files name and nothing else (of this
/// process's own never HEADWORKS_*_TOKEN, which are credentials), HEADWORKS_INPUT (a JSON file, the
/// Resolver's context), HEADWORKS_OUTPUT (a file to write a JSON object or key=value lines to,
/// unless stdout is its output), HEADWORKS_SCRATCH (a folder shared by the run), /dev/null as
/// standard input.
///
/// Ends.  Whatever ends an attempt (its own exit, timeout, cancel, Drain, the death of this
///   process or of the supervisor), no process of it is left when its verdict is given; output
///   lines are in the log store by then (I6).
/// Logs.  Where the log store is full (kAtCapacity), tasks wait for it at the end of their pipes,
///   and their verdicts with them, as long as it takes.
/// Verdicts.  Exit code 0 = succeeded, another or a signal = retry; an output that is none =
///   failed (`output`); an artifact that is not there = failed (`artifact`), one that the store
///   cannot take = retry (`artifact`); timeout = retry, whatever came; a retry that the task's
///   `retry.when` and `retry.unless` exclude = failed; after Cancel: cancelled, after Drain:
///   interrupted, unless it had ended by itself.  An input that cannot be loaded: failed
///   (`dispatch_failed`); if the store cannot be reached, or the machine has no process, file or
///   pipe to give: snoozed for a second, no try is used.  An artifact of another task that is
///   gone or damaged: failed (`artifact`).
/// Artifacts.  Those of the tasks that it needs are copied before it starts, by threads of their
///   own; its own are stored when its processes are gone, and Cancel and Drain stop that.
/// Evidence (I4, I5).  The ledger is marked before the supervisor is told.  Open waits until the
///   kernel says that nothing of an earlier engine is left; so a marked attempt is lost.
/// Bounds.  As in the options; 1 MiB of output.
/// Threads.  As the port says; two of its own, and four that copy where there are artifacts.
class ProcessExecutor final : public executor::Executor {
 public:
  /// Waits for an earlier engine's tasks to end, kills what a crash left, starts the supervisor.
  /// kInvalidArgument: an option is out of bounds or the ledger too small.  kNotFound: there is
  /// no supervisor binary.  kUnavailable: something of an earlier engine cannot be ended.
  static Result<std::unique_ptr<ProcessExecutor>> Open(ProcessExecutorOptions options,
                                                       const ProcessPorts& ports);
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

  /// As Offer, and KillAt before anything of the attempt can begin.
  executor::OfferResult OfferUntil(const executor::Attempt& attempt, Duration kill_at);
  /// Sees to it that no process of the attempt lives when the monotonic clock passes `at`, unless
  /// a later call moves that: they are killed then, without grace, by the supervisor, and so also
  /// if this process is stopped.  The attempt ends as interrupted.  What is past is at once.
  void KillAt(const model::AttemptKey& key, Duration at);
  /// The same for all attempts, present and future ones.
  void KillAllAt(Duration at);

  /// A folder of this executor's below which Attempt::artifact_dir of what is offered may be:
  /// absolute.  What is there is removed with its attempt, and when an executor opens.
  std::string ArtifactRoot() const;
  /// The folder that the tasks of a run share (HEADWORKS_SCRATCH) where an executor has this
  /// `state_dir`; absolute.  It is there while one of them lives.
  static std::string ScratchOf(const std::string& state_dir, const RunId& run_id);

  /// Removes the scratch folder of a run that is over; repeatable.
  Status RemoveScratch(const RunId& run_id);

  class Impl;

 private:
  explicit ProcessExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Marks that the ledger of a process executor must have room for, at least.
std::size_t LedgerCapacity(const ProcessExecutorOptions& options);

}  // namespace headworks::executor_process
