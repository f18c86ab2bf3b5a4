#include "outlet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <utility>

namespace headworks::cli {
namespace {

/// A pipe that is writable at all takes this much at once (POSIX, PIPE_BUF).
constexpr std::size_t kPiece = PIPE_BUF;

// There is one standard output, and what became of it is for the end of the program.
std::atomic<int> output_error{0};

/// Pipes and terminals can be opened once more, so that not waiting is nobody else's business; for
/// others (files, sockets) nothing, or where that is not allowed.
Fd OpenUnblocked(int fd) {
  struct stat status{};
  if (fstat(fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || isatty(fd) == 1)) return Fd();
  return Fd(open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                 O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/// Whether `fd` takes a piece, or says what is wrong, within `patience`; true is worth a try only.
bool IsWritable(int fd, Duration patience) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, INT_MAX))) != 0;
}

}  // namespace

Outlet::Outlet(int fd) : fd_(fd), unblocked_(OpenUnblocked(fd)) {}

void Outlet::Write(std::string_view text) {
  if (broken_) return;
  if (at_ > kRoom) text_.erase(0, std::exchange(at_, 0));
  text_ += text;
}

bool Outlet::Pump() {
  while (at_ < text_.size()) {
    if (!IsWritable(fd(), Duration(0))) return false;
    const ssize_t count = write(fd(), text_.data() + at_, std::min(kPiece, text_.size() - at_));
    if (count >= 0) {
      at_ += static_cast<std::size_t>(count);
      taken_ += static_cast<std::uint64_t>(count);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      Break(errno);
    }
  }
  text_.clear();
  at_ = 0;
  return true;
}

bool Outlet::Drain(Duration patience) {
  constexpr int kPauseMs = 10;
  for (std::uint64_t before = taken_; !Pump(); before = taken_) {
    if (!IsWritable(fd(), patience)) return false;
    // A terminal with room for one byte does not take a line break, which is two.
    if (taken_ == before) poll(nullptr, 0, kPauseMs);
  }
  return true;
}

void Outlet::Break(int error) {
  broken_ = true;
  at_ = text_.size();
  int none = 0;
  if (fd_ == STDOUT_FILENO) output_error.compare_exchange_strong(none, error);
}

void Print(std::string_view text) {
  if (OutputIsBroken()) return;
  Outlet outlet(STDOUT_FILENO);
  outlet.Write(text);
  outlet.Drain(Duration::max());
}

int OutputError() { return output_error; }

void HoldClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace headworks::cli
