#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/author/registry.h"
#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/control/control.h"
#include "headworks/job_worker/job_worker.h"
#include "headworks/log_store/log_store.h"
#include "headworks/metrics/family.h"
#include "headworks/model/run.h"
#include "headworks/model/workflow.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/task_queue/queues.h"

namespace headworks::artifact_store {
class ArtifactStore;
}
namespace headworks::executor {
class Executor;
}
namespace headworks::dispatcher {
class WarmPlacer;
}
namespace headworks::worker_api {
class EngineService;
}

/// Headworks inside your program.
namespace headworks {

/// What happened to a run or task, told after it was committed.
struct RunEvent {
  RunNo run;
  RunId run_id;
  /// Unset = the run itself.
  std::optional<TaskNo> task;
  std::string task_id;
  model::RunState run_state = model::RunState::kRunning;
  model::TaskState task_state = model::TaskState::kWaiting;
  model::Reason reason = model::Reason::kNone;
};

/// Of RunnerOptions::tenant_weights.
inline constexpr std::uint32_t kMaxTenantWeight = 1'000;

/// Every setting of an embedded engine, with its default.
struct RunnerOptions {
  /// Where the state lives: "sqlite:PATH", or "memory:" (nothing survives; for tests).
  /// Empty = DefaultDatabaseUrl().
  std::string database_url;
  /// If false, and there is no database yet, Open and Attach are kNotFound and make nothing.
  bool create = true;
  /// Whose runs this runner starts and sees; 1 to 100 letters, digits, `_`, `.` and `-`, as all
  /// names of tenants.
  std::string tenant = "public";

  /// Commands (`run`, `exec`) that run at once.  0 = twice the number of processors.
  std::uint32_t max_concurrent_tasks = 0;
  /// Threads for C++ functions.  0 = the number of processors.
  std::uint32_t inline_threads = 0;
  /// Functions handed out ahead of the threads, so that one commit can serve many.
  std::uint32_t inline_queue_depth = 1'024;
  /// What tasks have that say nothing else, nor does their workflow: timeout, start_timeout, retry
  /// and resources, field by field.  What is out of bounds fails Open.
  model::PlatformDefaults defaults;
  /// A task that asks for more is refused.  Zero = any amount.
  model::Resources max_resources;
  /// How long an attempt that has not started within its start_timeout may stay pending with its
  /// executor, or unknown to it, before its task fails.  Below zero fails Open.
  Duration pending_timeout = std::chrono::hours(1);
  /// Ready tasks are queued by tenant in turn, within a tenant by priority, then by age.  Waiting
  /// so long counts as much as one step of priority; 0 = nothing.  Less fails Open.
  Duration priority_ageing = std::chrono::minutes(1);
  /// Tasks that a tenant may queue in its turn, 1 to 1,000; those that are not named, 1.  Anything
  /// else fails Open.
  std::map<std::string, std::uint32_t, std::less<>> tenant_weights;

  /// Pools of the tenant and how many permits each has, 0 to 1,000,000; these alone are declared by
  /// configuration, others by `limits().SetPool` (`headworks pool set`).  One that an earlier Open
  /// declared and this one does not stays, as if set by hand, with a warning; without
  /// `enable_recovery`, an Open that names none leaves all as they are.  A bad name or limit fails
  /// Open.
  model::PoolLimits pools;

  /// Attempts, for each executor, that may wait for a thread to hand them over, so that the engine
  /// never waits for a platform that answers slowly.  0 = none: the engine's own thread does it,
  /// which is best for "inline" and "process".  At most 1,000,000.
  std::uint32_t dispatch_buffer_size = 0;
  /// Those threads, for each executor, where there is a buffer; at least one.  At most 1,024.
  std::uint32_t dispatch_workers = 4;
  /// How long Shutdown waits for an executor to answer what is being handed to it.
  Duration dispatch_drain_timeout = std::chrono::seconds(15);
  /// Executors of your own, by key, beside "inline" and "process".  Borrowed; each must outlive the
  /// runner.  One that none of the keys below names fails Open.
  std::map<std::string, executor::Executor*> executors;
  /// Keys of the executors that C++ functions and commands go to: "inline", "process", "queue"
  /// (workers that come for them, see worker_service), or one of your own.  An unknown one fails
  /// Open, and so does leaving out one that still has live attempts in the store: nobody else knows
  /// what became of them.
  std::string function_executor = "inline";
  std::string command_executor = "process";
  /// Of tenants all of whose tasks, functions and commands, go to another one: tenant, then key.
  std::map<std::string, std::string, std::less<>> tenant_executors;
  /// Of attempts with workers: one whose worker is not heard for so long is lost.  100 ms to a day.
  Duration worker_lease = std::chrono::seconds(60);
  /// How often workers say that they live; more than none, at most a third of `worker_lease`.
  Duration worker_heartbeat = std::chrono::seconds(15);
  /// Attempts that may wait for workers, 2 to 1,000,000; of one queue and set of labels half of it,
  /// of one tenant three quarters.
  std::uint32_t max_waiting_for_workers = 10'000;
  /// Is asked before the executor whether a warm worker takes an attempt.  Borrowed; nullptr = off.
  dispatcher::WarmPlacer* warm_placer = nullptr;

  /// Is run by /bin/sh for an alert (an item that is dead, a task that ended failed, a run that is
  /// stuck), of whatever tenant, with the alert as its standard input (docs/alerts.md).  Empty =
  /// none.
  std::string alert_command;
  /// Then it is ended with all its processes, and has failed.  100 ms to an hour.
  Duration alert_timeout = std::chrono::seconds(30);
  /// Alerts become items of this durable queue of the tenant that they are about.  Empty = none.
  std::string alert_queue;

  /// Continue unfinished runs when opening.  If false they stay as they are until the next Open.
  bool enable_recovery = true;
  /// If false, commands (cancel, rerun, ...) are applied, but no task is started, nor the alert
  /// command.
  bool start_tasks = true;

  /// How long Shutdown waits for live attempts before it stops them (they run again later and
  /// lose no try).
  Duration drain_timeout = std::chrono::seconds(15);
  /// A shard's lease; renewed by every round, and at a third of it when idle.
  Duration lease_ttl = std::chrono::seconds(10);
  /// How often the inbox of other processes is looked at, where they cannot wake this one.
  Duration inbox_poll = std::chrono::milliseconds(20);

  /// Bounds of what is held in memory.
  std::uint32_t max_runs_in_memory = 20'000;
  std::uint32_t max_task_states_in_memory = 1'000'000;
  /// Log bytes kept per attempt.
  std::uint64_t max_log_bytes = std::uint64_t{64} << 20;

  /// The `headworks-supervisor` program.  Empty = beside this executable, or as installed.
  std::string supervisor_path;
  /// Folder for scratch files of runs.  Empty = beside the database.
  std::string scratch_dir;
  /// As Runner::StopCommandsAt, before the first one starts.
  std::optional<Duration> stop_commands_at;
  /// Folder for artifacts of tasks.  Empty = beside the database.
  std::string artifact_dir;
  /// Of one artifact; a larger one fails its task.
  std::uint64_t max_artifact_bytes = std::uint64_t{10} << 30;

  /// Tasks for `function:`.  nullptr = the process-wide registry (HEADWORKS_TASK).
  TaskRegistry* registry = nullptr;
  /// nullptr = warnings and errors on standard error.
  Logger* logger = nullptr;
  /// Called on one thread of the runner's, in order of commits; must not block.
  std::function<void(const RunEvent&)> on_event;
};

/// "sqlite:" + $HEADWORKS_STORE, or else $XDG_STATE_HOME/headworks/headworks.db, or else
/// ~/.local/state/headworks/headworks.db.
std::string DefaultDatabaseUrl();

/// The file with the keys of all tokens that the engine of this database makes and takes, beside
/// it.  kInvalidArgument: a database in memory has none.
Result<std::string> TokenKeysFile(std::string_view database_url);

/// How a run ended.
struct RunResult {
  RunNo run;
  RunId run_id;
  model::RunState state = model::RunState::kSucceeded;
  model::Reason reason = model::Reason::kNone;
  /// The first tasks that decided a failure: id and error.
  std::vector<std::pair<std::string, std::string>> failures;
};

struct StartOptions {
  /// JSON object for the tasks' `input`; empty = {}.
  std::string input;
  /// "name=value" each; a value is read as the type of the parameter's default.
  std::vector<std::string> params;
  /// Same key, same run (I8).
  std::string start_key;
  /// -1000 to 1000, higher first; added to that of each task.
  int priority = 0;
  std::string actor = "embedded";
};

class Runner;

/// A run, by number.  Cheap to copy; must not outlive its Runner.
class RunHandle {
 public:
  RunNo run() const { return run_; }
  const RunId& run_id() const { return run_id_; }

  /// Until the run ended, kUnavailable after `timeout` (the run goes on), or kLeaseLost (as
  /// CheckEngine).
  Result<RunResult> Wait(Duration timeout = std::chrono::hours(24 * 365)) const;
  Result<model::RunHeader> Status() const;
  /// The output of a task as JSON text; empty = none (yet).  Of a matrix, name one instance.
  Result<std::string> Output(std::string_view task_id) const;
  /// These return once the consequence is committed.  kConflict: the state forbids it.
  headworks::Status Cancel() const;
  headworks::Status Pause() const;
  headworks::Status Resume() const;
  headworks::Status RerunFailed() const;
  /// The id of a matrix means all its instances.
  headworks::Status RerunFrom(std::string_view task_id) const;
  headworks::Status RerunAll() const;

 private:
  friend class Runner;
  RunHandle(Runner& runner, RunNo run, RunId id)
      : runner_(&runner), run_(run), run_id_(std::move(id)) {}

  headworks::Status Send(control::Command command) const;

  Runner* runner_;
  RunNo run_;
  RunId run_id_;
};

/// One background service of a runner.
struct ServiceHealth {
  std::string name;
  bool healthy = true;
  std::string detail;
};

/// The headworks-supervisor that a Runner with these options starts; an error says where none is.
Result<std::string> FindSupervisor(const RunnerOptions& options);

/// The embedded engine and everything that it needs, assembled by URL and options.
///
/// Life.  Open (or Attach), use, Shutdown, destroy; the destructor shuts down.  Services start in
///   the order store, logs, executors, engine, and stop in reverse.
/// Threads.  All methods may be called concurrently.
/// Errors.  Open: kConflict if another process is the engine of this database (its message names
///   it; use Attach), kCorrupt, kUnavailable, kInvalidArgument.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> Open(RunnerOptions options);
  /// Without an engine of its own: starts and commands go to the owner through the inbox, and wait
  /// there if there is none.
  static Result<std::unique_ptr<Runner>> Attach(RunnerOptions options);
  ~Runner();

  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Makes a workflow known under its name; the newest version counts for later starts (I2).
  /// kInvalidArgument: see CheckPools.
  Status Register(const std::shared_ptr<const model::Workflow>& workflow,
                  std::string_view source = "");
  /// The pools of the store, and those of RunnerOptions.
  Result<model::PoolLimits> Pools();
  /// kInvalidArgument if a task names a pool that is not among them, or weighs more than it has.
  Status CheckPools(const model::Workflow& workflow);
  /// Starts the registered (or HEADWORKS_WORKFLOW) workflow `name`: "workflow", or
  /// "package::workflow".  Durable when it returns.
  Result<RunHandle> Start(std::string_view name, const StartOptions& options = {});
  /// The same without waiting for the commit; `done` is called once it is known, on a thread of the
  /// runner's, and must not block.  For many at a time: they share commits.
  void StartAsync(std::string_view name, const StartOptions& options,
                  std::function<void(Result<RunHandle>)> done);
  /// Start and Wait.
  Result<RunResult> Execute(std::string_view name, const StartOptions& options = {});
  /// By id, unambiguous prefix, number or "@last".
  Result<RunHandle> Find(std::string_view reference);

  /// True if this process runs the tasks (Open), false after Attach.
  bool is_engine() const;
  const RunnerOptions& options() const;
  control::Control& control();
  store::RunQuery& query();
  store::WorkflowStore& workflows();
  store::Inbox& inbox();
  store::LimitStore& limits();
  /// Who works for the engine of this database, as it was last written down.
  store::WorkerStore& workers();
  /// Of the same database, for work of any kind; needs no engine.  An engine sweeps them.
  task_queue::Queues& queues();
  /// Handles items of these queues (docs/queue.md), with this runner's tenant and logger; needs no
  /// engine.  Must be gone before the runner.  Errors as for JobWorker::Open.
  Result<std::unique_ptr<JobWorker>> OpenJobWorker(JobWorkerOptions options = {});
  log_store::LogStore& logs();
  /// What tasks have left (see model::ReadResult), by the runs that they are of.
  artifact_store::ArtifactStore& artifacts();
  /// What workers talk to, by whatever carries their words; nullptr: no task goes to "queue".
  /// Stays until the runner is destroyed; after Shutdown it answers kUnavailable.
  worker_api::EngineService* worker_service();

  /// Sees to it that no command of executor "process" runs when the monotonic clock passes `at`,
  /// unless a later call moves that: whatever becomes of this process, their supervisor kills them
  /// then.  They end as interrupted.  For runs that are somebody else's from then on.
  void StopCommandsAt(Duration at);

  /// kLeaseLost once the engine has stopped for good: another one owns the database, or it cannot
  /// be written safely any more.  Its runs go on with the next engine, and Shutdown alone is left.
  Status CheckEngine() const;
  std::vector<ServiceHealth> Health() const;
  /// All metrics as they stand (docs/metrics.md).  Not while Shutdown is under way.
  std::vector<metrics::Family> Metrics() const;
  /// Starts nothing new and waits until no attempt is live, at most `timeout`; what workers have,
  /// or are to have, goes on without this engine and is not waited for.
  Status Drain(Duration timeout);
  /// Drain for `drain_timeout`, stop what is left, give the leases back.  Idempotent.
  Status Shutdown();

 private:
  friend class RunHandle;
  struct Parts;
  explicit Runner(std::unique_ptr<Parts> parts);
  Result<control::StartRequest> MakeStart(std::string_view name, const StartOptions& options);
  Result<std::shared_ptr<const model::Workflow>> GetWorkflow(const std::string& version);
  /// The first tasks that made the run fail, with their last errors.
  Result<std::vector<std::pair<std::string, std::string>>> Failures(RunNo run,
                                                                    const std::string& version);
  std::unique_ptr<Parts> parts_;
};

}  // namespace headworks
