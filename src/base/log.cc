#include "headworks/base/log.h"

#include <fmt/format.h>

#include <cstdio>

#include "headworks/base/json.h"
#include "headworks/base/time.h"

namespace headworks {
namespace {

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
  const std::string now = FormatInstant(SystemClock().Now());
  std::string line;
  if (format_ == Format::kJson) {
    line = fmt::format(R"({{"time":"{}","level":"{}","message":{})", now, LevelName(level),
                       QuoteJson(message));
    for (const auto& [key, value] : fields)
      line += fmt::format(",{}:{}", QuoteJson(key), QuoteJson(value));
    line += "}\n";
  } else {
    line = fmt::format("{} {:<7} {}", now, LevelName(level), message);
    for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, QuoteJson(value));
    line += '\n';
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace headworks
