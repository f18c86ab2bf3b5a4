#include <unistd.h>

#include <atomic>

#include "tests/harness.h"

// A log store that fails: for a while nothing is lost, after it verdicts go on without their lines.
namespace headworks::executor_process::testing {
namespace {

using namespace std::chrono_literals;

class FailingLogStore final : public log_store::LogStore {
 public:
  Status Append(std::span<const log_store::Batch> batches) override {
    ++appends;
    for (const auto& batch : batches)
      if (full && batch.attempt.epoch.value == 1) {
        ++refusals;
        return Error{Code::kAtCapacity, "no room for lines of this attempt"};
      }
    if (failures > 0) {
      --failures;
      return Error{Code::kUnavailable, "no space left on device"};
    }
    return inner->Append(batches);
  }
  Result<log_store::Page> Read(const log_store::Query& query) override {
    return inner->Read(query);
  }
  Result<log_store::Page> Tail(const log_store::Query& query) override {
    return inner->Tail(query);
  }
  Status DeleteRun(const TenantId& tenant, RunNo run) override {
    return inner->DeleteRun(tenant, run);
  }

  std::unique_ptr<log_store::LogStore> inner = log_store::NewMemoryLogStore();
  std::atomic<int> failures = 0;
  /// There is no room for what the first attempt prints.
  std::atomic<bool> full = false;
  std::atomic<int> appends = 0, refusals = 0;
};

class LogOutage : public ExecutorTest {
 protected:
  void SetUp() override {
    auto failing = std::make_unique<FailingLogStore>();
    failing_ = failing.get();
    logs_ = std::move(failing);
    Open();
  }
  FailingLogStore* failing_ = nullptr;
};

TEST_F(LogOutage, LinesWaitForTheStore) {
  failing_->failures = 5;
  const auto attempt = Next(Shell("echo a; echo b"));
  EXPECT_EQ(Run(attempt).verdict, model::Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), (std::vector<std::string>{"a", "b"}));
  EXPECT_GT(failing_->appends, 5);
}

TEST_F(LogOutage, AfterAWhileVerdictsGoOnWithoutThem) {
  failing_->failures = 1'000'000;
  const auto attempt = Next(Shell("echo lost"));
  EXPECT_EQ(Run(attempt).verdict, model::Verdict::kSucceeded);
  EXPECT_TRUE(Texts(attempt).empty());
  // From then on each is tried once.
  const int before = failing_->appends;
  EXPECT_EQ(Run(Shell("echo lost")).verdict, model::Verdict::kSucceeded);
  EXPECT_LE(failing_->appends, before + 4);
  failing_->failures = 0;
  const auto after = Next(Shell("echo kept"));
  EXPECT_EQ(Run(after).verdict, model::Verdict::kSucceeded);
  EXPECT_EQ(Texts(after), std::vector<std::string>{"kept"});
}

TEST_F(LogOutage, WhoFindsNoRoomWaitsAndTheOthersDoNot) {
  failing_->full = true;
  // More than a pipe holds: it cannot end before its lines are taken.
  const auto noisy =
      Next(Shell("echo first; head -c 1000000 /dev/zero | tr '\\0' x | fold -w 999; "
                 "echo; echo last; touch " +
                 folder_.path() + "/done"));
  ASSERT_EQ(executor_->Offer(noisy).disposition, model::Disposition::kDispatched);
  ASSERT_TRUE(sink_.AwaitStarted(noisy.key));
  for (int i = 0; i < 20; ++i) {
    const auto quiet = Next(Shell("echo fine"));
    EXPECT_EQ(Run(quiet).verdict, model::Verdict::kSucceeded);
    EXPECT_EQ(Texts(quiet), std::vector<std::string>{"fine"});
  }
  EXPECT_TRUE(Texts(noisy).empty());
  EXPECT_NE(access((folder_.path() + "/done").c_str(), F_OK), 0);
  failing_->full = false;
  EXPECT_EQ(sink_.Await(noisy.key).verdict, model::Verdict::kSucceeded);
  const auto lines = Lines(noisy);
  ASSERT_EQ(lines.size(), 1'004U);
  EXPECT_EQ(lines.front().bytes, "first");
  EXPECT_EQ(lines.back().bytes, "last");
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i].number, static_cast<std::int64_t>(i + 1));
}

TEST_F(LogOutage, WhatFoundNoRoomIsOfferedAgainNoMoreOftenForWhatOthersPrint) {
  failing_->full = true;
  const auto noisy = Next(Shell("echo first; exec sleep 600"));
  ASSERT_EQ(executor_->Offer(noisy).disposition, model::Disposition::kDispatched);
  ASSERT_TRUE(WaitUntil([&] { return failing_->refusals > 0; }));
  const Duration begin = clock_.Monotonic();
  const int before = failing_->refusals;
  EXPECT_EQ(Run(Shell("i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done")).verdict,
            model::Verdict::kSucceeded);
  const auto turns = (clock_.Monotonic() - begin) / 20ms;
  // With all others, and alone.
  EXPECT_LE(failing_->refusals - before, 2 * (turns + 1));
  failing_->full = false;
  executor_->Cancel(noisy.key);
  sink_.Await(noisy.key);
  EXPECT_EQ(Texts(noisy), std::vector<std::string>{"first"});
}

TEST_F(LogOutage, WhoFindsNoRoomCanBeStopped) {
  failing_->full = true;
  const auto noisy = Next(Shell("while :; do echo again; done"));
  ASSERT_EQ(executor_->Offer(noisy).disposition, model::Disposition::kDispatched);
  ASSERT_TRUE(sink_.AwaitStarted(noisy.key));
  executor_->Cancel(noisy.key);
  ASSERT_TRUE(WaitUntil([&] { return ProcessesWith("echo again").empty(); }));
  failing_->full = false;
  EXPECT_EQ(sink_.Await(noisy.key).verdict, model::Verdict::kCancelled);
}

}  // namespace
}  // namespace headworks::executor_process::testing
