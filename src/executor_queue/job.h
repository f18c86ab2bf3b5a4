#pragma once

#include <string>

#include "headworks/executor/executor.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::executor_queue {

/// Its worker has to pass artifacts on.
bool HasArtifacts(const executor::Attempt& attempt);
/// Why a task cannot run on another host; empty = it can.
std::string WhyNotElsewhere(const executor::Attempt& attempt);
/// The same of its texts with their values in place.
std::string WhyNotElsewhere(const executor::Rendered& rendered);

/// All that a worker needs.  kInternal: the task makes no workflow of its own.
Result<worker_api::Job> MakeJob(const executor::Attempt& attempt, executor::Resolved resolved);

}  // namespace headworks::executor_queue
