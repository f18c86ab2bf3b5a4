#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace headworks::cli {
namespace {

constexpr int kRed = 31, kGreen = 32, kYellow = 33, kCyan = 36;

std::string InColor(bool on, int color, std::string_view text) {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", color, text) : std::string(text);
}

bool SaysUtf8(const std::function<const char*(const char*)>& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = environment(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

}  // namespace

Terminal Terminal::Of(std::FILE* stream, ColorMode mode,
                      const std::function<const char*(const char*)>& environment) {
  Terminal terminal;
  const char* kind = environment("TERM");
  terminal.interactive = mode != ColorMode::kNever && isatty(fileno(stream)) == 1 &&
                         kind != nullptr && std::string_view(kind) != "dumb";
  // https://no-color.org: set and not empty.
  const char* no_color = environment("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  terminal.color =
      mode == ColorMode::kAlways || (mode == ColorMode::kAuto && terminal.interactive && !refused);
  terminal.utf8 = SaysUtf8(environment);
  return terminal;
}

std::string Terminal::Paint(model::TaskState state, std::string_view text) const {
  using enum model::TaskState;
  switch (state) {
    case kSucceeded:
      return InColor(color, kGreen, text);
    case kFailed:
    case kUpstreamFailed:
      return InColor(color, kRed, text);
    case kCancelled:
    case kParked:
      return InColor(color, kYellow, text);
    case kQueued:
    case kRunning:
      return InColor(color, kCyan, text);
    case kWaiting:
    case kReady:
    case kSkipped:
      return Dim(text);
  }
  return std::string(text);
}

std::string Terminal::Paint(model::RunState state, std::string_view text) const {
  using enum model::RunState;
  switch (state) {
    case kSucceeded:
      return InColor(color, kGreen, text);
    case kFailed:
      return InColor(color, kRed, text);
    case kCancelled:
      return InColor(color, kYellow, text);
    case kRunning:
      return InColor(color, kCyan, text);
    case kPending:
      return Dim(text);
  }
  return std::string(text);
}

std::string Terminal::Dim(std::string_view text) const {
  return color ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

TerminalSize SizeOf(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {.rows = 24, .columns = 80};
  return {.rows = size.ws_row, .columns = size.ws_col};
}

}  // namespace headworks::cli
