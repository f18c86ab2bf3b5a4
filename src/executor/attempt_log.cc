#include "headworks/executor/attempt_log.h"

#include <string>

namespace headworks::executor {

ScopedLogger ForAttempt(Logger& log, const Attempt& attempt) {
  const std::string task =
      attempt.workflow ? attempt.task().id : "number " + std::to_string(attempt.key.task.value);
  return ScopedLogger(log, {{"tenant", attempt.key.tenant.value},
                            {"run", std::to_string(attempt.key.run.value)},
                            {"task", task},
                            {"try", std::to_string(attempt.try_no)},
                            {"epoch", std::to_string(attempt.key.epoch.value)}});
}

}  // namespace headworks::executor
