#include "output.h"

#include <gtest/gtest.h>

#include "completion.h"

namespace headworks::cli {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({"TASK", "STATE"});
  table.AddRow({"a", "running"});
  table.AddRow({"größte", "-"});
  EXPECT_EQ(table.Render(),
            "TASK    STATE\n"
            "a       running\n"
            "größte  -\n");
}

TEST(FitToWidth, KeepsWhatFitsAndMarksWhatIsCut) {
  EXPECT_EQ(FitToWidth("abc", 3), "abc");
  EXPECT_EQ(FitToWidth("abcd", 3), "ab…");
  EXPECT_EQ(FitToWidth("äöü", 3), "äöü");
  EXPECT_EQ(FitToWidth("äöüx", 3), "äö…");
  EXPECT_EQ(FitToWidth("abc", 0), "");
  EXPECT_EQ(FitToWidth("", 0), "");
}

TEST(FitToWidth, ControlCharactersReachNoScreen) {
  EXPECT_EQ(FitToWidth("a\x1b[2Jb\tc\n", 20), "a [2Jb c ");
}

CommandNode Tree() {
  return {.name = "headworks",
          .description = "",
          .options = {"--store", "-o"},
          .commands = {
              {.name = "runs",
               .description = "List runs",
               .options = {"--help"},
               .commands = {
                   {.name = "list", .description = "don't hide any", .options = {"--state"}}}}}};
}

TEST(Completion, BashKnowsEveryPathAndTheInheritedOptions) {
  const std::string script = BashCompletion(Tree());
  EXPECT_NE(script.find(R"("") words="--store -o runs --store -o")"), std::string::npos) << script;
  EXPECT_NE(script.find(R"(" runs") words="--store -o list --help")"), std::string::npos);
  EXPECT_NE(script.find(R"(" runs list") words="--store -o --state")"), std::string::npos);
}

TEST(Completion, FishQuotesDescriptions) {
  EXPECT_NE(FishCompletion(Tree()).find("-a list -d 'don t hide any'"), std::string::npos);
}

}  // namespace
}  // namespace headworks::cli
