#include "headworks/task_queue/item_source.h"

#include "headworks/task_queue/long_poll.h"

namespace headworks::task_queue {

Result<Polled> DatabaseSource::Await(const PollRequest& request, Duration wait,
                                     const std::stop_token& stop) {
  return LongPoll(queues_.tasks(), queues_.bell(), clock_, request, wait, stop);
}

Result<std::vector<Result<ItemState>>> DatabaseSource::Settle(
    const TenantId& tenant, std::string_view queue, std::span<const Settlement> settlements) {
  return queues_.tasks().Settle(tenant, queue, settlements);
}

Result<std::vector<Status>> DatabaseSource::Extend(const TenantId& tenant, std::string_view queue,
                                                   std::span<const Claim> claims,
                                                   Duration visibility) {
  return queues_.tasks().Extend(tenant, queue, claims, visibility);
}

}  // namespace headworks::task_queue
