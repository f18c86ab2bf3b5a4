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
  Engine next({.owner = "next", .recover = false}, store_, dispatcher, clock_, random_, logger_,
              nullptr);
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

}  // namespace
}  // namespace headworks::engine
