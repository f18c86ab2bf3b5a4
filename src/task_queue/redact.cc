#include "headworks/task_queue/redact.h"

#include <algorithm>
#include <array>
#include <span>

namespace headworks::task_queue {
namespace {

constexpr std::string_view kMask = "***";
/// Without the "_" and "-" that may stand in them.
constexpr std::array<std::string_view, 10> kNames{
    "password", "passwd", "passphrase", "pwd",       "secret",
    "token",    "apikey", "accesskey",  "secretkey", "privatekey"};
/// Headers, all of whose value is secret.
constexpr std::array<std::string_view, 2> kHeaders{"authorization", "cookie"};
constexpr std::string_view kPem = "-----BEGIN ";
constexpr std::size_t kLongestPemLabel = 64;

/// Of a text; none where it is empty.
struct Secret {
  std::size_t begin = 0, end = 0;
};

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
char Lower(char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsSpace(char c) { return IsBlank(c) || c == '\n' || c == '\r'; }
bool IsQuote(char c) { return c == '"' || c == '\''; }
bool IsNameChar(char c) {
  return IsLower(c) || IsUpper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// Of the header Authorization, wherever it stands.
bool IsScheme(std::string_view word) {
  const auto is = [word](std::string_view scheme) {
    return std::ranges::equal(word, scheme, {}, Lower);
  };
  return is("bearer") || is("basic");
}

/// Past all from `at` on that `is`.
template <typename Is>
std::size_t Past(std::string_view text, std::size_t at, Is is) {
  while (at < text.size() && is(text[at])) ++at;
  return at;
}

/// Where a bare value ends.
std::size_t BareEnd(std::string_view text, std::size_t at) {
  return Past(text, at,
              [](char c) { return !IsSpace(c) && !std::string_view("\"'`,;&)}]").contains(c); });
}

std::size_t NameEnd(std::string_view text, std::size_t at) {
  while (at < text.size() && IsNameChar(text[at]) && !text.substr(at).starts_with(kPem)) ++at;
  return at;
}

/// Whether a part of `name` ends in one of `names`: "DB_PASSWORD", "X-Api-Key", "secretValue".
bool Says(std::string_view name, std::span<const std::string_view> names) {
  std::string read;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char next = i + 1 < name.size() ? name[i + 1] : '_';
    if (name[i] == '_' || name[i] == '-') continue;
    read += Lower(name[i]);
    const bool is_end = next == '_' || next == '-' || (IsLower(name[i]) && IsUpper(next));
    if (is_end && std::ranges::any_of(names, [&](auto each) { return read.ends_with(each); }))
      return true;
  }
  return false;
}

/// Behind the quote that stands at `at`, with as many backslashes as JSON within JSON gives it; or
/// `at`.
std::size_t PastQuote(std::string_view text, std::size_t at) {
  const std::size_t quote = Past(text, at, [](char c) { return c == '\\'; });
  return quote < text.size() && IsQuote(text[quote]) ? quote + 1 : at;
}

/// Where the value begins of the name that ends at `at`; npos: it has none.
std::size_t ValueOf(std::string_view text, std::size_t at) {
  at = Past(text, PastQuote(text, at), IsBlank);
  if (at >= text.size() || (text[at] != '=' && text[at] != ':')) return std::string_view::npos;
  ++at;
  if (at < text.size() && (text[at] == '=' || text[at] == '>')) ++at;  // ":=", "=>"
  return Past(text, at, IsBlank);
}

/// Of the value at `at`, which ends with its quotes, with its line where it is a header's, else
/// with its word.
Secret SecretOf(std::string_view text, std::size_t at, bool is_header) {
  if (const std::size_t begin = PastQuote(text, at); begin != at) {
    const char quote = text[begin - 1];
    const std::size_t depth = begin - 1 - at;
    std::size_t slashes = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      // One more level of JSON doubles the backslashes, and quotes with one more.
      if (text[i] == quote && slashes % (2 * depth + 2) == depth) return {begin, i - depth};
      slashes = text[i] == '\\' ? slashes + 1 : 0;
    }
    return {begin, text.size()};
  }
  const std::size_t word = Past(text, at, IsNameChar);
  if (word < text.size() && text[word] == ' ' && IsScheme(text.substr(at, word - at)))
    at = word + 1;
  if (!is_header) return {at, BareEnd(text, at)};
  return {at, std::min(text.find_first_of("\r\n\"'", at), text.size())};
}

/// Of the URL whose "://" ends at `at`: the password of its user, or a token in a user's place.
Secret UrlSecret(std::string_view text, std::size_t at) {
  const std::size_t end = Past(text, at, [](char c) {
    return !IsSpace(c) && !IsQuote(c) && c != '/' && c != '?' && c != '#';
  });
  const std::string_view authority = text.substr(at, end - at);
  const std::size_t host = authority.rfind('@');
  if (host == authority.npos) return {};
  const std::size_t colon = authority.find(':');
  return {colon < host ? at + colon + 1 : at, at + host};
}

/// Of the PEM text that begins at `at`: a private key, without the lines around it.
Secret PemSecret(std::string_view text, std::size_t at) {
  at += kPem.size();
  const std::size_t label = text.substr(at, kLongestPemLabel).find("-----");
  if (label == text.npos || !text.substr(at, label).contains("PRIVATE KEY")) return {};
  at += label + std::string_view("-----").size();
  return {at, std::min(text.find("-----END", at), text.size())};
}

/// What follows the name from `at` to `end`.
Secret NamedSecret(std::string_view text, std::size_t at, std::size_t end) {
  const std::string_view name = text.substr(at, end - at);
  if (const std::size_t value = ValueOf(text, end); value != text.npos) {
    const bool is_header = Says(name, kHeaders);
    if (is_header || Says(name, kNames)) return SecretOf(text, value, is_header);
  } else if (end < text.size() && text[end] == ' ' && IsScheme(name)) {
    return {end + 1, BareEnd(text, end + 1)};
  }
  return {};
}

}  // namespace

// Each step goes on behind what it looked at, but for blanks and the authority of a URL, which are
// looked at twice: strangers choose the text.
std::string RedactCredentials(std::string_view text) {
  std::string clean;
  std::size_t kept = 0;  // what is before stands in `clean`
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    std::size_t next = at + 1;
    Secret secret;
    if (rest.starts_with(kPem)) {
      secret = PemSecret(text, at);
    } else if (IsNameChar(text[at])) {
      next = NameEnd(text, at);
      secret = NamedSecret(text, at, next);
    } else if (rest.starts_with("://")) {
      next = at + 3;
      secret = UrlSecret(text, next);
    }
    if (secret.end > secret.begin) {
      clean.append(text.substr(kept, secret.begin - kept)).append(kMask);
      next = kept = secret.end;
    }
    at = next;
  }
  return clean.append(text.substr(kept));
}

}  // namespace headworks::task_queue
