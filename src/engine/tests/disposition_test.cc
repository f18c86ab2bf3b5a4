#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/disposition_rig.h"

// Each row of the table of dispositions, as the answer of an executor that is asked on the engine's
// thread, and as one that comes late, from behind a buffer: the same must follow.
namespace headworks::engine {
namespace {

using executor::Attempt;
using executor::OfferResult;
using model::Disposition;
using model::Reason;
using model::RunState;
using model::TaskState;
using model::Verdict;
using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(Answers, DispositionTest, testing::Values(0, 64),
                         [](const auto& at) { return at.param == 0 ? "AtOnce" : "Late"; });

TEST_P(DispositionTest, DispatchedIsOfferedOnceAndEndsByItsVerdict) {
  const RunNo run = Start();
  Pass(1min, 1s);
  EXPECT_EQ(platform_.offered.size(), 1U);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  platform_.EndAll(Verdict::kSucceeded);
  Tick(2);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(platform_.settled.size(), 1U);
}

TEST_P(DispositionTest, DeferredWaitsForCreditWithTheSameEpochAndWithoutAWrite) {
  platform_.answer = [&](const Attempt&) {
    platform_.max = 0;
    return executor::NotTaken(executor::DispatchError::kNoCapacity, "full");
  };
  const RunNo run = Start();
  Tick();
  const std::size_t writes = store_.sent.size();
  const std::size_t offers = platform_.offered.size();
  Pass(1h, 10s);
  EXPECT_EQ(platform_.offered.size(), offers) << "who is full is left alone";
  EXPECT_EQ(store_.sent.size(), writes + Notes(run).size());
  EXPECT_EQ(Notes(run).size(), 5U) << "after 10 s, 40 s, 160 s, 640 s, 2,560 s";
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  platform_.max = 1;
  platform_.answer = Says(Disposition::kDispatched, "");
  platform_.sink->CapacityChanged();
  Tick(2);
  ASSERT_EQ(platform_.here.size(), 1U);
  EXPECT_EQ(Epochs().size(), 1U);
  EXPECT_EQ(platform_.offered.back().try_no, 1);
  EXPECT_EQ(Row(run).dispatch_failures, 0);
}

TEST_P(DispositionTest, WhatThereIsNoRoomForDoesNotKeepTheEngineBusy) {
  if (GetParam() != 0) GTEST_SKIP() << "a buffer hands over one at a time";
  bool room = false;
  platform_.answer = [&](const Attempt& attempt) {
    return room && attempt.key.task == TaskNo(199)
               ? OfferResult{}
               : executor::NotTaken(executor::DispatchError::kNoCapacity, "its line is full");
  };
  Start(200);
  Tick(3);
  const std::size_t before = platform_.offered.size();
  Tick();
  EXPECT_EQ(platform_.offered.size(), before + 2 * std::size_t{64}) << "two ticks of the engine";
  room = true;
  Tick(2);
  EXPECT_EQ(platform_.here.size(), 1U) << "each has its turn";
}

TEST_P(DispositionTest, BackpressureComesBackAfterAboutASecondHoweverOften) {
  platform_.answer = Says(Disposition::kBackpressure, "429");
  const RunNo run = Start();
  Tick();
  const std::size_t writes = store_.sent.size();
  Pass(5min, 50ms);
  EXPECT_EQ(store_.sent.size(), writes + Notes(run).size()) << "no write for a soft answer";
  EXPECT_EQ(Notes(run).size(), 3U) << "but for people, after 10 s, 40 s and 160 s";
  EXPECT_EQ(Epochs().size(), 1U);
  ASSERT_GT(platform_.offered.size(), 200U);
  std::set<Duration> gaps;
  for (std::size_t i = 1; i < platform_.offered.size(); ++i) {
    const Duration gap = platform_.offered[i].at - platform_.offered[i - 1].at;
    EXPECT_GE(gap, 750ms) << i;
    EXPECT_LE(gap, 1'400ms) << i;
    gaps.insert(gap);
  }
  EXPECT_GT(gaps.size(), 5U) << "it is jittered";
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  EXPECT_EQ(metrics_.Read().NotTaken(Disposition::kBackpressure), platform_.offered.size());
}

TEST_P(DispositionTest, TransientBacksOffToAMinute) {
  platform_.answer = Says(Disposition::kTransient, "timeout");
  const RunNo run = Start();
  Tick();
  const std::size_t writes = store_.sent.size();
  Pass(10min);
  EXPECT_EQ(store_.sent.size(), writes + Notes(run).size());
  EXPECT_EQ(Epochs().size(), 1U);
  const auto& offered = platform_.offered;
  ASSERT_GE(offered.size(), 8U);
  Duration longest{};
  for (std::size_t i = 1; i < offered.size(); ++i) {
    const Duration gap = offered[i].at - offered[i - 1].at;
    const Duration base = std::min<Duration>(60s, 1s * (1 << std::min<std::size_t>(i - 1, 6)));
    EXPECT_GE(gap, base * 3 / 4) << i;
    EXPECT_LE(gap, base * 5 / 4 + 300ms) << i;
    longest = std::max(longest, gap);
  }
  EXPECT_GE(longest, 45s);
  EXPECT_EQ(Row(run).state, TaskState::kQueued);
  EXPECT_TRUE(Attempts(run).empty()) << "no budget is used";
}

TEST_P(DispositionTest, WhatIsNotTakenIsNotedWithSinceWhenHowOftenAndWhy) {
  platform_.answer = Says(Disposition::kTransient, "connection refused");
  const RunNo run = Start();
  Tick();
  Pass(9s);
  EXPECT_TRUE(Notes(run).empty()) << "that may be over in a moment";
  Pass(6s);
  ASSERT_EQ(Notes(run).size(), 1U);
  const std::string note = Notes(run)[0];
  EXPECT_TRUE(note.starts_with("t0: attempt 1 is not taken by its executor since ")) << note;
  EXPECT_TRUE(note.ends_with(" times, last it could not answer (transient): connection refused"))
      << note;
  platform_.answer = Says(Disposition::kBackpressure, "429");
  Pass(5min);
  ASSERT_GE(Notes(run).size(), 2U);
  EXPECT_TRUE(Notes(run).back().ends_with(" times, last it says later (backpressure): 429"))
      << Notes(run).back();
  EXPECT_EQ(Row(run).reason, model::Reason::kNone) << "nothing follows from it";
  platform_.answer = Says(Disposition::kDispatched, "");
  Pass(2min);
  ASSERT_EQ(platform_.here.size(), 1U);
  const std::size_t notes = Notes(run).size();
  Pass(1h, 10s);
  EXPECT_EQ(Notes(run).size(), notes);
}

TEST_P(DispositionTest, HowLongTheOldestIsNotTakenIsAFigureOfItsExecutor) {
  const auto held_up = [&](std::size_t lane) { return engine_.stats().lanes[lane].held_up; };
  platform_.answer = Says(Disposition::kBackpressure, "429");
  Start();
  Pass(30s);
  Start();
  Pass(10s);
  EXPECT_GE(held_up(0), 39s);
  EXPECT_LE(held_up(0), 41s);
  EXPECT_EQ(held_up(1), 0s);
  platform_.answer = Says(Disposition::kDispatched, "");
  Pass(2s);
  EXPECT_EQ(held_up(0), 0s);
}

TEST_P(DispositionTest, AnOutageOfTenMinutesFailsNoTaskAndIsOverWithinSeconds) {
  platform_.answer = Says(Disposition::kTransient, "connection refused");
  constexpr std::uint32_t kTasks = 500;
  const RunNo run = Start(kTasks, [](model::Task& task) { task.retry.max_attempts = 1; });
  Pass(10min, 500ms);
  EXPECT_TRUE(platform_.here.empty());
  EXPECT_EQ(Image(run).header.counts[static_cast<std::size_t>(TaskState::kFailed)], 0U);
  platform_.answer = Says(Disposition::kDispatched, "");
  while (platform_.here.empty()) Pass(100ms);
  const Duration first_good = clock_.Monotonic();
  while (platform_.here.size() < kTasks) {
    Pass(100ms);
    ASSERT_LE(clock_.Monotonic() - first_good, 5s) << platform_.here.size() << " are there";
  }
  EXPECT_EQ(Epochs().size(), kTasks) << "each by its first epoch";
  platform_.EndAll(Verdict::kSucceeded);
  Tick(5);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
}

/// When a run was offered.
std::vector<Duration> OfferedAt(const Platform& platform, RunNo run) {
  std::vector<Duration> at;
  for (const auto& offered : platform.offered)
    if (offered.key.run == run) at.push_back(offered.at);
  return at;
}

/// The shortest backoff after so many transient answers before.
Duration LeastBackoff(std::size_t answers) {
  return std::min<Duration>(60s, 1s * (1 << std::min<std::size_t>(answers, 6))) * 3 / 4;
}

/// At most every second offer comes before its backoff is over.
void ExpectHurriedOnceAStep(const std::vector<Duration>& at) {
  for (std::size_t i = 2; i < at.size(); ++i)
    EXPECT_GE(at[i] - at[i - 2], LeastBackoff(i - 2)) << "offer " << i;
}

TEST_P(DispositionTest, OneThatIsNeverTakenBacksOffThoughOthersAre) {
  platform_.max = 0;
  const RunNo never = Start();
  Start(1'200);
  platform_.answer = [&](const Attempt& attempt) -> OfferResult {
    if (attempt.key.run == never) return {Disposition::kTransient, "timeout", {}};
    return {};
  };
  platform_.max = 2;  // so that of the others there is one at a time
  for (const Duration until = clock_.Monotonic() + 10min; clock_.Monotonic() < until;) {
    Pass(500ms);
    platform_.EndAll(Verdict::kSucceeded);
    ASSERT_LE(EnginePeer::Reoffers(engine_, never), 4);
  }
  EXPECT_GE(platform_.offered.size(), 1'000U) << "the others go on";
  const auto at = OfferedAt(platform_, never);
  EXPECT_GE(at.size(), 12U);
  EXPECT_LE(at.size(), 32U) << "about two in each of 16 steps";
  ExpectHurriedOnceAStep(at);
}

TEST_P(DispositionTest, BackpressureBesideTransientInOneLaneKeepsBothIntervals) {
  platform_.max = 0;
  const RunNo never = Start();
  const RunNo busy = Start();
  Start(1'200);
  platform_.answer = [&](const Attempt& attempt) -> OfferResult {
    if (attempt.key.run == never) return {Disposition::kTransient, "timeout", {}};
    if (attempt.key.run == busy) return {Disposition::kBackpressure, "429", {}};
    return {};
  };
  platform_.max = 3;
  for (const Duration until = clock_.Monotonic() + 10min; clock_.Monotonic() < until;) {
    Pass(500ms);
    platform_.EndAll(Verdict::kSucceeded);
    ASSERT_LE(EnginePeer::Reoffers(engine_, never), 4);
    ASSERT_LE(EnginePeer::Reoffers(engine_, busy), 2);
  }
  const auto transient = OfferedAt(platform_, never);
  EXPECT_GE(transient.size(), 12U);
  EXPECT_LE(transient.size(), 32U);
  ExpectHurriedOnceAStep(transient);
  const auto backpressure = OfferedAt(platform_, busy);
  EXPECT_GE(backpressure.size(), 400U);
  for (std::size_t i = 2; i < backpressure.size(); ++i)
    EXPECT_GE(backpressure[i] - backpressure[i - 2], 750ms) << i;
}

TEST_P(DispositionTest, ARecoveryOfOneLaneLeavesTheBackoffOfAnotherAlone) {
  other_.answer = Says(Disposition::kTransient, "timeout");
  const RunNo other =
      Start(1, [](model::Task& task) { task.action = model::ExecAction{.argv = {"true"}}; });
  // It is troubled and recovers again and again.
  bool taken = false;
  platform_.answer = [&](const Attempt&) -> OfferResult {
    taken = !taken;
    return {taken ? Disposition::kTransient : Disposition::kDispatched, "", {}};
  };
  Start(1'200);
  platform_.max = 1;
  for (const Duration until = clock_.Monotonic() + 5min; clock_.Monotonic() < until;) {
    Pass(500ms);
    platform_.EndAll(Verdict::kSucceeded);
  }
  EXPECT_GE(platform_.offered.size(), 200U);
  const auto at = OfferedAt(other_, other);
  ASSERT_GE(at.size(), 8U);
  for (std::size_t i = 1; i < at.size(); ++i)
    EXPECT_GE(at[i] - at[i - 1], LeastBackoff(i - 1)) << i;
}

TEST_P(DispositionTest, RejectedSixTimesFailsTheTaskAndUsesNoTry) {
  platform_.answer = Says(Disposition::kRejected, "bad spec");
  const RunNo run = Start(1, [](model::Task& task) { task.retry.max_attempts = 2; });
  Pass(30min, 1s);
  EXPECT_EQ(Image(run).header.state, RunState::kFailed);
  const auto row = Row(run);
  EXPECT_EQ(row.state, TaskState::kFailed);
  EXPECT_EQ(row.reason, Reason::kDispatchFailed);
  EXPECT_EQ(row.dispatch_failures, 6);
  EXPECT_EQ(row.tries, 0);
  EXPECT_EQ(row.losses, 0);
  ASSERT_EQ(platform_.offered.size(), 6U);
  EXPECT_EQ(Epochs().size(), 6U) << "each no ends its epoch";
  Duration expected = 5s;
  for (std::size_t i = 1; i < 6; ++i, expected = std::min<Duration>(expected * 2, 5min)) {
    const Duration gap = platform_.offered[i].at - platform_.offered[i - 1].at;
    EXPECT_GE(gap, expected * 8 / 10) << i;
    EXPECT_LE(gap, expected * 12 / 10 + 2s) << i;
  }
  EXPECT_EQ(Attempts(run).back().outcome.error, "bad spec");
}

TEST_P(DispositionTest, RejectedFiveTimesAndThenTakenIsASuccessOnItsFirstTry) {
  int left = 5;
  platform_.answer = [&](const Attempt&) {
    return left-- > 0 ? OfferResult{Disposition::kRejected, "not yet", {}} : OfferResult{};
  };
  const RunNo run = Start();
  Pass(30min, 1s);
  ASSERT_EQ(platform_.here.size(), 1U);
  EXPECT_EQ(platform_.offered.back().try_no, 1);
  platform_.EndAll(Verdict::kSucceeded);
  Tick(3);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
}

TEST_P(DispositionTest, RefusedOnceEndsTheTask) {
  platform_.answer = Says(Disposition::kRefused, "no such tenant here");
  const RunNo run = Start(1, [](model::Task& task) { task.retry.max_attempts = 5; });
  Tick(3);
  EXPECT_EQ(Image(run).header.state, RunState::kFailed);
  EXPECT_EQ(Row(run).reason, Reason::kRefused);
  EXPECT_EQ(Row(run).dispatch_failures, 0);
  EXPECT_EQ(platform_.offered.size(), 1U);
  EXPECT_EQ(Attempts(run).back().outcome.error, "no such tenant here");
}

TEST_P(DispositionTest, AnOfferThatTimedOutAfterItHadHappenedRunsOnce) {
  bool lost = true;
  platform_.answer = [&](const Attempt& attempt) {
    if (!std::exchange(lost, false)) return OfferResult{};
    platform_.here.emplace(attempt.key, attempt);
    return executor::NotTaken(executor::DispatchError::kStore, "timeout");
  };
  const RunNo run = Start();
  Pass(5s);
  EXPECT_EQ(platform_.offered.size(), 2U) << "the same offer again";
  EXPECT_EQ(Epochs().size(), 1U);
  platform_.EndAll(Verdict::kSucceeded);
  Tick(3);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(Row(run).losses, 0);
}

TEST_P(DispositionTest, AVerdictBeforeStartedCounts) {
  const RunNo run = Start();
  Tick();
  const auto key = platform_.offered.at(0).key;
  platform_.End(key, Verdict::kSucceeded);
  platform_.sink->Started(key);
  Pass(1s);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
}

TEST_P(DispositionTest, OfTwoVerdictsTheFirstStandsAndTheSecondIsCounted) {
  const RunNo run = Start();
  const RunNo other = Start();
  Tick();
  const auto key = platform_.offered.at(0).key;
  ASSERT_EQ(key.run, run);
  platform_.sink->Ended(key, {.verdict = Verdict::kSucceeded});
  platform_.sink->Ended(key, {.verdict = Verdict::kFailed});
  Tick(2);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(Attempts(run).size(), 1U);
  EXPECT_EQ(engine_.stats().superseded, 1U);
  EXPECT_EQ(Image(other).header.state, RunState::kRunning);
}

TEST_P(DispositionTest, AnAnswerThatComesAfterTheStartChangesNothing) {
  platform_.answer = [&](const Attempt& attempt) {
    platform_.sink->Started(attempt.key);
    return OfferResult{};
  };
  const RunNo run = Start();
  Pass(1s);
  ASSERT_EQ(Row(run).state, TaskState::kRunning);
  engine_.HandleDispatchFailure(platform_.offered.at(0).key, {Disposition::kRejected, "late", {}});
  engine_.MarkTaskDispatchFailed(platform_.offered.at(0).key, "late");
  Tick(2);
  EXPECT_EQ(Row(run).state, TaskState::kRunning);
  EXPECT_EQ(engine_.stats().superseded, 2U);
  EXPECT_TRUE(platform_.cancelled.empty());
}

/// What only a buffer can bring about.
class BufferTest : public DispositionTest {};
INSTANTIATE_TEST_SUITE_P(Buffer, BufferTest, testing::Values(4));

TEST_P(BufferTest, ACancelOfWhatWaitsEndsItWithoutItsPlatform) {
  sends_ = false;
  const RunNo run = Start();
  Tick();
  bool done = false;
  engine_.Execute({.tenant = tenant_, .kind = control::CommandKind::kCancel, .run = run},
                  [&](const Status& status) { done = status.has_value(); });
  Tick(4);
  EXPECT_TRUE(done);
  EXPECT_EQ(Image(run).header.state, RunState::kCancelled);
  sends_ = true;
  Tick(2);
  EXPECT_TRUE(platform_.offered.empty());
}

TEST_P(BufferTest, AZombieThatWasNeverSentIsFoundToBeOver) {
  const RunNo run = Start(2, [](model::Task& task) {
    if (task.id == "t1") task.role = model::TaskRole::kOnCancel;
  });
  Tick();
  engine_.Execute({.tenant = tenant_, .kind = control::CommandKind::kCancel, .run = run},
                  [](const Status& status) { EXPECT_TRUE(status); });
  sends_ = false;
  Tick();
  platform_.EndAll(Verdict::kCancelled);
  Tick(2);
  ASSERT_EQ(metrics_.Read().depth, 1U);
  clock_.Advance(1h);  // given up without having been told to stop before
  Tick(4);
  EXPECT_EQ(Image(run).header.state, RunState::kCancelled);
  EXPECT_EQ(Row(run, 1).reason, Reason::kCancelTimeout);
  EXPECT_FALSE(Row(run, 1).zombie);
  EXPECT_EQ(engine_.stats().live_attempts, 0U);
  EXPECT_EQ(platform_.offered.size(), 1U);
}

TEST_P(BufferTest, CloseHandsBackAndTheNextEngineGoesOn) {
  sends_ = false;
  const RunNo run = Start(6);
  Tick();
  engine_.StopQueueing();
  EXPECT_TRUE(buffer_.Close(0ms));
  Tick(4);
  EXPECT_EQ(engine_.stats().live_attempts, 0U) << "four were handed back, two never taken";
  for (std::uint32_t t = 0; t < 6; ++t) {
    EXPECT_EQ(Row(run, t).tries, 0) << t;
    EXPECT_EQ(Row(run, t).losses, 0) << t;
  }
  EXPECT_TRUE(engine_.Close());
  ManualDispatcher dispatcher;
  Engine next({.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(dispatcher.taken.size(), 6U);
}

TEST_P(BufferTest, AHandBackThatMayHaveArrivedEarlierIsAskedAbout) {
  bool lost = true;
  platform_.answer = [&](const Attempt& attempt) {
    if (!std::exchange(lost, false)) return OfferResult{};
    platform_.here.emplace(attempt.key, attempt);
    return executor::NotTaken(executor::DispatchError::kStore, "timeout");
  };
  const RunNo run = Start();
  Tick();
  sends_ = false;
  Pass(5s);  // by now it waits to be sent again
  ASSERT_EQ(metrics_.Read().depth, 1U);
  engine_.StopQueueing();
  EXPECT_TRUE(buffer_.Close(0ms));
  Tick(4);
  EXPECT_EQ(engine_.stats().live_attempts, 1U) << "it runs, so it is not over (I4)";
  platform_.EndAll(Verdict::kSucceeded);
  Tick(3);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
}

TEST_P(BufferTest, ALateAnswerToARunThatARoundDroppedIsNotLost) {
  sends_ = false;
  const RunNo run = Start();
  engine_.Tick();
  platform_.answer = Says(Disposition::kRejected, "no");
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.header.run_no == run && write.header.stuck_reason.empty())
        return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  EXPECT_TRUE(buffer_.SendNext());
  Tick(10);
  ASSERT_EQ(Image(run).header.stuck_reason, "constraint failed");
  store_.before = [](const auto&) { return Status(); };
  sends_ = true;
  engine_.Execute({.tenant = tenant_, .kind = control::CommandKind::kUnstick, .run = run},
                  [](const Status& status) { EXPECT_TRUE(status); });
  platform_.answer = Says(Disposition::kDispatched, "");
  Pass(10min, 1s);
  ASSERT_EQ(platform_.here.size(), 1U) << "it is offered once more";
  platform_.EndAll(Verdict::kSucceeded);
  Tick(3);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
}

/// Late failures go to a sink that keeps no policy.
class PlainSinkTest : public DispositionTest {
 protected:
  PlainSinkTest() {
    plain_sink_ = true;
    EXPECT_TRUE(buffer_.StartWithoutThreads(engine_, late_));
  }
  dispatch::FailEveryTask late_{engine_, engine_};
};
INSTANTIATE_TEST_SUITE_P(Buffer, PlainSinkTest, testing::Values(4));

TEST_P(PlainSinkTest, ALateFailureFailsTheTaskWhateverItWas) {
  for (const auto disposition : {Disposition::kTransient, Disposition::kBackpressure,
                                 Disposition::kRejected, Disposition::kRefused}) {
    platform_.answer = Says(disposition, "no");
    const RunNo run = Start(1, [](model::Task& task) { task.retry.max_attempts = 5; });
    Tick(3);
    EXPECT_EQ(Image(run).header.state, RunState::kFailed);
    EXPECT_EQ(Row(run).reason, Reason::kDispatchFailed);
    EXPECT_EQ(Attempts(run).back().outcome.error,
              std::string(model::DispositionName(disposition)) + ": no");
    EXPECT_EQ(platform_.cancelled.back().run, run) << "it may be there nevertheless";
  }
  EXPECT_EQ(platform_.offered.size(), 4U);
}

TEST_P(PlainSinkTest, WhatWasNotAttemptedIsNoFailure) {
  platform_.answer = Says(Disposition::kDeferred, "full");
  const RunNo run = Start();
  Tick();
  platform_.answer = Says(Disposition::kDispatched, "");
  Tick(3);
  EXPECT_EQ(platform_.here.size(), 1U);
  EXPECT_EQ(Row(run).tries, 0);
  EXPECT_EQ(Image(run).header.state, RunState::kRunning);
}

}  // namespace
}  // namespace headworks::engine
