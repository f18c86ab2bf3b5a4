#include <gtest/gtest.h>

#include "headworks/model/resources.h"
#include "test_run.h"

namespace headworks::model {
namespace {

using namespace std::chrono_literals;
using Codes = std::vector<std::string>;

/// a and b, both in pool "gpu".
WorkflowDefinition Pooled() {
  WorkflowDefinition definition;
  definition.name.workflow = "w";
  for (const char* id : {"a", "b"}) {
    Task task;
    task.id = id;
    task.action = ShellAction{.script = "true"};
    task.pool = "gpu";
    task.weight = 2;
    definition.tasks.push_back(task);
  }
  return definition;
}

Codes CodesOf(const std::vector<Fault>& faults) {
  Codes codes;
  for (const Fault& fault : faults) codes.push_back(std::string(fault.code) + " " + fault.field);
  return codes;
}

TEST(Permits, TaskThatAsksStaysReadyUnderTheEpochThatItIsQueuedWith) {
  TestRun t(Pooled());
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  EXPECT_EQ(t.State("a"), TaskState::kReady);
  EXPECT_EQ(t.At("a").reason, Reason::kPermit);
  EXPECT_EQ(t.At("a").not_before, t.now);
  EXPECT_EQ(t.At("a").epoch, Epoch(1));
  EXPECT_EQ(t.changes.rows(), 2U);
  t.now += 5s;
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  EXPECT_EQ(t.changes.rows(), 0U) << "asked once";
  t.Queue("b");
  EXPECT_EQ(t.At("b").epoch, Epoch(2));
  t.Crash();
  EXPECT_EQ(t.At("a").reason, Reason::kPermit);
  t.Queue("a");
  EXPECT_EQ(t.At("a").epoch, Epoch(1));
  EXPECT_EQ(t.At("a").reason, Reason::kNone);
}

TEST(Permits, WhoReadsTheRunSeesSinceWhenATaskIsReady) {
  auto definition = Pooled();
  definition.tasks[1].needs = {"a"};
  Task& c = definition.tasks.emplace_back(definition.tasks[1]);
  c.id = "c";
  c.pool = "";
  c.weight = 1;
  c.when = {"true"};
  TestRun t(std::move(definition));
  ASSERT_TRUE(t.Do(StartRun{}));
  const Instant started = t.now;
  t.now += 5s;
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  t.now += 5s;
  t.Crash();  // as a reader does, the rows are read at another time
  EXPECT_EQ(t.At("a").since, started);
  EXPECT_EQ(t.At("a").not_before, started + 5s);
  t.Run1("a", Verdict::kSucceeded, Reason::kNone);
  const Instant ready = t.now;
  ASSERT_TRUE(t.Do(AskPermits{t.No("b")}));
  t.now += 5s;
  t.Crash();
  EXPECT_EQ(t.At("b").since, ready);
  EXPECT_EQ(t.At("c").since, ready) << "it has no row";
  ASSERT_EQ(t.changes.evaluate.size(), 1U);
  EXPECT_EQ(t.changes.evaluate[0].since, ready) << "what is asked is what will be answered";
  ASSERT_TRUE(t.Do(WhenEvaluated{t.No("c"), ready, true, ""}));
  t.now += 5s;
  t.Crash();
  EXPECT_EQ(t.At("c").since, ready);
}

TEST(Permits, OnlyWhatMayBeQueuedAsks) {
  TestRun t(Pooled());
  ASSERT_TRUE(t.Do(AskPermits{TaskNo(0)}));
  EXPECT_EQ(t.changes.rows(), 0U) << "the run has not begun";
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.Do(PauseRun{}));
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  EXPECT_EQ(t.changes.rows(), 0U);
  ASSERT_TRUE(t.Do(ResumeRun{}));
  t.Queue("a");
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  EXPECT_EQ(t.changes.rows(), 0U) << "it has what it needs";
  ASSERT_TRUE(t.Do(AskPermits{TaskNo(99)}));
}

TEST(Permits, WaitingEndsWithCancelMarkAndRerun) {
  {
    TestRun t(Pooled());
    ASSERT_TRUE(t.Do(StartRun{}));
    ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
    ASSERT_TRUE(t.DoAll(CancelRun{}));
    EXPECT_EQ(t.States(), "a:cancelled b:cancelled");
    EXPECT_EQ(t.run.header.state, RunState::kCancelled);
  }
  TestRun t(Pooled());
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  ASSERT_TRUE(t.Do(AskPermits{t.No("b")}));
  ASSERT_TRUE(t.DoAll(MarkTask{t.No("a"), TaskState::kFailed, "ada"}));
  EXPECT_EQ(t.At("a").reason, Reason::kMarked);
  // The other one is not of the rerun, and keeps its turn.
  ASSERT_TRUE(t.DoAll(RerunTasks{ResetCursor::Kind::kFrom, t.No("a"), "ada"}));
  EXPECT_EQ(t.States(), "a:ready b:ready");
  EXPECT_EQ(t.At("a").reason, Reason::kNone);
  EXPECT_EQ(t.At("a").epoch, Epoch(0));
  EXPECT_EQ(t.At("b").reason, Reason::kPermit);
  EXPECT_EQ(t.At("b").epoch, Epoch(2));
  t.Crash();
  EXPECT_EQ(t.At("b").reason, Reason::kPermit);
}

TEST(Permits, RetryAsksAnew) {
  auto definition = Pooled();
  definition.tasks[0].retry = {.max_attempts = 2, .initial = 1s, .jitter = 0};
  TestRun t(std::move(definition));
  ASSERT_TRUE(t.Do(StartRun{}));
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  t.Run1("a", Verdict::kRetry, Reason::kExitCode);
  t.Pass(2s);
  EXPECT_EQ(t.State("a"), TaskState::kReady);
  EXPECT_EQ(t.At("a").reason, Reason::kNone);
  ASSERT_TRUE(t.Do(AskPermits{t.No("a")}));
  EXPECT_EQ(t.At("a").epoch, Epoch(2));
}

TEST(Limits, QueuesAndLabelsHaveBounds) {
  auto d = Pooled();
  d.tasks[0].queue = std::string(64, 'q');
  d.tasks[0].required.assign(64, std::string(128, 'l'));
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
  d.tasks[0].queue += 'q';
  d.tasks[0].required[1] += 'l';
  d.tasks[0].required[2] = "";
  d.tasks[1].required.assign(65, "l");
  EXPECT_EQ(CodesOf(Workflow::Check(d)),
            (Codes{"HW1122 tasks.a.queue", "HW1122 tasks.a.requires[1]",
                   "HW1122 tasks.a.requires[2]", "HW1122 tasks.b.requires"}));
}

TEST(Limits, AreCheckedWithTheWorkflow) {
  auto d = Pooled();
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
  d.tasks[0].pool = std::string(64, 'x');
  d.tasks[0].weight = 1'000'000;
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
  d.tasks[0].pool = std::string(65, 'x');
  d.tasks[0].weight = 1'000'001;
  d.tasks[1].pool = "";
  EXPECT_EQ(CodesOf(Workflow::Check(d)),
            (Codes{"HW1117 tasks.a.pool", "HW1111 tasks.a.weight", "HW1117 tasks.b.weight"}));
  d = Pooled();
  d.tasks[0].weight = 0;
  d.concurrency = Concurrency{};
  EXPECT_EQ(CodesOf(Workflow::Check(d)), (Codes{"HW1120 concurrency", "HW1111 tasks.a.weight"}));
  d.tasks[0].weight = 1;
  d.concurrency = {.limit = 1'000'001, .rate = 10'001, .rate_per = 0s};
  EXPECT_EQ(CodesOf(Workflow::Check(d)),
            (Codes{"HW1111 concurrency.limit", "HW1111 concurrency.rate.limit",
                   "HW1111 concurrency.rate.per"}));
  EXPECT_EQ(Workflow::Check(d)[1].message, "10001 is out of range: it must be 1 to 10000");
  d.concurrency = {.limit = -1, .rate = -1};
  EXPECT_EQ(CodesOf(Workflow::Check(d)),
            (Codes{"HW1111 concurrency.limit", "HW1111 concurrency.rate.limit"}));
  d.concurrency = {.limit = 1'000'000, .rate = 10'000, .rate_per = 1us};
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
  d.concurrency = {.limit = 1, .rate = 1, .rate_per = 1us};
  d.concurrency->on_conflict = OnConflict::kCancelPrevious;
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
  d.concurrency->limit = 0;
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{"HW1120 concurrency.on_conflict"});
  d.concurrency->on_conflict = OnConflict::kSkip;
  EXPECT_EQ(CodesOf(Workflow::Check(d)), Codes{});
}

TEST(Limits, PoolsAreCheckedAgainstTheDeclaredOnes) {
  const auto d = Pooled();
  EXPECT_EQ(CodesOf(CheckPools(d, {{"gpu", 2}})), Codes{});
  EXPECT_EQ(CodesOf(CheckPools(d, {{"gpu", 1}})),
            (Codes{"HW1119 tasks.a.weight", "HW1119 tasks.b.weight"}));
  const auto unknown = CheckPools(d, {{"gpus", 4}, {"db", 1}});
  EXPECT_EQ(CodesOf(unknown), (Codes{"HW1118 tasks.a.pool", "HW1118 tasks.b.pool"}));
  EXPECT_NE(unknown[0].message.find("did you mean"), std::string::npos) << unknown[0].message;
  EXPECT_NE(unknown[0].message.find("declared are: db (1), gpus (4)"), std::string::npos);
}

TEST(Limits, FaultsOfAPoolSayWhatToDo) {
  const auto d = Pooled();
  EXPECT_EQ(CheckPools(d, {{"gpu", 1}})[0].message,
            "2 is above the limit of pool \"gpu\", which is 1; declared are: gpu (1); lower the "
            "weight, or raise the limit with `headworks pool set gpu N`, or under `pools` in the "
            "configuration");
  // Whatever the weight is, and whether it is written: it is the pool that has nothing.
  const auto none = CheckPools(d, {{"gpu", 0}});
  EXPECT_EQ(CodesOf(none), (Codes{"HW1119 tasks.a.pool", "HW1119 tasks.b.pool"}));
  EXPECT_TRUE(none[0].message.starts_with("pool \"gpu\" has 0 permits")) << none[0].message;
}

TEST(Limits, FaultsOfAMatrixAreToldOnceAndOthersEach) {
  auto d = Pooled();
  d.tasks[0].group = d.tasks[1].group = "m";
  EXPECT_EQ(CodesOf(CheckPools(d, {})), Codes{"HW1118 tasks.m.pool"});
  d.tasks[1].role = TaskRole::kFinally;
  EXPECT_EQ(CodesOf(CheckPools(d, {})), (Codes{"HW1118 tasks.m.pool", "HW1118 finally.m.pool"}));
}

TEST(Limits, ResourcesAreCheckedAgainstTheMostOfEach) {
  auto d = Pooled();
  d.tasks[1].resources = {.cpu = 2, .memory = std::uint64_t{1} << 30};
  const auto check = [&](double cpu, std::uint64_t memory) {
    return CheckLimits(d, {.max_resources = {.cpu = cpu, .memory = memory}});
  };
  EXPECT_EQ(CodesOf(check(0, 0)), Codes{}) << "no limit; and of pools nothing is known";
  EXPECT_EQ(CodesOf(check(2, std::uint64_t{1} << 30)), Codes{});
  const auto both = check(1.999, (std::uint64_t{1} << 30) - 1);
  EXPECT_EQ(CodesOf(both),
            (Codes{"HW1121 tasks.b.resources.cpu", "HW1121 tasks.b.resources.memory"}));
  EXPECT_TRUE(both[0].message.starts_with(
      "it asks for 2 processors, and at most 1.999 are allowed here (max_task_resources)"));
  EXPECT_TRUE(both[1].message.starts_with(
      "it asks for 1GiB (1073741824 bytes) of memory, and at most 1073741823 bytes is allowed here "
      "(max_task_resources)"))
      << both[1].message;
  EXPECT_EQ(
      Excess(d.tasks[1].resources, {.cpu = 1, .memory = 1}),
      "it asks for 2 processors, and at most 1 are allowed here; it asks for 1GiB (1073741824 "
      "bytes) of memory, and at most 1 byte is allowed here");
}

TEST(Limits, GoRoundAsJsonAndCostPlainWorkflowsNothing) {
  auto d = Pooled();
  d.concurrency = {.key = "params.x",
                   .limit = 3,
                   .on_conflict = OnConflict::kCancelPrevious,
                   .rate = 4,
                   .rate_per = 1min};
  const auto w = Workflow::Create(d).value();
  EXPECT_NE(w->canonical_json().find(R"("concurrency":{"key":"params.x","limit":3,)"
                                     R"("on_conflict":"cancel_previous","rate":4,)"
                                     R"("rate_per_us":60000000})"),
            std::string::npos)
      << w->canonical_json();
  const auto again = Workflow::FromCanonicalJson(w->canonical_json());
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->definition(), w->definition());
  EXPECT_TRUE((*again)->has_pools());
  d.concurrency.reset();
  for (Task& task : d.tasks) task.pool = "", task.weight = 1;
  const auto plain = Workflow::Create(d).value();
  EXPECT_FALSE(plain->has_pools());
  for (const char* word : {"pool", "weight", "concurrency"})
    EXPECT_EQ(plain->canonical_json().find(word), std::string::npos);
}

}  // namespace
}  // namespace headworks::model
