#pragma once

#include <cstdint>
#include <string>

#include "headworks/model/attempt.h"

namespace headworks::executor {

/// What became of an execution, in an executor's words; verdicts are the engine's.
enum class ExecutionStatus : std::uint8_t {
  kCompleted = 1,
  /// Trying again cannot help.
  kFailed = 2,
  /// Failed, may work later.
  kRetry = 3,
  kSkipped = 4,
  /// Over its timeout: a failure that may work later, and says so.
  kTimedOut = 5,
  /// Not yet; the caller sets `not_before`.
  kSnoozed = 6,
  kCancelled = 7,
  /// The executor shut down first.
  kInterrupted = 8,
  /// Over without a word of its own.
  kLost = 9,
};

/// The one mapping to verdicts: verdict and reason of `status`, with `error` for people.  A more
/// precise reason (exit code, signal, output) may replace kError.
model::Outcome OutcomeOf(ExecutionStatus status, std::string error);

}  // namespace headworks::executor
