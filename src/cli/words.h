#pragma once

#include <span>
#include <string_view>

namespace headworks::cli {

/// A word that `runs show` and `runs why` use: a reason, or a state.
struct Word {
  std::string_view word;
  /// What it means, whether it costs a try, and what to do.
  std::string_view text;
};

/// All of them, ascending.
std::span<const Word> Words();

}  // namespace headworks::cli
