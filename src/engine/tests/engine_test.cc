#include <algorithm>
#include <array>

#include "headworks/engine/engine.h"

#include "tests/rig.h"

namespace headworks::engine {
namespace {

using control::CommandKind;
using model::RunState;

TEST_F(EngineTest, PoisonIsFoundByHalvingAndTheRestCommits) {
  const auto workflow = Put(Tasks("w", 1));
  std::vector<std::shared_ptr<Result<control::Started>>> started;
  started.reserve(40);
  for (int i = 0; i < 40; ++i) started.push_back(Start(*workflow));
  Tick(3);
  ASSERT_EQ(dispatcher_.taken.size(), 40U);
  const RunNo poisoned = (*started[17])->run;
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.header.run_no == poisoned && write.header.stuck_reason.empty())
        return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  Succeed(40);
  Tick(20);
  for (const auto& run : started)
    EXPECT_EQ(Stored((*run)->run).state,
              (*run)->run == poisoned ? RunState::kRunning : RunState::kSucceeded);
  EXPECT_EQ(Stored(poisoned).stuck_reason, "constraint failed");
  EXPECT_EQ(engine_.stats().runs_stuck, 1U);

  // The verdict that arrived was kept.
  store_.before = [](const auto&) { return Status(); };
  const auto unstuck = Execute(CommandKind::kUnstick, poisoned);
  Tick(5);
  EXPECT_TRUE(*unstuck) << unstuck->error().message;
  EXPECT_EQ(Stored(poisoned).state, RunState::kSucceeded);
  EXPECT_EQ(engine_.stats().runs_stuck, 0U);
  EXPECT_EQ(engine_.stats().runs_in_memory, 0U);
}

TEST_F(EngineTest, AHopOfAChainCostsOneCommitOfFourRows) {
  constexpr std::uint32_t kHops = 50;
  auto definition = Tasks("chain", kHops);
  for (std::uint32_t t = 1; t < kHops; ++t)
    definition.tasks[t].needs = {"t" + std::to_string(t - 1)};
  const auto started = Start(*Put(std::move(definition)));
  Tick();
  for (std::uint32_t hop = 1; hop < kHops; ++hop) {
    const std::size_t before = store_.sent.size();
    Succeed(1);
    Tick();
    ASSERT_EQ(store_.sent.size(), before + 1) << hop;
    // The run, the task that ended with its attempt, and the one that is queued.
    ASSERT_EQ(Rows(store_.sent.back()), 4U) << hop;
    ASSERT_EQ(dispatcher_.taken.size(), 1U) << hop;
  }
  Succeed(1);
  Tick();
  EXPECT_EQ(Stored((*started)->run).state, RunState::kSucceeded);
  EXPECT_EQ(store_.sent.size(), kHops + 1U);
}

TEST_F(EngineTest, ARunOfOneTaskCostsTwoCommitsThatManyShare) {
  constexpr std::size_t kRuns = 100;
  const auto workflow = Put(Tasks("w", 1));
  for (std::size_t i = 0; i < kRuns; ++i) Start(*workflow);
  Tick();
  Succeed(kRuns);
  Tick();
  EXPECT_EQ(engine_.stats().runs_finished, kRuns);
  ASSERT_EQ(store_.sent.size(), 2U);
  EXPECT_EQ(Rows(store_.sent[0]), 3 * kRuns);  // run, who asked for it, task
  EXPECT_EQ(Rows(store_.sent[1]), 3 * kRuns);  // run, task, attempt
}

TEST_F(EngineTest, ARunIsListedAnewOnlyWhenItEndsAndItsRowsAreKnown) {
  const auto workflow = Put(Tasks("w", 1));
  engine_.StopQueueing();
  const auto started = Start(*workflow);
  Tick();
  ASSERT_TRUE(*started);
  ASSERT_TRUE(engine_.Close());
  store_.sent.clear();

  ManualDispatcher dispatcher;
  Engine next({.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  next.Tick();
  ASSERT_EQ(dispatcher.taken.size(), 1U);
  next.Ended(dispatcher.taken[0].key, {.verdict = model::Verdict::kSucceeded});
  next.Tick();
  EXPECT_EQ(store_.loads, 0) << "a pending run is read with the list";
  EXPECT_EQ(Stored((*started)->run).state, RunState::kSucceeded);
  ASSERT_EQ(store_.sent.size(), 2U);
  const store::RunWrite& queued = store_.sent[0].runs.at(0);
  const store::RunWrite& ended = store_.sent[1].runs.at(0);
  EXPECT_FALSE(queued.relist);
  EXPECT_FALSE(queued.tasks.at(0).known);
  EXPECT_TRUE(ended.relist);
  EXPECT_TRUE(ended.tasks.at(0).known);
}

TEST_F(EngineTest, ItSaysWhenNothingIsQueuedAnyMore) {
  const auto workflow = Put(Tasks("w", 1));
  Start(*workflow);
  engine_.StopQueueing();
  EXPECT_TRUE(engine_.stats().queueing) << "a round under way may queue yet";
  Tick();
  EXPECT_FALSE(engine_.stats().queueing);
  EXPECT_TRUE(dispatcher_.taken.empty());
}

TEST_F(EngineTest, ItSaysSoWhileTheStoreIsInTroubleToo) {
  const auto workflow = Put(Tasks("w", 1));
  Start(*workflow);
  store_.before = [](const auto&) { return Error{Code::kUnavailable, "no answer"}; };
  Tick();
  engine_.StopQueueing();
  clock_.Advance(std::chrono::seconds(1));
  Tick();
  EXPECT_FALSE(engine_.stats().queueing);
  EXPECT_EQ(engine_.stats().live_attempts, 1U) << "of the round that is not known";
}

TEST_F(EngineTest, ALeaseThatCannotBeRenewedIsTroubleUntilItIs) {
  store_.refuse_renewal = true;
  clock_.Advance(std::chrono::seconds(20));
  Tick();
  EXPECT_EQ(engine_.stats().trouble, "the disk is gone");
  Tick();
  EXPECT_EQ(engine_.stats().trouble, "the disk is gone") << "an empty round proves nothing";
  store_.refuse_renewal = false;
  clock_.Advance(std::chrono::seconds(20));
  Tick();
  EXPECT_EQ(engine_.stats().trouble, "");

  store_.refuse_renewal = true;
  clock_.Advance(std::chrono::seconds(20));
  Tick();
  ASSERT_EQ(engine_.stats().trouble, "the disk is gone");
  Start(*Put(Tasks("w", 1)));
  Tick();
  EXPECT_EQ(engine_.stats().trouble, "") << "a round renews it too";
}

TEST_F(EngineTest, OneTenantsFloodDoesNotHoldUpAnotherTenantsTask) {
  const TenantId small("small");
  const auto flood = Put(Tasks("w", 500));
  ASSERT_TRUE(store_.workflows().PutVersion(small, flood->version(), flood->canonical_json(),
                                            clock_.Now()));
  dispatcher_.max = 4;
  const auto started = Start(*flood);
  Tick(2);
  ASSERT_EQ(dispatcher_.taken.size(), 4U);
  model::Namespace name = flood->name();
  name.tenant = small.value;
  engine_.Start({.tenant = small, .name = name, .version = flood->version(), .input = "{}"},
                [](const auto& answer) { EXPECT_TRUE(answer); });
  Tick(2);
  for (int ended = 0; ended < 2; ++ended) {
    Succeed(1);
    Tick();
  }
  EXPECT_TRUE(std::ranges::any_of(
      dispatcher_.taken, [&](const auto& attempt) { return attempt.key.tenant == small; }));
}

TEST_F(EngineTest, AnInboxThatRingsIsLookedAtWhenItRingsAndSeldomOtherwise) {
  BellStore store(clock_);
  ManualDispatcher dispatcher;
  Engine engine({.owner = "other"}, store, dispatcher, evaluator_, clock_, random_, logger_,
                nullptr);
  ASSERT_TRUE(engine.Open());
  for (int i = 0; i < 100; ++i) {  // two seconds, as often as an inbox is polled
    const Duration next = engine.Tick();
    if (i == 0) EXPECT_GE(next, clock_.Monotonic() + std::chrono::seconds(1));
    clock_.Advance(std::chrono::milliseconds(20));
  }
  EXPECT_LE(store.looks, 4);

  const auto workflow = model::Workflow::Create(Tasks("w", 1));
  ASSERT_TRUE(store.workflows().PutVersion(tenant_, (*workflow)->version(),
                                           (*workflow)->canonical_json(), clock_.Now()));
  ASSERT_TRUE(store.inbox().Append(
      std::array{store::InboxRow{.tenant = tenant_,
                                 .shard = model::ShardOf((*workflow)->name()),
                                 .kind = "start",
                                 .dedupe_key = "key",
                                 .payload = control::EncodeStart({.tenant = tenant_,
                                                                  .name = (*workflow)->name(),
                                                                  .version = (*workflow)->version(),
                                                                  .input = "{}"})}}));
  engine.Tick();  // the clock stands still
  EXPECT_EQ(dispatcher.taken.size(), 1U);
  EXPECT_TRUE(engine.Close());
}

TEST_F(EngineTest, TimersOfSettledTasksDoNotPileUp) {
  constexpr std::uint32_t kTasks = 10'000;
  dispatcher_.max = 500;
  auto definition = Tasks("timed", kTasks);
  for (auto& task : definition.tasks) task.timeout = std::chrono::hours(1);
  const auto started = Start(*Put(std::move(definition)));
  Tick(2);
  std::uint64_t most = 0;
  for (std::uint32_t done = 0; done < kTasks; done += 500) {
    ASSERT_EQ(dispatcher_.taken.size(), 500U);
    for (const auto& attempt : dispatcher_.taken) engine_.Started(attempt.key);
    Tick(8);  // longer than starts are held back
    most = std::max(most, engine_.stats().timers);
    Succeed(500);
    Tick(2);
  }
  EXPECT_EQ(Stored((*started)->run).state, RunState::kSucceeded);
  EXPECT_GE(most, 500U);  // each running task has its own
  EXPECT_LE(most, 2'048U);
}

TEST_F(EngineTest, AZombieOfAnEndedRunIsAskedAboutByTheNextEngine) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].timeout = std::chrono::seconds(1);
  definition.cancel_timeout = std::chrono::seconds(1);
  const auto started = Start(*Put(std::move(definition)));
  Tick(2);
  const auto cancelled = Execute(CommandKind::kCancel, (*started)->run);
  Tick(2);
  clock_.Advance(std::chrono::seconds(5));
  Tick(3);
  ASSERT_EQ(Stored((*started)->run).state, RunState::kCancelled);
  ASSERT_EQ(engine_.stats().live_attempts, 1U) << "its attempt is not provably over";
  ASSERT_TRUE(engine_.Close());

  ManualDispatcher dispatcher;  // knows nothing of it
  Engine next({.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_TRUE(dispatcher.taken.empty());
  EXPECT_EQ(next.stats().live_attempts, 0U);
  EXPECT_EQ(next.stats().runs_in_memory, 0U);
  EXPECT_EQ(Stored((*started)->run).state, RunState::kCancelled);
  EXPECT_EQ(Stored((*started)->run).wake_at, kNever);
}

TEST_F(EngineTest, AFullDiskIsTriedAgainWithTheSameBytes) {
  const auto workflow = Put(Tasks("w", 3));
  bool full = true;
  store_.before = [&](const auto&) -> Status {
    if (full) return Error{Code::kAtCapacity, "disk full"};
    return {};
  };
  const auto started = Start(*workflow);
  Tick(200);
  ASSERT_GT(store_.sent.size(), 2U);
  EXPECT_EQ(engine_.stats().trouble, "disk full");
  EXPECT_FALSE(*started);
  full = false;
  const std::size_t sent = store_.sent.size();
  Tick(120);
  ASSERT_TRUE(*started);
  ASSERT_GT(store_.sent.size(), sent);
  const store::Round& first = store_.sent.front();
  const store::Round& last = store_.sent[sent];
  EXPECT_EQ(first.guards, last.guards);
  EXPECT_EQ(first.now, last.now);
  ASSERT_EQ(first.runs.size(), last.runs.size());
  EXPECT_EQ(first.runs[0].header.run_id, last.runs[0].header.run_id);
  EXPECT_EQ(first.runs[0].tasks.size(), last.runs[0].tasks.size());
  EXPECT_EQ(dispatcher_.taken.size(), 3U);
  EXPECT_EQ(engine_.stats().trouble, "");
}

TEST_F(EngineTest, ALostReplyIsAdoptedAndNotRepeated) {
  const auto workflow = Put(Tasks("w", 1));
  store_.replies_to_lose = 1;
  const auto started = Start(*workflow);
  Tick();
  EXPECT_TRUE(*started);
  EXPECT_EQ(store_.sent.size(), 1U);
  Succeed(1);
  Tick(2);
  EXPECT_EQ(Stored((*started)->run).state, RunState::kSucceeded);
  EXPECT_FALSE(engine_.stats().lost);
}

TEST_F(EngineTest, ALostReplyOfACommitThatDidNotHappenIsNotTakenForOne) {
  const auto workflow = Put(Tasks("w", 1));
  bool lost = true;
  store_.before = [&](const auto&) -> Status {
    if (lost) return Error{Code::kUnavailable, "the connection broke"};
    return {};
  };
  const auto started = Start(*workflow);
  Tick(3);
  EXPECT_TRUE(dispatcher_.taken.empty()) << "an effect before its commit (I1)";
  EXPECT_FALSE(*started);
  EXPECT_EQ(engine_.stats().trouble, "the connection broke");
  lost = false;
  Tick(100);
  ASSERT_TRUE(*started) << (*started).error().message;
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  for (const auto& round : store_.sent) EXPECT_EQ(round.guards, store_.sent.front().guards);
  EXPECT_EQ(Stored((*started)->run).state, RunState::kRunning);
  Succeed(1);
  Tick(2);
  EXPECT_EQ(Stored((*started)->run).state, RunState::kSucceeded);
}

TEST_F(EngineTest, AStartKeyMakesOneRunInOneRoundAndInLaterOnes) {
  const auto workflow = Put(Tasks("w", 1));
  const auto first = Start(*workflow, "key");
  const auto second = Start(*workflow, "key");
  const auto other = Start(*workflow, "other");
  Tick(2);
  const auto third = Start(*workflow, "key");
  Tick(2);
  ASSERT_TRUE(*first && *second && *third && *other);
  EXPECT_FALSE((*first)->existed);
  EXPECT_TRUE((*second)->existed);
  EXPECT_TRUE((*third)->existed);
  EXPECT_EQ((*first)->run, (*second)->run);
  EXPECT_EQ((*first)->run, (*third)->run);
  EXPECT_NE((*first)->run, (*other)->run);
  EXPECT_EQ(dispatcher_.taken.size(), 2U);
}

TEST_F(EngineTest, AStartKeyGoesOnWithARunThatOnlyTheStoreKnows) {
  const auto workflow = Put(Tasks("w", 1));
  const auto running = Start(*workflow, "running");
  Tick(2);
  engine_.StopQueueing();
  const auto pending = Start(*workflow, "pending");
  Tick(2);
  ASSERT_TRUE(*running && *pending);
  EXPECT_EQ(Stored((*pending)->run).state, RunState::kPending);
  ASSERT_TRUE(engine_.Close());

  ManualDispatcher dispatcher;
  Engine next({.owner = "next", .recover = false}, store_, dispatcher, evaluator_, clock_, random_,
              logger_, nullptr);
  ASSERT_TRUE(next.Open());
  next.Tick();
  EXPECT_TRUE(dispatcher.taken.empty()) << "it recovers nothing by itself";
  std::vector<RunNo> found;
  for (const std::string key : {"running", "pending"})
    next.Start({.tenant = tenant_,
                .name = workflow->name(),
                .version = workflow->version(),
                .input = "{}",
                .start_key = key},
               [&](const Result<control::Started>& started) {
                 if (started && started->existed) found.push_back(started->run);
               });
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(found, (std::vector{(*running)->run, (*pending)->run}));
  ASSERT_EQ(dispatcher.taken.size(), 2U);
  EXPECT_NE(dispatcher.taken[0].key.run, dispatcher.taken[1].key.run);
}

TEST_F(EngineTest, AnAttemptIsNotGivenToAnotherExecutorThanTheOneThatHasIt) {
  const auto workflow = Put(Tasks("w", 2));
  dispatcher_.max = 1;
  const auto started = Start(*workflow);
  Tick(3);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  const model::AttemptKey live = dispatcher_.taken[0].key;
  ASSERT_TRUE(engine_.Close());
  const auto cancel = [&](Engine& engine) {
    Status answer;
    engine.Execute({.tenant = tenant_, .kind = control::CommandKind::kCancel, .run = live.run},
                   [&](Status done) { answer = std::move(done); });
    for (int i = 0; i < 4; ++i) engine.Tick();
    return answer;
  };
  ManualDispatcher elsewhere;
  elsewhere.name = "elsewhere";
  Engine other({.owner = "other"}, store_, elsewhere, evaluator_, clock_, random_, logger_,
               nullptr);
  ASSERT_TRUE(other.Open());
  for (int i = 0; i < 4; ++i) other.Tick();
  EXPECT_TRUE(elsewhere.taken.empty()) << "neither the attempt nor what else is ready";
  const Status refused = cancel(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("task 't0' has an attempt with executor 'manual', but "
                                         "would go to 'elsewhere' now"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(elsewhere.cancelled.empty());
  EXPECT_EQ(Stored(live.run).state, RunState::kRunning);
  // Its own runs go on.
  other.Start(
      {.tenant = tenant_, .name = workflow->name(), .version = workflow->version(), .input = "{}"},
      [](const Result<control::Started>& done) { EXPECT_TRUE(done); });
  for (int i = 0; i < 4; ++i) other.Tick();
  EXPECT_EQ(elsewhere.taken.size(), 2U);
  for (const auto& attempt : elsewhere.taken)
    other.Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
  for (int i = 0; i < 4; ++i) other.Tick();
  ASSERT_TRUE(other.Close());

  ManualDispatcher again;
  Engine next({.owner = "next"}, store_, again, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) next.Tick();
  ASSERT_EQ(again.taken.size(), 2U);
  EXPECT_TRUE(std::ranges::any_of(again.taken, [&](const auto& a) { return a.key == live; }))
      << "the same epoch";
  for (const auto& attempt : again.taken)
    next.Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(Stored(live.run).state, RunState::kSucceeded);
}

TEST_F(EngineTest, AStartWithAPriorityOutOfBoundsIsRefused) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].priority = 1'000;
  const auto workflow = Put(std::move(definition));
  for (const int priority : {-1'001, -1'000, 1'000, 1'001}) {
    Result<control::Started> answer{Error{Code::kInternal, "no answer"}};
    engine_.Start({.tenant = tenant_,
                   .name = workflow->name(),
                   .version = workflow->version(),
                   .input = "{}",
                   .priority = priority},
                  [&](Result<control::Started> started) { answer = std::move(started); });
    Tick(2);
    if (std::abs(priority) <= 1'000) {
      ASSERT_TRUE(answer) << answer.error().message;
      ASSERT_FALSE(dispatcher_.taken.empty());
      EXPECT_EQ(dispatcher_.taken.back().priority, priority + 1'000);
    } else {
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
      EXPECT_NE(answer.error().message.find(std::to_string(priority)), std::string::npos);
    }
  }
}

TEST_F(EngineTest, APendingRunIsCancelledAndDeletedInOneGo) {
  auto definition = Tasks("w", 1);
  definition.max_active_runs = 1;
  const auto workflow = Put(std::move(definition));
  Start(*workflow);
  for (const bool by_inbox : {false, true}) {
    const auto pending = Start(*workflow);
    Tick(3);
    const RunNo run = (*pending)->run;
    ASSERT_EQ(Stored(run).state, RunState::kPending);
    if (by_inbox) {
      std::vector<store::InboxRow> rows;
      for (const auto kind : {CommandKind::kCancel, CommandKind::kDelete})
        rows.push_back(
            {.tenant = tenant_,
             .shard = model::ShardOf(workflow->name()),
             .kind = std::string(control::CommandKindName(kind)),
             .dedupe_key = std::string(control::CommandKindName(kind)),
             .run = run,
             .payload = control::EncodeCommand({.tenant = tenant_, .kind = kind, .run = run})});
      ASSERT_TRUE(store_.inbox().Append(rows));
      Tick(20);
      for (const auto& row : rows) {
        const auto answer = store_.inbox().GetAnswer(tenant_, row.dedupe_key);
        ASSERT_TRUE(answer && *answer) << row.kind;
        EXPECT_FALSE((*answer)->error) << row.kind << ": " << (*answer)->error->message;
      }
    } else {
      const auto cancelled = Execute(CommandKind::kCancel, run);
      const auto deleted = Execute(CommandKind::kDelete, run);
      Tick(20);
      EXPECT_TRUE(*cancelled) << cancelled->error().message;
      EXPECT_TRUE(*deleted) << deleted->error().message;
    }
    EXPECT_EQ(store_.runs().LoadRun(tenant_, run).error().code, Code::kNotFound);
    EXPECT_EQ(engine_.stats().runs_stuck, 0U);
  }
}

/// Three tasks with a `when` that nobody has answered yet.
class WhenTest : public EngineTest {
 protected:
  WhenTest() {
    auto definition = Tasks("w", 3);
    for (auto& task : definition.tasks) task.when = {"asked"};
    const auto started = Start(*Put(std::move(definition)));
    Tick(3);
    EXPECT_TRUE(*started);
    run_ = (*started)->run;
  }
  model::StoredTask Row(std::uint32_t task) {
    const auto image = store_.runs().LoadRun(tenant_, run_);
    EXPECT_TRUE(image);
    for (const auto& row : image->tasks)
      if (row.task == TaskNo(task)) return row;
    return {};
  }
  RunNo run_;
};

TEST_F(WhenTest, NothingIsOfferedBeforeItsAnswer) {
  EXPECT_TRUE(dispatcher_.taken.empty());
  ASSERT_EQ(evaluator_.asked.size(), 3U);
  EXPECT_EQ(evaluator_.asked[1].first.task, TaskNo(1));
  EXPECT_EQ(evaluator_.asked[1].first.run, run_);
  evaluator_.Answer1(true);
  evaluator_.Answer1(false);
  evaluator_.Answer1(Error{Code::kInvalidArgument, "needs.a has no field 'b'"});
  Tick(3);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(dispatcher_.taken[0].key.task, TaskNo(0));
  EXPECT_TRUE(Row(0).admitted);
  EXPECT_EQ(Row(1).state, model::TaskState::kSkipped);
  EXPECT_EQ(Row(1).reason, model::Reason::kWhen);
  EXPECT_EQ(Row(2).state, model::TaskState::kFailed);
  EXPECT_EQ(Row(2).reason, model::Reason::kExpression);
  const auto events = store_.query().ListEvents(tenant_, run_, 10);
  ASSERT_TRUE(events);
  ASSERT_FALSE(events->empty());
  EXPECT_EQ(events->back().kind, "expression");
  EXPECT_EQ(events->back().detail, "t2: needs.a has no field 'b'");
}

TEST_F(WhenTest, AQuestionThatTheStoreCannotAnswerComesAgain) {
  for (int i = 0; i < 3; ++i) evaluator_.Answer1(Error{Code::kUnavailable, "busy"});
  Tick(3);
  EXPECT_TRUE(evaluator_.asked.empty());
  clock_.Advance(std::chrono::seconds(1));
  Tick(2);
  ASSERT_EQ(evaluator_.asked.size(), 3U);
  evaluator_.Answer1(true);
  Tick(3);
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
}

TEST_F(WhenTest, WhatAnotherEngineAskedIsAskedAgainButNotWhatWasAnswered) {
  evaluator_.Answer1(true);
  Tick(3);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  ASSERT_TRUE(engine_.Close());
  evaluator_.asked.clear();
  ManualDispatcher dispatcher;
  Engine next({.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(evaluator_.asked.size(), 2U);
  EXPECT_EQ(dispatcher.taken.size(), 1U) << "the same epoch, offered again";
  evaluator_.asked.clear();
}

TEST_F(EngineTest, ADeadlineStopsWhatRunsAndEndsItsTries) {
  auto definition = Tasks("w", 1);
  definition.tasks[0].deadline = std::chrono::minutes(1);
  definition.tasks[0].retry.max_attempts = 5;
  const auto started = Start(*Put(std::move(definition)));
  Tick(3);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  clock_.Advance(std::chrono::seconds(59));
  Tick(2);
  EXPECT_TRUE(dispatcher_.cancelled.empty());
  clock_.Advance(std::chrono::seconds(1));
  Tick(2);
  EXPECT_EQ(dispatcher_.cancelled, (std::vector{dispatcher_.taken[0].key}));
  engine_.Ended(dispatcher_.taken[0].key, {.verdict = model::Verdict::kRetry});
  Tick(3);
  const auto header = Stored((*started)->run);
  EXPECT_EQ(header.state, RunState::kFailed);
  EXPECT_EQ(store_.runs().LoadRun(tenant_, (*started)->run)->tasks[0].reason,
            model::Reason::kDeadline);
}

TEST_F(EngineTest, NoMoreRunsOfAWorkflowAreUnderWayThanItSays) {
  auto definition = Tasks("w", 1);
  definition.max_active_runs = 2;
  const auto workflow = Put(std::move(definition));
  std::vector<std::shared_ptr<Result<control::Started>>> started(5);
  for (auto& one : started) one = Start(*workflow);
  const auto other = Start(*Put(Tasks("other", 1)));
  Tick(4);
  EXPECT_EQ(dispatcher_.taken.size(), 3U) << "what another workflow does is its own affair";
  EXPECT_EQ(Stored((*started[2])->run).state, RunState::kPending);
  const std::uint64_t rounds = engine_.stats().rounds;
  Tick(20);
  EXPECT_EQ(engine_.stats().rounds, rounds) << "who waits for a place costs nothing";

  EXPECT_TRUE(Execute(control::CommandKind::kCancel, (*started[2])->run));
  Tick(2);
  EXPECT_EQ(Stored((*started[2])->run).state, RunState::kCancelled);
  Succeed(1);
  Tick(4);
  EXPECT_EQ(Stored((*started[0])->run).state, RunState::kSucceeded);
  EXPECT_EQ(Stored((*started[3])->run).state, RunState::kRunning) << "the cancelled one has left";
  EXPECT_EQ(Stored((*started[4])->run).state, RunState::kPending);

  // The next engine counts what it finds.
  ASSERT_TRUE(engine_.Close());
  ManualDispatcher dispatcher;
  Engine next({.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(Stored((*started[4])->run).state, RunState::kPending);
  for (const auto& attempt : dispatcher.taken)
    next.Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
  for (int i = 0; i < 4; ++i) next.Tick();
  EXPECT_EQ(Stored((*started[4])->run).state, RunState::kRunning);
}

}  // namespace
}  // namespace headworks::engine
