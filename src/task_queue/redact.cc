#include "headworks/task_queue/redact.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace headworks::task_queue {
namespace {

constexpr std::string_view kMask = "***";
constexpr std::array<std::string_view, 6> kNames{"password", "passwd",  "secret",
                                                 "token",    "api_key", "apikey"};
/// Headers, all of whose value is secret.
constexpr std::array<std::string_view, 2> kHeaders{"authorization", "cookie"};
constexpr std::array<std::string_view, 2> kSchemes{"bearer ", "basic "};

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool StartsWith(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {}, Lower);
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Where a bare word ends.
std::size_t WordEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && !IsSpace(text[at]) &&
         std::string_view("\"'`,;&)}]").find(text[at]) == std::string_view::npos) {
    ++at;
  }
  return at;
}

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

/// If at `at` stands one of `names`, perhaps with more behind it ("secret_key"), where its value
/// begins; else npos.
std::size_t ValueOf(std::string_view text, std::size_t at,
                    std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (!StartsWith(text.substr(at), name)) continue;
    std::size_t i = at + name.size();
    if (i < text.size() && (text[i] == '_' || text[i] == '-'))
      while (i < text.size() && IsNameChar(text[i])) ++i;
    if (i < text.size() && (text[i] == '"' || text[i] == '\'')) ++i;
    while (i < text.size() && text[i] == ' ') ++i;
    if (i >= text.size() || (text[i] != '=' && text[i] != ':')) continue;
    ++i;
    while (i < text.size() && text[i] == ' ') ++i;
    return i;
  }
  return std::string_view::npos;
}

/// Moves `at` to where the secret in the value at `at` begins, which is behind a quote or a scheme,
/// and returns where it ends: with the quotes, with the line of a header, else with its word.
std::size_t ValueEnd(std::string_view text, std::size_t& at, bool is_header) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    const char quote = text[at++];
    std::size_t end = at;
    while (end < text.size() && text[end] != quote) end += text[end] == '\\' ? 2 : 1;
    return std::min(end, text.size());
  }
  for (const std::string_view scheme : kSchemes) {
    if (StartsWith(text.substr(at), scheme)) at += scheme.size();
  }
  if (!is_header) return WordEnd(text, at);
  return std::min(text.find_first_of("\r\n\"'", at), text.size());
}

/// If `at` is behind "://", where the password of a URL's user begins and ends.
bool FindUrlPassword(std::string_view text, std::size_t at, std::size_t& begin, std::size_t& end) {
  const std::size_t stop = text.find_first_of("/?# \t\n\"'", at);
  const std::string_view authority = text.substr(at, stop == text.npos ? stop : stop - at);
  const std::size_t host = authority.rfind('@');
  const std::size_t colon = authority.find(':');
  if (host == authority.npos || colon == authority.npos || colon > host) return false;
  begin = at + colon + 1;
  end = at + host;
  return true;
}

}  // namespace

std::string RedactCredentials(std::string_view text) {
  std::string clean;
  std::size_t kept = 0;  // what is before stands in `clean`
  const auto mask = [&](std::size_t begin, std::size_t end) {
    clean.append(text.substr(kept, begin - kept)).append(kMask);
    kept = end;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t begin = ValueOf(text, at, kNames);
    std::size_t end = 0;
    if (begin != std::string_view::npos) {
      end = ValueEnd(text, begin, false);
    } else if (begin = ValueOf(text, at, kHeaders); begin != std::string_view::npos) {
      end = ValueEnd(text, begin, true);
    } else if (text.substr(at).starts_with("://") && FindUrlPassword(text, at + 3, begin, end)) {
    } else if (const auto scheme = std::ranges::find_if(
                   kSchemes, [&](std::string_view s) { return StartsWith(text.substr(at), s); });
               scheme != kSchemes.end()) {
      begin = at + scheme->size();
      end = WordEnd(text, begin);
    } else {
      continue;
    }
    if (end <= begin) continue;
    mask(begin, end);
    at = end - 1;
  }
  return clean.append(text.substr(kept));
}

}  // namespace headworks::task_queue
