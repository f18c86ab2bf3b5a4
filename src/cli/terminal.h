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
  bool screen = false;       // somebody looks at it: no file, no pipe
  bool interactive = false;  // can be redrawn in place
  bool color = false;
  bool utf8 = false;

  /// `environment` as in SettingSources.
  static Terminal Of(std::FILE* stream, ColorMode mode,
                     const std::function<const char*(const char*)>& environment);

  std::string Paint(model::TaskState state, std::string_view text) const;
  std::string Paint(model::RunState state, std::string_view text) const;
  std::string Dim(std::string_view text) const;
  /// What others wrote, a task's output for one: valid UTF-8, and on a screen ForScreen.
  std::string Foreign(std::string_view bytes) const;
};

/// Bytes of the character that `text` begins with, if it is one that acts on a screen and is no
/// ASCII: U+0080 to U+009F, or one that turns the direction of text (Unicode's Bidi_Control).
std::size_t ControlLength(std::string_view text);
/// Text that does nothing to a screen but be read: escape sequences and a last "\r" are dropped,
/// other control characters become visible ("^H", U+FFFD); tabs and newlines stay.
std::string ForScreen(std::string_view bytes);

/// ForScreen of one statement, wherever it goes: what follows on further lines is indented, so that
/// it cannot be taken for another one.
std::string InOneParagraph(std::string_view bytes);

struct TerminalSize {
  std::size_t rows;
  std::size_t columns;
};
/// As it is now; 24 by 80 where it cannot be told.
TerminalSize SizeOf(std::FILE* stream);

}  // namespace headworks::cli
