#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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
#include "headworks/executor/dispatch_error.h"
#include "headworks/model/artifact.h"
#include "headworks/model/attempt.h"
#include "headworks/model/workflow.h"

/// The seam to whatever runs tasks.
namespace headworks::executor {

/// One attempt, offered.  Small on purpose: inputs are loaded late, by the Resolver, on the
/// executor's side.
struct Attempt {
  model::AttemptKey key;
  RunId run_id;
  int try_no = 1;
  std::uint32_t generation = 0;
  int priority = 0;
  /// The task's, or the engine's default for tasks that set none; zero = none.
  Duration timeout{0};
  /// Pins the version (I2).  Shared because attempts of many runs outlive the run's memory.
  std::shared_ptr<const model::Workflow> workflow;
  /// Of Inspect: whoever its start gate let in; empty = nobody, or what runs on this host.
  std::string holder = {};
  /// Of Resolve: the folder in which its executor will put the artifacts that the task needs,
  /// before it starts; absolute.  Empty = nowhere, and the task sees none.  Of an offer to a
  /// ProcessExecutor: set where that was said before it was offered.
  std::string artifact_dir = {};

  const model::Task& task() const { return workflow->task(key.task); }
  /// The same over all tries of this task run: to make outside effects idempotent.
  std::string IdempotencyKey() const;
};

/// How much an executor can take now.  `max` includes what it buffers ahead of execution.
struct Capacity {
  std::uint32_t max = 0;
  std::uint32_t used = 0;
  std::uint32_t free() const { return max > used ? max - used : 0; }
};

/// How many more attempts an executor with lines takes now: each number is a bound of its own.
struct Credit {
  std::uint32_t all = 0;     // of whomsoever
  std::uint32_t tenant = 0;  // of this tenant
  std::uint32_t line = 0;    // of this line of the tenant
  /// Whether another line of the tenant may have some though `all` or `tenant` is none.
  bool others = true;
  std::uint32_t least() const { return std::min({all, tenant, line}); }
};

struct Absent {};  // never reached user code: the same epoch may be offered again (I4)
struct Pending {
  std::string reason;
  /// It waits for a place to run, which may take any time: that is shown, and counts neither as
  /// start_timeout nor as pending_timeout (I7).
  bool in_line = false;
};
struct Running {};
struct Ended {
  model::Outcome outcome;
};
struct Unknown {
  std::string why;
};
using Inspection = std::variant<Absent, Pending, Running, Ended, Unknown>;

struct Metrics {
  std::uint64_t active = 0;
  std::uint64_t max = 0;
  std::uint64_t executed = 0;
  std::uint64_t failed = 0;
  Duration mean_duration{};
  Duration p99_duration{};
  /// Of tasks' output, because the log store did not take them.
  std::uint64_t lines_dropped = 0;
  std::uint64_t available() const { return max > active ? max - active : 0; }
};

struct OfferResult {
  model::Disposition disposition = model::Disposition::kDispatched;
  std::string cause;  // empty when dispatched
  /// Unset when dispatched, and where the platform only said "later".
  std::optional<DispatchError> error;
  /// False: it was taken by something on the way, and the executor has not answered yet.
  bool answered = true;
};
/// The answer to an offer that was not taken; the disposition follows from `error`.
OfferResult NotTaken(DispatchError error, std::string cause);

/// What an attempt that runs elsewhere says, and in whose name: only the holder that the start gate
/// let in is heard, and only while its epoch is the task's (I3, I5).
struct Word {
  enum class Kind : std::uint8_t {
    /// Claims the start.  User code begins only when this is answered kGoOn.
    kStarted = 1,
    kHeartbeat = 2,
    /// It has printed something, or left an output: may that be stored?
    kLog = 3,
    kOutput = 4,
    /// It knows that it is to stop.
    kCancelAck = 5,
    kVerdict = 6,
  };
  model::AttemptKey key;
  /// One execution by one worker: two that got the same attempt differ.  Not empty.
  std::string holder;
  Kind kind = Kind::kHeartbeat;
  model::Outcome outcome = {};  // kVerdict
};

/// What such an attempt is answered.
enum class Reply : std::uint8_t {
  /// Heard; what follows from it is committed.
  kGoOn = 1,
  /// Heard, and the attempt is to stop, as by Executor::Cancel.
  kCancel = 2,
  /// Another one holds this attempt, or it is over: stop at once and say nothing more.
  kStop = 3,
  /// It could not be judged now, and nothing was changed: say it again.
  kAskAgain = 4,
};

/// A reply, and what the engine says beside it.
struct Heard {
  // NOLINTNEXTLINE(google-explicit-constructor): a reply is most of it.
  Heard(Reply said, Instant opened = {}) : reply(said), opened_at(opened) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator Reply() const { return reply; }

  Reply reply;
  /// kStarted that is answered kGoOn: when the gate first let this holder in.
  Instant opened_at;
};

/// Where an executor says what became of attempts.  Implemented by the engine.
///
/// Threads.  May be called from any thread, also from within `Offer`.
class AttemptSink {
 public:
  virtual ~AttemptSink() = default;
  /// For attempts whose start gate is the commit that queued them: what runs on this host.
  virtual void Started(const model::AttemptKey& key) = 0;
  /// The output and all log lines are durable, or part of the outcome (I6).
  virtual void Ended(const model::AttemptKey& key, model::Outcome outcome) = 0;
  /// Passes on what an attempt elsewhere says.  `reply` is called once, on another thread or on
  /// this one, after the commit of what follows; it must not block.  A holder that is not answered
  /// says it again; whoever has not heard kGoOn or kCancel for a lease stops its code.
  virtual void Hear(Word word, std::function<void(Heard)> reply) = 0;
  /// Capacity rose: deferred work may be offered again.
  virtual void CapacityChanged() = 0;
};

/// Runs attempts.  Does not decide: retries, budgets and timers are the engine's.
///
/// Life.  Construct, Start(sink), offers, Drain, destroy.  The sink must outlive it.
/// Threads.  All methods may be called concurrently; none blocks on a task.
class Executor {
 public:
  virtual ~Executor() = default;

  /// A constant name: "inline", "process", ...
  virtual std::string_view Name() const = 0;
  /// Begins to run things and to speak to `sink`.  Before it: Inspect, List and Metrics only.
  virtual Status Start(AttemptSink& sink) = 0;
  /// Idempotent per attempt: an epoch that is already here is kDispatched and starts nothing.
  virtual OfferResult Offer(const Attempt& attempt) = 0;
  /// Asks an attempt to stop: its task's `grace`, then force.  It ends with its own verdict
  /// (kCancelled if it was stopped).  An unknown one is ignored; repeatable.
  virtual void Cancel(const model::AttemptKey& key) = 0;
  virtual Capacity GetCapacity() const = 0;
  /// Where attempts wait for different things, such as workers of different queues, each tenant has
  /// lines of them, with credit for each, so that one that does not move holds up no other (I11).
  virtual bool HasLines() const { return false; }
  /// The same text for tasks that wait for the same.
  virtual std::string LineOf(const model::Workflow&, TaskNo) const { return {}; }
  virtual Credit GetCredit(const TenantId&, const std::string& /*line*/) const {
    const std::uint32_t free = GetCapacity().free();
    return {.all = free, .tenant = free, .line = free};
  }
  /// What is known about attempts, also of an earlier incarnation, in the order asked.
  virtual Result<std::vector<Inspection>> Inspect(std::span<const Attempt> attempts) = 0;
  /// Attempts that are here and not yet reported as ended.
  virtual std::vector<model::AttemptKey> List() const = 0;
  virtual Metrics GetMetrics() const = 0;
  /// The engine has committed these verdicts: whatever was kept to prove them may go.
  virtual void Settled(std::span<const model::AttemptKey> keys) = 0;
  /// Takes nothing more.  What has not begun is reported as kInterrupted; what runs may end by
  /// itself within `timeout`, and is then stopped as by Cancel, with its task's `grace`, and
  /// reported as kInterrupted.  kDrainTimeout names what could not be stopped.  Idempotent.
  virtual Status Drain(Duration timeout) = 0;
};

/// The texts of a task with the values of their expressions in place.
struct Rendered {
  model::Action action;
  /// Variables that the script takes its values from.  Nothing else may set them.
  std::map<std::string, std::string> bound;
  std::map<std::string, std::string> workflow_env, env;
  std::vector<std::string> env_file;
  std::string cwd;
  std::map<std::string, std::string> artifacts;
  std::string idempotency_key;  // empty = Attempt::IdempotencyKey
};

/// An artifact of another task of the run, and where its executor puts it.
struct NeededArtifact {
  model::Artifact artifact;
  /// "build.binary", for people.
  std::string name;
  /// Absolute, below Attempt::artifact_dir.
  std::string path;
};

/// What an attempt needs to run, loaded when it runs.
struct Resolved {
  /// {"input", "params", "needs": {"a": {"state", "output", "artifacts"}}, "run": {"id"}, "slot",
  /// "matrix"} as JSON text.
  std::string context_json;
  /// Input merged with the outputs of all needs, in topological order (one JSON object).
  std::string merged_json;
  /// Unset: the task has no expressions in its texts.
  std::optional<Rendered> rendered;
  /// What is to be there before it starts.
  std::vector<NeededArtifact> artifacts = {};
};

class Resolver {
 public:
  virtual ~Resolver() = default;
  /// kInvalidArgument: an expression of the task has no value; trying again cannot help.
  virtual Result<Resolved> Resolve(const Attempt& attempt) = 0;
};

}  // namespace headworks::executor
