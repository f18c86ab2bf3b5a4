#pragma once

#include "headworks/author/registry.h"
#include "headworks/author/task.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/attempt.h"
#include "headworks/model/workflow.h"

namespace headworks::executor_inline {

/// Why a running task was told to stop.
enum class StopCause : unsigned char { kNone = 0, kCancel, kDrain, kTimeout };

/// Calls a task's code and says how it ended, whatever it threw; sets neither times nor stops.
struct CallEnd {
  model::Outcome outcome;
  Duration snooze{};
  /// It ended by an exception other than Fail, Skip and Snooze: perhaps because it was stopped.
  bool broke_off = false;
};
/// Thrown through the task's code, like Skip, when what it asked for cannot be loaded.
struct InputMissing {
  Error error;
};
/// `output`: what its result is declared to be.
CallEnd Call(const TaskFunction& function, TaskContext& context, const model::OutputSpec& output);

/// The attempt's verdict, given that it was told to stop for `cause`.
model::Outcome Judge(CallEnd end, StopCause cause, Duration timeout, Instant now);

}  // namespace headworks::executor_inline
