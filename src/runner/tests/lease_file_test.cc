#include "lease_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace headworks {
namespace {

using namespace std::chrono_literals;

class LeaseFileTest : public testing::Test {
 protected:
  LeaseFileTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "lease-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    path_ = folder + "/db-worker-lease";
  }
  ~LeaseFileTest() override {
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }

  std::string path_;
};

TEST_F(LeaseFileTest, WhatIsSetIsThereForTheNext) {
  EXPECT_EQ(*LeaseFile(path_).Longest(), 0s);
  EXPECT_TRUE(LeaseFile(path_).SetLongest(24h));
  EXPECT_EQ(*LeaseFile(path_).Longest(), 24h);
  EXPECT_TRUE(LeaseFile(path_).SetLongest(100ms));
  EXPECT_EQ(*LeaseFile(path_).Longest(), 100ms);
}

TEST_F(LeaseFileTest, WhatIsNoDurationIsToldWithTheFile) {
  for (const char* text : {"", "60", "60s\n", "-1\n", "99999999999999999999\n", "1\n2\n"}) {
    std::ofstream(path_) << text;
    const auto longest = LeaseFile(path_).Longest();
    ASSERT_FALSE(longest) << text;
    EXPECT_EQ(longest.error().code, Code::kCorrupt);
    EXPECT_NE(longest.error().message.find(path_), std::string::npos);
  }
}

TEST_F(LeaseFileTest, WhatCannotBeWrittenIsAnErrorThatNamesTheFile) {
  EXPECT_TRUE(LeaseFile(path_).SetLongest(30s));
  const std::string below_a_file = path_ + "/db-worker-lease";
  const auto written = LeaseFile(below_a_file).SetLongest(60s);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kUnavailable);
  EXPECT_NE(written.error().message.find(below_a_file), std::string::npos);
}

}  // namespace
}  // namespace headworks
