#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headworks/runner/runner.h"
#include "headworks/store_sqlite/sqlite_store.h"

// An engine whose store somebody else has taken: it says so to whoever asks, and waits for nothing.
namespace headworks {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class FencedTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headworks-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.database_url = "sqlite:" + Path();
    options_.lease_ttl = 300ms;
    options_.drain_timeout = 0s;
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
  }
  void TearDown() override {
    runner_.reset();
    fs::remove_all(folder_);
  }
  std::string Path() const { return folder_ / "hw.db"; }
  /// As another engine that cannot see the lock: somebody has removed its file.
  void TakeOver() {
    fs::remove(Path() + ".lock");
    auto other = store_sqlite::Open(Path(), {});
    ASSERT_TRUE(other) << other.error().message;
    other_ = *std::move(other);
    std::vector<Shard> shards;
    shards.reserve(kShardCount);
    for (int shard = 0; shard < kShardCount; ++shard) shards.emplace_back(shard);
    const auto taken = other_->runs().Acquire(shards, "other", 1h);
    ASSERT_TRUE(taken) << taken.error().message;
  }

  fs::path folder_;
  RunnerOptions options_;
  std::unique_ptr<store_sqlite::Database> other_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(FencedTest, WhoWaitsForARunIsToldThatTheEngineHasStopped) {
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.base_dir = folder_;
  definition.tasks.push_back(
      {.id = "t", .action = model::ShellAction{.script = "sleep 300", .shell = {}}});
  const auto workflow = model::Workflow::Create(definition);
  ASSERT_TRUE(workflow) << workflow.error().message;
  ASSERT_TRUE(runner_->Register(*workflow));
  const auto run = runner_->Start("w");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(runner_->CheckEngine());
  TakeOver();
  const auto ended = run->Wait(60s);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kLeaseLost);
  EXPECT_NE(ended.error().message.find(Path()), std::string::npos) << ended.error().message;
  EXPECT_EQ(runner_->CheckEngine().error().code, Code::kLeaseLost);
  EXPECT_TRUE(runner_->Shutdown()) << "nothing is written any more, and nothing waited for";
}

TEST_F(FencedTest, WhoIsAttachedHasNoEngineThatCouldStop) {
  const auto attached = Runner::Attach(options_);
  ASSERT_TRUE(attached) << attached.error().message;
  TakeOver();
  EXPECT_TRUE((*attached)->CheckEngine());
}

}  // namespace
}  // namespace headworks
