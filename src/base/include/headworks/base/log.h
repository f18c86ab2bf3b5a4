#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headworks {

enum class LogLevel : unsigned char { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Where Headworks says what it does; never where task output goes.
///
/// Threads.  `Write` may be called concurrently.
class Logger {
 public:
  /// A constant name, and a value of any text.
  using Field = std::pair<std::string_view, std::string>;
  using Fields = std::span<const Field>;

  virtual ~Logger() = default;
  /// One event: a constant message and its fields.
  virtual void Write(LogLevel level, std::string_view message, Fields fields) = 0;
  /// Whether lines of this level go anywhere: what makes them costs nothing where they do not.
  virtual bool Wants(LogLevel /*level*/) const { return true; }

  void Debug(std::string_view m, std::initializer_list<Field> f = {}) {
    Write(LogLevel::kDebug, m, Fields(f.begin(), f.size()));
  }
  void Info(std::string_view m, std::initializer_list<Field> f = {}) {
    Write(LogLevel::kInfo, m, Fields(f.begin(), f.size()));
  }
  void Warning(std::string_view m, std::initializer_list<Field> f = {}) {
    Write(LogLevel::kWarning, m, Fields(f.begin(), f.size()));
  }
  void Error(std::string_view m, std::initializer_list<Field> f = {}) {
    Write(LogLevel::kError, m, Fields(f.begin(), f.size()));
  }
};

/// Puts the same fields before those of every line.  Borrows the logger that it writes to.
class ScopedLogger final : public Logger {
 public:
  ScopedLogger(Logger& inner, std::vector<Field> fields)
      : inner_(inner), fields_(std::move(fields)) {}
  void Write(LogLevel level, std::string_view message, Fields fields) override;
  bool Wants(LogLevel level) const override { return inner_.Wants(level); }

 private:
  Logger& inner_;
  const std::vector<Field> fields_;
};

/// Drops everything.
class NullLogger final : public Logger {
 public:
  void Write(LogLevel level, std::string_view message, Fields fields) override;
  bool Wants(LogLevel /*level*/) const override { return false; }
};

/// Lines on standard error, one per event, as text or JSON; below `minimum` nothing.
class StderrLogger final : public Logger {
 public:
  enum class Format : unsigned char { kText, kJson };
  StderrLogger(Format format, LogLevel minimum) : format_(format), minimum_(minimum) {}
  void Write(LogLevel level, std::string_view message, Fields fields) override;
  bool Wants(LogLevel level) const override { return level >= minimum_; }

 private:
  Format format_;
  LogLevel minimum_;
};

}  // namespace headworks
