#include "watchdog.h"

namespace headworks::executor_inline {

Watchdog::Watchdog(Clock& clock, std::function<void(Id)> expired)
    : clock_(clock),
      expired_(std::move(expired)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

Watchdog::~Watchdog() = default;

void Watchdog::Arm(Id id, Duration deadline) {
  const std::scoped_lock lock(mutex_);
  const auto at = deadlines_.emplace(deadline, id).first;
  if (at == deadlines_.begin()) changed_.notify_one();
}

void Watchdog::Disarm(Id id, Duration deadline) {
  const std::scoped_lock lock(mutex_);
  deadlines_.erase({deadline, id});
}

void Watchdog::Stop(std::stop_source source) {
  const std::scoped_lock lock(mutex_);
  stops_.push_back(std::move(source));
  changed_.notify_one();
}

void Watchdog::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!stops_.empty()) {
      std::vector<std::stop_source> stops = std::exchange(stops_, {});
      lock.unlock();
      for (std::stop_source& source : stops) source.request_stop();
      lock.lock();
    } else if (deadlines_.empty()) {
      changed_.wait(lock, stop, [this] { return !stops_.empty() || !deadlines_.empty(); });
    } else if (const auto [deadline, id] = *deadlines_.begin(); deadline <= clock_.Monotonic()) {
      deadlines_.erase(deadlines_.begin());
      lock.unlock();
      expired_(id);
      lock.lock();
    } else {
      changed_.wait_for(lock, stop, deadline - clock_.Monotonic(), [this, at = deadline] {
        return !stops_.empty() || deadlines_.empty() || deadlines_.begin()->first != at;
      });
    }
  }
}

}  // namespace headworks::executor_inline
