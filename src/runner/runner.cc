#include "headworks/runner/runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <ranges>
#include <thread>

#include "alert_commands.h"
#include "check_options.h"
#include "controls.h"
#include "headworks/alert/alert.h"
#include "headworks/alert/alerter.h"
#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/base/file.h"
#include "headworks/base/host.h"
#include "headworks/base/json.h"
#include "headworks/base/random.h"
#include "headworks/base/steady_clock.h"
#include "headworks/base/tenant.h"
#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "headworks/engine/engine.h"
#include "headworks/executor/start_ledger.h"
#include "headworks/executor_inline/inline_executor.h"
#include "headworks/executor_process/process_executor.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/log_store_sqlite/sqlite_log_store.h"
#include "headworks/model/artifact.h"
#include "headworks/spec/params.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/sweeper.h"
#include "headworks/token/jwt_issuer.h"
#include "janitor.h"
#include "lease_file.h"
#include "metrics_table.h"
#include "store_files.h"
#include "store_resolver.h"
#include "when_evaluator.h"
#include "worker_roster.h"

namespace headworks {
namespace fs = std::filesystem;
namespace {

const std::string kQueue = "queue";
constexpr Duration kCommandTimeout = std::chrono::seconds(30);
constexpr Duration kDrainPoll = std::chrono::milliseconds(2);
constexpr Duration kPoll = std::chrono::milliseconds(20);
/// Failures that a RunResult names.
constexpr std::size_t kNamedFailures = 10;
constexpr std::size_t kCachedVersions = 1'000;
constexpr std::size_t kEventsToLookAt = 1'000;

std::uint32_t Processors() { return std::max(1U, std::thread::hardware_concurrency()); }

/// Lines of C++ tasks go where those of commands go.
class LogLines final : public executor_inline::LineSink {
 public:
  explicit LogLines(log_store::LogStore& logs) : logs_(logs) {}
  Status Append(const model::AttemptKey& key, std::int64_t number, Instant at,
                std::string_view line, const std::stop_token& /*stop*/) override {
    const log_store::Batch batch{key,
                                 {{number, log_store::Stream::kStdout, at, std::string(line)}}};
    return logs_.Append({&batch, 1});
  }

 private:
  log_store::LogStore& logs_;
};

struct DeletedRun {
  TenantId tenant;
  RunNo run;
  RunId run_id;
};

/// Tells those who wait for a run, and the embedder, what was committed.
class Watcher final : public engine::Observer {
 public:
  Watcher(std::function<void(const RunEvent&)> on_event,
          std::function<void(const DeletedRun&)> remove)
      : on_event_(std::move(on_event)), remove_(std::move(remove)) {}

  void Deleted(const TenantId& tenant, RunNo run, const RunId& run_id) override {
    Later([this, run = DeletedRun{tenant, run, run_id}] { remove_(run); });
  }
  /// Calls it on the janitor's thread.
  void Later(std::function<void()> work) { janitor_->Add(std::move(work)); }
  /// Removes what is left to remove.  Nothing is committed any more.
  void Finish() { janitor_.reset(); }

  void Committed(std::span<const engine::Change> changes) override {
    bool ended = false;
    for (const auto& change : changes) {
      ended |= !change.task && model::IsTerminal(change.run_state);
      if (on_event_)
        on_event_({change.run, change.run_id, change.task, std::string(change.task_id),
                   change.run_state, change.task_state, change.reason});
    }
    if (!ended) return;
    const std::scoped_lock lock(mutex_);
    ++ends_;
    changed_.notify_all();
  }

  std::uint64_t ends() const {
    const std::scoped_lock lock(mutex_);
    return ends_;
  }
  /// Blocks until a run ended since `seen`, at most `timeout`.
  void WaitForEnd(std::uint64_t seen, Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return ends_ != seen; });
  }

 private:
  const std::function<void(const RunEvent&)> on_event_;
  const std::function<void(const DeletedRun&)> remove_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ends_ = 0;
  std::optional<Janitor> janitor_{std::in_place};
};

/// Why the `when` of a task has no value.
Result<std::string> ExpressionError(store::RunQuery& query, const TenantId& tenant, RunNo run,
                                    const std::string& task) {
  HEADWORKS_ASSIGN(const auto events, query.ListEvents(tenant, run, kEventsToLookAt));
  for (const auto& event : events | std::views::reverse)
    if (event.kind == "expression" && event.detail.starts_with(task + ": "))
      return event.detail.substr(task.size() + 2);
  return std::string(model::ReasonName(model::Reason::kExpression));
}

}  // namespace

Result<std::string> DefaultDatabaseUrl() {
  const auto env = [](const char* name) -> const char* {
    return std::getenv(name);  // tidy-allow(getenv): the documented default
  };
  if (const char* store = env("HEADWORKS_STORE"); store != nullptr && *store != '\0')
    return std::string(store).find(':') == std::string::npos ? "sqlite:" + std::string(store)
                                                             : std::string(store);
  const std::string state = UserFolder(env, "XDG_STATE_HOME", ".local/state");
  if (state.empty())
    return Error{Code::kInvalidArgument,
                 fmt::format("there is no usual place for the state: neither XDG_STATE_HOME nor "
                             "HOME names a folder, and the system knows no home of user {}; name "
                             "the store, with --store or HEADWORKS_STORE",
                             geteuid())};
  return "sqlite:" + state + "/headworks/headworks.db";
}

Result<std::string> TokenKeysFile(std::string_view database_url) {
  if (!database_url.starts_with("sqlite:") || database_url.size() == 7)
    return Error{Code::kInvalidArgument,
                 fmt::format("{} keeps no keys for tokens; use a database on disk", database_url)};
  return RealPath(std::string(database_url.substr(7))) + "-token-keys";
}

/// In the order in which they start; they stop in reverse.
struct Runner::Parts {
  RunnerOptions options;
  SystemClock clock;
  SystemRandom random;
  std::unique_ptr<Logger> own_logger;
  Logger* logger = nullptr;
  std::string path;  // of the database; empty = in memory
  fs::path state_dir;
  bool remove_state_dir = false;
  std::unique_ptr<TaskRegistry> own_registry;
  TaskRegistry* registry = nullptr;

  std::unique_ptr<store::Database> database;
  task_queue::Queues* queues = nullptr;   // of the database
  store::WorkerStore* workers = nullptr;  // of the database
  std::unique_ptr<task_queue::Sweeper> sweeper;
  std::unique_ptr<AlertCommands>
      alert_commands;                       // null: there is no command, or it is not run here
  std::unique_ptr<alert::Alerter> alerter;  // null: nobody wants alerts
  std::unique_ptr<log_store::LogStore> logs;
  std::unique_ptr<artifact_store::ArtifactStore> artifacts;
  CompiledTasks compiled;
  std::unique_ptr<StoreResolver> resolver, remote_resolver;  // of what runs here; elsewhere
  std::unique_ptr<Watcher> watcher;
  std::unique_ptr<executor::StartLedger> ledger;
  std::unique_ptr<LogLines> lines;
  std::unique_ptr<executor::Executor> inline_executor;
  std::unique_ptr<executor_process::ProcessExecutor> process_executor;
  std::optional<SteadyClock> token_clock;
  std::optional<LeaseFile> lease_file;
  std::unique_ptr<token::JwtIssuer> tokens;
  std::unique_ptr<executor_queue::QueueExecutor> queue_executor;       // null: no task goes to it
  std::unique_ptr<WorkerRoster> roster;                                // of it
  std::vector<std::pair<std::string, executor::Executor*>> executors;  // that tasks go to, by key
  std::unique_ptr<dispatch::DefaultDispatcher> dispatcher;
  dispatch::DispatchMetrics dispatch_metrics;
  std::unique_ptr<dispatch::BufferedDispatcher> buffer;  // in front of it
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<WhenEvaluator> evaluator;
  std::unique_ptr<engine::EngineLoop> loop;
  std::unique_ptr<control::Control> control;

  std::mutex cache_mutex;
  std::map<std::string, std::shared_ptr<const model::Workflow>> versions;

  std::atomic<bool> closing = false;
  /// Their folder is this store's alone: what it does not know may go.
  bool own_artifacts = false;
  std::mutex shutdown_mutex;
  bool shut_down = false;

  Status OpenStores();
  void RemoveTraces(const DeletedRun& run);
  void SweepArtifacts();
  Status TakeOwnership();
  Status DeclarePools();
  bool IsRouted(std::string_view key) const;
  /// kInvalidArgument if an executor to which no task goes holds attempts.
  Status CheckHeld();
  Status OpenExecutors();
  /// Those, the one of workers if tasks go to it, and the embedder's.
  Status RegisterExecutors();
  Status OpenQueueExecutor();
  /// Attempts that end with this process, or that it has to see through.
  std::uint64_t LiveHere(const engine::EngineStats& stats) const;
  Status StartEngine();
  Status StartAlerts();
  std::vector<std::string> AlertQueues() const {
    return alert::QueuesOf(!options.alert_command.empty(), options.alert_queue);
  }
  ControlPorts PortsOfControl() { return {*workers, *queues, clock, random, AlertQueues()}; }
};

Status Runner::Parts::OpenStores() {
  if (!options.logger) {
    own_logger = std::make_unique<StderrLogger>(StderrLogger::Format::kText, LogLevel::kWarning);
    options.logger = own_logger.get();
  }
  logger = options.logger;
  HEADWORKS_TRY(CheckTenant("tenant", options.tenant));
  if (options.database_url.empty()) {
    HEADWORKS_ASSIGN(options.database_url, DefaultDatabaseUrl());
  }
  own_artifacts = options.artifact_dir.empty();
  if (options.max_concurrent_tasks == 0) options.max_concurrent_tasks = 2 * Processors();
  if (options.inline_threads == 0) options.inline_threads = Processors();
  const std::string& url = options.database_url;
  if (url == "memory:") {
    auto opened = store_memory::Open(store_memory::NewStorage(), clock, logger);
    queues = &opened->queues();
    workers = &opened->workers();
    database = std::move(opened);
    logs = log_store::NewMemoryLogStore();
    std::string folder = (fs::temp_directory_path() / "headworks-XXXXXX").string();
    if (!mkdtemp(folder.data()))
      return Error{Code::kUnavailable,
                   "no temporary folder can be made in " + fs::temp_directory_path().string()};
    state_dir = folder;
    remove_state_dir = true;
  } else if (url.starts_with("sqlite:")) {
    path = url.substr(7);
    if (path.empty())
      return Error{Code::kInvalidArgument, "database_url 'sqlite:' needs a path: sqlite:PATH"};
    path = RealPath(path);
    HEADWORKS_ASSIGN(auto opened,
                     store_sqlite::Open(path, {.logger = logger, .create = options.create}));
    queues = &opened->queues();
    workers = &opened->workers();
    database = std::move(opened);
    HEADWORKS_ASSIGN(logs, log_store_sqlite::OpenSqliteLogStore(LogsPath(path)));
    state_dir = path + "-state";
    options.artifact_dir = ArtifactsPath(options, path);
  } else {
    return Error{Code::kInvalidArgument,
                 fmt::format("database_url '{}' is not known; write sqlite:PATH or memory:", url)};
  }
  if (!options.scratch_dir.empty()) state_dir = options.scratch_dir;
  if (options.artifact_dir.empty()) options.artifact_dir = (state_dir / "artifacts").string();
  artifacts = artifact_store_files::NewFileArtifactStore(fs::absolute(options.artifact_dir));
  if (!options.registry) {
    own_registry = std::make_unique<TaskRegistry>();
    HEADWORKS_TRY(own_registry->RegisterLinked());
    options.registry = own_registry.get();
  }
  registry = options.registry;
  watcher = std::make_unique<Watcher>(options.on_event,
                                      [this](const DeletedRun& run) { RemoveTraces(run); });
  return {};
}

void Runner::Parts::RemoveTraces(const DeletedRun& run) {
  Status removed = logs->DeleteRun(run.tenant, run.run);
  if (removed) removed = process_executor->RemoveScratch(run.run_id);
  if (removed) removed = artifacts->Remove({run.tenant, run.run_id});
  if (!removed)
    logger->Warning("what a deleted run left cannot be removed",
                    {{"run", run.run_id.value}, {"error", removed.error().message}});
}

/// What runs left that were deleted while nobody could remove it.
void Runner::Parts::SweepArtifacts() {
  const Status swept = headworks::SweepArtifacts(*artifacts, database->query(), own_artifacts,
                                                 [this] { return closing.load(); });
  if (!swept && swept.error().code != Code::kCancelled)
    logger->Warning("artifacts of deleted runs cannot be removed",
                    {{"error", swept.error().message}});
}

bool Runner::Parts::IsRouted(std::string_view key) const {
  return key == options.function_executor || key == options.command_executor ||
         std::ranges::any_of(options.tenant_executors,
                             [&](const auto& own) { return own.second == key; });
}

Status Runner::Parts::CheckHeld() {
  std::vector<Shard> shards;
  shards.reserve(kShardCount);
  for (int shard = 0; shard < kShardCount; ++shard) shards.emplace_back(shard);
  HEADWORKS_ASSIGN(const auto all, database->runs().ListHeld(shards));
  for (const auto& held : all)
    if (!IsRouted(held.executor))
      return Error{
          Code::kConflict,
          fmt::format("executor '{}' still has {} attempts of {} runs in {}, but by this "
                      "configuration no task goes to it, and nobody else knows what became of "
                      "them; start once more with '{}' as function_executor, command_executor or "
                      "a tenant's executor until they are over",
                      held.executor, held.attempts, held.runs,
                      path.empty() ? options.database_url : path, held.executor)};
  return {};
}

Status Runner::Parts::OpenExecutors() {
  resolver = std::make_unique<StoreResolver>(
      database->query(), compiled, [dir = state_dir.string()](const RunId& run) {
        return executor_process::ProcessExecutor::ScratchOf(dir, run);
      });
  remote_resolver = std::make_unique<StoreResolver>(database->query(), compiled);
  lines = std::make_unique<LogLines>(*logs);
  const executor_inline::InlineOptions inline_options{.threads = options.inline_threads,
                                                      .queue_depth = options.inline_queue_depth};
  const std::string id = path.empty() ? state_dir.string() : path;
  const executor_process::ProcessExecutorOptions process_options{
      .supervisor_path = options.supervisor_path,
      .state_dir = state_dir.string(),
      .store_id = Sha256Hex(id).substr(0, 16),
      .max_concurrent = options.max_concurrent_tasks,
      .max_log_bytes = options.max_log_bytes,
      .max_artifact_bytes = options.max_artifact_bytes,
      .kill_all_at = options.stop_commands_at};
  if (!path.empty()) {
    HEADWORKS_ASSIGN(const RunNo first_run, engine->FirstRun());
    HEADWORKS_ASSIGN(
        ledger, executor::StartLedger::Open(path + "-started", BootId(),
                                            executor_inline::LedgerCapacity(inline_options) +
                                                executor_process::LedgerCapacity(process_options),
                                            first_run));
  }
  inline_executor = executor_inline::NewInlineExecutor(
      inline_options, {*registry, *resolver, *lines, clock, *logger, ledger.get()});
  std::error_code ec;
  fs::create_directories(state_dir, ec);
  if (ec)
    return Error{Code::kUnavailable,
                 fmt::format("folder {} cannot be made: {}", state_dir.string(), ec.message())};
  HEADWORKS_ASSIGN(process_executor, executor_process::ProcessExecutor::Open(
                                         process_options, {.resolver = *resolver,
                                                           .log_store = *logs,
                                                           .clock = clock,
                                                           .log = *logger,
                                                           .ledger = ledger.get(),
                                                           .artifacts = artifacts.get()}));
  return {};
}

Status Runner::Parts::RegisterExecutors() {
  const auto add = [&](const std::string& key, executor::Executor& executor) -> Status {
    HEADWORKS_TRY(dispatcher->RegisterExecutor(key, executor));
    if (IsRouted(key)) executors.emplace_back(key, &executor);
    return {};
  };
  HEADWORKS_TRY(add("inline", *inline_executor));
  HEADWORKS_TRY(add("process", *process_executor));
  if (IsRouted(kQueue) && !options.executors.contains(kQueue)) {
    HEADWORKS_TRY(OpenQueueExecutor());
    HEADWORKS_TRY(add(kQueue, *queue_executor));
  }
  for (const auto& [key, own] : options.executors) {
    if (own == nullptr)
      return Error{Code::kInvalidArgument,
                   fmt::format("RunnerOptions::executors: '{}' is nullptr", key)};
    HEADWORKS_TRY(add(key, *own));
    if (!IsRouted(key))
      return Error{Code::kInvalidArgument,
                   fmt::format("RunnerOptions::executors: no task goes to '{}', because "
                               "function_executor is '{}' and command_executor is '{}', and no "
                               "tenant has it; name it there or leave it out",
                               key, options.function_executor, options.command_executor)};
  }
  return {};
}

Status Runner::Parts::OpenQueueExecutor() {
  // What a worker was given stays good for the next engine.
  auto keys = std::make_shared<token::KeyRing>(token::TokenKeys::Generate(random));
  if (!path.empty()) {
    HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(options.database_url));
    HEADWORKS_ASSIGN(keys, token::KeyRing::Open(file, random, clock, *logger));
    lease_file.emplace(path + "-worker-lease");
  }
  token_clock.emplace(clock);
  HEADWORKS_ASSIGN(tokens, token::JwtIssuer::Create(
                               {.work_valid = executor_queue::WorkTokenValid(options.worker_lease),
                                .ceiling = options.worker_attempt_ceiling},
                               std::move(keys), *token_clock));
  HEADWORKS_ASSIGN(queue_executor, executor_queue::NewQueueExecutor(
                                       {.lease = options.worker_lease,
                                        .heartbeat_every = options.worker_heartbeat,
                                        .pending_timeout = options.pending_timeout,
                                        .max_waiting = options.max_waiting_for_workers,
                                        .max_log_bytes = options.max_log_bytes,
                                        .max_artifact_bytes = options.max_artifact_bytes},
                                       {.resolver = *remote_resolver,
                                        .logs = *logs,
                                        .tokens = *tokens,
                                        .token_clock = *token_clock,
                                        .clock = clock,
                                        .log = *logger,
                                        .leases = lease_file ? &*lease_file : nullptr,
                                        .artifacts = artifacts.get()}));
  return {};
}

std::uint64_t Runner::Parts::LiveHere(const engine::EngineStats& stats) const {
  std::uint64_t live = stats.live_attempts;
  // What is with workers goes on without this engine.
  for (const auto& lane : stats.lanes)
    if (queue_executor != nullptr && lane.executor == kQueue) live -= lane.live;
  return live;
}

Status Runner::Parts::TakeOwnership() {
  engine::EngineOptions engine_options;
  engine_options.owner =
      fmt::format("{}:{}:{}", HostName(), getpid(), NewUuidV7(clock.Now(), random));
  engine_options.lease_ttl = options.lease_ttl;
  engine_options.inbox_poll = options.inbox_poll;
  engine_options.defaults = options.defaults;
  engine_options.pending_timeout = options.pending_timeout;
  engine_options.recover = options.enable_recovery;
  engine_options.start_tasks = options.start_tasks;
  engine_options.max_runs = options.max_runs_in_memory;
  engine_options.max_task_states = options.max_task_states_in_memory;
  engine_options.alert_queues = AlertQueues();
  engine_options.ready_order = {.tenant_weights = options.tenant_weights,
                                .ageing = options.priority_ageing};
  dispatcher = std::make_unique<dispatch::DefaultDispatcher>(
      dispatch::Routes{.functions = options.function_executor,
                       .commands = options.command_executor,
                       .tenants = options.tenant_executors},
      dispatch::DispatchPolicy{.max_resources = options.max_resources,
                               .warm_placer = options.warm_placer});
  buffer = std::make_unique<dispatch::BufferedDispatcher>(
      dispatch::BufferConfig{.buffer_size = options.dispatch_buffer_size,
                             .workers = options.dispatch_workers,
                             .drain_timeout = options.dispatch_drain_timeout},
      dispatch::BufferPorts{*dispatcher, dispatch_metrics, clock, *logger});
  evaluator = std::make_unique<WhenEvaluator>(database->query(), compiled);
  engine = std::make_unique<engine::Engine>(std::move(engine_options), *database, *buffer,
                                            *evaluator, clock, random, *logger, watcher.get());
  return engine->Open();
}

Status Runner::Parts::DeclarePools() {
  const TenantId tenant(options.tenant);
  HEADWORKS_ASSIGN(const auto stored, database->limits().ListPools(tenant));
  model::PoolLimits declared;
  for (const store::PoolRecord& pool : stored)
    if (pool.declared) declared.emplace(pool.name, pool.limit);
  if (declared == options.pools) return {};  // most have none, and pay no commit for it
  // Who opens for a run of its own and names no pools leaves those of the engine's configuration.
  if (options.pools.empty() && !options.enable_recovery) return {};
  HEADWORKS_TRY(database->limits().DeclarePools(tenant, options.pools, clock.Now()));
  for (const auto& [name, limit] : declared)
    if (!options.pools.contains(name))
      logger->Warning(
          "pool is no longer declared by the configuration; it stays, as if set by hand, until "
          "'headworks pool delete' removes it",
          {{"tenant", options.tenant}, {"pool", name}, {"limit", std::to_string(limit)}});
  return {};
}

Status Runner::Parts::StartEngine() {
  if (queue_executor) {
    roster = std::make_unique<WorkerRoster>(
        WorkerRoster::Options{.lease = options.worker_lease,
                              .heartbeat_every = options.worker_heartbeat},
        *queue_executor, *workers, database->inbox(), clock, *logger);
    HEADWORKS_TRY(roster->Open());
  }
  HEADWORKS_TRY(dispatcher->Start(*engine));
  HEADWORKS_TRY(buffer->Start(*engine, *engine));
  sweeper = std::make_unique<task_queue::Sweeper>(queues->admin(), clock, *logger);
  sweeper->Start();
  if (roster) roster->Start();
  watcher->Later([this] { SweepArtifacts(); });
  loop = std::make_unique<engine::EngineLoop>(*engine);
  loop->Start();
  control = std::make_unique<EngineControl>(*engine, PortsOfControl());
  return {};
}

Status Runner::Parts::StartAlerts() {
  const auto targets = AlertQueues();
  // Who opens for a command to a run has no time for it.
  if (targets.empty() || !options.start_tasks) return {};
  if (!options.alert_command.empty()) {
    const std::string folder = (state_dir / "alerts").string();
    HEADWORKS_ASSIGN(alert_commands,
                     AlertCommands::Open({.command = options.alert_command,
                                          .timeout = options.alert_timeout,
                                          .supervisor_path = options.supervisor_path,
                                          .state_dir = folder,
                                          .store_id = Sha256Hex(folder).substr(0, 16)},
                                         clock, *logger));
  }
  alerter =
      std::make_unique<alert::Alerter>(targets, *queues, alert_commands.get(), clock, *logger);
  alerter->Start();
  return {};
}

Runner::Runner(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::string> FindSupervisor(const RunnerOptions& options) {
  return executor_process::FindSupervisor(options.supervisor_path);
}

Result<std::unique_ptr<Runner>> Runner::Open(RunnerOptions options) {
  HEADWORKS_TRY(CheckOptions(options));
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  // From here the destructor stops what has started.
  std::unique_ptr<Runner> runner(new Runner(std::move(parts)));
  Parts& p = *runner->parts_;
  HEADWORKS_TRY(p.OpenStores());
  // Ownership first: what an earlier engine left may only be touched once it is gone.
  HEADWORKS_TRY(p.TakeOwnership());
  HEADWORKS_TRY(p.CheckHeld());
  HEADWORKS_TRY(p.OpenExecutors());
  HEADWORKS_TRY(p.RegisterExecutors());
  HEADWORKS_TRY(p.DeclarePools());  // a configuration that is refused has changed nothing
  HEADWORKS_TRY(p.StartAlerts());
  HEADWORKS_TRY(p.StartEngine());
  for (const auto& workflow : p.registry->Workflows())
    if (workflow->name().tenant == p.options.tenant) HEADWORKS_TRY(runner->Register(workflow, ""));
  return runner;
}

Result<std::unique_ptr<Runner>> Runner::Attach(RunnerOptions options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  if (parts->options.database_url == "memory:")
    return Error{Code::kInvalidArgument, "a store in memory has no other process to attach to"};
  std::unique_ptr<Runner> runner(new Runner(std::move(parts)));
  Parts& p = *runner->parts_;
  HEADWORKS_TRY(p.OpenStores());
  p.control = std::make_unique<InboxControl>(*p.database, p.PortsOfControl());
  return runner;
}

Runner::~Runner() {
  if (auto stopped = Shutdown(); !stopped)
    parts_->logger->Warning("shutdown was not clean", {{"error", stopped.error().message}});
}

bool Runner::is_engine() const { return parts_->engine != nullptr; }
const RunnerOptions& Runner::options() const { return parts_->options; }
control::Control& Runner::control() { return *parts_->control; }
store::RunQuery& Runner::query() { return parts_->database->query(); }
store::WorkflowStore& Runner::workflows() { return parts_->database->workflows(); }
store::Inbox& Runner::inbox() { return parts_->database->inbox(); }
store::LimitStore& Runner::limits() { return parts_->database->limits(); }
store::WorkerStore& Runner::workers() { return *parts_->workers; }
task_queue::Queues& Runner::queues() { return *parts_->queues; }
Result<std::unique_ptr<JobWorker>> Runner::OpenJobWorker(JobWorkerOptions options) {
  options.tenant = TenantId(parts_->options.tenant);
  return JobWorker::Open(std::move(options),
                         {.queues = queues(), .clock = parts_->clock, .log = *parts_->logger});
}
log_store::LogStore& Runner::logs() { return *parts_->logs; }
artifact_store::ArtifactStore& Runner::artifacts() { return *parts_->artifacts; }
worker_api::EngineService* Runner::worker_service() { return parts_->queue_executor.get(); }

Status Runner::Register(const std::shared_ptr<const model::Workflow>& workflow,
                        std::string_view source) {
  const model::Namespace& name = workflow->name();
  if (name.tenant != parts_->options.tenant)
    return Error{Code::kPermissionDenied,
                 fmt::format("workflow {} belongs to tenant '{}', this runner to '{}'",
                             name.ToString(), name.tenant, parts_->options.tenant)};
  HEADWORKS_TRY(CheckPools(*workflow));
  const Instant now = parts_->clock.Now();
  HEADWORKS_TRY(workflows().PutVersion(TenantId(name.tenant), workflow->version(),
                                       workflow->canonical_json(), now));
  // What is there already is not written again, and stays disabled if it was.
  const auto known = workflows().Get(name);
  if (known && known->version == workflow->version() && known->source == source) return {};
  if (!known && known.error().code != Code::kNotFound) return Error(known.error());
  return workflows().Register({.name = name,
                               .version = workflow->version(),
                               .source = std::string(source),
                               .enabled = !known || known->enabled,
                               .registered_at = now});
}

Result<model::PoolLimits> Runner::Pools() {
  HEADWORKS_ASSIGN(const auto stored, limits().ListPools(TenantId(parts_->options.tenant)));
  model::PoolLimits pools = parts_->options.pools;
  for (const store::PoolRecord& pool : stored) pools.try_emplace(pool.name, pool.limit);
  return pools;
}

Status Runner::CheckPools(const model::Workflow& workflow) {
  if (!workflow.has_pools()) return {};
  HEADWORKS_ASSIGN(const auto pools, Pools());
  const auto faults = model::CheckPools(workflow.definition(), pools);
  if (faults.empty()) return {};
  return model::FaultsError(faults);
}

Result<std::shared_ptr<const model::Workflow>> Runner::GetWorkflow(const std::string& version) {
  Parts& p = *parts_;
  {
    const std::scoped_lock lock(p.cache_mutex);
    if (const auto known = p.versions.find(version); known != p.versions.end())
      return known->second;
  }
  HEADWORKS_ASSIGN(const std::string text,
                   workflows().GetVersion(TenantId(p.options.tenant), version));
  HEADWORKS_ASSIGN(auto workflow, model::Workflow::FromCanonicalJson(text));
  const std::scoped_lock lock(p.cache_mutex);
  if (p.versions.size() >= kCachedVersions) p.versions.clear();
  p.versions.emplace(version, workflow);
  return workflow;
}

Result<control::StartRequest> Runner::MakeStart(std::string_view name,
                                                const StartOptions& options) {
  HEADWORKS_ASSIGN(auto full, ParseWorkflowName(name));
  if (name.find("::") == name.rfind("::")) full.tenant = parts_->options.tenant;
  if (full.tenant != parts_->options.tenant)
    return Error{Code::kNotFound, fmt::format("workflow {} is not known", full.ToString())};
  HEADWORKS_ASSIGN(const auto record, workflows().Get(full));
  if (!record.enabled)
    return Error{
        Code::kConflict,
        fmt::format("workflow {} is disabled; see 'headworks workflow enable'", full.workflow)};
  HEADWORKS_ASSIGN(const auto workflow, GetWorkflow(record.version));
  control::StartRequest request;
  request.tenant = TenantId(full.tenant);
  request.name = full;
  request.version = record.version;
  HEADWORKS_ASSIGN(request.input,
                   spec::ParseParams(workflow->definition(), options.params, options.input));
  HEADWORKS_ASSIGN(request.concurrency_key,
                   spec::ConcurrencyKey(workflow->definition(), request.input));
  request.start_key = options.start_key;
  request.priority = options.priority;
  request.actor = options.actor;
  return request;
}

Result<RunHandle> Runner::Start(std::string_view name, const StartOptions& options) {
  HEADWORKS_ASSIGN(const auto request, MakeStart(name, options));
  HEADWORKS_ASSIGN(auto started, control().Start(request, kCommandTimeout));
  return RunHandle(*this, started.run, std::move(started.run_id));
}

void Runner::StartAsync(std::string_view name, const StartOptions& options,
                        std::function<void(Result<RunHandle>)> done) {
  auto request = MakeStart(name, options);
  if (!request) return done(Error(request.error()));
  const auto tell = [this, done = std::move(done)](Result<control::Started> started) {
    if (!started) return done(Error(started.error()));
    done(RunHandle(*this, started->run, std::move(started->run_id)));
  };
  if (is_engine()) return parts_->engine->Start(*std::move(request), tell);
  tell(control().Start(*request, kCommandTimeout));
}

Result<RunResult> Runner::Execute(std::string_view name, const StartOptions& options) {
  HEADWORKS_ASSIGN(const auto handle, Start(name, options));
  return handle.Wait();
}

Result<RunHandle> Runner::Find(std::string_view reference) {
  HEADWORKS_ASSIGN(auto run, query().GetRun(TenantId(parts_->options.tenant), reference));
  return RunHandle(*this, run.header.run_no, std::move(run.header.run_id));
}

void Runner::StopCommandsAt(Duration at) {
  const std::scoped_lock lock(parts_->shutdown_mutex);
  if (parts_->process_executor) parts_->process_executor->KillAllAt(at);
}

Status Runner::CheckEngine() const {
  const Parts& p = *parts_;
  if (!p.engine) return {};
  const auto stats = p.engine->stats();
  if (!stats.lost) return {};
  return Error{Code::kLeaseLost,
               fmt::format("{}: this process may not write here any more, and its engine has "
                           "stopped: {}",
                           p.path.empty() ? p.options.database_url : p.path, stats.trouble)};
}

std::vector<ServiceHealth> Runner::Health() const {
  const Parts& p = *parts_;
  std::vector<ServiceHealth> all;
  if (!p.engine) {
    const auto version = p.database->inbox().DataVersion();
    all.push_back({"store", version.has_value(), version ? "answers" : version.error().message});
    return all;
  }
  // What the engine knew at its last round: the store is not asked.
  const auto stats = p.engine->stats();
  const bool commits = stats.lost || stats.trouble.empty();
  all.push_back(
      {"store", commits, commits ? "takes commits" : "refuses commits: " + stats.trouble});
  for (const auto& [key, executor] : p.executors) {
    const auto metrics = executor->GetMetrics();
    all.push_back({key, true, fmt::format("{} active, {} at most", metrics.active, metrics.max)});
  }
  const auto figures = p.dispatch_metrics.Read();
  all.push_back({"dispatch", true,
                 fmt::format("{} waiting ({} at most), {} times full, {} answered, {} rejected, {} "
                             "refused, {} unavailable, {} on average",
                             figures.depth, figures.max_depth, figures.at_capacity,
                             figures.answered, figures.NotTaken(model::Disposition::kRejected),
                             figures.NotTaken(model::Disposition::kRefused),
                             figures.NotTaken(model::Disposition::kTransient),
                             FormatDuration(figures.mean_latency))});
  std::string detail = fmt::format("{} runs in memory, {} live attempts, {} runs stuck",
                                   stats.runs_in_memory, stats.live_attempts, stats.runs_stuck);
  if (stats.lost) detail = "may not write any more and has stopped: " + stats.trouble;
  all.push_back({"engine", !stats.lost, std::move(detail)});
  const std::string trouble = p.sweeper->trouble();
  all.push_back(
      {"queues", trouble.empty(), trouble.empty() ? "are swept" : "cannot be swept: " + trouble});
  if (p.alerter) {
    const std::string untold = p.alerter->trouble();
    all.push_back({"alerts", untold.empty(),
                   untold.empty() ? "are looked after" : "are not looked after: " + untold});
  }
  if (p.roster) {
    const std::string unwritten = p.roster->trouble();
    all.push_back({"workers", unwritten.empty(),
                   unwritten.empty() ? "are written down" : "are not looked after: " + unwritten});
  }
  return all;
}

std::vector<metrics::Family> Runner::Metrics() const {
  const Parts& p = *parts_;
  Figures figures{.engine = std::nullopt, .process = ReadProcessFigures()};
  if (p.engine) {
    figures.engine = p.engine->stats();
    figures.dispatch = p.dispatch_metrics.Read();
    for (const auto& [key, executor] : p.executors)
      figures.executors.emplace_back(key, executor->GetMetrics());
    if (p.queue_executor) figures.workers = p.queue_executor->Figures();
    if (p.alerter) figures.alerts = p.alerter->figures();
  }
  for (const auto& [file, suffix] : {std::pair("database", ""), {"wal", "-wal"}, {"logs", "-logs"}})
    if (std::error_code ec; !p.path.empty()) {
      const auto bytes = fs::file_size(p.path + suffix, ec);
      figures.store_files.emplace_back(file, ec ? 0 : bytes);  // not there: nothing is in it
    }
  // While the store cannot be read there are none; the health of the service says why.
  if (auto queues = p.queues->admin().ListQueues(TenantId(p.options.tenant)))
    figures.queues = *std::move(queues);
  return MakeFamilies(figures);
}

Status Runner::Drain(Duration timeout) {
  if (!parts_->engine) return {};
  parts_->engine->StopQueueing();
  const Duration deadline = parts_->clock.Monotonic() + timeout;
  for (;;) {
    const auto stats = parts_->engine->stats();
    // A round under way when queueing was stopped may queue yet.
    const bool settled = !stats.queueing || !parts_->loop;
    const std::uint64_t live = parts_->LiveHere(stats);
    if ((settled && live == 0) || stats.lost) return {};
    if (parts_->clock.Monotonic() >= deadline)
      return Error{Code::kDrainTimeout, fmt::format("{} attempts are still live after {}", live,
                                                    FormatDuration(timeout))};
    std::this_thread::sleep_for(kDrainPoll);  // tidy-allow(sleep): real threads end
  }
}

Status Runner::Shutdown() {
  Parts& p = *parts_;
  const std::scoped_lock lock(p.shutdown_mutex);
  if (std::exchange(p.shut_down, true)) return {};
  p.closing = true;
  Status status;
  if (p.engine) {
    // A drain that ran out of time is no error here: what is left is stopped, and runs again.
    const Duration deadline = p.clock.Monotonic() + p.options.drain_timeout;
    const bool idle = Drain(p.options.drain_timeout).has_value();
    // While workers are heard; what there is no time for, the next engine tells.
    if (p.alerter) p.alerter->Close(deadline - p.clock.Monotonic());
    status = p.buffer->Close(Duration(0));
    if (p.loop) {
      if (!idle) (void)Drain(std::chrono::seconds(5)).has_value();  // their last words are stored
      p.loop->Stop();
    }
    // Before another engine writes the same rows; of one that is at it already, no more is said.
    if (p.roster && !p.engine->stats().lost) p.roster->Close();
    if (auto closed = p.engine->Close(); !closed && status) status = closed;
  }
  p.alerter.reset();
  p.alert_commands.reset();
  p.sweeper.reset();
  p.roster.reset();
  p.control.reset();
  p.loop.reset();
  if (p.watcher) p.watcher->Finish();
  p.evaluator.reset();
  p.buffer.reset();
  p.process_executor.reset();
  p.inline_executor.reset();
  p.engine.reset();
  p.dispatcher.reset();
  if (p.remove_state_dir) {
    std::error_code ignored;  // a temporary folder: nothing depends on it
    fs::remove_all(p.state_dir, ignored);
  }
  return status;
}

Result<model::RunHeader> RunHandle::Status() const {
  HEADWORKS_ASSIGN(auto run, runner_->query().GetRun(TenantId(runner_->options().tenant),
                                                     std::to_string(run_.value)));
  return std::move(run.header);
}

Result<RunResult> RunHandle::Wait(Duration timeout) const {
  auto& parts = *runner_->parts_;
  const Duration now = parts.clock.Monotonic();
  const Duration deadline = timeout > Duration::max() - now ? Duration::max() : now + timeout;
  const TenantId tenant(parts.options.tenant);
  for (std::int64_t seen = -1;;) {
    const std::uint64_t ends = parts.watcher->ends();
    // Without an engine here the store's version tells whether to look again.
    HEADWORKS_ASSIGN(const std::int64_t version, runner_->inbox().DataVersion());
    if (runner_->is_engine() || version != seen) {
      HEADWORKS_ASSIGN(const auto header, Status());
      if (model::IsTerminal(header.state)) {
        RunResult result{run_, run_id_, header.state, header.reason, {}};
        if (header.state != model::RunState::kFailed) return result;
        HEADWORKS_ASSIGN(result.failures, runner_->Failures(run_, header.version));
        return result;
      }
      HEADWORKS_TRY(runner_->CheckEngine());
      if (!header.stuck_reason.empty())
        return Error{Code::kInternal, "the run is stuck: " + header.stuck_reason};
    }
    seen = version;
    const Duration left = deadline - parts.clock.Monotonic();
    if (left <= Duration(0))
      return Error{Code::kUnavailable, fmt::format("run {} has not ended within {}; it goes on",
                                                   run_id_.value, FormatDuration(timeout))};
    parts.watcher->WaitForEnd(ends, runner_->is_engine()
                                        ? std::min<Duration>(left, std::chrono::seconds(1))
                                        : std::min(left, kPoll));
  }
}

Result<std::vector<std::pair<std::string, std::string>>> Runner::Failures(
    RunNo run, const std::string& version) {
  const TenantId tenant(parts_->options.tenant);
  HEADWORKS_ASSIGN(const auto workflow, GetWorkflow(version));
  std::vector<std::pair<std::string, std::string>> failures;
  for (std::optional<TaskNo> after; failures.size() < kNamedFailures;) {
    HEADWORKS_ASSIGN(const auto rows, query().ListTasks(tenant, run, after, 1'000));
    for (const auto& row : rows) {
      after = row.row.task;
      const model::Task& task = workflow->task(row.row.task);
      if (row.row.state != model::TaskState::kFailed || task.allow_failure) continue;
      std::string error(model::ReasonName(row.row.reason));
      HEADWORKS_ASSIGN(
          const auto attempts,
          query().ListAttempts(tenant, run, row.row.task, Epoch(row.row.epoch.value - 1), 1));
      if (!attempts.empty() && !attempts.back().outcome.error.empty()) {
        error = attempts.back().outcome.error;
      } else if (row.row.reason == model::Reason::kExpression) {
        HEADWORKS_ASSIGN(error, ExpressionError(query(), tenant, run, task.id));
      }
      failures.emplace_back(task.id, std::move(error));
      if (failures.size() == kNamedFailures) break;
    }
    if (rows.size() < 1'000) break;
  }
  return failures;
}

Result<std::string> RunHandle::Output(std::string_view task_id) const {
  HEADWORKS_ASSIGN(const auto header, Status());
  HEADWORKS_ASSIGN(const auto workflow, runner_->GetWorkflow(header.version));
  HEADWORKS_ASSIGN(const auto tasks, workflow->Select(task_id));
  if (tasks.size() > 1)
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is a matrix of {} tasks; name one of them, such as {}", task_id,
                             tasks.size(), workflow->task(tasks.front()).id)};
  HEADWORKS_ASSIGN(auto ends, runner_->query().ReadEnds(header.tenant, run_, tasks));
  HEADWORKS_ASSIGN(auto result, model::ReadResult(ends.front().output));
  return std::move(result.output);
}

headworks::Status RunHandle::Send(control::Command command) const {
  command.tenant = TenantId(runner_->options().tenant);
  command.run = run_;
  command.actor = "embedded";
  return runner_->control().Execute(command, kCommandTimeout);
}

headworks::Status RunHandle::Cancel() const {
  return Send({.kind = control::CommandKind::kCancel});
}
headworks::Status RunHandle::Pause() const { return Send({.kind = control::CommandKind::kPause}); }
headworks::Status RunHandle::Resume() const {
  return Send({.kind = control::CommandKind::kResume});
}
headworks::Status RunHandle::RerunFailed() const {
  return Send({.kind = control::CommandKind::kRerun, .rerun = model::ResetCursor::Kind::kFailed});
}
headworks::Status RunHandle::RerunFrom(std::string_view task_id) const {
  return Send({.kind = control::CommandKind::kRerun,
               .rerun = model::ResetCursor::Kind::kFrom,
               .task = std::string(task_id)});
}
headworks::Status RunHandle::RerunAll() const {
  return Send({.kind = control::CommandKind::kRerun, .rerun = model::ResetCursor::Kind::kAll});
}

}  // namespace headworks
