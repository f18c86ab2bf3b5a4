#include "janitor.h"

namespace headworks {

Janitor::Janitor() : thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

Janitor::~Janitor() {
  thread_.request_stop();
  thread_.join();
}

void Janitor::Add(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  left_.push_back(std::move(work));
  added_.notify_one();
}

void Janitor::Loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (added_.wait(lock, stop, [this] { return !left_.empty(); })) {
    const std::function<void()> work = std::move(left_.front());
    left_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace headworks
