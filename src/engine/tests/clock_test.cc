#include <gtest/gtest.h>

#include "tests/rig.h"

// A wall clock that jumps an hour, forth and back: timers of a running engine go by the monotonic
// one (docs/decisions/0006-timers-run-on-the-monotonic-clock.md).
namespace headworks::engine {
namespace {

using model::Reason;
using model::RunState;
using model::TaskState;
using model::Verdict;
using namespace std::chrono_literals;

class ClockJump : public EngineTest, public testing::WithParamInterface<Duration> {
 protected:
  /// Ticks until `time` has passed.
  void Pass(Duration time) { Tick(static_cast<int>(time / 10ms)); }
  void Jump() { clock_.JumpWall(GetParam()); }
  RunNo Begin(model::WorkflowDefinition definition) {
    const auto started = Start(*Put(std::move(definition)));
    Tick(2);
    EXPECT_TRUE(*started);
    return (*started)->run;
  }
  model::StoredTask Row(RunNo run) {
    const auto image = store_.runs().LoadRun(tenant_, run);
    EXPECT_TRUE(image && !image->tasks.empty());
    return image && !image->tasks.empty() ? image->tasks[0] : model::StoredTask{};
  }
  void FailFirst() {
    engine_.Ended(dispatcher_.taken.front().key,
                  {.verdict = Verdict::kRetry, .reason = Reason::kExitCode});
    dispatcher_.taken.pop_front();
    Tick();
  }
};

INSTANTIATE_TEST_SUITE_P(AnHour, ClockJump, testing::Values(Duration(1h), Duration(-1h)),
                         [](const auto& jump) {
                           return jump.param > Duration(0) ? "Forth" : "Back";
                         });

TEST_P(ClockJump, BackoffTakesAsLongAsItWouldHave) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].retry = {.max_attempts = 3, .initial = 10s, .jitter = 0};
  const RunNo run = Begin(std::move(definition));
  FailFirst();
  ASSERT_EQ(Row(run).state, TaskState::kParked);
  Pass(3s);
  Jump();
  Pass(6'800ms);
  EXPECT_TRUE(dispatcher_.taken.empty()) << "before its time";
  Pass(300ms);
  ASSERT_EQ(dispatcher_.taken.size(), 1U) << "after its time";
  EXPECT_EQ(dispatcher_.taken[0].key.epoch, Epoch(2));
  // The next one is counted from where the clock stands now.
  FailFirst();
  Pass(19'700ms);
  EXPECT_TRUE(dispatcher_.taken.empty());
  Pass(400ms);
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(Row(run).losses, 0);
}

TEST_P(ClockJump, RunTimeoutComesWhenItWouldHave) {
  auto definition = Tasks("w", 1);
  definition.timeout = 60s;
  const RunNo run = Begin(std::move(definition));
  Pass(20s);
  Jump();
  Pass(39'700ms);
  EXPECT_TRUE(dispatcher_.cancelled.empty()) << "killed before its time";
  EXPECT_EQ(Stored(run).state, RunState::kRunning);
  Pass(500ms);
  EXPECT_FALSE(dispatcher_.cancelled.empty()) << "not killed in time";
}

TEST_P(ClockJump, DeadlineOfATaskComesWhenItWouldHave) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].deadline = 60s;
  Begin(std::move(definition));
  Pass(20s);
  Jump();
  Pass(39'700ms);
  EXPECT_TRUE(dispatcher_.cancelled.empty()) << "killed before its time";
  Pass(500ms);
  EXPECT_FALSE(dispatcher_.cancelled.empty()) << "not killed in time";
}

TEST_P(ClockJump, WhatRunsIsNeitherKilledNorLostNorDoneAgain) {
  auto definition = Tasks("w", 2);
  definition.tasks[0].timeout = 30min;
  definition.tasks[1].needs = {"t0"};
  const RunNo run = Begin(std::move(definition));
  engine_.Started(dispatcher_.taken[0].key);
  Pass(1s);
  Jump();
  Pass(10s);
  Jump();
  Pass(10s);
  EXPECT_TRUE(dispatcher_.cancelled.empty());
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  Succeed(1);
  Tick(2);
  ASSERT_EQ(dispatcher_.taken.size(), 1U) << "the next one starts at once";
  Succeed(1);
  Tick(2);
  EXPECT_EQ(Stored(run).state, RunState::kSucceeded);
  EXPECT_EQ(Row(run).epoch, Epoch(1));
  EXPECT_EQ(Row(run).losses, 0);
}

TEST_P(ClockJump, LeaseEndsNeitherEarlyNorLate) {
  Pass(5s);
  Jump();
  Pass(5s);
  EXPECT_FALSE(engine_.stats().lost);
  const std::vector<Shard> shard{Shard(0)};
  auto other = store_.runs().Acquire(shard, "other", 10s);
  ASSERT_FALSE(other) << "a jump ended the lease of a live engine";
  EXPECT_EQ(other.error().code, Code::kConflict);
  // It stands still from here: its lease ends by the store's clock.
  clock_.Advance(9s);
  Jump();
  clock_.Advance(2s);
  other = store_.runs().Acquire(shard, "other", 10s);
  EXPECT_TRUE(other) << "a jump kept the lease of a dead engine";
}

/// What is planned more than an hour ahead and holds no memory is read again from the store.
TEST_P(ClockJump, WhatIsPlannedForLaterMovesWithTheClock) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].retry = {.max_attempts = 2, .initial = 2h, .max = 2h, .jitter = 0};
  Begin(std::move(definition));
  FailFirst();
  ASSERT_EQ(engine_.stats().runs_in_memory, 0U);
  Jump();
  const Duration expected = 2h - GetParam();
  for (Duration passed{}; passed < expected - 1min; passed += 3s) {
    clock_.Advance(3s);
    engine_.Tick();
  }
  EXPECT_TRUE(dispatcher_.taken.empty()) << "before the planned time";
  for (Duration passed{}; passed < 6min; passed += 1s) {
    clock_.Advance(1s);
    engine_.Tick();
  }
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
}

}  // namespace
}  // namespace headworks::engine
