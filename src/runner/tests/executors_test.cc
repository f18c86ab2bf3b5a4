#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "headworks/author/author.h"
#include "headworks/executor/executor.h"
#include "headworks/runner/runner.h"

// Which executors a runner uses, and how it gets attempts there.
namespace headworks {
namespace {

using executor::Attempt;
using namespace std::chrono_literals;

/// Ends what it takes at once, but takes nothing until it is opened: a platform that hangs.
class Door final : public executor::Executor {
 public:
  std::string_view Name() const override { return "door"; }
  Status Start(executor::AttemptSink& sink) override {
    sink_ = &sink;
    return {};
  }
  executor::OfferResult Offer(const Attempt& attempt) override {
    std::unique_lock lock(mutex_);
    ++knocks_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    const bool first = taken_.insert(attempt.key).second;
    lock.unlock();
    if (first) sink_->Ended(attempt.key, {.output = R"({"door":1})"});
    return {};
  }
  void Cancel(const model::AttemptKey&) override {}
  executor::Capacity GetCapacity() const override { return {100, 0}; }
  Result<std::vector<executor::Inspection>> Inspect(std::span<const Attempt> attempts) override {
    const std::scoped_lock lock(mutex_);
    std::vector<executor::Inspection> answers;
    for (const Attempt& attempt : attempts)
      answers.push_back(taken_.contains(attempt.key) ? executor::Inspection(executor::Ended{})
                                                     : executor::Inspection(executor::Absent{}));
    return answers;
  }
  std::vector<model::AttemptKey> List() const override { return {}; }
  executor::Metrics GetMetrics() const override { return {.active = 0, .max = 100}; }
  void Settled(std::span<const model::AttemptKey>) override {}
  Status Drain(Duration) override {
    Open();  // the runner waits for calls that were abandoned
    return {};
  }

  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool AwaitKnocks(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return knocks_ >= count; });
  }
  int knocks() const {
    const std::scoped_lock lock(mutex_);
    return knocks_;
  }

 private:
  executor::AttemptSink* sink_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int knocks_ = 0;
  std::set<model::AttemptKey> taken_;
};

class ExecutorsTest : public testing::Test {
 protected:
  ExecutorsTest() {
    options_.database_url = "memory:";
    options_.registry = &registry_;
    options_.drain_timeout = 0s;
    options_.executors["door"] = &door_;
    options_.command_executor = "door";
    EXPECT_TRUE(registry_.Register(FunctionName::Parse("f").value(), MakeTask([] {}), "test"));
  }
  ~ExecutorsTest() override {
    door_.Open();
    runner_.reset();
  }
  void Open() {
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
    WorkflowBuilder functions("functions");
    functions.Task("f").Function("f");
    ASSERT_TRUE(runner_->Register(*functions.Build()));
    WorkflowBuilder commands("commands");
    for (const char* task : {"a", "b", "c", "d", "e"}) commands.Task(task).Exec({"knock"});
    ASSERT_TRUE(runner_->Register(*commands.Build()));
  }
  void ExpectRefused(Code code, std::string_view message) {
    const auto opened = Runner::Open(options_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, code);
    EXPECT_EQ(opened.error().message, message);
  }
  std::string Health(std::string_view name) {
    for (const auto& service : runner_->Health())
      if (service.name == name) return service.detail;
    return "no such service";
  }

  TaskRegistry registry_;
  Door door_, spare_;
  RunnerOptions options_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(ExecutorsTest, OneOfOnesOwnTakesWhatItIsNamedFor) {
  door_.Open();
  Open();
  const auto handle = runner_->Start("commands");
  ASSERT_TRUE(handle) << handle.error().message;
  EXPECT_EQ(handle->Wait(30s)->state, model::RunState::kSucceeded);
  EXPECT_EQ(handle->Output("a").value(), R"({"door":1})");
  EXPECT_EQ(door_.knocks(), 5);
  EXPECT_EQ(runner_->Execute("functions")->state, model::RunState::kSucceeded);
  EXPECT_EQ(door_.knocks(), 5) << "functions go to the inline executor";
  EXPECT_EQ(Health("door"), "0 active, 100 at most");
  EXPECT_EQ(Health("dispatch").find("0 waiting (0 at most), 0 times full, 6 answered, 0 rejected"),
            0U)
      << Health("dispatch");
}

TEST_F(ExecutorsTest, AnUnknownKeyIsRefusedWithTheKnownOnes) {
  options_.function_executor = "dor";
  ExpectRefused(Code::kInvalidArgument,
                "no executor is called 'dor'; known: inline, process, door");
}

TEST_F(ExecutorsTest, AKeyIsTakenOnceAndNamesSomething) {
  options_.executors["process"] = &door_;
  ExpectRefused(Code::kConflict, "an executor 'process' is registered already");
  options_.executors = {{"door", nullptr}};
  ExpectRefused(Code::kInvalidArgument, "RunnerOptions::executors: 'door' is nullptr");
}

TEST_F(ExecutorsTest, OneThatNoTaskGoesToIsRefused) {
  options_.executors["spare"] = &spare_;
  ExpectRefused(Code::kInvalidArgument,
                "RunnerOptions::executors: no task goes to 'spare', because function_executor is "
                "'inline' and command_executor is 'door'; name it there or leave it out");
  options_.function_executor = "spare";
  Open();
  EXPECT_EQ(Health("spare"), "0 active, 100 at most");
  EXPECT_EQ(Health("inline"), "no such service") << "nothing goes there, so it was not started";
}

TEST_F(ExecutorsTest, BufferSizesAreBounded) {
  options_.dispatch_buffer_size = 1'000'001;
  ExpectRefused(Code::kInvalidArgument, "dispatch buffer: buffer_size is 1000001; at most 1000000");
  options_.dispatch_buffer_size = 1;
  options_.dispatch_workers = 1'025;
  ExpectRefused(Code::kInvalidArgument, "dispatch buffer: workers is 1025; at most 1024");
}

TEST_F(ExecutorsTest, BehindABufferAHangingExecutorHoldsUpNoOtherAndShutdownSaysWhatItLeft) {
  options_.dispatch_buffer_size = 2;
  options_.dispatch_workers = 2;
  options_.dispatch_drain_timeout = 10ms;
  Open();
  const auto hanging = runner_->Start("commands");
  ASSERT_TRUE(hanging);
  ASSERT_TRUE(door_.AwaitKnocks(2));
  // Two are being offered, two wait, and the fifth is deferred.
  EXPECT_EQ(door_.knocks(), 2);
  const auto shut = runner_->Shutdown();
  ASSERT_FALSE(shut);
  EXPECT_EQ(shut.error().code, Code::kDrainTimeout);
  EXPECT_EQ(shut.error().message.find("2 attempts are still on their way to an executor: "), 0U)
      << shut.error().message;
}

TEST_F(ExecutorsTest, TheEngineAndOtherExecutorsGoOnWhileOffersHang) {
  options_.dispatch_buffer_size = 1;
  options_.dispatch_workers = 1;
  Open();
  const auto hanging = runner_->Start("commands");
  ASSERT_TRUE(hanging);
  ASSERT_TRUE(door_.AwaitKnocks(1));
  EXPECT_EQ(runner_->Execute("functions")->state, model::RunState::kSucceeded);
  door_.Open();
  EXPECT_EQ(hanging->Wait(30s)->state, model::RunState::kSucceeded);
}

}  // namespace
}  // namespace headworks
