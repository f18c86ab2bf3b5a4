#include "headworks/model/step.h"

#include "test_run.h"

namespace headworks::model {
namespace {

Code CodeOf(const Status& status) { return status ? Code{} : status.error().code; }

/// a → b → c.
WorkflowDefinition Chain() { return Of({Shell("a"), Shell("b", {"a"}), Shell("c", {"b"})}); }

// ---- Start and the plain way through.

TEST(Step, StartMakesRootsReadyAndOnlyThem) {
  TestRun t(Chain());
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(t.States(), "a:ready b:waiting c:waiting");
  EXPECT_EQ(t.Ready(), "a ");
  EXPECT_EQ(t.run.header.started_at, t.now);
  EXPECT_TRUE(t.rows.empty()) << "waiting and ready tasks have no rows";
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(t.changes.rows(), 0U) << "a second start is stale";
}

TEST(Step, ChainSucceedsWithOneHopPerVerdict) {
  TestRun t(Chain());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  EXPECT_EQ(t.Ready(), "b ");
  t.Run1("b");
  t.Run1("c");
  EXPECT_TRUE(t.changes.finished);
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
  EXPECT_EQ(t.run.header.finished_at, t.now);
  EXPECT_TRUE(IsEvictable(t.run));
  EXPECT_EQ(t.run.header.wake_at, kNever);
}

TEST(Step, EpochsRiseAndQueueIsIgnoredUnlessReady) {
  TestRun t(Of({Shell("a"), Shell("b")}));
  EXPECT_TRUE(t.Do(QueueTask{t.No("a")}));
  EXPECT_EQ(t.State("a"), TaskState::kWaiting) << "not started yet";
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_EQ(t.changes.offers.size(), 1U);
  t.Queue("b");
  EXPECT_GT(t.At("b").epoch, t.At("a").epoch);
  EXPECT_TRUE(t.Do(QueueTask{t.No("a")}));
  EXPECT_EQ(t.changes.rows(), 0U);
  EXPECT_TRUE(t.Do(QueueTask{TaskNo{99}}));
  EXPECT_EQ(t.changes.rows(), 0U);
}

TEST(Step, OutputIsMovedToTheTaskRow) {
  TestRun t(Of({Shell("a")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  Outcome outcome;
  outcome.output = R"({"x":1})";
  outcome.error = std::string(4095, 'x') + "é";  // 4,097 bytes: the cut must not split é
  EXPECT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, outcome}));
  ASSERT_EQ(t.changes.outputs.size(), 1U);
  EXPECT_EQ(t.changes.outputs[0].second, outcome.output);
  ASSERT_EQ(t.changes.attempts.size(), 1U);
  EXPECT_EQ(t.changes.attempts[0].outcome.output, "");
  EXPECT_EQ(t.changes.attempts[0].outcome.error, std::string(4095, 'x'));
  EXPECT_EQ(t.changes.attempts[0].queued_at, t.now);
}

TEST(Step, StaleEpochIsSuperseded) {
  TestRun t(Of({[] {
    Task a = Shell("a");
    a.retry.max_attempts = 2;
    return a;
  }()}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kRetry);
  const Epoch old = t.At("a").epoch;
  EXPECT_TRUE(t.Do(AttemptEnded{t.No("a"), old, {}}));
  EXPECT_TRUE(t.changes.superseded);
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), Epoch{old.value + 1}}));
  EXPECT_TRUE(t.changes.superseded);
  EXPECT_TRUE(t.Do(OfferAnswered{t.No("a"), old, Disposition::kRejected, ""}));
  EXPECT_TRUE(t.changes.superseded);
  EXPECT_TRUE(t.Do(AttemptEnded{TaskNo{9}, old, {}}));
  EXPECT_TRUE(t.changes.superseded);
}

TEST(Step, OnCancelTasksOfAnUncancelledRunAreSkipped) {
  TestRun t(
      Of({Shell("a"), Shell("f", {}, TaskRole::kFinally), Shell("c", {}, TaskRole::kOnCancel)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  EXPECT_EQ(t.State("f"), TaskState::kReady);
  EXPECT_EQ(t.State("c"), TaskState::kSkipped);
  EXPECT_EQ(t.At("c").reason, Reason::kNotCancelled);
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

// ---- Budgets.

WorkflowDefinition One(int max_attempts, int max_losses = 6) {
  Task a = Shell("a");
  a.retry.max_attempts = max_attempts;
  a.retry.max_losses = max_losses;
  return Of({a});
}

TEST(Step, RetryParksUntilTriesAreSpent) {
  TestRun t(One(3));
  EXPECT_TRUE(t.Do(StartRun{}));
  for (int i = 1; i <= 2; ++i) {
    t.Run1("a", Verdict::kRetry, Reason::kExitCode);
    EXPECT_EQ(t.changes.attempts.at(0).try_no, i);
    ASSERT_EQ(t.State("a"), TaskState::kParked);
    EXPECT_EQ(t.At("a").reason, Reason::kBackoff);
    ASSERT_EQ(t.changes.timers.size(), 1U);
    const Instant due = t.changes.timers[0].when;
    EXPECT_GT(due, t.now);
    EXPECT_TRUE(IsEvictable(t.run));
    EXPECT_EQ(t.run.header.wake_at, due);
    EXPECT_TRUE(t.Do(TimerDue{due - seconds(1), t.No("a")}));
    EXPECT_EQ(t.State("a"), TaskState::kParked) << "not its timer";
    t.Pass(due - t.now);
    EXPECT_EQ(t.Ready(), "a ");
  }
  t.Run1("a", Verdict::kRetry, Reason::kExitCode);
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kExitCode);
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, FailedIsFinalWithTriesLeft) {
  TestRun t(One(10));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kError);
}

TEST(Step, LossesHaveTheirOwnBudget) {
  TestRun t(One(1, 3));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kLost);
  ASSERT_EQ(t.State("a"), TaskState::kReady) << "ready at once";
  t.Run1("a", Verdict::kLost);
  ASSERT_EQ(t.State("a"), TaskState::kParked) << "the second is spaced";
  EXPECT_EQ(t.At("a").reason, Reason::kLost);
  EXPECT_EQ(t.At("a").tries, 0);
  t.Pass(t.At("a").not_before - t.now);
  t.Run1("a", Verdict::kLost);
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kLost);
}

TEST(Step, InterruptionsAndSnoozesConsumeNothing) {
  TestRun t(One(1, 1));
  EXPECT_TRUE(t.Do(StartRun{}));
  for (int i = 0; i < 20; ++i) {
    t.Run1("a", Verdict::kInterrupted);
    ASSERT_EQ(t.State("a"), TaskState::kReady);
    t.Queue("a");
    Outcome outcome;
    outcome.verdict = Verdict::kSnoozed;
    outcome.not_before = t.now + minutes(1);
    EXPECT_TRUE(t.Do(AttemptEnded{t.No("a"), t.At("a").epoch, outcome}));
    EXPECT_EQ(t.changes.attempts.at(0).try_no, 1);
    ASSERT_EQ(t.At("a").reason, Reason::kSnooze);
    t.Pass(minutes(1));
  }
  EXPECT_EQ(t.At("a").snoozes, 20U);
  t.Run1("a");
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

TEST(Step, SixthRejectionFailsTheTask) {
  TestRun t(One(1));
  EXPECT_TRUE(t.Do(StartRun{}));
  Duration last{0};
  for (int i = 1; i <= 6; ++i) {
    t.Queue("a");
    for (const auto soft : {Disposition::kDispatched, Disposition::kDeferred,
                            Disposition::kBackpressure, Disposition::kTransient}) {
      EXPECT_TRUE(t.Do(OfferAnswered{t.No("a"), t.At("a").epoch, soft, ""}));
      EXPECT_EQ(t.changes.rows(), 0U);
    }
    EXPECT_TRUE(t.Do(OfferAnswered{t.No("a"), t.At("a").epoch, Disposition::kRejected, "no"}));
    ASSERT_EQ(t.changes.attempts.size(), 1U);
    EXPECT_EQ(t.changes.attempts[0].outcome.error, "no");
    if (i == 6) break;
    ASSERT_EQ(t.State("a"), TaskState::kParked);
    const Duration delay = t.At("a").not_before - t.now;
    EXPECT_GE(delay, seconds(4) * (1 << (i - 1)));
    EXPECT_LE(delay, seconds(6) * (1 << (i - 1)));
    EXPECT_GT(delay, last);
    last = delay;
    t.Pass(delay);
  }
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kDispatchFailed);
  EXPECT_EQ(t.At("a").tries, 0);
}

TEST(Step, RefusedFailsAtOnceAndAStartedAttemptWasDispatched) {
  TestRun t(Of({Shell("a"), Shell("b")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(OfferAnswered{t.No("a"), t.At("a").epoch, Disposition::kRefused, "policy"}));
  EXPECT_EQ(t.At("a").reason, Reason::kRefused);
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  t.Queue("b");
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("b"), t.At("b").epoch}));
  EXPECT_TRUE(t.Do(OfferAnswered{t.No("b"), t.At("b").epoch, Disposition::kRejected, "late"}));
  EXPECT_EQ(t.State("b"), TaskState::kRunning);
}

// ---- Trigger rules, failure and outcome.

TEST(Step, FailureCascadesWithinTheBudget) {
  std::vector<Task> tasks{Shell("a")};
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(Shell("t" + std::to_string(i), {i ? "t" + std::to_string(i - 1) : "a"}));
  }
  TestRun t(Of(std::move(tasks)), 10);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  EXPECT_TRUE(t.changes.more);
  EXPECT_LE(t.changes.tasks.size(), 11U);
  int rounds = 1;
  while (t.changes.more) {
    EXPECT_TRUE(t.Do(ContinueRun{}));
    ++rounds;
    if (rounds % 3 == 0) t.Crash();
  }
  EXPECT_GE(rounds, 10);
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
  EXPECT_EQ(t.run.header.counts[static_cast<std::size_t>(TaskState::kUpstreamFailed)], 100U);
}

TEST(Step, AllowedFailureCountsAsSuccess) {
  Task a = Shell("a");
  a.allow_failure = true;
  TestRun t(Of({a, Shell("b", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(t.States(), "a:failed b:ready");
  t.Run1("b");
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

TEST(Step, RulesDecideRunEarlyAndTheRestLate) {
  const auto with = [](std::string id, TriggerRule rule) {
    Task task = Shell(std::move(id), {"a", "b"});
    task.trigger_rule = rule;
    return task;
  };
  TestRun t(Of({Shell("a"), Shell("b"), with("one", TriggerRule::kOneFailed),
                with("all", TriggerRule::kAllSuccess), with("now", TriggerRule::kAlways),
                with("skip", TriggerRule::kAllSkipped), with("done", TriggerRule::kAllDone)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(t.State("now"), TaskState::kReady);
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(t.State("one"), TaskState::kReady);
  EXPECT_EQ(t.State("all"), TaskState::kWaiting) << "only run may be decided early";
  t.Run1("b");
  EXPECT_EQ(t.State("all"), TaskState::kUpstreamFailed);
  EXPECT_EQ(t.State("skip"), TaskState::kSkipped);
  EXPECT_EQ(t.State("done"), TaskState::kReady);
  EXPECT_EQ(t.At("skip").reason, Reason::kTriggerRule);
}

TEST(Step, ATaskCancelledAloneFailsTheRun) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kCancelled);
  EXPECT_EQ(t.States(), "a:cancelled b:upstream_failed");
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, SkippedByItsOwnWordSkipsTheRest) {
  TestRun t(Chain());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kSkipped);
  EXPECT_EQ(t.States(), "a:skipped b:skipped c:skipped");
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

// ---- Cancel, on_cancel, finally.

WorkflowDefinition Roles() {
  return Of({Shell("a"), Shell("b", {"a"}), Shell("x"), Shell("oc", {}, TaskRole::kOnCancel),
             Shell("f", {}, TaskRole::kFinally), Shell("g", {"f"}, TaskRole::kFinally)});
}

TEST(Step, CancelSettlesTheUnstartedTellsTheLiveThenCleansUp) {
  TestRun t(Roles());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  EXPECT_TRUE(t.Do(CancelRun{"ada"}));
  EXPECT_EQ(t.States(), "a:cancelled x:queued b:cancelled oc:ready f:waiting g:waiting");
  ASSERT_EQ(t.changes.cancels.size(), 1U);
  EXPECT_EQ(t.changes.cancels[0].epoch, t.At("x").epoch);
  EXPECT_EQ(t.changes.events.at(0).actor, "ada");
  t.Run1("oc");
  EXPECT_EQ(t.State("f"), TaskState::kWaiting) << "x is live";
  t.End("x", Verdict::kSucceeded);
  EXPECT_EQ(t.State("x"), TaskState::kSucceeded) << "a success stays one";
  EXPECT_EQ(t.State("f"), TaskState::kReady);
  t.Run1("f", Verdict::kFailed);
  EXPECT_EQ(t.State("g"), TaskState::kUpstreamFailed);
  EXPECT_EQ(t.run.header.state, RunState::kCancelled) << "whatever they ended in";
  EXPECT_EQ(CodeOf(t.Do(CancelRun{})), Code::kConflict);
}

TEST(Step, UnderCancelNothingIsTriedAgain) {
  for (const Verdict verdict : {Verdict::kRetry, Verdict::kLost, Verdict::kSnoozed,
                                Verdict::kInterrupted, Verdict::kCancelled}) {
    TestRun t(One(5));
    EXPECT_TRUE(t.Do(StartRun{}));
    t.Queue("a");
    EXPECT_TRUE(t.Do(CancelRun{}));
    t.End("a", verdict);
    EXPECT_EQ(t.State("a"), TaskState::kCancelled) << VerdictName(verdict);
    EXPECT_EQ(t.At("a").reason, Reason::kCancelRequested);
    EXPECT_EQ(t.run.header.state, RunState::kCancelled);
  }
  TestRun t(One(5));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(CancelRun{}));
  t.End("a", Verdict::kFailed);
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

TEST(Step, CancelWhileRetrying) {
  TestRun t(One(5));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kRetry);
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(t.State("a"), TaskState::kCancelled);
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

TEST(Step, CancelOfAPendingRunEndsItWithoutARow) {
  TestRun t(Roles());
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
  EXPECT_TRUE(t.changes.finished);
  EXPECT_TRUE(t.rows.empty());
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(t.changes.rows(), 0U);
  EXPECT_TRUE(t.Do(RerunTasks{ResetCursor::Kind::kFailed, {}, "ada"}));
  EXPECT_EQ(t.State("a"), TaskState::kReady);
}

TEST(Step, SecondCancelStopsFinallyAndAThirdChangesNothing) {
  TestRun t(Roles());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  EXPECT_TRUE(t.Do(CancelRun{}));
  t.Queue("oc");
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(t.States(), "a:cancelled x:queued b:cancelled oc:queued f:cancelled g:cancelled");
  ASSERT_EQ(t.changes.cancels.size(), 1U);
  EXPECT_EQ(t.changes.cancels[0].task, t.No("oc"));
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(t.changes.rows(), 0U);
  t.End("x", Verdict::kCancelled);
  t.End("oc", Verdict::kRetry);
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

TEST(Step, FirstCancelDuringFinallyLetsItFinish) {
  TestRun t(Of({Shell("a"), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  t.Queue("f");
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_TRUE(t.changes.cancels.empty());
  t.End("f", Verdict::kSucceeded);
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

TEST(Step, LargeCancelGoesOnInLaterRounds) {
  std::vector<Task> tasks;
  tasks.reserve(501);
  for (int i = 0; i < 500; ++i) tasks.push_back(Shell("t" + std::to_string(i)));
  tasks.push_back(Shell("f", {}, TaskRole::kFinally));
  TestRun t(Of(std::move(tasks)), 50);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("t250");
  EXPECT_TRUE(t.Do(CancelRun{}));
  int rounds = 1;
  for (; t.changes.more; ++rounds) {
    EXPECT_LE(t.changes.tasks.size(), 51U);
    if (rounds == 4) t.Crash();
    EXPECT_TRUE(t.Do(ContinueRun{}));
  }
  EXPECT_GE(rounds, 9);
  EXPECT_EQ(t.State("f"), TaskState::kWaiting);
  t.End("t250", Verdict::kCancelled);
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

TEST(Step, CancelRestFailsTheRun) {
  WorkflowDefinition d = Roles();
  d.on_failure = OnFailure::kCancelRest;
  TestRun t(d);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(t.changes.cancels.size(), 1U);
  EXPECT_EQ(t.State("b"), TaskState::kCancelled);
  EXPECT_EQ(t.At("b").reason, Reason::kCancelRest);
  t.End("x", Verdict::kSucceeded);
  t.Run1("oc");
  t.Run1("f");
  t.Run1("g");
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
  EXPECT_EQ(t.run.header.reason, Reason::kCancelRest);
}

TEST(Step, RunTimeoutIsACancelThatFails) {
  WorkflowDefinition d = Roles();
  d.timeout = minutes(1);
  TestRun t(d);
  EXPECT_TRUE(t.Do(StartRun{}));
  ASSERT_EQ(t.changes.timers.size(), 1U);
  EXPECT_EQ(t.changes.timers[0].when, t.now + minutes(1));
  EXPECT_FALSE(t.changes.timers[0].task);
  EXPECT_TRUE(t.Do(PauseRun{}));
  EXPECT_TRUE(IsEvictable(t.run)) << "a paused run with nothing live needs no memory";
  EXPECT_EQ(t.run.header.wake_at, t.now + minutes(1));
  t.Pass(seconds(59));
  EXPECT_EQ(t.State("a"), TaskState::kReady);
  t.Pass(seconds(1));
  EXPECT_EQ(t.State("a"), TaskState::kCancelled);
  EXPECT_EQ(t.At("a").reason, Reason::kRunTimeout);
  t.Run1("oc");
  t.Run1("f");
  t.Run1("g");
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, FinallyFailureFailsTheRunAndFinallyTimeoutStopsIt) {
  TestRun t(
      Of({Shell("a"), Shell("f", {}, TaskRole::kFinally), Shell("g", {"f"}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  t.Queue("f");
  t.Pass(minutes(5));
  EXPECT_EQ(t.State("g"), TaskState::kCancelled);
  EXPECT_EQ(t.At("g").reason, Reason::kFinallyTimeout);
  ASSERT_EQ(t.changes.cancels.size(), 1U);
  t.End("f", Verdict::kCancelled);
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, CancelTimeoutShowsTheRunEndedAndKeepsTheZombie) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(t.changes.timers.at(0).when, t.now + minutes(10));
  t.Pass(minutes(10));
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
  EXPECT_EQ(t.State("a"), TaskState::kCancelled);
  EXPECT_EQ(t.At("a").reason, Reason::kCancelTimeout);
  EXPECT_TRUE(t.At("a").zombie);
  EXPECT_EQ(t.run.live, 1U);
  EXPECT_EQ(t.changes.events.at(0).kind, "zombie");
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{ResetCursor::Kind::kAll, {}, ""})), Code::kConflict);
  t.Crash();
  EXPECT_EQ(t.changes.cancels.size(), 1U);
  EXPECT_EQ(t.changes.offers.size(), 1U) << "to be inspected";
  t.End("a", Verdict::kSucceeded);
  EXPECT_EQ(t.State("a"), TaskState::kCancelled) << "its late word changes nothing";
  EXPECT_EQ(t.changes.attempts.size(), 1U);
  EXPECT_EQ(t.run.live, 0U);
  EXPECT_TRUE(t.Do(RerunTasks{ResetCursor::Kind::kAll, {}, ""}));
}

TEST(Step, EveryDeadlineOpensThePhaseOfTheNext) {
  WorkflowDefinition d = Roles();
  d.timeout = minutes(1);
  TestRun t(d);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  t.Pass(std::chrono::hours(24));
  EXPECT_EQ(t.State("x"), TaskState::kQueued) << "told only now";
  t.Pass(minutes(10));
  EXPECT_TRUE(t.At("x").zombie);
  EXPECT_EQ(t.State("oc"), TaskState::kCancelled);
  EXPECT_EQ(t.State("f"), TaskState::kReady);
  t.Queue("f");
  t.Pass(minutes(5));
  t.Pass(minutes(10));
  EXPECT_TRUE(t.At("f").zombie);
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
  EXPECT_EQ(t.run.live, 2U);
}

TEST(Step, AnAttemptThatOutlivesItsTimeoutBecomesAZombie) {
  Task a = Shell("a");
  a.timeout = minutes(1);
  TestRun t(Of({a, Shell("b", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  t.Pass(minutes(3));
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  ASSERT_EQ(t.changes.timers.size(), 1U);
  EXPECT_EQ(t.changes.timers[0].when, t.now + minutes(11));
  t.Pass(minutes(10));
  EXPECT_EQ(t.State("a"), TaskState::kRunning);
  t.Pass(minutes(1));
  EXPECT_EQ(t.States(), "a:failed b:upstream_failed");
  EXPECT_EQ(t.At("a").reason, Reason::kTimeout);
  EXPECT_TRUE(t.At("a").zombie);
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, ACancelAfterFinallyBeganMakesNoDifferenceToOnCancelTasks) {
  std::vector<Task> tasks{Shell("a")};
  for (int i = 0; i < 30; ++i) {
    tasks.push_back(Shell("oc" + std::to_string(i), {}, TaskRole::kOnCancel));
  }
  tasks.push_back(Shell("f", {}, TaskRole::kFinally));
  TestRun t(Of(std::move(tasks)), 10);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  ASSERT_TRUE(t.changes.more);
  t.Pass(seconds(1));
  EXPECT_TRUE(t.DoAll(CancelRun{}));
  EXPECT_TRUE(t.DoAll(ContinueRun{}));
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(t.At("oc" + std::to_string(i)).reason, Reason::kNotCancelled) << i;
  }
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
}

// ---- Pause.

TEST(Step, PausedQueuesNothingAndResumeOffersAllReady) {
  TestRun t(Of({Shell("a"), Shell("b"), Shell("c", {"a"})}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(PauseRun{"ada"}));
  EXPECT_TRUE(t.Do(PauseRun{}));
  EXPECT_EQ(t.changes.rows(), 0U);
  EXPECT_TRUE(t.Do(QueueTask{t.No("b")}));
  EXPECT_EQ(t.State("b"), TaskState::kReady);
  t.End("a", Verdict::kSucceeded);
  EXPECT_TRUE(t.changes.ready.empty());
  EXPECT_TRUE(t.Do(ResumeRun{}));
  EXPECT_EQ(t.changes.ready.size(), 2U);
}

TEST(Step, APausedRunDoesNotBurnItsFinallyTimeout) {
  TestRun t(Of({Shell("a"), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(PauseRun{}));
  t.End("a", Verdict::kSucceeded);
  EXPECT_EQ(t.State("f"), TaskState::kWaiting);
  EXPECT_TRUE(IsEvictable(t.run));
  EXPECT_EQ(t.run.header.wake_at, kNever);
  t.Pass(std::chrono::hours(5));
  EXPECT_TRUE(t.Do(ResumeRun{}));
  EXPECT_EQ(t.Ready(), "f ");
  EXPECT_EQ(t.run.header.finally_started_at, t.now);
}

TEST(Step, CancelOverridesPause) {
  TestRun t(Of({Shell("a"), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_TRUE(t.Do(PauseRun{}));
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(CodeOf(t.Do(PauseRun{})), Code::kConflict);
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kCancelled);
  EXPECT_EQ(CodeOf(t.Do(PauseRun{})), Code::kConflict);
  EXPECT_EQ(CodeOf(t.Do(ResumeRun{})), Code::kConflict);
}

// ---- Rerun.

using Kind = ResetCursor::Kind;

TEST(Step, RerunFailedResetsWhatFailedAndWhatFollows) {
  TestRun t(Of({Shell("ok"), Shell("a"), Shell("b", {"a"}), Shell("c", {"ok"}),
                Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFailed, {}, ""})), Code::kConflict);
  for (const char* id : {"ok", "c"}) t.Run1(id);
  t.Run1("a", Verdict::kFailed);
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
  const Epoch epoch = t.At("a").epoch;
  t.Pass(minutes(1));
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kFailed, {}, "ada"}));
  EXPECT_EQ(t.States(), "ok:succeeded a:ready b:waiting c:succeeded f:waiting");
  EXPECT_EQ(t.run.header.generation, 1U);
  EXPECT_EQ(t.run.header.started_at, t.now);
  EXPECT_EQ(t.run.header.finished_at, Instant{});
  EXPECT_EQ(t.At("a").tries, 0);
  EXPECT_EQ(t.changes.outputs_cleared.size(), 2U) << "a and f had attempts";
  t.Run1("a");
  EXPECT_GT(t.At("a").epoch, epoch) << "epochs never repeat";
  EXPECT_EQ(t.changes.attempts.at(0).generation, 1U);
  EXPECT_EQ(t.changes.attempts.at(0).try_no, 1);
  t.Run1("b");
  t.Run1("f");
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFailed, {}, ""})), Code::kConflict);
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFrom, TaskNo{99}, ""})), Code::kNotFound);
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kMark, {}, ""})), Code::kInvalidArgument);
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kAll, {}, ""}));
  EXPECT_EQ(t.Ready(), "ok a ");
}

TEST(Step, RerunFromALiveRunNeedsItsWholeSetToBeOver) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"}), Shell("x")}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFrom, t.No("a"), ""})), Code::kConflict);
  t.Run1("a");
  t.Queue("b");
  const Status refused = t.Do(RerunTasks{Kind::kFrom, t.No("a"), ""});
  EXPECT_EQ(CodeOf(refused), Code::kConflict);
  EXPECT_NE(refused.error().message.find("'b'"), std::string::npos) << refused.error().message;
  t.End("b", Verdict::kSucceeded);
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kFrom, t.No("a"), ""}));
  EXPECT_EQ(t.States(), "a:ready x:queued b:waiting");
}

TEST(Step, ALargeRerunQueuesNothingBeforeItIsComplete) {
  std::vector<Task> tasks{Shell("root")};
  for (int i = 0; i < 200; ++i) tasks.push_back(Shell("t" + std::to_string(i), {"root"}));
  TestRun t(Of(std::move(tasks)), 20);
  EXPECT_TRUE(t.DoAll(StartRun{}));
  EXPECT_TRUE(t.Do(QueueTask{t.No("root")}));
  Outcome failed;
  failed.verdict = Verdict::kFailed;
  EXPECT_TRUE(t.DoAll(AttemptEnded{t.No("root"), t.At("root").epoch, failed}));
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kFailed, {}, ""}));
  ASSERT_TRUE(t.changes.more);
  EXPECT_TRUE(t.changes.ready.empty());
  EXPECT_TRUE(t.Do(QueueTask{t.No("root")}));
  EXPECT_NE(t.State("root"), TaskState::kQueued);
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kAll, {}, ""})), Code::kConflict);
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("root"), TaskState::kSucceeded, ""})), Code::kConflict);
  std::string ready;
  for (int rounds = 0; t.run.header.reset.kind != Kind::kNone; ++rounds) {
    if (rounds == 3) t.Crash();
    EXPECT_TRUE(t.Do(ContinueRun{}));
    ready += t.Ready();
  }
  EXPECT_EQ(ready, "root ");
}

TEST(Step, RerunOfACancelledRunClearsTheCancel) {
  TestRun t(Roles());
  EXPECT_TRUE(t.Do(StartRun{}));
  EXPECT_TRUE(t.Do(CancelRun{}));
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFrom, t.No("a"), ""})), Code::kConflict);
  for (const char* id : {"oc", "f", "g"}) t.Run1(id);
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kFailed, {}, ""}));
  EXPECT_EQ(t.States(), "a:ready x:ready b:waiting oc:waiting f:waiting g:waiting");
  for (const char* id : {"a", "b", "x", "f", "g"}) t.Run1(id);
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

// ---- Mark.

TEST(Step, MarkDecidesSuccessorsAgainAndRevivesTheRun) {
  TestRun t(
      Of({Shell("a"), Shell("b", {"a"}), Shell("c", {"b"}), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("a"), TaskState::kSucceeded, ""})), Code::kConflict)
      << "pending";
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  t.Run1("f");
  ASSERT_EQ(t.run.header.state, RunState::kFailed);
  EXPECT_TRUE(t.Do(MarkTask{t.No("a"), TaskState::kSucceeded, "ada"}));
  EXPECT_EQ(t.changes.events.at(0).kind, "mark");
  EXPECT_EQ(t.changes.events.at(0).actor, "ada");
  EXPECT_EQ(t.States(), "a:succeeded b:ready c:waiting f:waiting") << "finally runs once more";
  EXPECT_EQ(t.run.header.state, RunState::kRunning);
  EXPECT_EQ(t.run.header.generation, 0U);
  for (const char* id : {"b", "c", "f"}) t.Run1(id);
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

TEST(Step, MarkThatRunsNothingOnlyChangesTheOutcome) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"}), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  t.Run1("f");
  EXPECT_TRUE(t.Do(MarkTask{t.No("a"), TaskState::kSkipped, ""}));
  EXPECT_EQ(t.States(), "a:skipped b:skipped f:succeeded") << "finally is not run again";
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
  EXPECT_TRUE(t.Do(MarkTask{t.No("b"), TaskState::kFailed, ""}));
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
  EXPECT_FALSE(t.changes.finished);
  EXPECT_TRUE(t.Do(MarkTask{t.No("b"), TaskState::kSucceeded, ""}));
  EXPECT_EQ(t.run.header.state, RunState::kSucceeded);
}

TEST(Step, MarkOfUnsettledTasksAndConflicts) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"}), Shell("c", {"b"}), Shell("x"),
                Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("x");
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("x"), TaskState::kSucceeded, ""})), Code::kConflict);
  EXPECT_EQ(CodeOf(t.Do(MarkTask{TaskNo{77}, TaskState::kSucceeded, ""})), Code::kNotFound);
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("a"), TaskState::kCancelled, ""})), Code::kInvalidArgument);
  EXPECT_TRUE(t.Do(MarkTask{t.No("b"), TaskState::kSucceeded, ""}));
  EXPECT_EQ(t.States(), "a:ready x:queued b:succeeded c:ready f:waiting");
  EXPECT_EQ(t.At("b").reason, Reason::kMarked);
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(t.State("b"), TaskState::kSucceeded);
  EXPECT_TRUE(t.Do(MarkTask{t.No("c"), TaskState::kFailed, ""}));
  t.End("x", Verdict::kSucceeded);
  EXPECT_EQ(t.State("f"), TaskState::kReady);
}

TEST(Step, MarkThatWouldRunMainTasksWaitsForFinally) {
  TestRun t(Of({Shell("a"), Shell("b", {"a"}), Shell("f", {}, TaskRole::kFinally)}));
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a", Verdict::kFailed);
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("a"), TaskState::kSucceeded, ""})), Code::kConflict);
}

// ---- All instances of a matrix.

/// a → m[1], m[2] → z, and x beside them.
WorkflowDefinition WithMatrix() {
  WorkflowDefinition d = Of({Shell("a"), Shell("m[1]", {"a"}), Shell("m[2]", {"a"}), Shell("x"),
                             Shell("z", {"m[1]", "m[2]"})});
  for (Task& task : d.tasks) {
    if (!task.id.starts_with("m[")) continue;
    task.group = "m";
    task.matrix = R"({"n":)" + task.id.substr(2, 1) + "}";
  }
  return d;
}

TEST(Step, RerunFromAGroupRunsAllItsInstancesAndWhatNeedsThem) {
  TestRun t(WithMatrix());
  EXPECT_TRUE(t.Do(StartRun{}));
  for (const char* id : {"a", "m[1]"}) t.Run1(id);
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFromGroup, t.No("m[1]"), ""})), Code::kConflict)
      << "m[2] has not ended";
  EXPECT_EQ(CodeOf(t.Do(RerunTasks{Kind::kFromGroup, t.No("x"), ""})), Code::kConflict);
  for (const char* id : {"m[2]", "z", "x"}) t.Run1(id);
  EXPECT_TRUE(t.Do(RerunTasks{Kind::kFromGroup, t.No("m[2]"), "ada"}));
  EXPECT_EQ(t.States(), "a:succeeded x:succeeded m[1]:ready m[2]:ready z:waiting");
  EXPECT_EQ(t.changes.events.at(2).detail, "from m");
}

TEST(Step, MarkOfAGroupSettlesAllItsInstancesBeforeItsSuccessorsAreDecided) {
  TestRun t(WithMatrix());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Run1("a");
  t.Run1("m[1]", Verdict::kFailed);
  t.Queue("m[2]");
  EXPECT_EQ(CodeOf(t.Do(MarkTask{t.No("m[1]"), TaskState::kSucceeded, "", true})), Code::kConflict)
      << "m[2] is under way";
  t.End("m[2]", Verdict::kFailed);
  EXPECT_EQ(t.States(), "a:succeeded x:ready m[1]:failed m[2]:failed z:upstream_failed");
  EXPECT_TRUE(t.Do(MarkTask{t.No("m[2]"), TaskState::kSucceeded, "ada", true}));
  EXPECT_EQ(t.States(), "a:succeeded x:ready m[1]:succeeded m[2]:succeeded z:ready");
  EXPECT_EQ(t.changes.events.at(0).detail, "m succeeded");
}

// ---- Rebuild.

TEST(Rebuild, EmitsWhatACrashLost) {
  Task a = Shell("a");
  a.timeout = minutes(1);
  Task p = Shell("p");
  p.retry.max_attempts = 2;
  WorkflowDefinition d = Of({a, p, Shell("r"), Shell("w", {"a"})});
  d.timeout = std::chrono::hours(1);
  TestRun t(d);
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  EXPECT_TRUE(t.Do(AttemptStarted{t.No("a"), t.At("a").epoch}));
  t.Run1("p", Verdict::kRetry);
  t.Crash();
  EXPECT_EQ(t.Ready(), "r ");
  ASSERT_EQ(t.changes.offers.size(), 1U);
  EXPECT_EQ(t.changes.offers[0].task, t.No("a"));
  EXPECT_EQ(t.changes.timers.size(), 3U) << "backstop, backoff, run timeout";
  EXPECT_FALSE(t.changes.more);
  EXPECT_TRUE(t.Do(CancelRun{}));
  t.Crash();
  EXPECT_EQ(t.changes.cancels.size(), 1U);
}

TEST(Rebuild, RefusesRowsThatCannotBe) {
  TestRun t(Chain());
  EXPECT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  const StoredTask good = t.rows.begin()->second;
  const auto code = [&](const RunHeader& header, const std::vector<StoredTask>& rows) {
    Changes changes;
    const auto result = Rebuild(header, t.run.workflow, rows, t.now, changes);
    return result ? Code{} : result.error().code;
  };
  EXPECT_EQ(code(t.stored, {good}), Code{});
  EXPECT_EQ(code(t.stored, {good, good}), Code::kCorrupt);
  StoredTask bad = good;
  bad.task = TaskNo{3};
  EXPECT_EQ(code(t.stored, {bad}), Code::kCorrupt);
  bad = good;
  bad.epoch = t.stored.next_epoch;
  EXPECT_EQ(code(t.stored, {bad}), Code::kCorrupt);
  bad = good;
  bad.zombie = true;
  EXPECT_EQ(code(t.stored, {bad}), Code::kCorrupt);
  bad = good;
  bad.state = static_cast<TaskState>(10);
  EXPECT_EQ(code(t.stored, {bad}), Code::kCorrupt);
  RunHeader ended = t.stored;
  ended.state = RunState::kSucceeded;
  EXPECT_EQ(code(ended, {good}), Code::kCorrupt);
}

TEST(Step, RefusesARunThatIsNotBuilt) {
  TestRun t(Chain());
  Changes changes;
  model::Run empty;
  EXPECT_EQ(CodeOf(Step(empty, StartRun{}, t.now, 10, changes)), Code::kInternal);
  t.run.tasks.pop_back();
  EXPECT_EQ(CodeOf(Step(t.run, StartRun{}, t.now, 10, changes)), Code::kInternal);
}

// ---- `when` and `deadline`

TEST(Step, WhenIsAskedOncePerGeneration) {
  Task task = Shell("a");
  task.when = {"params.go"};
  task.retry.max_attempts = 2;
  TestRun t(Of({task}));
  ASSERT_TRUE(t.Do(StartRun{}));
  EXPECT_EQ(t.Ready(), "");
  ASSERT_EQ(t.changes.evaluate.size(), 1U);
  const Instant since = t.changes.evaluate[0].since;
  ASSERT_TRUE(t.Do(QueueTask{t.No("a")}));
  EXPECT_EQ(t.State("a"), TaskState::kReady) << "not before the answer";
  ASSERT_TRUE(t.Do(WhenEvaluated{t.No("a"), since - seconds(1), true, ""}));
  EXPECT_EQ(t.Ready(), "") << "an answer about another time";
  ASSERT_TRUE(t.Do(WhenEvaluated{t.No("a"), since, true, ""}));
  EXPECT_EQ(t.Ready(), "a ");
  t.Run1("a", Verdict::kRetry);
  t.Pass(minutes(10));
  EXPECT_EQ(t.Ready(), "a ") << "a second try asks nothing";
  EXPECT_TRUE(t.changes.evaluate.empty());
  t.Run1("a", Verdict::kFailed);
  ASSERT_TRUE(t.DoAll(RerunTasks{ResetCursor::Kind::kAll, {}, "x"}));
  EXPECT_EQ(t.changes.ready.size(), 0U);
  EXPECT_EQ(t.State("a"), TaskState::kReady);
  EXPECT_FALSE(t.At("a").admitted);
  EXPECT_EQ(t.fault, "");
}

TEST(Step, AFalseWhenSkipsAndSuccessorsFollowTheirRules) {
  Task a = Shell("a");
  a.when = {"false"};
  Task c = Shell("c", {"a"});
  c.trigger_rule = TriggerRule::kNoneFailed;
  TestRun t(Of({a, Shell("b", {"a"}), c}));
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.DoAll(WhenEvaluated{t.No("a"), t.At("a").since, false, ""}));
  EXPECT_EQ(t.States(), "a:skipped b:skipped c:ready");
  EXPECT_EQ(t.At("a").reason, Reason::kWhen);
  EXPECT_EQ(t.At("b").reason, Reason::kTriggerRule);
}

TEST(Step, AWhenWithoutAnAnswerFailsAndSaysWhy) {
  Task a = Shell("a");
  a.when = {"1 / 0 > 1"};
  TestRun t(Of({a}));
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.Do(WhenEvaluated{t.No("a"), t.At("a").since, false, "division by zero"}));
  EXPECT_EQ(t.At("a").reason, Reason::kExpression);
  ASSERT_EQ(t.changes.events.size(), 1U);
  EXPECT_EQ(t.changes.events[0].detail, "a: division by zero");
  EXPECT_EQ(t.run.header.state, RunState::kFailed);
}

TEST(Step, APausedRunAsksWhenItIsResumed) {
  Task b = Shell("b", {"a"});
  b.when = {"true"};
  TestRun t(Of({Shell("a"), b}));
  ASSERT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  ASSERT_TRUE(t.Do(PauseRun{"x"}));
  t.End("a", Verdict::kSucceeded);
  EXPECT_EQ(t.State("b"), TaskState::kReady);
  EXPECT_TRUE(t.changes.evaluate.empty());
  ASSERT_TRUE(t.Do(ResumeRun{"x"}));
  EXPECT_EQ(t.changes.evaluate.size(), 1U);
}

TEST(Step, ADeadlineCountsFromTheFirstHandOverOverAllTries) {
  Task a = Shell("a");
  a.deadline = minutes(10);
  a.retry = {.max_attempts = 9, .backoff = Backoff::kFixed, .initial = minutes(4), .jitter = 0};
  TestRun t(Of({a, Shell("b")}));
  ASSERT_TRUE(t.Do(StartRun{}));
  t.Pass(minutes(30));
  EXPECT_EQ(t.State("a"), TaskState::kReady) << "it has not begun";
  t.Run1("a", Verdict::kRetry);
  t.Pass(minutes(4));
  t.Run1("a", Verdict::kRetry);
  t.Pass(minutes(4));
  EXPECT_EQ(t.State("a"), TaskState::kReady);
  t.Run1("a", Verdict::kRetry);
  t.Pass(minutes(1));
  EXPECT_EQ(t.State("a"), TaskState::kParked);
  t.Pass(minutes(1));
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kDeadline);
}

TEST(Step, AnAttemptPastItsDeadlineIsToldAndWhatItSaysLastCounts) {
  for (const auto& [verdict, state, reason] :
       {std::tuple(Verdict::kSucceeded, TaskState::kSucceeded, Reason::kNone),
        std::tuple(Verdict::kSkipped, TaskState::kSkipped, Reason::kNone),
        std::tuple(Verdict::kFailed, TaskState::kFailed, Reason::kError),
        std::tuple(Verdict::kRetry, TaskState::kFailed, Reason::kDeadline),
        std::tuple(Verdict::kSnoozed, TaskState::kFailed, Reason::kDeadline),
        std::tuple(Verdict::kInterrupted, TaskState::kFailed, Reason::kDeadline),
        std::tuple(Verdict::kLost, TaskState::kFailed, Reason::kDeadline),
        std::tuple(Verdict::kCancelled, TaskState::kFailed, Reason::kDeadline)}) {
    Task a = Shell("a");
    a.deadline = minutes(10);
    a.retry.max_attempts = 9;
    TestRun t(Of({a}));
    ASSERT_TRUE(t.Do(StartRun{}));
    t.Queue("a");
    t.Pass(minutes(10));
    ASSERT_EQ(t.changes.cancels.size(), 1U);
    t.Crash();
    ASSERT_EQ(t.changes.cancels.size(), 1U) << "told again";
    t.End("a", verdict);
    EXPECT_EQ(t.State("a"), state) << VerdictName(verdict);
    EXPECT_EQ(t.At("a").reason, reason) << VerdictName(verdict);
  }
}

TEST(Step, AnAttemptThatDoesNotStopAtItsDeadlineBecomesAZombie) {
  Task a = Shell("a");
  a.deadline = minutes(1);
  TestRun t(Of({a}));
  ASSERT_TRUE(t.Do(StartRun{}));
  t.Queue("a");
  t.Pass(minutes(1));
  t.Pass(minutes(10) - Duration{1});
  EXPECT_EQ(t.State("a"), TaskState::kQueued);
  t.Pass(Duration{1});
  EXPECT_EQ(t.State("a"), TaskState::kFailed);
  EXPECT_EQ(t.At("a").reason, Reason::kDeadline);
  EXPECT_TRUE(t.At("a").zombie);
}

}  // namespace
}  // namespace headworks::model
