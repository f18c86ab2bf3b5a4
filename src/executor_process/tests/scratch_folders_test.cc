#include "scratch_folders.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/harness.h"

namespace headworks::executor_process {
namespace {

namespace fs = std::filesystem;

class ScratchFoldersTest : public ::testing::Test {
 protected:
  void Take(const std::string& run) {
    ASSERT_TRUE(folders_.Take(RunId(run)));
    EXPECT_TRUE(fs::is_directory(Of(run)));
  }
  void Release(const std::string& run) { folders_.Release(RunId(run)); }
  void Use(const std::string& run) {
    Take(run);
    Release(run);
  }
  std::string Of(const std::string& run) const { return folders_.PathOf(RunId(run)); }
  ino_t Inode(const std::string& run) const {
    struct stat status{};
    EXPECT_EQ(stat(Of(run).c_str(), &status), 0);
    return status.st_ino;
  }

  testing::TemporaryFolder folder_;
  ScratchFolders folders_{folder_.path(), 2};
};

TEST_F(ScratchFoldersTest, AnEmptyFolderOfAnIdleRunIsUsedAgain) {
  Use("a");
  const ino_t first = Inode("a");
  Use("b");
  EXPECT_TRUE(fs::exists(Of("a")));
  Use("c");  // the bound is reached: the longest idle gives its own
  EXPECT_FALSE(fs::exists(Of("a")));
  EXPECT_EQ(Inode("c"), first);
  Use("a");
  EXPECT_FALSE(fs::exists(Of("b")));
}

TEST_F(ScratchFoldersTest, WhatARunLeftStaysUntilItIsRemoved) {
  Use("a");
  std::ofstream(Of("a") + "/kept") << "x";
  for (const char* run : {"b", "c", "d", "e"}) Use(run);
  EXPECT_TRUE(fs::exists(Of("a") + "/kept"));
  Use("a");
  EXPECT_TRUE(fs::exists(Of("a") + "/kept"));
  EXPECT_TRUE(folders_.Remove(RunId("a")));
  EXPECT_FALSE(fs::exists(Of("a")));
  EXPECT_TRUE(folders_.Remove(RunId("a")));
}

TEST_F(ScratchFoldersTest, NothingIsTakenFromARunWithALivingTask) {
  Take("a");
  Take("a");
  Release("a");
  for (const char* run : {"b", "c", "d", "e"}) Use(run);
  EXPECT_TRUE(fs::exists(Of("a")));
  Release("a");
  for (const char* run : {"f", "g", "h"}) Use(run);
  EXPECT_FALSE(fs::exists(Of("a")));
}

TEST_F(ScratchFoldersTest, AFolderThatATaskChangedIsNoOneElses) {
  Use("a");
  fs::permissions(Of("a"), fs::perms::all);
  for (const char* run : {"b", "c"}) Use(run);
  EXPECT_TRUE(fs::exists(Of("a")));
  EXPECT_EQ(fs::status(Of("c")).permissions(), fs::perms::owner_all);
}

TEST_F(ScratchFoldersTest, OneThatATaskRemovedIsMadeAgain) {
  Take("a");
  fs::remove(Of("a"));
  Release("a");
  Use("a");
  fs::remove(Of("a"));
  for (const char* run : {"b", "c"}) Use(run);
}

TEST_F(ScratchFoldersTest, WhatAnEarlierEngineLeftIsKept) {
  fs::create_directory(Of("c"));
  std::ofstream(Of("c") + "/kept") << "x";
  for (const char* run : {"a", "b", "c"}) Use(run);
  EXPECT_TRUE(fs::exists(Of("c") + "/kept"));
}

TEST_F(ScratchFoldersTest, SaysWhatCannotBeMade) {
  std::ofstream(folder_.path() + "/file") << "";
  ScratchFolders nowhere(folder_.path() + "/file");
  const Status refused = nowhere.Take(RunId("a"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("/file/a"), std::string::npos);
}

}  // namespace
}  // namespace headworks::executor_process
