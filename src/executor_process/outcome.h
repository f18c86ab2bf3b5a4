#pragma once

#include <string>

#include "headworks/base/result.h"
#include "headworks/model/attempt.h"
#include "supervisor/protocol.h"

namespace headworks::executor_process {

/// Who asked that an attempt be stopped.
enum class StopCause : unsigned char { kNone, kCancel, kDrain };

/// The verdict on an attempt whose start failed.  `command` and `cwd` go into the message.
model::Outcome OutcomeOf(const supervisor::SpawnFailed& failed, const std::string& command,
                         const std::string& cwd, Instant now);

/// The verdict on an attempt whose processes are gone; on success its output is still to be read.
model::Outcome OutcomeOf(const supervisor::Ended& ended, StopCause stop, Duration timeout);

/// The verdict on an attempt that was stopped before it started.
model::Outcome NotStarted(StopCause stop);

/// The verdict on an attempt whose time was over before it started.
model::Outcome KilledInTime();

/// The machine or the store has nothing to give now: again in a second, and no try is used (I7).
model::Outcome NotNow(model::Reason reason, std::string error, Instant now);

/// The verdict on an attempt whose start the ledger refused.
model::Outcome NotMarked(const Error& refusal, Instant now);

model::Outcome Failure(model::Verdict verdict, model::Reason reason, std::string error);
model::Outcome Lost(std::string why);

}  // namespace headworks::executor_process
