#include "signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace headworks::cli {
namespace {

// A handler can reach nothing but globals.
std::atomic<int> interrupts_seen{0};
std::atomic<int> terminations_seen{0};
std::atomic<int> wake_fd{-1};

void WakeBy(int fd) {
  const std::uint64_t one = 1;
  if (write(fd, &one, sizeof one) < 0) {
    // The counter is full: the reader has much to wake up for already.
  }
}

void OnSignal(int signal) {
  const int saved_errno = errno;
  (signal == SIGINT ? interrupts_seen : terminations_seen).fetch_add(1);
  WakeBy(wake_fd.load());
  errno = saved_errno;
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

Result<SignalWatch> SignalWatch::Install() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0)
    return Error{Code::kUnavailable, std::string("cannot watch for signals: ") +
                                         std::strerror(errno) +
                                         "; close some files or raise the "
                                         "limit (ulimit -n)"};
  interrupts_seen = 0;
  terminations_seen = 0;
  wake_fd = fd;
  Handle(SIGINT, OnSignal);
  Handle(SIGTERM, OnSignal);
  return SignalWatch(fd);
}

SignalWatch::SignalWatch(SignalWatch&& other) noexcept
    : event_fd_(std::exchange(other.event_fd_, -1)) {}

SignalWatch::~SignalWatch() { Release(); }

void SignalWatch::Release() {
  if (event_fd_ < 0) return;
  Handle(SIGINT, SIG_DFL);
  Handle(SIGTERM, SIG_DFL);
  wake_fd = -1;
  close(std::exchange(event_fd_, -1));
}

int SignalWatch::interrupts() const { return interrupts_seen; }
int SignalWatch::terminations() const { return terminations_seen; }

void SignalWatch::Wake() { WakeBy(event_fd_); }

void SignalWatch::Wait(Duration timeout, int fd, For what) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  pollfd fds[2] = {{.fd = event_fd_, .events = POLLIN, .revents = 0},
                   {.fd = fd,
                    .events = static_cast<short>(what == For::kRead ? POLLIN : POLLOUT),
                    .revents = 0}};
  poll(fds, 2, static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max())));
  if ((fds[0].revents & POLLIN) == 0) return;
  std::uint64_t count = 0;
  if (read(event_fd_, &count, sizeof count) < 0) {
    // Read by nobody else, so this is a spurious wake-up: the caller looks and waits again.
  }
}

}  // namespace headworks::cli
