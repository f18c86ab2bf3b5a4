// Orders: what operators want of workers.

#include <algorithm>

#include "border.h"
#include "impl.h"

namespace headworks::executor_queue {

void Impl::SetOrders(WorkerOrders orders) {
  Calls calls;
  {
    const Lock lock(mutex_);
    std::swap(orders, orders_);
    for (auto& [who, worker] : workers_) {
      const bool was_leaving = orders.leaving.contains(who);
      const bool was_barred = was_leaving || orders.cordoned.contains({who.tenant, who.worker});
      if (was_leaving == IsLeaving(who) && was_barred == IsBarred(who)) continue;
      // They ask for work, or may again.
      for (const PollNo no : std::set(worker.polls)) AnswerPollLocked(no, {}, calls);
      worker.told_to_leave = IsLeaving(who) && !worker.beats.empty();
      if (!worker.told_to_leave) continue;
      for (const std::uint64_t no : std::set(worker.beats)) {
        beats_.at(no).news = true;
        if (beats_.at(no).open == 0) AnswerBeatLocked(no, calls);
      }
    }
  }
  Make(calls);
}

void Impl::TakeBackLocked(const Worker& worker, const std::string& queue, std::uint32_t free,
                          Calls& calls) {
  for (Entry* const entry :
       UnknownLocked(worker.registration->who, queue, free, worker.registration->slots.at(queue)))
    ReturnLocked(*entry, "its worker gets nothing new", calls);
}

}  // namespace headworks::executor_queue
