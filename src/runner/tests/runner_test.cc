#include "headworks/runner/runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <mutex>
#include <semaphore>
#include <set>

#include "headworks/author/author.h"

namespace headworks {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Order {
  int items = 0;
};
HEADWORKS_FIELDS(Order, items);
struct Bill {
  int total = 0;
};
HEADWORKS_FIELDS(Bill, total);

/// A store of its own per test, on disk or in memory.
class RunnerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headworks-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.database_url =
        std::string(GetParam()) == "memory" ? "memory:" : "sqlite:" + (folder_ / "hw.db").string();
    options_.registry = &registry_;
    options_.drain_timeout = 5s;
    options_.max_concurrent_tasks = 4;
  }
  void TearDown() override {
    runner_.reset();
    fs::remove_all(folder_);
  }

  bool OnDisk() const { return std::string(GetParam()) == "sqlite"; }

  void Function(const std::string& name, TaskFunction function) {
    ASSERT_TRUE(registry_.Register(FunctionName::Parse(name).value(), std::move(function), "test"));
  }

  void Open() {
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    runner_ = std::move(*opened);
  }

  void Register(WorkflowBuilder& builder) {
    auto workflow = builder.Build();
    ASSERT_TRUE(workflow.has_value()) << workflow.error().message;
    auto registered = runner_->Register(*workflow);
    ASSERT_TRUE(registered.has_value()) << registered.error().message;
  }

  RunHandle Start(const std::string& name, const StartOptions& options = {}) {
    auto handle = runner_->Start(name, options);
    EXPECT_TRUE(handle.has_value()) << handle.error().message;
    return *handle;
  }

  static model::RunState StateOf(const Result<RunResult>& result) {
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result->state;
  }

  /// Waits until the stored state of a task is `state`.
  void AwaitTask(const RunHandle& handle, model::TaskState state) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    for (;;) {
      const auto rows = runner_->query().ListTasks(TenantId("public"), handle.run(), {}, 100);
      ASSERT_TRUE(rows.has_value()) << rows.error().message;
      for (const auto& row : *rows)
        if (row.row.state == state) return;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << model::TaskStateName(state);
      std::this_thread::yield();
    }
  }

  fs::path folder_;
  TaskRegistry registry_;
  RunnerOptions options_;
  std::unique_ptr<Runner> runner_;
};

TEST_P(RunnerTest, TypedTasksPassTheirOutputOn) {
  Function("price", MakeTask([](const Order& order) { return Bill{order.items * 7}; }));
  Function("tax", MakeTask([](const Bill& bill) { return Bill{bill.total * 2}; }));
  Open();
  WorkflowBuilder w("shop");
  w.Task("price").Function("price");
  w.Task("tax").Function("tax").Needs({"price"});
  Register(w);
  const auto handle = Start("shop", {.input = R"({"items":3})"});
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(handle.Output("tax").value(), R"({"total":42})");
  EXPECT_EQ(handle.Output("nope").error().code, Code::kNotFound);
}

TEST_P(RunnerTest, ConditionsSeeParametersAndOutputs) {
  Function("price", MakeTask([](const Order& order) { return Bill{order.items * 7}; }));
  Function("noop", MakeTask([](const Bill& bill) { return bill; }));
  Open();
  WorkflowBuilder w("conditions");
  w.Param("limit", 20);
  w.Task("price").Function("price");
  w.Task("large").Function("noop").Needs({"price"}).When("needs.price.output.total > params.limit");
  w.Task("small").Function("noop").Needs({"price"}).When("true").When(
      "needs.price.output.total <= params.limit && needs.price.state == 'succeeded'");
  w.Task("wrong").Function("noop").Needs({"price"}).When("needs.price.output.colour == 'red'");
  w.Task("allowed").Run("exit 1").AllowFailure();
  w.Finally("sum").Run("cp $HEADWORKS_INPUT $HEADWORKS_OUTPUT");
  Register(w);
  const auto workflow = w.Build().value();
  const auto handle = Start("conditions", {.input = R"({"items":3})"});
  const auto result = handle.Wait(30s);
  ASSERT_EQ(StateOf(result), model::RunState::kFailed);
  ASSERT_EQ(result->failures.size(), 1U);
  EXPECT_NE(result->failures[0].second.find("colour"), std::string::npos);
  const auto rows = runner_->query().ListTasks(TenantId("public"), handle.run(), {}, 10).value();
  const auto row = [&](std::string_view id) {
    return std::ranges::find(rows, *workflow->Find(id), [](const auto& r) { return r.row.task; })
        ->row;
  };
  EXPECT_EQ(row("large").state, model::TaskState::kSucceeded);
  EXPECT_EQ(row("small").state, model::TaskState::kSkipped);
  EXPECT_EQ(row("small").reason, model::Reason::kWhen);
  EXPECT_EQ(row("wrong").state, model::TaskState::kFailed);
  EXPECT_EQ(row("wrong").reason, model::Reason::kExpression);
  const auto events = runner_->query().ListEvents(TenantId("public"), handle.run(), 10).value();
  EXPECT_NE(events.back().detail.find("wrong: when: "), std::string::npos) << events.back().detail;
  EXPECT_NE(events.back().detail.find("colour"), std::string::npos) << events.back().detail;
  const std::string sum = handle.Output("sum").value();
  EXPECT_NE(sum.find(R"("outcome":"failed")"), std::string::npos) << sum;
  EXPECT_NE(sum.find(R"("failed_tasks":["wrong"])"), std::string::npos) << sum;
}

TEST_P(RunnerTest, TemplatesArePutIntoCommands) {
  Function("price", MakeTask([](const Order& order) { return Bill{order.items * 7}; }));
  Open();
  WorkflowBuilder w("templates");
  w.Param("dir", "sub");
  w.BaseDir(folder_.string()).Env("GREETING", "total ${{ params.dir }}");
  fs::create_directories(folder_ / "sub");
  w.Task("price").Function("price");
  const std::string say = R"(printf '{"text": "%s", "where": "%s", "n": "%s"}' "$1" "$PWD" "$N" )";
  w.Task("say")
      .Exec({"/bin/sh", "-c", say + "> $HEADWORKS_OUTPUT", "sh",
             "${{ env.GREETING }} is ${{ needs.price.output.total }}"})
      .Needs({"price"})
      .Env("N", "${{ needs.price.output.total + 1 }}")
      .Cwd("${{ params.dir }}");
  w.Task("script")
      .Run("test ${{ params.dir }} = sub; test \"x ${{ needs.price.output.total }}\" = 'x 21'")
      .Needs({"price"});
  w.Task("wrong").Exec({"echo", "${{ needs.price.output.colour }}"}).Needs({"price"}).Retry(3);
  Register(w);
  const auto handle = Start("templates", {.input = R"({"items":3})"});
  ASSERT_EQ(StateOf(handle.Wait(30s)), model::RunState::kFailed);
  EXPECT_EQ(handle.Output("say").value(), R"({"n":"22","text":"total sub is 21","where":")" +
                                              (folder_ / "sub").string() + R"("})");
  const auto attempts =
      runner_->query().ListAttempts(TenantId("public"), handle.run(), {}, Epoch(0), 10).value();
  const auto failed = std::ranges::find(attempts, model::Verdict::kFailed,
                                        [](const auto& a) { return a.outcome.verdict; });
  ASSERT_NE(failed, attempts.end()) << "no try helps where a value does not exist";
  EXPECT_EQ(failed->outcome.reason, model::Reason::kExpression);
  EXPECT_NE(failed->outcome.error.find("colour"), std::string::npos) << failed->outcome.error;
}

TEST_P(RunnerTest, NumbersAreDoublesAndDefaultsMayComeFromTheRun) {
  Open();
  auto definition = model::WorkflowDefinition{};
  definition.name.workflow = "typed";
  model::Param rate{.type = model::ParamType::kNumber, .default_json = "3"};
  model::Param day{.type = model::ParamType::kDate, .default_json = R"("${{ run.date }}")"};
  definition.params = {{"rate", rate}, {"day", day}};
  model::Task score{.id = "score"};
  score.action = model::ShellAction{.script = R"(echo '{"s": [1, 2.5]}' > $HEADWORKS_OUTPUT)"};
  score.output.type_json = R"({"s": ["number"]})";
  model::Task use{.id = "use", .needs = {"score"}};
  use.action = model::ExecAction{
      {"sh", "-c", R"(printf '{"v": "%s"}' "$1" > $HEADWORKS_OUTPUT)", "sh",
       "${{ params.rate * 2.0 + needs.score.output.s[0] }} ${{ size(params.day) }}"}};
  definition.tasks = {score, use};
  const auto workflow = model::Workflow::Create(definition).value();
  ASSERT_TRUE(runner_->Register(workflow));
  const auto handle = Start("typed");
  ASSERT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(handle.Output("use").value(), R"({"v":"7 10"})");
}

TEST_P(RunnerTest, ADeadlineStopsACommandAndItsTries) {
  Open();
  WorkflowBuilder w("late");
  w.Task("slow").Run("sleep 60").Deadline(200ms).Retry(5);
  Register(w);
  const auto handle = Start("late");
  ASSERT_EQ(StateOf(handle.Wait(30s)), model::RunState::kFailed);
  const auto rows = runner_->query().ListTasks(TenantId("public"), handle.run(), {}, 10).value();
  EXPECT_EQ(rows[0].row.reason, model::Reason::kDeadline);
  EXPECT_EQ(
      runner_->query().ListAttempts(TenantId("public"), handle.run(), {}, Epoch(0), 9)->size(), 1U);
}

TEST_P(RunnerTest, RunsOverTheLimitWaitTheirTurn) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  Function("count", [&](TaskContext&) {
    most = std::max<int>(most, ++at_once);
    std::this_thread::yield();
    --at_once;
    return TaskResult<Json>(Json("{}"));
  });
  Open();
  WorkflowBuilder w("turns");
  w.MaxActiveRuns(1);
  w.Task("count").Function("count");
  Register(w);
  std::vector<RunHandle> handles;
  handles.reserve(20);
  for (int i = 0; i < 20; ++i) handles.push_back(Start("turns"));
  for (const auto& handle : handles)
    EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(most, 1);
}

TEST_P(RunnerTest, PoolBoundsTasksOfAllRuns) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  Function("count", [&](TaskContext&) {
    most = std::max<int>(most, at_once += 2);
    std::this_thread::yield();
    at_once -= 2;
    return TaskResult<Json>(Json("{}"));
  });
  options_.pools = {{"gpu", 5}};
  Open();
  WorkflowBuilder w("pooled");
  w.Task("count").Function("count").Pool("gpu", 2);
  Register(w);
  std::vector<RunHandle> handles;
  handles.reserve(20);
  for (int i = 0; i < 20; ++i) handles.push_back(Start("pooled"));
  for (const auto& handle : handles)
    EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_LE(most, 5);
  const TenantId tenant("public");
  EXPECT_TRUE(runner_->limits().ListPermits(tenant)->empty());
  EXPECT_EQ(runner_->limits().SetPool(tenant, "gpu", 9, Instant{}).error().code, Code::kConflict);
}

TEST_P(RunnerTest, WorkflowWithPoolsIsRegisteredWhereTheyAreDeclared) {
  options_.pools = {{"gpu", 1}};
  Open();
  const auto registered = [&](int weight) {
    WorkflowBuilder w("pooled");
    w.Task("a").Run("true").Pool("db", weight);
    return runner_->Register(*w.Build());
  };
  EXPECT_EQ(registered(1).error().code, Code::kInvalidArgument);
  EXPECT_NE(registered(1).error().message.find("declared are: gpu (1)"), std::string::npos);
  EXPECT_TRUE(runner_->limits().SetPool(TenantId("public"), "db", 2, Instant{}));
  EXPECT_TRUE(registered(2));
  EXPECT_EQ(registered(3).error().code, Code::kInvalidArgument);
}

/// The pools that warnings name.
class PoolWarnings final : public Logger {
 public:
  std::vector<std::string> pools;
  void Write(LogLevel level, std::string_view, Fields fields) override {
    for (const auto& [key, value] : fields)
      if (level == LogLevel::kWarning && key == "pool") pools.emplace_back(value);
  }
};

TEST_P(RunnerTest, PoolThatTheConfigurationNamesNoMoreStays) {
  if (!OnDisk()) GTEST_SKIP() << "nothing survives in memory";
  const TenantId tenant("public");
  options_.pools = {{"db", 1}, {"gpu", 4}};
  Open();
  runner_.reset();
  // Whoever starts one run and names no pools leaves alone what the others' configuration declares.
  options_.pools = {};
  options_.enable_recovery = false;
  Open();
  for (const auto& pool : *runner_->limits().ListPools(tenant)) EXPECT_TRUE(pool.declared);
  runner_.reset();
  options_.pools = {{"db", 1}};
  PoolWarnings warnings;
  options_.logger = &warnings;
  Open();
  EXPECT_EQ(runner_->limits().ListPools(tenant)->size(), 2U);
  EXPECT_TRUE(runner_->limits().DeletePool(tenant, "gpu"));
  EXPECT_EQ(warnings.pools, std::vector<std::string>{"gpu"});
  runner_.reset();
  options_.pools = {};
  options_.enable_recovery = true;
  Open();
  EXPECT_FALSE(runner_->limits().ListPools(tenant)->at(0).declared);
  EXPECT_EQ(warnings.pools.back(), "db");
  runner_.reset();
}

TEST_P(RunnerTest, BadPoolFailsOpen) {
  for (const auto& pools : {model::PoolLimits{{"g pu", 1}}, {{"gpu", -1}}, {{"gpu", 1'000'001}}}) {
    options_.pools = pools;
    const auto opened = Runner::Open(options_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  }
}

TEST_P(RunnerTest, StartThatSkipsIsAConflict) {
  std::binary_semaphore go(0);
  Function("hold", [&](TaskContext&) {
    go.acquire();
    return TaskResult<Json>(Json("{}"));
  });
  Open();
  WorkflowBuilder w("alone");
  w.Param("customer", "acme");
  w.Concurrency({.key = "params.customer", .limit = 1, .on_conflict = model::OnConflict::kSkip});
  w.Task("hold").Function("hold");
  Register(w);
  const auto holder = Start("alone");
  const auto refused = runner_->Start("alone");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("concurrency key 'acme'"), std::string::npos);
  const auto wrong = runner_->Start("alone", {.params = {"customer=" + std::string(257, 'x')}});
  EXPECT_EQ(wrong.error().code, Code::kInvalidArgument);
  go.release();
  EXPECT_EQ(StateOf(holder.Wait(30s)), model::RunState::kSucceeded);
  go.release();
  EXPECT_EQ(StateOf(Start("alone").Wait(30s)), model::RunState::kSucceeded);
}

TEST_P(RunnerTest, IdempotencyKeysAreWhatTheTaskSays) {
  std::mutex mutex;
  std::set<std::string> keys;
  Function("key", [&](TaskContext& context) {
    const std::scoped_lock lock(mutex);
    keys.insert(context.info().idempotency_key);
    return TaskResult<Json>(Json("{}"));
  });
  Open();
  WorkflowBuilder w("keys");
  w.Param("day", "monday");
  w.Task("plain").Function("key").IdempotencyKey("plain");
  w.Task("made").Function("key").IdempotencyKey("bill-${{ params.day }}");
  w.Task("command")
      .Run("test $HEADWORKS_IDEMPOTENCY_KEY = c-monday")
      .IdempotencyKey("c-${{ params.day }}");
  w.Task("wrong").Function("key").IdempotencyKey("${{ params.month }}").AllowFailure();
  Register(w);
  const auto handle = Start("keys");
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  const std::scoped_lock lock(mutex);
  EXPECT_EQ(keys, (std::set<std::string>{"plain", "bill-monday"}));
}

TEST_P(RunnerTest, CommandsRunAndFailuresAreNamed) {
  Open();
  WorkflowBuilder w("shell");
  w.Task("good").Run("echo '{\"n\": 5}' > $HEADWORKS_OUTPUT");
  w.Task("bad").Run("echo out of luck >&2; exit 3").Needs({"good"});
  w.Task("after").Exec({"true"}).Needs({"bad"});
  Register(w);
  const auto handle = Start("shell");
  const auto result = handle.Wait(30s);
  ASSERT_EQ(StateOf(result), model::RunState::kFailed);
  ASSERT_EQ(result->failures.size(), 1U);
  EXPECT_EQ(result->failures[0].first, "bad");
  EXPECT_NE(result->failures[0].second.find("3"), std::string::npos) << result->failures[0].second;
  EXPECT_EQ(handle.Output("good").value(), R"({"n":5})");
  EXPECT_EQ(handle.Status()->counts[static_cast<std::size_t>(model::TaskState::kUpstreamFailed)],
            1U);
}

TEST_P(RunnerTest, RetriesUntilItWorksAndCountsTries) {
  std::atomic<int> calls = 0;
  Function("flaky", MakeTask([&](TaskContext& context) {
             if (++calls < 3) throw std::runtime_error("not yet");
             return Bill{context.info().try_no};
           }));
  Open();
  WorkflowBuilder w("flaky");
  w.Task("a").Function("flaky").Retry(
      {.max_attempts = 5, .backoff = Backoff::kFixed, .initial = 1ms, .jitter = 0});
  Register(w);
  const auto handle = Start("flaky");
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(handle.Output("a").value(), R"({"total":3})");
}

TEST_P(RunnerTest, OneStartKeyIsOneRun) {
  Function("noop", MakeTask([] {}));
  Open();
  WorkflowBuilder w("once");
  w.Task("a").Function("noop");
  Register(w);
  const auto first = Start("once", {.start_key = "k"});
  const auto again = Start("once", {.start_key = "k"});
  const auto other = Start("once", {.start_key = "l"});
  EXPECT_EQ(first.run(), again.run());
  EXPECT_NE(first.run(), other.run());
}

TEST_P(RunnerTest, CancelStopsALiveTaskAndFinallyRuns) {
  std::binary_semaphore begun(0);
  std::atomic<bool> cleaned = false;
  Function("wait", MakeTask([&](TaskContext& context) {
             begun.release();
             std::mutex mutex;
             std::unique_lock lock(mutex);
             std::condition_variable_any().wait(lock, context.stop_token(), [] { return false; });
             context.ThrowIfCancelled();
           }));
  Function("clean", MakeTask([&] { cleaned = true; }));
  Open();
  WorkflowBuilder w("stop");
  w.Task("a").Function("wait");
  w.Task("b").Function("clean").Needs({"a"});
  w.Finally("c").Function("clean");
  Register(w);
  const auto handle = Start("stop");
  begun.acquire();
  ASSERT_TRUE(handle.Cancel());
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kCancelled);
  EXPECT_TRUE(cleaned);
  const auto header = handle.Status();
  EXPECT_EQ(header->counts[static_cast<std::size_t>(model::TaskState::kCancelled)], 2U);
  EXPECT_EQ(header->counts[static_cast<std::size_t>(model::TaskState::kSucceeded)], 1U);
}

TEST_P(RunnerTest, CancelKillsAProcessTree) {
  Open();
  WorkflowBuilder w("tree");
  w.Task("a").Run("sleep 600 & sleep 600").Grace(1s);
  Register(w);
  const auto handle = Start("tree");
  AwaitTask(handle, model::TaskState::kRunning);
  ASSERT_TRUE(handle.Cancel());
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kCancelled);
}

TEST_P(RunnerTest, TheDefaultTimeoutIsForTasksWithoutOne) {
  options_.defaults.timeout = 100ms;
  Open();
  WorkflowBuilder w("slow");
  w.Task("a").Exec({"sleep", "600"}).Grace(1s);
  w.Task("b").Exec({"sleep", "0.3"}).Timeout(60s);
  Register(w);
  const auto handle = Start("slow");
  const auto result = handle.Wait(30s);
  ASSERT_EQ(StateOf(result), model::RunState::kFailed);
  ASSERT_EQ(result->failures.size(), 1U);
  EXPECT_EQ(result->failures[0].first, "a");
}

TEST_P(RunnerTest, PausedRunsQueueNothingUntilResumed) {
  std::binary_semaphore go(0), begun(0);
  std::atomic<bool> second = false;
  Function("first", MakeTask([&] { begun.release(), go.acquire(); }));
  Function("second", MakeTask([&] { second = true; }));
  Open();
  WorkflowBuilder w("pause");
  w.Task("a").Function("first");
  w.Task("b").Function("second").Needs({"a"});
  Register(w);
  const auto handle = Start("pause");
  begun.acquire();
  ASSERT_TRUE(handle.Pause());
  go.release();
  AwaitTask(handle, model::TaskState::kSucceeded);
  EXPECT_EQ(handle.Wait(50ms).error().code, Code::kUnavailable);
  EXPECT_FALSE(second);
  ASSERT_TRUE(handle.Resume());
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_TRUE(second);
}

TEST_P(RunnerTest, RerunOfFailedDoesOnlyWhatIsLeft) {
  std::atomic<int> first = 0, second = 0;
  Function("first", MakeTask([&] { ++first; }));
  Function("second", MakeTask([&] {
             if (++second == 1) throw Fail("broken");
           }));
  Open();
  WorkflowBuilder w("again");
  w.Task("a").Function("first");
  w.Task("b").Function("second").Needs({"a"});
  Register(w);
  const auto handle = Start("again");
  const auto failed = handle.Wait(30s);
  ASSERT_EQ(StateOf(failed), model::RunState::kFailed);
  EXPECT_EQ(failed->failures[0].second, "broken");
  ASSERT_TRUE(handle.RerunFailed());
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  ASSERT_TRUE(handle.RerunFrom("a"));
  EXPECT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 3);
}

TEST_P(RunnerTest, EventsComeInOrderOfCommits) {
  std::mutex mutex;
  std::vector<std::string> seen;
  Function("noop", MakeTask([] {}));
  options_.on_event = [&](const RunEvent& event) {
    const std::scoped_lock lock(mutex);
    seen.push_back(event.task
                       ? event.task_id + " " + std::string(model::TaskStateName(event.task_state))
                       : "run " + std::string(model::RunStateName(event.run_state)));
  };
  Open();
  WorkflowBuilder w("events");
  w.Task("a").Function("noop");
  Register(w);
  EXPECT_EQ(StateOf(Start("events").Wait(30s)), model::RunState::kSucceeded);
  const std::scoped_lock lock(mutex);
  const auto place = [&](const char* what) { return std::ranges::find(seen, what) - seen.begin(); };
  EXPECT_LT(place("a queued"), place("a succeeded"));
  EXPECT_LT(place("run running"), place("run succeeded"));
  EXPECT_LT(place("run succeeded"), static_cast<std::ptrdiff_t>(seen.size()));
}

TEST_P(RunnerTest, ShutdownInterruptsAndTheNextOpenGoesOn) {
  if (!OnDisk()) GTEST_SKIP() << "nothing survives in memory";
  std::binary_semaphore begun(0);
  std::atomic<int> calls = 0;
  Function("long", MakeTask([&](TaskContext& context) {
             if (++calls > 1) return Bill{context.info().try_no};
             begun.release();
             std::mutex mutex;
             std::unique_lock lock(mutex);
             std::condition_variable_any().wait(lock, context.stop_token(), [] { return false; });
             throw Cancelled();
           }));
  options_.drain_timeout = 50ms;
  Open();
  WorkflowBuilder w("long");
  w.Task("a").Function("long");
  Register(w);
  const auto run = Start("long").run();
  begun.acquire();
  ASSERT_TRUE(runner_->Shutdown());
  runner_.reset();
  Open();
  const auto handle = runner_->Find(std::to_string(run.value));
  ASSERT_TRUE(handle.has_value()) << handle.error().message;
  EXPECT_EQ(StateOf(handle->Wait(30s)), model::RunState::kSucceeded);
  // A shutdown consumes no try (I7).
  EXPECT_EQ(handle->Output("a").value(), R"({"total":1})");
}

TEST_P(RunnerTest, AttachedRunnerUsesTheOwnersEngine) {
  if (!OnDisk()) GTEST_SKIP() << "a store in memory has one process";
  Function("noop", MakeTask([] {}));
  Open();
  EXPECT_EQ(Runner::Open(options_).error().code, Code::kConflict);
  WorkflowBuilder w("shared");
  w.Task("a").Function("noop");
  Register(w);
  auto other = Runner::Attach(options_);
  ASSERT_TRUE(other.has_value()) << other.error().message;
  const auto handle = (*other)->Start("shared");
  ASSERT_TRUE(handle.has_value()) << handle.error().message;
  EXPECT_EQ(StateOf(handle->Wait(30s)), model::RunState::kSucceeded);
  EXPECT_EQ(handle->Cancel().error().code, Code::kConflict);
}

TEST_P(RunnerTest, ManyStartsShareCommits) {
  Function("noop", MakeTask([] {}));
  Open();
  WorkflowBuilder w("many");
  w.Task("a").Function("noop");
  Register(w);
  constexpr int kRuns = 500;
  std::latch started(kRuns);
  std::mutex mutex;
  std::vector<RunHandle> handles;
  for (int i = 0; i < kRuns; ++i)
    runner_->StartAsync("many", {}, [&](Result<RunHandle> handle) {
      ASSERT_TRUE(handle.has_value()) << handle.error().message;
      {
        const std::scoped_lock lock(mutex);
        handles.push_back(*handle);
      }
      started.count_down();
    });
  started.wait();
  for (const auto& handle : handles)
    EXPECT_EQ(StateOf(handle.Wait(60s)), model::RunState::kSucceeded);
}

TEST_P(RunnerTest, UnknownAndDisabledWorkflowsSaySo) {
  Open();
  EXPECT_EQ(runner_->Start("nothing").error().code, Code::kNotFound);
  WorkflowBuilder w("off");
  w.Task("a").Exec({"true"});
  Register(w);
  ASSERT_TRUE(runner_->workflows().SetEnabled(
      {.tenant = "public", .package = "embedded", .workflow = "off"}, false));
  EXPECT_EQ(runner_->Start("off").error().code, Code::kConflict);
}

TEST_P(RunnerTest, DeletedRunsLeaveNoFilesAndNoLogs) {
  options_.scratch_dir = folder_ / "scratch";
  Open();
  WorkflowBuilder w("gone");
  w.Task("a").Run(
      "echo kept; touch $HEADWORKS_SCRATCH/x; "
      "echo \"folder=$HEADWORKS_SCRATCH\" > $HEADWORKS_OUTPUT");
  Register(w);
  const auto handle = Start("gone");
  ASSERT_EQ(StateOf(handle.Wait(30s)), model::RunState::kSucceeded);
  const std::string output = handle.Output("a").value();
  const auto begin = output.find('/');
  const fs::path scratch = output.substr(begin, output.find('"', begin) - begin);
  ASSERT_TRUE(fs::exists(scratch / "x")) << output;
  const log_store::Query lines{.tenant = TenantId("public"), .run = handle.run()};
  ASSERT_FALSE(runner_->logs().Read(lines)->entries.empty());
  ASSERT_TRUE(runner_->control().Execute({.tenant = TenantId("public"),
                                          .kind = control::CommandKind::kDelete,
                                          .run = handle.run(),
                                          .actor = "test"},
                                         30s));
  EXPECT_EQ(handle.Status().error().code, Code::kNotFound);
  ASSERT_TRUE(runner_->Shutdown());
  EXPECT_FALSE(fs::exists(scratch));
  EXPECT_TRUE(runner_->logs().Read(lines)->entries.empty());
}

TEST_P(RunnerTest, HealthNamesEveryService) {
  Open();
  std::vector<std::string> names;
  for (const auto& service : runner_->Health()) {
    EXPECT_TRUE(service.healthy) << service.name << ": " << service.detail;
    names.push_back(service.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"store", "inline", "process", "dispatch", "engine",
                                             "queues"}));
}

INSTANTIATE_TEST_SUITE_P(Stores, RunnerTest, testing::Values("memory", "sqlite"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace headworks
