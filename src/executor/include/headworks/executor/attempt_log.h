#pragma once

#include "headworks/base/log.h"
#include "headworks/executor/executor.h"

namespace headworks::executor {

/// For lines that concern one attempt: each begins with the fields tenant, run (its number), task,
/// try and epoch; the task's number where its workflow is not known.  Borrows `log`.
ScopedLogger ForAttempt(Logger& log, const Attempt& attempt);

}  // namespace headworks::executor
