#include <gtest/gtest.h>

#include "run_view.h"

namespace headworks::cli {
namespace {

using model::TaskState;
using std::chrono::seconds;

constexpr Instant kNow{seconds(1'800'000'000)};

/// a → b → c, and a `finally` task d.
class ExplainTaskTest : public testing::Test {
 protected:
  void SetUp() override {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.max_parallel = 2;
    for (const char* id : {"a", "b", "c", "d"}) {
      model::Task task;
      task.id = id;
      task.action = model::ShellAction{.script = "true"};
      task.retry.max_attempts = 3;
      if (task.id == "b") task.needs = {"a"};
      if (task.id == "c") task.needs = {"b"};
      if (task.id == "d") task.role = model::TaskRole::kFinally;
      definition.tasks.push_back(task);
    }
    view_.workflow = *model::Workflow::Create(std::move(definition));
    view_.header.run_no = RunNo(7);
    view_.header.state = model::RunState::kRunning;
    view_.tasks.resize(4);
  }

  model::TaskRun& task(std::string_view id) { return view_.tasks[No(id).value]; }
  TaskNo No(std::string_view id) const { return *view_.workflow->Find(id); }

  std::string Explain(std::string_view id, bool engine_live = true) const {
    std::string text;
    for (const std::string& line : ExplainTask(view_, No(id), engine_live, kNow))
      text += line + "\n";
    return text;
  }

  RunView view_;
};

TEST_F(ExplainTaskTest, WaitingNamesTheUpstreamsThatAreNotOver) {
  task("a").state = TaskState::kRunning;
  EXPECT_EQ(Explain("b"), "task b of run 7 is waiting\nwaits for task a, which is running\n");
  EXPECT_EQ(Explain("c"), "task c of run 7 is waiting\nwaits for task b, which is waiting\n");
}

TEST_F(ExplainTaskTest, UpstreamThatMayFailIsNotBlamed) {
  auto definition = view_.workflow->definition();
  definition.tasks[0].allow_failure = true;
  definition.tasks[2].needs = {"a", "b"};
  view_.workflow = *model::Workflow::Create(std::move(definition));
  task("a").state = TaskState::kFailed;
  task("b").state = TaskState::kFailed;
  task("c").state = TaskState::kUpstreamFailed;
  const std::string text = Explain("c");
  EXPECT_NE(text.find("task a is failed (allowed, counts as success)\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("task b is failed\n"), std::string::npos) << text;
  EXPECT_EQ(StateText(view_, No("a")), "failed (allowed)");
  EXPECT_EQ(StateText(view_, No("b")), "failed");
}

TEST_F(ExplainTaskTest, FinallyStandsBehindAllOthers) {
  EXPECT_EQ(Levels(*view_.workflow), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST_F(ExplainTaskTest, FinallyWaitsForAllOthers) {
  task("a").state = TaskState::kSucceeded;
  view_.header.counts[static_cast<std::size_t>(TaskState::kSucceeded)] = 1;
  EXPECT_NE(Explain("d").find("(finally); 1 of 4 tasks are"), std::string::npos) << Explain("d");
}

TEST_F(ExplainTaskTest, ReadyWaitsForCreditOrForMaxParallel) {
  task("a").state = TaskState::kReady;
  EXPECT_NE(Explain("a").find("waits for credit of its executor"), std::string::npos);
  view_.header.counts[static_cast<std::size_t>(TaskState::kRunning)] = 2;
  EXPECT_NE(Explain("a").find("max_parallel of 2"), std::string::npos);
}

TEST_F(ExplainTaskTest, ReadyTaskOfAPausedRunOrWithoutAnEngineWaitsForThatAlone) {
  task("a").state = TaskState::kReady;
  EXPECT_EQ(Explain("a", false).find("waits for credit"), std::string::npos) << Explain("a", false);
  view_.header.paused_at = kNow - seconds(5);
  EXPECT_NE(Explain("a").find("the run is paused"), std::string::npos);
  EXPECT_EQ(Explain("a").find("waits for credit"), std::string::npos) << Explain("a");
}

TEST_F(ExplainTaskTest, PermitNamesThePoolWhatIsHeldAndByWhom) {
  auto definition = view_.workflow->definition();
  definition.tasks[0].pool = "gpu";
  definition.tasks[0].weight = 2;
  view_.workflow = *model::Workflow::Create(std::move(definition));
  task("a").state = TaskState::kReady;
  task("a").reason = model::Reason::kPermit;
  task("a").not_before = kNow - seconds(90);
  EXPECT_NE(Explain("a").find("pool gpu is not declared"), std::string::npos) << Explain("a");
  view_.pools = {{.name = "gpu",
                  .limit = 4,
                  .held = 3,
                  .holders = {{RunNo(3), "train", 3, kNow - seconds(60)}}}};
  std::string text = Explain("a");
  EXPECT_NE(text.find("waits for 2 permits of pool gpu since "), std::string::npos) << text;
  EXPECT_NE(text.find("(1m30s ago)\n3 of 4 are held\nrun 3 holds 3 for task train since "),
            std::string::npos)
      << text;
  view_.pools[0].held = 2;
  EXPECT_NE(Explain("a").find("those that are free are for tasks with higher priority"),
            std::string::npos);
  view_.pools[0].limit = 1;
  EXPECT_NE(Explain("a").find("pool gpu has only 1 in all; raise its limit"), std::string::npos);
}

TEST_F(ExplainTaskTest, PendingRunNamesTheLimitsAndWhoHasThePlaces) {
  auto definition = view_.workflow->definition();
  definition.max_active_runs = 5;
  definition.concurrency = {.key = "params.x", .limit = 1, .rate = 2, .rate_per = seconds(60)};
  view_.workflow = *model::Workflow::Create(std::move(definition));
  view_.header.state = model::RunState::kPending;
  view_.header.name.workflow = "w";
  view_.header.concurrency_key = "acme";
  model::RunHeader running, zombie;
  running.run_no = RunNo(3);
  running.state = model::RunState::kRunning;
  zombie.run_no = RunNo(2);
  zombie.state = model::RunState::kCancelled;
  view_.active_with_key = {zombie, running};
  const std::string text = Explain("a");
  EXPECT_NE(text.find("of workflow w at most 5 runs are under way at a time (max_active_runs)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("of workflow w with concurrency key 'acme' at most 1 runs are under way at a "
                      "time (concurrency.limit): run 2 (cancelled, but an attempt is not known to "
                      "be over), run 3 (running)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("at most 2 runs start within 1m"), std::string::npos) << text;
}

TEST_F(ExplainTaskTest, ParkedSaysUntilWhenWhyAndWhatIsLeft) {
  task("a").state = TaskState::kParked;
  task("a").reason = model::Reason::kBackoff;
  task("a").not_before = kNow + seconds(90);
  task("a").tries = 2;
  const std::string text = Explain("a");
  EXPECT_NE(text.find("(in 1m30s): backoff"), std::string::npos) << text;
  EXPECT_NE(text.find("2 of 3 tries are used, 0 of 6 losses"), std::string::npos) << text;
}

TEST_F(ExplainTaskTest, QueuedAndRunningNameTheirExecutor) {
  task("a").state = TaskState::kQueued;
  view_.holders[No("a")] = "process (host:12)";
  EXPECT_NE(Explain("a").find("with executor process (host:12)"), std::string::npos);
}

TEST_F(ExplainTaskTest, WhatHoldsTheWholeRunIsSaidForEveryTask) {
  view_.header.paused_at = kNow - seconds(60);
  EXPECT_NE(Explain("b").find("the run is paused since"), std::string::npos);
  EXPECT_NE(Explain("b").find("`headworks runs resume 7`"), std::string::npos);
  view_.header.paused_at = {};
  view_.header.stuck_reason = "row 3 is damaged";
  EXPECT_NE(Explain("b").find("stuck: row 3 is damaged"), std::string::npos);
  view_.header.stuck_reason.clear();
  view_.header.cancel_requested_at = kNow;
  EXPECT_NE(Explain("b").find("being cancelled"), std::string::npos);
  view_.header.state = model::RunState::kPending;
  EXPECT_NE(Explain("b").find("not yet taken up"), std::string::npos);
  EXPECT_EQ(Explain("b").find("no engine"), std::string::npos);
  EXPECT_NE(Explain("b", false).find("no engine is running"), std::string::npos);
}

TEST_F(ExplainTaskTest, RunThatWaitsForAPlaceIsWithTheEngine) {
  auto definition = view_.workflow->definition();
  definition.max_active_runs = 2;
  view_.workflow = *model::Workflow::Create(definition);
  view_.header.name = definition.name;
  view_.header.state = model::RunState::kPending;
  const std::string limit = "of workflow w at most 2 runs are under way at a time";
  const auto holder = [](std::int64_t run) {
    model::RunHeader header;
    header.run_no = RunNo(run);
    header.state = model::RunState::kRunning;
    return header;
  };
  view_.active = {holder(1)};
  EXPECT_NE(Explain("a").find("not yet taken up"), std::string::npos) << "one place is free";
  view_.active.push_back(holder(2));
  EXPECT_EQ(Explain("a"), "task a of run 7 is waiting\n" + limit +
                              " (max_active_runs): run 1 (running), run 2 (running)\n");
  definition.max_active_runs = 0;
  definition.concurrency = {.limit = 2};
  view_.workflow = *model::Workflow::Create(definition);
  view_.header.concurrency_key = "";
  view_.active_with_key = std::move(view_.active);
  EXPECT_EQ(Explain("a"), "task a of run 7 is waiting\n" + limit +
                              " (concurrency.limit): run 1 (running), run 2 (running)\n");
}

TEST_F(ExplainTaskTest, ARunThatARateHoldsUpSaysWhenTheNextMayStart) {
  auto definition = view_.workflow->definition();
  definition.concurrency = {.rate = 2, .rate_per = seconds(60)};
  view_.workflow = *model::Workflow::Create(definition);
  view_.header.name = definition.name;
  view_.header.state = model::RunState::kPending;
  view_.header.concurrency_key = "";
  const std::string rate = "of workflow w at most 2 runs start within 1m00s (concurrency.rate)";
  view_.next_start = kNow + seconds(20);
  EXPECT_EQ(Explain("a"), "task a of run 7 is waiting\n" + rate + "; the next one may at " +
                              FormatInstant(kNow + seconds(20)) + " (in 20.0s)\n");
  for (const auto next : {std::optional<Instant>(), std::optional(kNow)}) {
    view_.next_start = next;
    EXPECT_EQ(Explain("a"),
              "task a of run 7 is waiting\n"
              "the run is accepted and not yet taken up by an engine\n" +
                  rate + "\n");
  }
}

TEST_F(ExplainTaskTest, ARunForWhichThereIsNoRoomInMemorySaysSo) {
  view_.header.state = model::RunState::kPending;
  view_.max_in_memory = 5;
  view_.under_way = 4;
  EXPECT_NE(
      Explain("a").find("not yet taken up by an engine\n4 runs of its tenant are under way; an "
                        "engine holds at most 5 of all tenants at a time "
                        "(max_runs_in_memory)\n"),
      std::string::npos)
      << Explain("a");
  view_.under_way = 5;
  EXPECT_EQ(
      Explain("a"),
      "task a of run 7 is waiting\n5 runs are under way, and an engine holds as many at a time "
      "(max_runs_in_memory): the run is taken up when there is room\n");
  EXPECT_NE(Explain("a", false).find("not yet taken up by an engine\nno engine is running"),
            std::string::npos);
}

TEST_F(ExplainTaskTest, ATaskThatWasGivenUpDoesNotTakeAnEarlierEndForItsOwn) {
  task("a").state = TaskState::kFailed;
  task("a").reason = model::Reason::kPendingTimeout;
  task("a").epoch = Epoch(2);
  model::AttemptRecord attempt;
  attempt.task = No("a");
  attempt.epoch = Epoch(1);
  attempt.queued_at = kNow;
  attempt.outcome.verdict = model::Verdict::kSucceeded;
  view_.AddAttempt(attempt);
  EXPECT_NE(Explain("a").find("an earlier attempt, try 1, ended in succeeded\n"), std::string::npos)
      << Explain("a");
  EXPECT_EQ(Explain("a").find("its last attempt"), std::string::npos);
}

TEST_F(ExplainTaskTest, SettledSaysHowItEnded) {
  task("a").state = TaskState::kFailed;
  task("a").reason = model::Reason::kExitCode;
  model::AttemptRecord attempt;
  attempt.task = No("a");
  attempt.try_no = 3;
  attempt.queued_at = kNow;
  attempt.outcome.verdict = model::Verdict::kFailed;
  attempt.outcome.reason = model::Reason::kExitCode;
  attempt.outcome.exit_code = 7;
  attempt.outcome.error = "no route";
  view_.AddAttempt(attempt);
  const std::string text = Explain("a", false);
  EXPECT_NE(text.find("its last attempt, try 3, ended in failed (exit code 7)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("error: no route"), std::string::npos);
  EXPECT_EQ(text.find("no engine"), std::string::npos) << "it waits for nothing";

  task("b").state = TaskState::kUpstreamFailed;
  EXPECT_NE(Explain("b").find("upstream task a is failed"), std::string::npos);
}

TEST_F(ExplainTaskTest, WhatASkippedUpstreamSkipsIsToldHowToRunAllTheSame) {
  task("a").state = TaskState::kSkipped;
  task("a").reason = model::Reason::kWhen;
  task("b").state = TaskState::kSkipped;
  task("b").reason = model::Reason::kTriggerRule;
  EXPECT_NE(
      Explain("b").find("upstream task a is skipped\nits trigger_rule is all_success, and what "
                        "is skipped has not succeeded; with trigger_rule: none_failed it runs "
                        "unless something failed\n"),
      std::string::npos)
      << Explain("b");
  auto definition = view_.workflow->definition();
  definition.tasks[1].trigger_rule = model::TriggerRule::kOneFailed;
  view_.workflow = *model::Workflow::Create(std::move(definition));
  EXPECT_NE(Explain("b").find("is skipped\nits trigger_rule is one_failed\n"), std::string::npos)
      << Explain("b");
  EXPECT_EQ(Explain("a").find("trigger_rule"), std::string::npos);
}

TEST_F(ExplainTaskTest, EndOfAnAttemptAfterItsTaskWasGivenUpChangedNothing) {
  task("a").state = TaskState::kFailed;
  task("a").reason = model::Reason::kPendingTimeout;
  model::AttemptRecord attempt;
  attempt.task = No("a");
  attempt.outcome.verdict = model::Verdict::kSucceeded;
  view_.AddAttempt(attempt);
  EXPECT_NE(Explain("a").find("try 1, came too late to count: it ended in succeeded"),
            std::string::npos)
      << Explain("a");
}

TEST_F(ExplainTaskTest, LevelIsTheLongestWayFromARoot) {
  const auto levels = Levels(*view_.workflow);
  EXPECT_EQ(levels[No("a").value], 0U);
  EXPECT_EQ(levels[No("b").value], 1U);
  EXPECT_EQ(levels[No("c").value], 2U);
}

TEST_F(ExplainTaskTest, AKeyIsNamedInOneLineWhateverIsInIt) {
  auto definition = view_.workflow->definition();
  definition.concurrency = model::Concurrency{.key = "k", .limit = 1};
  view_.workflow = *model::Workflow::Create(std::move(definition));
  view_.header.state = model::RunState::kPending;
  view_.header.concurrency_key = "a\x1b[2J\ntask a is fine";
  view_.active_with_key.push_back({.run_no = RunNo(6), .state = model::RunState::kRunning});
  EXPECT_NE(Explain("a").find("with concurrency key 'a\\x1b[2J\\ntask a is fine' at most"),
            std::string::npos)
      << Explain("a");
}

TEST_F(ExplainTaskTest, AnAttemptThatWaitsForAWorkerSaysForWhichAndSinceWhen) {
  task("a").state = TaskState::kQueued;
  view_.holders[No("a")] = "process (host:1)";
  EXPECT_NE(Explain("a").find("was offered to its executor"), std::string::npos);
  view_.holders[No("a")] = "queue (host:1)";
  task("a").since = kNow - seconds(90);
  EXPECT_NE(Explain("a").find("waits for a worker of queue 'default' since "), std::string::npos);
  auto definition = view_.workflow->definition();
  definition.tasks[0].artifacts = {{"report", "report.txt"}};
  view_.workflow = *model::Workflow::Create(std::move(definition));
  for (const char* id : {"a", "b"}) {  // the one leaves it, the other needs it
    task(id).state = TaskState::kQueued;
    view_.holders[No(id)] = "queue (host:1)";
    EXPECT_NE(Explain(id).find("of queue 'default' that passes artifacts on"), std::string::npos)
        << Explain(id);
  }
}

TEST_F(ExplainTaskTest, AnAttemptThatIsNotTakenSaysWhatItsExecutorAnswers) {
  task("a").state = TaskState::kQueued;
  task("a").epoch = Epoch(1);
  view_.held_up[No("a")] = {"attempt 1 is not taken by its executor since then", kNow - seconds(5)};
  EXPECT_NE(
      Explain("a").find("attempt 1 is not taken by its executor since then (as of 5.0s ago)\n"),
      std::string::npos)
      << Explain("a");
  task("a").state = TaskState::kRunning;
  EXPECT_EQ(Explain("a").find("not taken"), std::string::npos) << "it was, in the end";
  task("a").state = TaskState::kQueued;
  task("a").epoch = Epoch(11);
  EXPECT_EQ(Explain("a").find("not taken"), std::string::npos) << "of an earlier attempt";
}

TEST_F(ExplainTaskTest, AnAttemptThatDoesNotStartSaysWhatItsExecutorSays) {
  task("a").state = TaskState::kQueued;
  view_.overdue[No("a")] = "attempt 1 has not started within 10m00s; its executor has it: no node";
  EXPECT_EQ(Explain("a").find("no node"), std::string::npos) << "of an earlier attempt";
  for (const auto reason : {model::Reason::kPending, model::Reason::kUnknown}) {
    task("a").reason = reason;
    EXPECT_NE(Explain("a").find("attempt 1 has not started within 10m00s"), std::string::npos);
  }
  task("a").state = TaskState::kFailed;
  task("a").reason = model::Reason::kPendingTimeout;
  task("a").zombie = true;
  EXPECT_NE(Explain("a").find("reason: pending_timeout"), std::string::npos);
  EXPECT_NE(Explain("a").find("no node"), std::string::npos);
  EXPECT_NE(Explain("a").find("not provably over"), std::string::npos);
}

}  // namespace
}  // namespace headworks::cli
