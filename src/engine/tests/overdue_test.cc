#include <gtest/gtest.h>

#include "tests/disposition_rig.h"

// Attempts that an executor took and that do not start; some executors answer at once, others from
// behind a buffer.
namespace headworks::engine {
namespace {

using executor::Absent;
using executor::Pending;
using executor::Unknown;
using model::Disposition;
using model::Reason;
using model::RunState;
using model::TaskState;
using model::Verdict;
using namespace std::chrono_literals;

class OverdueTest : public DispositionTest {
 protected:
  std::vector<std::string> Overdue(RunNo run) {
    std::vector<std::string> details;
    for (const auto& event : *store_.query().ListEvents(tenant_, run, 100))
      if (event.kind == "overdue") details.push_back(event.detail);
    return details;
  }
};

INSTANTIATE_TEST_SUITE_P(Answers, OverdueTest, testing::Values(0, 64),
                         [](const auto& at) { return at.param == 0 ? "AtOnce" : "Late"; });

TEST_P(OverdueTest, WhatItsExecutorDoesNotHaveIsALossAndIsOfferedUnderANewEpoch) {
  const RunNo run = Start();
  Pass(9min + 59s, 1s);
  EXPECT_EQ(platform_.inspections, 0);
  platform_.here.clear();
  Pass(3s, 1s);
  EXPECT_EQ(platform_.inspections, 2) << "an answer might have been in the mail";
  const auto attempts = Attempts(run);
  ASSERT_EQ(attempts.size(), 1U);
  EXPECT_EQ(attempts[0].outcome.verdict, Verdict::kLost);
  EXPECT_EQ(attempts[0].outcome.reason, Reason::kLost);
  EXPECT_EQ(Row(run).losses, 1);
  EXPECT_EQ(Row(run).tries, 0);
  ASSERT_EQ(platform_.offered.size(), 2U);
  EXPECT_EQ(platform_.offered[1].key.epoch, Epoch(2));
  platform_.EndAll(Verdict::kSucceeded);
  Tick(2);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
}

TEST_P(OverdueTest, AnExecutorThatForgetsEachEndsTheTaskAsLostAfterItsBudget) {
  const RunNo run = Start(1, [](model::Task& task) {
    task.start_timeout = 1s;
    task.retry.max_losses = 3;
  });
  platform_.says = Absent{};
  Pass(30s);
  EXPECT_EQ(Epochs().size(), 3U);
  EXPECT_EQ(Row(run).state, TaskState::kFailed);
  EXPECT_EQ(Row(run).reason, Reason::kLost);
  EXPECT_FALSE(Row(run).zombie);
}

TEST_P(OverdueTest, WhatIsPendingIsShownOnceAndStartsLate) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 2min; });
  platform_.says = Pending{"pulls its image"};
  Pass(2min + 1s, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  EXPECT_EQ(Row(run).reason, Reason::kPending);
  EXPECT_EQ(engine_.stats().attempts_pending, 1U);
  EXPECT_EQ(
      Overdue(run),
      std::vector<std::string>{
          "t0: attempt 1 has not started within 2m00s; its executor has it: pulls its image"});
  const std::size_t writes = store_.sent.size();
  Pass(50min, 5s);
  EXPECT_EQ(store_.sent.size(), writes) << "asked again and again, written once";
  EXPECT_GE(platform_.inspections, 40);
  engine_.Started(platform_.offered[0].key);
  Pass(1min, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kRunning);
  EXPECT_EQ(Row(run).reason, Reason::kNone);
  Pass(2h, 30s);
  EXPECT_EQ(Row(run).state, TaskState::kRunning) << "the bound was one for its start";
  EXPECT_EQ(engine_.stats().attempts_pending, 0U);
  EXPECT_EQ(Epochs().size(), 1U);
}

TEST_P(OverdueTest, AfterPendingTimeoutItsTaskFailsAndTheAttemptStaysAZombie) {
  const RunNo run = Start(1, [](model::Task& task) {
    task.start_timeout = 1min;
    task.retry.max_attempts = 5;
  });
  platform_.says = Pending{"no node is free"};
  Pass(1h + 59s, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  Pass(4s, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kFailed);
  EXPECT_EQ(Row(run).reason, Reason::kPendingTimeout);
  EXPECT_TRUE(Row(run).zombie);
  EXPECT_EQ(Image(run).header.state, RunState::kFailed);
  EXPECT_EQ(Epochs().size(), 1U) << "no new epoch";
  EXPECT_EQ(platform_.cancelled.size(), 1U);
  EXPECT_EQ(engine_.stats().live_attempts, 1U) << "it keeps its place";
  EXPECT_EQ(engine_.stats().attempts_pending, 0U);
  platform_.EndAll(Verdict::kCancelled);
  Tick(2);
  EXPECT_FALSE(Row(run).zombie);
  EXPECT_EQ(engine_.stats().live_attempts, 0U);
}

TEST_P(OverdueTest, WhatWaitsInLineIsShownAndNeverCounted) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 1min; });
  platform_.says = Pending{"waits for a worker", true};
  Pass(5h, 5s);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  EXPECT_EQ(Row(run).reason, Reason::kPending);
  EXPECT_EQ(engine_.stats().attempts_pending, 1U);
  EXPECT_EQ(Overdue(run),
            std::vector<std::string>{"t0: attempt 1 has not started within 1m00s; its executor has "
                                     "it: waits for a worker"});
  platform_.says = Pending{"a worker has it"};
  Pass(1h, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kQueued) << "its start_timeout begins when it is out of it";
  Pass(3min, 1s);
  EXPECT_EQ(Row(run).reason, Reason::kPendingTimeout);
  EXPECT_EQ(Epochs().size(), 1U);
}

TEST_P(OverdueTest, HoweverShortItsTimeItIsAskedAboutOnceASecondAtMost) {
  for (const executor::Inspection& says :
       {executor::Inspection(Pending{"waits for a worker", true}),
        executor::Inspection(Pending{"pulls its image"}), executor::Inspection(Unknown{"why"})}) {
    Start(1, [](model::Task& task) { task.start_timeout = 1us; });
    platform_.says = says;
    Pass(1s, 2ms);
    platform_.inspections = 0;
    Pass(10s, 2ms);
    EXPECT_GE(platform_.inspections, 9) << says.index();
    EXPECT_LE(platform_.inspections, 11) << says.index();
    EXPECT_GE(engine_.Tick(), clock_.Monotonic() + 1ms) << "nor does it spin";
    platform_.EndAll(Verdict::kSucceeded);
    Tick(2);
  }
}

TEST_P(OverdueTest, ARunThatComesBackAgainAndAgainIsAskedAboutNoOftener) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 1min; });
  const RunNo other = Start();
  platform_.says = Pending{"waits for a worker", true};
  Pass(2s);
  bool failed = true;
  store_.before = [&](const store::Round&) -> Status {
    if (std::exchange(failed, true)) return {};
    return Error{Code::kInternal, "refused"};
  };
  for (int failure = 0; failure < 5; ++failure) {
    failed = false;
    const auto kind =
        failure % 2 == 0 ? control::CommandKind::kPause : control::CommandKind::kResume;
    for (const RunNo of : {run, other})  // two, so that their round is halved
      engine_.Execute({.tenant = tenant_, .kind = kind, .run = of},
                      [](const Status& done) { EXPECT_TRUE(done); });
    Pass(1s);
    EXPECT_TRUE(failed);
  }
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  Pass(51s);
  EXPECT_EQ(platform_.inspections, 0) << "its clock did not begin anew";
  Pass(3s);
  platform_.inspections = 0;
  Pass(5min);
  EXPECT_GE(platform_.inspections, 5);
  EXPECT_LE(platform_.inspections, 6);
  platform_.EndAll(Verdict::kSucceeded);
}

TEST_P(OverdueTest, WhatNobodyKnowsAlarmsAndCountsTowardsTheSameBound) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 1min; });
  platform_.says = Pending{"no node is free"};
  Pass(30min, 1s);
  platform_.says = Unknown{"the API does not answer"};
  Pass(2min, 1s);
  EXPECT_EQ(Row(run).reason, Reason::kUnknown);
  EXPECT_EQ(engine_.stats().attempts_pending, 0U);
  EXPECT_EQ(engine_.stats().attempts_unknown, 1U);
  EXPECT_EQ(
      Overdue(run).back(),
      "t0: attempt 1 has not started within 1m00s; its executor cannot say what became of it: "
      "the API does not answer");
  Pass(30min, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kFailed);
  EXPECT_EQ(Row(run).reason, Reason::kUnknown);
  EXPECT_TRUE(Row(run).zombie);
  EXPECT_EQ(Epochs().size(), 1U);
}

TEST_P(OverdueTest, ItsClockStandsWhileNoExecutorHasIt) {
  for (const auto disposition :
       {Disposition::kTransient, Disposition::kBackpressure, Disposition::kDeferred}) {
    platform_.answer = Says(disposition, "later");
    platform_.inspections = 0;
    const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 2s; });
    Pass(30min, 1s);
    EXPECT_EQ(platform_.inspections, 0) << model::DispositionName(disposition);
    EXPECT_EQ(Row(run).reason, Reason::kNone);
    platform_.answer = Says(Disposition::kDispatched, "");
    while (platform_.here.empty()) Pass(100ms);
    Pass(1'500ms);
    EXPECT_EQ(platform_.inspections, 0) << "it begins when it is taken";
    Pass(1s);
    EXPECT_EQ(platform_.inspections, 1);
    platform_.EndAll(Verdict::kSucceeded);
    Tick(2);
    EXPECT_TRUE(Attempts(run).size() == 1 && Row(run).losses == 0);
  }
}

TEST_P(OverdueTest, ARunThatIsCancelledHasItsOwnBounds) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 1min; });
  platform_.says = Pending{"no node is free"};
  Pass(2min, 1s);
  engine_.Execute({.tenant = tenant_, .kind = control::CommandKind::kCancel, .run = run},
                  [](const Status&) {});
  Pass(2h, 30s);
  EXPECT_EQ(Row(run).reason, Reason::kCancelTimeout);
  EXPECT_EQ(engine_.stats().attempts_pending, 0U);
}

class OverdueBufferTest : public OverdueTest {};
INSTANTIATE_TEST_SUITE_P(Buffer, OverdueBufferTest, testing::Values(64));

TEST_P(OverdueBufferTest, WhatWaitsInTheBufferIsPendingAndNeitherLostNorTimedOut) {
  sends_ = false;
  const RunNo run = Start(1, [](model::Task& task) {
    task.start_timeout = 1min;
    task.timeout = 1min;
  });
  Pass(30min, 1s);
  EXPECT_EQ(Row(run).reason, Reason::kPending);
  EXPECT_EQ(Overdue(run),
            std::vector<std::string>{"t0: attempt 1 has not started within 1m00s; its "
                                     "executor has it: waits in the dispatch buffer"});
  sends_ = true;
  Tick();
  platform_.EndAll(Verdict::kSucceeded);
  Tick(2);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(Row(run).losses, 0);
}

class OverdueRestartTest : public OverdueTest {};
INSTANTIATE_TEST_SUITE_P(AtOnce, OverdueRestartTest, testing::Values(0));

TEST_P(OverdueRestartTest, ANextEngineGivesItNoFurtherHour) {
  const RunNo run = Start(1, [](model::Task& task) { task.start_timeout = 1min; });
  platform_.says = Pending{"no node is free"};
  Pass(40min, 1s);
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next"}, store_, buffer_, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  const auto pass = [&](Duration time) {
    for (const Duration until = clock_.Monotonic() + time; clock_.Monotonic() < until;) {
      next.Tick();
      clock_.Advance(1s);
    }
  };
  pass(20min);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  pass(2min);
  EXPECT_EQ(Row(run).reason, Reason::kPendingTimeout);
  EXPECT_TRUE(next.Close());
}

TEST_P(OverdueRestartTest, AfterACrashTheSameEpochIsOfferedIfItNeverArrived) {
  const RunNo run = Start();  // its row is committed, and it was offered
  for (const bool arrived : {false, true}) {
    if (!arrived) platform_.here.clear();
    const std::size_t offers = platform_.offered.size();
    clock_.Advance(11s);  // and its engine is gone
    Engine next({.owner = arrived ? "third" : "second"}, store_, buffer_, evaluator_, clock_,
                random_, logger_, nullptr);
    ASSERT_TRUE(next.Open());
    for (int i = 0; i < 5; ++i) next.Tick();
    EXPECT_EQ(platform_.offered.size(), offers + (arrived ? 0 : 1));
    EXPECT_EQ(platform_.offered.back().key.epoch, Epoch(1));
    EXPECT_EQ(Row(run).state, arrived ? TaskState::kRunning : TaskState::kQueued);
    EXPECT_EQ(Row(run).losses, 0);
  }
}

// ---- What the platform says of tasks.

class DefaultsTest : public EngineTest {
 protected:
  void SetUp() override {
    EXPECT_TRUE(engine_.Close());
    model::PlatformDefaults defaults;
    defaults.timeout = 1min;
    defaults.start_timeout = 2min;
    defaults.retry.max_attempts = 3;
    defaults.retry.initial = 7s;
    defaults.retry.backoff = model::Backoff::kFixed;
    defaults.retry.jitter = 0;
    defaults.resources = {.cpu = 0.5, .memory = 1U << 20};
    next_ = std::make_unique<Engine>(EngineOptions{.owner = "next", .defaults = defaults}, store_,
                                     dispatcher_, evaluator_, clock_, random_, logger_, nullptr);
    EXPECT_TRUE(next_->Open());
  }
  RunNo Begin(const model::Workflow& workflow) {
    RunNo run(0);
    next_->Start(
        {.tenant = tenant_, .name = workflow.name(), .version = workflow.version(), .input = "{}"},
        [&](Result<control::Started> started) { run = started->run; });
    Pass(20ms);
    return run;
  }
  void Pass(Duration time, Duration step = 10ms) {
    for (const Duration until = clock_.Monotonic() + time; clock_.Monotonic() < until;) {
      next_->Tick();
      clock_.Advance(step);
    }
  }
  model::StoredTask Row(RunNo run) { return store_.runs().LoadRun(tenant_, run)->tasks.at(0); }

  std::unique_ptr<Engine> next_;
};

TEST_F(DefaultsTest, GapsAreFilledAndWhatIsSaidStays) {
  auto definition = Tasks("gaps", 2);
  model::Task& said = definition.tasks[1];
  said.timeout = 5s;
  said.start_timeout = 6s;
  said.retry.max_attempts = 1;
  said.Say(model::Gap::kMaxAttempts);
  said.resources.cpu = 2;
  const auto workflow = Put(std::move(definition));
  Begin(*workflow);
  ASSERT_EQ(dispatcher_.taken.size(), 2U);
  const model::Task& filled = dispatcher_.taken[0].task();
  EXPECT_EQ(dispatcher_.taken[0].timeout, 1min);
  EXPECT_EQ(filled.start_timeout, 2min);
  EXPECT_EQ(filled.retry.max_attempts, 3);
  EXPECT_EQ(filled.resources, (model::Resources{.cpu = 0.5, .memory = 1U << 20}));
  const model::Task& kept = dispatcher_.taken[1].task();
  EXPECT_EQ(dispatcher_.taken[1].timeout, 5s);
  EXPECT_EQ(kept.start_timeout, 6s);
  EXPECT_EQ(kept.retry.max_attempts, 1);
  EXPECT_EQ(kept.retry.initial, 7s) << "field by field";
  EXPECT_EQ(kept.resources, (model::Resources{.cpu = 2, .memory = 1U << 20}));
  EXPECT_EQ(dispatcher_.taken[0].workflow->version(), workflow->version());
  EXPECT_EQ(dispatcher_.taken[0].workflow->canonical_json(), workflow->canonical_json());
}

TEST_F(DefaultsTest, TheDefaultRetriesAreMade) {
  const RunNo run = Begin(*Put(Tasks("retries", 1)));
  for (int tries = 1; tries <= 3; ++tries) {
    ASSERT_EQ(dispatcher_.taken.size(), 1U) << tries;
    next_->Ended(dispatcher_.taken.front().key, {.verdict = model::Verdict::kRetry});
    dispatcher_.taken.clear();
    Pass(6'900ms, 100ms);
    EXPECT_TRUE(dispatcher_.taken.empty());
    Pass(300ms);
  }
  EXPECT_EQ(Row(run).state, TaskState::kFailed);
}

TEST_F(DefaultsTest, OneThatRunsOnPastTheDefaultTimeoutIsGivenUp) {
  const RunNo run = Begin(*Put(Tasks("deaf", 1)));
  next_->Started(dispatcher_.taken.front().key);
  Pass(10min + 50s, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kRunning);
  Pass(20s, 1s);
  EXPECT_EQ(Row(run).state, TaskState::kFailed);
  EXPECT_EQ(Row(run).reason, Reason::kTimeout);
  EXPECT_TRUE(Row(run).zombie);
}

}  // namespace
}  // namespace headworks::engine
