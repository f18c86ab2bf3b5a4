#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_sqlite/admin.h"
#include "headworks/store_sqlite_testing/fault_vfs.h"
#include "tests/child.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

namespace headworks::store_sqlite {
namespace {

using store::conformance::kShard;
using store::conformance::kTenant;
using store::conformance::ManualClock;
using store::conformance::Message;

constexpr std::array kShards{kShard};

TEST(SqliteOwnership, SecondEngineIsRefusedAndToldWhoOwnsTheFile) {
  const ScratchFolder folder;
  const Child owner({"own", folder.File("db")});
  ASSERT_EQ(owner.answer(), "ok");
  const auto db = MustOpen(folder.File("db"));
  const auto refused = db->runs().Acquire(kShards, "me", std::chrono::seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  EXPECT_NE(refused.error().message.find(std::to_string(owner.pid())), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(host.data()), std::string::npos)
      << refused.error().message;
}

TEST(SqliteOwnership, AnotherNameOfTheFileMakesNoOtherEngine) {
  const ScratchFolder folder;
  std::filesystem::create_symlink("db", folder.File("link"));
  std::filesystem::create_directory_symlink(".", folder.File("here"));
  const Child owner({"own", folder.File("link")});  // before the file is there
  ASSERT_EQ(owner.answer(), "ok");
  for (const char* name : {"db", "link", "here/db", "here/link"}) {
    const auto db = MustOpen(folder.File(name));
    EXPECT_CODE(db->runs().Acquire(kShards, "me", std::chrono::seconds(10)), Code::kConflict)
        << name;
    EXPECT_NE(*LiveEngine(folder.File(name)), "") << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.File("link.lock")));
}

TEST(SqliteOwnership, AFileWithTwoNamesHasNoEngine) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  std::filesystem::create_hard_link(folder.File("db"), folder.File("other"));
  const auto refused = db->runs().Acquire(kShards, "me", std::chrono::seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("hard link"), std::string::npos);
  std::filesystem::remove(folder.File("other"));
  EXPECT_OK(db->runs().Acquire(kShards, "me", std::chrono::seconds(10)));
}

TEST(SqliteOwnership, AnyoneMayAskWhetherAnEngineLivesWithoutBeingInItsWay) {
  const ScratchFolder folder;
  EXPECT_CODE(LiveEngine(folder.File("db")), Code::kNotFound);
  const auto db = MustOpen(folder.File("db"));
  EXPECT_EQ(*LiveEngine(folder.File("db")), "");  // nobody ever was
  Child owner({"own", folder.File("db")});
  ASSERT_EQ(owner.answer(), "ok");
  EXPECT_NE(LiveEngine(folder.File("db"))->find(std::to_string(owner.pid())), std::string::npos);
  owner.Kill();
  EXPECT_EQ(*LiveEngine(folder.File("db")), "");  // the name is still in the file
  Engine engine(*db);
  EXPECT_OK(engine.Own());
  EXPECT_NE(LiveEngine(folder.File("db"))->find(std::to_string(getpid())), std::string::npos);
}

TEST(SqliteOwnership, OthersReadAndAppendWhileAnEngineRuns) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  const auto before = db->inbox().DataVersion();
  const Child owner({"own", folder.File("db")});
  ASSERT_EQ(owner.answer(), "ok");
  EXPECT_NE(*db->inbox().DataVersion(), *before);
  EXPECT_OK(db->query().GetRun(kTenant, "1"));
  EXPECT_OK(db->inbox().Append(std::array{Message("cancel", "k", RunNo(1))}));
}

TEST(SqliteOwnership, KilledOwnersShardsAreTakenAtOnceUnderAHigherTerm) {
  const ScratchFolder folder;
  Child owner({"own", folder.File("db")});
  ASSERT_EQ(owner.answer(), "ok");
  owner.Kill();
  const auto db = MustOpen(folder.File("db"));
  Engine engine(*db);
  EXPECT_OK(engine.Own());  // ten seconds of the child's lease are left
  EXPECT_EQ(engine.guard().term, Term(2));
  EXPECT_EQ(engine.guard().round, RoundNo(1));
  EXPECT_OK(db->query().GetRun(kTenant, "1"));
}

TEST(SqliteOwnership, TwoDatabasesInOneProcessAreTwoEngines) {
  const ScratchFolder folder;
  auto first = MustOpen(folder.File("db"));
  const auto second = MustOpen(folder.File("db"));
  EXPECT_OK(Engine(*first).Own("a"));
  EXPECT_CODE(Engine(*second).Own("a"), Code::kConflict);
  first.reset();
  EXPECT_OK(Engine(*second).Own("b"));
}

TEST(SqliteOwnership, LastReleaseFreesTheFile) {
  const ScratchFolder folder;
  const auto first = MustOpen(folder.File("db"));
  const auto second = MustOpen(folder.File("db"));
  const std::array both{Shard(1), Shard(2)};
  const auto guards = first->runs().Acquire(both, "a", std::chrono::seconds(10));
  ASSERT_TRUE(guards);
  EXPECT_OK(first->runs().Release(std::span(*guards).first(1)));
  EXPECT_CODE(Engine(*second).Own(), Code::kConflict);
  EXPECT_OK(first->runs().Release(std::span(*guards).last(1)));
  EXPECT_OK(Engine(*second).Own());
}

TEST(SqliteOwnership, RefusedAcquireKeepsNoLock) {
  const ScratchFolder folder;
  const auto first = MustOpen(folder.File("db"));
  const auto second = MustOpen(folder.File("db"));
  EXPECT_CODE(first->runs().Acquire(std::array{Shard(99)}, "a", std::chrono::seconds(1)),
              Code::kInvalidArgument);
  EXPECT_OK(Engine(*second).Own());
}

TEST(SqliteOwnership, ProcessesStartedByTheOwnerDoNotInheritTheLock) {
  const ScratchFolder folder;
  auto first = MustOpen(folder.File("db"));
  ASSERT_TRUE(Engine(*first).Own());
  const Child bystander({"wait"});
  first.reset();
  const auto second = MustOpen(folder.File("db"));
  EXPECT_OK(Engine(*second).Own());
}

TEST(SqliteOwnership, ClosingAnotherDescriptorOfTheLockFileLosesNothing) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  ASSERT_TRUE(Engine(*db).Own());
  const int fd = open(folder.File("db.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  close(fd);
  const Child second({"own", folder.File("db")});
  EXPECT_TRUE(second.answer().starts_with("conflict: ")) << second.answer();
}

TEST(SqliteOwnership, LeaseOfAnotherBootHasEnded) {
  // On a VFS of its own there is no lock, so that only the lease decides.
  FaultVfs vfs;
  ManualClock clock;
  const auto monday = MustOpen("db", {.clock = &clock, .vfs = vfs.name(), .boot_id = "monday"});
  const auto tuesday = MustOpen("db", {.clock = &clock, .vfs = vfs.name(), .boot_id = "tuesday"});
  EXPECT_OK(Engine(*monday).Own("a"));
  EXPECT_CODE(Engine(*monday).Own("b"), Code::kConflict);
  EXPECT_OK(Engine(*tuesday).Own("b"));
}

}  // namespace
}  // namespace headworks::store_sqlite
