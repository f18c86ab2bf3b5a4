#pragma once

#include <string>
#include <string_view>

namespace headworks::spec {

/// `line` of YAML, without its indentation, with quotes around the value of its key or list entry.
/// Empty if that mends nothing (there are quotes, brackets or a block, or no ': ' or ' #' in it),
/// or if it is too long to show.
std::string WithQuotes(std::string_view line);

/// The same with quotes around each text with ${{ }} within brackets.
std::string WithQuotesInBrackets(std::string_view line);

}  // namespace headworks::spec
