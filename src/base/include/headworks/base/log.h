#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace headworks {

enum class LogLevel : unsigned char { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Where Headworks says what it does; never where task output goes.
///
/// Threads.  `Write` may be called concurrently.
class Logger {
 public:
  using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;

  virtual ~Logger() = default;
  /// One event: a constant message and its fields.
  virtual void Write(LogLevel level, std::string_view message, Fields fields) = 0;

  void Debug(std::string_view m, Fields f = {}) { Write(LogLevel::kDebug, m, f); }
  void Info(std::string_view m, Fields f = {}) { Write(LogLevel::kInfo, m, f); }
  void Warning(std::string_view m, Fields f = {}) { Write(LogLevel::kWarning, m, f); }
  void Error(std::string_view m, Fields f = {}) { Write(LogLevel::kError, m, f); }
};

/// Drops everything.
class NullLogger final : public Logger {
 public:
  void Write(LogLevel level, std::string_view message, Fields fields) override;
};

/// Lines on standard error, one per event, as text or JSON; below `minimum` nothing.
class StderrLogger final : public Logger {
 public:
  enum class Format : unsigned char { kText, kJson };
  StderrLogger(Format format, LogLevel minimum) : format_(format), minimum_(minimum) {}
  void Write(LogLevel level, std::string_view message, Fields fields) override;

 private:
  Format format_;
  LogLevel minimum_;
};

}  // namespace headworks
