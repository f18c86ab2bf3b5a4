#include "tests/textproto.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "literal.h"

namespace headworks::expr {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::optional<TextMessage> Message(char end) {
    TextMessage message;
    for (;;) {
      Skip();
      if (rest_.empty()) return end == '\0' ? std::optional(message) : std::nullopt;
      if (end != '\0' && Take(end)) return message;
      auto field = Field();
      if (!field) return std::nullopt;
      message.fields.push_back(*std::move(field));
      Skip();
      if (!Take(',')) Take(';');
    }
  }

 private:
  void Skip() {
    while (!rest_.empty()) {
      if (rest_[0] == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (std::isspace(static_cast<unsigned char>(rest_[0])) != 0) {
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view Word() {
    std::size_t length = 0;
    while (length < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[length])) != 0 ||
            std::string_view("_.+-/").find(rest_[length]) != std::string_view::npos)) {
      ++length;
    }
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }

  std::optional<TextMessage::Field> Field() {
    TextMessage::Field field;
    if (Take('[')) {  // [type.googleapis.com/name] of an Any.
      field.name = Word();
      if (!Take(']')) return std::nullopt;
    } else {
      field.name = Word();
    }
    if (field.name.empty()) return std::nullopt;
    Skip();
    const bool colon = Take(':');
    Skip();
    if (Take('{')) {
      auto message = Message('}');
      if (!message) return std::nullopt;
      field.message = *std::move(message);
      return field;
    }
    if (!colon) return std::nullopt;
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) {
      field.scalar = Word();
      return field.scalar.empty() ? std::nullopt : std::optional(field);
    }
    while (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) {
      if (!String(&field.scalar)) return std::nullopt;
      Skip();
    }
    return field;
  }

  bool String(std::string* to) {
    const char quote = rest_[0];
    rest_.remove_prefix(1);
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == quote) return true;
      if (c != '\\') {
        to->push_back(c);
      } else if (!Escape(to)) {
        return false;
      }
    }
    return false;
  }

  std::optional<std::uint32_t> Number(std::size_t most, int base) {
    std::uint32_t value = 0;
    const std::size_t limit = std::min(most, rest_.size());
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + limit, value, base);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool Escape(std::string* to) {
    if (rest_.empty()) return false;
    const char c = rest_[0];
    if (c >= '0' && c <= '7') {
      const auto value = Number(3, 8);
      to->push_back(static_cast<char>(*value));
      return true;
    }
    rest_.remove_prefix(1);
    if (c == 'x' || c == 'X') {
      const auto value = Number(2, 16);
      if (value) to->push_back(static_cast<char>(*value));
      return value.has_value();
    }
    if (c == 'u' || c == 'U') {
      const auto value = Number(c == 'u' ? 4 : 8, 16);
      if (value) internal::AppendUtf8(*value, to);
      return value.has_value();
    }
    constexpr std::string_view kLetters = "abfnrtv\\'\"?";
    constexpr std::string_view kMeaning = "\a\b\f\n\r\t\v\\'\"?";
    const std::size_t at = kLetters.find(c);
    if (at == std::string_view::npos) return false;
    to->push_back(kMeaning[at]);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

const TextMessage::Field* TextMessage::Find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::string TextMessage::Text(std::string_view name) const {
  const Field* field = Find(name);
  return field == nullptr ? std::string() : field->scalar;
}

std::optional<TextMessage> ReadTextMessage(std::string_view text) {
  return Reader(text).Message('\0');
}

}  // namespace headworks::expr
