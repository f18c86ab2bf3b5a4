#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headworks::spec {

/// One thing that is wrong in a file, told so that it can be mended.
struct Fault {
  /// Stable, e.g. "HW1006"; `Explain` says more.
  std::string_view code;
  /// As the user named it.
  std::string file;
  /// 1-based; the column counts characters.  0 = the file as a whole.
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  /// What is wrong and what to do.
  std::string message;
  /// That line of the file (a window of it if it is long), and below it a caret.  Empty = none.
  std::string excerpt;

  /// "file:line:column: CODE message", then the excerpt.  No line break at the end.
  std::string ToString() const;

  bool operator==(const Fault&) const = default;
};

/// What `headworks explain CODE` prints.
struct Explanation {
  std::string_view code;
  /// A few words.
  std::string_view title;
  /// Why it is refused, an example, and how to mend it.
  std::string_view text;
};

/// The explanation of `code` (in any case); nullptr = there is no such code.
const Explanation* Explain(std::string_view code);
/// All of them, ascending by code.
std::vector<const Explanation*> Explanations();

}  // namespace headworks::spec
