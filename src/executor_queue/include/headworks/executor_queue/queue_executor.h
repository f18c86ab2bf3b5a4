#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/executor/token_issuer.h"
#include "headworks/log_store/log_store.h"
#include "headworks/worker_api/worker_service.h"

/// Attempts that wait for workers elsewhere, and the workers that come for them.
namespace headworks::executor_queue {

struct QueueOptions {
  /// An attempt whose holder says nothing for so long is lost; one that was assigned and not begun
  /// goes back to its place.  100 ms to a day.
  Duration lease = std::chrono::seconds(60);
  /// How often workers are to say that they live; at most a third of `lease`.  No poll or heartbeat
  /// waits for longer.
  Duration heartbeat_every = std::chrono::seconds(15);
  /// As of the engine: start tokens are good for start_timeout and this.
  Duration pending_timeout = std::chrono::hours(1);
  /// Attempts that nobody has begun, 2 to 1,000,000; those of one line (a tenant's queue, and the
  /// labels that they ask for) at most half of it, those of one tenant all but a quarter, rounded
  /// down: one without workers leaves room for others, and a tenant for another (I11).  Those for
  /// which a poll waits are taken even so.
  std::uint32_t max_waiting = 10'000;
  /// Registered workers, those of one tenant all but a quarter, rounded down, those of one name at
  /// most 1,000.  One more takes the place of the one of its name that was heard longest ago of
  /// those that hold nothing; if there is none, it is told to try again later (I11).
  std::uint32_t max_workers = 10'000;
  /// Output kept of one attempt (16 bytes are added per line), counted anew by the next process;
  /// beyond it one note says so, after which none is kept.
  std::size_t max_log_bytes = std::size_t{64} << 20;
  /// Lines that wait to be stored, of all attempts; beyond it workers are to say them again.
  std::size_t max_waiting_log_bytes = std::size_t{64} << 20;
  /// Of one artifact; a larger one fails its task.
  std::uint64_t max_artifact_bytes = std::uint64_t{10} << 30;
  /// Files on their way to the artifact store and from it, those of one tenant all but a quarter,
  /// rounded down; whoever would begin another is told to ask again.
  std::size_t max_open_artifacts = 256;
  /// Threads that load what attempts need, and as many that touch artifacts.  0 = none at all:
  /// whoever has it calls Tick and RunNext.
  std::uint32_t threads = 2;
};

/// Remembers the longest lease that somebody may still count on, across restarts of the engine: a
/// shorter one is nothing that a worker has heard of whose network is cut.
///
/// Threads.  Not concurrently.
class LeaseRecord {
 public:
  virtual ~LeaseRecord() = default;
  /// Zero = none was promised.  An error: it is not known.
  virtual Result<Duration> Longest() = 0;
  /// Durable once it returns.
  virtual Status SetLongest(Duration lease) = 0;
};

/// What a queue executor works with; all borrowed, all must outlive it.
struct QueuePorts {
  executor::Resolver& resolver;
  log_store::LogStore& logs;
  /// See WorkTokenValid.
  executor::TokenIssuer& tokens;
  /// What the tokens go by.
  Clock& token_clock;
  Clock& clock;
  Logger& log;
  /// nullptr: nothing that was begun outlives this process.
  LeaseRecord* leases = nullptr;
  /// nullptr: tasks that leave or need artifacts are refused.
  artifact_store::BlobStore* artifacts = nullptr;
};

/// One that is registered, as people are shown it.
struct WorkerStatus {
  std::shared_ptr<const worker_api::Registration> registration;
  Instant registered_at, heard_at;
  /// Since it was heard, by the monotonic clock.
  Duration silence{};
  struct Load {
    std::uint32_t held = 0, running = 0;
    bool operator==(const Load&) const = default;
  };
  /// Of its queues those of which it has attempts.
  std::map<std::string, Load> loads;
};

/// Why a worker is registered no more.
enum class Departure : std::uint8_t {
  kLeft,
  kSilent,     // its lease has ended
  kDisplaced,  // another of its name took its place
};

/// What operators want of workers.
struct WorkerOrders {
  /// By name: whoever is called so gets nothing new.
  std::set<std::pair<TenantId, std::string>> cordoned;
  /// Get nothing new, and are told to drain and leave.
  std::set<worker_api::Identity> leaving;
};

struct QueueFigures {
  /// Attempts that nobody has begun, by queue; of all tenants.
  std::map<std::string, std::uint64_t> waiting;
  std::uint64_t workers = 0;
  /// Were assigned, and went back to their place.
  std::uint64_t returned = 0;
  std::uint64_t lost = 0;
  /// Words that were answered kStop.
  std::uint64_t stale_words = 0;
};

/// Offered attempts wait here; workers poll for them, open their start gate, and say how they go
/// (docs/decisions/0025-workers-pull-from-the-engine.md).
///
/// Evidence (I4, I5).  All that is durable is the task's row: this is memory.  Whoever polls gets a
///   start token; the gate, a round of the engine, lets in one.  What a holder says extends its
///   lease, by this process's monotonic clock; a lease that ends is a loss, but never before this
///   process has been up and awake for a whole lease (I7), and for what it did not let in itself
///   up for the longest one that an earlier process promised.  After a restart the engine says who
///   holds what, and each of them has a lease anew.
/// Order.  Per tenant and queue: priority, then order of offer.  What goes back to its place stands
///   where it stood.
/// Life.  Drain waits for calls of the sink, not for what the sink answers to words: it answers or
///   drops all of them before this is destroyed.
/// Artifacts.  What a holder leaves and needs passes here in pieces, each only for what is its own
///   (decision 0030); no success is passed on whose artifacts are not in the store (I6).
/// Waiting counts against no limit but the task's and the run's (I7).
/// Threads.  All methods may be called concurrently; twice `threads`, and two of its own.
/// Bounds.  As in the options and worker_service.h; long polls: 64 of one worker, of which the
///   oldest is answered with nothing.
class QueueExecutor : public executor::Executor, public worker_api::EngineService {
 public:
  using executor::Executor::Start;
  using worker_api::WorkerService::Start;

  /// Who is registered, by tenant, name and incarnation.  In time proportional to them and not to
  /// what they hold.
  virtual std::vector<WorkerStatus> Roster() const = 0;
  /// Who has departed since the last call; of more than QueueOptions::max_workers, the first.
  virtual std::map<worker_api::Identity, Departure> TakeDepartures() = 0;
  /// In place of those before.  Nothing is given to those that are named once this has returned;
  /// what they have goes on.
  virtual void SetOrders(WorkerOrders orders) = 0;
  virtual QueueFigures Figures() const = 0;

  /// What is due by now; returns when to call it again, on the monotonic clock, or earlier.
  virtual Duration Tick() = 0;
  /// Does one thing that may block; false if there is none.
  virtual bool RunNext() = 0;
};

/// How long the working tokens of `QueuePorts::tokens` are to be good for: a holder that says
/// nothing for almost a lease still has one that counts, and a heartbeat renews it in time; and so
/// does one that was to say an end while the engine was away (I7).  Whole seconds, at least a day.
Duration WorkTokenValid(Duration lease);

/// kInvalidArgument names an option that is out of its bounds.
Result<std::unique_ptr<QueueExecutor>> NewQueueExecutor(const QueueOptions& options,
                                                        const QueuePorts& ports);

}  // namespace headworks::executor_queue
