#pragma once

#include <vector>

#include "ast.h"
#include "headworks/expr/environment.h"
#include "headworks/expr/fault.h"

namespace headworks::expr::internal {

/// Resolves the names of a parsed expression, finds its type and its references, and compiles
/// constant patterns.  Appends all faults, by offset; without any the expression can be evaluated.
/// With faults it can be too: what is wrong then fails when it is reached.
void Check(Ast* ast, const Environment& environment, std::vector<Fault>* faults);

}  // namespace headworks::expr::internal
