#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headworks/expr/fault.h"

namespace headworks::expr::internal {

enum class Lex : std::uint8_t {
  kEnd,
  kIdentifier,
  /// `a-b` between backticks, after a dot.
  kQuotedIdentifier,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kTrue,
  kFalse,
  kNull,
  kIn,
  kQuestion,
  kColon,
  kComma,
  kDot,
  kOr,
  kAnd,
  kNot,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kPlus,
  kMinus,
  kTimes,
  kDivide,
  kModulo,
  kOpenParen,
  kCloseParen,
  kOpenBracket,
  kCloseBracket,
  kOpenBrace,
  kCloseBrace,
};

struct Token {
  Lex lex = Lex::kEnd;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Cuts an expression into tokens, one at a time; looks at nothing behind the token it gives.
class Lexer {
 public:
  /// Borrows `text`, which is valid UTF-8 and below 4 GiB; starts at `position`.
  explicit Lexer(std::string_view text, std::uint32_t position = 0)
      : text_(text), position_(position) {}

  /// The next token; kEnd at the end.  nullopt = fault() says why there is none.
  std::optional<Token> Next();
  const Fault& fault() const { return fault_; }

 private:
  void SkipBlank();
  std::optional<Token> Number(std::uint32_t begin);
  std::optional<Token> Quoted(std::uint32_t begin, Lex lex);
  std::optional<Token> Word(std::uint32_t begin);
  std::optional<Token> Operator(std::uint32_t begin);
  std::optional<Token> Fail(std::uint32_t begin, std::uint32_t end, std::string message);
  char Peek(std::uint32_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  bool Quote(std::uint32_t ahead = 0) const { return Peek(ahead) == '"' || Peek(ahead) == '\''; }

  std::string_view text_;
  std::uint32_t position_;
  Fault fault_;
};

/// Whether the language keeps `word` for itself, so that no variable can have the name.
bool IsReserved(std::string_view word);
bool IsIdentifierStart(char c);
bool IsIdentifierPart(char c);

}  // namespace headworks::expr::internal
