#include "headworks/executor/attempt_gate.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "headworks/base/random.h"
#include "headworks/token/jwt_issuer.h"

// The gate with the tokens that it is made for.
namespace headworks::token {
namespace {

using executor::AttemptGate;
using executor::Heard;
using executor::Reply;
using executor::TokenUse;
using executor::Word;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return now_; }
  Duration Monotonic() override { return now_.time_since_epoch(); }
  void Advance(Duration by) { now_ += by; }

 private:
  Instant now_ = Instant(seconds(1'767'225'600));  // 2026-01-01
};

/// Keeps what it hears, and answers it as the test says.
class Judge final : public executor::AttemptSink {
 public:
  std::deque<Word> heard;
  Heard answer = Reply::kGoOn;

  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey&, model::Outcome) override {}
  void CapacityChanged() override {}
  void Hear(Word word, std::function<void(Heard)> reply) override {
    heard.push_back(std::move(word));
    reply(answer);
  }
};

class AttemptGateTest : public testing::Test {
 protected:
  AttemptGateTest() {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.tasks.push_back({.id = "a", .action = model::FunctionAction{"f"}});
    definition.tasks[0].start_timeout = minutes(5);
    attempt_.workflow = *model::Workflow::Create(std::move(definition));
    attempt_.key = {TenantId("public"), RunNo(42), TaskNo(0), -1, Epoch(7)};
  }
  Result<AttemptGate::Answer> Open(const std::string& token, std::string holder,
                                   Duration ahead = {}) {
    judge_.answer.opened_at = clock_.Now() + ahead;
    std::optional<Result<AttemptGate::Answer>> answer;
    gate_.Open(judge_, token, std::move(holder), [&](auto said) { answer = std::move(said); });
    return answer.value();
  }
  Result<AttemptGate::Answer> Say(const std::string& token, Word::Kind kind,
                                  model::Outcome outcome = {}) {
    std::optional<Result<AttemptGate::Answer>> answer;
    gate_.Say(judge_, token, kind, std::move(outcome),
              [&](auto said) { answer = std::move(said); });
    return answer.value();
  }
  void ExpectRefused(const Result<AttemptGate::Answer>& answer, std::string_view fault) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kPermissionDenied);
    EXPECT_NE(answer.error().message.find(fault), std::string::npos) << answer.error().message;
  }
  /// A working token of `holder`.
  std::string Opened(std::string holder = "pod-1") {
    return Open(*gate_.Admit(attempt_), std::move(holder))->token;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  const std::unique_ptr<JwtIssuer> issuer_ =
      *JwtIssuer::Create({}, TokenKeys::Generate(random_), clock_);
  executor::AttemptGateOptions options_;
  AttemptGate gate_{options_, *issuer_, clock_};
  Judge judge_;
  executor::Attempt attempt_;
};

TEST_F(AttemptGateTest, StartTokenLastsAsLongAsAStartMayTake) {
  const std::string start = *gate_.Admit(attempt_);
  clock_.Advance(minutes(65) - std::chrono::microseconds(1));
  EXPECT_TRUE(Open(start, "pod-1"));
  clock_.Advance(std::chrono::microseconds(1));
  ExpectRefused(Open(start, "pod-1"), "expired");
  EXPECT_EQ(judge_.heard.size(), 1U) << "the engine hears nothing of it";
}

TEST_F(AttemptGateTest, WhoeverWasLetInByAClockThatIsAheadHasATokenAllTheSame) {
  const auto answer = Open(*gate_.Admit(attempt_), "pod-1", hours(3));
  ASSERT_TRUE(answer) << answer.error().message;
  const auto work = issuer_->Verify(answer->token, TokenUse::kWork);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->opened_at, clock_.Now());
}

TEST_F(AttemptGateTest, AttemptThatNoTokenCanNameIsNotAdmitted) {
  attempt_.key.epoch = Epoch(0);
  const auto token = gate_.Admit(attempt_);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, Code::kInvalidArgument);
}

TEST_F(AttemptGateTest, TokenSaysInWhoseNameAWordIs) {
  const std::string work = Opened("pod-1");
  ASSERT_FALSE(work.empty());
  ASSERT_EQ(judge_.heard.size(), 1U);
  EXPECT_EQ(judge_.heard[0].kind, Word::Kind::kStarted);
  EXPECT_EQ(judge_.heard[0].key, attempt_.key);
  EXPECT_EQ(judge_.heard[0].holder, "pod-1");
  EXPECT_EQ(
      Say(work, Word::Kind::kVerdict, {.verdict = model::Verdict::kFailed, .exit_code = 3})->reply,
      Reply::kGoOn);
  EXPECT_EQ(judge_.heard[1].key, attempt_.key);
  EXPECT_EQ(judge_.heard[1].holder, "pod-1");
  EXPECT_EQ(judge_.heard[1].outcome.exit_code, 3);
}

TEST_F(AttemptGateTest, EachTokenIsForItsOwnUse) {
  const std::string start = *gate_.Admit(attempt_), work = Opened();
  ExpectRefused(Say(start, Word::Kind::kVerdict), "wrong_use");
  ExpectRefused(Open(work, "pod-2"), "wrong_use");
  ExpectRefused(Say(work, Word::Kind::kStarted), "wrong_use");
  ExpectRefused(Say("nonsense", Word::Kind::kHeartbeat), "malformed");
  EXPECT_EQ(judge_.heard.size(), 1U);
}

TEST_F(AttemptGateTest, WhoIsNotLetInGetsNoToken) {
  const std::string start = *gate_.Admit(attempt_);
  for (const Reply reply : {Reply::kStop, Reply::kAskAgain}) {
    judge_.answer = reply;
    const auto answer = Open(start, "pod-2");
    EXPECT_EQ(answer->reply, reply);
    EXPECT_EQ(answer->token, "");
  }
}

TEST_F(AttemptGateTest, OnlyAHeartbeatThatIsHeardRenews) {
  const std::string work = Opened();
  clock_.Advance(minutes(5) - std::chrono::microseconds(1));
  EXPECT_EQ(Say(work, Word::Kind::kHeartbeat)->token, "") << "it lasts for more than five minutes";
  clock_.Advance(std::chrono::microseconds(1));
  EXPECT_EQ(Say(work, Word::Kind::kLog)->token, "");
  judge_.answer = Reply::kAskAgain;
  EXPECT_EQ(Say(work, Word::Kind::kHeartbeat)->token, "");
  judge_.answer = Reply::kGoOn;
  const std::string next = Say(work, Word::Kind::kHeartbeat)->token;
  ASSERT_NE(next, "");
  clock_.Advance(minutes(6));
  ExpectRefused(Say(work, Word::Kind::kHeartbeat), "expired");
  EXPECT_TRUE(Say(next, Word::Kind::kHeartbeat));
  judge_.answer = Reply::kCancel;  // it may take a while to stop
  EXPECT_NE(Say(next, Word::Kind::kHeartbeat)->token, "");
}

TEST_F(AttemptGateTest, BeforeTheCeilingAnAttemptIsToldToStopAndEndsAsSuch) {
  std::string work = Opened();
  const auto beat = [&] {
    const auto answer = Say(work, Word::Kind::kHeartbeat);
    EXPECT_TRUE(answer);
    if (!answer->token.empty()) work = answer->token;
    return answer->reply;
  };
  for (Duration up{0}; up < hours(24) - minutes(10); up += minutes(5)) {
    clock_.Advance(minutes(5));
    ASSERT_EQ(beat(), Reply::kGoOn);
  }
  clock_.Advance(minutes(9) - std::chrono::microseconds(1));
  EXPECT_EQ(beat(), Reply::kGoOn);
  clock_.Advance(std::chrono::microseconds(1));
  EXPECT_EQ(beat(), Reply::kCancel);
  EXPECT_TRUE(Say(work, Word::Kind::kVerdict, {.verdict = model::Verdict::kCancelled}));
  EXPECT_EQ(judge_.heard.back().outcome.verdict, model::Verdict::kFailed);
  EXPECT_EQ(judge_.heard.back().outcome.reason, model::Reason::kCredentialCeiling);
  EXPECT_TRUE(Say(work, Word::Kind::kVerdict, {.verdict = model::Verdict::kSucceeded}));
  EXPECT_EQ(judge_.heard.back().outcome.verdict, model::Verdict::kSucceeded)
      << "one that had just finished did";
}

TEST_F(AttemptGateTest, WithoutACeilingNothingStopsIt) {
  const auto issuer =
      *JwtIssuer::Create({.ceiling = Duration(0)}, TokenKeys::Generate(random_), clock_);
  EXPECT_EQ(issuer->Ceiling(clock_.Now()), kNever);
  AttemptGate gate({}, *issuer, clock_);
  std::string work;
  judge_.answer.opened_at = clock_.Now();
  gate.Open(judge_, *gate.Admit(attempt_), "pod-1", [&](const auto& said) { work = said->token; });
  for (int days = 0; days < 3; ++days)
    for (int i = 0; i < 24 * 12; ++i) {
      clock_.Advance(minutes(5));
      gate.Say(judge_, work, Word::Kind::kHeartbeat, {}, [&](const auto& said) {
        ASSERT_TRUE(said);
        EXPECT_EQ(said->reply, Reply::kGoOn);
        if (!said->token.empty()) work = said->token;
      });
    }
}

}  // namespace
}  // namespace headworks::token
