#include "headworks/run_queue/run_taker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "headworks/author/author.h"
#include "headworks/run_queue/task.h"

// Takers of real runs, each with a store of its own, at one real queue.
namespace headworks::run_queue {
namespace {

namespace fs = std::filesystem;
using task_queue::ItemState;
using namespace std::chrono_literals;

/// A queue that some cannot reach.
class Cut final : public task_queue::Queues, task_queue::TaskQueue {
 public:
  explicit Cut(task_queue::Queues& inner) : inner_(inner) {}
  std::atomic<bool> cut = false, settles_cut = false;
  std::atomic<Code> code = Code::kUnavailable;  // what is cut is answered so
  std::atomic<int> refused = 0;
  std::atomic<int> extended = 0;

  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return inner_.admin(); }
  task_queue::QueueSurvey& survey() override { return inner_.survey(); }
  task_queue::Bell& bell() override { return inner_.bell(); }

 private:
  Error Gone() {
    ++refused;
    return {code, "cut"};
  }
  Result<std::vector<task_queue::Enqueued>> Enqueue(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::NewItem> items) override {
    if (cut) return Gone();
    return inner_.tasks().Enqueue(tenant, queue, items);
  }
  Result<task_queue::Polled> Poll(const task_queue::PollRequest& request) override {
    if (cut) return Gone();
    return inner_.tasks().Poll(request);
  }
  Result<std::vector<Result<ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::Settlement> settlements) override {
    if (cut || settles_cut) return Gone();
    return inner_.tasks().Settle(tenant, queue, settlements);
  }
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override {
    if (cut) return Gone();
    ++extended;
    return inner_.tasks().Extend(tenant, queue, claims, visibility);
  }
  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    return inner_.tasks().Cancel(tenant, queue, id);
  }

  task_queue::Queues& inner_;
};

class RunTakerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("headworks-taker-{:x}", random_.Next());
    fs::create_directories(folder_);
    auto opened = Runner::Attach({.database_url = "sqlite:" + (folder_ / "queue.db").string()});
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  ~RunTakerTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }

  /// One taker on its own thread.
  struct Taken {
    std::unique_ptr<Cut> queues;
    std::unique_ptr<RunTaker> taker;
    std::thread thread;
    std::mutex mutex;
    std::string said, ended_why;

    std::string text() {
      const std::scoped_lock lock(mutex);
      return said;
    }
    /// Why the program was to end; empty = it was not.
    std::string ended() {
      const std::scoped_lock lock(mutex);
      return ended_why;
    }
    void Leave() {
      taker->Drain();
      taker->Drain();
      thread.join();
      thread = {};
      taker.reset();
    }
    ~Taken() {
      if (thread.joinable()) Leave();
    }
  };

  TakerOptions Options(const std::string& name) {
    TakerOptions options;
    options.state_dir = folder_ / name;
    options.name = name;
    options.lease = 3s;
    options.runner.supervisor_path = HEADWORKS_SUPERVISOR;
    return options;
  }
  std::unique_ptr<Taken> Take(TakerOptions options) {
    auto taken = std::make_unique<Taken>();
    taken->queues = std::make_unique<Cut>(store_->queues());
    auto opened = RunTaker::Open(std::move(options), {.queues = *taken->queues,
                                                      .clock = clock_,
                                                      .random = random_,
                                                      .log = log_,
                                                      .tell =
                                                          [&to = *taken](const std::string& line) {
                                                            const std::scoped_lock lock(to.mutex);
                                                            to.said += line + "\n";
                                                          },
                                                      .end_program =
                                                          [&to = *taken](const std::string& why) {
                                                            const std::scoped_lock lock(to.mutex);
                                                            to.ended_why = why;
                                                          }});
    EXPECT_TRUE(opened) << opened.error().message;
    taken->taker = *std::move(opened);
    taken->thread = std::thread([&taker = *taken->taker] { taker.Run(); });
    return taken;
  }

  /// A workflow of one command, in the test's folder.
  Task TaskOf(const std::string& id, const std::string& script) {
    model::WorkflowDefinition definition;
    definition.name = {"public", "embedded", "flow"};
    model::Task task{
        .id = "a",
        .action = model::ShellAction{fmt::format("cd '{}'\n{}", folder_.string(), script), {}}};
    task.grace = 0s;
    task.retry.max_attempts = 1;
    definition.tasks = {task};
    const auto workflow = model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    auto made = Task::Create({.task_id = id, .workflow_blob = (*workflow)->canonical_json()});
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  void PushIt(const Task& task) {
    const auto pushed = Push(store_->queues().tasks(), TenantId("public"), task);
    ASSERT_TRUE(pushed) << pushed.error().message;
  }
  static constexpr char kGated[] =
      "echo $$ >> here; i=0; while [ ! -e go ] && [ $i -lt 2400 ]; do i=$((i+1)); sleep 0.05; "
      "done; "
      "echo x >> done";

  void Write(const std::string& name) { std::ofstream(folder_ / name) << "x"; }
  std::vector<std::string> Lines(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  ItemState StateOf(const std::string& id) {
    const auto item = store_->queues().admin().GetItem(TenantId("public"), "default", id);
    EXPECT_TRUE(item) << item.error().message;
    return item->item.state;
  }
  template <typename Condition>
  bool Eventually(const Condition& condition) {
    const Duration until = clock_.Monotonic() + 60s;
    while (!condition())
      if (clock_.Monotonic() > until)
        return false;
      else
        std::this_thread::sleep_for(10ms);  // tidy-allow(sleep): other processes are waited for
    return true;
  }
  static bool Lives(const std::string& pid) { return fs::exists("/proc/" + pid); }

  fs::path folder_;
  SystemClock clock_;
  SystemRandom random_;
  StderrLogger log_{StderrLogger::Format::kText, LogLevel::kWarning};
  std::unique_ptr<Runner> store_;
};

TEST_F(RunTakerTest, AnItemIsAcknowledgedOnceItsRunHasSettled) {
  PushIt(TaskOf("good", kGated));
  const auto taken = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  EXPECT_EQ(StateOf("good"), ItemState::kProcessing);
  Write("go");
  EXPECT_TRUE(Eventually([&] { return StateOf("good") == ItemState::kCompleted; }));
  EXPECT_NE(taken->text().find("item good of queue default: run succeeded"), std::string::npos);
  PushIt(TaskOf("bad", "exit 3"));
  EXPECT_TRUE(Eventually([&] { return StateOf("bad") == ItemState::kCompleted; }));
  EXPECT_NE(taken->text().find("run failed"), std::string::npos) << "settled, too";
  EXPECT_EQ(*Push(store_->queues().tasks(), TenantId("public"), TaskOf("good", kGated)),
            task_queue::Enqueued::kDuplicate);
}

TEST_F(RunTakerTest, AClaimIsKeptForAsLongAsTheRunTakes) {
  PushIt(TaskOf("long", kGated));
  const auto one = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  const auto two = Take(Options("two"));
  // One to begin with, and one for each third of a lease: two leases and more.
  ASSERT_TRUE(Eventually([&] { return one->queues->extended > 8; }));
  Write("go");
  EXPECT_TRUE(Eventually([&] { return StateOf("long") == ItemState::kCompleted; }));
  EXPECT_EQ(Lines("here").size(), 1U);
}

// Partition, a second runner, heal.
TEST_F(RunTakerTest, WhoeverLosesItsClaimStopsItsTasksBeforeAnotherBegins) {
  PushIt(TaskOf("a", std::string("trap '' TERM; ") + kGated));
  const auto one = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  const std::string first = Lines("here")[0];
  one->queues->cut = true;
  const auto two = Take(Options("two"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 2; }));
  EXPECT_FALSE(Lives(first)) << "two run at once";
  EXPECT_TRUE(Eventually(
      [&] { return one->text().find("stopped: its queue does not answer") != std::string::npos; }));
  one->queues->cut = false;
  Write("go");
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_EQ(Lines("done").size(), 1U);
  EXPECT_EQ(Lines("here").size(), 2U);
}

TEST_F(RunTakerTest, ARunGoesOnWhereItWasWhenItsItemComesBack) {
  model::WorkflowDefinition definition;
  definition.name = {"public", "embedded", "flow"};
  const auto in_folder = [&](const std::string& script) {
    return model::ShellAction{fmt::format("cd '{}'\n{}", folder_.string(), script), {}};
  };
  definition.tasks = {{.id = "first", .action = in_folder("echo x >> first")},
                      {.id = "second", .needs = {"first"}, .action = in_folder(kGated)}};
  for (auto& task : definition.tasks) task.grace = 0s;
  const auto workflow = *model::Workflow::Create(std::move(definition));
  PushIt(*Task::Create({.task_id = "a", .workflow_blob = workflow->canonical_json()}));
  auto one = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  one->Leave();
  EXPECT_NE(one->text().find("stopped: this runner leaves"), std::string::npos);
  EXPECT_EQ(StateOf("a"), ItemState::kPending) << "handed back";
  EXPECT_FALSE(Lives(Lines("here")[0]));
  one = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 2; }));
  Write("go");
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_EQ(Lines("first").size(), 1U) << "it is not done twice";
}

TEST_F(RunTakerTest, WhatHasSettledIsAcknowledgedWithoutARun) {
  PushIt(TaskOf("a", "echo x >> done"));
  auto one = Take(Options("one"));
  one->queues->settles_cut = true;
  ASSERT_TRUE(Eventually([&] { return one->text().find("run succeeded") != std::string::npos; }));
  one->Leave();
  EXPECT_NE(one->text().find("was not heard, and it comes again"), std::string::npos);
  EXPECT_EQ(StateOf("a"), ItemState::kProcessing);
  one = Take(Options("one"));
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_EQ(Lines("done").size(), 1U);
}

TEST_F(RunTakerTest, AnotherItemWithTheSameIdIsAnotherRun) {
  ASSERT_TRUE(
      store_->queues().admin().Configure(TenantId("public"), "default", {.dedup_window = 0s}));
  PushIt(TaskOf("a", "echo x >> done"));
  const auto one = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("done").size() == 1; }));
  ASSERT_TRUE(Eventually([&] {
    const auto pushed =
        Push(store_->queues().tasks(), TenantId("public"), TaskOf("a", "echo x >> done"));
    return pushed && *pushed == task_queue::Enqueued::kInserted;
  }));
  EXPECT_TRUE(Eventually([&] { return Lines("done").size() == 2; }));
}

/// One C++ function that nothing can stop but the end of the program.
struct StuckFunction {
  StuckFunction() {
    EXPECT_TRUE(registry.Register(
        {.task = "stuck"},
        [this](TaskContext&) -> TaskResult<Json> {
          begun = true;
          while (!released) std::this_thread::sleep_for(5ms);  // tidy-allow(sleep): it is stuck
          return Json("{}");
        },
        "here"));
  }
  static Task Call() {
    model::WorkflowDefinition definition;
    definition.name = {"public", "embedded", "flow"};
    definition.tasks = {{.id = "a", .action = model::FunctionAction{"stuck"}}};
    definition.tasks[0].grace = 0s;
    const auto workflow = *model::Workflow::Create(std::move(definition));
    return *Task::Create({.task_id = "a", .workflow_blob = workflow->canonical_json()});
  }

  TaskRegistry registry;
  std::atomic<bool> begun = false, released = false;
};

TEST_F(RunTakerTest, AFunctionThatRunsOnEndsTheProgramBeforeAnotherBegins) {
  StuckFunction stuck;
  PushIt(StuckFunction::Call());
  auto options = Options("one");
  options.runner.registry = &stuck.registry;
  const auto one = Take(std::move(options));
  ASSERT_TRUE(Eventually([&] { return stuck.begun.load(); }));
  const auto leaves = std::async(std::launch::async, [&] {
    one->taker->Drain();
    one->taker->Drain();
  });
  EXPECT_TRUE(Eventually([&] { return !one->ended().empty(); }));
  EXPECT_EQ(one->ended(), "item a of queue default: a function runs on at the end of its claim");
  EXPECT_EQ(StateOf("a"), ItemState::kProcessing) << "nobody has it yet";
  stuck.released = true;
}

TEST_F(RunTakerTest, AFunctionWhoseClaimIsAnothersEndsTheProgramAtOnce) {
  StuckFunction stuck;
  PushIt(StuckFunction::Call());
  auto options = Options("one");
  options.lease = 1h;
  options.runner.registry = &stuck.registry;
  const auto one = Take(std::move(options));
  ASSERT_TRUE(Eventually([&] { return stuck.begun.load(); }));
  one->queues->code = Code::kLeaseLost;
  one->queues->cut = true;
  EXPECT_TRUE(Eventually([&] { return !one->ended().empty(); }));
  stuck.released = true;
}

TEST_F(RunTakerTest, AnItemThatWaitsForItsOwnRunToEndHoldsUpNoOther) {
  StuckFunction stuck;
  PushIt(StuckFunction::Call());
  auto options = Options("one");
  options.slots = 3;
  options.runner.registry = &stuck.registry;
  const auto one = Take(std::move(options));
  ASSERT_TRUE(Eventually([&] { return stuck.begun.load(); }));
  one->queues->cut = true;
  ASSERT_TRUE(Eventually([&] { return !one->ended().empty(); }));
  one->queues->cut = false;
  ASSERT_TRUE(Eventually([&] {
    const auto item = store_->queues().admin().GetItem(TenantId("public"), "default", "a");
    return item->item.attempts == 2 && item->item.state == ItemState::kProcessing;
  }));
  PushIt(TaskOf("b", "true"));
  EXPECT_TRUE(Eventually([&] { return StateOf("b") == ItemState::kCompleted; }));
  stuck.released = true;
}

TEST_F(RunTakerTest, StoresOfRunsAreKeptForAWhile) {
  const fs::path runs = folder_ / "one" / "runs";
  for (const char* name : {"old", "young"}) {
    fs::create_directories(runs / name);
    std::ofstream(runs / name / "headworks.db") << "x";
  }
  const auto now = fs::last_write_time(runs / "young" / "headworks.db");
  fs::last_write_time(runs / "old" / "headworks.db", now - 2h);
  fs::last_write_time(runs / "young" / "headworks.db", now - 30min);
  auto options = Options("one");
  options.keep = 1h;
  PushIt(TaskOf("a", "true"));
  const auto taken = Take(std::move(options));
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_FALSE(fs::exists(runs / "old"));
  EXPECT_TRUE(fs::exists(runs / "young"));
}

TEST_F(RunTakerTest, AHostThatCannotRunAnythingHandsBackAtNoCost) {
  auto options = Options("one");
  options.slots = 2;
  fs::create_directories(folder_ / "one");
  std::ofstream(folder_ / "one" / "runs") << "no folder";
  PushIt(TaskOf("a", "true"));
  const auto sick = Take(std::move(options));
  ASSERT_TRUE(Eventually([&] { return sick->text().find("cannot be made") != std::string::npos; }));
  const auto well = Take(Options("two"));
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  const auto item = store_->queues().admin().GetItem(TenantId("public"), "default", "a");
  EXPECT_EQ(item->item.attempts, 1);
}

TEST_F(RunTakerTest, AHostWhoseSupervisorGoesAwayHandsBackAtNoCost) {
  ASSERT_TRUE(
      store_->queues().admin().Configure(TenantId("public"), "default", {.max_attempts = 1}));
  auto options = Options("one");
  options.runner.supervisor_path = folder_ / "supervisor";
  fs::copy_file(HEADWORKS_SUPERVISOR, options.runner.supervisor_path);
  const auto sick = Take(std::move(options));
  fs::remove(folder_ / "supervisor");
  PushIt(TaskOf("a", "true"));
  ASSERT_TRUE(Eventually([&] {
    return sick->text().find("stopped: supervisor_path") != std::string::npos;
  })) << sick->text();
  const auto well = Take(Options("two"));
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
}

// A queue whose disk is full for a while.
TEST_F(RunTakerTest, AnEndThatAFullDiskDoesNotTakeIsSaidWhileTheClaimHolds) {
  PushIt(TaskOf("a", "echo x >> done"));
  auto options = Options("one");
  options.lease = 1h;
  const auto one = Take(std::move(options));
  one->queues->code = Code::kAtCapacity;
  one->queues->settles_cut = true;
  ASSERT_TRUE(Eventually([&] { return one->queues->refused >= 3; })) << one->text();
  one->queues->settles_cut = false;
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_EQ(one->text().find("was not heard"), std::string::npos) << one->text();
}

TEST_F(RunTakerTest, AnExtensionThatAFullDiskDoesNotTakeLosesNoClaimThatHolds) {
  PushIt(TaskOf("a", kGated));
  auto options = Options("one");
  options.lease = 1h;
  const auto one = Take(std::move(options));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  one->queues->code = Code::kAtCapacity;
  one->queues->cut = true;
  ASSERT_TRUE(Eventually([&] { return one->queues->refused >= 3; }));
  one->queues->cut = false;
  Write("go");
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCompleted; }));
  EXPECT_EQ(Lines("here").size(), 1U);
  EXPECT_EQ(one->text().find("claim is lost"), std::string::npos) << one->text();
}

TEST_F(RunTakerTest, WhatCannotBeRunIsNackedWithTheReason) {
  ASSERT_TRUE(
      store_->queues().admin().Configure(TenantId("public"), "default", {.max_attempts = 1}));
  const task_queue::NewItem foreign{.id = "foreign", .payload = R"({"mail":1})"};
  ASSERT_TRUE(store_->queues().tasks().Enqueue(TenantId("public"), "default", {&foreign, 1}));
  const auto taken = Take(Options("one"));
  EXPECT_TRUE(Eventually([&] { return StateOf("foreign") == ItemState::kDead; }));
  const auto item = store_->queues().admin().GetItem(TenantId("public"), "default", "foreign");
  EXPECT_NE(item->item.reason.find("is no run to take up"), std::string::npos) << item->item.reason;
}

TEST_F(RunTakerTest, AnItemThatIsCancelledCancelsItsRun) {
  PushIt(TaskOf("a", kGated));
  const auto taken = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  ASSERT_TRUE(store_->queues().tasks().Cancel(TenantId("public"), "default", "a"));
  EXPECT_TRUE(Eventually([&] { return StateOf("a") == ItemState::kCancelled; }));
  EXPECT_NE(taken->text().find("run cancelled"), std::string::npos);
  EXPECT_FALSE(Lives(Lines("here")[0]));
}

TEST_F(RunTakerTest, ADrainLetsWhatRunsEnd) {
  PushIt(TaskOf("a", kGated));
  const auto taken = Take(Options("one"));
  ASSERT_TRUE(Eventually([&] { return Lines("here").size() == 1; }));
  PushIt(TaskOf("b", "true"));
  taken->taker->Drain();
  ASSERT_TRUE(
      Eventually([&] { return taken->text().find("takes nothing more") != std::string::npos; }));
  Write("go");
  taken->thread.join();
  EXPECT_EQ(StateOf("a"), ItemState::kCompleted);
  EXPECT_EQ(StateOf("b"), ItemState::kPending);
}

TEST_F(RunTakerTest, OptionsAreChecked) {
  const auto refused = [&](auto change) {
    auto options = Options("one");
    change(options);
    Cut queues(store_->queues());
    const auto opened = RunTaker::Open(
        std::move(options), {.queues = queues, .clock = clock_, .random = random_, .log = log_});
    return opened ? Code() : opened.error().code;
  };
  EXPECT_EQ(refused([](TakerOptions& o) { o.slots = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.slots = 65; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.lease = 3s - 1us; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.lease = 24h + 1us; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.keep = 1h - 1us; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.queue = "a b"; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.state_dir = ""; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.runner.command_executor = "queue"; }),
            Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.drain_timeout = -1us; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.name = "a\nb"; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) { o.runner.supervisor_path = "/nonexistent"; }),
            Code::kInvalidArgument);
  EXPECT_EQ(refused([](TakerOptions& o) {
              o.slots = 64;
              o.lease = 3s;
              o.keep = 1h;
            }),
            Code());
  EXPECT_EQ(refused([](TakerOptions& o) { o.lease = 24h; }), Code());
  const auto taken = Take(Options("one"));
  EXPECT_EQ(refused([](TakerOptions&) {}), Code::kConflict);
}

}  // namespace
}  // namespace headworks::run_queue
