#include "lease_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace headworks::worker {
namespace {

/// While the machine sleeps the clock of leases goes on and a wait may not.
constexpr Duration kLongestWait = std::chrono::seconds(1);

}  // namespace

LeaseGuard::LeaseGuard(Clock& clock, std::function<void(const std::string& why)> end_program)
    : clock_(clock),
      end_program_(std::move(end_program)),
      thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

void LeaseGuard::Add(const model::AttemptKey& attempt, Duration at) {
  const std::scoped_lock lock(mutex_);
  ends_[attempt] = at;
  moved_ = true;
  changed_.notify_all();
}

void LeaseGuard::Move(const model::AttemptKey& attempt, Duration at) {
  const std::scoped_lock lock(mutex_);
  const auto found = ends_.find(attempt);
  if (found == ends_.end()) return;
  found->second = at;
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
    const Duration left = first == ends_.end() ? kLongestWait : first->second - clock_.Monotonic();
    if (left > Duration(0)) {
      changed_.wait_for(lock, stop, std::min(left, kLongestWait), [this] { return moved_; });
      continue;
    }
    if (!end_program_) std::_Exit(5);
    const std::string why = fmt::format(
        "a function of run {} did not stop in time, and another worker may begin it: this program "
        "ends",
        first->first.run.value);
    ends_.erase(first);
    lock.unlock();
    end_program_(why);
    lock.lock();
  }
}

}  // namespace headworks::worker
