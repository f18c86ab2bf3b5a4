#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "headworks/log_store/log_store.h"

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

/// Bytes of the whole escape sequence (ECMA-48) that `text` begins with; 0 = none.
std::size_t SequenceLength(std::string_view text) {
  if (text.size() < 3 || text[0] != '\x1b') return 0;
  if (text[1] == '[') {
    const std::size_t end = text.find_first_not_of("0123456789:;<=>?!\"#$%&'()*+,-./ ", 2);
    return end != text.npos && text[end] >= '@' && text[end] <= '~' ? end + 1 : 0;
  }
  if (std::string_view("]PX^_").find(text[1]) == std::string_view::npos) return 0;
  const std::size_t bell = text.find('\a', 2);
  const std::size_t end = text.find("\x1b\\", 2);
  if (end != text.npos && end < bell) return end + 2;
  return bell == text.npos ? 0 : bell + 1;
}

}  // namespace

Terminal Terminal::Of(std::FILE* stream, ColorMode mode,
                      const std::function<const char*(const char*)>& environment) {
  Terminal terminal;
  const char* kind = environment("TERM");
  terminal.screen = isatty(fileno(stream)) == 1;
  terminal.interactive = mode != ColorMode::kNever && terminal.screen && kind != nullptr &&
                         std::string_view(kind) != "dumb";
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

std::string Terminal::Foreign(std::string_view bytes) const {
  return screen ? ForScreen(bytes) : log_store::DisplayText(bytes);
}

std::size_t ControlLength(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto within = [](unsigned value, unsigned first, unsigned last) {
    return first <= value && value <= last;
  };
  if (byte(0) == 0xC2) return within(byte(1), 0x80, 0x9F) ? 2 : 0;
  if (byte(0) == 0xD8) return byte(1) == 0x9C ? 2 : 0;  // U+061C
  if (byte(0) != 0xE2) return 0;
  const bool mark = byte(1) == 0x80 && (within(byte(2), 0x8E, 0x8F) || within(byte(2), 0xAA, 0xAE));
  const bool isolate = byte(1) == 0x81 && within(byte(2), 0xA6, 0xA9);
  return mark || isolate ? 3 : 0;
}

std::string ForScreen(std::string_view bytes) {
  if (bytes.ends_with('\r')) bytes.remove_suffix(1);
  const std::string valid = log_store::DisplayText(bytes);
  std::string text;
  text.reserve(valid.size());
  for (std::string_view rest = valid; !rest.empty();) {
    if (const std::size_t length = SequenceLength(rest); length > 0) {
      rest.remove_prefix(length);
      continue;
    }
    const auto c = static_cast<unsigned char>(rest.front());
    if (const std::size_t length = ControlLength(rest); length > 0) {
      text += "\xEF\xBF\xBD";
      rest.remove_prefix(length);
      continue;
    }
    if ((c < ' ' && c != '\t' && c != '\n') || c == 0x7F) {
      text += {'^', static_cast<char>(c ^ 0x40)};
    } else {
      text += rest.front();
    }
    rest.remove_prefix(1);
  }
  return text;
}

std::string InOneParagraph(std::string_view bytes) {
  std::string text = ForScreen(bytes);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.insert(at + 1, "  ");
  return text;
}

TerminalSize SizeOf(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {.rows = 24, .columns = 80};
  return {.rows = size.ws_row, .columns = size.ws_col};
}

}  // namespace headworks::cli
