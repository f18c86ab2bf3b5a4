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
  EXPECT_EQ(FitToWidth("a\u202Egpj.exe\u0085", 20), "a gpj.exe ");
}

CommandNode Tree() {
  const OptionNode store{.name = "--store", .description = "Where", .takes_value = true};
  const OptionNode format{
      .name = "-o", .description = "How", .takes_value = true, .values = {"table", "json"}};
  const OptionNode help{.name = "--help", .description = ""};
  const OptionNode state{.name = "--state", .description = "", .takes_value = true};
  CommandNode list{.name = "list", .description = "don't hide any", .options = {state}};
  CommandNode runs{.name = "runs", .description = "List runs", .options = {help}};
  runs.commands.push_back(std::move(list));
  CommandNode root{.name = "headworks", .description = "", .options = {store, format}};
  root.commands.push_back(std::move(runs));
  return root;
}

TEST(Completion, BashKnowsEveryPathTheInheritedOptionsAndTheirValues) {
  const std::string script = BashCompletion(Tree());
  for (const char* line :
       {R"("") words="runs --store -o")", R"(" runs") words="list --store -o --help")",
        R"(" runs list") words="--store -o --state")", R"(*" -o") words="table json")",
        R"(" runs list"" --state") words="")"})
    EXPECT_NE(script.find(line), std::string::npos) << line << script;
}

TEST(Completion, DescriptionsAreOneQuotedWord) {
  EXPECT_NE(FishCompletion(Tree()).find("-a list -d 'don’t hide any'"), std::string::npos);
  EXPECT_NE(ZshCompletion(Tree()).find("'list:don’t hide any'"), std::string::npos);
}

}  // namespace
}  // namespace headworks::cli
