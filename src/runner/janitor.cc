#include "janitor.h"

namespace headworks {

Janitor::Janitor(std::function<void(const Deleted&)> remove)
    : remove_(std::move(remove)), thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

Janitor::~Janitor() {
  thread_.request_stop();
  thread_.join();
}

void Janitor::Add(Deleted run) {
  const std::scoped_lock lock(mutex_);
  left_.push_back(std::move(run));
  added_.notify_one();
}

void Janitor::Loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (added_.wait(lock, stop, [this] { return !left_.empty(); })) {
    const Deleted run = std::move(left_.front());
    left_.pop_front();
    lock.unlock();
    remove_(run);
    lock.lock();
  }
}

}  // namespace headworks
