#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "headworks/base/ids.h"
#include "headworks/base/log.h"
#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/runner/runner.h"
#include "headworks/task_queue/queues.h"

namespace headworks::run_queue {

inline constexpr std::uint32_t kMaxSlots = 64;

struct TakerOptions {
  TenantId tenant{"public"};
  std::string queue = task_queue::kDefaultQueue;
  /// Runs at a time, 1 to kMaxSlots.
  std::uint32_t slots = 1;
  /// How long a claim holds without a word; at least 3 s, at most task_queue::kLongestLease.  A run
  /// whose tasks have a long `grace` gets three times as long as they need to stop.
  Duration lease = std::chrono::seconds(60);
  /// Its own folder, kept over restarts; one taker at a time.
  std::string state_dir;
  /// Names the store that the queue is in, so that runs of another are not taken for its.
  std::string source;
  /// For people, part of the claims' holder.
  std::string name = "runner";
  /// Of each run's engine; database_url, drain_timeout and the folders of files are set by the
  /// taker, and the executors are "inline" and "process": what others run cannot be ended in time.
  RunnerOptions runner;
  /// How long the first Drain lets runs go on.
  Duration drain_timeout = std::chrono::seconds(30);
  /// How long the store of a run is kept after it was last used.  At least an hour.
  Duration keep = std::chrono::hours(24 * 7);
};

/// All borrowed, all must outlive the taker.
struct TakerPorts {
  task_queue::Queues& queues;
  Clock& clock;
  Random& random;
  Logger& log;
  /// Lines for people: what is taken, how it ended.  Called by several threads.
  std::function<void(const std::string& line)> tell = [](const std::string&) {};
  /// Ends this program at once, because a C++ function runs beyond its lease; unset =
  /// std::_Exit(5).
  std::function<void(const std::string& why)> end_program{};
};

/// Takes runs (see Task) out of a queue, and runs each with an engine and a store of its own.
///
/// Delivery.  An item is acknowledged once its run has settled, whatever it settled as; one that
///   no run can be made of is nacked with the reason, and one that this host cannot run now is
///   handed back.  An item that comes again to the same taker finds its run where it was left: it
///   goes on, or has settled.  To another one it is a new run; so is another item with the same id.
/// The claim (I4).  A run starts, and after a crash goes on, only while its claim is held.  It is
///   extended each third of the lease.  A taker that does not get it extended stops the run's
///   tasks, their `grace` included, before the lease ends by its own clock; what does not stop,
///   or a taker that is itself stopped, has its commands killed by their supervisor, and C++
///   functions end the program.
/// Threads.  Run once; Drain on any thread.
class RunTaker {
 public:
  /// kInvalidArgument: an option is out of bounds.  kConflict: another taker uses `state_dir`.
  /// kUnavailable: it cannot be written.
  static Result<std::unique_ptr<RunTaker>> Open(TakerOptions options, const TakerPorts& ports);
  virtual ~RunTaker() = default;

  /// Until drained.  First goes on with what this taker's state has and still holds.
  virtual void Run() = 0;
  /// Takes nothing more; what runs may end within `drain_timeout`, and is then stopped and handed
  /// back, as it is at once by a second call.
  virtual void Drain() = 0;
};

}  // namespace headworks::run_queue
