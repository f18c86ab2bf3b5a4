#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/run.h"
#include "headworks/model/step.h"

/// The seams to durable state.  Payloads (inputs, outputs, workflow JSON) are opaque bytes here;
/// they were validated once at the border.
///
/// Tenants.  Every call says for which tenant it speaks, except those of the engine that span its
///   shards; an empty tenant is kInvalidArgument, and what belongs to another tenant does not exist
///   (I13).
namespace headworks::store {

/// One shard's guard row: fence, idempotence and lease renewal in one.  A shard that nobody ever
/// owned has term 0 and round 0.
struct Guard {
  Shard shard;
  Term term;
  RoundNo round;  // of the last committed round
  bool operator==(const Guard&) const = default;
};

/// A message of another process (or thread) to the owner of a shard.
struct InboxRow {
  std::int64_t id = 0;  // assigned by the store, rising, never used twice
  TenantId tenant;
  Shard shard;
  /// "start", "cancel", "pause", "resume", "rerun", "mark", "unstick", "delete".
  std::string kind;
  /// Not empty.  The same key of one tenant is stored once, as long as its answer is kept: a
  /// repeated append changes nothing, the first payload stands (I8).
  std::string dedupe_key;
  RunNo run;  // 0 = none (start)
  std::string payload;
  Instant appended_at{};
};

/// What became of an inbox row; kept so that whoever appended it can ask.
struct Answer {
  TenantId tenant;
  std::string dedupe_key;
  std::optional<Error> error;  // none = done
  RunNo run;
  RunId run_id;
};

/// Units of a pool that an attempt holds until it is provably over (I9).
struct Permit {
  TenantId tenant;
  std::string pool;
  RunNo run;
  Epoch epoch;
  TaskNo task;
  int weight = 1;
  Instant granted_at{};
  bool operator==(const Permit&) const = default;
};

/// All that one round changes about one run.  Its number was reserved (`ReserveRunNos`).
struct RunWrite {
  /// What is fixed at the first write (ids, name, version, shard, created_at, start_key,
  /// concurrency_key, trace_context, rerun_of, root_run) is not written again.
  model::RunHeader header;
  /// Set on the row's first write only; the run's input as JSON text.
  std::optional<std::string> insert_input;
  /// False only if `priority`, `wake_at`, `finished_at` and `stuck_reason`, by which runs are
  /// found, are as stored: they are not written then, which spares their indexes.
  bool relist = true;
  struct TaskWrite {
    model::StoredTask row;
    /// True only if the task has a row already, which then is not looked for twice.
    bool known = false;
    /// Who holds the live attempt; empty when there is none.
    std::string executor;
    std::string holder;
    /// Unset = keep what is stored; empty = clear it.
    std::optional<std::string> output;
  };
  std::vector<TaskWrite> tasks;
  std::vector<model::AttemptRecord> attempts;
  std::vector<model::RunEventRecord> events;
  /// Set where starts are limited: when the run began, and until when that counts.
  struct Start {
    Instant at{};
    Instant until{};
  };
  std::optional<Start> start;
  /// Attempts that hold no permits any more; one that held none is passed over.
  std::vector<Epoch> freed;
  struct Grant {
    std::string pool;
    Epoch epoch;
    TaskNo task;
    int weight = 1;
    Instant granted_at{};
  };
  /// To attempts of this run that hold none, or that are in `freed`.
  std::vector<Grant> grants;
};

/// A run and whose it is.
struct RunKey {
  TenantId tenant;
  RunNo run;
  auto operator<=>(const RunKey&) const = default;
};

/// News of a round that somebody takes out of a durable queue of the same database.
struct QueuedItem {
  TenantId tenant;
  std::string queue;
  /// As task_queue::NewItem has them.
  std::string id;
  std::string payload;
  int max_attempts = 0;
};

/// One transaction of the engine.
struct Round {
  /// For each shard touched: the term held and the number of THIS round (stored round + 1).
  std::vector<Guard> guards;
  Duration lease_ttl{};
  std::vector<RunWrite> runs;  // each once, run numbers rising
  /// With all that belongs to them; terminal ones only, and not in `runs`.  One that is not there
  /// is passed over.
  std::vector<RunKey> deleted_runs;
  /// Inbox rows, each once.  One without an answer of its own is answered "done".
  std::vector<std::int64_t> consumed;
  /// The latest answer to a key stands.  An answer to a row that still waits consumes it.
  std::vector<Answer> answers;
  /// Enqueued in this order; one with a known id changes nothing.  What finds its queue full or
  /// damaged, or no room for its queue, is left out, with a warning in the log: no round fails for
  /// it.
  std::vector<QueuedItem> items;
  Instant now{};
};

/// A run as it is stored, for the engine.
struct RunImage {
  model::RunHeader header;
  std::vector<model::StoredTask> tasks;
  /// Live attempts' executors and holders, by position in `tasks`; empty = none.
  std::vector<std::string> executors, holders;
};

/// Durable state of runs and tasks, as its only writer sees it: everything else holds copies.
///
/// Atomicity.  Each call is one transaction: after a crash all of it is visible or none (I1).
/// Fencing.  A round whose term or number is not current changes nothing and returns kLeaseLost
///   (I3), so a slow owner cannot overwrite its successor.
/// Time.  Lease calls take durations and use the store's clock; all others take `now` (I10).
/// Threads.  All methods may be called concurrently.
/// Errors.  kUnavailable: the call may have happened; read the guard, then repeat the same bytes
///   or adopt the result.  kAtCapacity: disk full, nothing happened.  kCorrupt: stop writing.
///   kInvalidArgument: a shard out of range, a duration that is not positive, an empty tenant.
class RunStore {
 public:
  virtual ~RunStore() = default;

  /// Takes all `shards` if each one's lease is free, ended, or already `owner`'s (a name that no
  /// other incarnation uses); terms rise by one, rounds stay.  Guards come in the order asked.
  /// kConflict if somebody else holds one of them (message names the owner); then none is taken.
  virtual Result<std::vector<Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                             Duration ttl) = 0;
  /// Ends the leases that are still held under these terms; others are left alone.
  virtual Status Release(std::span<const Guard> guards) = 0;
  /// The guard as stored, waiting for a commit that is still under way.
  virtual Result<Guard> ReadGuard(Shard shard) = 0;
  /// Commits a round, or nothing.  Moves every guard to its new round and extends its lease; a
  /// lease that ended but was not taken by anybody is still good.
  /// kLeaseLost: a term or round is not current (also after Release, and when the very same round
  ///   is already committed), or the shard was never acquired.
  /// kConflict: a new run's number, id or start key exists; an attempt's epoch exists, or holds a
  ///   permit already; a deleted run is not terminal; a consumed row is not there.  kNotFound: a
  ///   run to update, or a known task row, is not there.
  virtual Status Commit(const Round& round) = 0;
  /// Extends the leases by `ttl` without a round; kLeaseLost if one is not held.
  virtual Status Renew(std::span<const Guard> guards, Duration ttl) = 0;

  /// Tasks in order of number.  kNotFound if there is none.
  virtual Result<RunImage> LoadRun(const TenantId& tenant, RunNo run) = 0;
  /// Tenants for which ListDue has an answer, in order of id, after `after` (empty = from the
  /// first), at most `limit`.  Costs what the tenants cost that have runs to be woken some time,
  /// not what their runs do: a walk that goes from one tenant's entries in the index to the next
  /// one's.
  virtual Result<std::vector<TenantId>> ListDueTenants(std::span<const Shard> shards, Instant until,
                                                       const TenantId& after,
                                                       std::size_t limit) = 0;
  /// A place in the list of due runs; as it is made, before all.
  struct DueAfter {
    Instant wake_at = Instant::min();
    int priority = 0;
    RunNo run;
  };
  /// Runs of one tenant and of `shards` to look at: not stuck, with `wake_at` at or before `until`.
  /// It is unset, so the past, in pending ones and in those with live attempts or ready tasks,
  /// ended ones too.  Ordered by `wake_at` (where it is unset: Instant{}, so first), then priority
  /// (high first), then run number; after `after` in that order, at most `limit`.
  /// Costs what the answer costs, however many runs are due: an index has this order.
  virtual Result<std::vector<model::RunHeader>> ListDue(const TenantId& tenant,
                                                        std::span<const Shard> shards,
                                                        Instant until, const DueAfter& after,
                                                        std::size_t limit) = 0;
  /// What executors hold of runs of `shards`, stuck ones too: attempts that are not known to be
  /// over, zombies included.  Each executor once, by name.
  struct Held {
    std::string executor;
    std::uint64_t runs = 0;
    std::uint64_t attempts = 0;
    bool operator==(const Held&) const = default;
  };
  virtual Result<std::vector<Held>> ListHeld(std::span<const Shard> shards) = 0;
  /// The run that was started under this key, if any.
  virtual Result<std::optional<model::RunHeader>> FindStartKey(const TenantId& tenant,
                                                               const model::Namespace& name,
                                                               std::string_view start_key) = 0;
  /// Reserves `count` run numbers, rising over the store's whole life; returns the first.  Numbers
  /// start at 1; those of a crashed reservation are lost, never used twice.
  virtual Result<RunNo> ReserveRunNos(std::int64_t count) = 0;
  /// Waiting inbox rows of `shards` with an id above `after`, in order of id, at most `limit`.
  /// `after` pages within one look.  Where several processes append at once (PostgreSQL) a row may
  /// become visible after one with a higher id, so each new look starts at 0 and the caller passes
  /// over rows that it already holds.
  virtual Result<std::vector<InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                                  std::size_t limit) = 0;
};

/// What any process may do: leave a message for the owner.
class Inbox {
 public:
  static constexpr std::int64_t kMaxStarts = 100'000;
  static constexpr Duration kAnswerTtl = std::chrono::hours(24);

  virtual ~Inbox() = default;
  /// All rows or none, durable when it returns.  A known dedupe key is a success that changes
  /// nothing.  kAtCapacity when more than kMaxStarts rows of kind "start" would wait; other kinds
  /// are never refused.  `id` is ignored.
  virtual Status Append(std::span<const InboxRow> rows) = 0;
  /// What became of a message; nullopt = not consumed yet, never appended, or forgotten: answers
  /// (and with them the keys) are kept for kAnswerTtl at least, counted by the rounds' `now`.
  virtual Result<std::optional<Answer>> GetAnswer(const TenantId& tenant,
                                                  std::string_view dedupe_key) = 0;
  /// A number that changes whenever anything was committed by anyone: cheap to poll.  Compare only
  /// numbers of the same Database.
  virtual Result<std::int64_t> DataVersion() = 0;
  /// Ends with its destruction; then nothing is called any more.
  class Watch {
   public:
    virtual ~Watch() = default;
  };
  /// Calls `appended` soon after anyone appended, on a thread of the store's.  Null = this store
  /// cannot tell.  A call may be missed (another machine, an older program): look now and then.
  virtual std::unique_ptr<Watch> WatchAppends(std::function<void()> appended) = 0;
};

/// A run as people see it.
struct RunRecord {
  model::RunHeader header;
  std::string workflow_name() const { return header.name.workflow; }
};

struct TaskRecord {
  model::StoredTask row;
  std::string executor;
  std::string holder;
  bool has_output = false;
};

struct TaskEnd {
  model::TaskState state = model::TaskState::kWaiting;
  std::string output;  // JSON text; empty = none
};

/// Reading, for every surface, in any process.  Every call is confined to one tenant (I13).
///
/// Threads.  All methods may be called concurrently, and never wait for the writer.
class RunQuery {
 public:
  virtual ~RunQuery() = default;

  static constexpr std::size_t kMinPrefix = 4;

  /// By full id, by unambiguous prefix (kMinPrefix characters or more, either case), by run number
  /// as digits (a number wins over a prefix), or "@last" (the highest number).
  /// kNotFound; kConflict: several (the message lists them); kInvalidArgument: prefix too short.
  virtual Result<RunRecord> GetRun(const TenantId& tenant, std::string_view reference) = 0;
  struct RunFilter {
    std::optional<std::string> workflow;
    std::vector<model::RunState> states;  // empty = all
    bool stuck_only = false;
    std::optional<RunNo> before;  // exclusive, for paging
    std::size_t limit = 50;
  };
  /// Newest first.
  virtual Result<std::vector<RunRecord>> ListRuns(const TenantId& tenant,
                                                  const RunFilter& filter) = 0;
  /// Runs that take a place: under way, or over but for attempts that are not provably over.  In
  /// order of run number, at most `limit`.
  struct ActiveFilter {
    model::Namespace name;
    /// Only those with this concurrency key.
    std::optional<std::string> key{};
    /// Those too that are pending.
    bool pending = false;
    std::size_t limit = 50;
  };
  virtual Result<std::vector<RunRecord>> ListActive(const TenantId& tenant,
                                                    const ActiveFilter& filter) = 0;
  /// How many runs ListActive would answer with, so at most `limit`, without reading their rows.
  virtual Result<std::size_t> CountActive(const TenantId& tenant, const ActiveFilter& filter) = 0;
  /// When runs with this concurrency key started (`RunWrite::start`), as far as that was after
  /// `after`; ascending.  Starts that count no more may be forgotten.
  virtual Result<std::vector<Instant>> ListStarts(const model::Namespace& name,
                                                  std::string_view key, Instant after) = 0;
  // What follows is kNotFound if the run is not there.

  /// Rows only: tasks that have none are waiting or ready.  In order of task number, above
  /// `after`.
  virtual Result<std::vector<TaskRecord>> ListTasks(const TenantId& tenant, RunNo run,
                                                    std::optional<TaskNo> after,
                                                    std::size_t limit) = 0;
  /// Ended attempts in order of epoch, above `after`; of one task, or of all.
  virtual Result<std::vector<model::AttemptRecord>> ListAttempts(const TenantId& tenant, RunNo run,
                                                                 std::optional<TaskNo> task,
                                                                 Epoch after,
                                                                 std::size_t limit) = 0;
  /// The last `limit` events, in the order they were written.
  virtual Result<std::vector<model::RunEventRecord>> ListEvents(const TenantId& tenant, RunNo run,
                                                                std::size_t limit) = 0;
  /// Where these tasks stand and what they left, in the order asked; one without a row is waiting.
  virtual Result<std::vector<TaskEnd>> ReadEnds(const TenantId& tenant, RunNo run,
                                                std::span<const TaskNo> tasks) = 0;
  virtual Result<std::string> ReadInput(const TenantId& tenant, RunNo run) = 0;
};

/// A registered workflow: a name that points at a version.
struct WorkflowRecord {
  model::Namespace name;
  std::string version;
  std::string source;  // file it came from, empty = embedded
  bool enabled = true;
  Instant registered_at{};
};

/// Versions are immutable and kept as long as a run needs them; names move.
class WorkflowStore {
 public:
  virtual ~WorkflowStore() = default;

  /// Keeps the version; a known one is a success that changes nothing.
  virtual Status PutVersion(const TenantId& tenant, std::string_view version,
                            std::string_view canonical_json, Instant now) = 0;
  /// Canonical JSON; kNotFound.
  virtual Result<std::string> GetVersion(const TenantId& tenant, std::string_view version) = 0;
  /// Points `record.name` at `record.version`, which must be known (kNotFound).
  virtual Status Register(const WorkflowRecord& record) = 0;
  /// kNotFound.
  virtual Result<WorkflowRecord> Get(const model::Namespace& name) = 0;
  /// Ordered by package, then name.
  virtual Result<std::vector<WorkflowRecord>> List(const TenantId& tenant) = 0;
  /// Forgets the name; versions stay.  kNotFound.
  virtual Status Remove(const model::Namespace& name) = 0;
  /// kNotFound.
  virtual Status SetEnabled(const model::Namespace& name, bool enabled) = 0;
};

/// A pool of permits, shared by all runs of a tenant.
struct PoolRecord {
  std::string name;
  /// Permits in all; 0 = nothing that names it starts.
  int limit = 0;
  /// By the configuration of the engine; else by `SetPool`.
  bool declared = false;
  Instant set_at{};
};

/// What spans runs: pools, and who holds their permits.  A round grants and frees them; the engine
/// sees that no more are granted than there are.
///
/// Threads.  All methods may be called concurrently.
class LimitStore {
 public:
  static constexpr int kMaxLimit = 1'000'000;

  virtual ~LimitStore() = default;
  /// Makes a pool or changes its limit.  kInvalidArgument: a name or limit that is not taken;
  /// kConflict: the configuration declares it.
  virtual Status SetPool(const TenantId& tenant, std::string_view name, int limit, Instant now) = 0;
  /// kNotFound; kConflict: permits of it are held, or the configuration declares it.
  virtual Status DeletePool(const TenantId& tenant, std::string_view name) = 0;
  /// What the configuration declares, in place of what it declared before.  A pool that it no
  /// longer names stays, as one set by hand, because tasks may hold or await its permits; one that
  /// was set by hand is the configuration's from now on.
  virtual Status DeclarePools(const TenantId& tenant, const model::PoolLimits& pools,
                              Instant now) = 0;
  /// Ordered by name.
  virtual Result<std::vector<PoolRecord>> ListPools(const TenantId& tenant) = 0;
  /// Ordered by run, then epoch.
  virtual Result<std::vector<Permit>> ListPermits(const TenantId& tenant) = 0;
  /// The engine's: of all tenants, ordered by tenant, run, epoch.
  virtual Result<std::vector<Permit>> ListAllPermits() = 0;
};

/// One open database.  The parts live as long as it does.
class Database {
 public:
  virtual ~Database() = default;
  virtual RunStore& runs() = 0;
  virtual Inbox& inbox() = 0;
  virtual RunQuery& query() = 0;
  virtual WorkflowStore& workflows() = 0;
  virtual LimitStore& limits() = 0;
};

}  // namespace headworks::store
