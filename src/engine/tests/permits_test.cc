#include "rig.h"

namespace headworks::engine {
namespace {

using model::Reason;
using model::TaskState;

class PermitsTest : public EngineTest {
 protected:
  void SetPool(const std::string& name, int limit) {
    EXPECT_TRUE(store_.limits().SetPool(tenant_, name, limit, clock_.Now()));
  }
  /// Independent tasks, each with its weight in pool "gpu"; 0 = without pool.
  std::shared_ptr<const model::Workflow> Weights(std::string name, std::vector<int> weights) {
    auto definition = Tasks(std::move(name), static_cast<std::uint32_t>(weights.size()));
    for (std::size_t t = 0; t < weights.size(); ++t) {
      if (weights[t] == 0) continue;
      definition.tasks[t].pool = "gpu";
      definition.tasks[t].weight = weights[t];
    }
    return Put(std::move(definition));
  }
  RunNo Begin(const model::Workflow& workflow) {
    const auto started = Start(workflow);
    Tick();
    EXPECT_TRUE(*started);
    return (*started)->run;
  }
  std::int64_t Held() {
    std::int64_t held = 0;
    const auto permits = store_.limits().ListAllPermits();
    for (const store::Permit& permit : *permits) held += permit.weight;
    return held;
  }
  model::StoredTask Row(RunNo run, std::uint32_t task) {
    const auto image = store_.runs().LoadRun(tenant_, run);
    for (const auto& row : image->tasks)
      if (row.task == TaskNo(task)) return row;
    return {};
  }
  /// Ends the attempt of this task.
  void End(RunNo run, std::uint32_t task, model::Verdict verdict = model::Verdict::kSucceeded) {
    const auto at = std::ranges::find_if(dispatcher_.taken, [&](const auto& attempt) {
      return attempt.key.run == run && attempt.key.task == TaskNo(task);
    });
    ASSERT_NE(at, dispatcher_.taken.end()) << "run " << run.value << " task " << task;
    engine_.Ended(at->key, {.verdict = verdict});
    dispatcher_.taken.erase(at);
  }
  std::size_t Grants() const {
    std::size_t grants = 0;
    for (const auto& round : store_.sent)
      for (const auto& write : round.runs) grants += write.grants.size() + write.freed.size();
    return grants;
  }
};

TEST_F(PermitsTest, TaskWaitsReadyUnderTheEpochThatItIsQueuedWith) {
  SetPool("gpu", 1);
  const RunNo run = Begin(*Weights("w", {1, 1}));
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(Held(), 1);
  const model::StoredTask asked = Row(run, 1);
  EXPECT_EQ(asked.state, TaskState::kReady);
  EXPECT_EQ(asked.reason, Reason::kPermit);
  EXPECT_NE(asked.epoch, Epoch(0));
  EXPECT_NE(asked.not_before, Instant{});

  const std::size_t rounds = store_.sent.size();
  End(run, 0);
  Tick();
  EXPECT_EQ(store_.sent.size(), rounds + 1) << "granted in the round that freed it";
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(dispatcher_.taken[0].key.epoch, asked.epoch);
  const auto permits = store_.limits().ListPermits(tenant_);
  ASSERT_EQ(permits->size(), 1U);
  EXPECT_EQ(permits->at(0).epoch, asked.epoch);
  EXPECT_EQ(permits->at(0).pool, "gpu");
  End(run, 1);
  Tick();
  EXPECT_EQ(Held(), 0);
  EXPECT_EQ(Stored(run).state, model::RunState::kSucceeded);
}

TEST_F(PermitsTest, WaitingTakesNoCredit) {
  SetPool("gpu", 1);
  dispatcher_.max = 2;
  const RunNo run = Begin(*Weights("w", {1, 1, 1, 0}));
  ASSERT_EQ(dispatcher_.taken.size(), 2U);
  EXPECT_EQ(dispatcher_.taken[1].key.task, TaskNo(3)) << "what needs no permit goes on";
  End(run, 3);
  Tick();
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(engine_.stats().tasks_for_permits, 2U);
  EXPECT_EQ(engine_.stats().permits_held, 1U);
  ASSERT_EQ(engine_.stats().pools.size(), 1U);
  const PoolStats pool = engine_.stats().pools[0];
  EXPECT_EQ(pool.tenant, tenant_.value);
  EXPECT_EQ(pool.pool, "gpu");
  EXPECT_EQ(std::vector({pool.limit, pool.held, pool.waiting}),
            (std::vector<std::uint64_t>{1, 1, 2}));
}

TEST_F(PermitsTest, ATaskThatWaitsForPermitsKeepsNoPlaceOfItsRun) {
  SetPool("gpu", 1);
  const RunNo holder = Begin(*Weights("holder", {1}));
  auto definition = Weights("w", {0, 1, 1, 0, 0})->definition();
  definition.max_parallel = 1;
  const RunNo run = Begin(*Put(std::move(definition)));
  ASSERT_EQ(dispatcher_.taken.size(), 2U);
  for (const std::uint32_t task : {0U, 3U, 4U}) {
    ASSERT_EQ(dispatcher_.taken.size(), 2U);
    EXPECT_EQ(dispatcher_.taken.back().key.task, TaskNo(task));
    End(run, task);
    Tick(3);
  }
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(engine_.stats().tasks_for_permits, 2U);
  End(holder, 0);
  Tick(2);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(dispatcher_.taken.back().key.task, TaskNo(1));
}

TEST_F(PermitsTest, WhatMaxParallelLetsInIsQueuedWithoutWaitingForNews) {
  auto definition = Tasks("w", 2);
  definition.max_parallel = 1;
  const RunNo run = Begin(*Put(std::move(definition)));
  End(run, 0);
  EXPECT_LE(engine_.Tick(), clock_.Monotonic());
  engine_.Tick();
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  EXPECT_EQ(dispatcher_.taken[0].key.task, TaskNo(1));
}

TEST_F(PermitsTest, HigherPriorityComesFirstThenTheOlder) {
  SetPool("gpu", 1);
  auto definition = Tasks("w", 4);
  for (auto& task : definition.tasks) task.pool = "gpu";
  definition.tasks[0].priority = 9;
  definition.tasks[3].priority = 5;
  const RunNo run = Begin(*Put(std::move(definition)));
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(dispatcher_.taken.size(), 1U);
    order.push_back(dispatcher_.taken[0].key.task.value);
    End(run, order.back());
    Tick();
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 3, 1, 2}));
}

TEST_F(PermitsTest, HeavyAskAmongLightOnesGetsItsTurn) {
  SetPool("gpu", 3);
  const auto light = Weights("light", {1});
  const auto heavy = Weights("heavy", {3});
  std::deque<RunNo> lights;
  for (int i = 0; i < 3; ++i) lights.push_back(Begin(*light));
  const RunNo run = Begin(*heavy);
  // Lights keep coming; without a reservation there would always be one to take what is freed.
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(Row(run, 0).state, TaskState::kQueued);
    lights.push_back(Begin(*light));
    End(lights.front(), 0);
    lights.pop_front();
    Tick();
    EXPECT_LE(Held(), 3);
  }
  EXPECT_EQ(Row(run, 0).state, TaskState::kQueued);
  EXPECT_EQ(Held(), 3);
  End(run, 0);
  Tick();
  EXPECT_EQ(dispatcher_.taken.size(), 3U) << "the lights that waited behind it";
}

TEST_F(PermitsTest, AskAboveALoweredLimitHoldsUpNobody) {
  SetPool("gpu", 4);
  const RunNo busy = Begin(*Weights("busy", {4}));
  const RunNo heavy = Begin(*Weights("heavy", {4}));
  const RunNo light = Begin(*Weights("light", {2}));
  SetPool("gpu", 2);
  clock_.Advance(Pools::kFresh);
  End(busy, 0);
  Tick(2);
  EXPECT_EQ(Row(heavy, 0).reason, Reason::kPermit);
  EXPECT_EQ(Row(light, 0).state, TaskState::kQueued);
  EXPECT_EQ(engine_.stats().tasks_above_limit, 1U);
  SetPool("gpu", 6);
  clock_.Advance(Pools::kFresh);
  Tick(2);
  EXPECT_EQ(Row(heavy, 0).state, TaskState::kQueued);
  EXPECT_EQ(Held(), 6);
  EXPECT_EQ(engine_.stats().tasks_above_limit, 0U);
}

TEST_F(PermitsTest, PoolThatIsNotThereOrEmptyLetsNothingStart) {
  const RunNo run = Begin(*Weights("w", {1}));
  EXPECT_EQ(Row(run, 0).reason, Reason::kPermit);
  SetPool("gpu", 0);
  clock_.Advance(Pools::kFresh);
  Tick(2);
  EXPECT_TRUE(dispatcher_.taken.empty());
  SetPool("gpu", 1);
  clock_.Advance(Pools::kFresh);
  Tick(2);
  EXPECT_EQ(dispatcher_.taken.size(), 1U);
}

TEST_F(PermitsTest, PausedOrCancelledRunHoldsUpNobody) {
  SetPool("gpu", 2);
  const RunNo busy = Begin(*Weights("busy", {1}));
  const RunNo paused = Begin(*Weights("paused", {2}));
  const RunNo cancelled = Begin(*Weights("cancelled", {2}));
  const RunNo light = Begin(*Weights("light", {1}));
  EXPECT_EQ(Row(light, 0).reason, Reason::kPermit) << "behind the heavy ones";
  const auto done = Execute(control::CommandKind::kPause, paused);
  Execute(control::CommandKind::kCancel, cancelled);
  Tick(2);
  EXPECT_TRUE(*done);
  EXPECT_EQ(Row(light, 0).state, TaskState::kQueued);
  EXPECT_EQ(Stored(cancelled).state, model::RunState::kCancelled);
  End(light, 0);
  End(busy, 0);
  Tick(2);
  EXPECT_EQ(Row(paused, 0).state, TaskState::kReady);
  Execute(control::CommandKind::kResume, paused);
  Tick(2);
  EXPECT_EQ(Row(paused, 0).state, TaskState::kQueued);
}

TEST_F(PermitsTest, ZombieKeepsItsPermitUntilItIsProvablyOver) {
  SetPool("gpu", 1);
  auto definition = Tasks("w", 1);
  definition.tasks[0].pool = "gpu";
  definition.cancel_timeout = std::chrono::seconds(5);
  const RunNo run = Begin(*Put(std::move(definition)));
  const model::AttemptKey key = dispatcher_.taken[0].key;
  Execute(control::CommandKind::kCancel, run);
  Tick();
  clock_.Advance(std::chrono::seconds(6));
  Tick(2);
  EXPECT_EQ(Stored(run).state, model::RunState::kCancelled);
  EXPECT_TRUE(Row(run, 0).zombie);
  EXPECT_EQ(Held(), 1);
  const RunNo next = Begin(*Weights("next", {1}));
  EXPECT_EQ(Row(next, 0).reason, Reason::kPermit);
  engine_.Ended(key, {.verdict = model::Verdict::kCancelled});
  Tick();
  EXPECT_EQ(Row(next, 0).state, TaskState::kQueued);
  EXPECT_EQ(Held(), 1);
}

TEST_F(PermitsTest, EveryEndOfAnAttemptFreesItsPermit) {
  SetPool("gpu", 1);
  using model::Verdict;
  for (const Verdict verdict : {Verdict::kRetry, Verdict::kFailed, Verdict::kSkipped,
                                Verdict::kSnoozed, Verdict::kCancelled, Verdict::kSucceeded}) {
    const RunNo run = Begin(*Weights("w", {1}));
    EXPECT_EQ(Held(), 1);
    End(run, 0, verdict);
    Execute(control::CommandKind::kCancel, run);
    Tick(2);
    EXPECT_EQ(Held(), 0) << model::VerdictName(verdict);
    dispatcher_.taken.clear();
  }
}

TEST_F(PermitsTest, PermitsAndTurnsSurviveTheEngine) {
  SetPool("gpu", 2);
  const RunNo a = Begin(*Weights("a", {2}));
  const RunNo heavy = Begin(*Weights("heavy", {2}));
  clock_.Advance(std::chrono::seconds(2));
  const RunNo light = Begin(*Weights("light", {1}));
  const model::StoredTask asked = Row(heavy, 0);
  clock_.Advance(std::chrono::seconds(20));  // its lease ends
  ManualDispatcher dispatcher;
  Engine next{{.owner = "next"}, store_, dispatcher, evaluator_, clock_, random_, logger_, nullptr};
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 4; ++i) {
    next.Tick();
    clock_.Advance(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(next.stats().permits_held, 2U);
  ASSERT_EQ(dispatcher.taken.size(), 1U) << "the same epoch again, nothing else";
  EXPECT_EQ(dispatcher.taken[0].key.run, a);
  EXPECT_EQ(Row(heavy, 0).epoch, asked.epoch);
  EXPECT_EQ(Row(heavy, 0).not_before, asked.not_before);
  next.Ended(dispatcher.taken[0].key, {.verdict = model::Verdict::kSucceeded});
  dispatcher.taken.clear();
  next.Tick();
  ASSERT_EQ(dispatcher.taken.size(), 1U);
  EXPECT_EQ(dispatcher.taken[0].key.run, heavy) << "the older ask";
  EXPECT_EQ(dispatcher.taken[0].key.epoch, asked.epoch);
  EXPECT_EQ(Row(light, 0).reason, Reason::kPermit);
  EXPECT_TRUE(next.Close());
}

TEST_F(PermitsTest, HoldersAreLoadedThoughMemoryIsFullOfRunsThatWaitForThem) {
  SetPool("gpu", 1);
  const RunNo holder = Begin(*Weights("holder", {1}));
  std::vector<RunNo> waiting;
  waiting.reserve(3);
  for (int i = 0; i < 3; ++i) waiting.push_back(Begin(*Weights("urgent", {1})));
  clock_.Advance(std::chrono::seconds(20));
  ManualDispatcher dispatcher;
  Engine next{{.owner = "next", .max_runs = 1},
              store_,
              dispatcher,
              evaluator_,
              clock_,
              random_,
              logger_,
              nullptr};
  ASSERT_TRUE(next.Open());
  for (int i = 0; i < 40; ++i) {
    next.Tick();
    clock_.Advance(std::chrono::milliseconds(500));
    for (const auto& attempt : dispatcher.taken)
      next.Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
    dispatcher.taken.clear();
  }
  EXPECT_EQ(Stored(holder).state, model::RunState::kSucceeded);
  for (const RunNo run : waiting) EXPECT_EQ(Stored(run).state, model::RunState::kSucceeded);
  EXPECT_TRUE(next.Close());
}

TEST_F(PermitsTest, RoundThatFailsGrantsNothing) {
  SetPool("gpu", 2);
  const auto workflow = Weights("w", {1});
  const RunNo poisoned(1);
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.header.run_no == poisoned && write.header.state == model::RunState::kRunning &&
          write.header.stuck_reason.empty())
        return Error{Code::kInternal, "constraint failed"};
    return {};
  };
  for (int i = 0; i < 4; ++i) Start(*workflow);
  Tick(20);
  EXPECT_EQ(Held(), 2);
  EXPECT_EQ(dispatcher_.taken.size(), 2U);
  EXPECT_EQ(engine_.stats().permits_held, 2U);
  while (!dispatcher_.taken.empty()) {
    Succeed(1);
    Tick(3);
    EXPECT_LE(Held(), 2);
  }
  EXPECT_EQ(Held(), 0);
  EXPECT_EQ(engine_.stats().permits_held, 0U);
}

TEST_F(PermitsTest, RoundThatFailsForOthersLosesNobodyWhoWaits) {
  SetPool("gpu", 1);
  auto definition = Tasks("urgent", 1);
  definition.tasks[0].priority = 9;
  const auto urgent = Put(std::move(definition));
  const RunNo busy = Begin(*Weights("busy", {1}));
  const RunNo waits = Begin(*Weights("waits", {1}));
  ASSERT_EQ(Row(waits, 0).reason, Reason::kPermit);
  dispatcher_.max = 1;
  const RunNo full = Begin(*urgent);
  End(busy, 0);
  Tick();  // its permit is reserved, but there is no credit
  EXPECT_EQ(Row(full, 0).state, TaskState::kQueued);
  SetPool("gpu", 0);
  clock_.Advance(Pools::kFresh);
  Tick();
  bool failed = false;
  store_.before = [&](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (write.insert_input) {
        failed = true;
        return Error{Code::kInternal, "constraint failed"};
      }
    return {};
  };
  dispatcher_.max = 5;
  Start(*urgent);
  Tick(3);
  ASSERT_TRUE(failed);
  SetPool("gpu", 1);
  clock_.Advance(Pools::kFresh);
  Tick(3);
  EXPECT_EQ(Row(waits, 0).state, TaskState::kQueued);
}

TEST_F(PermitsTest, DrainingEngineDoesNotSpinOverAReservation) {
  SetPool("gpu", 1);
  dispatcher_.max = 1;
  const RunNo busy = Begin(*Weights("busy", {1}));
  dispatcher_.max = 2;
  Begin(*Weights("waits", {1}));
  Begin(*Weights("plain", {0}));
  dispatcher_.max = 1;
  End(busy, 0);
  Tick();  // its permits are reserved, and there is no credit
  engine_.StopQueueing();
  clock_.Advance(Pools::kReserved + std::chrono::seconds(1));
  Tick(2);
  EXPECT_GT(engine_.Tick(), clock_.Monotonic());
}

TEST_F(PermitsTest, LimitsThatCannotBeReadAreAskedForOnceASecond) {
  SetPool("gpu", 1);
  store_.refuse_pools = true;
  const RunNo run = Begin(*Weights("w", std::vector<int>(100, 1)));
  Tick(50);  // half a second
  EXPECT_EQ(store_.pool_lists, 1);
  EXPECT_EQ(Row(run, 0).reason, Reason::kPermit);
  store_.refuse_pools = false;
  clock_.Advance(Pools::kFresh);
  Tick(2);
  EXPECT_EQ(store_.pool_lists, 2);
  EXPECT_EQ(Row(run, 0).state, TaskState::kQueued);
}

TEST_F(PermitsTest, OpenThatFailsHalfWayGivesTheShardsBack) {
  clock_.Advance(std::chrono::seconds(20));
  const auto make = [&](std::string owner) {
    return std::make_unique<Engine>(EngineOptions{.owner = std::move(owner)}, store_, dispatcher_,
                                    evaluator_, clock_, random_, logger_, nullptr);
  };
  store_.refuse_permits = true;
  EXPECT_FALSE(make("broken")->Open());
  store_.refuse_permits = false;
  const auto next = make("next");
  EXPECT_TRUE(next->Open());
  EXPECT_TRUE(next->Close());
}

TEST_F(PermitsTest, ReplyThatIsLostGrantsOnce) {
  SetPool("gpu", 1);
  store_.replies_to_lose = 1;
  const RunNo run = Begin(*Weights("w", {1, 1}));
  Tick(20);
  EXPECT_EQ(Held(), 1);
  End(run, 0);
  store_.replies_to_lose = 1;
  Tick(20);
  EXPECT_EQ(Held(), 1);
  EXPECT_EQ(engine_.stats().permits_held, 1U);
  EXPECT_EQ(Row(run, 1).state, TaskState::kQueued);
}

TEST_F(PermitsTest, PlainRunWritesAndReadsNothingOfIt) {
  const RunNo run = Begin(*Weights("plain", {0, 0}));
  Succeed(2);
  Tick();
  EXPECT_EQ(Stored(run).state, model::RunState::kSucceeded);
  EXPECT_EQ(Grants(), 0U);
  EXPECT_EQ(store_.pool_lists, 0);
}

TEST_F(PermitsTest, TaskWithFreePermitsWritesOneRowMorePerMove) {
  SetPool("gpu", 1);
  const RunNo plain = Begin(*Weights("plain", {0}));
  Succeed(1);
  Tick();
  const std::size_t rounds = store_.sent.size();
  std::size_t before = 0;
  for (const auto& round : store_.sent) before += Rows(round);
  store_.sent.clear();
  const RunNo run = Begin(*Weights("limited", {1}));
  Succeed(1);
  Tick();
  std::size_t after = 0;
  for (const auto& round : store_.sent) after += Rows(round);
  EXPECT_EQ(store_.sent.size(), rounds);
  EXPECT_EQ(after, before);  // of run, task and attempt
  EXPECT_EQ(Grants(), 2U);   // its permit, made and removed
  EXPECT_EQ(Stored(plain).state, Stored(run).state);
}

TEST_F(PermitsTest, ManyThatAskDelayNobodyElse) {
  SetPool("gpu", 1);
  auto definition = Tasks("w", 5'000);
  for (auto& task : definition.tasks) task.pool = "gpu";
  definition.tasks.back().pool.clear();
  const RunNo run = Begin(*Put(std::move(definition)));
  int ticks = 0;
  // No event, no time: the engine goes on by itself.
  while (engine_.Tick() == Duration(0)) ++ticks;
  EXPECT_LT(ticks, 10);
  EXPECT_EQ(dispatcher_.taken.size(), 2U);
  EXPECT_EQ(Row(run, 4'999).state, TaskState::kQueued);
  for (const auto& round : store_.sent) EXPECT_LE(Rows(round), 2'100U);
  Execute(control::CommandKind::kCancel, run);
  Tick(20);
  for (const auto& round : store_.sent) EXPECT_LE(Rows(round), 2'100U);
  EXPECT_EQ(engine_.stats().tasks_for_permits, 0U);
}

TEST_F(PermitsTest, AuditFindsAPermitThatNobodyHolds) {
  SetPool("gpu", 1);
  Begin(*Weights("w", {1}));
  clock_.Advance(std::chrono::minutes(5));
  Tick();
  EXPECT_EQ(engine_.stats().permits_astray, 0U);
  store_.hide_permits = true;  // a store that lost it
  clock_.Advance(std::chrono::minutes(5));
  Tick();
  EXPECT_EQ(engine_.stats().permits_astray, 1U);
}

TEST_F(PermitsTest, AuditFindsAPermitThatWasNeverFreed) {
  SetPool("gpu", 1);
  const RunNo run = Begin(*Weights("w", {1}));
  store_.extra_permit = {.tenant = tenant_,
                         .pool = "gpu",
                         .run = run,
                         .epoch = Epoch(99),
                         .task = TaskNo(0),
                         .weight = 1};
  clock_.Advance(std::chrono::minutes(5));
  Tick();
  EXPECT_EQ(engine_.stats().permits_astray, 1U);
}

TEST_F(PermitsTest, AuditFindsAPermitOfARunThatIsOver) {
  SetPool("gpu", 2);
  const RunNo run = Begin(*Weights("w", {1}));
  End(run, 0);
  Tick();
  store_.extra_permit = {.tenant = tenant_,
                         .pool = "gpu",
                         .run = run,
                         .epoch = Epoch(1),
                         .task = TaskNo(0),
                         .weight = 1};
  ASSERT_TRUE(engine_.Close());
  Engine next{{.owner = "next"}, store_,  dispatcher_, evaluator_, clock_,
              random_,           logger_, nullptr};
  ASSERT_TRUE(next.Open());
  next.Tick();
  clock_.Advance(std::chrono::minutes(6));
  next.Tick();
  EXPECT_EQ(next.stats().permits_astray, 1U);
  EXPECT_TRUE(next.Close());
}

TEST_F(PermitsTest, HoldersAreAskedForOneAtATimeWhileTheStoreDoesNotAnswer) {
  SetPool("gpu", 5);
  for (int i = 0; i < 5; ++i) Begin(*Weights("w" + std::to_string(i), {1}));
  ASSERT_TRUE(engine_.Close());
  Engine next{{.owner = "next"}, store_,  dispatcher_, evaluator_, clock_,
              random_,           logger_, nullptr};
  ASSERT_TRUE(next.Open());
  store_.refuse_loads = true;
  store_.loads = 0;
  next.Tick();
  const int first = store_.loads;
  EXPECT_LE(first, 3);
  next.Tick();
  EXPECT_LE(store_.loads - first, 1) << "not before a second has passed";
  store_.refuse_loads = false;
  clock_.Advance(std::chrono::seconds(2));
  next.Tick();
  EXPECT_GE(store_.loads - first, 5);
  EXPECT_TRUE(next.Close());
}

TEST_F(PermitsTest, EngineThatRecoversNothingGoesOnWithWhoHoldsItsPermits) {
  SetPool("gpu", 1);
  const RunNo held = Begin(*Weights("held", {1}));
  clock_.Advance(std::chrono::seconds(20));  // its engine is gone
  ManualDispatcher dispatcher;
  Engine next{{.owner = "next", .recover = false},
              store_,
              dispatcher,
              evaluator_,
              clock_,
              random_,
              logger_,
              nullptr};
  ASSERT_TRUE(next.Open());
  const auto workflow = Weights("w", {1});
  next.Start(
      {.tenant = tenant_, .name = workflow->name(), .version = workflow->version(), .input = "{}"},
      [](const auto& started) { EXPECT_TRUE(started); });
  for (int i = 0; i < 4; ++i) {
    next.Tick();
    clock_.Advance(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(dispatcher.taken.size(), 1U);
  EXPECT_EQ(dispatcher.taken[0].key.run, held);
  next.Ended(dispatcher.taken[0].key, {.verdict = model::Verdict::kSucceeded});
  next.Tick();
  EXPECT_EQ(dispatcher.taken.size(), 2U);
  EXPECT_TRUE(next.Close());
}

/// One pool of its own, without an engine.
class PoolsTest : public testing::Test {
 protected:
  PermitAsk Ask(std::int64_t rank, int weight) {
    return {tenant_,
            "gpu",
            weight,
            {rank, ++order_, RunNo(static_cast<std::int64_t>(order_)), TaskNo(0)}};
  }
  void Limit(int limit) {
    const store::PoolRecord pool{.name = "gpu", .limit = limit};
    pools_.SetLimits(tenant_, std::span(&pool, 1), now_);
  }
  void Take(const PermitAsk& ask) {
    pools_.Take(tenant_, "gpu", ask.weight, ask.ready.run, ask.ready.task, Epoch(1));
    pools_.Committed();
  }
  void Free(const PermitAsk& ask) {
    pools_.Free(ask.ready.run, Epoch(1));
    pools_.Committed();
  }
  std::vector<RunNo> Reserve() {
    std::vector<RunNo> runs;
    for (const PermitAsk& ask : pools_.Reserve(now_)) runs.push_back(ask.ready.run);
    return runs;
  }

  const TenantId tenant_{"public"};
  Pools pools_;
  Duration now_ = std::chrono::hours(1);
  std::uint64_t order_ = 0;
};

TEST_F(PoolsTest, WhatIsFreedIsSavedUpForTheFirst) {
  Limit(3);
  const PermitAsk a = Ask(1, 2), heavy = Ask(2, 3), light = Ask(3, 1), urgent = Ask(0, 1);
  Take(a);
  pools_.Wait(heavy);
  EXPECT_FALSE(pools_.MayTake(light, now_)) << "it would overtake";
  EXPECT_TRUE(pools_.MayTake(urgent, now_)) << "its rank is better";
  pools_.Wait(light);
  EXPECT_TRUE(Reserve().empty());
  Free(a);
  EXPECT_EQ(Reserve(), (std::vector{heavy.ready.run}));
  EXPECT_TRUE(Reserve().empty()) << "once is enough";
}

TEST_F(PoolsTest, ReservationEndsWithoutCreditAndBeginsAnew) {
  Limit(1);
  const PermitAsk first = Ask(1, 1), second = Ask(2, 1);
  pools_.Wait(first);
  pools_.Wait(second);
  EXPECT_EQ(Reserve(), (std::vector{first.ready.run}));
  EXPECT_EQ(pools_.due(), now_ + Pools::kReserved);
  now_ += Pools::kReserved - Duration(1);
  EXPECT_TRUE(Reserve().empty());
  EXPECT_FALSE(pools_.MayTake(second, now_));
  now_ += Duration(1);
  EXPECT_EQ(Reserve(), (std::vector{second.ready.run})) << "its executor has credit, perhaps";
  EXPECT_TRUE(pools_.MayTake(second, now_));
  EXPECT_TRUE(pools_.MayTake(first, now_)) << "whoever gets credit first";
  Take(second);
  EXPECT_FALSE(pools_.MayTake(first, now_));
  pools_.Wait(first);  // had credit, found no permit: its turn comes again
  Free(second);
  EXPECT_EQ(Reserve(), (std::vector{first.ready.run}));
}

TEST_F(PoolsTest, RoundThatIsNotCommittedChangesNothing) {
  Limit(2);
  const PermitAsk a = Ask(1, 2), b = Ask(2, 2);
  pools_.Take(tenant_, "gpu", 2, a.ready.run, a.ready.task, Epoch(1));
  EXPECT_FALSE(pools_.MayTake(b, now_)) << "counts at once";
  pools_.BeginRound();
  EXPECT_TRUE(pools_.MayTake(b, now_));
  EXPECT_EQ(pools_.used(), 0);
  Take(a);
  pools_.Free(a.ready.run, Epoch(1));
  EXPECT_TRUE(pools_.MayTake(b, now_));
  pools_.BeginRound();
  EXPECT_FALSE(pools_.MayTake(b, now_));
  EXPECT_EQ(pools_.used(), 2);
}

TEST_F(PoolsTest, AsksAboveTheLimitAreNotWalked) {
  Limit(3);
  const PermitAsk busy = Ask(0, 3);
  Take(busy);
  for (int i = 0; i < 1'000; ++i) pools_.Wait(Ask(0, 3));
  const PermitAsk light = Ask(0, 1);
  pools_.Wait(light);
  Free(busy);
  Limit(2);
  EXPECT_EQ(pools_.in_line(tenant_, "gpu"), 1U);
  EXPECT_EQ(Reserve(), (std::vector{light.ready.run}));
  EXPECT_TRUE(pools_.MayTake(light, now_));
  pools_.Forget(light.ready.run);
  EXPECT_EQ(pools_.waiting(), 1'000U);
  Limit(3);
  EXPECT_EQ(pools_.in_line(tenant_, "gpu"), 1'000U);
  EXPECT_EQ(Reserve(), (std::vector{RunNo(2)})) << "the first of them";
}

TEST_F(PoolsTest, OnlyWhatChangedIsLookedAt) {
  constexpr std::uint64_t kPools = 1'000;
  const auto ask = [&](std::uint64_t pool, int rank) {
    PermitAsk asked = Ask(rank, 1);
    asked.tenant = TenantId("t" + std::to_string(pool));
    return asked;
  };
  std::vector<PermitAsk> holding;
  for (std::uint64_t pool = 0; pool < kPools; ++pool) {
    const store::PoolRecord record{.name = "gpu", .limit = 1};
    holding.push_back(ask(pool, 0));
    pools_.SetLimits(holding.back().tenant, std::span(&record, 1), now_);
    pools_.Take(holding.back().tenant, "gpu", 1, holding.back().ready.run, TaskNo(0), Epoch(1));
    pools_.Committed();
    pools_.Wait(ask(pool, 1));
    pools_.Wait(ask(pool, 2));
  }
  EXPECT_TRUE(Reserve().empty());
  EXPECT_EQ(pools_.looks(), kPools);
  Free(holding[7]);
  Free(holding[9]);
  EXPECT_EQ(Reserve().size(), 2U);
  EXPECT_EQ(pools_.looks(), kPools + 2);
  EXPECT_TRUE(Reserve().empty());
  EXPECT_EQ(pools_.looks(), kPools + 2);
  EXPECT_EQ(pools_.due(), now_ + Pools::kReserved);
  now_ = pools_.due();
  EXPECT_EQ(Reserve().size(), 2U) << "the next there";
  EXPECT_EQ(pools_.looks(), kPools + 4);
  pools_.Take(TenantId("t7"), "gpu", 1, RunNo(1'000'000), TaskNo(0), Epoch(1));
  pools_.BeginRound();
  static_cast<void>(Reserve());
  EXPECT_EQ(pools_.looks(), kPools + 5) << "what it took is free again";
  EXPECT_EQ(pools_.Stale(now_ + Pools::kFresh).size(), kPools);
  for (std::int64_t run = 1; run <= static_cast<std::int64_t>(order_); ++run)
    pools_.Forget(RunNo(run));
  EXPECT_TRUE(pools_.Stale(now_ + Pools::kFresh).empty());
  EXPECT_EQ(pools_.waiting(), 0U);
}

TEST_F(PoolsTest, LoweredLimitLetsHoldersFinishFirst) {
  Limit(4);
  const PermitAsk a = Ask(1, 2), b = Ask(2, 2), c = Ask(3, 1);
  Take(a);
  Take(b);
  Limit(1);
  Free(a);
  EXPECT_FALSE(pools_.MayTake(c, now_)) << "2 of 1 are held";
  Free(b);
  EXPECT_TRUE(pools_.MayTake(c, now_));
  pools_.SetLimits(tenant_, {}, now_);
  EXPECT_FALSE(pools_.MayTake(c, now_)) << "the pool is gone";
}

}  // namespace
}  // namespace headworks::engine
