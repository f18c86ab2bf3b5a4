#include "rig.h"

namespace headworks::engine {
namespace {

using model::OnConflict;
using model::RunState;

class PlacesTest : public EngineTest {
 protected:
  std::shared_ptr<const model::Workflow> With(model::Concurrency concurrency,
                                              std::string name = "w") {
    auto definition = Tasks(std::move(name), 1);
    definition.concurrency = std::move(concurrency);
    definition.cancel_timeout = std::chrono::seconds(5);
    return Put(std::move(definition));
  }
  Result<control::Started> StartWith(const model::Workflow& workflow, std::string key,
                                     int priority = 0) {
    Result<control::Started> answer = Error{Code::kInternal, "no answer"};
    engine_.Start({.tenant = tenant_,
                   .name = workflow.name(),
                   .version = workflow.version(),
                   .input = "{}",
                   .concurrency_key = std::move(key),
                   .priority = priority},
                  [&](Result<control::Started> started) { answer = std::move(started); });
    Tick(2);
    return answer;
  }
  RunNo Begin(const model::Workflow& workflow, std::string key, int priority = 0) {
    const auto started = StartWith(workflow, std::move(key), priority);
    EXPECT_TRUE(started) << started.error().message;
    return started ? started->run : RunNo(0);
  }
  RunState State(RunNo run) { return Stored(run).state; }
  void End(RunNo run, model::Verdict verdict = model::Verdict::kSucceeded) {
    const auto at = std::ranges::find_if(
        dispatcher_.taken, [&](const auto& attempt) { return attempt.key.run == run; });
    ASSERT_NE(at, dispatcher_.taken.end()) << "run " << run.value;
    engine_.Ended(at->key, {.verdict = verdict});
    dispatcher_.taken.erase(at);
    Tick(2);
  }
};

TEST_F(PlacesTest, RunsWithOneKeyWaitForEachOtherAndOthersDoNot) {
  const auto workflow = With({.key = "params.customer", .limit = 1});
  const RunNo a1 = Begin(*workflow, "a"), a2 = Begin(*workflow, "a"), a3 = Begin(*workflow, "a", 5);
  const RunNo b = Begin(*workflow, "b");
  EXPECT_EQ(State(a1), RunState::kRunning);
  EXPECT_EQ(State(a2), RunState::kPending);
  EXPECT_EQ(State(b), RunState::kRunning);
  EXPECT_EQ(Stored(a2).concurrency_key, "a");
  End(a1);
  EXPECT_EQ(State(a3), RunState::kRunning) << "the higher priority";
  EXPECT_EQ(State(a2), RunState::kPending);
  End(a3);
  EXPECT_EQ(State(a2), RunState::kRunning);
}

TEST_F(PlacesTest, LimitIsReachedAndNotPassed) {
  const auto workflow = With({.limit = 3});
  std::vector<RunNo> runs;
  runs.reserve(5);
  for (int i = 0; i < 5; ++i) runs.push_back(Begin(*workflow, ""));
  const auto running = [&] {
    return std::ranges::count_if(runs, [&](RunNo run) { return State(run) == RunState::kRunning; });
  };
  EXPECT_EQ(running(), 3);
  End(runs[1]);
  EXPECT_EQ(running(), 3);
  End(runs[0]);
  EXPECT_EQ(running(), 3);
}

TEST_F(PlacesTest, RunThatIsOverInTheRoundOfItsStartLeavesItsPlace) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].role = model::TaskRole::kMain;
  definition.tasks[0].trigger_rule = model::TriggerRule::kAllSuccess;
  definition.tasks[0].when = {"asked"};
  definition.concurrency = model::Concurrency{.limit = 1};
  const auto workflow = Put(std::move(definition));
  const std::vector<RunNo> runs = {Begin(*workflow, ""), Begin(*workflow, ""),
                                   Begin(*workflow, "")};
  for (const RunNo run : runs) {
    Tick(2);
    ASSERT_EQ(evaluator_.asked.size(), 1U) << run.value;
    evaluator_.Answer1(false);  // skipped: nothing of it is ever queued
    Tick(2);
    EXPECT_EQ(State(run), RunState::kSucceeded);
  }
}

TEST_F(PlacesTest, ARerunThatFindsNoPlaceIsRefusedAndNamesTheHolder) {
  const auto workflow = With({.key = "params.customer", .limit = 1});
  const auto rerun = [&](RunNo run) {
    Status answer = Error{Code::kInternal, "no answer"};
    engine_.Execute({.tenant = tenant_,
                     .kind = control::CommandKind::kRerun,
                     .run = run,
                     .rerun = model::ResetCursor::Kind::kAll},
                    [&](Status done) { answer = std::move(done); });
    Tick(2);
    return answer;
  };
  const RunNo first = Begin(*workflow, "a");
  End(first);
  const RunNo second = Begin(*workflow, "a");
  const Status refused = rerun(first);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_EQ(refused.error().message,
            "run 1 cannot go on now: run 2 (running) has the place of concurrency key 'a' "
            "(concurrency.limit 1); wait for the end, or cancel what you do not need");
  EXPECT_EQ(State(first), RunState::kSucceeded);
  End(second);
  EXPECT_TRUE(rerun(first));
  EXPECT_EQ(State(first), RunState::kRunning);
  EXPECT_EQ(State(Begin(*workflow, "a")), RunState::kPending) << "it has the place now";
}

TEST_F(PlacesTest, SkipMakesNoRunAndNamesTheHolder) {
  const auto workflow =
      With({.key = "params.customer", .limit = 1, .on_conflict = OnConflict::kSkip});
  const RunNo holder = Begin(*workflow, "a");
  const auto refused = StartWith(*workflow, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("run 1 (running) has the place"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(store_.query().ListRuns(tenant_, {})->size(), 1U);
  End(holder);
  EXPECT_TRUE(StartWith(*workflow, "a"));
}

TEST_F(PlacesTest, SkipCountsTheStartsOfItsOwnRound) {
  const auto workflow = With({.limit = 2, .on_conflict = OnConflict::kSkip});
  int made = 0, refused = 0;
  for (int i = 0; i < 5; ++i)
    engine_.Start({.tenant = tenant_,
                   .name = workflow->name(),
                   .version = workflow->version(),
                   .input = "{}",
                   .concurrency_key = ""},
                  [&](const auto& started) { ++(started ? made : refused); });
  Tick(3);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(refused, 3);
}

TEST_F(PlacesTest, ZombieKeepsItsPlaceOfKeyAndWorkflow) {
  auto definition = With({.limit = 1, .on_conflict = OnConflict::kSkip})->definition();
  const auto skip = Put(definition);
  definition.name.workflow = "one";
  definition.concurrency.reset();
  definition.max_active_runs = 1;
  const auto one = Put(definition);
  const RunNo a = Begin(*skip, ""), b = Begin(*one, "");
  const auto attempts = dispatcher_.taken;
  Execute(control::CommandKind::kCancel, a);
  Execute(control::CommandKind::kCancel, b);
  Tick();
  clock_.Advance(std::chrono::seconds(6));
  Tick(2);
  EXPECT_EQ(State(a), RunState::kCancelled);
  EXPECT_EQ(State(b), RunState::kCancelled);
  const auto refused = StartWith(*skip, "");
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("not known to be over"), std::string::npos);
  const RunNo next = Begin(*one, "");
  EXPECT_EQ(State(next), RunState::kPending);
  for (const auto& attempt : attempts)
    engine_.Ended(attempt.key, {.verdict = model::Verdict::kCancelled});
  Tick(3);
  EXPECT_EQ(State(next), RunState::kRunning);
  EXPECT_TRUE(StartWith(*skip, ""));
}

TEST_F(PlacesTest, CancelPreviousCancelsTheOldestAndWaitsUntilItIsOver) {
  const auto workflow = With({.limit = 2, .on_conflict = OnConflict::kCancelPrevious});
  const RunNo first = Begin(*workflow, ""), second = Begin(*workflow, "");
  const RunNo third = Begin(*workflow, "");
  Tick();
  EXPECT_NE(Stored(first).cancel_requested_at, Instant{});
  EXPECT_EQ(Stored(second).cancel_requested_at, Instant{});
  EXPECT_EQ(State(third), RunState::kPending) << "the first is not over";
  EXPECT_EQ(Stored(first).finally_stopped, false) << "cancelled once";
  const RunNo fourth = Begin(*workflow, "");
  Tick();
  EXPECT_NE(Stored(second).cancel_requested_at, Instant{});
  End(first, model::Verdict::kCancelled);
  EXPECT_EQ(State(third), RunState::kRunning);
  End(second, model::Verdict::kCancelled);
  EXPECT_EQ(State(fourth), RunState::kRunning);
  EXPECT_EQ(State(first), RunState::kCancelled);
  const auto events = store_.query().ListEvents(tenant_, first, 10);
  EXPECT_EQ(events->back().actor, "engine, for run 3");
}

TEST_F(PlacesTest, CancelPreviousCancelsWaitingRunsToo) {
  const auto workflow = With({.limit = 1, .on_conflict = OnConflict::kCancelPrevious});
  const RunNo first = Begin(*workflow, ""), second = Begin(*workflow, "");
  const RunNo third = Begin(*workflow, "");
  Tick();
  EXPECT_EQ(State(second), RunState::kCancelled) << "it never started";
  End(first, model::Verdict::kCancelled);
  EXPECT_EQ(State(third), RunState::kRunning);
}

TEST_F(PlacesTest, CancelPreviousLeavesThoseAtWorkUntilTheRateLetsTheNewOneStart) {
  const auto workflow = With({.limit = 1,
                              .on_conflict = OnConflict::kCancelPrevious,
                              .rate = 1,
                              .rate_per = std::chrono::minutes(5)});
  const RunNo first = Begin(*workflow, ""), second = Begin(*workflow, "");
  const RunNo third = Begin(*workflow, "");
  Tick(4);
  EXPECT_EQ(Stored(first).cancel_requested_at, Instant{}) << "else nothing would be at work";
  EXPECT_EQ(State(second), RunState::kCancelled) << "it never started, and the third is newer";
  EXPECT_EQ(State(third), RunState::kPending);
  clock_.Advance(std::chrono::minutes(4));
  Tick(4);
  EXPECT_EQ(Stored(first).cancel_requested_at, Instant{});
  clock_.Advance(std::chrono::minutes(1));
  Tick(4);
  EXPECT_NE(Stored(first).cancel_requested_at, Instant{});
  End(first, model::Verdict::kCancelled);
  EXPECT_EQ(State(third), RunState::kRunning);
}

TEST_F(PlacesTest, WhoWaitsIsCountedByWhatFor) {
  const auto waiting = [&] {
    const EngineStats stats = engine_.stats();
    return std::vector{stats.runs_for_workflow, stats.runs_for_key, stats.runs_for_rate};
  };
  auto definition = With({.key = "k", .limit = 1}, "keyed")->definition();
  definition.max_active_runs = 2;
  const auto keyed = Put(std::move(definition));
  const auto rated = With({.rate = 1, .rate_per = std::chrono::minutes(5)}, "rated");
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{0, 0, 0}));
  const RunNo a1 = Begin(*keyed, "a"), a2 = Begin(*keyed, "a");
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{0, 1, 0}));
  const RunNo b = Begin(*keyed, "b"), c = Begin(*keyed, "c");
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{1, 1, 0}));
  Begin(*rated, "");
  Begin(*rated, "");
  Begin(*rated, "");
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{1, 1, 2}));
  End(b);
  End(a1);
  Tick(2);
  EXPECT_EQ(State(a2), RunState::kRunning);
  EXPECT_EQ(State(c), RunState::kRunning);
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{0, 0, 2}));
  clock_.Advance(std::chrono::minutes(5));
  Tick(4);
  EXPECT_EQ(waiting(), (std::vector<std::uint64_t>{0, 0, 1}));
}

TEST_F(PlacesTest, KeyIsNamedInOneLineWhateverIsInIt) {
  const auto workflow = With({.key = "k", .limit = 1, .on_conflict = OnConflict::kSkip});
  const std::string key = "a\x1b]0;b\x07\nrun 1 is fine";
  Begin(*workflow, key);
  const auto refused = StartWith(*workflow, key);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("concurrency key 'a\\x1b]0;b\\x07\\nrun 1 is fine'"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(PlacesTest, RunThatGoesToTheLineOfItsKeyLeavesItsPlaceToTheNext) {
  auto definition = With({.key = "k", .limit = 1})->definition();
  definition.max_active_runs = 2;
  const auto workflow = Put(std::move(definition));
  const RunNo a1 = Begin(*workflow, "a"), b1 = Begin(*workflow, "b");
  const RunNo a2 = Begin(*workflow, "a"), a3 = Begin(*workflow, "a"), c = Begin(*workflow, "c");
  End(b1);
  Tick(2);
  EXPECT_EQ(State(a2), RunState::kPending);
  EXPECT_EQ(State(a3), RunState::kPending);
  EXPECT_EQ(State(c), RunState::kRunning) << "those before it wait for their key";
  End(a1);
  EXPECT_EQ(State(a2), RunState::kRunning);
  End(c);
  End(a2);
  EXPECT_EQ(State(a3), RunState::kRunning);
}

TEST_F(PlacesTest, TurnOfAKeyIsPassedOnWhenItsRunIsCancelled) {
  auto definition = With({.key = "k", .limit = 1})->definition();
  definition.max_active_runs = 2;
  const auto workflow = Put(std::move(definition));
  const RunNo k1 = Begin(*workflow, "k"), k2 = Begin(*workflow, "k"), k3 = Begin(*workflow, "k");
  const RunNo x = Begin(*workflow, "x"), y = Begin(*workflow, "y");
  EXPECT_EQ(State(x), RunState::kRunning);
  End(k1);  // y takes its place, and k2 has the turn of the key
  Tick(4);
  ASSERT_EQ(State(y), RunState::kRunning);
  ASSERT_EQ(State(k2), RunState::kPending);
  Execute(control::CommandKind::kCancel, k2);
  Tick(2);
  End(x);
  End(y);
  Tick(4);
  EXPECT_EQ(State(k3), RunState::kRunning);
}

TEST_F(PlacesTest, RunOfAVersionThatAllowsFewerIsNotPassedForEver) {
  auto definition = Tasks("w", 1);
  definition.max_active_runs = 1;
  const auto narrow = Put(definition);
  definition.max_active_runs = 3;
  const auto wide = Put(definition);
  const RunNo first = Begin(*narrow, ""), old = Begin(*narrow, "");
  const RunNo young = Begin(*wide, "");
  EXPECT_EQ(State(young), RunState::kPending) << "behind the old one";
  const RunNo urgent = Begin(*wide, "", 5);
  EXPECT_EQ(State(urgent), RunState::kRunning) << "by its priority before it";
  End(first);
  EXPECT_EQ(State(old), RunState::kPending);
  End(urgent);
  Tick(4);
  EXPECT_EQ(State(old), RunState::kRunning);
  EXPECT_EQ(State(young), RunState::kRunning);
}

TEST_F(PlacesTest, RunThatWasNeverWrittenIsBeforeNobody) {
  auto definition = Tasks("w", 1);
  definition.max_active_runs = 1;
  const auto narrow = Put(definition);
  definition.max_active_runs = 2;
  const auto wide = Put(definition);
  const RunNo first = Begin(*wide, "");
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.insert_input) return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  EXPECT_FALSE(StartWith(*narrow, ""));
  store_.before = [](const auto&) { return Status(); };
  EXPECT_EQ(State(Begin(*wide, "")), RunState::kRunning);
  EXPECT_EQ(State(first), RunState::kRunning);
}

TEST_F(PlacesTest, PausedRunLetsOthersPassAndComesBack) {
  const auto workflow = With({.limit = 1});
  const RunNo first = Begin(*workflow, ""), second = Begin(*workflow, "");
  const RunNo third = Begin(*workflow, ""), fourth = Begin(*workflow, "");
  Execute(control::CommandKind::kPause, second);
  Tick(2);
  End(first);
  EXPECT_EQ(State(second), RunState::kPending);
  EXPECT_EQ(State(third), RunState::kRunning);
  Execute(control::CommandKind::kResume, second);
  Tick(2);
  EXPECT_EQ(State(second), RunState::kPending) << "the place is taken";
  End(third);
  EXPECT_EQ(State(second), RunState::kRunning) << "it is the oldest";
  EXPECT_EQ(State(fourth), RunState::kPending);
}

TEST_F(PlacesTest, PausedRunStaysAsideInTheNextEngine) {
  const auto workflow = With({.limit = 1});
  const RunNo first = Begin(*workflow, ""), second = Begin(*workflow, "");
  Execute(control::CommandKind::kPause, second);
  Tick(2);
  End(first);
  ASSERT_TRUE(engine_.Close());
  Engine next{{.owner = "next"}, store_,  dispatcher_, evaluator_, clock_,
              random_,           logger_, nullptr};
  ASSERT_TRUE(next.Open());
  const auto tick = [&] {
    for (int i = 0; i < 6; ++i) {
      next.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  };
  tick();
  EXPECT_EQ(State(second), RunState::kPending);
  EXPECT_GT(next.Tick(), clock_.Monotonic()) << "it is not looked at again and again";
  next.Execute({.tenant = tenant_, .kind = control::CommandKind::kResume, .run = second},
               [](const Status& done) { EXPECT_TRUE(done); });
  tick();
  EXPECT_EQ(State(second), RunState::kRunning);
  EXPECT_TRUE(next.Close());
}

TEST_F(PlacesTest, CancelPreviousActsThoughTheWorkflowIsFull) {
  auto definition =
      With({.key = "k", .limit = 1, .on_conflict = OnConflict::kCancelPrevious})->definition();
  definition.max_active_runs = 2;
  const auto workflow = Put(std::move(definition));
  const RunNo a1 = Begin(*workflow, "a"), b1 = Begin(*workflow, "b");
  const RunNo a2 = Begin(*workflow, "a");
  EXPECT_NE(Stored(a1).cancel_requested_at, Instant{});
  const RunNo c1 = Begin(*workflow, "c"), c2 = Begin(*workflow, "c");
  Tick();
  EXPECT_EQ(State(c1), RunState::kCancelled) << "it never started";
  EXPECT_EQ(Stored(b1).cancel_requested_at, Instant{});
  End(a1, model::Verdict::kCancelled);
  EXPECT_EQ(State(a2), RunState::kRunning);
  End(b1);
  EXPECT_EQ(State(c2), RunState::kRunning);
}

TEST_F(PlacesTest, RunThatCouldNotBeMadeCancelsNobody) {
  const auto workflow = With({.limit = 1, .on_conflict = OnConflict::kCancelPrevious});
  const RunNo first = Begin(*workflow, "");
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.insert_input) return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  EXPECT_FALSE(StartWith(*workflow, ""));
  Tick(5);
  EXPECT_EQ(Stored(first).cancel_requested_at, Instant{});
}

TEST_F(PlacesTest, PlacesAreCountedAnewByTheNextEngine) {
  const auto workflow = With({.key = "k", .limit = 1});
  const RunNo a = Begin(*workflow, "a"), waiting = Begin(*workflow, "a");
  clock_.Advance(std::chrono::seconds(20));
  ManualDispatcher dispatcher;
  Engine next{{.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr};
  ASSERT_TRUE(next.Open());
  const auto tick = [&] {
    for (int i = 0; i < 4; ++i) {
      next.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  };
  tick();
  EXPECT_EQ(State(waiting), RunState::kPending);
  ASSERT_EQ(dispatcher.taken.size(), 1U);
  EXPECT_EQ(dispatcher.taken[0].key.run, a);
  next.Ended(dispatcher.taken[0].key, {.verdict = model::Verdict::kSucceeded});
  tick();
  EXPECT_EQ(State(waiting), RunState::kRunning);
  EXPECT_TRUE(next.Close());
}

TEST_F(PlacesTest, RateLetsSoManyStartInAnySpanOfItsLength) {
  const auto workflow = With({.key = "k", .rate = 2, .rate_per = std::chrono::minutes(1)});
  std::vector<RunNo> runs;
  const Duration begin = clock_.Monotonic();
  runs.push_back(Begin(*workflow, "a"));
  clock_.Advance(std::chrono::seconds(30));
  for (int i = 0; i < 3; ++i) runs.push_back(Begin(*workflow, "a"));
  const RunNo other = Begin(*workflow, "b");
  EXPECT_EQ(State(other), RunState::kRunning);
  const auto running = [&] {
    return std::ranges::count_if(runs, [&](RunNo run) { return State(run) == RunState::kRunning; });
  };
  EXPECT_EQ(running(), 2);
  End(runs[0]);
  EXPECT_EQ(State(runs[2]), RunState::kPending) << "the end of a run gives nothing back";
  EXPECT_LE(engine_.Tick(), begin + std::chrono::minutes(1) + std::chrono::milliseconds(100));
  clock_.Advance(begin + std::chrono::seconds(59) - clock_.Monotonic());
  Tick();
  EXPECT_EQ(State(runs[2]), RunState::kPending);
  clock_.Advance(std::chrono::milliseconds(1'100));
  Tick(3);
  EXPECT_EQ(State(runs[2]), RunState::kRunning);
  EXPECT_EQ(State(runs[3]), RunState::kPending);
  clock_.Advance(std::chrono::seconds(31));
  Tick(3);
  EXPECT_EQ(State(runs[3]), RunState::kRunning);
}

TEST_F(PlacesTest, RateSurvivesTheEngineAndSaysWhenItSkips) {
  const auto workflow =
      With({.on_conflict = OnConflict::kSkip, .rate = 1, .rate_per = std::chrono::minutes(10)});
  Begin(*workflow, "");
  const auto refused = StartWith(*workflow, "");
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("1 runs of the same workflow have started within 10m"),
            std::string::npos)
      << refused.error().message;
  clock_.Advance(std::chrono::minutes(5));
  ManualDispatcher dispatcher;
  Engine next{{.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr};
  ASSERT_TRUE(next.Open());
  const auto start = [&] {
    bool made = false;
    next.Start({.tenant = tenant_,
                .name = workflow->name(),
                .version = workflow->version(),
                .input = "{}"},
               [&](const auto& started) { made = started.has_value(); });
    next.Tick();
    return made;
  };
  EXPECT_FALSE(start());
  clock_.Advance(std::chrono::minutes(5) + std::chrono::seconds(1));
  EXPECT_TRUE(start());
  EXPECT_TRUE(next.Close());
}

}  // namespace
}  // namespace headworks::engine
