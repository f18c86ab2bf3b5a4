#pragma once

#include "headworks/sim/schedule.h"

namespace headworks::sim {

/// As RunSchedule, of durable queues alone: producers that repeat what was not answered, consumers
/// that die, stand still, come late and lose replies, operators, a clock that jumps, a store that
/// is opened anew.  `runs` of the result are items, `rounds` calls.  Memory store only.
ScheduleResult RunQueueSchedule(const ScheduleOptions& options);

}  // namespace headworks::sim
