#include "yaml_format.h"

#include <gtest/gtest.h>

namespace headworks::cli {
namespace {

std::string Format(std::string_view text, bool reorder = true) {
  auto formatted = FormatYaml(text, reorder);
  EXPECT_TRUE(formatted) << formatted.error().message;
  if (!formatted) return {};
  EXPECT_EQ(*FormatYaml(*formatted, reorder), *formatted) << "a second time changes nothing";
  return *formatted;
}

TEST(FormatYaml, KeysMoveWithTheirCommentsAndIndentationIsTwo) {
  EXPECT_EQ(Format("# The file.\n"
                   "\n"
                   "tasks:\n"
                   "    # First.\n"
                   "    a:\n"
                   "        run: echo a   # said\n"
                   "        # Nothing before it.\n"
                   "        needs: [b]\n"
                   "    b: {run: x}\n"
                   "\n\n\n"
                   "# Which language.\n"
                   "version: 1\n"
                   "name: n   \n\n"),
            "# The file.\n"
            "\n"
            "# Which language.\n"
            "version: 1\n"
            "name: n\n"
            "\n"
            "tasks:\n"
            "  # First.\n"
            "  a:\n"
            "    # Nothing before it.\n"
            "    needs: [b]\n"
            "    run: echo a   # said\n"
            "  b: {run: x}\n");
}

TEST(FormatYaml, TextsKeepTheirInside) {
  EXPECT_EQ(Format("version: 1\n"
                   "tasks:\n"
                   "   a:\n"
                   "      run: |\n"
                   "           if x; then\n"
                   "             y\n"
                   "\n"
                   "\n"
                   "           fi  # in the script\n"
                   "      # of the task\n"
                   "      cwd: /\n"),
            "version: 1\n"
            "tasks:\n"
            "  a:\n"
            "    run: |\n"
            "      if x; then\n"
            "        y\n"
            "\n"
            "\n"
            "      fi  # in the script\n"
            "    # of the task\n"
            "    cwd: /\n");
}

TEST(FormatYaml, CommentsAtTheEndStayWithWhatTheySpeakOf) {
  EXPECT_EQ(Format("tasks:\n    a:\n        run: |\n            x\n        # of a\n"
                   "    # of the tasks\n\n# of the file\n"),
            "tasks:\n  a:\n    run: |\n      x\n    # of a\n  # of the tasks\n\n# of the file\n");
}

TEST(FormatYaml, CommentsBelowTheLastKeyStayThereWhenKeysMove) {
  EXPECT_EQ(Format("tasks:\n  a:\n    run: x\n    needs: b  # b first\n    # end of a\n"
                   "  b: {run: x}\n  # end of tasks\n\nversion: 1\n\n# end of file\n"),
            "version: 1\n\ntasks:\n  a:\n    needs: b  # b first\n    run: x\n    # end of a\n"
            "  b: {run: x}\n  # end of tasks\n\n# end of file\n");
}

TEST(FormatYaml, AllLinesEndAsTheFirstOneDoes) {
  EXPECT_EQ(Format("tasks:\r\n    a:\r\n        run: |\n            x\r\n\r\n            y\n"
                   "version: 1\r\n"),
            "version: 1\r\n\r\ntasks:\r\n  a:\r\n    run: |\r\n      x\r\n\r\n      y\r\n");
  EXPECT_EQ(Format("version: 1\ntasks: {a: {run: x}}\r\n"), "version: 1\ntasks: {a: {run: x}}\n");
}

TEST(FormatYaml, SequencesAndTheirInsideMoveAsAWhole) {
  EXPECT_EQ(Format("tasks:\n  a:\n    exec:\n    - echo\n    # why\n    - x\n    needs:\n"
                   "        - b\n        - c\n"),
            "tasks:\n  a:\n    needs:\n      - b\n      - c\n    exec:\n      - echo\n"
            "      # why\n      - x\n");
}

TEST(FormatYaml, FlowStyleJsonAndWhatIsNotKnownStays) {
  EXPECT_EQ(Format("{\"version\": 1,\n  \"tasks\": {}}\n"), "{\"version\": 1,\n  \"tasks\": {}}\n");
  EXPECT_EQ(Format("tasks:\n  a:\n    env: {A: 1,\n          B: 2}\n    zz: 1\n    run: x\n"),
            "tasks:\n  a:\n    run: x\n    env: {A: 1,\n          B: 2}\n    zz: 1\n");
  EXPECT_EQ(Format("tasks: {}\nversion: 1\n", false), "tasks: {}\nversion: 1\n");
}

TEST(FormatYaml, AnchorsComeBeforeWhatRefersToThem) {
  const std::string text =
      "version: 1\nx-common: &c\n  cwd: /\ntasks:\n  a:\n    <<: *c\n    run: x\n";
  EXPECT_EQ(Format(text),
            "x-common: &c\n  cwd: /\nversion: 1\n\ntasks:\n  a:\n"
            "    <<: *c\n    run: x\n");
  EXPECT_FALSE(FormatYaml("a: [", true));
}

}  // namespace
}  // namespace headworks::cli
