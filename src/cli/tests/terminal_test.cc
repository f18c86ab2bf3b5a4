#include "terminal.h"

#include <gtest/gtest.h>

namespace headworks::cli {
namespace {

TEST(ForScreen, PlainTextStaysAsItIs) {
  constexpr const char* kPlain[] = {"", "plain", "tab\tand\nnewline", "äß 漢 🙂 \xC2\xA0",
                                    "[31m ]0; ^["};
  for (const char* text : kPlain) EXPECT_EQ(ForScreen(text), text);
}

TEST(ForScreen, EscapeSequencesAreDropped) {
  EXPECT_EQ(ForScreen("\x1b[1;31mred\x1b[0m, \x1b[2J\x1b[?25lgone"), "red, gone");
  EXPECT_EQ(ForScreen("\x1b]0;title\aa\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "alink");
  EXPECT_EQ(ForScreen("\x1bPq#0\x1b\\sixel"), "sixel");
}

TEST(ForScreen, OtherControlCharactersAreShown) {
  EXPECT_EQ(ForScreen("50%\r100%\b\x7F\r"), "50%^M100%^H^?") << "the last return ends the line";
  EXPECT_EQ(ForScreen(std::string_view("\0\x1b", 2)), "^@^[");
  EXPECT_EQ(ForScreen("\x1b"
                      "c \x1b[31"),
            "^[c ^[[31")
      << "incomplete, or of another kind";
  EXPECT_EQ(ForScreen("\x1b]0;never ended"), "^[]0;never ended");
  EXPECT_EQ(ForScreen("\xC2\x9B"
                      "31m\xFF"),
            "\xEF\xBF\xBD"
            "31m\xEF\xBF\xBD");
}

TEST(ForScreen, NothingTurnsTheDirectionOfText) {
  for (const char* turn : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"})
    EXPECT_EQ(ForScreen(std::string("a") + turn + "b"), "a\uFFFDb");
  for (const char* other :
       {"\u061B", "\u061D", "\u200D", "\u2010", "\u2029", "\u202F", "\u2065", "\u206A"})
    EXPECT_EQ(ForScreen(other), other);
  EXPECT_EQ(ControlLength("\xE2\x80"), 0U) << "cut off";
}

}  // namespace
}  // namespace headworks::cli
