#pragma once

#include <string>
#include <string_view>

#include "ast.h"
#include "headworks/expr/type.h"

/// What the check and the evaluation both say, in the same words.
namespace headworks::expr::internal {

/// Of a binary operator, as it is written.
std::string_view Spelling(Op op);

/// Why `node`, a binary operator, does not take operands of `left` and `right`, and what to write.
std::string NoOperator(const Ast& ast, const Node& node, Type::Kind left, Type::Kind right);

/// What to do about an operand that is null, to be appended.
std::string NullHint(const Ast& ast, const Node& operand);

/// Why a value of `kind` is no text, and what to write instead; empty = it is.
std::string_view NoText(Type::Kind kind);

}  // namespace headworks::expr::internal
