#include "headworks/task_queue/sweeper.h"

#include <algorithm>

namespace headworks::task_queue {

void Sweeper::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Loop(stop); });
}

Duration Sweeper::Tick() {
  {
    const std::lock_guard lock(mutex_);
    const Duration now = clock_.Monotonic();
    if (now < next_) return next_ - now;
  }
  const auto swept = admin_.Sweep(kMaxBatch);
  const std::lock_guard lock(mutex_);
  const std::string trouble = swept ? std::string() : swept.error().message;
  if (!trouble.empty() && trouble_.empty()) {
    log_.Warning("queues cannot be swept", {{"error", trouble}});
  }
  trouble_ = trouble;
  // What is left is left to the next look, so that others get at the store in between.
  const Duration pause = swept && swept->more ? Duration() : kInterval;
  next_ = clock_.Monotonic() + pause;
  return pause;
}

std::string Sweeper::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void Sweeper::Loop(const std::stop_token& stop) {
  std::mutex mutex;
  while (!stop.stop_requested()) {
    const Duration pause = Tick();
    std::unique_lock lock(mutex);
    stopped_.wait_for(lock, stop, pause, [] { return false; });
  }
}

}  // namespace headworks::task_queue
