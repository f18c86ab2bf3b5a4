#include "template_scan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "headworks/base/text.h"
#include "headworks/expr/limits.h"
#include "lexer.h"
#include "messages.h"

namespace headworks::expr::internal {
namespace {

constexpr std::string_view kBlank = " \t\r\n\f";

}  // namespace

bool RefusedTemplate(std::string_view text, std::vector<Fault>* faults) {
  if (text.size() > kMaxTemplateBytes) {
    faults->push_back({FaultKind::kLimit, 0, 0,
                       "the text has " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(kMaxTemplateBytes) +
                           " are allowed; read it from a file instead"});
    return true;
  }
  const std::size_t valid = ValidUtf8Prefix(text);
  if (valid == text.size()) return false;
  faults->push_back({FaultKind::kSyntax, valid, 1, "the text is not UTF-8 here"});
  return true;
}

std::optional<std::size_t> FindEnd(std::string_view text, std::size_t open,
                                   std::vector<Fault>* faults) {
  Lexer lexer(text, static_cast<std::uint32_t>(open + kOpen.size()));
  std::size_t depth = 0;
  bool has_braces = false;
  bool has_single_end = false;
  const auto unclosed = [&] {
    faults->push_back({FaultKind::kSyntax, open, kOpen.size(),
                       std::string("the '${{' that opens here is never closed: '}}' is missing at "
                                   "the end of its expression") +
                           (has_single_end && !has_braces ? ", where '}' is not enough" : "") +
                           "; for the characters themselves write '$${{'"});
    return std::nullopt;
  };
  while (const auto token = lexer.Next()) {
    if (token->lex == Lex::kEnd) return unclosed();
    if (token->lex == Lex::kOpenBrace) {
      ++depth;
      has_braces = true;
    }
    if (token->lex != Lex::kCloseBrace) continue;
    if (depth > 0) {
      --depth;
    } else if (token->end < text.size() && text[token->end] == '}') {
      return token->end + 1;
    } else {
      has_single_end = true;
    }
  }
  // Not tokens of the language: what follows an expression that is not closed, or a slip within it.
  // Where that was meant to end is a guess, good enough to go on.
  const std::size_t close = text.find("}}", lexer.fault().offset);
  if (has_single_end || std::min(text.find(kOpen, open + kOpen.size()), close) != close ||
      (close == std::string_view::npos && lexer.fault().offset > text.find('\n', open)))
    return unclosed();
  faults->push_back(lexer.fault());
  return close == std::string_view::npos ? std::nullopt : std::optional(close + 2);
}

std::size_t ExpressionOffset(std::string_view text, std::size_t open) {
  return std::min(text.find_first_not_of(kBlank, open + kOpen.size()), text.size());
}

std::optional<Program> CompilePart(std::string_view text, std::size_t open, std::size_t end,
                                   const Environment& environment, std::vector<Fault>* faults) {
  const std::size_t begin = ExpressionOffset(text, open);
  std::string_view expression = text.substr(begin, end - 2 - begin);
  expression = expression.substr(0, expression.find_last_not_of(kBlank) + 1);
  const std::size_t first = faults->size();
  auto program = Program::Compile(expression, environment, faults);
  for (std::size_t i = first; i < faults->size(); ++i) (*faults)[i].offset += begin;
  return program ? std::optional(*std::move(program)) : std::nullopt;
}

void AppendReferences(const Program& program, std::size_t offset, std::vector<Reference>* to) {
  for (Reference reference : program.references()) {
    reference.offset += offset;
    to->push_back(std::move(reference));
  }
}

void CheckIsText(const Program& program, std::size_t offset, std::vector<Fault>* faults) {
  const std::string_view fault = NoText(program.type().kind());
  if (fault.empty()) return;
  faults->push_back({FaultKind::kType, offset, program.text().size(),
                     "'" + Excerpt(program.text()) + "' is " + std::string(fault)});
}

Error FirstFault(const std::vector<Fault>& faults, std::size_t first) {
  return {Code::kInvalidArgument, faults[first].message};
}

}  // namespace headworks::expr::internal
