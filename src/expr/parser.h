#pragma once

#include <vector>

#include "ast.h"
#include "headworks/expr/fault.h"

namespace headworks::expr::internal {

/// Parses `ast->text` into `ast`'s nodes.  Names are not looked up but for macros and their
/// variables.  False = one fault was appended: what follows a syntax error would be guesswork.
bool ParseInto(Ast* ast, std::vector<Fault>* faults);

}  // namespace headworks::expr::internal
