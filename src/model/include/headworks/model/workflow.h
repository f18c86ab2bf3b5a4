#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// Workflows, runs and attempts as values, and the pure state machine over them.  No I/O.
namespace headworks::model {

/// `tenant::package::workflow`, and with a task the fourth part: always four in a registry key.
struct Namespace {
  std::string tenant = "public";
  std::string package = "embedded";
  std::string workflow;

  auto operator<=>(const Namespace&) const = default;
  /// "tenant::package::workflow".
  std::string ToString() const;
};

/// When a task runs, given how its upstreams ended.  The table is section 3 of the design;
/// `Decide` is its only implementation.  Stored: append, never renumber.
enum class TriggerRule : std::uint8_t {
  kAllSuccess = 0,
  kAllFailed = 1,
  kAllDone = 2,
  kAllSkipped = 3,
  kOneSuccess = 4,
  kOneFailed = 5,
  kOneDone = 6,
  kNoneFailed = 7,
  kNoneFailedMinOneSuccess = 8,
  kNoneSkipped = 9,
  kAlways = 10,
};

/// When in a run's life a task may run at all.
enum class TaskRole : std::uint8_t {
  kMain = 0,
  /// Only after a cancel was asked for, before `finally`.
  kOnCancel = 1,
  /// When everything else is settled, whatever the outcome.
  kFinally = 2,
};

enum class Backoff : std::uint8_t { kFixed = 0, kLinear = 1, kExponential = 2 };

/// Which failed tries are meant: those that match one of its lists.
struct RetryCondition {
  /// 0 to 255, ascending.
  std::vector<int> exit_codes{};
  /// An RE2 pattern that a line of the task's output contains; empty = none.
  std::string output_matches{};
  bool operator==(const RetryCondition&) const = default;
};

/// How often and when a task is tried again.
struct RetryPolicy {
  /// Tries in total; 1 = never again.  1 to 1,000.
  int max_attempts = 1;
  Backoff backoff = Backoff::kExponential;
  Duration initial = std::chrono::seconds(1);
  Duration max = std::chrono::minutes(5);
  /// Share of the delay that is drawn: 0.2 = the delay times 0.8 to 1.2.  0 to 1.
  double jitter = 0.2;
  /// The loss with this number ends the task as `lost` (I7).  1 to 1,000.
  int max_losses = 6;
  /// Only such failures are tried again ...
  std::optional<RetryCondition> when{};
  /// ... and these never; `unless` wins.
  std::optional<RetryCondition> unless{};

  /// How long to wait after the `tries`-th failed try (1-based).  `seed` decides the jitter, so
  /// that the same attempt always waits equally long.
  Duration DelayAfter(int tries, std::uint64_t seed) const;
  bool operator==(const RetryPolicy&) const = default;
};

/// A shell script.
struct ShellAction {
  std::string script;
  /// The program that runs it, and its arguments; empty = `/bin/sh -e`.
  std::vector<std::string> shell;
  bool operator==(const ShellAction&) const = default;
};
/// A program and its arguments; no shell in between.
struct ExecAction {
  std::vector<std::string> argv;
  bool operator==(const ExecAction&) const = default;
};
/// A function of the TaskRegistry, by its name there.
struct FunctionAction {
  std::string function;
  bool operator==(const FunctionAction&) const = default;
};
using Action = std::variant<ShellAction, ExecAction, FunctionAction>;

/// Where a command's result is taken from.
enum class OutputMode : std::uint8_t {
  /// The file named by HEADWORKS_OUTPUT.
  kFile = 0,
  /// All of stdout is one JSON value.
  kStdoutJson = 1,
  kStdoutLines = 2,
  kStdout = 3,
};

struct OutputSpec {
  OutputMode mode = OutputMode::kFile;
  /// Declared types of the result's fields as JSON text, for the check of expressions; empty =
  /// none were declared.
  std::string type_json;
  bool operator==(const OutputSpec&) const = default;
};

/// What a task asks of the place where it runs; zero = nothing said.
struct Resources {
  /// Processors: 0.001 to 1,024.
  double cpu = 0;
  /// Bytes, at most 1 PiB.
  std::uint64_t memory = 0;
  bool operator==(const Resources&) const = default;
};

/// A field of a task that the platform may have a default for, and whose value does not show
/// whether somebody gave it: a bit of Task::said.
enum class Gap : std::uint8_t {
  kTimeout = 1 << 0,
  // Of `retry`.
  kMaxAttempts = 1 << 1,
  kBackoff = 1 << 2,
  kInitial = 1 << 3,
  kMax = 1 << 4,
  kJitter = 1 << 5,
  kMaxLosses = 1 << 6,
};

/// What tasks have that do not say otherwise, field by field: a task's own word, or that of its
/// workflow's `defaults`, goes before it.  The operator's, so no part of a version.
struct PlatformDefaults {
  /// Zero = no limit.
  Duration timeout{0};
  /// Above zero.
  Duration start_timeout = std::chrono::minutes(10);
  /// Without `when` and `unless`: what a failure means is the task's own affair.
  RetryPolicy retry{};
  Resources resources{};

  /// kInvalidArgument names the field that is out of its bounds.
  Status Check() const;
  bool operator==(const PlatformDefaults&) const = default;
};

/// One node of the DAG, as the author wrote it, defaults filled in.
///
/// Expressions are CEL.  Texts that may hold templates (`${{ }}`): script, argv, env, cwd,
/// env_file, idempotency_key, paths of artifacts.
struct Task {
  /// `[A-Za-z_][A-Za-z0-9_-]{0,99}`, unique within the workflow.  An instance of a matrix:
  /// `group[value,value]`, at most 250 bytes.
  std::string id;
  /// Of a matrix's instance: the id it was written under, and its combination, a JSON object.
  std::string group, matrix;
  /// ... and the names in it whose values stand in the id, in that order.
  std::vector<std::string> axes;
  TaskRole role = TaskRole::kMain;
  /// Ids of upstream tasks; each of the same role, except that `finally` and `on_cancel` tasks may
  /// only need tasks of their own role.
  std::vector<std::string> needs;
  Action action = ShellAction{};
  std::map<std::string, std::string> env;
  std::vector<std::string> inherit_env;
  /// Files of NAME=value lines, read at each try; a later one wins over an earlier one.
  std::vector<std::string> env_file;
  /// Empty = the folder of the workflow file.  Relative = below it.
  std::string cwd;
  RetryPolicy retry;
  /// Expressions that must all be true, or the task is skipped.  Evaluated once, when the trigger
  /// rule says that it runs.
  std::vector<std::string> when;
  /// Per try; zero = no limit.
  Duration timeout{0};
  /// For an attempt to start once its executor has it; then it is asked about.  Zero = the
  /// platform's.
  Duration start_timeout{0};
  /// From the start of the first try until the task is over; zero = no limit.
  Duration deadline{0};
  /// Between TERM and KILL.
  Duration grace = std::chrono::seconds(10);
  /// Higher first.  -1,000 to 1,000.
  int priority = 0;
  /// Every attempt holds `weight` permits of this pool until it is provably over; empty = none.
  std::string pool;
  /// 1 to 1,000,000.
  int weight = 1;
  /// Where workers run its attempts: the queue that they come to, as IsPoolName; empty =
  /// kDefaultQueue.
  std::string queue;
  /// ... and the labels that such a worker must have: at most kMaxLabels, each of 1 to
  /// kMaxLabelBytes.
  std::vector<std::string> required;
  TriggerRule trigger_rule = TriggerRule::kAllSuccess;
  /// The task may fail without failing the run; for its successors it succeeded.
  bool allow_failure = false;
  /// Handed to the task instead of the one made of run and task; empty = that one.
  std::string idempotency_key;
  OutputSpec output;
  /// Files that a success leaves for its successors, by name: a path as ArtifactPathProblem takes
  /// it.  At most kMaxArtifacts, each name like an id.
  std::map<std::string, std::string> artifacts;
  Resources resources;
  std::string description;
  std::map<std::string, std::string> labels;
  /// Gap bits of fields that no default may fill.  Workflow::Create adds those that are not as they
  /// are without a word.
  std::uint8_t said = 0;

  bool Says(Gap field) const { return (said & static_cast<std::uint8_t>(field)) != 0; }
  void Say(Gap field) { said |= static_cast<std::uint8_t>(field); }
  bool operator==(const Task&) const = default;
};

enum class OnFailure : std::uint8_t { kFinish = 0, kCancelRest = 1 };

/// What a start does that finds no place among the runs with its key.
enum class OnConflict : std::uint8_t {
  /// The run waits, in order of priority, then age.
  kQueue = 0,
  /// No run is made: Start answers kConflict.
  kSkip = 1,
  /// As kQueue, and the oldest that are in its way are cancelled.
  kCancelPrevious = 2,
};

/// Which runs of a workflow may be under way together.
struct Concurrency {
  /// Expression over `params` and `input`: runs for which it has the same value share the limits.
  /// Empty = all runs of the workflow do.
  std::string key;
  /// Runs under way at a time, 1 to 1,000,000; 0 = no limit.  A run counts from its start until the
  /// last of its attempts is provably over.
  int limit = 0;
  OnConflict on_conflict = OnConflict::kQueue;
  /// At most `rate` runs start in any time span of `rate_per`, 1 to 10,000; 0 = no limit.
  int rate = 0;
  Duration rate_per{0};
  bool operator==(const Concurrency&) const = default;
};

enum class ParamType : std::uint8_t {
  /// Not declared: as the default value is.
  kAny = 0,
  kString = 1,
  kInteger = 2,
  kNumber = 3,
  kBoolean = 4,
  kArray = 5,
  kObject = 6,
  /// YYYY-MM-DD
  kDate = 7,
  /// RFC 3339
  kDateTime = 8,
};

/// A parameter of a workflow.
struct Param {
  ParamType type = ParamType::kAny;
  /// JSON text; `null` = none.  A text with a template is rendered when the run starts.
  std::string default_json = "null";
  bool required = false;
  std::string description;
  /// JSON texts; empty = any value.
  std::vector<std::string> allowed;
  /// Of integers and numbers.
  std::optional<double> min, max;
  /// RE2, for the whole text; empty = any.
  std::string pattern;

  /// `name: default`: of any type; with `null` it must be given.
  static Param Plain(std::string default_json);
  bool operator==(const Param&) const = default;
};

/// Everything an author says about a workflow; `Workflow::Create` checks it.
struct WorkflowDefinition {
  Namespace name;
  std::string description;
  std::vector<std::string> tags;
  std::map<std::string, Param> params;
  std::map<std::string, std::string> env;
  /// Where relative paths of tasks start; absolute, or empty (the process's folder).
  std::string base_dir;
  /// Run clock limit; zero = none.  When over: cancel with outcome failed.
  Duration timeout{0};
  Duration finally_timeout = std::chrono::minutes(5);
  Duration cancel_timeout = std::chrono::minutes(10);
  OnFailure on_failure = OnFailure::kFinish;
  /// Live attempts of one run at a time; 0 = no limit of its own.
  int max_parallel = 0;
  /// Runs of this workflow that are under way at a time; 0 = no limit of its own.
  int max_active_runs = 0;
  std::optional<Concurrency> concurrency{};
  std::vector<Task> tasks;

  bool operator==(const WorkflowDefinition&) const = default;
};

/// One fault in a definition.
struct Fault {
  /// Stable, e.g. "HW1021"; `headworks explain` says more.  Static storage.
  std::string_view code;
  /// "tasks.build.needs[0]": where, in the terms of the file.
  std::string field;
  /// What is wrong and what to do.
  std::string message;
};

/// The declared pools of a tenant, by name: how many permits each has.
using PoolLimits = std::map<std::string, int, std::less<>>;

inline constexpr std::string_view kDefaultQueue = "default";
/// Of a task's requirements.
inline constexpr std::size_t kMaxLabels = 64;
inline constexpr std::size_t kMaxLabelBytes = 128;

/// The queue of workers that its attempts wait in.
inline std::string_view QueueOf(const Task& task) {
  return task.queue.empty() ? kDefaultQueue : std::string_view(task.queue);
}

/// 1 to 64 of `[A-Za-z0-9_-]`, as queues are named, too.
bool IsPoolName(std::string_view name);

/// Pools that are not declared, and weights that are above the limit of theirs.
std::vector<Fault> CheckPools(const WorkflowDefinition& definition, const PoolLimits& declared);

/// kInvalidArgument, with all of them by code and field.
Error FaultsError(const std::vector<Fault>& faults);

/// A validated, immutable version of a workflow: the DAG with numbers for names.
///
/// Order.  Tasks are numbered topologically (stable: equal rank keeps the written order), main
///   tasks first, then on_cancel, then finally.
/// Threads.  Immutable; shared freely (engine, executors and readers hold it for different spans,
///   hence shared_ptr).
class Workflow {
 public:
  static constexpr std::size_t kMaxTasks = 1'000'000;

  /// All faults of `definition`; empty = Create takes it.  Of a hopeless one the first 1,000.
  static std::vector<Fault> Check(const WorkflowDefinition& definition);
  /// kInvalidArgument joins all faults; `faults`, if given, receives them one by one.
  static Result<std::shared_ptr<const Workflow>> Create(WorkflowDefinition definition,
                                                        std::vector<Fault>* faults = nullptr);
  /// Reads what `canonical_json()` wrote.  kCorrupt if it is not that.
  static Result<std::shared_ptr<const Workflow>> FromCanonicalJson(std::string_view text);
  /// The same as it holds on a platform: gaps of tasks are filled.  Version and canonical JSON are
  /// those of `text`.
  static Result<std::shared_ptr<const Workflow>> FromCanonicalJson(
      std::string_view text, const PlatformDefaults& defaults);

  const Namespace& name() const { return definition_.name; }
  /// SHA-256 (hex) of `canonical_json()`.
  const std::string& version() const { return version_; }
  const std::string& canonical_json() const { return canonical_json_; }
  /// `tasks` stand in topological order here: TaskNo is the index.
  const WorkflowDefinition& definition() const { return definition_; }

  std::uint32_t size() const { return static_cast<std::uint32_t>(definition_.tasks.size()); }
  const Task& task(TaskNo no) const { return definition_.tasks[no.value]; }
  std::optional<TaskNo> Find(std::string_view id) const;
  /// What people mean by `id`: that task, or all instances of the matrix of that name, ascending.
  /// kNotFound names the nearest id.
  Result<std::vector<TaskNo>> Select(std::string_view id) const;
  std::span<const TaskNo> upstreams(TaskNo no) const;
  std::span<const TaskNo> downstreams(TaskNo no) const;
  /// Tasks of `role`: a contiguous range of numbers [first, second).
  std::pair<TaskNo, TaskNo> range(TaskRole role) const;
  /// A task of it names a pool.
  bool has_pools() const { return has_pools_; }

 private:
  Workflow() = default;
  static Result<std::shared_ptr<Workflow>> Make(WorkflowDefinition definition,
                                                std::vector<Fault>* faults);
  static Result<std::shared_ptr<Workflow>> Read(std::string_view text);
  void Number(WorkflowDefinition definition, std::span<const std::uint32_t> order,
              std::span<const std::uint32_t> offset, std::span<const std::uint32_t> upstreams);

  WorkflowDefinition definition_;
  std::string canonical_json_;
  std::string version_;
  std::vector<std::uint32_t> up_offset_, down_offset_;
  std::vector<TaskNo> up_, down_;
  std::vector<std::uint32_t> by_id_;  // task numbers sorted by id
  std::uint32_t main_end_ = 0, on_cancel_end_ = 0;
  bool has_pools_ = false;
};

/// The fixed shard of a workflow: `hash(tenant, package, workflow) % 64`, with the hash FNV-1a
/// (64 bits) over the parts, each ended by a NUL, mixed by `Mix64`.  Stored: it never changes.
Shard ShardOf(const Namespace& name);

/// "all_success" and so on, both ways; an unknown name is nullopt.
std::string_view TriggerRuleName(TriggerRule rule);
std::optional<TriggerRule> TriggerRuleFromName(std::string_view name);
/// "file", "stdout-json", "stdout-lines", "stdout".
std::string_view OutputModeName(OutputMode mode);
/// "any", "string" and so on.
std::string_view ParamTypeName(ParamType type);

}  // namespace headworks::model
