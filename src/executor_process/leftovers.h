#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/time.h"

namespace headworks::executor_process {

struct SweepReport {
  /// Processes that were killed.
  std::size_t killed = 0;
  /// Still there at the end of the time: what KILL cannot end, or a process of another user.
  std::vector<pid_t> remaining;
};

/// Kills every process that attempts of `store_id` left behind, and waits until they are gone: the
/// members of the control group `group` (empty = none) and of those below it, then those with the
/// store's mark in their environment, those in one of `sessions` (the main processes of attempts),
/// and all their descendants.  Children of this process are reaped.
/// This process and its ancestors are never touched.
///
/// Call it when no supervisor of this store lives.  Blocks up to `limit`.
SweepReport SweepLeftovers(std::string_view store_id, const std::vector<pid_t>& sessions,
                           const std::string& group, Duration limit);

}  // namespace headworks::executor_process
