#include "lease_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>

namespace headworks::worker {
namespace {

/// While the machine sleeps the clock of leases goes on and a wait may not.
constexpr Duration kLongestWait = std::chrono::seconds(1);

/// To standard error; nothing if that would have to wait for whoever reads it.
void SayIfPossible(const std::string& text) {
  pollfd error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&error, 1, 0) != 1 || (error.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
}

}  // namespace

LeaseGuard::LeaseGuard(Clock& clock, std::function<void(const std::string& why)> end_program)
    : clock_(clock),
      end_program_(std::move(end_program)),
      thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

void LeaseGuard::Add(const model::AttemptKey& attempt, Duration at) {
  const std::scoped_lock lock(mutex_);
  ends_[attempt] = at;
  WakeLocked(at);
}

void LeaseGuard::Move(const model::AttemptKey& attempt, Duration at) {
  const std::scoped_lock lock(mutex_);
  const auto found = ends_.find(attempt);
  if (found == ends_.end()) return;
  found->second = at;
  WakeLocked(at);
}

/// What is later than it looks again anyway is found then: heartbeats move all of them, each time.
void LeaseGuard::WakeLocked(Duration at) {
  if (at >= looks_at_) return;
  moved_ = true;
  changed_.notify_all();
}

void LeaseGuard::Clear(const model::AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  ends_.erase(attempt);
}

void LeaseGuard::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    moved_ = false;
    const auto first =
        std::ranges::min_element(ends_, {}, [](const auto& each) { return each.second; });
    const Duration now = clock_.Monotonic();
    const Duration left = first == ends_.end() ? kLongestWait : first->second - now;
    if (left > Duration(0)) {
      looks_at_ = now + std::min(left, kLongestWait);
      changed_.wait_for(lock, stop, looks_at_ - now, [this] { return moved_; });
      continue;
    }
    const std::string why = fmt::format(
        "a function of run {} did not stop in time: this program ends, before another "
        "worker begins it",
        first->first.run.value);
    if (!end_program_) {
      SayIfPossible("headworks: " + why + "\n");
      std::_Exit(5);
    }
    ends_.erase(first);
    lock.unlock();
    end_program_(why);
    lock.lock();
  }
}

}  // namespace headworks::worker
