#include "headworks/task_queue/long_poll.h"

#include <algorithm>

namespace headworks::task_queue {

Result<Polled> LongPoll(TaskQueue& queue, Bell& bell, Clock& clock, const PollRequest& request,
                        Duration wait, const std::stop_token& stop) {
  const Duration began = clock.Monotonic();
  const Duration end = began + std::min(wait, kLongestDelay);
  Bell::Seat seat(bell, request.tenant, request.queue);
  Result<Polled> polled;
  for (bool rang = false; !stop.stop_requested();) {
    const Duration waited = clock.Monotonic() - began;
    polled = queue.Poll(request);
    if (polled) polled->waited = waited;
    const Duration left = end - clock.Monotonic();
    if (polled && !polled->items.empty()) break;
    if (!polled || left <= Duration()) {
      // What it rang for may be there later, and nobody else has heard of it.
      if (rang) seat.PassOn();
      break;
    }
    rang |= seat.Wait(polled->next ? std::min(*polled->next, left) : left, stop);
    if (rang && stop.stop_requested()) seat.PassOn();
  }
  return polled;
}

}  // namespace headworks::task_queue
