#include "headworks/executor/attempt_log.h"

#include <string>

namespace headworks::executor {

ScopedLogger ForAttempt(Logger& log, const Attempt& attempt) {
  return ScopedLogger(log, {{"tenant", attempt.key.tenant.value},
                            {"run", std::to_string(attempt.key.run.value)},
                            {"task", attempt.task().id},
                            {"try", std::to_string(attempt.try_no)},
                            {"epoch", std::to_string(attempt.key.epoch.value)}});
}

}  // namespace headworks::executor
