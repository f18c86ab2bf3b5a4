#include "quoting.h"

#include <algorithm>

namespace headworks::spec {
namespace {

constexpr std::size_t kLongest = 200;
constexpr std::string_view kOpen = "${{", kClose = "}}";

std::string_view Trim(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string_view("''") : std::string_view(&c, 1);
  return quoted + "'";
}

/// Where the value of a line begins: behind the dashes of list entries and one key.
std::size_t ValueOf(std::string_view line) {
  std::size_t at = 0;
  while (line.substr(at).starts_with("- "))
    at = std::min(line.find_first_not_of(' ', at + 1), line.size());
  constexpr std::string_view kOfKeys =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  const std::size_t end = line.find_first_not_of(kOfKeys, at);
  if (end == at || end == line.npos || !line.substr(end).starts_with(": ")) return at;
  return std::min(line.find_first_not_of(' ', end + 1), line.size());
}

/// Where the text with an expression at `at` begins and ends within brackets.
std::size_t BeginOf(std::string_view line, std::size_t at) {
  while (at > 0 && std::string_view(",[{").find(line[at - 1]) == std::string_view::npos &&
         !line.substr(0, at).ends_with(": "))
    --at;
  return line.find_first_not_of(' ', at);
}
std::size_t EndOf(std::string_view line, std::size_t at) {
  while (at < line.size() && std::string_view(",]}").find(line[at]) == std::string_view::npos) {
    const bool expression = line.substr(at).starts_with(kOpen);
    const std::size_t close = expression ? line.find(kClose, at) : at;
    if (close == line.npos) return close;
    at = expression ? close + kClose.size() : at + 1;
  }
  while (at > 0 && line[at - 1] == ' ') --at;
  return at;
}

}  // namespace

std::string WithQuotes(std::string_view line) {
  line = Trim(line);
  const std::size_t begin = ValueOf(line);
  std::string_view value = line.substr(begin);
  constexpr std::string_view kNotPlain = "'\"[{|>&*!";
  if (line.size() > kLongest || value.empty() || kNotPlain.find(value.front()) != value.npos)
    return "";
  const std::size_t close = value.rfind(kClose);
  const std::size_t comment = value.find(" #", close == value.npos ? 0 : close);
  const std::string_view rest = comment == value.npos ? "" : value.substr(comment);
  value = Trim(value.substr(0, comment));
  if (value.find(": ") == value.npos && value.find(" #") == value.npos) return "";
  return std::string(line.substr(0, begin)) + Quote(value) + std::string(rest);
}

std::string WithQuotesInBrackets(std::string_view line) {
  line = Trim(line);
  if (line.size() > kLongest) return "";
  std::string mended;
  std::size_t done = 0;
  bool changed = false;
  for (std::size_t at = line.find(kOpen); at != line.npos; at = line.find(kOpen, done)) {
    const std::size_t begin = std::max(BeginOf(line, at), done), end = EndOf(line, at);
    if (end == line.npos) return "";
    const std::string_view value = line.substr(begin, end - begin);
    const bool quoted = value.starts_with('\'') || value.starts_with('"');
    mended += line.substr(done, begin - done);
    mended += quoted ? std::string(value) : Quote(value);
    changed |= !quoted;
    done = end;
  }
  return changed ? mended + std::string(line.substr(done)) : "";
}

}  // namespace headworks::spec
