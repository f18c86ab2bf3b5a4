#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headworks/author/registry.h"
#include "headworks/base/ids.h"
#include "headworks/base/log.h"
#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/worker_api/worker_service.h"

/// Runs attempts for an engine elsewhere.
namespace headworks::worker {

struct WorkerOptions {
  TenantId tenant;
  /// 1 to 64 of [A-Za-z0-9_-].
  std::string name;
  /// Attempts that it runs at a time, for each queue that it serves.
  std::map<std::string, std::uint32_t> slots;
  std::vector<std::string> labels;
  /// For people.
  std::string version, host;
  /// Folder of its own: files of attempts, and the lock of the supervisor.  One worker at a time.
  std::string state_dir;
  /// As executor_process::FindSupervisor takes it.
  std::string supervisor_path;
  /// How long Drain waits for what runs.
  Duration drain_timeout = std::chrono::seconds(30);
  /// A poll for work waits so long; at most worker_api::kMaxWait.
  Duration poll_wait = std::chrono::seconds(30);
  /// How long, at the end, the last verdicts are said again to a server that does not answer.
  Duration report_patience = std::chrono::seconds(15);
};

/// All borrowed; each must outlive the worker.
struct WorkerPorts {
  worker_api::WorkerService& service;
  const TaskRegistry& registry;
  Clock& clock;
  Random& random;
  Logger& log;
  /// One line for people for each thing that happened; may be unset.  Called on Run's thread: what
  /// blocks there holds up all words, and so may cost leases.
  std::function<void(const std::string& line)> tell{};
  /// Ends this program at once: a C++ function did not stop when its lease was about to end, and
  /// another worker is about to begin it (I4), or it did not stop when this one had drained. Called
  /// on a thread of its own, and is to write nothing that may block.  Unset = why is written to
  /// standard error, if that can be at once, and std::_Exit(5).
  std::function<void(const std::string& why)> end_program{};
};

struct WorkerFigures {
  bool connected = false;
  /// Attempts whose code runs, and those whose end is not answered yet.
  std::uint64_t running = 0, unreported = 0;
  std::uint64_t slots = 0;
  /// Why tasks cannot run on this host, as when its folder is full; empty = they can.
  std::string no_room;
  /// Since the start.
  std::uint64_t started = 0, reported = 0;
  /// Attempts that were stopped because nobody answered for almost a lease, and those that turned
  /// out to be somebody else's.
  std::uint64_t stopped_for_lease = 0, fenced = 0;
  /// Attempts that had begun and that a drain stopped.
  std::uint64_t interrupted = 0;
};

/// One worker: registers, polls for attempts as it has free slots, opens their start gates, runs
/// them, and says how they go, until it is drained.
///
/// Life.  Open, Run on a thread of the caller's, Drain from any, destroy after Run has returned.
/// Outages.  Whatever gets no answer is said again, for as long as it takes.  What runs goes on
///   meanwhile, but for no longer than its lease: commands are killed before by their supervisor,
///   also while this process is stopped; C++ functions are asked to stop, and one that does not
///   ends the program, whatever else hangs here.  Their attempts are `interrupted`, once that can
///   be said (I3, I7).
/// Logs.  Lines are in the engine's store before the verdict is said (I6); a task whose lines
///   cannot be passed on waits.  Once it was stopped for its lease or to drain, and had its grace,
///   or was cancelled, and its lease is over, lines without room are dropped, with a note.  Bound:
///   1 to 8 MiB of bytes, some 100 a line for what is around them, for each attempt that is held,
///   of which there are at most twice as many as slots.
/// Artifacts.  What a task leaves is passed on before its end is said, what it needs fetched before
///   it begins, piece by piece; a cancel, a drain and the end of the lease stop both.  Those of
///   functions are none.  Bound: some MiB for each of the executor's carriers.
/// Errors of Run.  kPermissionDenied, kConflict, kInvalidArgument: the server refuses this worker,
///   and nothing is held any more; ends that it did not take were given up `report_patience` after
///   their leases.  kDrainTimeout: drained, but the ends of some attempts could not be said; they
///   will be lost, by lease.
/// Threads.  Run's, two of the process executor, one that watches leases and those for functions.
class Worker {
 public:
  /// kInvalidArgument names an option.  kNotFound: no supervisor program.  kUnavailable: another
  /// worker uses `state_dir`.
  static Result<std::unique_ptr<Worker>> Open(WorkerOptions options, const WorkerPorts& ports);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Until it has drained, or is refused.
  Status Run();
  /// Takes nothing more, hands back what has not begun, and lets what runs end by itself within
  /// `drain_timeout`; then it is stopped, as interrupted.  A second call stops it now.  Run returns
  /// within the longest grace and two `report_patience` of that; a C++ function that still runs
  /// then ends the program.
  void Drain();
  WorkerFigures Figures() const;

 private:
  class Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::worker
