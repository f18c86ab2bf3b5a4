#include "headworks/task_queue/async_queues.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace headworks::task_queue {

class AsyncQueues::Wait {
 public:
  enum class State : unsigned char { kQueued, kLooking, kAsleep, kOver };

  std::string key;
  PollRequest request;
  Duration began{}, end{};
  Hear hear;

  // Guarded by the mutex of the queues.
  State state = State::kQueued;
  bool again = false;  // was roused while it looked
  bool ended = false;
  /// While it is asleep; holds it.
  std::multimap<Duration, std::shared_ptr<Wait>>::iterator alarm;

  // Of whoever looks.
  bool rang = false;
  std::optional<Bell::Seat> seat;  // last: it rings into the above
};

AsyncQueues::AsyncQueues(Queues& queues, Clock& clock, Logger& log, std::size_t threads)
    : queues_(queues), clock_(clock), log_(log) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
}

AsyncQueues::~AsyncQueues() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  // Their seats ring in here until they are gone, which is not to be under the mutex.
  decltype(alarms_) alarms;
  decltype(waits_) waits;
  decltype(work_) work;
  const std::scoped_lock lock(mutex_);
  for (auto& [due, wait] : alarms_) wait->state = Wait::State::kOver;
  alarms.swap(alarms_);
  waits.swap(waits_);
  work.swap(work_);
}

std::weak_ptr<AsyncQueues::Wait> AsyncQueues::Await(const std::string& key, PollRequest request,
                                                    Duration wait, Hear hear) {
  const auto made = std::make_shared<Wait>();
  made->key = key;
  made->began = clock_.Monotonic();
  made->end = made->began + std::min(wait, kLongestDelay);
  made->hear = std::move(hear);
  made->seat.emplace(queues_.bell(), request.tenant, request.queue, [this, &each = *made] {
    const std::scoped_lock lock(mutex_);
    RouseLocked(each);
  });
  made->request = std::move(request);
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Wait>& place = waits_[key];
  if (place != nullptr) {
    place->ended = true;
    RouseLocked(*place);
  }
  place = made;
  QueueLocked(made);
  return made;
}

void AsyncQueues::End(const std::weak_ptr<Wait>& wait) {
  const auto alive = wait.lock();
  if (alive == nullptr) return;
  const std::scoped_lock lock(mutex_);
  alive->ended = true;
  RouseLocked(*alive);
}

void AsyncQueues::End(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = waits_.find(key);
  if (found == waits_.end()) return;
  found->second->ended = true;
  RouseLocked(*found->second);
}

void AsyncQueues::Do(std::function<void(TaskQueue&)> work) {
  const std::scoped_lock lock(mutex_);
  work_.emplace_back([this, work = std::move(work)] { work(queues_.tasks()); });
  changed_.notify_one();
}

void AsyncQueues::QueueLocked(std::shared_ptr<Wait> wait) {
  wait->state = Wait::State::kQueued;
  work_.emplace_back([this, wait = std::move(wait)] { Look(wait); });
  changed_.notify_one();
}

void AsyncQueues::RouseLocked(Wait& wait) {
  wait.again = true;
  if (wait.state != Wait::State::kAsleep) return;
  auto self = std::move(wait.alarm->second);
  alarms_.erase(wait.alarm);
  QueueLocked(std::move(self));
}

void AsyncQueues::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const Duration now = clock_.Monotonic();
    while (!alarms_.empty() && alarms_.begin()->first <= now) RouseLocked(*alarms_.begin()->second);
    if (!work_.empty()) {
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // not under the mutex: it may hold the last of a seat
      lock.lock();
    } else if (alarms_.empty()) {
      changed_.wait(lock, stop, [this] { return !work_.empty() || !alarms_.empty(); });
    } else {
      const Duration due = alarms_.begin()->first;
      changed_.wait_for(lock, stop, due - now, [this, due] {
        return !work_.empty() || (!alarms_.empty() && alarms_.begin()->first < due);
      });
    }
  }
}

void AsyncQueues::Look(const std::shared_ptr<Wait>& wait) {
  bool ended = false;
  {
    const std::scoped_lock lock(mutex_);
    wait->state = Wait::State::kLooking;
    wait->again = false;
    ended = wait->ended;
  }
  wait->rang |= wait->seat->Rang();
  const Duration asked_at = clock_.Monotonic();
  auto polled = ended ? Polled{} : queues_.tasks().Poll(wait->request);
  if (polled) polled->waited = asked_at - wait->began;
  const Duration now = clock_.Monotonic();
  if (ended || !polled || !polled->items.empty() || now >= wait->end)
    return Finish(*wait, std::move(polled));
  const std::scoped_lock lock(mutex_);
  if (wait->again) return QueueLocked(wait);
  wait->state = Wait::State::kAsleep;
  wait->alarm =
      alarms_.emplace(std::min(wait->end, now + polled->next.value_or(kLongestDelay)), wait);
  changed_.notify_one();
}

void AsyncQueues::Finish(Wait& wait, Result<Polled> polled) {
  {
    const std::scoped_lock lock(mutex_);
    wait.state = Wait::State::kOver;
    const auto found = waits_.find(wait.key);
    if (found != waits_.end() && found->second.get() == &wait) waits_.erase(found);
  }
  std::vector<Claim> claims;
  if (polled)
    for (const ClaimedItem& item : polled->items) claims.push_back(item.claim);
  // What it rang for may be there later, and nobody else has heard of it.
  if (wait.rang && claims.empty()) wait.seat->PassOn();
  wait.seat.reset();
  if (!wait.hear(std::move(polled)) && !claims.empty()) HandBack(wait.request, claims);
  wait.hear = nullptr;
}

void AsyncQueues::HandBack(const PollRequest& request, const std::vector<Claim>& claims) {
  std::vector<Settlement> settlements;
  settlements.reserve(claims.size());
  for (const Claim claim : claims)
    settlements.push_back({.claim = claim, .kind = Settlement::Kind::kHandBack});
  const auto settled = queues_.tasks().Settle(request.tenant, request.queue, settlements);
  if (!settled)
    log_.Warning(
        "items that nobody took could not be handed back; they come again when their "
        "leases end",
        {{"queue", request.queue}, {"error", settled.error().message}});
}

}  // namespace headworks::task_queue
