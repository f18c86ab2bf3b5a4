#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "headworks/model/run.h"
#include "settings.h"

namespace headworks::cli {

/// What the screen behind a stream can do.
struct Terminal {
  bool interactive = false;  // can be redrawn in place
  bool color = false;
  bool utf8 = false;

  /// `environment` as in SettingSources.
  static Terminal Of(std::FILE* stream, ColorMode mode,
                     const std::function<const char*(const char*)>& environment);

  std::string Paint(model::TaskState state, std::string_view text) const;
  std::string Paint(model::RunState state, std::string_view text) const;
  std::string Dim(std::string_view text) const;
};

struct TerminalSize {
  std::size_t rows;
  std::size_t columns;
};
/// As it is now; 24 by 80 where it cannot be told.
TerminalSize SizeOf(std::FILE* stream);

}  // namespace headworks::cli
