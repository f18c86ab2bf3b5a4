#include "lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "headworks/expr/environment.h"

namespace headworks::expr::internal {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

constexpr std::array<std::string_view, 17> kReserved = {
    "as",  "break", "const",   "continue",  "else",   "for", "function", "if",   "import",
    "let", "loop",  "package", "namespace", "return", "var", "void",     "while"};

}  // namespace

bool IsIdentifierStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsIdentifierPart(char c) { return IsIdentifierStart(c) || IsDigit(c); }

bool IsReserved(std::string_view word) {
  return word == "true" || word == "false" || word == "null" || word == "in" ||
         std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

std::optional<Token> Lexer::Fail(std::uint32_t begin, std::uint32_t end, std::string message) {
  fault_ = {FaultKind::kSyntax, begin, end - begin, std::move(message)};
  return std::nullopt;
}

void Lexer::SkipBlank() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '/' && Peek(1) == '/') {
      position_ = static_cast<std::uint32_t>(std::min(text_.find('\n', position_), text_.size()));
    } else if (c == ' ' || (c >= '\t' && c <= '\r' && c != '\v')) {
      ++position_;
    } else {
      return;
    }
  }
}

std::optional<Token> Lexer::Next() {
  SkipBlank();
  const std::uint32_t begin = position_;
  if (begin == text_.size()) return Token{Lex::kEnd, begin, begin};
  const char c = text_[begin];
  if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return Number(begin);
  if (IsIdentifierStart(c) || c == '"' || c == '\'') return Word(begin);
  if (c == '`') {
    const auto end = text_.find('`', begin + 1);
    if (end == std::string_view::npos || end == begin + 1) {
      return Fail(begin, begin + 1, "a field name in backticks needs its end: `a-b`");
    }
    position_ = static_cast<std::uint32_t>(end) + 1;
    return Token{Lex::kQuotedIdentifier, begin, position_};
  }
  return Operator(begin);
}

std::optional<Token> Lexer::Number(std::uint32_t begin) {
  Lex lex = Lex::kInt;
  if (Peek() == '0' && (Peek(1) == 'x' || Peek(1) == 'X')) {
    position_ += 2;
    while (IsHexDigit(Peek())) ++position_;
    if (position_ == begin + 2) return Fail(begin, position_, "0x needs hexadecimal digits");
  } else {
    while (IsDigit(Peek())) ++position_;
    if (Peek() == '.' && IsDigit(Peek(1))) {
      lex = Lex::kDouble;
      ++position_;
      while (IsDigit(Peek())) ++position_;
    }
    if (Peek() == 'e' || Peek() == 'E') {
      const std::uint32_t sign = Peek(1) == '+' || Peek(1) == '-' ? 2 : 1;
      if (!IsDigit(Peek(sign))) {
        return Fail(begin, position_ + 1, "an exponent needs digits, e.g. 1e6");
      }
      lex = Lex::kDouble;
      position_ += sign;
      while (IsDigit(Peek())) ++position_;
    }
  }
  if (lex == Lex::kInt && (Peek() == 'u' || Peek() == 'U')) {
    lex = Lex::kUint;
    ++position_;
  }
  if (IsIdentifierPart(Peek())) {
    std::uint32_t end = position_;
    while (end < text_.size() && IsIdentifierPart(text_[end])) ++end;
    return Fail(begin, end,
                "'" + std::string(text_.substr(begin, end - begin)) +
                    "' is neither a number nor a name; names start with a letter, text goes into "
                    "quotes");
  }
  return Token{lex, begin, position_};
}

std::optional<Token> Lexer::Word(std::uint32_t begin) {
  // A prefix of letters may belong to a string: r"", b'', Br"".
  const auto letter = [this](std::uint32_t ahead) { return static_cast<char>(Peek(ahead) | 0x20); };
  if (Quote()) return Quoted(begin, Lex::kString);
  if (letter(0) == 'r' && Quote(1)) return Quoted(begin, Lex::kString);
  if (letter(0) == 'b' && (Quote(1) || (letter(1) == 'r' && Quote(2)))) {
    return Quoted(begin, Lex::kBytes);
  }
  while (IsIdentifierPart(Peek())) ++position_;
  const std::string_view word = text_.substr(begin, position_ - begin);
  Lex lex = Lex::kIdentifier;
  if (word == "true") lex = Lex::kTrue;
  if (word == "false") lex = Lex::kFalse;
  if (word == "null") lex = Lex::kNull;
  if (word == "in") lex = Lex::kIn;
  return Token{lex, begin, position_};
}

std::optional<Token> Lexer::Quoted(std::uint32_t begin, Lex lex) {
  bool raw = false;
  for (; !Quote(); ++position_) raw |= Peek() == 'r' || Peek() == 'R';
  const char quote = Peek();
  const std::uint32_t length = Peek(1) == quote && Peek(2) == quote ? 3 : 1;
  const std::uint32_t open = position_;
  position_ += length;
  while (position_ < text_.size()) {
    const char c = Peek();
    if (c == '\\' && !raw) {
      position_ += 2;
    } else if (c == quote && (length == 1 || (Peek(1) == quote && Peek(2) == quote))) {
      position_ += length;
      return Token{lex, begin, position_};
    } else if (length == 1 && (c == '\n' || c == '\r')) {
      break;
    } else {
      ++position_;
    }
  }
  return Fail(begin, open + length,
              "text that starts with " + std::string(text_.substr(open, length)) + " needs " +
                  std::string(text_.substr(open, length)) + " at its end" +
                  (length == 1 ? " on the same line" : ""));
}

std::optional<Token> Lexer::Operator(std::uint32_t begin) {
  struct Spelling {
    std::string_view text;
    Lex lex;
  };
  static constexpr std::array<Spelling, 24> kOperators = {{
      {"||", Lex::kOr},          {"&&", Lex::kAnd},       {"==", Lex::kEqual},
      {"!=", Lex::kNotEqual},    {"<=", Lex::kLessEqual}, {">=", Lex::kGreaterEqual},
      {"<", Lex::kLess},         {">", Lex::kGreater},    {"!", Lex::kNot},
      {"+", Lex::kPlus},         {"-", Lex::kMinus},      {"*", Lex::kTimes},
      {"/", Lex::kDivide},       {"%", Lex::kModulo},     {"?", Lex::kQuestion},
      {":", Lex::kColon},        {",", Lex::kComma},      {".", Lex::kDot},
      {"(", Lex::kOpenParen},    {")", Lex::kCloseParen}, {"[", Lex::kOpenBracket},
      {"]", Lex::kCloseBracket}, {"{", Lex::kOpenBrace},  {"}", Lex::kCloseBrace},
  }};
  for (const Spelling& spelling : kOperators) {
    if (text_.substr(begin).starts_with(spelling.text)) {
      position_ += static_cast<std::uint32_t>(spelling.text.size());
      return Token{spelling.lex, begin, position_};
    }
  }
  std::uint32_t end = begin + 1;
  while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U) ++end;
  const std::string what(text_.substr(begin, end - begin));
  if (what == "=") return Fail(begin, end, "'=' is not an operator; compare with '=='");
  if (what == "&") return Fail(begin, end, "'&' is not an operator; write '&&'");
  if (what == "|") return Fail(begin, end, "'|' is not an operator; write '||'");
  if (static_cast<unsigned char>(what[0]) < 0x20 || what[0] == 0x7F) {
    return Fail(begin, end, "a control character stands outside of quotes; remove it");
  }
  return Fail(begin, end, "'" + what + "' has no meaning here; text goes into quotes");
}

}  // namespace headworks::expr::internal

namespace headworks::expr {

bool IsFieldName(std::string_view name) {
  return !name.empty() && internal::IsIdentifierStart(name.front()) &&
         std::all_of(name.begin(), name.end(), internal::IsIdentifierPart) && name != "true" &&
         name != "false" && name != "null" && name != "in";
}

}  // namespace headworks::expr
