#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "headworks/executor/executor.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::executor_queue {

/// Its worker has to pass artifacts on.
bool HasArtifacts(const executor::Attempt& attempt);
/// Why a task cannot run on another host; empty = it can.
std::string WhyNotElsewhere(const executor::Attempt& attempt);
/// The same of its texts with their values in place.
std::string WhyNotElsewhere(const executor::Rendered& rendered);

/// The artifacts of others that one attempt elsewhere is given.
inline constexpr std::size_t kMostNeeded = 1'000;
inline constexpr std::uint64_t kMostNeededBytes = std::uint64_t{100} << 30;
/// Why it is not given all of these; empty = it is.
std::string WhyTooMuch(const std::vector<executor::NeededArtifact>& artifacts);

/// All that a worker needs.  kInternal: the task makes no workflow of its own.
Result<worker_api::Job> MakeJob(const executor::Attempt& attempt, executor::Resolved resolved);

}  // namespace headworks::executor_queue
