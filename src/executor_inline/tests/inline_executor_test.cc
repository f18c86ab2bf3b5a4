#include "headworks/executor_inline/inline_executor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "headworks/author/author.h"

namespace headworks::executor_inline {
namespace {

using executor::Attempt;
using model::AttemptKey;
using model::Disposition;
using model::Outcome;
using model::Reason;
using model::Verdict;
using namespace std::chrono_literals;

constexpr auto kDeadline = 30s;  // of a wait that never comes true

/// Collects what an executor says, and waits for it.
class Sink final : public executor::AttemptSink {
 public:
  void Started(const AttemptKey& key) override {
    const std::scoped_lock lock(mutex_);
    started_.push_back(key.epoch.value);
    changed_.notify_all();
  }
  void Ended(const AttemptKey& key, Outcome outcome) override {
    const std::scoped_lock lock(mutex_);
    EXPECT_TRUE(ended_.emplace(key.epoch.value, std::move(outcome)).second) << "told twice";
    changed_.notify_all();
  }
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override {
    const std::scoped_lock lock(mutex_);
    ++capacity_changes_;
    changed_.notify_all();
  }

  Outcome WaitEnded(std::int64_t epoch) {
    Await([&] { return ended_.contains(epoch); });
    const std::scoped_lock lock(mutex_);
    return ended_[epoch];
  }
  void WaitStarted(std::int64_t epoch) {
    Await([&] { return std::ranges::find(started_, epoch) != started_.end(); });
  }
  void WaitEndedCount(std::size_t count) {
    Await([&] { return ended_.size() >= count; });
  }
  void WaitCapacity(int changes) {
    Await([&] { return capacity_changes_ >= changes; });
  }
  std::size_t ended() {
    const std::scoped_lock lock(mutex_);
    return ended_.size();
  }
  std::size_t started() {
    const std::scoped_lock lock(mutex_);
    return started_.size();
  }

 private:
  void Await(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kDeadline, holds));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::int64_t> started_;
  std::map<std::int64_t, Outcome> ended_;
  int capacity_changes_ = 0;
};

class Inputs final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const Attempt&) override {
    if (error) return *error;
    return executor::Resolved{.context_json = R"({"params":{"n":3}})", .merged_json = merged};
  }
  std::optional<Error> error;
  std::string merged = R"({"n":3})";
};

class Lines final : public LineSink {
 public:
  Status Append(const AttemptKey& key, std::int64_t number, Instant, std::string_view line,
                const std::stop_token&) override {
    const std::scoped_lock lock(mutex_);
    if (broken) return Error{Code::kUnavailable, "disk full"};
    lines[key.epoch.value].emplace_back(number, line);
    return {};
  }
  std::mutex mutex_;
  bool broken = false;
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::string>>> lines;
};

class CountingLogger final : public Logger {
 public:
  void Write(LogLevel level, std::string_view, Fields) override {
    if (level == LogLevel::kError) ++errors;
  }
  std::atomic<int> errors{0};
};

/// A thing that one thread opens and others wait for.
class Gate {
 public:
  void Open() { opened_.set_value(); }
  void Wait() const { future_.wait(); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> future_ = opened_.get_future().share();
};

class InlineExecutorTest : public testing::Test {
 protected:
  void Start(InlineOptions options = {.threads = 2, .queue_depth = 4}) {
    executor_ = NewInlineExecutor(options, {.registry = registry_,
                                            .resolver = inputs_,
                                            .lines = lines_,
                                            .clock = clock_,
                                            .log = log_,
                                            .ledger = ledger_.get()});
    const Status status = executor_->Start(sink_);
    ASSERT_TRUE(status) << status.error().message;
  }

  /// Registers `function` and makes an attempt of a task that calls it.
  template <typename F>
  Attempt Make(const std::string& name, F function, Duration timeout = Duration{0}) {
    const Status status = registry_.Register({.task = name}, MakeTask(std::move(function)), "here");
    EXPECT_TRUE(status) << status.error().message;
    return MakeAgain(name, timeout);
  }
  Attempt MakeAgain(const std::string& name, Duration timeout = Duration{0}) {
    WorkflowBuilder builder("w");
    builder.Task("t").Function(name).Timeout(timeout).Grace(grace_);
    auto workflow = builder.Build();
    EXPECT_TRUE(workflow) << workflow.error().message;
    return {.key = {.tenant = TenantId("public"),
                    .run = RunNo(1),
                    .task = TaskNo(0),
                    .epoch = Epoch(++epochs_)},
            .run_id = RunId("0190a1b2-0000-7000-8000-000000000001"),
            .timeout = timeout,
            .workflow = *workflow};
  }
  void Offer(const Attempt& attempt) {
    const auto result = executor_->Offer(attempt);
    ASSERT_EQ(result.disposition, Disposition::kDispatched) << result.cause;
  }
  template <typename F>
  Outcome RunOnce(const std::string& name, F function, Duration timeout = Duration{0}) {
    const Attempt attempt = Make(name, std::move(function), timeout);
    Offer(attempt);
    return sink_.WaitEnded(attempt.key.epoch.value);
  }

  Duration grace_ = 10s;
  SystemClock clock_;
  CountingLogger log_;
  TaskRegistry registry_;
  Inputs inputs_;
  Lines lines_;
  Sink sink_;
  std::unique_ptr<executor::StartLedger> ledger_;
  std::unique_ptr<executor::Executor> executor_;  // after what it borrows
  std::int64_t epochs_ = 0;
};

struct Number {
  int n = 0;
};
HEADWORKS_FIELDS(Number, n);

TEST_F(InlineExecutorTest, GivesInputAndTakesOutput) {
  Start();
  const Outcome outcome = RunOnce("double", [](const Number& in, TaskContext& context) {
    EXPECT_EQ(context.info().task, "t");
    EXPECT_EQ(context.info().workflow.workflow, "w");
    EXPECT_EQ(context.info().idempotency_key, "0190a1b2-0000-7000-8000-000000000001/t");
    EXPECT_EQ(context.info().epoch, 1);
    EXPECT_EQ(context.context(), R"({"params":{"n":3}})");
    context.Log("half way");
    context.Heartbeat();
    return Number{2 * in.n};
  });
  EXPECT_EQ(outcome.verdict, Verdict::kSucceeded);
  EXPECT_EQ(outcome.output, R"({"n":6})");
  EXPECT_LE(outcome.started_at, outcome.ended_at);
  EXPECT_EQ(lines_.lines[1], (std::vector<std::pair<std::int64_t, std::string>>{{1, "half way"}}));
  EXPECT_EQ(executor_->GetMetrics().executed, 1U);
  EXPECT_EQ(executor_->GetMetrics().failed, 0U);
}

TEST_F(InlineExecutorTest, EachWayToEndHasItsVerdict) {
  Start();
  struct Case {
    const char* name;
    std::function<TaskResult<Json>()> code;
    Verdict verdict;
    Reason reason;
    std::string error;
  };
  const std::vector<Case> cases = {
      {"empty", [] { return Json(); }, Verdict::kSucceeded, Reason::kNone, ""},
      {"throws", []() -> TaskResult<Json> { throw std::runtime_error("boom"); }, Verdict::kRetry,
       Reason::kError, "boom"},
      {"throws_int", []() -> TaskResult<Json> { throw 7; }, Verdict::kRetry, Reason::kError,
       "the task threw something that is no std::exception"},
      {"throws_fail", []() -> TaskResult<Json> { throw Fail("never"); }, Verdict::kFailed,
       Reason::kError, "never"},
      {"fail", [] { return Fail("no"); }, Verdict::kFailed, Reason::kError, "no"},
      {"throws_skip", []() -> TaskResult<Json> { throw Skip("idle"); }, Verdict::kSkipped,
       Reason::kNone, "idle"},
      {"skip", [] { return Skip("nothing"); }, Verdict::kSkipped, Reason::kNone, "nothing"},
      {"snooze", [] { return Snooze(90s, "not yet"); }, Verdict::kSnoozed, Reason::kSnooze,
       "not yet"},
      {"throws_snooze", []() -> TaskResult<Json> { throw Snooze(90s); }, Verdict::kSnoozed,
       Reason::kSnooze, ""},
      {"cancelled_itself", []() -> TaskResult<Json> { throw Cancelled(); }, Verdict::kRetry,
       Reason::kError, "the task stopped itself"},
      {"array", [] { return Json("[1]"); }, Verdict::kFailed, Reason::kOutput,
       "output must be a JSON object ({\"key\": value}), not array"},
      {"nan", [] { return Json(R"({"x":NaN})"); }, Verdict::kFailed, Reason::kOutput, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Instant before = clock_.Now();
    const Outcome outcome = RunOnce(c.name, c.code);
    EXPECT_EQ(outcome.verdict, c.verdict);
    EXPECT_EQ(outcome.reason, c.reason);
    if (std::string_view(c.name) != "nan") EXPECT_EQ(outcome.error, c.error);
    if (c.verdict == Verdict::kSnoozed) {
      EXPECT_GE(outcome.not_before, before + 90s);
      EXPECT_LE(outcome.not_before, clock_.Now() + 90s);
    }
    EXPECT_TRUE(outcome.output.empty());
  }
  EXPECT_EQ(executor_->GetMetrics().executed, cases.size());
}

TEST_F(InlineExecutorTest, OutputIsWhatItIsDeclaredToBe) {
  Start();
  const auto run = [&](const std::string& name, std::string_view json) {
    Attempt attempt = Make(name, [text = std::string(json)] { return Json(text); });
    model::WorkflowDefinition definition = attempt.workflow->definition();
    definition.tasks[0].output.type_json = R"({"n":"integer"})";
    auto workflow = model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    attempt.workflow = *workflow;
    Offer(attempt);
    return sink_.WaitEnded(attempt.key.epoch.value);
  };
  EXPECT_EQ(run("good", R"({"n":3})").output, R"({"n":3})");
  const Outcome wrong = run("wrong", R"({"n":"3"})");
  EXPECT_EQ(wrong.verdict, Verdict::kFailed);
  EXPECT_EQ(wrong.reason, Reason::kOutput);
  EXPECT_TRUE(wrong.error.starts_with("output.n is \"3\", but is declared as \"integer\""))
      << wrong.error;
  EXPECT_EQ(run("none", "").reason, Reason::kOutput);
}

TEST_F(InlineExecutorTest, OutputIsBoundedAtOneMebibyte) {
  Start();
  const auto object_of = [](std::size_t bytes) {
    return Json(R"({"x":")" + std::string(bytes - 8, 'a') + R"("})");
  };
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_EQ(RunOnce("at", [&] { return object_of(kMiB); }).verdict, Verdict::kSucceeded);
  const Outcome over = RunOnce("over", [&] { return object_of(kMiB + 1); });
  EXPECT_EQ(over.verdict, Verdict::kFailed);
  EXPECT_EQ(over.reason, Reason::kOutput);
}

TEST_F(InlineExecutorTest, AnOverlongErrorIsCut) {
  Start();
  const Outcome outcome =
      RunOnce("long", []() { throw std::runtime_error(std::string(5000, 'e')); });
  EXPECT_EQ(outcome.error.size(), 4096U);
}

TEST_F(InlineExecutorTest, InputThatDoesNotFitFailsWithoutRetry) {
  Start();
  inputs_.merged = R"({"n":"three"})";
  const Outcome outcome = RunOnce("typed", [](const Number&) { FAIL(); });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.error,
            "n of input: expected an integer from -2147483648 to 2147483647, found a string "
            "\"three\"");
}

TEST_F(InlineExecutorTest, AnUnreachableStoreUsesNoTry) {
  Start();
  inputs_.error = Error{Code::kUnavailable, "store is away"};
  const Outcome outcome = RunOnce("code", [](const Number&) { FAIL(); });
  EXPECT_EQ(outcome.verdict, Verdict::kSnoozed);
  EXPECT_EQ(outcome.not_before - outcome.ended_at, 1s);

  inputs_.error = Error{Code::kCorrupt, "bad bytes"};
  const Attempt again = MakeAgain("code");
  Offer(again);
  const Outcome corrupt = sink_.WaitEnded(again.key.epoch.value);
  EXPECT_EQ(corrupt.verdict, Verdict::kFailed);
  EXPECT_EQ(corrupt.reason, Reason::kDispatchFailed);
}

TEST_F(InlineExecutorTest, WhatTakesNoInputLoadsNone) {
  Start();
  inputs_.error = Error{Code::kUnavailable, "store is away"};
  EXPECT_EQ(RunOnce("code", [] {}).verdict, Verdict::kSucceeded);
}

TEST_F(InlineExecutorTest, WhatItDoesNotKnowIsRejectedAndWhatItNeverRunsIsRefused) {
  Start();
  WorkflowBuilder builder("w");
  builder.Task("shell").Run("true");
  Attempt attempt = MakeAgain("absent");
  EXPECT_EQ(executor_->Offer(attempt).disposition, Disposition::kRejected);
  attempt.workflow = *builder.Build();
  EXPECT_EQ(executor_->Offer(attempt).disposition, Disposition::kRefused);
}

TEST_F(InlineExecutorTest, AnEpochRunsOnceHoweverOftenOffered) {
  Start();
  std::atomic<int> calls{0};
  Gate gate;
  const Attempt attempt = Make("once", [&] {
    ++calls;
    gate.Wait();
  });
  Offer(attempt);
  sink_.WaitStarted(1);
  Offer(attempt);
  gate.Open();
  sink_.WaitEnded(1);
  Offer(attempt);  // ended, not settled: its verdict stands
  const auto inspected = executor_->Inspect({&attempt, 1});
  ASSERT_TRUE(inspected);
  EXPECT_EQ(std::get<executor::Ended>((*inspected)[0]).outcome.verdict, Verdict::kSucceeded);
  ASSERT_TRUE(executor_->Drain(kDeadline));
  EXPECT_EQ(calls, 1);
}

TEST_F(InlineExecutorTest, IsFullAtCapacityAndSaysWhenThereIsRoom) {
  Start({.threads = 1, .queue_depth = 2});
  Gate gate;
  std::vector<Attempt> attempts = {Make("wait", [&] { gate.Wait(); })};
  for (int i = 0; i < 3; ++i) attempts.push_back(MakeAgain("wait"));
  EXPECT_EQ(executor_->GetCapacity().max, 3U);
  for (int i = 0; i < 3; ++i) Offer(attempts[i]);
  sink_.WaitStarted(1);
  EXPECT_EQ(executor_->GetCapacity().free(), 0U);
  EXPECT_EQ(executor_->Offer(attempts[3]).disposition, Disposition::kDeferred);
  EXPECT_EQ(executor_->List().size(), 3U);
  const auto inspected = executor_->Inspect(attempts);
  ASSERT_TRUE(inspected);
  EXPECT_TRUE(std::holds_alternative<executor::Running>((*inspected)[0]));
  EXPECT_TRUE(std::holds_alternative<executor::Pending>((*inspected)[1]));
  EXPECT_TRUE(std::holds_alternative<executor::Absent>((*inspected)[3]));
  gate.Open();
  sink_.WaitCapacity(1);
  sink_.WaitEndedCount(3);
  Offer(attempts[3]);
  sink_.WaitEnded(4);
  EXPECT_TRUE(executor_->List().empty());
}

TEST_F(InlineExecutorTest, UnsettledVerdictsAreBounded) {
  Start({.threads = 1, .queue_depth = 2, .max_unsettled = 2});
  std::vector<Attempt> attempts = {Make("quick", [] {}), MakeAgain("quick"), MakeAgain("quick")};
  Offer(attempts[0]);
  Offer(attempts[1]);
  sink_.WaitEndedCount(2);
  EXPECT_EQ(executor_->GetCapacity().free(), 0U);
  EXPECT_EQ(executor_->Offer(attempts[2]).disposition, Disposition::kDeferred);
  executor_->Settled(std::array{attempts[0].key});
  sink_.WaitCapacity(1);
  Offer(attempts[2]);
  sink_.WaitEnded(3);
}

TEST_F(InlineExecutorTest, UnsettledOutputIsBounded) {
  Start({.threads = 1, .queue_depth = 2, .max_unsettled_bytes = 10});
  const Attempt attempt = Make("ten", [] { return Json(R"({"a":1234})"); });
  Offer(attempt);
  sink_.WaitEnded(1);
  EXPECT_EQ(executor_->Offer(MakeAgain("ten")).disposition, Disposition::kDeferred);
  executor_->Settled(std::array{attempt.key});
  sink_.WaitCapacity(1);
  EXPECT_EQ(executor_->GetCapacity().free(), 3U);
}

/// Waits in user code until it is told to stop.
void UntilStopped(TaskContext& context) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, context.stop_token(), [] { return false; });
}

TEST_F(InlineExecutorTest, CancelStopsARunningTask) {
  Start();
  const Attempt attempt = Make("until", [](TaskContext& context) {
    UntilStopped(context);
    context.ThrowIfCancelled();
  });
  Offer(attempt);
  sink_.WaitStarted(1);
  executor_->Cancel(attempt.key);
  executor_->Cancel(attempt.key);
  const Outcome outcome = sink_.WaitEnded(1);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(outcome.reason, Reason::kCancelRequested);
}

TEST_F(InlineExecutorTest, ASuccessAfterCancelStaysOne) {
  Start();
  const Attempt attempt = Make("until", [](TaskContext& context) {
    UntilStopped(context);
    return Number{1};
  });
  Offer(attempt);
  sink_.WaitStarted(1);
  executor_->Cancel(attempt.key);
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kSucceeded);
}

TEST_F(InlineExecutorTest, CancelEndsAWaitingAttemptAtOnce) {
  Start({.threads = 1, .queue_depth = 2});
  Gate gate;
  Offer(Make("wait", [&] { gate.Wait(); }));
  sink_.WaitStarted(1);
  const Attempt second = MakeAgain("wait");
  Offer(second);
  executor_->Cancel(second.key);
  EXPECT_EQ(sink_.WaitEnded(2).verdict, Verdict::kCancelled);
  gate.Open();
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kSucceeded);
  EXPECT_EQ(sink_.started(), 1U);
}

TEST_F(InlineExecutorTest, AStopCallbackDoesNotRunOnTheCallersThread) {
  Start();
  std::atomic<std::thread::id> stopper;
  const Attempt attempt = Make("callback", [&](TaskContext& context) {
    const std::stop_callback note(context.stop_token(),
                                  [&] { stopper = std::this_thread::get_id(); });
    UntilStopped(context);
  });
  Offer(attempt);
  sink_.WaitStarted(1);
  executor_->Cancel(attempt.key);
  sink_.WaitEnded(1);
  EXPECT_NE(stopper.load(), std::this_thread::get_id());
  EXPECT_NE(stopper.load(), std::thread::id());
}

TEST_F(InlineExecutorTest, ATimeoutAsksTheTaskToStopAndIsATry) {
  Start();
  const Outcome outcome =
      RunOnce("slow", [](TaskContext& context) { UntilStopped(context); }, 20ms);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kTimeout);
  EXPECT_EQ(outcome.error, "over its timeout of 20ms");
  EXPECT_GE(outcome.ended_at - outcome.started_at, 20ms);
  const Outcome quick = RunOnce("quick", [] {}, 1h);
  EXPECT_EQ(quick.verdict, Verdict::kSucceeded);
}

TEST_F(InlineExecutorTest, DrainInterruptsWhatHasNotBegunAndStopsTheRest) {
  Start({.threads = 1, .queue_depth = 2});
  const Attempt running = Make("until", [](TaskContext& context) {
    UntilStopped(context);
    context.ThrowIfCancelled();
  });
  const Attempt waiting = MakeAgain("until");
  Offer(running);
  sink_.WaitStarted(1);
  Offer(waiting);
  const Status drained = executor_->Drain(1ms);
  EXPECT_TRUE(drained);
  EXPECT_EQ(sink_.ended(), 2U);
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kInterrupted);
  EXPECT_EQ(sink_.WaitEnded(2).verdict, Verdict::kInterrupted);
  EXPECT_EQ(sink_.started(), 1U);
  EXPECT_EQ(executor_->Offer(MakeAgain("until")).disposition, Disposition::kDeferred);
  EXPECT_TRUE(executor_->Drain(Duration{0}));
}

TEST_F(InlineExecutorTest, DrainLetsWhatRunsEndByItself) {
  Start({.threads = 1, .queue_depth = 2});
  std::atomic<bool> stopped = false;
  Offer(Make("until", [&](TaskContext& context) {
    const auto end = clock_.Monotonic() + 50ms;
    while (clock_.Monotonic() < end) stopped = stopped || context.stop_token().stop_requested();
  }));
  const Attempt waiting = MakeAgain("until");
  sink_.WaitStarted(1);
  Offer(waiting);
  EXPECT_TRUE(executor_->Drain(kDeadline));
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kSucceeded);
  EXPECT_EQ(sink_.WaitEnded(2).verdict, Verdict::kInterrupted) << "it had not begun";
  EXPECT_FALSE(stopped);
}

TEST_F(InlineExecutorTest, DrainNamesWhatDoesNotStop) {
  Start();
  Gate gate;
  grace_ = 1ms;
  Offer(Make("deaf", [&] { gate.Wait(); }));
  sink_.WaitStarted(1);
  const Status drained = executor_->Drain(1ms);
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, Code::kDrainTimeout);
  EXPECT_NE(drained.error().message.find("t of run 0190a1b2"), std::string::npos)
      << drained.error().message;
  EXPECT_EQ(sink_.ended(), 0U);
  gate.Open();
  EXPECT_TRUE(executor_->Drain(kDeadline));
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kSucceeded);
}

TEST_F(InlineExecutorTest, LongLinesAreSplitAndLogsAreBounded) {
  Start();
  RunOnce("lines", [](TaskContext& context) {
    context.Log(std::string(64 * 1024 + 1, 'a'));
    context.Log("");
  });
  const auto& lines = lines_.lines[1];
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].second.size(), 64U * 1024);
  EXPECT_EQ(lines[1].second, "a");
  EXPECT_EQ(lines[2], (std::pair<std::int64_t, std::string>{3, ""}));

  RunOnce("flood", [](TaskContext& context) {
    const std::string line(64 * 1024 - 1, 'b');
    for (int i = 0; i < 1030; ++i) context.Log(line);
  });
  ASSERT_EQ(lines_.lines[2].size(), 1025U);
  EXPECT_EQ(lines_.lines[2].back().second,
            "[headworks: 64 MiB of log reached; the rest is not kept]");
}

TEST_F(InlineExecutorTest, TextOfSeveralLinesIsSeveralLines) {
  Start();
  RunOnce("lines", [](TaskContext& context) {
    context.Log("a\n\nb");
    context.Log("c\n");
    context.Log("\n");
    context.Log(std::string(std::size_t{64} * 1024, 'd') + "\ne");
  });
  std::vector<std::string> lines;
  for (const auto& [number, line] : lines_.lines[1]) lines.push_back(line);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "", "b", "c", "",
                                             std::string(std::size_t{64} * 1024, 'd'), "e"}));
}

TEST_F(InlineExecutorTest, LostLogLinesAreAnnounced) {
  Start();
  lines_.broken = true;
  EXPECT_EQ(RunOnce("log", [](TaskContext& context) { context.Log("x"); }).verdict,
            Verdict::kSucceeded);
  EXPECT_EQ(log_.errors, 1);
}

TEST_F(InlineExecutorTest, OptionsOutOfBoundsAreRefused) {
  const auto start = [&](InlineOptions options) {
    executor_ = NewInlineExecutor(options, {.registry = registry_,
                                            .resolver = inputs_,
                                            .lines = lines_,
                                            .clock = clock_,
                                            .log = log_,
                                            .ledger = ledger_.get()});
    return executor_->Start(sink_);
  };
  EXPECT_EQ(start({.threads = 1025}).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(start({.threads = 1}));
  EXPECT_EQ(executor_->Start(sink_).error().code, Code::kConflict);
}

TEST_F(InlineExecutorTest, DefersBeforeItIsStarted) {
  executor_ = NewInlineExecutor({}, {.registry = registry_,
                                     .resolver = inputs_,
                                     .lines = lines_,
                                     .clock = clock_,
                                     .log = log_,
                                     .ledger = nullptr});
  const Attempt attempt = Make("x", [] {});
  EXPECT_EQ(executor_->Offer(attempt).disposition, Disposition::kDeferred);
  EXPECT_TRUE(executor_->Drain(Duration{0}));
}

/// With a ledger, over incarnations.
class InlineLedgerTest : public InlineExecutorTest {
 protected:
  static constexpr InlineOptions kSmall = {.threads = 2, .queue_depth = 4, .max_unsettled = 8};
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("headworks-inline-" + std::to_string(::getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    executor_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Open() {
    auto ledger = executor::StartLedger::Open(folder_ / "db.started", "boot",
                                              LedgerCapacity(kSmall), RunNo(1));
    ASSERT_TRUE(ledger) << ledger.error().message;
    ledger_ = *std::move(ledger);
  }
  std::filesystem::path folder_;
};

TEST_F(InlineLedgerTest, WhatBeganBeforeACrashIsLostAndTheRestIsAbsent) {
  const Attempt begun = Make("code", [] {});
  const Attempt not_begun = MakeAgain("code");
  const std::vector<AttemptKey> live = {begun.key, not_begun.key};
  Open();
  ASSERT_TRUE(ledger_->MarkStarted(begun.key));  // an incarnation that ended right here
  ledger_.reset();

  Open();
  Start(kSmall);
  const auto inspected = executor_->Inspect(std::array{begun, not_begun});
  ASSERT_TRUE(inspected);
  EXPECT_EQ(std::get<executor::Ended>((*inspected)[0]).outcome.verdict, Verdict::kLost);
  EXPECT_TRUE(std::holds_alternative<executor::Absent>((*inspected)[1]));

  // Offered without being asked about first: it still does not run twice.
  Offer(begun);
  EXPECT_EQ(sink_.WaitEnded(1).verdict, Verdict::kLost);
  Offer(not_begun);
  EXPECT_EQ(sink_.WaitEnded(2).verdict, Verdict::kSucceeded);
  EXPECT_EQ(sink_.started(), 1U);
  executor_->Settled(live);
  EXPECT_FALSE(ledger_->WasStarted(begun.key));
  EXPECT_FALSE(ledger_->WasStarted(not_begun.key));
}

TEST_F(InlineLedgerTest, AfterKillMinusNineOnlyWhatBeganIsLost) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Attempt begun = Make("code", [&] {
    const char byte = 'x';
    if (::write(ends[1], &byte, 1) != 1) ::_exit(3);
    ::pause();
  });
  const Attempt waiting = MakeAgain("code");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Open();
    InlineOptions one = kSmall;
    one.threads = 1;
    Start(one);
    Offer(begun);
    Offer(waiting);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);

  Open();
  Start(kSmall);
  const auto inspected = executor_->Inspect(std::array{begun, waiting});
  ASSERT_TRUE(inspected);
  EXPECT_EQ(std::get<executor::Ended>((*inspected)[0]).outcome.verdict, Verdict::kLost);
  EXPECT_TRUE(std::holds_alternative<executor::Absent>((*inspected)[1]));
}

TEST_F(InlineLedgerTest, ALedgerThatIsTooSmallIsRefused) {
  auto ledger =
      executor::StartLedger::Open(folder_ / "small", "boot", LedgerCapacity(kSmall) - 1, RunNo(1));
  ASSERT_TRUE(ledger);
  executor_ = NewInlineExecutor(kSmall, {.registry = registry_,
                                         .resolver = inputs_,
                                         .lines = lines_,
                                         .clock = clock_,
                                         .log = log_,
                                         .ledger = ledger->get()});
  EXPECT_EQ(executor_->Start(sink_).error().code, Code::kInvalidArgument);
  executor_.reset();
}

TEST_F(InlineLedgerTest, WhereTheLedgerCannotGrowNothingStartsAndNoTryIsUsed) {
  InlineOptions options = kSmall;
  options.max_unsettled = 10'000;
  const Attempt attempt = Make("code", [] {});
  auto ledger = executor::StartLedger::Open(folder_ / "db.started", "boot", LedgerCapacity(options),
                                            RunNo(1));
  ASSERT_TRUE(ledger);
  ledger_ = *std::move(ledger);
  std::filesystem::create_directories(folder_ / "db.started.new");  // as if the disk were full
  AttemptKey earlier = attempt.key;
  earlier.run = RunNo(attempt.key.run.value + 1);
  while (ledger_->MarkStarted(earlier)) ++earlier.epoch.value;
  Start(options);
  Offer(attempt);
  const Outcome outcome = sink_.WaitEnded(1);
  EXPECT_EQ(outcome.verdict, Verdict::kSnoozed) << outcome.error;
  EXPECT_GT(outcome.not_before, outcome.ended_at);
  EXPECT_EQ(sink_.started(), 0U);
  EXPECT_FALSE(ledger_->WasStarted(attempt.key));
}

TEST_F(InlineLedgerTest, ManyAttemptsFromManyThreadsEachEndOnce) {
  Open();
  Start(kSmall);
  std::atomic<int> calls{0};
  const Attempt first = Make("count", [&] { ++calls; });
  constexpr int kAttempts = 4000;
  std::atomic<int> next{0};
  std::vector<std::jthread> offering;
  offering.reserve(2);
  for (int i = 0; i < 2; ++i)
    offering.emplace_back([&] {
      for (int n = ++next; n <= kAttempts; n = ++next) {
        Attempt attempt = first;
        attempt.key.epoch = Epoch(n);
        while (executor_->Offer(attempt).disposition == Disposition::kDeferred)
          std::this_thread::yield();
        if (n % 7 == 0) executor_->Cancel(attempt.key);
        sink_.WaitEnded(n);
        executor_->Settled(std::array{attempt.key});
      }
    });
  offering.clear();
  EXPECT_EQ(sink_.ended(), static_cast<std::size_t>(kAttempts));
  EXPECT_EQ(static_cast<std::size_t>(calls), sink_.started());
  EXPECT_TRUE(executor_->Drain(kDeadline));
  EXPECT_EQ(executor_->GetCapacity().used, 0U);
}

}  // namespace
}  // namespace headworks::executor_inline
