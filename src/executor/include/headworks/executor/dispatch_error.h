#pragma once

#include <cstdint>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/attempt.h"

namespace headworks::executor {

/// Why an offer was not taken.  A platform that says "later" (backpressure) is no error.
enum class DispatchError : std::uint8_t {
  /// No executor has the key that the task leads to.
  kExecutorNotFound = 1,
  /// Full, closing, or not started: nothing was attempted.
  kNoCapacity = 2,
  /// The executor does not know what the task calls.
  kTaskNotFound = 3,
  /// What the attempt is to be given cannot be resolved or minted.
  kContext = 4,
  /// Policy, or what the executor is, forbids such a task.
  kValidation = 5,
  /// A store or platform could not answer; the offer may have happened.
  kStore = 6,
  /// The offer itself broke: code that must not throw has thrown.
  kExecutionFailed = 7,
};

std::string_view DispatchErrorName(DispatchError error);
/// The one mapping from an error to what the engine does about it.
model::Disposition DispositionOf(DispatchError error);
/// kNoCapacity is kAtCapacity, and so on.
Code CodeOf(DispatchError error);

}  // namespace headworks::executor
