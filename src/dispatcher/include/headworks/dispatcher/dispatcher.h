#pragma once

#include <span>
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

  /// Never blocks the engine; every end is typed.
  virtual executor::OfferResult Dispatch(const executor::Attempt& attempt) = 0;
  /// How many more attempts would be taken now, over all lanes of `task`'s kind.
  virtual executor::Capacity GetCapacity(const model::Task& task) const = 0;
  virtual void Cancel(const executor::Attempt& attempt) = 0;
  virtual Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) = 0;
  virtual void Settled(std::span<const executor::Attempt> attempts) = 0;
  /// Stops intake, awaits what was sent within `timeout`; idempotent.
  virtual Status Close(Duration timeout) = 0;
};

}  // namespace headworks::dispatcher
