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
  /// What is said after two ticks; nothing = no answer.
  std::optional<Reply> Say(Engine& engine, const model::AttemptKey& key, const std::string& holder,
                           Word::Kind kind, model::Outcome outcome = {}) {
    auto reply = std::make_shared<std::optional<Reply>>();
    engine.Hear({key, holder, kind, std::move(outcome)}, [reply](Reply said) { *reply = said; });
    for (int i = 0; i < 2; ++i) {
      engine.Tick();
      clock_.Advance(10ms);
    }
    return *reply;
  }
  std::optional<Reply> Say(const std::string& holder, Word::Kind kind,
                           model::Outcome outcome = {}) {
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
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), std::nullopt);
  EXPECT_EQ(Say("w2", Word::Kind::kStarted), std::nullopt);
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

TEST_F(WordsTest, WhatIsSaidBesideAVerdictIsAnsweredBeforeTheAttemptIsSettled) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  std::vector<std::pair<Reply, std::size_t>> answers;  // and how many were settled by then
  const auto note = [&](const executor::Heard& heard) {
    answers.emplace_back(heard.reply, dispatcher_.settled.size());
  };
  engine_.Hear({key_, "w1", Word::Kind::kHeartbeat}, note);
  engine_.Hear({key_, "w1", Word::Kind::kVerdict, {.verdict = Verdict::kSucceeded}}, note);
  Tick(2);
  const std::pair unsettled{Reply::kGoOn, std::size_t{0}};
  EXPECT_EQ(answers, (std::vector{unsettled, unsettled}));
  EXPECT_EQ(dispatcher_.settled, std::vector{key_});
}

TEST_F(WordsTest, TheNextEngineKnowsWhoWasLetIn) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next"}, store_, dispatcher_, evaluator_, clock_, random_, logger_,
              nullptr);
  ASSERT_TRUE(next.Open());
  const std::size_t offers = dispatcher_.taken.size();
  EXPECT_EQ(Say(next, key_, "w2", Word::Kind::kHeartbeat), Reply::kStop);
  EXPECT_EQ(Say(next, key_, "w2", Word::Kind::kStarted), Reply::kStop);
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kHeartbeat), Reply::kGoOn);
  EXPECT_EQ(Record().holder, "w1");
  EXPECT_EQ(dispatcher_.taken.size(), offers) << "its gate is taken, whatever its executor says";
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
  const std::size_t offers = dispatcher_.taken.size();
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kStarted), Reply::kGoOn);
  EXPECT_EQ(Say(engine_, key_, "w1", Word::Kind::kHeartbeat), Reply::kAskAgain)
      << "it knows of no holder";
  EXPECT_EQ(Say(engine_, key_, "w2", Word::Kind::kStarted), Reply::kAskAgain)
      << "it would let in a second one";
  EXPECT_TRUE(engine_.stats().lost);
  EXPECT_EQ(dispatcher_.taken.size(), offers) << "nor does it offer what its executor has not";
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

TEST_F(WordsTest, WhoSpeaksToAClosedOrLostEngineIsAnswered) {
  clock_.Advance(11s);
  Engine next({.owner = "next"}, store_, dispatcher_, evaluator_, clock_, random_, logger_,
              nullptr);
  ASSERT_TRUE(next.Open());
  std::vector<Reply> replies;
  const auto say = [&](Engine& engine) {
    engine.Hear({key_, "w1", Word::Kind::kStarted}, [&](Reply said) { replies.push_back(said); });
  };
  say(engine_);
  engine_.Tick();  // finds that it is no longer the owner
  ASSERT_TRUE(engine_.stats().lost);
  EXPECT_EQ(replies, std::vector{Reply::kAskAgain});
  say(engine_);
  EXPECT_EQ(replies.size(), 2U);
  ASSERT_TRUE(next.Close());
  say(next);
  EXPECT_EQ(replies, std::vector(3, Reply::kAskAgain));
  bool refused = false;
  next.Execute({.tenant = tenant_, .kind = control::CommandKind::kCancel, .run = run()},
               [&](const Status& done) { refused = done.error().code == Code::kUnavailable; });
  EXPECT_TRUE(refused);
}

TEST_F(WordsTest, WhoeverSleptThroughItsLeaseAnswersNothingUntilItIsRenewed) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  clock_.Advance(10s);  // another may own its shards by now, and have another holder
  EXPECT_EQ(Say("w1", Word::Kind::kHeartbeat), Reply::kAskAgain);
  EXPECT_EQ(Say("w1", Word::Kind::kHeartbeat), Reply::kGoOn);
}

TEST_F(WordsTest, AnAttemptThatNobodyHasAndNobodySpeaksForIsALoss) {
  EXPECT_EQ(Say("w1", Word::Kind::kStarted), Reply::kGoOn);
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next"}, store_, dispatcher_, evaluator_, clock_, random_, logger_,
              nullptr);
  ASSERT_TRUE(next.Open());
  const auto pass = [&](Duration time) {
    for (Duration gone{0}; gone < time; gone += 5s) {
      next.Tick();
      clock_.Advance(5s);
    }
  };
  const Duration patience = dispatcher_.taken[0].task().start_timeout;
  pass(patience - 20s);
  EXPECT_EQ(Say(next, key_, "w1", Word::Kind::kHeartbeat), Reply::kGoOn);
  pass(patience - 20s);
  EXPECT_EQ(Record().row.epoch, key_.epoch) << "it was heard meanwhile";
  pass(90s);
  EXPECT_NE(Record().row.epoch, key_.epoch);
  const auto attempts = store_.query().ListAttempts(tenant_, run(), TaskNo(0), Epoch(0), 10);
  ASSERT_EQ(attempts->size(), 1U);
  EXPECT_EQ(attempts->at(0).outcome.verdict, Verdict::kLost);
  EXPECT_NE(attempts->at(0).outcome.error.find("w1, which began it, has said nothing for"),
            std::string::npos)
      << attempts->at(0).outcome.error;
  EXPECT_TRUE(next.Close());
}

TEST_F(WordsTest, BytesThatWaitAreBounded) {
  ASSERT_TRUE(engine_.Close());
  Engine next({.owner = "next", .max_waiting_word_bytes = 100}, store_, dispatcher_, evaluator_,
              clock_, random_, logger_, nullptr);
  ASSERT_TRUE(next.Open());
  int refused = 0;
  const auto say = [&](std::size_t bytes) {
    next.Hear({key_, "", Word::Kind::kVerdict, {.output = std::string(bytes, 'x')}},
              [&](Reply said) { refused += said == Reply::kAskAgain ? 1 : 0; });
  };
  say(200);  // alone
  say(1);
  EXPECT_EQ(refused, 1);
  next.Tick();
  refused = 0;
  say(60);
  say(40);
  EXPECT_EQ(refused, 0);
  say(1);
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(next.Close());
}

TEST_F(WordsTest, RunsThatWordsBringBackAreReadInSeveralRounds) {
  std::vector<RunNo> runs;
  for (int i = 0; i < 5; ++i) {
    const auto started = Start(*Put(Tasks("large" + std::to_string(i), 10'000)));
    Tick(2);
    runs.push_back((*started)->run);
    Execute(control::CommandKind::kCancel, runs.back());
    Tick(20);
    for (const auto& attempt : dispatcher_.taken)
      engine_.Ended(attempt.key, {.verdict = Verdict::kCancelled});
    dispatcher_.taken.clear();
    Tick(20);
    ASSERT_TRUE(model::IsTerminal(Stored(runs.back()).state));
  }
  int answered = 0;
  for (const RunNo run : runs) {
    auto key = key_;
    key.run = run;
    engine_.Hear({key, "w1", Word::Kind::kHeartbeat}, [&](Reply) { ++answered; });
  }
  store_.loads = 0;
  engine_.Tick();
  EXPECT_LE(store_.loads, 2);
  Tick(5);
  EXPECT_EQ(answered, 5);
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
