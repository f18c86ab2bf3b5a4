#include "literal.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace headworks::expr::internal {
namespace {

Error Bad(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Result<Value> ReadInteger(Lex lex, std::string_view written, bool negative) {
  std::string_view digits = written;
  if (lex == Lex::kUint) digits.remove_suffix(1);
  int base = 10;
  if (digits.size() > 1 && (digits[1] == 'x' || digits[1] == 'X')) {
    digits.remove_prefix(2);
    base = 16;
  }
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const bool fits = error == std::errc();
  if (lex == Lex::kUint) {
    if (!fits) return Bad("an uint is at most 18446744073709551615u");
    if (negative) return Bad("an uint has no sign; leave out the u");
    return Value::Uint(value);
  }
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (!fits || value > kMax + (negative ? 1 : 0)) {
    return Bad(
        "an int is between -9223372036854775808 and 9223372036854775807; for larger numbers "
        "write a double (1e20)");
  }
  return Value::Int(negative ? static_cast<std::int64_t>(0 - value)
                             : static_cast<std::int64_t>(value));
}

Value ReadDouble(std::string_view written, bool negative) {
  double value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone: infinity above, zero below.
    value = std::strtod(std::string(written).c_str(), nullptr);
  }
  return Value::Double(negative ? -value : value);
}

std::optional<std::uint32_t> ReadDigits(std::string_view text, std::size_t count, int base) {
  if (text.size() < count) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, value, base);
  if (error != std::errc() || end != text.data() + count) return std::nullopt;
  return value;
}

std::optional<char> SimpleEscape(char c) {
  switch (c) {
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    case '\\':
    case '?':
    case '"':
    case '\'':
    case '`':
      return c;
    default:
      return std::nullopt;
  }
}

/// Reads the escape that `rest` starts with (behind its backslash); gives its length, 0 = invalid.
std::size_t ReadEscape(std::string_view rest, bool bytes, std::string* to) {
  if (rest.empty()) return 0;
  const char c = rest[0];
  if (const auto simple = SimpleEscape(c)) {
    to->push_back(*simple);
    return 1;
  }
  std::size_t length = 0;
  std::optional<std::uint32_t> value;
  if (c >= '0' && c <= '3') {
    length = 3;
    value = ReadDigits(rest, 3, 8);
  } else if (c == 'x' || c == 'X') {
    length = 3;
    value = ReadDigits(rest.substr(1), 2, 16);
  } else if (!bytes && (c == 'u' || c == 'U')) {
    length = c == 'u' ? 5 : 9;
    value = ReadDigits(rest.substr(1), length - 1, 16);
  }
  if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF)) return 0;
  if (bytes) {
    to->push_back(static_cast<char>(*value));
  } else {
    AppendUtf8(*value, to);
  }
  return length;
}

Result<Value> ReadText(Lex lex, std::string_view written, std::forward_list<std::string>* strings) {
  bool raw = false;
  while (written[0] != '"' && written[0] != '\'') {
    raw |= written[0] == 'r' || written[0] == 'R';
    written.remove_prefix(1);
  }
  const std::size_t quotes =
      written.size() >= 6 && written[1] == written[0] && written[2] == written[0] ? 3 : 1;
  const std::string_view inner = written.substr(quotes, written.size() - 2 * quotes);
  const auto kind = lex == Lex::kBytes ? Value::Kind::kBytes : Value::Kind::kString;
  if (raw || inner.find('\\') == std::string_view::npos) return Value::Text(kind, inner);
  std::string text;
  text.reserve(inner.size());
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '\\') {
      text.push_back(inner[i]);
      continue;
    }
    const std::size_t length = ReadEscape(inner.substr(i + 1), lex == Lex::kBytes, &text);
    if (length == 0) {
      std::size_t end = i + 2;
      while (end < inner.size() && (static_cast<unsigned char>(inner[end]) & 0xC0U) == 0x80U) ++end;
      return Bad("'" + std::string(inner.substr(i, end - i)) +
                 "' is not an escape; write \\\\ for a backslash, or r'...' for text without "
                 "escapes");
    }
    i += length;
  }
  strings->push_front(std::move(text));
  return Value::Text(kind, strings->front());
}

}  // namespace

void AppendUtf8(std::uint32_t c, std::string* to) {
  const auto tail = [&](int shift) {
    to->push_back(static_cast<char>(0x80U | ((c >> shift) & 0x3FU)));
  };
  if (c < 0x80) {
    to->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    to->push_back(static_cast<char>(0xC0U | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    to->push_back(static_cast<char>(0xE0U | (c >> 12)));
    tail(6);
    tail(0);
  } else {
    to->push_back(static_cast<char>(0xF0U | (c >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

Result<Value> ReadLiteral(Lex lex, std::string_view written, bool negative,
                          std::forward_list<std::string>* strings) {
  if (lex == Lex::kInt || lex == Lex::kUint) return ReadInteger(lex, written, negative);
  if (lex == Lex::kDouble) return ReadDouble(written, negative);
  return ReadText(lex, written, strings);
}

}  // namespace headworks::expr::internal
