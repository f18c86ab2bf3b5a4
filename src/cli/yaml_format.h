#pragma once

#include <string>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks::cli {

/// A workflow file in the usual shape: two spaces a level, keys in the order of the reference page,
/// at most one blank line in a row, none at either end, no blanks at line ends.  Only whole lines
/// move and only their indentation changes, so comments stay, each with the key below it; texts,
/// flow collections and what is not known are left as they are.
///
/// `reorder`: whether keys are moved.  kInvalidArgument: it is not YAML.  The caller compares what
/// both mean.
Result<std::string> FormatYaml(std::string_view text, bool reorder);

}  // namespace headworks::cli
