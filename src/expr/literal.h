#pragma once

#include <forward_list>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "lexer.h"
#include "value.h"

namespace headworks::expr::internal {

/// The value of a number, string or bytes token as it is written, `negative` with a minus before
/// it.  Text without escapes borrows from `written`, other text is appended to `strings`.
Result<Value> ReadLiteral(Lex lex, std::string_view written, bool negative,
                          std::forward_list<std::string>* strings);

/// Appends the UTF-8 of a code point.
void AppendUtf8(std::uint32_t code_point, std::string* to);

}  // namespace headworks::expr::internal
