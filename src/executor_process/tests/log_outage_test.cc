#include <atomic>

#include "tests/harness.h"

// A log store that fails: for a while nothing is lost, after it verdicts go on without their lines.
namespace headworks::executor_process::testing {
namespace {

class FailingLogStore final : public log_store::LogStore {
 public:
  Status Append(std::span<const log_store::Batch> batches) override {
    ++appends;
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
  std::atomic<int> appends = 0;
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

}  // namespace
}  // namespace headworks::executor_process::testing
