#pragma once

#include <stop_token>

#include "headworks/base/time.h"
#include "headworks/task_queue/bell.h"
#include "headworks/task_queue/task_queue.h"

namespace headworks::task_queue {

/// Polls, and if there is nothing waits until there is: for the bell, and for the time that the
/// poll names.  Nothing is asked in between.  Empty after `wait`, or when `stop` asks for it.
///
/// `bell` is that of the queue's adapter; `clock` measures the wait.  Errors are those of Poll.
Result<Polled> LongPoll(TaskQueue& queue, Bell& bell, Clock& clock, const PollRequest& request,
                        Duration wait, const std::stop_token& stop);

}  // namespace headworks::task_queue
