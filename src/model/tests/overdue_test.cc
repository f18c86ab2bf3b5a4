#include <gtest/gtest.h>

#include "test_run.h"

// Attempts that do not start, endings by the owner that are for such only, and times that nobody
// else can say.
namespace headworks::model {
namespace {

using std::chrono::minutes;

TEST(Overdue, AnOverdueAttemptIsShownAndGivenUpWithoutAnotherEpoch) {
  Task a = Shell("a");
  a.retry.max_attempts = 3;
  TestRun t(Of({a, Shell("b", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  const Epoch epoch = t.At("a").epoch;
  EXPECT_TRUE(t.Do(AttemptGivenUp{t.No("a"), epoch})) << "it is not overdue";
  EXPECT_EQ(t.State("a"), TaskState::kQueued);
  t.now += minutes(10);
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), epoch, Reason::kPending, "no node is free"}));
  EXPECT_EQ(t.State("a"), TaskState::kQueued);
  EXPECT_EQ(t.At("a").reason, Reason::kPending);
  EXPECT_EQ(t.At("a").since, t.now);
  EXPECT_EQ(t.changes.events.at(0).detail, "a: no node is free");
  const Instant since = t.now;
  t.now += minutes(1);
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), epoch, Reason::kPending, "still"}));
  EXPECT_EQ(t.changes.rows(), 0U) << "it says nothing new";
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), epoch, Reason::kUnknown, "silence"}));
  EXPECT_EQ(t.At("a").since, since) << "one bound for both";
  t.Crash();
  EXPECT_EQ(t.At("a").reason, Reason::kUnknown);
  EXPECT_TRUE(t.Do(AttemptGivenUp{t.No("a"), Epoch{epoch.value + 1}})) << "of another epoch";
  EXPECT_EQ(t.State("a"), TaskState::kQueued);
  EXPECT_TRUE(t.Do(AttemptGivenUp{t.No("a"), epoch}));
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kUnknown);
  EXPECT_TRUE(t.At("a").zombie);
  EXPECT_EQ(t.changes.cancels.size(), 1U);
  EXPECT_EQ(t.State("b"), TaskState::kUpstreamFailed);
  EXPECT_EQ(t.run.header.next_epoch, Epoch{epoch.value + 1});
}

TEST(Overdue, OfWhatTheExecutorSays4KiBAreKept) {
  TestRun t(Of({Shell("a")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  const Epoch epoch = t.At("a").epoch;
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), epoch, Reason::kPending, std::string(4096, 'x')}));
  EXPECT_EQ(t.changes.events.at(0).detail, "a: " + std::string(4096, 'x'));
  const std::string cut = std::string(4095, 'y') + "\u00e9";  // in the middle of a character
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), epoch, Reason::kUnknown, cut}));
  EXPECT_EQ(t.changes.events.at(0).detail, "a: " + std::string(4095, 'y'));
}

TEST(Overdue, OneThatStartsIsOverdueNoLonger) {
  TestRun t(Of({Shell("a")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(AttemptOverdue{t.No("a"), t.At("a").epoch, Reason::kPending, "slow"}));
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  EXPECT_EQ(t.At("a").reason, Reason::kNone);
  EXPECT_TRUE(t.Do(AttemptGivenUp{t.No("a"), t.At("a").epoch}));
  EXPECT_EQ(t.State("a"), TaskState::kRunning);
}

TEST(Overdue, TheOwnerEndsNoAttemptThatHasStarted) {
  TestRun t(Of({Shell("a")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  const Outcome lost{.verdict = Verdict::kLost, .reason = Reason::kLost};
  EXPECT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, lost, true}));
  EXPECT_EQ(t.State("a"), TaskState::kRunning) << "it found a holder";
  EXPECT_EQ(t.changes.rows(), 0U);
  EXPECT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, lost}));
  EXPECT_EQ(t.At("a").losses, 1);
}

TEST(Attempt, WhatItsExecutorCannotSayOfItsTimesTheEngineDoes) {
  TestRun t(Of({Shell("a")}));
  ASSERT_TRUE(t.Do(StartRun{}));
  const auto outcome = [&]() -> const Outcome& { return t.changes.attempts.at(0).outcome; };
  t.Queue("a");
  t.now += minutes(5);
  ASSERT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  const Instant started = t.now;
  t.now += minutes(5);
  t.Crash();
  t.End("a", Verdict::kLost);
  EXPECT_EQ(outcome().started_at, started);
  EXPECT_EQ(outcome().ended_at, t.now) << "then it was known to be over";

  t.Queue("a");
  t.now += minutes(5);
  t.End("a", Verdict::kLost);
  EXPECT_EQ(outcome().started_at, Instant{}) << "nobody heard of a start";
  EXPECT_EQ(outcome().ended_at, t.now);

  t.Queue("a");
  ASSERT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  const Outcome said{.started_at = t.now - minutes(2), .ended_at = t.now - minutes(1)};
  ASSERT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, said}));
  EXPECT_EQ(outcome().started_at, said.started_at) << "its executor knows better";
  EXPECT_EQ(outcome().ended_at, said.ended_at);
}

}  // namespace
}  // namespace headworks::model
