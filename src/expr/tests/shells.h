#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/expr/environment.h"
#include "headworks/expr/shell_template.h"

/// Scripts in the shells themselves.
namespace headworks::expr {

/// Its path.
std::string Program(Shell shell);
/// What `script` prints when it really runs in `folder`, which is on its PATH, with the environment
/// bound; "[failed]" behind it if it ends with another code than 0.
std::string Run(Shell shell, const std::string& script,
                const std::vector<std::pair<std::string, std::string>>& bound,
                const std::string& folder = "/");
/// v: string, w: any.
Environment Declared();
/// The output of `script` with v = `value`; or its faults.
std::string Output(Shell shell, std::string_view script, std::string_view value);
/// Why an expression of `script` is refused, without what to do instead; empty = it is not.
std::string Refusal(Shell shell, std::string_view script);

}  // namespace headworks::expr
