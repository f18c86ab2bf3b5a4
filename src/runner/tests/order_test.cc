#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "headworks/author/author.h"
#include "headworks/runner/runner.h"

// In which order a runner starts what is ready.
namespace headworks {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// One thread for functions, which takes nothing ahead, and is held until all is ready.
class OrderTest : public testing::Test {
 protected:
  OrderTest() {
    std::string name = (fs::temp_directory_path() / "headworks-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.database_url = "sqlite:" + (folder_ / "hw.db").string();
    options_.registry = &registry_;
    options_.inline_threads = 1;
    options_.inline_queue_depth = 0;
    Function("hold", [this](TaskContext&) {
      release_.acquire();
      return TaskResult<Json>(Json("{}"));
    });
    for (const char* note : {"note", "heavy::default::*::note"})
      Function(note, [this](TaskContext& task) {
        const std::scoped_lock lock(mutex_);
        started_.emplace_back(task.info().task);
        return TaskResult<Json>(Json("{}"));
      });
  }
  ~OrderTest() override {
    release_.release();
    other_.reset();
    runner_.reset();
    fs::remove_all(folder_);
  }

  void Function(const std::string& name, TaskFunction function) {
    ASSERT_TRUE(registry_.Register(FunctionName::Parse(name).value(), std::move(function), "test"));
  }
  /// Opens, and occupies the one thread.
  void Open() {
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    runner_ = *std::move(opened);
    WorkflowBuilder hold("hold");
    hold.Task("hold").Function("hold");
    Start(*runner_, hold);
  }
  /// A second tenant of the same engine.
  void Attach(const std::string& tenant) {
    RunnerOptions options = options_;
    options.tenant = tenant;
    auto attached = Runner::Attach(options);
    ASSERT_TRUE(attached) << attached.error().message;
    other_ = *std::move(attached);
  }
  /// Returns once a run of it is committed.
  void Start(Runner& runner, WorkflowBuilder& builder) {
    auto workflow = builder.Build();
    ASSERT_TRUE(workflow) << workflow.error().message;
    ASSERT_TRUE(runner.Register(*workflow));
    const auto handle = runner.Start((*workflow)->name().ToString());
    ASSERT_TRUE(handle) << handle.error().message;
    handles_.push_back(*handle);
  }
  void AwaitReady(double count) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (Ready() != count) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << Ready() << " are ready";
      std::this_thread::yield();
    }
  }
  std::vector<std::string> StartedInOrder() {
    release_.release();
    for (const RunHandle& handle : handles_) {
      const auto ended = handle.Wait(30s);
      EXPECT_TRUE(ended && ended->state == model::RunState::kSucceeded)
          << (ended ? std::string(model::RunStateName(ended->state)) : ended.error().message);
    }
    const std::scoped_lock lock(mutex_);
    return started_;
  }
  /// An older task of low priority against a younger one of high priority.
  std::vector<std::string> LowThenHigh() {
    Open();
    WorkflowBuilder low("low");
    low.Task("low").Function("note");
    Start(*runner_, low);
    AwaitReady(1);
    WorkflowBuilder high("high");
    high.Task("high").Function("note").Priority(1);
    Start(*runner_, high);
    AwaitReady(2);
    return StartedInOrder();
  }
  void ExpectRefused(std::string_view message) {
    const auto opened = Runner::Open(options_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
    EXPECT_EQ(opened.error().message, message);
    EXPECT_TRUE(fs::is_empty(folder_)) << "nothing was touched";
  }

  fs::path folder_;
  TaskRegistry registry_;
  RunnerOptions options_;
  std::unique_ptr<Runner> runner_, other_;

 private:
  double Ready() const {
    double ready = 0;
    for (const auto& family : runner_->Metrics())
      if (family.name == "headworks_tasks_ready")
        for (const auto& sample : family.samples) ready += sample.value;
    return ready;
  }

  std::counting_semaphore<> release_{0};
  std::vector<RunHandle> handles_;
  std::mutex mutex_;
  std::vector<std::string> started_;
};

TEST_F(OrderTest, TenantsTakeTurnsAsLongAsTheyWeigh) {
  options_.tenant_weights = {{"heavy", 2}};
  Open();
  Attach("heavy");
  WorkflowBuilder light("light");
  for (const char* task : {"l1", "l2", "l3"}) light.Task(task).Function("note");
  Start(*runner_, light);
  AwaitReady(3);
  WorkflowBuilder heavy("heavy::default::heavy");
  for (const char* task : {"h1", "h2", "h3", "h4"}) heavy.Task(task).Function("note");
  Start(*other_, heavy);
  AwaitReady(7);
  EXPECT_EQ(StartedInOrder(), (std::vector<std::string>{"l1", "h1", "h2", "l2", "h3", "h4", "l3"}));
}

TEST_F(OrderTest, WhereWaitingCountsMuchTheOldestComesFirst) {
  options_.priority_ageing = 1us;
  EXPECT_EQ(LowThenHigh(), (std::vector<std::string>{"low", "high"}));
}

TEST_F(OrderTest, WhereWaitingCountsForNothingTheHighestPriorityComesFirst) {
  options_.priority_ageing = 0us;
  EXPECT_EQ(LowThenHigh(), (std::vector<std::string>{"high", "low"}));
}

TEST_F(OrderTest, WeightsAreFromOneToAThousand) {
  options_.tenant_weights = {{"a", 1}, {"b", 0}};
  ExpectRefused("RunnerOptions::tenant_weights: 'b' weighs 0; give 1 to 1000");
  options_.tenant_weights = {{"a", 1'001}};
  ExpectRefused("RunnerOptions::tenant_weights: 'a' weighs 1001; give 1 to 1000");
  options_.tenant_weights = {{"a", 1}, {"b", 1'000}};
  EXPECT_TRUE(Runner::Open(options_));
}

TEST_F(OrderTest, AgeingIsNotNegative) {
  options_.priority_ageing = -1us;
  ExpectRefused("RunnerOptions::priority_ageing is -1us; give 0 for none, or more");
}

}  // namespace
}  // namespace headworks
