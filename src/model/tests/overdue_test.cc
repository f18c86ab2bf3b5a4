#include <gtest/gtest.h>

#include "test_run.h"

// Attempts that do not start, endings by the owner that are for such only, and times that nobody
// else can say.
namespace headworks::model {
namespace {

using std::chrono::minutes;

TEST(Overdue, ThatAnAttemptIsNotTakenIsANoteAndNothingElse) {
  TestRun t(Of({Shell("a")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  const Epoch epoch = t.At("a").epoch;
  const Instant since = t.At("a").since;
  t.now += minutes(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(t.Do(AttemptHeldUp{t.No("a"), epoch, "attempt 1 is not taken"}));
    EXPECT_EQ(t.changes.events.at(0).kind, "held_up");
    EXPECT_EQ(t.changes.events.at(0).detail, "a: attempt 1 is not taken");
    EXPECT_TRUE(t.changes.tasks.empty());
  }
  EXPECT_EQ(t.At("a").since, since);
  EXPECT_EQ(t.At("a").reason, Reason::kNone);
  EXPECT_TRUE(t.Do(AttemptHeldUp{t.No("a"), Epoch{epoch.value + 1}, "another epoch"}));
  EXPECT_TRUE(t.changes.events.empty());
}

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

TEST(Loss, NeighboursThatAreLostTogetherDoNotMeetAgainEachTime) {
  Task poison = Shell("poison");
  Task neighbour = Shell("neighbour");
  poison.retry.max_losses = neighbour.retry.max_losses = 1'000;
  TestRun t(Of({poison, neighbour}));
  EXPECT_TRUE(t.Do(StartRun{}));
  const auto lose = [&](const char* task) {
    t.Run1(task, Verdict::kLost);
    return t.State(task) == TaskState::kParked ? t.At(task).not_before - t.now : Duration(0);
  };
  int apart = 0;
  Duration usual = std::chrono::milliseconds(500);
  for (int loss = 1; loss <= 20; ++loss) {
    const Duration a = lose("poison");
    const Duration b = lose("neighbour");
    if (loss == 1) continue;
    for (const Duration delay : {a, b}) {
      EXPECT_GE(delay, usual / 2);
      EXPECT_LE(delay, usual + usual / 2);
    }
    usual = std::min(2 * usual, Duration(seconds(60)));
    if (std::max(a, b) - std::min(a, b) > std::min(a, b) / 10) ++apart;
    t.Pass(std::max(a, b));
  }
  EXPECT_GE(apart, 10) << "of 19";
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

  t.Pass(t.At("a").not_before - t.now);
  t.Queue("a");
  ASSERT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  const Outcome said{.started_at = t.now - minutes(2), .ended_at = t.now - minutes(1)};
  ASSERT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, said}));
  EXPECT_EQ(outcome().started_at, said.started_at) << "its executor knows better";
  EXPECT_EQ(outcome().ended_at, said.ended_at);
}

}  // namespace
}  // namespace headworks::model
