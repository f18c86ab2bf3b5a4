#include "supervisor/cgroup.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/harness.h"

extern char** environ;

namespace headworks::supervisor {
namespace {

using executor_process::testing::Alive;
using executor_process::testing::WaitUntil;
using Places = std::vector<CgroupPlace>;

constexpr char kVersion2Mounts[] =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
    "rw,nsdelegate,memory_recursiveprot\n";
constexpr char kVersion1Mounts[] =
    "30 23 0:25 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n"
    "34 30 0:29 / /sys/fs/cgroup/freezer rw shared:12 - cgroup cgroup rw,freezer\n"
    "35 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:13 - cgroup cgroup rw,cpu,cpuacct\n"
    "36 30 0:31 / /sys/fs/cgroup/pids rw shared:14 - cgroup cgroup rw,pids\n";

TEST(CgroupPlaces, Version2Alone) {
  EXPECT_EQ(CgroupPlaces("0::/user.slice/user-1000.slice/session-1.scope\n", kVersion2Mounts),
            (Places{{2, "/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope"}}));
  EXPECT_EQ(CgroupPlaces("0::/\n", kVersion2Mounts), (Places{{2, "/sys/fs/cgroup"}}));
}

TEST(CgroupPlaces, Version1AloneTakesTheFreezerThenPids) {
  EXPECT_EQ(CgroupPlaces("12:pids:/user.slice\n5:cpu,cpuacct:/\n4:freezer:/\n"
                         "1:name=systemd:/user.slice\n",
                         kVersion1Mounts),
            (Places{{1, "/sys/fs/cgroup/freezer"}, {1, "/sys/fs/cgroup/pids/user.slice"}}));
}

TEST(CgroupPlaces, HybridPrefersVersion2) {
  const std::string mounts =
      std::string(kVersion1Mounts) +
      "31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(CgroupPlaces("4:freezer:/a\n0::/system.slice/x.service\n", mounts),
            (Places{{2, "/sys/fs/cgroup/unified/system.slice/x.service"},
                    {1, "/sys/fs/cgroup/freezer/a"}}));
}

TEST(CgroupPlaces, AMountOfAPartShowsOnlyWhatIsBelowIt) {
  const std::string mounts =
      "50 40 0:26 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
  EXPECT_EQ(CgroupPlaces("0::/docker/abc\n", mounts), (Places{{2, "/sys/fs/cgroup"}}));
  EXPECT_EQ(CgroupPlaces("0::/docker/abc/x\n", mounts), (Places{{2, "/sys/fs/cgroup/x"}}));
  EXPECT_EQ(CgroupPlaces("0::/docker/abcd\n", mounts), Places{});
  EXPECT_EQ(CgroupPlaces("0::/docker\n", mounts), Places{});
}

TEST(CgroupPlaces, WhatCannotBeSeenOrIsGoneIsNoPlace) {
  EXPECT_EQ(CgroupPlaces("0::/../../other\n", kVersion2Mounts), Places{});
  EXPECT_EQ(CgroupPlaces("0::/a (deleted)\n", kVersion2Mounts), Places{});
  EXPECT_EQ(CgroupPlaces("0::/a\n", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"), Places{});
  EXPECT_EQ(CgroupPlaces("", kVersion2Mounts), Places{});
  EXPECT_EQ(CgroupPlaces("no such text\n:::\n0:\n\n", "1 2\n - \n\nx - cgroup2\n"), Places{});
}

TEST(CgroupPlaces, NamesMayHoldWhatMountinfoEscapes) {
  EXPECT_EQ(CgroupPlaces("0::/a:b c\n", "1 2 3:4 / /mnt/my\\040groups\\134x rw - cgroup2 x rw\n"),
            (Places{{2, "/mnt/my groups\\x/a:b c"}}));
  EXPECT_EQ(CgroupPlaces("0::/\n", "1 2 3:4 / /mnt/a\\04 rw - cgroup2 x rw\n"),
            (Places{{2, "/mnt/a\\04"}}));
}

/// Every kind of group that this machine allows.
class GroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const CgroupPlace& place : CgroupPlaces()) {
      const std::string group = MakeGroup({place}, "test-" + std::to_string(getpid()));
      if (!group.empty()) groups_.push_back(group);
    }
    if (groups_.empty()) GTEST_SKIP() << "no control group can be made here";
  }
  void TearDown() override {
    for (const std::string& group : groups_) {
      KillGroup(group);
      RemoveGroup(group);
      EXPECT_FALSE(std::filesystem::exists(group));
    }
  }
  /// A process in `group`, with a child in a session of its own.
  static pid_t StartIn(const std::string& group) {
    std::string join = "echo $$ > " + group + "/cgroup.procs; setsid sleep 1000 & exec sleep 1000";
    std::string shell = "/bin/sh", c = "-c";
    char* argv[] = {shell.data(), c.data(), join.data(), nullptr};
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv, environ), 0);
    return pid;
  }
  std::vector<std::string> groups_;
};

TEST_F(GroupTest, BothWaysOfKillingEndAllThatIsInAGroupAndBelow) {
  for (const std::string& group : groups_) {
    for (const auto kill : {KillGroup, KillMembers}) {
      const std::string below = group + "/below";
      std::filesystem::create_directory(below);
      const pid_t one = StartIn(group), two = StartIn(below);
      ASSERT_TRUE(WaitUntil([&] { return GroupMembers(group).size() == 4; })) << group;
      EXPECT_EQ(GroupMembers(below).size(), 2U);
      RemoveGroup(group);
      EXPECT_EQ(GroupMembers(group).size(), 4U);
      ASSERT_TRUE(WaitUntil([&] {
        kill(group);
        return GroupMembers(group).empty();
      })) << group;
      for (const pid_t pid : {one, two}) {
        int status = 0;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
      }
    }
  }
}

TEST_F(GroupTest, WhatIsOutsideIsNotTouched) {
  for (const std::string& group : groups_) {
    const std::string other = MakeGroup({{.folder = std::filesystem::path(group).parent_path()}},
                                        "test2-" + std::to_string(getpid()));
    ASSERT_FALSE(other.empty());
    const pid_t outside = StartIn(other);
    ASSERT_TRUE(WaitUntil([&] { return GroupMembers(other).size() == 2; }));
    KillGroup(group);
    KillMembers(group);
    EXPECT_TRUE(Alive(outside));
    KillGroup(other);
    ASSERT_EQ(waitpid(outside, nullptr, 0), outside);
    ASSERT_TRUE(WaitUntil([&] { return GroupMembers(other).empty(); }));
    RemoveGroup(other);
  }
}

TEST(Cgroup, OnlyAStoresOwnGroupIsTakenForIt) {
  EXPECT_TRUE(IsGroupOf("/sys/fs/cgroup/a/headworks-id", "id"));
  EXPECT_FALSE(IsGroupOf("/sys/fs/cgroup/a/headworks-idx", "id"));
  EXPECT_FALSE(IsGroupOf("/sys/fs/cgroup/a", "id"));
  EXPECT_FALSE(IsGroupOf("", "id"));
}

}  // namespace
}  // namespace headworks::supervisor
