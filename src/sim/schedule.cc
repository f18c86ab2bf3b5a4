#include "headworks/sim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "engine_peer.h"
#include "headworks/control/control.h"
#include "headworks/dispatch/buffered_dispatcher.h"
#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "headworks/engine/engine.h"
#include "headworks/sim/dice.h"
#include "headworks/sim/fault_database.h"
#include "headworks/sim/fleet.h"
#include "headworks/sim/journal.h"
#include "headworks/sim/oracle.h"
#include "headworks/sim/questions.h"
#include "headworks/sim/site.h"
#include "headworks/sim/workflow_generator.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "headworks/store_sqlite_testing/fault_vfs.h"

namespace headworks::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// Ticks, advances and messages that a schedule may need to end once all faults are off.
constexpr int kMostFinalSteps = 3'000;
constexpr int kMostOpens = 100;  // a store that does not answer may refuse one

/// Tasks, rules and edges, for a trace.
std::string Draw(const model::WorkflowDefinition& definition) {
  std::string text;
  for (const auto& task : definition.tasks) {
    text += fmt::format(" {}{}:{}(", task.id,
                        task.role == model::TaskRole::kMain      ? ""
                        : task.role == model::TaskRole::kFinally ? "/finally"
                                                                 : "/on_cancel",
                        model::TriggerRuleName(task.trigger_rule));
    for (const auto& need : task.needs) text += need + " ";
    text += ")";
  }
  return text;
}

class JournalLogger final : public Logger {
 public:
  explicit JournalLogger(Journal& journal) : journal_(journal) {}
  void Write(LogLevel, std::string_view message, Fields fields) override {
    if (!journal_.keeps()) return;
    std::string line = fmt::format("  engine: {}", message);
    for (const auto& [name, value] : fields) line += fmt::format(" {}={}", name, value);
    journal_.Note(std::move(line));
  }

 private:
  Journal& journal_;
};

/// One engine process: dropped without Close, it crashed.
struct Process {
  Incarnation incarnation;
  std::unique_ptr<store::Database> store;
  std::unique_ptr<FaultDatabase> database;
  std::vector<std::unique_ptr<executor::Executor>> ports;
  std::unique_ptr<dispatch::DefaultDispatcher> dispatcher;
  dispatch::DispatchMetrics dispatch_metrics;
  std::unique_ptr<dispatch::BufferedDispatcher> buffer;
  std::unique_ptr<Questions> questions;
  std::unique_ptr<engine::Engine> engine;
};

struct Command {
  control::Command command;
  std::string dedupe_key;
  bool through_inbox = false;
  int answers = 0;
};

class World {
 public:
  explicit World(const ScheduleOptions& options);
  ScheduleResult Run();

 private:
  void RandomStep();
  void CheckOtherQueue(int step);
  void Finale();
  bool AllEnded();
  void CheckEnd();
  void Describe(const store::RunImage& image);

  // The engine and its process.
  bool OpenEngine();
  void Tick(Process& process);
  void AfterTick();
  void Crash();
  /// One tick on a disk that may fail, fill up, or lose its power on the way.
  void TickOnBadDisk();
  void PowerCut();
  std::unique_ptr<store::Database> OpenStore();
  void TakeOver();
  void CheckMemory(Process& process);
  void CheckWhy(const model::Run& run);

  // What people do.
  void StartRun();
  void AppendStart(const control::StartRequest& request);
  void SendCommand();
  void Send(control::Command command);
  control::Command RandomCommand(RunNo run);
  void Poison();
  void PutWorkflow();

  void AdvanceTime();
  void Elapse(Duration by);
  void PassWithWorkers(Duration by);
  void JumpClock();
  void ChangeLimit();
  void SetLimit(std::uint32_t pool, int limit);
  task_queue::Queues& queues();
  void TellAlerts();
  void CheckToldAlerts();
  /// As a thread of the dispatcher's would, between two ticks.
  void SendFromBuffer();
  StoreFaults RandomStoreFaults();
  SiteFaults RandomSiteFaults(Site::Kind kind);
  std::optional<RunNo> RandomRun();
  const Site::Truth* FindTruth(RunNo run, Epoch epoch) const;
  void Note(std::string_view line);

  const ScheduleOptions options_;
  Dice dice_;
  Dice
      limit_dice_;  // apart, so that a schedule without limits is the same as before there were any
  bool limited_ = false;
  Dice fleet_dice_;                        // apart, too
  Dice alert_dice_;                        // apart, too
  std::optional<std::string> full_queue_;  // of alerts: it has room for a few
  SeededRandom engine_random_;
  SimClock clock_;
  Journal journal_;
  JournalLogger logger_;
  std::shared_ptr<store_memory::Storage> storage_;
  std::unique_ptr<store_sqlite::FaultVfs> disk_;  // SQLite only
  std::unique_ptr<store::Database> database_;     // as other processes see it: no faults
  StoreWeather weather_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::unique_ptr<Fleet> fleet_;  // takes the place of the site for commands
  std::map<std::string, std::shared_ptr<const model::Workflow>> versions_;
  std::vector<std::shared_ptr<const model::Workflow>> workflows_;
  std::unique_ptr<Oracle> oracle_;

  std::unique_ptr<Process> process_;
  std::unique_ptr<Process> stale_;  // lost its lease and does not know yet
  int incarnations_ = 0;
  int owner_ = 0;
  bool disk_damaged_ = false;
  Duration lease_ttl_{};
  engine::EngineOptions engine_options_;
  std::size_t buffer_size_ = 0;  // of the dispatcher; 0 = attempts are offered within a tick
  int requests_ = 0;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<std::string> inbox_keys_;
  ScheduleResult result_;
};

World::World(const ScheduleOptions& options)
    : options_(options),
      dice_(options.seed),
      limit_dice_(options.seed ^ 0x11f17edU),
      fleet_dice_(options.seed ^ 0xf1ee7U),
      alert_dice_(options.seed ^ 0xa1e27U),
      engine_random_(options.seed ^ 0x5eedU),
      journal_(options.trace),
      logger_(journal_),
      storage_(store_memory::NewStorage()),
      disk_(options.store == StoreKind::kSqlite ? std::make_unique<store_sqlite::FaultVfs>()
                                                : nullptr),
      database_(OpenStore()) {
  oracle_ = std::make_unique<Oracle>(
      journal_, [this](RunNo run, Epoch epoch) { return FindTruth(run, epoch); },
      [this](const std::string& version) { return versions_.at(version); });
  const Site::Hooks hooks{
      .offered = [this](const executor::Attempt& attempt,
                        const Incarnation& by) { return oracle_->CheckOffer(attempt, by, owner_); },
      .gate = [this](const model::AttemptKey& key) { return oracle_->IsLiveEpoch(key); },
      .holds = [this](const model::AttemptKey& key,
                      std::string_view holder) { return oracle_->Holds(key, holder); }};
  for (const char* name : {"functions", "commands"}) {
    auto kind = dice_.Chance(500) ? Site::Kind::kLocal : Site::Kind::kRemote;
    if (!options_.plain && kind == Site::Kind::kRemote && dice_.Chance(700))
      kind = Site::Kind::kFenced;
    sites_.push_back(
        std::make_unique<Site>(name, kind, 1 + dice_.Below(6), dice_, clock_, journal_, hooks));
    sites_.back()->SetFaults(RandomSiteFaults(kind));
  }
  if (!options_.plain && options_.workers && fleet_dice_.Chance(300))
    fleet_ = std::make_unique<Fleet>("workers", Dice(fleet_dice_.Next()), clock_, journal_, hooks);
  weather_.faults = RandomStoreFaults();
  lease_ttl_ = dice_.Between(milliseconds(500), seconds(10));
  engine_options_.lease_ttl = lease_ttl_;
  engine_options_.inbox_poll = dice_.Between(milliseconds(1), milliseconds(100));
  engine_options_.started_delay = dice_.Between(milliseconds(0), milliseconds(200));
  if (dice_.Chance(300)) engine_options_.max_runs = 1 + dice_.Below(3);
  if (dice_.Chance(200)) engine_options_.max_task_states = 1 + dice_.Below(40);
  if (dice_.Chance(300)) engine_options_.max_round_rows = 1 + dice_.Below(40);
  if (options_.plain) return;
  if (dice_.Chance(700)) {
    engine_options_.defaults.start_timeout = dice_.Between(seconds(1), minutes(2));
    engine_options_.pending_timeout = dice_.Between(seconds(0), minutes(10));
  }
  if (alert_dice_.Chance(400)) TellAlerts();
  limited_ = options.limits && limit_dice_.Chance(400);
  for (std::uint32_t pool = 0; limited_ && pool < kPools; ++pool)
    SetLimit(pool, 1 + static_cast<int>(limit_dice_.Below(kMostPermits)));
  if (dice_.Chance(500)) buffer_size_ = 1 + dice_.Below(4);
  // Whoever lives for one commit only has to see all runs before it.
  if (!options_.restart_after_each_commit && dice_.Chance(500))
    engine_options_.admit_batch = 1 + dice_.Below(4);
}

StoreFaults World::RandomStoreFaults() {
  StoreFaults faults;
  faults.restart_after_each_commit = options_.restart_after_each_commit;
  const auto sometimes = [&](unsigned most) { return dice_.Chance(400) ? dice_.Below(most) : 0; };
  faults.crash_before_commit = sometimes(60);
  faults.crash_after_commit = sometimes(60);
  faults.unavailable = sometimes(150);
  faults.reply_lost = sometimes(150);
  faults.read_unavailable = sometimes(150);
  faults.full = sometimes(50);
  return faults;
}

SiteFaults World::RandomSiteFaults(Site::Kind kind) {
  const auto sometimes = [&](unsigned most) { return dice_.Chance(400) ? dice_.Below(most) : 0; };
  SiteFaults faults;
  faults.deferred = sometimes(300);
  faults.rejected = sometimes(200);
  faults.refused = sometimes(60);
  faults.crash_in_offer = sometimes(40);
  if (kind == Site::Kind::kLocal) return faults;
  faults.backpressure = sometimes(300);
  faults.transient = sometimes(300);
  faults.unknown = sometimes(300);
  faults.message_lost = sometimes(500);
  faults.message_doubled = sometimes(300);
  if (kind == Site::Kind::kFenced) faults.dropped = sometimes(300);
  return faults;
}

void World::Note(std::string_view line) {
  if (journal_.keeps())
    journal_.Note(fmt::format("{} {}", FormatDuration(clock_.Monotonic()), line));
}

const Site::Truth* World::FindTruth(RunNo run, Epoch epoch) const {
  for (const auto& site : sites_)
    if (const auto* truth = site->Find(run, epoch)) return truth;
  return fleet_ ? fleet_->Find(run, epoch) : nullptr;
}

// ---- The engine and its process.

std::unique_ptr<store::Database> World::OpenStore() {
  if (!disk_) return store_memory::Open(storage_, clock_);
  auto opened = store_sqlite::Open(
      "db", {.clock = &clock_, .cache_bytes = 1 << 20, .vfs = disk_->name(), .boot_id = "boot"});
  if (opened) return *std::move(opened);
  journal_.Violated("open the file: " + opened.error().message);
  return nullptr;
}

void World::TickOnBadDisk() {
  using Operation = store_sqlite::FaultVfs::Operation;
  using Fault = store_sqlite::FaultVfs::Fault;
  const std::int64_t skip = dice_.Below(12);
  switch (dice_.Below(5)) {
    case 0:
      Note("the power will go");
      disk_->StopAfter(skip);
      break;
    case 1:
      Note("the disk will not sync");
      disk_->Fail(Operation::kSync, Fault::kIoError, skip % 2);
      disk_damaged_ = true;
      break;
    case 2:
      Note("the disk will be full");
      disk_->Fail(Operation::kWrite, Fault::kDiskFull, skip, 3);
      break;
    case 3:
      Note("the disk will not write");
      disk_->Fail(Operation::kWrite, Fault::kIoError, skip);
      break;
    default:
      Note("the disk will not read");
      disk_->Fail(Operation::kRead, Fault::kIoError, skip);
  }
  Tick(*process_);
  if (disk_->stopped()) return PowerCut();
  disk_->Heal();
  AfterTick();
}

void World::PowerCut() {
  Note("the power is cut");
  if (stale_) stale_.reset();
  Crash();
  database_.reset();
  SeededRandom what_survives(dice_.Next());
  disk_->PowerCut(what_survives);
  database_ = OpenStore();
}

bool World::OpenEngine() {
  auto process = std::make_unique<Process>();
  process->incarnation.number = ++incarnations_;
  const int number = process->incarnation.number;
  process->store = OpenStore();
  if (!process->store) return false;
  FaultDatabase::Resolve(*process->store, weather_, [this](const store::Round& round) {
    ++result_.rounds;
    oracle_->Committed(round, Incarnation{.number = owner_}, owner_);
  });
  process->database = std::make_unique<FaultDatabase>(
      *process->store, weather_, process->incarnation, dice_, clock_, journal_,
      [this, at = process.get()](const store::Round& round) {
        ++result_.rounds;
        oracle_->Committed(round, at->incarnation, owner_);
      });
  process->dispatcher = std::make_unique<dispatch::DefaultDispatcher>(
      dispatch::Routes{.functions = "functions", .commands = fleet_ ? fleet_->name() : "commands"});
  for (const auto& site : sites_) {
    process->ports.push_back(site->NewPort(process->incarnation));
    if (!process->dispatcher->RegisterExecutor(site->name(), *process->ports.back()))
      journal_.Violated("an executor was not registered");
  }
  if (fleet_) {
    process->ports.push_back(fleet_->NewPort(process->incarnation, logger_));
    if (!process->dispatcher->RegisterExecutor(fleet_->name(), *process->ports.back()))
      journal_.Violated("an executor was not registered");
  }
  process->buffer = std::make_unique<dispatch::BufferedDispatcher>(
      dispatch::BufferConfig{.buffer_size = buffer_size_},
      dispatch::BufferPorts{*process->dispatcher, process->dispatch_metrics, clock_, logger_});
  auto options = engine_options_;
  options.owner = fmt::format("engine-{}", number);
  process->questions = std::make_unique<Questions>(dice_);
  process->engine = std::make_unique<engine::Engine>(options, *process->database, *process->buffer,
                                                     *process->questions, clock_, engine_random_,
                                                     logger_, nullptr);
  const auto opened = process->engine->Open();
  if (!opened) {
    if (opened.error().code != Code::kConflict && opened.error().code != Code::kUnavailable)
      journal_.Violated("open: " + opened.error().message);
    return false;
  }
  if (const auto started = process->dispatcher->Start(*process->engine); !started)
    journal_.Violated("dispatcher: " + started.error().message);
  if (const auto started = process->buffer->StartWithoutThreads(*process->engine, *process->engine);
      !started)
    journal_.Violated("buffer: " + started.error().message);
  Note(fmt::format("engine {} opened", number));
  owner_ = weather_.owner = number;
  process_ = std::move(process);
  return true;
}

void World::Tick(Process& process) {
  if (journal_.keeps()) Note(fmt::format("tick {}", process.incarnation.number));
  process.engine->Tick();
}

void World::AfterTick() {
  if (process_ && process_->incarnation.crashed) return Crash();
  if (std::exchange(weather_.crash_wanted, false)) return Crash();
  if (process_ && process_->engine->stats().lost && std::exchange(disk_damaged_, false))
    return Crash();  // it may not write any more, so its process ends
  if (process_ && process_->engine->stats().lost)
    journal_.Violated("I3 the owner believes that it lost its shards");
  if (process_) CheckMemory(*process_);
  if (stale_ && (stale_->incarnation.crashed || stale_->engine->stats().lost)) {
    Note(fmt::format("engine {} knows that it lost", stale_->incarnation.number));
    stale_.reset();
  }
}

void World::Crash() {
  if (!process_) return;
  ++result_.crashes;
  Note(fmt::format("engine {} crashes", process_->incarnation.number));
  process_->incarnation.crashed = true;
  const int number = process_->incarnation.number;
  process_.reset();
  for (const auto& site : sites_) site->ProcessDied(number, weather_.doubtful.has_value());
}

void World::TakeOver() {
  if (!process_ || stale_) return;
  clock_.Advance(lease_ttl_ + milliseconds(1));
  const int old = process_->incarnation.number;
  Note(fmt::format("engine {} sleeps through its lease", old));
  stale_ = std::move(process_);
  // What runs on its host ends before the lease does; the engine itself has yet to notice.
  for (std::size_t s = 0; s < sites_.size(); ++s) {
    if (sites_[s]->kind() != Site::Kind::kLocal) continue;
    static_cast<void>(stale_->ports[s]->Drain(Duration(0)));
    sites_[s]->ProcessDied(old, weather_.doubtful.has_value());
  }
  for (int tries = 0; tries < kMostOpens && !process_; ++tries) OpenEngine();
  if (!process_) journal_.Violated("a lease that ended was not given away");
}

void World::CheckMemory(Process& process) {
  if (const auto mismatch = engine::EnginePeer::LiveMismatch(*process.engine); mismatch != 0)
    journal_.Violated(fmt::format("the lanes count {} live attempts too many", mismatch));
  if (!engine::EnginePeer::MayWriteYet(*process.engine)) {
    auto stored = database_->limits().ListAllPermits();
    if (stored && !engine::EnginePeer::HoldsAsStored(*process.engine, *std::move(stored)))
      journal_.Violated("I9 permits in memory and store differ");
  }
  for (const RunNo no : oracle_->TakeTouched()) {
    const model::Run* run = engine::EnginePeer::Find(*process.engine, no);
    if (run == nullptr) continue;
    const auto image = database_->runs().LoadRun(run->header.tenant, no);
    if (!image) return journal_.Violated("a run in memory is not stored: " + image.error().message);
    model::Changes effects;
    const auto rebuilt =
        model::Rebuild(image->header, run->workflow, image->tasks, clock_.Now(), effects);
    if (!rebuilt) return journal_.Violated("rebuild: " + rebuilt.error().message);
    const auto differs = [&](std::string_view what) {
      journal_.Violated(fmt::format("memory and store differ: run {} {}", no.value, what));
    };
    if (rebuilt->live != run->live) differs("live attempts");
    if (rebuilt->failed_deciding != run->failed_deciding) differs("failed tasks");
    if (rebuilt->unsettled != run->unsettled) differs("unsettled tasks");
    if (rebuilt->header.counts != run->header.counts) differs("counts");
    if (rebuilt->header.state != run->header.state) differs("state");
    if (rebuilt->header.next_epoch != run->header.next_epoch) differs("next epoch");
    for (std::uint32_t t = 0; t < run->tasks.size(); ++t) {
      const model::TaskRun& a = run->tasks[t];
      const model::TaskRun& b = rebuilt->tasks[t];
      if (a.state != b.state || a.epoch != b.epoch || a.tries != b.tries || a.losses != b.losses ||
          a.upstreams != b.upstreams || a.not_before != b.not_before || a.zombie != b.zombie ||
          a.dispatch_failures != b.dispatch_failures || a.has_row != b.has_row ||
          a.admitted != b.admitted ||
          (a.reason == model::Reason::kPermit) != (b.reason == model::Reason::kPermit) ||
          a.deadline != b.deadline)
        differs(fmt::format("task {}: {} in memory, {} stored", run->workflow->task(TaskNo(t)).id,
                            model::TaskStateName(a.state), model::TaskStateName(b.state)));
    }
    CheckWhy(*rebuilt);
  }
}

/// I14: whatever has not ended can say what it waits for, from header and rows alone.
void World::CheckWhy(const model::Run& run) {
  const model::RunHeader& header = run.header;
  if (header.state != model::RunState::kRunning || !header.stuck_reason.empty()) return;
  const bool deciding = !run.to_settle.empty() || !run.to_reset.empty();
  for (std::uint32_t t = 0; t < run.tasks.size(); ++t) {
    const model::TaskRun& task = run.tasks[t];
    const auto role = run.workflow->task(TaskNo(t)).role;
    bool known = true;
    if (task.state == model::TaskState::kWaiting) {
      known = deciding || role != model::TaskRole::kMain ||
              std::ranges::any_of(run.workflow->upstreams(TaskNo(t)), [&](TaskNo up) {
                return !model::IsTerminal(run.tasks[up.value].state);
              });
    } else if (task.state == model::TaskState::kParked) {
      known = task.reason != model::Reason::kNone && task.not_before != Instant{};
    } else if (task.reason == model::Reason::kPermit) {
      known = task.not_before != Instant{} && task.epoch != Epoch(0);
    } else if (model::IsLive(task.state)) {
      known = task.epoch != Epoch(0);
    }
    if (!known)
      journal_.Violated(fmt::format("I14 run {}: {} is {} and cannot say why", header.run_no.value,
                                    run.workflow->task(TaskNo(t)).id,
                                    model::TaskStateName(task.state)));
  }
}

// ---- What people do.

void World::PutWorkflow() {
  auto definition = GenerateWorkflow(dice_, fmt::format("w{}", dice_.Below(3)), options_.max_tasks);
  if (!options_.plain && dice_.Chance(500)) AddConditions(dice_, definition);
  if (limited_) AddPools(limit_dice_, definition);
  if (limited_ && limit_dice_.Chance(500)) AddConcurrency(limit_dice_, definition);
  if (fleet_ && fleet_dice_.Chance(500))
    AddQueue(fleet_dice_, Fleet::kOtherQueue, Fleet::kLabel, definition);
  auto workflow = model::Workflow::Create(std::move(definition));
  if (!workflow) return journal_.Violated("generated workflow: " + workflow.error().message);
  versions_[(*workflow)->version()] = *workflow;
  workflows_.push_back(*workflow);
  if (journal_.keeps())
    Note("workflow " + (*workflow)->name().workflow + Draw((*workflow)->definition()));
  if (!database_->workflows().PutVersion(TenantId("public"), (*workflow)->version(),
                                         (*workflow)->canonical_json(), clock_.Now()))
    journal_.Violated("a version was not stored");
}

void World::StartRun() {
  if (oracle_->runs() >= 6) return;
  if (workflows_.empty() || (workflows_.size() < 3 && dice_.Chance(300))) PutWorkflow();
  if (workflows_.empty()) return;
  const auto& workflow = workflows_[dice_.Below(static_cast<std::uint32_t>(workflows_.size()))];
  control::StartRequest request;
  request.tenant = TenantId("public");
  request.name = workflow->name();
  request.version = workflow->version();
  request.input = fmt::format(R"({{"request":{}}})", ++requests_);
  if (workflow->definition().concurrency)
    request.concurrency_key = fmt::format("key-{}", limit_dice_.Below(2));
  if (dice_.Chance(300)) request.start_key = fmt::format("key-{}", dice_.Below(3));
  request.priority = static_cast<int>(dice_.Below(3));
  request.actor = fmt::format("starter-{}", requests_);
  Note(fmt::format("start {} of {} tasks, key '{}'", request.input, workflow->size(),
                   request.start_key));
  if (!process_ || dice_.Chance(400)) return AppendStart(request);
  process_->engine->Start(request, [](const Result<control::Started>&) {});
}

void World::AppendStart(const control::StartRequest& request) {
  store::InboxRow row;
  row.tenant = request.tenant;
  row.shard = model::ShardOf(request.name);
  row.kind = "start";
  row.dedupe_key = request.actor;
  row.payload = control::EncodeStart(request);
  row.appended_at = clock_.Now();
  for (int copies = dice_.Chance(300) ? 2 : 1; copies > 0; --copies)
    if (!database_->inbox().Append(std::span(&row, 1))) journal_.Violated("a start was refused");
  inbox_keys_.push_back(row.dedupe_key);
}

std::optional<RunNo> World::RandomRun() {
  const auto runs = oracle_->RunNos();
  if (runs.empty()) return std::nullopt;
  return runs[dice_.Below(static_cast<std::uint32_t>(runs.size()))];
}

control::Command World::RandomCommand(RunNo run) {
  using control::CommandKind;
  constexpr CommandKind kKinds[] = {
      CommandKind::kCancel, CommandKind::kPause, CommandKind::kPause,   CommandKind::kResume,
      CommandKind::kResume, CommandKind::kRerun, CommandKind::kRerun,   CommandKind::kRerun,
      CommandKind::kMark,   CommandKind::kMark,  CommandKind::kUnstick, CommandKind::kDelete};
  control::Command command;
  command.tenant = TenantId("public");
  command.run = run;
  command.kind = kKinds[dice_.Below(std::size(kKinds))];
  command.actor = fmt::format("person-{}", commands_.size() + 1);
  const auto task = [&] { return fmt::format("t{}", dice_.Below(6)); };
  if (command.kind == CommandKind::kRerun) {
    command.rerun = static_cast<model::ResetCursor::Kind>(1 + dice_.Below(3));
    if (command.rerun == model::ResetCursor::Kind::kFrom) command.task = task();
  } else if (command.kind == CommandKind::kMark) {
    constexpr model::TaskState kMarks[] = {model::TaskState::kSucceeded, model::TaskState::kFailed,
                                           model::TaskState::kSkipped};
    command.mark = kMarks[dice_.Below(std::size(kMarks))];
    command.task = task();
  }
  return command;
}

void World::SendCommand() {
  if (const auto run = RandomRun()) Send(RandomCommand(*run));
}

void World::Send(control::Command command) {
  Note(fmt::format("{} {} run {} {}", command.actor, control::CommandKindName(command.kind),
                   command.run.value, command.task));
  auto sent = std::make_unique<Command>();
  sent->command = command;
  sent->through_inbox = !process_ || dice_.Chance(400);
  if (sent->through_inbox) {
    store::InboxRow row;
    row.tenant = command.tenant;
    const auto stored = database_->runs().LoadRun(command.tenant, command.run);
    if (stored) row.shard = stored->header.shard;
    row.kind = control::CommandKindName(command.kind);
    row.dedupe_key = command.actor;
    row.run = command.run;
    row.payload = control::EncodeCommand(command);
    row.appended_at = clock_.Now();
    for (int copies = dice_.Chance(300) ? 2 : 1; copies > 0; --copies)
      if (!database_->inbox().Append(std::span(&row, 1)))
        journal_.Violated("a command was refused");
    inbox_keys_.push_back(row.dedupe_key);
  } else {
    process_->engine->Execute(command, [this, at = sent.get()](const Status&) {
      if (++at->answers > 1) journal_.Violated("I8 a command was answered twice");
    });
  }
  commands_.push_back(std::move(sent));
}

void World::Poison() {
  if (!weather_.poisoned.empty()) {
    Note("the poison is gone");
    weather_.poisoned.clear();
  } else if (const auto run = RandomRun()) {
    Note(fmt::format("run {} is poisoned", run->value));
    weather_.poisoned.insert(*run);
  }
}

// ---- Time and chance.

void World::AdvanceTime() {
  const std::uint32_t draw = dice_.Below(100);
  Duration by{};
  if (draw < 40)
    by = dice_.Between(Duration(0), milliseconds(100));
  else if (draw < 75)
    by = dice_.Between(Duration(0), seconds(5));
  else if (draw < 93)
    by = dice_.Between(Duration(0), minutes(2));
  else
    by = dice_.Between(Duration(0), minutes(20));
  Elapse(by);
  Note("time goes on by " + FormatDuration(by));
}

void World::Elapse(Duration by) {
  if (fleet_)
    fleet_->Elapse(by);
  else
    clock_.Advance(by);
}

/// All are awake, as they are most of the time: leases do not end for want of a chance to speak.
void World::PassWithWorkers(Duration by) {
  for (int n = 0; fleet_ && n < 120 && by > Duration(0) && process_; ++n) {
    const Duration step = std::min<Duration>(by, seconds(1));
    by -= step;
    Elapse(step);
    for (int k = 0; k < 4; ++k) fleet_->Progress();
    while (process_->buffer->SendNext()) {
    }
    Tick(*process_);
    AfterTick();
  }
  clock_.Advance(by);
}

void World::JumpClock() {
  const Duration by = dice_.Between(-hours(1), hours(1));
  clock_.JumpWall(by);
  oracle_->ClockJumped();
  Note("the wall clock jumps by " + FormatDuration(by));
}

void World::SetLimit(std::uint32_t pool, int limit) {
  const std::string name = fmt::format("pool-{}", pool);
  if (!database_->limits().SetPool(TenantId("public"), name, limit, clock_.Now()))
    journal_.Violated("a limit was not set");
  oracle_->SetLimit(name, limit);
}

task_queue::Queues& World::queues() {
  if (disk_) return static_cast<store_sqlite::Database&>(*database_).queues();
  return static_cast<store_memory::Database&>(*database_).queues();
}

void World::TellAlerts() {
  auto& names = engine_options_.alert_queues;
  if (alert_dice_.Chance(700)) names.emplace_back("headworks-alerts");
  if (names.empty() || alert_dice_.Chance(500)) names.emplace_back("ops");
  oracle_->ExpectAlerts(names);
  if (!alert_dice_.Chance(200)) return;
  full_queue_ = names.back();
  if (!queues().admin().Configure(TenantId("public"), *full_queue_, {.max_depth = 2}))
    journal_.Violated("a queue of alerts was not configured");
}

/// Each failure is one item of each queue, whatever crashed and was sent again.
void World::CheckToldAlerts() {
  for (const std::string& queue : engine_options_.alert_queues) {
    std::set<std::string> missing = oracle_->alerts();
    for (task_queue::ItemFilter filter{.limit = task_queue::kMaxBatch};;) {
      const auto page = queues().admin().ListItems(TenantId("public"), queue, filter);
      if (!page && page.error().code == Code::kNotFound) break;
      if (!page) return journal_.Violated("alerts cannot be listed: " + page.error().message);
      for (const auto& item : *page) {
        filter.after = item.no;
        if (missing.erase(item.id) == 0)
          journal_.Violated(
              fmt::format("alert {} is twice in queue {}, or tells of nothing", item.id, queue));
      }
      if (page->size() < filter.limit) break;
    }
    result_.alerts += oracle_->alerts().size() - missing.size();
    const std::size_t told = oracle_->alerts().size() - missing.size();
    if (!missing.empty() && (queue != full_queue_ || told < 2))
      journal_.Violated(fmt::format("alert {} is not in queue {}", *missing.begin(), queue));
  }
}

void World::ChangeLimit() {
  // A round that is on its way was made under the limit that held then.
  if (weather_.doubtful || (process_ && engine::EnginePeer::MayWriteYet(*process_->engine))) return;
  SetLimit(limit_dice_.Below(kPools), static_cast<int>(limit_dice_.Below(kMostPermits + 1)));
  clock_.Advance(engine::Pools::kFresh);
  Note("a limit is changed");
}

void World::SendFromBuffer() {
  Process* process = stale_ && dice_.Chance(300) ? stale_.get() : process_.get();
  if (process == nullptr || !process->buffer->SendNext()) return;
  if (journal_.keeps()) Note(fmt::format("engine {} sent one", process->incarnation.number));
  AfterTick();
}

void World::RandomStep() {
  if (limited_ && limit_dice_.Chance(15)) ChangeLimit();
  if (fleet_ && fleet_dice_.Chance(600))
    for (std::uint32_t n = 1 + fleet_dice_.Below(4); n > 0; --n) fleet_->Progress();
  const std::uint32_t draw = dice_.Below(1'000);
  if (draw < 430) {
    if (disk_ && process_ && dice_.Chance(60)) return TickOnBadDisk();
    if (stale_ && dice_.Chance(300))
      Tick(*stale_);
    else if (process_)
      Tick(*process_);
    else if (!OpenEngine())
      clock_.Advance(lease_ttl_ / 2);
    AfterTick();
  } else if (draw < 700) {
    if (!options_.plain && dice_.Chance(200) && process_ && process_->questions->Progress()) return;
    if (buffer_size_ > 0 && dice_.Chance(400)) return SendFromBuffer();
    sites_[dice_.Below(2)]->Progress();
  } else if (draw < 830) {
    AdvanceTime();
  } else if (draw < 880) {
    StartRun();
  } else if (draw < 950) {
    SendCommand();
  } else if (draw < 965) {
    Crash();
  } else if (draw < 975) {
    JumpClock();
  } else if (draw < 982) {
    TakeOver();
  } else if (draw < 990) {
    Poison();
  } else {
    weather_.faults = RandomStoreFaults();
    for (const auto& site : sites_) site->SetFaults(RandomSiteFaults(site->kind()));
  }
}

// ---- The end: faults off, and everything must come to rest.

bool World::AllEnded() {
  for (const RunNo no : oracle_->RunNos()) {
    const auto image = database_->runs().LoadRun(TenantId("public"), no);
    if (!image || !model::IsTerminal(image->header.state)) return false;
    if (std::ranges::any_of(image->tasks, &model::StoredTask::zombie)) return false;
  }
  if (!process_ || !engine::EnginePeer::Leftovers(*process_->engine).empty()) return false;
  std::vector<Shard> shards;
  shards.reserve(kShardCount);
  for (int s = 0; s < kShardCount; ++s) shards.emplace_back(s);
  const auto inbox = database_->runs().ReadInbox(shards, 0, 1);
  return inbox && inbox->empty();
}

/// The queue and the label that have no workers hold up nobody else (I11); once that is seen, they
/// get some.
void World::CheckOtherQueue(int step) {
  if (!fleet_ || fleet_->serves_all() || !process_) return;
  const std::string waits =
      engine::EnginePeer::WaitsForWorkers(*process_->engine, model::kDefaultQueue);
  if (waits.empty()) return fleet_->ServeAll();
  if (step >= kMostFinalSteps / 2)
    journal_.Violated("I11 waits though there are workers of its queue: " + waits);
}

void World::Finale() {
  Note("faults off");
  weather_.faults = {};
  weather_.poisoned.clear();
  weather_.full_until = {};
  for (std::uint32_t pool = 0; limited_ && pool < kPools; ++pool)
    SetLimit(pool, static_cast<int>(kMostPermits));
  for (const auto& site : sites_) site->CalmDown();
  if (fleet_) fleet_->CalmDown();
  stale_.reset();
  Duration idle = milliseconds(1);
  for (int step = 0; step < kMostFinalSteps && !journal_.failed(); ++step) {
    if (!process_) {
      if (!OpenEngine()) clock_.Advance(lease_ttl_);
      continue;
    }
    const std::uint64_t before = result_.rounds;
    Tick(*process_);
    AfterTick();
    bool moved = result_.rounds != before;
    if (process_) {
      process_->questions->SetUnavailable(0);
      while (process_->questions->Progress()) moved = true;
      while (process_->buffer->SendNext()) moved = true;
    }
    for (const auto& site : sites_)
      for (int n = 0; n < 4; ++n) moved |= site->Progress();
    for (int n = 0; fleet_ && n < 8; ++n) moved |= fleet_->Progress();
    if (moved) {
      idle = milliseconds(1);
      continue;
    }
    if (AllEnded()) return;
    CheckOtherQueue(step);
    // Whatever nobody will touch by itself is touched now.
    for (const RunNo no : oracle_->RunNos()) {
      const auto image = database_->runs().LoadRun(TenantId("public"), no);
      if (!image || idle < minutes(1)) continue;
      control::Command command{.tenant = TenantId("public"), .run = no};
      command.actor = fmt::format("person-{}", commands_.size() + 1);
      if (!image->header.stuck_reason.empty())
        command.kind = control::CommandKind::kUnstick;
      else if (image->header.paused_at != Instant{} ||
               std::ranges::any_of(image->tasks, &model::StoredTask::zombie))
        command.kind = control::CommandKind::kResume;
      else
        continue;
      Send(command);
    }
    PassWithWorkers(idle);
    idle = std::min<Duration>(idle * 2, minutes(10));
  }
}

void World::Describe(const store::RunImage& image) {
  const model::RunHeader& header = image.header;
  Note(fmt::format(
      "run {} is {}, reason {}, next epoch {}, paused {}, cancelled {}, finally {}, "
      "reset {}, wakes {}, stuck '{}'",
      header.run_no.value, model::RunStateName(header.state), model::ReasonName(header.reason),
      header.next_epoch.value, header.paused_at != Instant{},
      header.cancel_requested_at != Instant{}, header.finally_started_at != Instant{},
      static_cast<int>(header.reset.kind),
      header.wake_at == kNever ? "never" : FormatInstant(header.wake_at), header.stuck_reason));
  for (const auto& row : image.tasks)
    Note(fmt::format("  task {}: {} {} epoch {} not before {}", row.task.value,
                     model::TaskStateName(row.state), model::ReasonName(row.reason),
                     row.epoch.value, FormatInstant(row.not_before)));
  if (process_) Note("in memory: " + engine::EnginePeer::Leftovers(*process_->engine));
}

void World::CheckEnd() {
  for (const RunNo no : oracle_->RunNos()) {
    const auto image = database_->runs().LoadRun(TenantId("public"), no);
    if (!image) return journal_.Violated("a run is gone: " + image.error().message);
    oracle_->CheckEnded(*image);
    if (journal_.failed() && journal_.keeps()) return Describe(*image);
    ++result_.runs;
  }
  if (journal_.failed()) return;
  if (!process_) return journal_.Violated("no engine came up");
  if (const auto left = engine::EnginePeer::Leftovers(*process_->engine); !left.empty())
    journal_.Violated("left in memory: " + left);
  if (const auto held = database_->limits().ListAllPermits(); !held || !held->empty())
    journal_.Violated("I9 permits are held when all is over");
  if (!AllEnded()) journal_.Violated("the inbox is not empty");
  CheckToldAlerts();
  for (const auto& key : inbox_keys_) {
    const auto answer = database_->inbox().GetAnswer(TenantId("public"), key);
    if (!answer || !*answer) journal_.Violated("a message was never answered: " + key);
  }
}

ScheduleResult World::Run() {
  const std::uint32_t steps = 40 + dice_.Below(140);
  StartRun();
  for (std::uint32_t step = 0; step < steps && !journal_.failed(); ++step) RandomStep();
  if (!journal_.failed()) Finale();
  if (!journal_.failed()) CheckEnd();
  result_.last_draw = dice_.Next();
  result_.violation = journal_.violation();
  result_.trace = journal_.TakeLines();
  return result_;
}

}  // namespace

ScheduleResult RunSchedule(const ScheduleOptions& options) { return World(options).Run(); }

}  // namespace headworks::sim
