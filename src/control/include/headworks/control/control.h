#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/model/run.h"
#include "headworks/model/workflow.h"

/// The port under every surface (CLI, API, façade): start and command.  Queries go to
/// `store::RunQuery`.
namespace headworks::control {

struct StartRequest {
  TenantId tenant;
  /// The version must be stored (WorkflowStore::PutVersion) before.
  model::Namespace name;
  std::string version;
  /// {"params": {...}, "input": {...}} as JSON text, validated against the workflow.
  std::string input;
  /// The value of the workflow's `concurrency.key` for this input; none = it has no `concurrency`.
  std::optional<std::string> concurrency_key{};
  std::string start_key;  // same key, same run; empty = a new one each time
  int priority = 0;       // -kMaxPriority to kMaxPriority; added to that of each task
  std::string actor;
  RunNo rerun_of;
  static constexpr int kMaxPriority = 1'000;
};

/// kInvalidArgument if a bound is passed: nothing starts then, wherever the engine is.
Status CheckStart(const StartRequest& request);

struct Started {
  RunNo run;
  RunId run_id;
  bool existed = false;  // the start key was known
};

enum class CommandKind : std::uint8_t {
  kCancel = 1,
  kPause = 2,
  kResume = 3,
  kRerun = 4,
  kMark = 5,
  kUnstick = 6,
  kDelete = 7,
};

struct Command {
  TenantId tenant;
  CommandKind kind = CommandKind::kCancel;
  RunNo run;
  model::ResetCursor::Kind rerun = model::ResetCursor::Kind::kFailed;
  std::string task;  // rerun from, mark: an id, or that of a matrix for all its instances
  model::TaskState mark = model::TaskState::kSucceeded;
  std::string actor;
};

enum class WorkerCommandKind : std::uint8_t {
  /// Gets nothing new, also as another incarnation, until it is uncordoned.
  kCordon = 1,
  kUncordon = 2,
  /// Those that are there are to drain, as on SIGTERM, and to leave.
  kDrain = 3,
};

struct WorkerCommand {
  TenantId tenant;
  WorkerCommandKind kind = WorkerCommandKind::kCordon;
  /// A worker's name; "gpu-*" means all known ones that begin so.
  std::string name;
  std::string actor;
};

struct WorkersCommanded {
  std::vector<std::string> names;
  /// The engine goes by it.  False: it is stored, and the next engine will.
  bool taken = false;
};

/// What became of a test alert in one queue that alerts go to.
struct AlertTested {
  std::string queue;
  /// False: whoever takes it from the queue has it from there.
  bool is_command = false;
  /// Of the item: "completed" = the command succeeded, "dead" = it failed.
  std::string state;
  /// Why it failed.
  std::string reason;
};

/// Starts runs and commands them, wherever their engine is.
///
/// Threads.  All methods may be called concurrently; they return once the owner has committed the
///   consequence, or with kUnavailable when nobody answered within `timeout` (what was asked is
///   stored and will happen).
class Control {
 public:
  virtual ~Control() = default;
  virtual Result<Started> Start(const StartRequest& request, Duration timeout) = 0;
  virtual Status Execute(const Command& command, Duration timeout) = 0;
  /// Stored when this returns; waits for the engine to go by it at most `timeout`.  kNotFound: no
  /// such worker is known; kConflict: none that could drain is there; kAtCapacity.
  virtual Result<WorkersCommanded> CommandWorkers(const WorkerCommand& command,
                                                  Duration timeout) = 0;
  /// Sends an alert that is none wherever the configuration of this process sends alerts; waits at
  /// most `timeout` for an engine that runs the command.  kInvalidArgument: there are none.
  virtual Result<std::vector<AlertTested>> TestAlert(const TenantId& tenant, std::string_view actor,
                                                     Duration timeout) = 0;
};

std::string_view CommandKindName(CommandKind kind);
std::string_view WorkerCommandKindName(WorkerCommandKind kind);

/// The stored form of requests in the inbox, versioned.
std::string EncodeStart(const StartRequest& request);
Result<StartRequest> DecodeStart(std::string_view payload);
std::string EncodeCommand(const Command& command);
Result<Command> DecodeCommand(std::string_view payload);

}  // namespace headworks::control
