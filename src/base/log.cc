#include "headworks/base/log.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <mutex>

#include "headworks/base/json.h"
#include "headworks/base/time.h"

namespace headworks {
namespace {

/// For somebody who reads slowly.
constexpr int kPatienceMs = 1'000;

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

std::string LineOf(bool json, LogLevel level, std::string_view message, Logger::Fields fields) {
  const std::string now = FormatInstant(SystemClock().Now());
  std::string line;
  if (json) {
    line = fmt::format(R"({{"time":"{}","level":"{}","message":{})", now, LevelName(level),
                       QuoteJson(message));
    for (const auto& [key, value] : fields)
      line += fmt::format(",{}:{}", QuoteJson(key), QuoteJson(value));
    return line + "}\n";
  }
  line = fmt::format("{} {:<7} {}", now, LevelName(level), message);
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, QuoteJson(value));
  return line + '\n';
}

std::string NoteOfLoss(bool json, std::uint64_t lines) {
  const Logger::Field lost("lines", std::to_string(lines));
  return LineOf(json, LogLevel::kWarning, "nobody read this log; lines were lost", {&lost, 1});
}

/// Standard error, which all loggers of a process share.
///
/// Threads.  Lines of several never mix.
/// Bounds.  Who does not read what is written here holds nobody up for long: after a second, once,
///   what finds no room is dropped, and a line says so when there is room again.
class StandardError {
 public:
  void Write(std::string_view line, bool json) {
    const std::scoped_lock lock(mutex_);
    const bool complete =
        dropped_ == 0 || WriteAll((cut_ ? "\n" : "") + NoteOfLoss(json, dropped_));
    if (complete) dropped_ = 0;
    if (!complete || !WriteAll(line)) ++dropped_;
  }

 private:
  /// False: it found no room, or not for all of it.
  bool WriteAll(std::string_view text) {
    while (!text.empty()) {
      pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      const int found = poll(&room, 1, dropped_ == 0 ? kPatienceMs : 0);
      if (found < 0 && errno == EINTR) continue;
      if (found == 0) return false;
      // A pipe that has room takes so much without waiting (POSIX, PIPE_BUF).
      const ssize_t written =
          write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      cut_ = true;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    cut_ = false;
    return true;
  }

  std::mutex mutex_;
  std::uint64_t dropped_ = 0;  // lines since there was room
  bool cut_ = false;           // only a part of the last one is written
};

}  // namespace

void NullLogger::Write(LogLevel /*level*/, std::string_view /*message*/, Fields /*fields*/) {}

void ScopedLogger::Write(LogLevel level, std::string_view message, Fields fields) {
  if (!Wants(level)) return;
  std::vector<Field> all = fields_;
  all.insert(all.end(), fields.begin(), fields.end());
  inner_.Write(level, message, all);
}

void StderrLogger::Write(LogLevel level, std::string_view message, Fields fields) {
  if (!Wants(level)) return;
  static StandardError standard_error;
  const bool json = format_ == Format::kJson;
  standard_error.Write(LineOf(json, level, message, fields), json);
}

}  // namespace headworks
