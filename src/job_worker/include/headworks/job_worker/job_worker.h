#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/job_worker/job.h"
#include "headworks/task_queue/item_source.h"

namespace headworks {

/// Of all queues of a worker together; each is a thread.
inline constexpr std::uint32_t kMaxJobSlots = 1'000;

struct JobWorkerOptions {
  TenantId tenant{"public"};
  /// Who holds the items, for people; 1 to 256 bytes.
  std::string name = "jobs";
  /// How long the first Drain lets handlers run before they are told to stop.  0 to 10 years.
  Duration drain_timeout = std::chrono::seconds(30);
};

struct JobQueueOptions {
  /// Items at a time, 1 to kMaxJobSlots.
  std::uint32_t slots = 4;
  /// How long an item stays this worker's without a word, e.g. after a crash; 100 ms to 24 h.  It
  /// is extended at each third of it, for as long as the handler runs.
  Duration lease = std::chrono::seconds(60);
};

/// All borrowed, all must outlive the worker.
struct JobWorkerPorts {
  task_queue::Queues& queues;
  Clock& clock;
  Logger& log;
};

/// As that, of items that come from elsewhere, as over rpc::RpcItems.
struct RemoteJobPorts {
  task_queue::ItemSource& items;
  Clock& clock;
  Logger& log;
};

/// One queue of a worker.  Counts are since the worker was opened, of deliveries.
struct JobFigures {
  std::string queue;
  std::uint32_t slots = 0;
  /// Claimed and not settled.
  std::uint32_t running = 0;
  /// Those of them whose lease is lost, so that another may run the same item.
  std::uint32_t overrunning = 0;
  std::uint64_t claimed = 0;
  // Where claimed items went:
  std::uint64_t completed = 0;
  /// Failed, and again later.
  std::uint64_t retried = 0;
  /// Failed for good: rejected, or out of attempts.
  std::uint64_t dead = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t handed_back = 0;
  /// The lease was lost, or ended before the result was known to be stored; they come again.
  std::uint64_t lost = 0;
  /// Why nothing can be claimed; empty = it can.
  std::string trouble;
};

/// Runs handlers of this program for the items of durable queues: straight from the store, or from
/// a server before it.
///
/// Life.  Open, Handle for each queue, Run, destroy once it returned.
/// Delivery.  At least once.  An item is completed only after its handler returned well, while its
///   lease held.  What this program loses by a crash comes again when its lease ends, as the next
///   attempt.  A handler that fails after its item is to be cancelled leaves it cancelled; one that
///   ends well completes it all the same.  Whatever a handler says after its lease was lost is
///   dropped, logged and counted.
/// Threads.  One for each queue claims, Run's own among them; leases are extended on one more; each
///   slot is one, so that a queue whose handlers are slow holds up no other.  All methods but Run
///   may be called concurrently.
/// Time.  Leases are measured by `clock`, from before the call that gave or extended them.
/// Errors.  A store or server that cannot be reached is asked again after 100 ms to 10 s, and told
///   how an item ended until it answers or the lease is over.
class JobWorker {
 public:
  /// kInvalidArgument: an option is out of bounds.
  static Result<std::unique_ptr<JobWorker>> Open(JobWorkerOptions options,
                                                 const JobWorkerPorts& ports);
  static Result<std::unique_ptr<JobWorker>> OpenRemote(JobWorkerOptions options,
                                                       const RemoteJobPorts& ports);
  virtual ~JobWorker() = default;

  /// The items of `queue`, read as T, go to `function` (see MakeJob).
  /// kInvalidArgument: name or options out of bounds.  kConflict: the queue has a handler, or the
  /// worker runs.
  template <typename T, typename F>
  Status Handle(std::string queue, F function, JobQueueOptions options = {}) {
    return HandleText(std::move(queue), MakeJob<T>(std::move(function)), options);
  }
  virtual Status HandleText(std::string queue, JobFunction function, JobQueueOptions options) = 0;

  /// Until drained, and every handler has returned.  Once.
  /// kDrainTimeout: some had to be told to stop; the message names them.  kInvalidArgument: no
  /// queue has a handler.  kConflict: it ran before.  Anything else: what the store says when it
  /// will not work again, e.g. kCorrupt.
  virtual Status Run() = 0;
  /// Claims nothing more, and hands back what was not begun: that uses no attempt.  What runs may
  /// end within `drain_timeout`, and is then told to stop, as it is at once by a second call; what
  /// fails after that is handed back, too.  Before Run: it returns at once.
  virtual void Drain() = 0;

  /// In the order of Handle.
  virtual std::vector<JobFigures> Figures() const = 0;
};

}  // namespace headworks
