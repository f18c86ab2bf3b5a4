#include <gtest/gtest.h>

#include "tests/rig.h"

// The start gate and the fence of attempts that run elsewhere (I3, I5).
namespace headworks::engine {
namespace {

using executor::Reply;
using executor::Word;
using model::TaskState;
using model::Verdict;
using namespace std::chrono_literals;

class WordsTest : public EngineTest {
 protected:
  void SetUp() override {
    start_ = Start(*Put(Tasks("elsewhere", 1)));
    Tick(2);
    ASSERT_EQ(dispatcher_.taken.size(), 1U);
    key_ = dispatcher_.taken[0].key;
  }
  /// What is said after so many ticks; kAskAgain also if nothing is.
  Reply Say(Engine& engine, const model::AttemptKey& key, const std::string& holder,
            Word::Kind kind, model::Outcome outcome = {}) {
    auto reply = std::make_shared<Reply>(Reply::kAskAgain);
    engine.Hear({key, holder, kind, std::move(outcome)}, [reply](Reply said) { *reply = said; });
    for (int i = 0; i < 2; ++i) {
      engine.Tick();
      clock_.Advance(10ms);
    }
    return *reply;
  }
  Reply Say(const std::string& holder, Word::Kind kind, model::Outcome outcome = {}) {
    return Say(engine_, key_, holder, kind, std::move(outcome));
  }
  std::shared_ptr<Result<control::Started>> start_;
  RunNo run() const { return (*start_)->run; }
  store::TaskRecord Record() {
    return store_.query().ListTasks(tenant_, run(), std::nullopt, 10)->at(0);
  }

  model::AttemptKey key_;
};

constexpr Word::Kind kAfterStart[] = {Word::Kind::kHeartbeat, Word::Kind::kLog, Word::Kind::kOutput,
                                      Word::Kind::kCancelAck, Word::Kind::kVerdict};

TEST_F(WordsTest, OneHolderIsLetInAndTheRowSaysWhich) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  EXPECT_EQ(Record().row.state, TaskState::kRunning);
  EXPECT_EQ(Record().holder, "w1");
  EXPECT_EQ(Say("w2", Word::Kind::kStarted), Reply::kStop);
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn) << "its answer may have been lost";
  EXPECT_EQ(Record().holder, "w1");
  EXPECT_EQ(engine_.stats().fenced, 1U);
}

TEST_F(WordsTest, NobodyIsLetInBeforeTheCommit) {
  store_.before = [](const auto&) { return Status(Error{Code::kAtCapacity, "full"}); };
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kAskAgain);
  EXPECT_EQ(Say("w2", Word::Kind::kStarted), Reply::kAskAgain);
  EXPECT_EQ(Record().row.state, TaskState::kQueued);
  store_.before = [](const auto&) { return Status(); };
  clock_.Advance(2s);
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  EXPECT_EQ(Say("w2", Word::Kind::kHeartbeat), Reply::kStop);
}

TEST_F(WordsTest, AHolderThatWasNotLetInIsNotHeard) {
  for (const auto kind : kAfterStart) {
    EXPECT_EQ(Say("w1", kind), Reply::kStop) << "before its start";
  }
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  const std::size_t writes = store_.sent.size();
  for (const auto kind : kAfterStart) {
    EXPECT_EQ(Say("w2", kind, {.verdict = Verdict::kFailed}), Reply::kStop);
  }
  EXPECT_EQ(store_.sent.size(), writes) << "and changes nothing";
  EXPECT_EQ(Record().row.state, TaskState::kRunning);
  for (const auto kind : kAfterStart)
    if (kind != Word::Kind::kVerdict) EXPECT_EQ(Say("w1", kind), Reply::kGoOn);
  EXPECT_EQ(Say("w1", Word::Kind::kVerdict, {.verdict = Verdict::kSucceeded}), Reply::kGoOn);
  EXPECT_EQ(Stored(run()).state, model::RunState::kSucceeded);
  EXPECT_EQ(Say("w1", Word::Kind::kVerdict, {.verdict = Verdict::kFailed}), Reply::kStop);
  EXPECT_EQ(Stored(run()).state, model::RunState::kSucceeded);
}

TEST_F(WordsTest, TheHolderOfAnEpochThatIsOverIsToldToStop) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  engine_.Ended(key_, {.verdict = Verdict::kLost, .reason = model::Reason::kLost});
  Tick(2);
  ASSERT_EQ(dispatcher_.taken.size(), 2U);
  const auto next = dispatcher_.taken[1].key;
  EXPECT_EQ(Say(engine_, next, "w2", Word::Kind::kStarted), Reply::kGoOn);
  const std::size_t writes = store_.sent.size();
  for (const auto kind : kAfterStart) EXPECT_EQ(Say("w1", kind), Reply::kStop);
  EXPECT_EQ(store_.sent.size(), writes);
  EXPECT_EQ(Say(engine_, next, "w2", Word::Kind::kHeartbeat), Reply::kGoOn);
}

TEST_F(WordsTest, ACancelShutsTheGateAndReachesWhoIsIn) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  Execute(control::CommandKind::kCancel, run());
  Tick(2);
  EXPECT_EQ(Say("w1", Word::Kind::kHeartbeat), Reply::kCancel);
  EXPECT_EQ(Say("w1", Word::Kind::kCancelAck), Reply::kCancel);
  EXPECT_EQ(Say("w2", Word::Kind::kStarted), Reply::kStop);
  // It was done before it could be stopped: that stands, and nothing follows from it.
  EXPECT_EQ(Say("w1", Word::Kind::kVerdict, {.verdict = Verdict::kSucceeded}), Reply::kGoOn);
  EXPECT_EQ(Record().row.state, TaskState::kSucceeded);
  EXPECT_EQ(Stored(run()).state, model::RunState::kCancelled);
}

TEST_F(WordsTest, AClaimAfterACancelEndsTheAttempt) {
  Execute(control::CommandKind::kCancel, run());
  Tick(2);
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kStop);
  EXPECT_EQ(Record().row.state, TaskState::kCancelled);
  EXPECT_EQ(Stored(run()).state, model::RunState::kCancelled);
}

TEST_F(WordsTest, TheNextEngineKnowsWhoWasLetIn) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next"}, store_, dispatcher_, evaluator_, clock_, random_, logger_,
              nullptr);
  ASSERT_TRUE(next.Open());
  EXPECT_EQ(Say(next, key_, "w2", Word::Kind::kHeartbeat), Reply::kStop);
  EXPECT_EQ(Say(next, key_, "w2", Word::Kind::kStarted), Reply::kStop);
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kHeartbeat), Reply::kGoOn);
  EXPECT_EQ(Record().holder, "w1");
  EXPECT_EQ(dispatcher_.taken.back().key, key_) << "what its executor does not have is offered";
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kVerdict, {.verdict = Verdict::kSucceeded}),
            Reply::kGoOn);
  EXPECT_EQ(Stored(run()).state, model::RunState::kSucceeded);
  EXPECT_TRUE(next.Close());
}

TEST_F(WordsTest, AnOwnerThatWasStopsNobody) {
  clock_.Advance(11s);
  Engine next({.owner = "next"}, store_, dispatcher_, evaluator_, clock_, random_, logger_,
              nullptr);
  ASSERT_TRUE(next.Open());
  next.Tick();
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kStarted), Reply::kGoOn);
  EXPECT_EQ(Say(engine_, key_, "w1", Word::Kind::kHeartbeat), Reply::kAskAgain)
      << "it knows of no holder";
  EXPECT_EQ(Say(engine_, key_, "w2", Word::Kind::kStarted), Reply::kAskAgain)
      << "it would let in a second one";
  EXPECT_TRUE(engine_.stats().lost);
  EXPECT_EQ(Record().holder, "w1");
  EXPECT_EQ(Say(next, key_, "w2", Word::Kind::kStarted), Reply::kStop);
  EXPECT_TRUE(next.Close());
}

TEST_F(WordsTest, WhatItDoesNotKnowOrThatIsNotItsTenantsIsStopped) {
  auto other = key_;
  other.tenant = TenantId("acme");
  EXPECT_EQ(Say(engine_, other, "w1", Word::Kind::kStarted), Reply::kStop);
  other = key_;
  other.run = RunNo(key_.run.value + 1'000);
  EXPECT_EQ(Say(engine_, other, "w1", Word::Kind::kHeartbeat), Reply::kStop);
  other = key_;
  other.task = TaskNo(1);
  EXPECT_EQ(Say(engine_, other, "w1", Word::Kind::kHeartbeat), Reply::kStop);
  other = key_;
  other.epoch = Epoch(key_.epoch.value + 1);
  EXPECT_EQ(Say(engine_, other, "w1", Word::Kind::kHeartbeat), Reply::kAskAgain)
      << "a later owner's";
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
}

TEST_F(WordsTest, WhoeverIsNotAnsweredWhenTheEngineClosesAsksAgain) {
  std::optional<Reply> reply;
  engine_.Hear({key_, "w1", Word::Kind::kStarted}, [&](Reply said) { reply = said; });
  ASSERT_TRUE(engine_.Close());
  EXPECT_EQ(reply, Reply::kAskAgain);
}

TEST_F(WordsTest, WordsThatWaitAreBounded) {
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next", .max_waiting_words = 2}, store_, dispatcher_, evaluator_, clock_,
              random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  std::vector<Reply> replies;
  const auto say = [&](std::string holder) {
    next.Hear({key_, std::move(holder), Word::Kind::kStarted},
              [&](Reply said) { replies.push_back(said); });
  };
  say("w1");
  say("w2");
  EXPECT_TRUE(replies.empty());
  say("w3");
  EXPECT_EQ(replies, std::vector{Reply::kAskAgain});
  next.Tick();
  next.Tick();
  EXPECT_EQ(replies, (std::vector{Reply::kAskAgain, Reply::kGoOn, Reply::kStop}));
  say("w3");
  next.Tick();
  EXPECT_EQ(replies.back(), Reply::kStop) << "there is room again";
  EXPECT_EQ(replies.size(), 4U);
  EXPECT_TRUE(next.Close());
}

}  // namespace
}  // namespace headworks::engine
