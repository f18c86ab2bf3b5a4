#include "env_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness.h"

namespace headworks::executor_process {
namespace {

Environment Parsed(std::string_view text) {
  Environment env;
  const Status parsed = ParseEnvFile(text, "f", env);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return env;
}

std::string Refused(std::string_view text) {
  Environment env;
  const Status parsed = ParseEnvFile(text, "f", env);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error().message;
}

TEST(EnvFile, TakesLinesAsShellsWriteThem) {
  EXPECT_EQ(Parsed("# a comment\n\n  A=1\n \t\n  # another"), (Environment{{"A", "1"}}));
  EXPECT_EQ(
      Parsed("A=1\r\nB= two words \nexport C=3\n\texport\tD=4\nE=\nexported=5"),
      (Environment{
          {"A", "1"}, {"B", "two words"}, {"C", "3"}, {"D", "4"}, {"E", ""}, {"exported", "5"}}));
  EXPECT_EQ(Parsed("\xef\xbb\xbf_a1=x=y\n"), (Environment{{"_a1", "x=y"}}));
  EXPECT_EQ(Parsed("A=1\nA=2\n"), (Environment{{"A", "2"}}));
}

TEST(EnvFile, ACommentNeedsABlankBeforeIt) {
  EXPECT_EQ(Parsed("A=x#y\nB=x #y\nC=x\t# y\nD=#\nE= #"),
            (Environment{{"A", "x#y"}, {"B", "x"}, {"C", "x"}, {"D", "#"}, {"E", "#"}}));
}

TEST(EnvFile, QuotesKeepWhatIsInThemAndNothingIsExpanded) {
  EXPECT_EQ(Parsed(R"(A='a "b" \n $HOME # c'  # note
B="a 'b' \" \\ \$x \n\t\r \q $HOME"
C=""
D=it's $HOME
)"),
            (Environment{{"A", R"(a "b" \n $HOME # c)"},
                         {"B", "a 'b' \" \\ $x \n\t\r \\q $HOME"},
                         {"C", ""},
                         {"D", "it's $HOME"}}));
}

TEST(EnvFile, ABadLineIsNamed) {
  EXPECT_EQ(Refused("A=1\n\nnonsense\n"), "env_file f:3: no NAME=value; a comment begins with #");
  EXPECT_NE(Refused("1A=x").find("f:1: '1A' is no name"), std::string::npos);
  EXPECT_NE(Refused("A =x").find("f:1: 'A ' is no name"), std::string::npos);
  EXPECT_NE(Refused("=x").find("f:1:"), std::string::npos);
  EXPECT_NE(Refused("export=x\nexport \n").find("f:2:"), std::string::npos);
  EXPECT_NE(Refused("A='x").find("not closed"), std::string::npos);
  EXPECT_NE(Refused("A=\"x\\\"").find("not closed"), std::string::npos);
  EXPECT_NE(Refused("A='x'y").find("follows the closing quote"), std::string::npos);
  EXPECT_NE(Refused("A='x'#y").find("follows the closing quote"), std::string::npos);
  EXPECT_NE(Refused(std::string_view("A=\0", 3)).find("NUL"), std::string::npos);
}

TEST(EnvFile, ItsSizeIsBounded) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/f";
  std::ofstream(path) << "A=" << std::string(kMaxEnvFileBytes - 2, 'x');
  Environment env;
  EXPECT_TRUE(ReadEnvFile(path, env));
  EXPECT_EQ(env["A"].size(), kMaxEnvFileBytes - 2);
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_NE(ReadEnvFile(path, env).error().message.find("1048576 bytes"), std::string::npos);
  EXPECT_EQ(ReadEnvFile(folder.path() + "/absent", env).error().code, Code::kNotFound);
  EXPECT_NE(ReadEnvFile(folder.path(), env).error().message.find("no regular file"),
            std::string::npos);
}

}  // namespace
}  // namespace headworks::executor_process
