#include "headworks/task_queue/long_poll.h"

#include <algorithm>

namespace headworks::task_queue {

Result<Polled> LongPoll(TaskQueue& queue, Bell& bell, Clock& clock, const PollRequest& request,
                        Duration wait, const std::stop_token& stop) {
  const Duration end = clock.Monotonic() + wait;
  Bell::Seat seat(bell, request.tenant, request.queue);
  for (;;) {
    HEADWORKS_ASSIGN(Polled polled, queue.Poll(request));
    const Duration left = end - clock.Monotonic();
    if (!polled.items.empty() || left <= Duration() || stop.stop_requested()) return polled;
    seat.Wait(polled.next ? std::min(*polled.next, left) : left, stop);
  }
}

}  // namespace headworks::task_queue
