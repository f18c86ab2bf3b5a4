#pragma once

#include <cstddef>
#include <span>
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
/// Threads.  All methods from the engine's control thread; Close() from any.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// Lanes are 0 to lanes() - 1: one per executor behind this dispatcher.  Credit is per lane, so
  /// that a full executor does not hold up another (I11).
  virtual std::size_t lanes() const = 0;
  virtual std::size_t LaneOf(const model::Task& task) const = 0;
  /// Key of the executor behind a lane; stored with each attempt.
  virtual std::string_view LaneName(std::size_t lane) const = 0;
  virtual executor::Capacity GetCapacity(std::size_t lane) const = 0;
  /// Never blocks the engine; every end is typed.
  virtual executor::OfferResult Dispatch(const executor::Attempt& attempt) = 0;
  virtual void Cancel(const executor::Attempt& attempt) = 0;
  virtual Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) = 0;
  /// Keys and workflows are set, nothing else.
  virtual void Settled(std::span<const executor::Attempt> attempts) = 0;
  /// Drains each executor (Executor::Drain); idempotent.
  virtual Status Close(Duration timeout) = 0;
};

}  // namespace headworks::dispatcher
