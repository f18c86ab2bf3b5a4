#include <algorithm>
#include <map>

#include "tests/rig.h"

// Credit by line: what waits for one thing holds up nothing that waits for another (I11).
namespace headworks::engine {
namespace {

/// One executor with a line for each queue of each tenant.  Tests end what it took.
class LinesDispatcher final : public dispatcher::Dispatcher {
 public:
  using Line = std::pair<std::string, std::string>;  // tenant, queue
  std::uint32_t all = 20, of_tenant = 15, of_line = 10;
  bool others = true;
  std::string only;  // the one line that takes any; empty = all do
  std::map<Line, std::deque<executor::Attempt>> taken;
  std::optional<executor::OfferResult> answer;  // of each offer; none = as its credit is
  int offers = 0, refused = 0;
  mutable std::map<Line, int> asked;

  std::size_t lanes() const override { return 1; }
  std::size_t LaneOf(const TenantId&, const model::Task&) const override { return 0; }
  std::string_view LaneName(std::size_t) const override { return "lines"; }
  executor::Capacity GetCapacity(std::size_t) const override { return {all, Count({})}; }
  bool HasLines(std::size_t) const override { return true; }
  std::string LineOf(std::size_t, const model::Workflow& workflow, TaskNo task) const override {
    return std::string(model::QueueOf(workflow.task(task)));
  }
  executor::Credit GetCredit(std::size_t, const TenantId& tenant,
                             const std::string& line) const override {
    ++asked[{tenant.value, line}];
    return CreditOf(tenant.value, line);
  }
  executor::OfferResult Dispatch(const executor::Attempt& attempt) override {
    ++offers;
    if (answer) return *answer;
    const Line line{attempt.key.tenant.value, LineOf(0, *attempt.workflow, attempt.key.task)};
    if (CreditOf(line.first, line.second).least() == 0) {
      ++refused;
      return NotTaken(executor::DispatchError::kNoCapacity, "full");
    }
    taken[line].push_back(attempt);
    return {};
  }
  void Cancel(const executor::Attempt&) override {}
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    std::vector<executor::Inspection> answers(attempts.size(), executor::Absent{});
    for (std::size_t i = 0; i < attempts.size(); ++i)
      for (const auto& [line, here] : taken)
        if (std::ranges::any_of(here, [&](const auto& a) { return a.key == attempts[i].key; }))
          answers[i] = executor::Pending{"waits", true};
    return answers;
  }
  void Settled(std::span<const executor::Attempt>) override {}
  Status Close(Duration) override { return {}; }

 private:
  std::uint32_t Count(std::string_view tenant) const {
    std::size_t count = 0;
    for (const auto& [line, here] : taken)
      if (tenant.empty() || line.first == tenant) count += here.size();
    return static_cast<std::uint32_t>(count);
  }
  executor::Credit CreditOf(const std::string& tenant, const std::string& line) const {
    const auto left = [](std::uint32_t most, std::size_t used) {
      return most - std::min(most, static_cast<std::uint32_t>(used));
    };
    const auto here = taken.find({tenant, line});
    return {.all = left(all, Count({})),
            .tenant = left(of_tenant, Count(tenant)),
            .line = !only.empty() && line != only
                        ? 0
                        : left(of_line, here == taken.end() ? 0 : here->second.size()),
            .others = others};
  }
};

class LinesTest : public testing::Test {
 protected:
  LinesTest() : store_(clock_) { Open(); }

  void Open() {
    if (engine_) ASSERT_TRUE(engine_->Close());
    engine_ = std::make_unique<Engine>(
        EngineOptions{.owner = "engine-" + std::to_string(++opened_)}, store_, dispatcher_,
        evaluator_, clock_, random_, logger_, nullptr);
    ASSERT_TRUE(engine_->Open());
    Tick();
  }
  void Tick(int times = 1) {
    for (; times > 0; --times) {
      engine_->Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  /// A run of `count` tasks of this queue.
  void Start(const std::string& tenant, const std::string& queue, int count) {
    model::WorkflowDefinition definition;
    definition.name = {.tenant = tenant, .workflow = queue};
    for (int t = 0; t < count; ++t) {
      definition.tasks.push_back(
          {.id = "t" + std::to_string(t), .action = model::ExecAction{{"work"}}});
      definition.tasks.back().queue = queue;
    }
    Start(*model::Workflow::Create(std::move(definition)));
  }
  void Start(const std::shared_ptr<const model::Workflow>& workflow) {
    const TenantId tenant(workflow->name().tenant);
    ASSERT_TRUE(store_.workflows().PutVersion(tenant, workflow->version(),
                                              workflow->canonical_json(), clock_.Now()));
    engine_->Start(
        {.tenant = tenant, .name = workflow->name(), .version = workflow->version(), .input = "{}"},
        [](const Result<control::Started>& started) { EXPECT_TRUE(started); });
    Tick(2);
  }
  std::size_t Taken(const std::string& tenant, const std::string& queue) {
    return dispatcher_.taken[{tenant, queue}].size();
  }
  /// Ends what is there of this line, again and again, and says how much it was.
  int Work(const std::string& tenant, const std::string& queue) {
    int done = 0;
    for (auto& here = dispatcher_.taken[{tenant, queue}]; !here.empty(); Tick(2))
      for (; !here.empty(); ++done) {
        engine_->Ended(here.front().key, {.verdict = model::Verdict::kSucceeded});
        here.pop_front();
      }
    return done;
  }

  void EndAll() {
    for (auto& [line, here] : dispatcher_.taken) {
      for (const auto& attempt : here)
        engine_->Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
      here.clear();
    }
  }

  ManualClock clock_;
  SeededRandom random_{1};
  NullLogger logger_;
  WatchedStore store_;
  LinesDispatcher dispatcher_;
  ManualEvaluator evaluator_;
  int opened_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST_F(LinesTest, ALineThatDoesNotMoveHoldsUpNoOther) {
  Start("public", "dead", 100);
  EXPECT_EQ(Taken("public", "dead"), 10U) << "as many as its line takes, and no row for the rest";
  Start("public", "live", 50);
  EXPECT_EQ(Taken("public", "live"), 5U) << "the rest of what the tenant may have";
  EXPECT_EQ(Work("public", "live"), 50);
  EXPECT_EQ(dispatcher_.refused, 0);
  EXPECT_EQ(engine_->stats().live_attempts, 10U);
  EXPECT_EQ(Work("public", "dead"), 100) << "its time comes";
}

TEST_F(LinesTest, ATenantWithoutRoomHoldsUpNoOther) {
  Start("x", "default", 100);
  Start("x", "more", 100);
  EXPECT_EQ(Taken("x", "default") + Taken("x", "more"), 15U);
  Start("y", "default", 50);
  EXPECT_EQ(Taken("y", "default"), 5U) << "a line of the same name, but not the same";
  EXPECT_EQ(Work("y", "default"), 50);
  EXPECT_EQ(dispatcher_.refused, 0);
  EXPECT_EQ(Work("x", "default") + Work("x", "more"), 200);
}

TEST_F(LinesTest, WhatSeveralLinesShareIsGrantedOnce) {
  dispatcher_.all = dispatcher_.of_tenant = dispatcher_.of_line = 0;
  for (const char* tenant : {"x", "y"})
    for (const char* queue : {"a", "b", "c"}) Start(tenant, queue, 10);
  EXPECT_EQ(dispatcher_.offers, 0);
  dispatcher_.all = 7;
  dispatcher_.of_tenant = dispatcher_.of_line = 5;
  Tick(5);
  EXPECT_EQ(dispatcher_.offers, 7);
  EXPECT_EQ(dispatcher_.refused, 0);
  EXPECT_GE(Taken("x", "a") + Taken("x", "b") + Taken("x", "c"), 3U) << "tenants take turns";
  EXPECT_GE(Taken("y", "a") + Taken("y", "b") + Taken("y", "c"), 3U);
}

TEST_F(LinesTest, WithinATenantTheOldestOfAllLinesComesFirst) {
  dispatcher_.all = 0;
  Start("x", "b", 1);
  Start("x", "a", 2);
  Start("x", "c", 1);
  dispatcher_.all = 2;
  Tick();
  EXPECT_EQ(Taken("x", "b"), 1U);
  EXPECT_EQ(Taken("x", "a"), 1U);
}

TEST_F(LinesTest, WhatFoundNoRoomAfterARestartWaitsForItAlone) {
  Start("public", "dead", 30);
  EXPECT_EQ(Taken("public", "dead"), 10U);
  dispatcher_.taken.clear();
  dispatcher_.of_line = 4;
  Open();
  Tick(5);
  EXPECT_EQ(Taken("public", "dead"), 4U);
  EXPECT_EQ(dispatcher_.refused, 6);
  Start("public", "live", 20);
  EXPECT_EQ(Taken("public", "live"), 4U);
  EXPECT_EQ(Work("public", "live"), 20) << "whoever was refused is nothing to others";
  const int before = dispatcher_.offers;
  Tick(500);
  EXPECT_EQ(dispatcher_.offers, before) << "there is no room, so nothing is tried";
  EXPECT_EQ(engine_->stats().live_attempts, 10U);
  auto& dead = dispatcher_.taken[{"public", "dead"}];
  engine_->Ended(dead.front().key, {.verdict = model::Verdict::kSucceeded});
  dead.pop_front();
  Tick(2);
  ASSERT_EQ(dead.size(), 4U);
  EXPECT_EQ(dead.back().key.task, TaskNo(4)) << "what was queued first comes before what is ready";
  EXPECT_EQ(Work("public", "dead"), 29);
  EXPECT_EQ(dispatcher_.refused, 6);
}

TEST_F(LinesTest, ALineThatIsToWaitGetsNoMoreMeanwhile) {
  for (const auto later : {model::Disposition::kBackpressure, model::Disposition::kTransient}) {
    const std::string queue = std::to_string(static_cast<int>(later));
    dispatcher_.answer = {later, "later", {}};
    Start("public", queue, 100);
    Tick(1'000);
    EXPECT_EQ(engine_->stats().live_attempts, 10U) << "as many as its line takes";
    EXPECT_GT(dispatcher_.offers, 10);
    dispatcher_.answer.reset();
    Start("public", queue + "-other", 1);
    EXPECT_EQ(Work("public", queue + "-other"), 1);
    int done = 0;
    for (int n = 0; n < 100; ++n, Tick(100)) done += Work("public", queue);
    EXPECT_EQ(done, 100);
    dispatcher_.offers = 0;
  }
}

TEST_F(LinesTest, ATaskWithoutCreditKeepsNoPlaceOfItsRun) {
  model::WorkflowDefinition definition;
  definition.name = {.tenant = "public", .workflow = "both"};
  definition.max_parallel = 1;
  for (const char* queue : {"first", "dead", "live", "dead", "live"}) {
    definition.tasks.push_back({.id = std::string("t") + std::to_string(definition.tasks.size()),
                                .action = model::ExecAction{{"work"}}});
    definition.tasks.back().queue = queue;
  }
  definition.tasks[0].priority = 1;
  definition.tasks[1].priority = definition.tasks[3].priority = 1;
  Start(*model::Workflow::Create(std::move(definition)));
  Start("public", "dead", 100);
  EXPECT_EQ(Work("public", "first"), 1);
  EXPECT_EQ(Work("public", "live"), 2);
  EXPECT_EQ(Work("public", "dead"), 102);
}

TEST_F(LinesTest, ARoundAsksOnceAboutEachLineThatHasReadyTasks) {
  for (int queue = 0; queue < 100; ++queue) {
    Start("public", "idle-" + std::to_string(queue), 1);
    EXPECT_EQ(Work("public", "idle-" + std::to_string(queue)), 1);
  }
  Start("public", "dead", 50);
  Start("public", "also-dead", 50);
  dispatcher_.asked.clear();
  Tick(1);
  EXPECT_EQ(dispatcher_.asked, (std::map<LinesDispatcher::Line, int>{
                                   {{"public", "dead"}, 1}, {{"public", "also-dead"}, 1}}));
}

TEST_F(LinesTest, ATenantWithoutRoomCostsNoLookAtEachOfItsLines) {
  constexpr int kLines = 5'000;
  model::WorkflowDefinition definition;
  definition.name = {.tenant = "many", .workflow = "lines"};
  for (int t = 0; t < kLines; ++t) {
    definition.tasks.push_back(
        {.id = "t" + std::to_string(t), .action = model::ExecAction{{"work"}}});
    definition.tasks.back().queue = "q" + std::to_string(t);
  }
  Start(*model::Workflow::Create(std::move(definition)));
  Tick(10);
  EXPECT_EQ(engine_->stats().live_attempts, 15U);
  const auto asks = [&] {
    dispatcher_.asked.clear();
    Tick();
    int count = 0;
    for (const auto& [line, times] : dispatcher_.asked) count += times;
    return count;
  };
  EXPECT_EQ(asks(), static_cast<int>(ReadyQueue::kMostClosed)) << "any of them might have some";
  Start("other", "default", 5);
  EXPECT_EQ(Work("other", "default"), 5);
  dispatcher_.others = false;
  Tick(10);
  EXPECT_EQ(asks(), 1);
  EXPECT_EQ(Work("many", "q0"), 1);
  EXPECT_EQ(Taken("many", "q15"), 1U) << "in order";
}

// It is asked about in each tick.
TEST_F(LinesTest, OneThatIsOverdueInItsLineHoldsUpNoOther) {
  model::WorkflowDefinition definition;
  definition.name = {.tenant = "a", .workflow = "dead"};
  definition.tasks.push_back({.id = "t", .action = model::ExecAction{{"work"}}});
  definition.tasks.back().queue = "dead";
  definition.tasks.back().start_timeout = std::chrono::microseconds(1);
  Start(*model::Workflow::Create(std::move(definition)));
  Tick(5);
  ASSERT_EQ(Taken("a", "dead"), 1U);
  Start("b", "live", 30);
  EXPECT_EQ(Work("b", "live"), 30);
  EXPECT_EQ(Taken("a", "dead"), 1U);
}

/// One run of a task for each of so many queues, one at a time.
std::shared_ptr<const model::Workflow> OneByOne(int queues) {
  model::WorkflowDefinition definition;
  definition.name = {.tenant = "a", .workflow = "one-by-one"};
  definition.max_parallel = 1;
  for (int t = 0; t < queues; ++t) {
    definition.tasks.push_back(
        {.id = "t" + std::to_string(t), .action = model::ExecAction{{"work"}}});
    definition.tasks.back().queue = "q" + std::to_string(t % queues);
  }
  return *model::Workflow::Create(std::move(definition));
}

TEST_F(LinesTest, APlaceOfARunCostsTheSameHoweverManyLinesWaitForIt) {
  const auto asked = [&](int queues) {
    dispatcher_.taken.clear();
    Start(OneByOne(queues));
    Tick(5);
    dispatcher_.asked.clear();
    for (int ended = 0; ended < 20; ++ended) {
      EndAll();
      Tick(2);
      EXPECT_EQ(engine_->stats().live_attempts, 1U);
    }
    int sum = 0;
    for (const auto& [line, times] : dispatcher_.asked) sum += times;
    for (; engine_->stats().live_attempts > 0; Tick(2)) EndAll();
    return sum;
  };
  EXPECT_LE(asked(30), 60);
  EXPECT_LE(asked(600), 60);
}

TEST_F(LinesTest, WhereLinesHaveNoCreditTheNextOfTheRunAreLetGo) {
  Start(OneByOne(30));
  ASSERT_EQ(Taken("a", "q0"), 1U);
  for (const char* queue : {"q29", "q7", "q8"}) {
    dispatcher_.only = queue;
    EndAll();
    Tick(2);  // one round ends it, the next one looks past all that are before
    EXPECT_EQ(Taken("a", queue), 1U) << queue;
    EXPECT_EQ(engine_->stats().live_attempts, 1U);
  }
  dispatcher_.only.clear();
  int ended = 0;
  for (; engine_->stats().live_attempts > 0; Tick(2)) {
    EXPECT_EQ(engine_->stats().live_attempts, 1U);
    EndAll();
    ++ended;
  }
  EXPECT_EQ(ended, 27);
}

}  // namespace
}  // namespace headworks::engine
