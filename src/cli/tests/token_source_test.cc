#include "token_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace headworks::cli {
namespace {

class TokenSourceTest : public testing::Test {
 protected:
  TokenSourceTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "token-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~TokenSourceTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  static std::string FaultOf(const std::string& file) {
    const Status checked = TokenSource(file, "of the environment").Check();
    EXPECT_FALSE(checked);
    return checked ? "" : checked.error().message;
  }

  std::string folder_;
};

TEST_F(TokenSourceTest, IsTheFirstLineOfItsFile) {
  for (const char* text : {"secret", "secret\n", "secret \r\nnot this\n"}) {
    TokenSource source(Write("t", text), "of the environment");
    ASSERT_TRUE(source.Check());
    EXPECT_EQ(source.Get(), "secret");
  }
  TokenSource without("", "of the environment");
  ASSERT_TRUE(without.Check());
  EXPECT_EQ(without.Get(), "of the environment");
}

TEST_F(TokenSourceTest, AFileThatHoldsNoneIsNamed) {
  EXPECT_EQ(FaultOf(Write("empty", "")),
            folder_ + "/empty holds no worker token in its first line; check --token-file");
  EXPECT_EQ(FaultOf(Write("blank", " \nsecret")),
            folder_ + "/blank holds no worker token in its first line; check --token-file");
  EXPECT_EQ(FaultOf(folder_ + "/none"),
            folder_ + "/none cannot be read (No such file or directory); check --token-file");
  EXPECT_EQ(FaultOf(folder_), folder_ + " cannot be read (Is a directory); check --token-file");
  // Of one without end no more is read than a token has.
  EXPECT_EQ(FaultOf("/dev/zero"),
            "/dev/zero holds no worker token in its first line; check --token-file");
  EXPECT_TRUE(TokenSource(Write("longest", std::string(8'192, 't') + "\n"), "").Check());
  EXPECT_NE(FaultOf(Write("longer", std::string(8'193, 't'))).find("holds no"), std::string::npos);
  EXPECT_NE(TokenSource("", "").Check().error().message.find("give --token-file"),
            std::string::npos);
}

TEST_F(TokenSourceTest, AFileThatWasReplacedIsReadAtTheNextCall) {
  const std::string file = Write("t", "old\n");
  TokenSource source(file, "");
  ASSERT_TRUE(source.Check());
  EXPECT_EQ(source.Get(), "old");
  std::filesystem::rename(Write("t2", "new\n"), file);
  EXPECT_EQ(source.Get(), "new");
  Write("t", "longer\n");
  EXPECT_EQ(source.Get(), "longer");
  // While it is being replaced.
  Write("t", "");
  EXPECT_EQ(source.Get(), "longer");
  std::filesystem::remove(file);
  EXPECT_EQ(source.Get(), "longer");
  Write("t", "last\n");
  EXPECT_EQ(source.Get(), "last");
}

}  // namespace
}  // namespace headworks::cli
