#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"

/// The seam between engine and executors.
namespace headworks::dispatcher {

/// Takes ready tasks and gives each to the executor that the configuration names.  Knows nothing
/// of workflows' meaning, schedules, HTTP or SQL.
///
/// Threads.  All methods may be called concurrently: a buffer dispatches on threads of its own.
/// Fate.  An attempt for which Dispatch says kDispatched, and nothing else is said later, is with
///   its executor, or on its way there.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// Lanes are 0 to lanes() - 1: one per executor behind this dispatcher.  Credit is per lane, so
  /// that a full executor does not hold up another (I11).
  virtual std::size_t lanes() const = 0;
  virtual std::size_t LaneOf(const TenantId& tenant, const model::Task& task) const = 0;
  /// Key of the executor behind a lane; stored with each attempt.
  virtual std::string_view LaneName(std::size_t lane) const = 0;
  virtual executor::Capacity GetCapacity(std::size_t lane) const = 0;
  /// Whether the lane's executor has lines (Executor::HasLines); if so, credit is per line, too.
  virtual bool HasLines(std::size_t) const { return false; }
  virtual std::string LineOf(std::size_t /*lane*/, const model::Workflow&, TaskNo) const {
    return {};
  }
  virtual executor::Credit GetCredit(std::size_t lane, const TenantId&,
                                     const std::string& /*line*/) const {
    const std::uint32_t free = GetCapacity(lane).free();
    return {.all = free, .tenant = free, .line = free};
  }
  /// Never blocks the engine; every end is typed.
  virtual executor::OfferResult Dispatch(const executor::Attempt& attempt) = 0;
  virtual void Cancel(const executor::Attempt& attempt) = 0;
  virtual Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) = 0;
  /// Keys and workflows are set, nothing else.
  virtual void Settled(std::span<const executor::Attempt> attempts) = 0;
  /// Takes nothing more and drains each executor (Executor::Drain).  kDrainTimeout names what was
  /// abandoned.  Idempotent, also from two threads at once.
  virtual Status Close(Duration timeout) = 0;
};

/// Hears what executors answered to attempts that were taken before they did (`answered` is false).
/// Whoever implements it gives an answer the treatment of an immediate one: one policy, written
/// once.
///
/// Threads.  May be called from any, also from within a Dispatcher's methods; must not block.
class RetrySink {
 public:
  virtual ~RetrySink() = default;
  /// `result` is not kDispatched.  kDeferred: nothing was attempted this time.
  virtual void HandleDispatchFailure(const model::AttemptKey& key,
                                     const executor::OfferResult& result) = 0;
  /// The executor took this attempt, for the first time after it could not answer (kTransient):
  /// what waits for it need not wait any longer.
  virtual void HandleDispatchRecovery(const model::AttemptKey& key) = 0;
};

/// The same for whoever keeps no policy: whatever went wrong, the task has failed.
///
/// Threads.  As RetrySink.
class FailureSink {
 public:
  virtual ~FailureSink() = default;
  virtual void MarkTaskDispatchFailed(const model::AttemptKey& key, std::string_view reason) = 0;
};

/// May place an attempt on a warm worker: one that is idle and has this version loaded.
///
/// Threads.  May be called from any, concurrently; must not block.
class WarmPlacer {
 public:
  virtual ~WarmPlacer() = default;
  /// True: a worker has it, as if its executor had taken it; from then on that executor answers for
  /// it (Inspect, Cancel, its verdict).  Idempotent per attempt.  False: the executor is asked.
  virtual bool Assign(std::string_view version, const executor::Attempt& assignment) = 0;
};

/// Is told what happens on the way to the executors.
///
/// Threads.  May be called concurrently, under locks; must not block or call back.
class MetricsRecorder {
 public:
  virtual ~MetricsRecorder() = default;
  /// Attempts that wait in the buffer from now on.
  virtual void QueueDepth(std::size_t depth) = 0;
  /// One was deferred because the buffer was full.
  virtual void AtCapacity() = 0;
  /// From Dispatch until the executor answered, whatever it answered.
  virtual void Latency(Duration latency) = 0;
  /// The executor did not take one.
  virtual void InnerError(const executor::OfferResult& result) = 0;
};

}  // namespace headworks::dispatcher
