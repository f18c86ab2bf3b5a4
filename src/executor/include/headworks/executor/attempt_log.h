#pragma once

#include "headworks/base/log.h"
#include "headworks/executor/executor.h"

namespace headworks::executor {

/// For lines that concern one attempt: each begins with the fields tenant, run (its number), task,
/// try and epoch.  Borrows `log`.
ScopedLogger ForAttempt(Logger& log, const Attempt& attempt);

}  // namespace headworks::executor
