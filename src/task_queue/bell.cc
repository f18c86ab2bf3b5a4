#include "headworks/task_queue/bell.h"

#include <algorithm>

namespace headworks::task_queue {

Bell::Seat::Seat(Bell& bell, const TenantId& tenant, std::string_view queue)
    : Seat(bell, tenant, queue, [] {}) {}

Bell::Seat::Seat(Bell& bell, const TenantId& tenant, std::string_view queue,
                 std::function<void()> on_ring)
    : bell_(bell), queue_(tenant, queue), on_ring_(std::move(on_ring)) {
  const std::lock_guard lock(bell_.mutex_);
  bell_.seats_[queue_].push_back(this);
  bell_.occupied_.notify_all();
}

Bell::Seat::~Seat() {
  const std::lock_guard lock(bell_.mutex_);
  const auto line = bell_.seats_.find(queue_);
  std::erase(line->second, this);
  // What woke this one may be left for the next.
  if (woken_ && !line->second.empty()) {
    const auto next = std::ranges::find(line->second, false, &Seat::woken_);
    if (next != line->second.end()) (*next)->WakeLocked();
  }
  if (line->second.empty()) bell_.seats_.erase(line);
}

bool Bell::Seat::Wait(Duration at_most, const std::stop_token& stop) {
  std::unique_lock lock(bell_.mutex_);
  rung_.wait_for(lock, stop, at_most, [this] { return woken_; });
  return std::exchange(woken_, false);
}

bool Bell::Seat::Rang() {
  const std::lock_guard lock(bell_.mutex_);
  return std::exchange(woken_, false);
}

void Bell::Seat::WakeLocked() {
  woken_ = true;
  rung_.notify_one();
  on_ring_();
}

void Bell::Seat::PassOn() {
  const std::lock_guard lock(bell_.mutex_);
  woken_ = true;
}

void Bell::Ring(const TenantId& tenant, std::string_view queue, std::size_t items) {
  const std::lock_guard lock(mutex_);
  const auto line = seats_.find(Queue(tenant, queue));
  if (line == seats_.end()) return;
  for (Seat* const seat : line->second) {
    if (items == 0) break;
    if (seat->woken_) continue;
    --items;
    seat->WakeLocked();
  }
}

std::vector<Bell::Queue> Bell::Waited() {
  const std::lock_guard lock(mutex_);
  std::vector<Queue> queues;
  queues.reserve(seats_.size());
  for (const auto& [queue, line] : seats_) queues.push_back(queue);
  return queues;
}

bool Bell::AwaitWaiters(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return occupied_.wait(lock, stop, [this] { return !seats_.empty(); }) && !stop.stop_requested();
}

}  // namespace headworks::task_queue
