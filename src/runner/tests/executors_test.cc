#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/dispatcher/dispatcher.h"
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

  executor::AttemptSink* sink() const { return sink_; }
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
                "no executor is called 'dor'; known: inline, process, queue, door");
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
                "'inline' and command_executor is 'door', and no tenant has it; name it there or "
                "leave it out");
  options_.function_executor = "spare";
  Open();
  EXPECT_EQ(Health("spare"), "0 active, 100 at most");
  EXPECT_EQ(Health("inline"), "no such service") << "nothing goes there, so it was not started";
}

TEST_F(ExecutorsTest, ATenantsOwnExecutorTakesAllOfItsTasks) {
  options_.command_executor = "process";
  options_.tenant_executors["acme"] = "door";
  options_.tenant = "acme";
  door_.Open();
  auto opened = Runner::Open(options_);
  ASSERT_TRUE(opened) << opened.error().message;
  runner_ = *std::move(opened);
  WorkflowBuilder w("acme::embedded::both");
  w.Task("f").Function("f");
  w.Task("c").Exec({"false"});
  ASSERT_TRUE(runner_->Register(*w.Build()));
  EXPECT_EQ(runner_->Execute("both")->state, model::RunState::kSucceeded);
  EXPECT_EQ(door_.knocks(), 2);
  runner_.reset();
  // Others keep theirs.
  options_.tenant = "public";
  Open();
  EXPECT_EQ(runner_->Execute("functions")->state, model::RunState::kSucceeded);
  EXPECT_EQ(door_.knocks(), 2);
}

TEST_F(ExecutorsTest, ATenantsExecutorMustBeKnownAndItsTenantNamed) {
  options_.tenant_executors["acme"] = "dor";
  ExpectRefused(Code::kInvalidArgument,
                "no executor is called 'dor'; known: inline, process, queue, door");
  options_.tenant_executors = {{"", "door"}};
  ExpectRefused(
      Code::kInvalidArgument,
      "RunnerOptions::tenant_executors: \"\" is no name of a tenant; use 1 to 100 letters, "
      "digits, _ . and -");
}

TEST_F(ExecutorsTest, TenantsAreNamedByWhatMayStandInAName) {
  const std::string why =
      R"(: "a b\n" is no name of a tenant; use 1 to 100 letters, digits, _ . and -)";
  const RunnerOptions good = options_;
  options_.tenant = "a b\n";
  ExpectRefused(Code::kInvalidArgument, "RunnerOptions::tenant" + why);
  options_ = good;
  options_.tenant_weights["a b\n"] = 2;
  ExpectRefused(Code::kInvalidArgument, "RunnerOptions::tenant_weights" + why);
  options_ = good;
  options_.tenant_executors["a b\n"] = "door";
  ExpectRefused(Code::kInvalidArgument, "RunnerOptions::tenant_executors" + why);
}

TEST_F(ExecutorsTest, WhatAsksForMoreThanIsAllowedIsRefusedAtOnce) {
  options_.max_resources = {.cpu = 2, .memory = std::uint64_t{1} << 30};
  options_.defaults.retry.max_attempts = 5;
  door_.Open();
  Open();
  model::WorkflowDefinition definition;
  definition.name.workflow = "greedy";
  const auto add = [&](const char* id, model::Resources asked) {
    model::Task& task = definition.tasks.emplace_back();
    task.id = id;
    task.action = model::ExecAction{{"knock"}};
    task.resources = asked;
  };
  add("at_most", {.cpu = 2, .memory = std::uint64_t{1} << 30});
  add("cpu", {.cpu = 2.5});
  add("memory", {.memory = (std::uint64_t{1} << 30) + 1});
  ASSERT_TRUE(runner_->Register(*model::Workflow::Create(definition)));
  const auto result = runner_->Execute("greedy");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->state, model::RunState::kFailed);
  using Failure = std::pair<std::string, std::string>;
  EXPECT_EQ(
      result->failures,
      (std::vector<Failure>{{"cpu", "it asks for 2.5 processors, and at most 2 are allowed here"},
                            {"memory",
                             "it asks for 1073741825 bytes of memory, and at most 1GiB (1073741824 "
                             "bytes) is allowed here"}}));
  EXPECT_EQ(door_.knocks(), 1) << "no retries of any kind";
}

TEST_F(ExecutorsTest, DefaultsOutOfBoundsAreRefused) {
  options_.defaults.start_timeout = Duration(0);
  ExpectRefused(Code::kInvalidArgument,
                "platform defaults: start_timeout must be above 0; it is 10m unless it is set");
  options_.defaults = {};
  options_.max_resources.cpu = -1;
  ExpectRefused(Code::kInvalidArgument,
                "RunnerOptions::max_resources: cpu -1 is out of range: it must be 0.001 to 1024 "
                "processors");
  options_.max_resources = {.cpu = 2};
  options_.defaults.resources.cpu = 2.001;
  ExpectRefused(Code::kInvalidArgument,
                "RunnerOptions::defaults is above RunnerOptions::max_resources: it asks for 2.001 "
                "processors, and at most 2 are allowed here; lower the one or raise the other");
  options_.defaults.resources.cpu = 2;
  options_.pending_timeout = Duration(-1);
  ExpectRefused(Code::kInvalidArgument, "RunnerOptions::pending_timeout is -1us; give 0 or more");
}

/// Runs attempts of the versions that its one worker has loaded, one at a time.
class Bench final : public dispatcher::WarmPlacer {
 public:
  explicit Bench(std::string version) : version_(std::move(version)) {}

  bool Assign(std::string_view version, const Attempt& attempt) override {
    const std::scoped_lock lock(mutex_);
    ++asked;
    if (given_.contains(attempt.key)) return true;
    if (version != version_ || work_ || sink == nullptr) return false;
    given_.insert(attempt.key);
    work_ = attempt.key;
    changed_.notify_all();
    return true;
  }
  void Stop() {
    worker_.request_stop();
    changed_.notify_all();
    worker_.join();
  }

  executor::AttemptSink* sink = nullptr;  // set before any run
  int asked = 0, ended = 0;

 private:
  void Work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return work_.has_value(); })) {
      const model::AttemptKey key = *work_;
      lock.unlock();
      sink->Started(key);
      sink->Ended(key, {.output = R"({"warm":true})"});
      lock.lock();
      ++ended;
      work_.reset();
    }
  }

  const std::string version_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<model::AttemptKey> work_;
  std::set<model::AttemptKey> given_;
  std::jthread worker_{[this](const std::stop_token& stop) { Work(stop); }};
};

TEST_F(ExecutorsTest, AWarmWorkerOfTheVersionIsAskedBeforeTheExecutor) {
  WorkflowBuilder w("warm");
  w.Task("a").Exec({"knock"});
  w.Task("b").Exec({"knock"}).Needs({"a"});
  const auto workflow = *w.Build();
  Bench bench(workflow->version());
  options_.warm_placer = &bench;
  door_.Open();
  Open();
  bench.sink = door_.sink();
  ASSERT_TRUE(runner_->Register(workflow));
  const auto handle = runner_->Start("warm");
  ASSERT_EQ(handle->Wait(30s)->state, model::RunState::kSucceeded);
  EXPECT_EQ(handle->Output("a").value(), R"({"warm":true})");
  EXPECT_EQ(runner_->Execute("commands")->state, model::RunState::kSucceeded);
  runner_.reset();
  bench.Stop();
  EXPECT_EQ(bench.asked, 7) << "each attempt once";
  EXPECT_EQ(bench.ended + door_.knocks(), 7);
  EXPECT_GE(bench.ended, 1);
  EXPECT_GE(door_.knocks(), 5) << "another version falls through";
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
