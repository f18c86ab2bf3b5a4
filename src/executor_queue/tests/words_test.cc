#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/rig.h"

// Starts, heartbeats, lines and verdicts, and their bounds.
namespace headworks::executor_queue {
namespace {

TEST_F(QueueTest, ACancelIsToldOnceAtOnceAndThenWithEachBeat) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain());
  const auto token = Run(who, attempt);
  const auto beat = Beat(who, {token}, 10s);
  EXPECT_FALSE(beat.came());
  queue_->Cancel(attempt.key);
  ASSERT_TRUE(beat.came());
  EXPECT_EQ(beat->pulses.at(0).reply, Reply::kCancel);
  judge_.reply = Reply::kCancel;
  const auto next = Beat(who, {token}, 10s);
  EXPECT_FALSE(next.came());
  Pass(10s);
  ASSERT_TRUE(next.came());
  EXPECT_EQ(next->pulses.at(0).reply, Reply::kCancel);
}

TEST_F(QueueTest, AStopAndARefusedTokenAnswerABeatAtOnce) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  judge_.reply = Reply::kStop;
  const auto stopped = Beat(who, {token}, 10s);
  ASSERT_TRUE(stopped.came());
  EXPECT_EQ(stopped->pulses.at(0).reply, Reply::kStop);
  EXPECT_EQ(queue_->Figures().stale_words, 1U);
  judge_.reply = Reply::kGoOn;
  const auto mixed = Beat(who, {token, "forged"}, 10s);
  ASSERT_TRUE(mixed.came());
  EXPECT_EQ(mixed->pulses.at(0).reply, Reply::kGoOn);
  EXPECT_EQ(mixed->pulses.at(1).reply, Reply::kStop);
  const auto other = Hire("other");
  EXPECT_EQ(Beat(other, {token})->pulses.at(0).reply, Reply::kStop) << "another's token";
}

TEST_F(QueueTest, AStopIsToldOnceAtOnceAndThenWithEachBeat) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  judge_.reply = Reply::kStop;
  EXPECT_TRUE(Beat(who, {token, "forged"}, 10s).came());
  const auto next = Beat(who, {token, "forged"}, 10s);
  EXPECT_FALSE(next.came());
  EXPECT_TRUE(Beat(who, {token, "forged too"}, 10s).came());
  Pass(10s);
  ASSERT_TRUE(next.came());
  EXPECT_EQ(next->pulses.at(0).reply, Reply::kStop);
  EXPECT_EQ(next->pulses.at(1).reply, Reply::kStop);
}

TEST_F(QueueTest, ABeatThatCouldNotBeJudgedIsSaidAgainUntilItsEnd) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  judge_.reply = Reply::kAskAgain;
  const auto beat = Beat(who, {token}, 10s);
  const std::size_t words = judge_.heard.size();
  clock_.Advance(499ms);
  queue_->Tick();
  EXPECT_EQ(judge_.heard.size(), words);
  clock_.Advance(1ms);
  queue_->Tick();
  EXPECT_EQ(judge_.heard.size(), words + 1);
  Pass(3s);
  EXPECT_GE(judge_.heard.size(), words + 3);
  EXPECT_FALSE(beat.came());
  judge_.reply = Reply::kStop;
  Pass(1s);
  ASSERT_TRUE(beat.came()) << "and heard once it could";
  EXPECT_EQ(beat->pulses.at(0).reply, Reply::kStop);
}

// What has ended there is free, and here it is not yet: it asks for one more than it has slots.
TEST_F(QueueTest, WhatAWorkerAskedTheGateForIsNotGivenToItAgain) {
  Make();
  const auto who = Hire("w", {}, {{"default", 2}});
  const auto running = Run(who, Next(Plain()));
  const auto assigned = Offer(Plain());
  const std::string start = Token(who);
  judge_.keeps = true;
  const auto completed = Complete(running, {.verdict = Verdict::kSucceeded});
  Answer<worker_api::Started> started;
  queue_->Start(who, start, started.Done());
  const auto poll = Poll(who, 10s);
  EXPECT_FALSE(poll.came()) << "nothing is new";
  queue_->SetOrders({.cordoned = {{who.tenant, who.worker}}, .leaving = {}});
  ASSERT_TRUE(poll.came());
  EXPECT_TRUE(poll->assignments.empty());
  Poll(who);
  EXPECT_FALSE(std::get<executor::Pending>(Inspect(assigned)).in_line) << "nor is it another's";
  EXPECT_EQ(queue_->Figures().returned, 0U);
  judge_.keeps = false;
  for (const auto& answer : std::exchange(judge_.kept, {})) answer();
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(started->reply, Reply::kGoOn);
  EXPECT_EQ(**completed, Reply::kGoOn);
}

TEST_F(QueueTest, WhatTheGateDidNotJudgeMayBeGivenAgain) {
  Make();
  const auto who = Hire("w", {}, {{"default", 1}});
  const auto attempt = Offer(Plain());
  const std::string start = Token(who);
  judge_.reply = Reply::kAskAgain;
  EXPECT_EQ(Begin(who, start)->reply, Reply::kAskAgain);
  EXPECT_TRUE(Poll(who)->assignments.empty()) << "it asks again";
  Pass(30s);
  Poll(who);
  Pass(30s);
  EXPECT_TRUE(std::get<executor::Pending>(Inspect(attempt)).in_line);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U) << "by a new assignment it knows of nothing";
}

TEST_F(QueueTest, LinesAreStoredOnceHoweverOftenTheyAreSaid) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  const std::vector<log_store::Line> lines{{.number = 1, .bytes = "a"},
                                           {.number = 2, .bytes = "b"}};
  const auto first = Log(token, lines);
  const auto again = Log(token, lines);
  EXPECT_FALSE(first.came()) << "not before they are stored (I6)";
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**first, Reply::kGoOn);
  EXPECT_EQ(**again, Reply::kGoOn);
  Make();  // the next engine's
  const auto later = Log(token, {{.number = 2, .bytes = "b"}, {.number = 3, .bytes = "c"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**later, Reply::kGoOn);
  const auto page = logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)});
  ASSERT_EQ(page->entries.size(), 3U);
  EXPECT_EQ(page->entries[2].line.bytes, "c");
  EXPECT_FALSE(queue_->RunNext());
}

TEST_F(QueueTest, WhatCanNeverBeStoredIsRefused) {
  Make();
  const auto token = Run(Hire("w"), Next(Plain()));
  const auto refused = [&](std::vector<log_store::Line> lines) {
    const auto answer = Log(token, std::move(lines));
    EXPECT_EQ(answer.came() && !*answer ? (*answer).error().code : Code::kInternal,
              Code::kInvalidArgument);
    return answer.came() && !*answer ? (*answer).error().message : "";
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, kLeast})
    EXPECT_NE(refused({{.number = number}}).find("begin at 1"), std::string::npos);
  EXPECT_NE(refused({{.number = 5}, {.number = 4}}).find("line 4 after line 5"), std::string::npos);
  EXPECT_NE(refused({{.number = 5}, {.number = 5}}).find("line 5 after line 5"), std::string::npos);
  EXPECT_NE(refused({{.number = 1, .bytes = "a\nb | forged"}}).find("newline"), std::string::npos);
  EXPECT_NE(refused({{.number = 1, .bytes = "\n"}}).find("newline"), std::string::npos);
  EXPECT_FALSE(queue_->RunNext());
  const auto stored = Log(token, {{.number = 1}, {.number = 7}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**stored, Reply::kGoOn) << "numbers may jump";
}

TEST_F(QueueTest, TimesOfLinesAreOnesThatCanBeTold) {
  Make();
  const auto token = Run(Hire("w"), Next(Plain()));
  const auto stored = Log(token, {{.number = 1, .at = Instant::min()},
                                  {.number = 2, .at = Instant(7us)},
                                  {.number = 3, .at = Instant::max()}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**stored, Reply::kGoOn);
  const auto page = logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)});
  ASSERT_EQ(page->entries.size(), 3U);
  EXPECT_EQ(FormatInstant(page->entries[0].line.at), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(page->entries[1].line.at, Instant(7us));
  EXPECT_EQ(FormatInstant(page->entries[2].line.at), "9999-12-31T23:59:59.999999Z");
}

TEST_F(QueueTest, NoLineIsStoredBeforeAnEarlierOneThatIsToBeSaidAgain) {
  Make();
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  logs_->before = [](const auto&) { return Status(Error{Code::kUnavailable, "full"}); };
  const auto first = Log(token, {{.number = 1, .bytes = "a"}, {.number = 2, .bytes = "b"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**first, Reply::kAskAgain);
  logs_->before = [](const auto&) { return Status(); };
  const auto early = Log(token, {{.number = 3, .bytes = "c"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**early, Reply::kAskAgain);
  Log(token, {{.number = 1, .bytes = "a"}, {.number = 2, .bytes = "b"}});
  const auto late = Log(token, {{.number = 3, .bytes = "c"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**late, Reply::kGoOn);
  const auto page = logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)});
  ASSERT_EQ(page->entries.size(), 3U);
  EXPECT_EQ(page->entries[0].line.bytes, "a");
}

TEST_F(QueueTest, LinesThatCannotBeStoredKeepNoOthersOut) {
  Make();
  const auto who = Hire("w");
  const auto bad = Next(Plain());
  const auto bad_token = Run(who, bad), token = Run(who, Next(Plain()));
  logs_->before = [&](const model::AttemptKey& key) {
    return key == bad.key ? Status(Error{Code::kCorrupt, "damaged"}) : Status();
  };
  const auto refused = Log(bad_token, {{.number = 1, .bytes = "x"}});
  const auto stored = Log(token, {{.number = 1, .bytes = "y"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ((*refused).error().code, Code::kInvalidArgument);
  EXPECT_EQ((*refused).error().message, "damaged");
  EXPECT_EQ(**stored, Reply::kGoOn);
  EXPECT_EQ(logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)})->entries.size(), 1U);
  EXPECT_EQ(**Log(token, {}), Reply::kGoOn) << "nothing needs no place";
  EXPECT_FALSE(queue_->RunNext());
}

TEST_F(QueueTest, AStartThatIsSaidAgainIsOneStart) {
  Make();
  const auto who = Hire("w");
  Offer(Plain());
  const auto token = Token(who);
  std::vector<Answer<worker_api::Started>> starts(17);
  for (auto& start : starts) queue_->Start(who, token, start.Done());
  ASSERT_TRUE(starts[16].came());
  EXPECT_EQ(starts[16]->reply, Reply::kAskAgain) << "16 wait already";
  EXPECT_FALSE(starts[15].came());
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(given_.asked, 1);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(starts[i]->reply, Reply::kGoOn);
  EXPECT_FALSE(queue_->RunNext());
  EXPECT_EQ(Begin(who, token)->reply, Reply::kGoOn) << "and once more later";
}

TEST_F(QueueTest, OutputIsKeptUpToItsBoundAndCutWithANote) {
  Make({.max_log_bytes = 100});
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  Log(token, {{.number = 1, .bytes = std::string(84, 'x')}});  // and 16 for the line
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(queue_->GetMetrics().lines_dropped, 0U);
  Log(token, {{.number = 2, .bytes = ""}, {.number = 3, .bytes = "y"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(queue_->GetMetrics().lines_dropped, 2U);
  const auto page = logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)});
  ASSERT_EQ(page->entries.size(), 2U);
  EXPECT_EQ(page->entries[1].line.stream, log_store::Stream::kNote);
  EXPECT_EQ(page->entries[1].line.bytes, "cut here: more than 100 bytes of output");
  Make({.max_log_bytes = 100});  // the next engine's
  const auto more = Log(token, {{.number = 4, .bytes = "z"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(**more, Reply::kGoOn);
  EXPECT_EQ(queue_->GetMetrics().lines_dropped, 1U);
  EXPECT_EQ(logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)})->entries.size(), 2U);
}

TEST_F(QueueTest, ATasksOwnWordsCutNothing) {
  Make({.max_log_bytes = 100});
  const auto token = Run(Hire("w"), Next(Plain()));
  Log(token, {{.number = 1, .bytes = "cut here: more than 100 bytes of output"}});
  EXPECT_TRUE(queue_->RunNext());
  Make();
  Log(token, {{.number = 2, .bytes = "z"}});
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(logs_->Read({.tenant = TenantId("public"), .run = RunNo(1)})->entries.size(), 2U);
}

TEST_F(QueueTest, LinesThatWaitToBeStoredHaveABound) {
  Make({.max_waiting_log_bytes = 100});
  const auto who = Hire("w");
  const auto token = Run(who, Next(Plain()));
  const auto large = Log(token, {{.number = 1, .bytes = std::string(200, 'x')}});
  const auto more = Log(token, {{.number = 2, .bytes = "y"}});
  EXPECT_FALSE(large.came()) << "by itself it is taken";
  ASSERT_TRUE(more.came());
  EXPECT_EQ((*more).error().code, Code::kUnavailable);
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_TRUE(large.came());
  EXPECT_FALSE(Log(token, {{.number = 2, .bytes = std::string(84, 'y')}}).came());
  EXPECT_EQ((*Log(token, {{.number = 3, .bytes = ""}})).error().code, Code::kUnavailable);
  EXPECT_EQ((*Log(token, {{.number = 4, .bytes = std::string((64 << 10) + 1, 'z')}})).error().code,
            Code::kInvalidArgument);
}

TEST_F(QueueTest, AVerdictIsCheckedAtThisBorder) {
  Make();
  const auto who = Hire("w");
  const auto outcome = [&](model::Outcome said) {
    const auto attempt = Next(Plain());
    const auto token = Run(who, attempt);
    clock_.Advance(1s);
    const auto reply = Complete(token, std::move(said));
    queue_->Settled({&attempt.key, 1});
    EXPECT_TRUE(*reply);
    return judge_.heard.back().outcome;
  };
  // {"x":"..."} is 8 bytes and its text.
  const auto output = [](std::size_t bytes) {
    return fmt::format(R"({{"x":"{}"}})", std::string(bytes - 8, 'y'));
  };
  EXPECT_EQ(outcome({.output = output(1 << 20)}).output.size(), std::size_t{1} << 20);
  const auto large = outcome({.output = output((1 << 20) + 1)});
  EXPECT_EQ(large.verdict, Verdict::kFailed);
  EXPECT_EQ(large.reason, model::Reason::kOutput);
  EXPECT_TRUE(large.output.empty());
  EXPECT_EQ(outcome({.output = "7"}).reason, model::Reason::kOutput);
  EXPECT_EQ(outcome({.verdict = Verdict::kRetry, .output = "7"}).reason, model::Reason::kError);

  const auto failed = outcome({.verdict = Verdict::kFailed,
                               .reason = model::Reason::kRunTimeout,
                               .error = std::string(4095, 'e') + "ü",
                               .started_at = Instant(1s),
                               .ended_at = Instant(2s)});
  EXPECT_EQ(failed.reason, model::Reason::kError) << "that reason is the engine's";
  EXPECT_EQ(failed.error, std::string(4095, 'e')) << "no half characters";
  EXPECT_EQ(failed.ended_at, clock_.Now()) << "whatever its worker's clock says";
  EXPECT_EQ(failed.ended_at - failed.started_at, 1s);
  EXPECT_EQ(outcome({.verdict = Verdict::kRetry, .reason = model::Reason::kExitCode}).reason,
            model::Reason::kExitCode);

  EXPECT_EQ(outcome({.verdict = Verdict::kSnoozed, .not_before = Instant(1s)}).not_before,
            clock_.Now());
  EXPECT_EQ(outcome({.verdict = Verdict::kSnoozed, .not_before = kNever}).not_before,
            clock_.Now() + 24h * 365);
  for (const Duration wrong : {-5min, 0min, 5min}) {
    const Instant its_now = clock_.Now() + wrong;
    EXPECT_EQ(
        outcome({.verdict = Verdict::kSnoozed, .not_before = its_now + 3s, .ended_at = its_now})
            .not_before,
        clock_.Now() + 3s);
  }
  for (const Instant ended_at : {kNever, Instant(Duration::min())})
    EXPECT_EQ(outcome({.verdict = Verdict::kSnoozed, .not_before = kNever, .ended_at = ended_at})
                  .not_before,
              clock_.Now() + 24h * 365);
  EXPECT_EQ(outcome({.verdict = Verdict::kRetry, .error = "\xff oh\xc3\n no"}).error,
            "\uFFFD oh\uFFFD\n no");
  EXPECT_EQ(outcome({.verdict = Verdict::kLost, .reason = model::Reason::kExitCode}).reason,
            model::Reason::kLost);
  for (const int number : {0, 9})
    EXPECT_EQ(CodeOf(*Complete(Run(who, Next(Plain())),
                               {.verdict = static_cast<model::Verdict>(number)})),
              Code::kInvalidArgument);
  EXPECT_EQ(CodeOf(*Complete("forged", {})), Code::kPermissionDenied);
}

TEST_F(QueueTest, WhoLeavesAfterItsVerdictLosesNothing) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain()), other = Next(Plain());
  const auto token = Run(who, attempt);
  Run(Hire("silent"), other);
  EXPECT_EQ(**Complete(token, {.verdict = Verdict::kSucceeded}), Reply::kGoOn);
  EXPECT_EQ(queue_->GetMetrics().active, 1U);
  Answer<bool> left;
  queue_->Leave(who, left.Done());  // before the engine says that it is settled
  EXPECT_TRUE(judge_.ended.empty());
  EXPECT_TRUE(warnings_.lines.empty());
  EXPECT_EQ(std::get<executor::Ended>(Inspect(attempt)).outcome.verdict, Verdict::kSucceeded);
  Pass(60s);
  ASSERT_EQ(judge_.ended.size(), 1U) << "nor does its lease end";
  EXPECT_EQ(judge_.ended[0].first, other.key);
  EXPECT_EQ(queue_->GetMetrics().executed, 2U);
  EXPECT_EQ(queue_->Figures().lost, 1U);
  queue_->Settled({&attempt.key, 1});
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(attempt)));
}

TEST_F(QueueTest, AnOutputIsAsItsTaskDeclares) {
  Make();
  const auto who = Hire("w");
  model::Task task = Plain();
  task.output.type_json = R"({"n":"integer"})";
  const auto token = Run(who, Next(task));
  Complete(token, {.output = R"({"n":"many"})"});
  EXPECT_EQ(judge_.heard.back().outcome.reason, model::Reason::kOutput);
}

TEST_F(QueueTest, WhatCannotBeResolvedEndsItsAttempt) {
  Make();
  const auto who = Hire("w");
  const auto verdict = [&](Result<executor::Resolved> answer) {
    given_.answer = std::move(answer);
    const auto attempt = Offer(Plain());
    EXPECT_EQ(Begin(who, Token(who))->reply, Reply::kStop);
    queue_->Settled({&attempt.key, 1});
    return judge_.heard.back().outcome;
  };
  const auto expression = verdict(Error{Code::kInvalidArgument, "no such field"});
  EXPECT_EQ(expression.verdict, Verdict::kFailed);
  EXPECT_EQ(expression.reason, model::Reason::kExpression);
  EXPECT_EQ(expression.error, "no such field");
  EXPECT_EQ(verdict(Error{Code::kCorrupt, "bad"}).reason, model::Reason::kDispatchFailed);
  const auto later = verdict(Error{Code::kUnavailable, "locked"});
  EXPECT_EQ(later.verdict, Verdict::kSnoozed);
  EXPECT_EQ(later.not_before, clock_.Now() + 1s);
  executor::Resolved moved;
  moved.rendered.emplace();
  moved.rendered->cwd = "there";
  EXPECT_NE(verdict(moved).error.find("cwd 'there'"), std::string::npos);
}

TEST_F(QueueTest, AJobIsTheTaskAloneWithAllThatItNeeds) {
  Make();
  const auto who = Hire("w");
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.env = {{"A", "1"}};
  definition.tasks.push_back({.id = "a", .action = model::ExecAction{{"work"}}});
  model::Task task{.id = "b", .needs = {"a"}, .action = model::ExecAction{{"more"}}};
  task.when = {"true"};
  task.pool = "p";
  task.weight = 3;
  task.timeout = 5s;
  task.trigger_rule = model::TriggerRule::kAllDone;
  task.deadline = 1h;
  task.idempotency_key = "mine";
  definition.tasks.push_back(task);
  auto attempt = Next(Plain());
  attempt.workflow = *model::Workflow::Create(std::move(definition));
  attempt.key.task = TaskNo(1);
  attempt.timeout = 5s;
  attempt.try_no = 2;
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const auto job = Begin(who, Token(who))->job;
  EXPECT_EQ(job.attempt, attempt.key);
  EXPECT_EQ(job.task, "b");
  EXPECT_EQ(job.version, attempt.workflow->version());
  EXPECT_EQ(job.try_no, 2);
  EXPECT_EQ(job.timeout, 5s);
  EXPECT_EQ(job.idempotency_key, "mine");
  const auto alone = model::Workflow::FromCanonicalJson(job.definition_json);
  ASSERT_TRUE(alone) << alone.error().message;
  ASSERT_EQ((*alone)->size(), 1U);
  const model::Task& said = (*alone)->task(TaskNo(0));
  EXPECT_EQ(std::get<model::ExecAction>(said.action).argv, std::vector<std::string>{"more"});
  EXPECT_TRUE(said.needs.empty() && said.when.empty() && said.pool.empty());
  EXPECT_EQ((*alone)->definition().env.at("A"), "1");
}

TEST_F(QueueTest, AVerdictOfAnUnknownAttemptBringsItsRunToMind) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain());
  const auto token = Run(who, attempt);
  Make();  // the next engine's
  const std::size_t words = judge_.heard.size();
  EXPECT_EQ(**Complete(token, {}), Reply::kAskAgain);
  EXPECT_EQ(judge_.heard.at(words).kind, Word::Kind::kHeartbeat);
  auto known = attempt;
  known.holder = "w/one";
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(known)));
  EXPECT_EQ(**Complete(token, {}), Reply::kGoOn);
  EXPECT_EQ(judge_.heard.back().kind, Word::Kind::kVerdict);
}

// A worker that lives, and whose task hangs.
TEST_F(QueueTest, WhatIsNotEndedLongAfterItsTimeoutEndsThoughItsWorkerIsHeard) {
  Make();  // leases of 60 s; a grace of 10 s
  const auto who = Hire("w");
  auto attempt = Next(Plain());
  attempt.timeout = 5s;
  const auto token = Run(who, attempt);
  Pass(40s);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kGoOn);
  Pass(35s - 1us);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kGoOn);
  Pass(1us);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kStop);
  Pass(60s - 1us);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kStop);
  EXPECT_TRUE(judge_.ended.empty()) << "whoever does not hear the stop ends by his lease";
  Pass(1us);
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kRetry);
  EXPECT_EQ(judge_.ended[0].second.reason, model::Reason::kTimeout);
  EXPECT_EQ(judge_.ended[0].second.error,
            "worker w has not ended it long after its timeout (5.0s) and grace (10.0s)");
}

TEST_F(QueueTest, WhatIsAnsweredStopTakesNoSlotOfItsWorker) {
  Make();
  const auto who = Hire("w", {}, {{"default", 1}});
  auto attempt = Next(Plain());
  attempt.timeout = 5s;
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const std::string token = Begin(who, Token(who))->work_token;
  Pass(40s);
  Beat(who, {token});
  Pass(35s);
  Offer(Plain());
  EXPECT_TRUE(Poll(who)->assignments.empty());
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kStop);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
}

TEST_F(QueueTest, AStartThatIsAnsweredStopTakesNoSlotOfItsWorker) {
  Make();
  const auto who = Hire("w", {}, {{"default", 1}});
  auto attempt = Next(Plain());
  attempt.timeout = 5s;
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const std::string start = Token(who);
  const std::string token = Begin(who, start)->work_token;
  Pass(40s);
  Beat(who, {token});
  Pass(35s);
  Offer(Plain());
  EXPECT_TRUE(Poll(who)->assignments.empty());
  EXPECT_EQ(Begin(who, start)->reply, Reply::kStop);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
}

TEST_F(QueueTest, WhatIsNotEndedLongAfterItsCancelEndsThoughItsWorkerIsHeard) {
  Make();
  const auto who = Hire("w");
  const auto attempt = Next(Plain());
  const auto token = Run(who, attempt);
  Pass(30s);
  queue_->Cancel(attempt.key);
  for (int i = 0; i < 129; ++i) {
    EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kCancel);
    Pass(1s);
  }
  queue_->Cancel(attempt.key);  // is no longer time
  Pass(1s);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kStop);
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty());
  Pass(1us);
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kCancelled);
}

// Its answers are lost for so long.
TEST_F(QueueTest, AStartThatIsSaidAgainLongAfterItsTimeoutIsAnsweredStop) {
  Make();
  const auto who = Hire("w");
  auto attempt = Next(Plain());
  attempt.timeout = 5s;
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const std::string start = Token(who);
  EXPECT_EQ(Begin(who, start)->reply, Reply::kGoOn);
  Pass(40s);
  const std::string token = Begin(who, start)->work_token;
  // Its code has not begun before: its timeout counts from here.
  Pass(40s);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kGoOn);
  Pass(35s - 1us);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kGoOn);
  Pass(1us);
  EXPECT_EQ(Begin(who, start)->reply, Reply::kStop);
  EXPECT_TRUE(judge_.ended.empty());
}

// A locked database, or a thousand starts at once.
TEST_F(QueueTest, AStartThatTakesLongerThanALeaseIsNoLoss) {
  Make();
  const auto who = Hire("w");
  auto attempt = Next(Plain());
  attempt.timeout = 5s;
  EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  Answer<worker_api::Started> started;
  queue_->Start(who, Token(who), started.Done());
  Pass(5min);
  EXPECT_TRUE(judge_.ended.empty()) << "its holder has no token to be heard with";
  EXPECT_TRUE(queue_->RunNext());
  EXPECT_EQ(started->reply, Reply::kGoOn);
  Pass(60s - 1us);
  EXPECT_TRUE(judge_.ended.empty()) << "it has a lease from the answer";
  Pass(1us);
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kLost);
}

TEST_F(QueueTest, WithoutATimeoutAWorkerThatIsHeardKeepsWhatItHas) {
  Make();
  const auto who = Hire("w");
  std::string token = Run(who, Next(Plain()));
  for (int i = 0; i < 24 * 60; ++i) {
    Pass(1min - 1s);
    const auto pulse = Beat(who, {token})->pulses.at(0);
    ASSERT_EQ(pulse.reply, Reply::kGoOn);
    if (!pulse.work_token.empty()) token = pulse.work_token;
  }
  EXPECT_TRUE(judge_.ended.empty());
}

}  // namespace
}  // namespace headworks::executor_queue
