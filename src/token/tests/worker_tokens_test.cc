#include "headworks/token/worker_tokens.h"

#include <gtest/gtest.h>

#include "headworks/base/random.h"
#include "headworks/token/jwt_issuer.h"

namespace headworks::token {
namespace {

using executor::TokenFault;
using namespace std::chrono_literals;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return now; }
  Duration Monotonic() override { return now.time_since_epoch(); }
  Instant now = Instant(1'767'225'600s);  // 2026-01-01
};

class WorkerToken : public testing::Test {
 protected:
  std::string Mint(WorkerClaims claims, Duration valid = 1h) {
    auto token = tokens.Mint(std::move(claims), valid);
    EXPECT_TRUE(token) << token.error().message;
    return token.value_or("");
  }

  ManualClock clock;
  SeededRandom random{1};
  const TokenKeys keys = TokenKeys::Generate(random);
  WorkerTokens tokens{keys, clock};
};

TEST_F(WorkerToken, SaysWhatWasClaimed) {
  const WorkerClaims claims{.tenant = TenantId("te.n-ant_1"),
                            .worker = "gpu-*",
                            .queues = {"a", "b_2"},
                            .issued_at = clock.now,
                            .expires_at = clock.now + 90s};
  const auto got = tokens.Verify(Mint(claims, 89'500ms));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, claims);
  EXPECT_EQ(tokens.Verify(Mint({.tenant = TenantId("t")}))->worker, "*");
}

TEST_F(WorkerToken, EndsToTheSecond) {
  const std::string token = Mint({.tenant = TenantId("t")}, 10s);
  clock.now += 10s - 1us;
  EXPECT_TRUE(tokens.Verify(token));
  clock.now += 1us;
  EXPECT_EQ(tokens.Verify(token).error(), TokenFault::kExpired);
  clock.now -= 10s + 5s;
  EXPECT_TRUE(tokens.Verify(token));
  clock.now -= 1us;
  EXPECT_EQ(tokens.Verify(token).error(), TokenFault::kNotYetValid);
}

TEST_F(WorkerToken, IsNoTokenOfAnAttemptAndTheOtherWayRound) {
  auto issuer = *JwtIssuer::Create({}, keys, clock);
  const auto start = issuer->MintStart({.tenant = TenantId("t"),
                                        .run = RunNo(1),
                                        .task = TaskNo(0),
                                        .map_index = -1,
                                        .epoch = Epoch(1)},
                                       1, 1h);
  ASSERT_TRUE(start);
  EXPECT_EQ(tokens.Verify(*start).error(), TokenFault::kWrongUse);
  EXPECT_EQ(issuer->Verify(Mint({.tenant = TenantId("t")}), executor::TokenUse::kWork).error(),
            TokenFault::kWrongUse);
}

TEST_F(WorkerToken, OfOtherKeysOrChangedIsRefused) {
  std::string token = Mint({.tenant = TenantId("t")});
  const WorkerTokens others(TokenKeys::Generate(random), clock);
  EXPECT_EQ(others.Verify(token).error(), TokenFault::kUnknownKey);
  token[token.size() / 2] = token[token.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_EQ(tokens.Verify(token).error(), TokenFault::kBadSignature);
  EXPECT_EQ(tokens.Verify("").error(), TokenFault::kMalformed);
}

TEST_F(WorkerToken, RefusesWhatItWouldNotTake) {
  const auto fault = [&](WorkerClaims claims, Duration valid = 1h) {
    const auto token = tokens.Mint(std::move(claims), valid);
    EXPECT_FALSE(token);
    EXPECT_EQ(token ? Code::kInternal : token.error().code, Code::kInvalidArgument);
    return token ? "" : token.error().message;
  };
  const TenantId t("t");
  const std::string longest(64, 'w');
  for (const char* tenant : {"", "a b", "a\n"})
    EXPECT_NE(fault({.tenant = TenantId(tenant)}).find("is no name of a tenant"),
              std::string::npos);
  for (const std::string& name : {std::string(""), std::string("a b"), std::string("a*b"),
                                  std::string("é"), longest + "w", longest + "w*"})
    EXPECT_NE(fault({.tenant = t, .worker = name}).find("is no name"), std::string::npos) << name;
  EXPECT_TRUE(tokens.Verify(Mint({.tenant = t, .worker = longest + "*"})));
  EXPECT_NE(fault({.tenant = t, .queues = {"a", "b,c"}}).find("'b,c'"), std::string::npos);
  WorkerClaims many{.tenant = t};
  for (int i = 0; i < 64; ++i)
    many.queues.push_back(std::string(62, 'q') + std::to_string(10 + i % 90));
  EXPECT_TRUE(tokens.Verify(Mint(many)));
  many.queues.emplace_back("q");
  EXPECT_NE(fault(many).find("65 queues"), std::string::npos);
  EXPECT_NE(fault({.tenant = t}, 0s).find("more than nothing"), std::string::npos);
  EXPECT_NE(fault({.tenant = t}, std::chrono::years(10) + 1s).find("10 years"), std::string::npos);
}

TEST_F(WorkerToken, ARefusalNamesItsFault) {
  const Error error = RefusalOfWorker(TokenFault::kExpired);
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_NE(error.message.find("(expired)"), std::string::npos);
}

}  // namespace
}  // namespace headworks::token
