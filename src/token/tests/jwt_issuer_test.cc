#include "headworks/token/jwt_issuer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <functional>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "base64url.h"
#include "headworks/base/random.h"
#include "jws.h"

namespace headworks::token {
namespace {

using executor::TokenClaims;
using executor::TokenFault;
using executor::TokenUse;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return now_; }
  Duration Monotonic() override { return now_.time_since_epoch(); }
  void Set(Instant now) { now_ = now; }
  void Advance(Duration by) { now_ += by; }

 private:
  Instant now_ = Instant(seconds(1'767'225'600));  // 2026-01-01
};

std::string Secret() {
  std::string bytes(32, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

std::string Jwk(std::string_view id, std::string_view secret) {
  return fmt::format(R"({{"kty":"oct","alg":"HS256","kid":"{}","k":"{}"}})", id,
                     EncodeBase64Url(secret));
}

TokenKeys Keys(const std::string& jwks) {
  auto keys = TokenKeys::Parse(R"({"keys":[)" + jwks + "]}");
  EXPECT_TRUE(keys) << keys.error().message;
  return *std::move(keys);
}

std::string Mac(const EVP_MD* digest, std::string_view text, const std::string& secret) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(digest, secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes, &size);
  return {reinterpret_cast<const char*>(bytes), size};
}

/// A token as a stranger, or another program with the key, would write it.
std::string Forge(std::string_view header, std::string_view payload,
                  const EVP_MD* digest = EVP_sha256(), const std::string& secret = Secret()) {
  const std::string text = EncodeBase64Url(header) + "." + EncodeBase64Url(payload);
  return text + "." + EncodeBase64Url(Mac(digest, text, secret));
}

constexpr std::string_view kHeader = R"({"alg":"HS256","kid":"k1","typ":"JWT"})";
constexpr std::string_view kStartPayload =
    R"({"iss":"headworks","aud":"headworks:start","iat":1767225600,"nbf":1767225600,)"
    R"("exp":1767229800,"tenant":"public","run":42,"task":3,"map_index":-1,"try":2,"epoch":7})";

// Made by PyJWT 2.6 from the claims above, resp. with aud "headworks:work", exp 1767226200,
// map_index 5, holder 'pod "a"/é\n1' and auth_time 1767225600; the key is the bytes 0 to 31:
//   jwt.encode(claims, bytes(range(32)), "HS256", headers={"kid": "k1"})
constexpr std::string_view kPyStart =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIiwidHlwIjoiSldUIn0."
    "eyJpc3MiOiJoZWFkd29ya3MiLCJhdWQiOiJoZWFkd29ya3M6c3RhcnQiLCJpYXQiOjE3NjcyMjU2MDAsIm5iZiI6MTc2Nz"
    "IyNTYwMCwiZXhwIjoxNzY3MjI5ODAwLCJ0ZW5hbnQiOiJwdWJsaWMiLCJydW4iOjQyLCJ0YXNrIjozLCJtYXBfaW5kZXgi"
    "Oi0xLCJ0cnkiOjIsImVwb2NoIjo3fQ."
    "9y-Ob5A_7bdDYWDoClo1xSrMvrte6p3FpXKg-7v3UiQ";
constexpr std::string_view kPyWork =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIiwidHlwIjoiSldUIn0."
    "eyJpc3MiOiJoZWFkd29ya3MiLCJhdWQiOiJoZWFkd29ya3M6d29yayIsImlhdCI6MTc2NzIyNTYwMCwibmJmIjoxNzY3Mj"
    "I1NjAwLCJleHAiOjE3NjcyMjYyMDAsInRlbmFudCI6InB1YmxpYyIsInJ1biI6NDIsInRhc2siOjMsIm1hcF9pbmRleCI6"
    "NSwidHJ5IjoyLCJlcG9jaCI6NywiaG9sZGVyIjoicG9kIFwiYVwiL1x1MDBlOVxuMSIsImF1dGhfdGltZSI6MTc2NzIyNT"
    "YwMH0."
    "g5XmPZGoGF3gshyLfxQgU16UWf4artIXWjkKR_2A4jA";

class JwtIssuerTest : public testing::Test {
 protected:
  std::unique_ptr<JwtIssuer> Make(JwtOptions options = {}) {
    auto issuer = JwtIssuer::Create(options, keys_, clock_);
    EXPECT_TRUE(issuer) << issuer.error().message;
    return *std::move(issuer);
  }
  static model::AttemptKey Attempt(std::int32_t map_index = -1) {
    return {TenantId("public"), RunNo(42), TaskNo(3), map_index, Epoch(7)};
  }
  std::string Start(Duration valid = minutes(70)) {
    auto token = issuer_->MintStart(Attempt(), 2, valid);
    EXPECT_TRUE(token) << token.error().message;
    return *std::move(token);
  }
  TokenClaims Verified(std::string_view token, TokenUse use) {
    auto claims = issuer_->Verify(token, use);
    EXPECT_TRUE(claims) << executor::TokenFaultName(claims.error());
    return claims.value_or(TokenClaims{});
  }
  std::string Work() {
    auto token = issuer_->MintWork(Verified(Start(), TokenUse::kStart), "pod-1", clock_.Now());
    EXPECT_TRUE(token) << token.error().message;
    return *std::move(token);
  }
  void ExpectRefused(std::string_view token, TokenFault fault, TokenUse use = TokenUse::kStart) {
    const auto claims = issuer_->Verify(token, use);
    ASSERT_FALSE(claims) << token;
    EXPECT_EQ(executor::TokenFaultName(claims.error()), executor::TokenFaultName(fault)) << token;
  }

  ManualClock clock_;
  std::shared_ptr<KeyRing> keys_ = std::make_shared<KeyRing>(Keys(Jwk("k1", Secret())));
  std::unique_ptr<JwtIssuer> issuer_ = Make();
};

TEST_F(JwtIssuerTest, SaysByteForByteWhatPyJwtSays) {
  EXPECT_EQ(Start(), kPyStart);
  EXPECT_EQ(Forge(kHeader, kStartPayload), kPyStart) << "so forged ones fail for their claims only";
}

TEST_F(JwtIssuerTest, ReadsWhatPyJwtWrote) {
  const TokenClaims start = Verified(kPyStart, TokenUse::kStart);
  EXPECT_EQ(start, (TokenClaims{.use = TokenUse::kStart,
                                .attempt = Attempt(),
                                .try_no = 2,
                                .issued_at = clock_.Now(),
                                .expires_at = clock_.Now() + minutes(70)}));
  const TokenClaims work = Verified(kPyWork, TokenUse::kWork);
  EXPECT_EQ(work, (TokenClaims{.use = TokenUse::kWork,
                               .attempt = Attempt(5),
                               .try_no = 2,
                               .holder = "pod \"a\"/\xc3\xa9\n1",
                               .issued_at = clock_.Now(),
                               .expires_at = clock_.Now() + minutes(10),
                               .opened_at = clock_.Now()}));
}

TEST_F(JwtIssuerTest, WorkingTokenIsTheStartsAttemptWithItsHolder) {
  const TokenClaims work = Verified(Work(), TokenUse::kWork);
  EXPECT_EQ(work.attempt, Attempt());
  EXPECT_EQ(work.try_no, 2);
  EXPECT_EQ(work.holder, "pod-1");
  EXPECT_EQ(work.expires_at - work.issued_at, minutes(10));
}

TEST_F(JwtIssuerTest, EitherOpensOnlyItsOwn) {
  ExpectRefused(Start(), TokenFault::kWrongUse, TokenUse::kWork);
  ExpectRefused(Work(), TokenFault::kWrongUse, TokenUse::kStart);
  const TokenClaims start = Verified(Start(), TokenUse::kStart);
  const TokenClaims work = Verified(Work(), TokenUse::kWork);
  EXPECT_EQ(issuer_->Renew(start).error(), TokenFault::kWrongUse);
  EXPECT_EQ(issuer_->MintWork(work, "pod-2", clock_.Now()).error().code, Code::kInvalidArgument);
}

TEST_F(JwtIssuerTest, IsGoodUpToItsEndAndNotAtIt) {
  const std::string start = Start(minutes(70));
  const std::string work = Work();
  clock_.Advance(minutes(10) - microseconds(1));
  Verified(work, TokenUse::kWork);
  clock_.Advance(microseconds(1));
  ExpectRefused(work, TokenFault::kExpired, TokenUse::kWork);
  clock_.Advance(minutes(60) - microseconds(1));
  Verified(start, TokenUse::kStart);
  clock_.Advance(microseconds(1));
  ExpectRefused(start, TokenFault::kExpired);
}

TEST_F(JwtIssuerTest, FractionsOfASecondShortenNoToken) {
  clock_.Advance(microseconds(900'000));
  const std::string token = Start(microseconds(1'500'000));
  clock_.Advance(microseconds(1'500'000));
  Verified(token, TokenUse::kStart);
  clock_.Advance(microseconds(600'000));
  ExpectRefused(token, TokenFault::kExpired);
}

TEST_F(JwtIssuerTest, ClockOfItsMakerMayBeAheadALittle) {
  const Instant now = clock_.Now();
  const std::string token = Start();
  clock_.Set(now - seconds(5));
  Verified(token, TokenUse::kStart);
  clock_.Set(now - seconds(5) - microseconds(1));
  ExpectRefused(token, TokenFault::kNotYetValid);
}

TEST_F(JwtIssuerTest, RenewalGoesOnUpToTheCeiling) {
  const Instant opened = clock_.Now();
  std::string token = Work();
  const auto renew = [&] { return issuer_->Renew(Verified(token, TokenUse::kWork)); };
  while (clock_.Now() < opened + hours(24) - minutes(5)) {
    clock_.Advance(minutes(5));
    auto next = renew();
    ASSERT_TRUE(next) << executor::TokenFaultName(next.error());
    EXPECT_NE(*next, token);
    token = *std::move(next);
  }
  // The last one ends with the ceiling.
  TokenClaims last = Verified(token, TokenUse::kWork);
  EXPECT_EQ(last.opened_at, opened);
  EXPECT_EQ(last.expires_at, opened + hours(24));
  EXPECT_EQ(last.holder, "pod-1");
  clock_.Set(opened + hours(24) - microseconds(1));
  EXPECT_TRUE(renew());
  clock_.Advance(microseconds(1));
  ExpectRefused(token, TokenFault::kExpired, TokenUse::kWork);
  EXPECT_EQ(issuer_->Renew(last).error(), TokenFault::kCeiling);
  EXPECT_EQ(executor::TokenFaultName(TokenFault::kCeiling), "credential_ceiling");
}

TEST_F(JwtIssuerTest, GateThatAnswersAgainMovesNoCeiling) {
  const TokenClaims start = Verified(Start(hours(25)), TokenUse::kStart);
  const Instant opened = clock_.Now() + microseconds(300'000);
  const Instant floor = clock_.Now();
  const auto again = [&] { return issuer_->MintWork(start, "pod-1", opened); };
  clock_.Set(opened + hours(23));
  EXPECT_EQ(Verified(again().value(), TokenUse::kWork).opened_at, floor);
  clock_.Set(floor + hours(24) - microseconds(1));
  EXPECT_EQ(Verified(again().value(), TokenUse::kWork).expires_at, floor + hours(24));
  clock_.Advance(microseconds(1));
  const auto refused = again();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("credential_ceiling"), std::string::npos);
}

TEST_F(JwtIssuerTest, GateOpensNoLaterThanNow) {
  const TokenClaims start = Verified(Start(), TokenUse::kStart);
  const Instant latest = clock_.Now() + seconds(5);  // the clock of its host may be ahead
  EXPECT_EQ(Verified(issuer_->MintWork(start, "pod-1", latest).value(), TokenUse::kWork).opened_at,
            latest);
  EXPECT_EQ(issuer_->MintWork(start, "pod-1", latest + microseconds(1)).error().code,
            Code::kInvalidArgument);
}

TEST_F(JwtIssuerTest, CeilingIsConfigurableDownToNone) {
  issuer_ = Make({.ceiling = minutes(1)});
  EXPECT_EQ(Verified(Work(), TokenUse::kWork).expires_at, clock_.Now() + minutes(1));

  issuer_ = Make({.work_valid = seconds(1), .ceiling = Duration(0)});
  TokenClaims claims = Verified(Work(), TokenUse::kWork);
  claims.opened_at -= hours(24 * 365);
  const auto next = issuer_->Renew(claims);
  ASSERT_TRUE(next);
  EXPECT_EQ(Verified(*next, TokenUse::kWork).expires_at, clock_.Now() + seconds(1));
}

TEST_F(JwtIssuerTest, ExpiredTokenIsNotRenewed) {
  const TokenClaims claims = Verified(Work(), TokenUse::kWork);
  clock_.Advance(minutes(10) - microseconds(1));
  EXPECT_TRUE(issuer_->Renew(claims));
  clock_.Advance(microseconds(1));
  EXPECT_EQ(issuer_->Renew(claims).error(), TokenFault::kExpired);
}

TEST_F(JwtIssuerTest, OnlyTheKeysAlgorithmCounts) {
  const std::string none =
      EncodeBase64Url(R"({"alg":"none","kid":"k1"})") + "." + EncodeBase64Url(kStartPayload) + ".";
  ExpectRefused(none, TokenFault::kAlgorithm);
  ExpectRefused(none + std::string(kPyStart.substr(kPyStart.rfind('.') + 1)),
                TokenFault::kAlgorithm);
  for (const char* alg : {"none", "None", "NONE", "RS256", "ES256", "EdDSA", "PS256", "hs256",
                          "HS384", "HS512", ""}) {
    const std::string header = fmt::format(R"({{"alg":"{}","kid":"k1","typ":"JWT"}})", alg);
    for (const EVP_MD* digest : {EVP_sha256(), EVP_sha384(), EVP_sha512()})
      ExpectRefused(Forge(header, kStartPayload, digest), TokenFault::kAlgorithm);
  }
  ExpectRefused(Forge(R"({"kid":"k1"})", kStartPayload), TokenFault::kAlgorithm);
  ExpectRefused(Forge(R"({"alg":["HS256"],"kid":"k1"})", kStartPayload), TokenFault::kAlgorithm);
  // HS256 by name, another by nature.
  ExpectRefused(Forge(kHeader, kStartPayload, EVP_sha384()), TokenFault::kBadSignature);
}

TEST_F(JwtIssuerTest, OnlyKnownKeysCount) {
  for (const char* header :
       {R"({"alg":"HS256","kid":"k2"})", R"({"alg":"HS256"})", R"({"alg":"HS256","kid":""})",
        R"({"alg":"HS256","kid":1})", R"({"alg":"HS256","kid":"../k1"})"})
    ExpectRefused(Forge(header, kStartPayload), TokenFault::kUnknownKey);
  ExpectRefused(Forge(kHeader, kStartPayload, EVP_sha256(), std::string(32, 'x')),
                TokenFault::kBadSignature);
  // A key that the token brings along is not even looked at.
  ExpectRefused(Forge(fmt::format(R"({{"alg":"HS256","kid":"k1","jwk":{}}})",
                                  Jwk("k1", std::string(32, 'x'))),
                      kStartPayload, EVP_sha256(), std::string(32, 'x')),
                TokenFault::kBadSignature);
}

TEST_F(JwtIssuerTest, TwoKeysAreGoodDuringARotation) {
  const std::string other(32, 'x');
  const std::string old = Start();
  keys_->Set(Keys(Jwk("k2", other) + "," + Jwk("k1", Secret())));
  const std::string fresh = Start();
  EXPECT_NE(fresh, old);
  Verified(old, TokenUse::kStart);
  Verified(fresh, TokenUse::kStart);
  // The name of the one with the signature of the other.
  ExpectRefused(Forge(R"({"alg":"HS256","kid":"k2"})", kStartPayload), TokenFault::kBadSignature);
  keys_->Set(Keys(Jwk("k3", std::string(32, 'y')) + "," + Jwk("k2", other)));
  ExpectRefused(old, TokenFault::kUnknownKey);
  Verified(fresh, TokenUse::kStart);
}

TEST_F(JwtIssuerTest, AnyFlippedBitIsRefused) {
  SeededRandom random(4);
  std::vector<std::pair<std::string, TokenUse>> tokens = {{Start(), TokenUse::kStart},
                                                          {Work(), TokenUse::kWork}};
  for (int i = 0; i < 8; ++i) {
    model::AttemptKey key{TenantId(std::string(1 + random.Next() % 9, 't')),
                          RunNo(static_cast<std::int64_t>(random.Next() >> 1U)),
                          TaskNo(static_cast<std::uint32_t>(random.Next())),
                          static_cast<std::int32_t>(random.Next() % 1'000) - 1,
                          Epoch(1 + static_cast<std::int64_t>(random.Next() % 1'000))};
    const auto token = issuer_->MintStart(key, 1 + static_cast<int>(random.Next() % 9), hours(1));
    ASSERT_TRUE(token);
    EXPECT_EQ(Verified(*token, TokenUse::kStart).attempt, key);
    tokens.emplace_back(*token, TokenUse::kStart);
  }
  for (const auto& [token, use] : tokens)
    for (std::size_t bit = 0; bit < token.size() * 8; ++bit) {
      std::string flipped = token;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1U << bit % 8));
      EXPECT_FALSE(issuer_->Verify(flipped, use)) << "bit " << bit << " of " << token;
    }
}

TEST_F(JwtIssuerTest, AnyShorterOrLongerTextIsRefused) {
  const std::string token = Start();
  for (std::size_t size = 0; size < token.size(); ++size)
    EXPECT_FALSE(issuer_->Verify(token.substr(0, size), TokenUse::kStart)) << size;
  for (int c = 0; c < 256; ++c) {
    EXPECT_FALSE(issuer_->Verify(token + static_cast<char>(c), TokenUse::kStart)) << c;
    EXPECT_FALSE(issuer_->Verify(static_cast<char>(c) + token, TokenUse::kStart)) << c;
  }
}

TEST_F(JwtIssuerTest, WhatIsNoTokenIsMalformed) {
  for (const char* text : {"", ".", "..", "...", "a.b", "a.b.c", "e30.e30.", "bnVsbA.e30.AA",
                           "Bearer x.y.z", "e30.e30.e30.e30"})
    ExpectRefused(text, std::string_view(text).starts_with("e30.e30.") &&
                                std::string_view(text) != "e30.e30.e30.e30"
                            ? TokenFault::kAlgorithm
                            : TokenFault::kMalformed);
  ExpectRefused(Forge(R"({"alg":"HS256","kid":"k1","crit":["exp"]})", kStartPayload),
                TokenFault::kMalformed);
  ExpectRefused(Forge(R"({"alg":"HS256","alg":"HS256","kid":"k1"})", kStartPayload),
                TokenFault::kMalformed);
}

/// `from` in the payload becomes `to`; the signature is good.
std::string Changed(std::string_view from, std::string_view to) {
  std::string payload(kStartPayload);
  const std::size_t at = payload.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  payload.replace(at, from.size(), to);
  return Forge(kHeader, payload);
}

TEST_F(JwtIssuerTest, EveryClaimMustBeThereAndInItsRange) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("iss":"headworks",)", ""},
           {R"("iss":"headworks")", R"("iss":"other")"},
           {R"("iat":1767225600,)", ""},
           {R"("nbf":1767225600,)", ""},
           {R"("exp":1767229800,)", ""},
           {R"("exp":1767229800)", R"("exp":"1767229800")"},
           {R"("exp":1767229800)", R"("exp":253402300800)"},
           {R"("exp":1767229800)", R"("exp":1767229800.5)"},
           {R"("nbf":1767225600)", R"("nbf":-1)"},
           {R"("tenant":"public",)", ""},
           {R"("tenant":"public")", R"("tenant":"")"},
           {R"("tenant":"public")", R"("tenant":null)"},
           {R"("run":42,)", ""},
           {R"("run":42)", R"("run":-1)"},
           {R"("run":42)", R"("run":0)"},
           {R"("run":42)", R"("run":9223372036854775808)"},
           {R"("task":3,)", ""},
           {R"("task":3)", R"("task":4294967296)"},
           {R"("map_index":-1,)", ""},
           {R"("map_index":-1)", R"("map_index":-2)"},
           {R"("map_index":-1)", R"("map_index":2147483648)"},
           {R"("try":2,)", ""},
           {R"("try":2)", R"("try":0)"},
           {R"("try":2)", R"("try":2147483648)"},
           {R"(,"epoch":7)", ""},
           {R"("epoch":7)", R"("epoch":0)"},
           {R"("epoch":7})", R"("epoch":7}x)"}})
    ExpectRefused(Changed(from, to), TokenFault::kMalformed);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("aud":"headworks:start",)", ""},
           {"headworks:start", "headworks"},
           {R"("aud":"headworks:start")", R"("aud":["headworks:start","headworks:work"])"}})
    ExpectRefused(Changed(from, to), TokenFault::kWrongUse);
  Verified(Changed(R"("task":3)", R"("task":4294967295)"), TokenUse::kStart);
  Verified(Changed(R"("map_index":-1)", R"("map_index":2147483647)"), TokenUse::kStart);
  Verified(Changed(R"("exp":1767229800)", R"("exp":253402300799)"), TokenUse::kStart);
}

TEST_F(JwtIssuerTest, WorkingTokenMustNameItsHolder) {
  std::string payload(kStartPayload);
  payload.replace(payload.find("headworks:start"), 15, "headworks:work");
  payload.pop_back();
  ExpectRefused(Forge(kHeader, payload + "}"), TokenFault::kMalformed, TokenUse::kWork);
  ExpectRefused(Forge(kHeader, payload + R"(,"holder":"","auth_time":1})"), TokenFault::kMalformed,
                TokenUse::kWork);
  ExpectRefused(Forge(kHeader, payload + R"(,"holder":"a"})"), TokenFault::kMalformed,
                TokenUse::kWork);
  Verified(Forge(kHeader, payload + R"(,"holder":"a","auth_time":1})"), TokenUse::kWork);
}

TEST_F(JwtIssuerTest, NamesHaveABoundThatStillFits) {
  const std::string longest(kLongestClaim, '\x01');  // six bytes each in JSON
  model::AttemptKey key = Attempt();
  key.tenant = TenantId(longest);
  const auto start = issuer_->MintStart(key, 1, hours(1));
  ASSERT_TRUE(start);
  EXPECT_TRUE(issuer_->CheckStart(key, 1, hours(1)));
  EXPECT_FALSE(issuer_->CheckStart(key, 1, hours(0)));
  EXPECT_FALSE(issuer_->CheckStart(key, 0, hours(1)));
  const auto work = issuer_->MintWork(Verified(*start, TokenUse::kStart), longest, clock_.Now());
  ASSERT_TRUE(work);
  EXPECT_EQ(Verified(*work, TokenUse::kWork).holder, longest);
  const TokenClaims claims = Verified(Start(), TokenUse::kStart);
  for (const std::string& name : {longest + "x", std::string(), std::string("\xff")}) {
    key.tenant = TenantId(name);
    EXPECT_EQ(issuer_->MintStart(key, 1, hours(1)).error().code, Code::kInvalidArgument);
    EXPECT_EQ(issuer_->CheckStart(key, 1, hours(1)).error().message,
              issuer_->MintStart(key, 1, hours(1)).error().message);
    EXPECT_EQ(issuer_->MintWork(claims, name, clock_.Now()).error().code, Code::kInvalidArgument);
  }
}

TEST_F(JwtIssuerTest, WhatVerifyWouldNotTakeIsNotMinted) {
  issuer_ = Make({.ceiling = Duration(0)});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr int kMostInt = std::numeric_limits<std::int32_t>::max();
  using Change = std::function<void(TokenClaims&, std::int64_t)>;
  struct Case {
    std::string claim;
    std::vector<std::int64_t> good, bad;
    Change change;
  };
  const std::vector<Case> cases = {
      {"run", {1, kMost}, {0, -1}, [](auto& c, auto v) { c.attempt.run = RunNo(v); }},
      {"epoch", {1, kMost}, {0, -1}, [](auto& c, auto v) { c.attempt.epoch = Epoch(v); }},
      {"try", {1, kMostInt}, {0, -1}, [](auto& c, auto v) { c.try_no = static_cast<int>(v); }},
      {"map_index",
       {-1, kMostInt},
       {-2},
       [](auto& c, auto v) { c.attempt.map_index = static_cast<std::int32_t>(v); }},
      {"auth_time", {0}, {-1}, [](auto& c, auto v) { c.opened_at = Instant(seconds(v)); }}};
  const TokenClaims usual = Verified(Start(), TokenUse::kStart);
  for (const auto& [claim, good, bad, change] : cases) {
    for (const std::int64_t value : good) {
      TokenClaims claims = usual;
      change(claims, value);
      const auto start = issuer_->MintStart(claims.attempt, claims.try_no, hours(1));
      ASSERT_TRUE(start) << start.error().message;
      EXPECT_EQ(Verified(*start, TokenUse::kStart).attempt, claims.attempt);
      const auto work = issuer_->MintWork(claims, "pod-1", claims.opened_at);
      ASSERT_TRUE(work) << work.error().message;
      EXPECT_EQ(Verified(*work, TokenUse::kWork).try_no, claims.try_no);
    }
    for (const std::int64_t value : bad) {
      TokenClaims claims = usual;
      change(claims, value);
      std::vector<Result<std::string>> minted = {
          issuer_->MintWork(claims, "pod-1", claims.opened_at)};
      if (claim != "auth_time")
        minted.push_back(issuer_->MintStart(claims.attempt, claims.try_no, hours(1)));
      for (const auto& token : minted) {
        ASSERT_FALSE(token) << claim << " " << value;
        EXPECT_EQ(token.error().code, Code::kInvalidArgument);
        EXPECT_NE(token.error().message.find("a token's " + claim + " is"), std::string::npos)
            << token.error().message;
      }
    }
  }
}

TEST_F(JwtIssuerTest, TimesThatVerifyWouldNotTakeAreNotMinted) {
  const Instant last(seconds(253'402'300'799));  // 9999-12-31
  clock_.Set(last - hours(1));
  Verified(Start(hours(1)), TokenUse::kStart);
  const auto late = issuer_->MintStart(Attempt(), 1, hours(1) + microseconds(1));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("a token's exp is"), std::string::npos);
  clock_.Set(Instant(seconds(0)));
  Verified(Start(), TokenUse::kStart);
  clock_.Set(Instant(microseconds(-1)));
  const auto early = issuer_->MintStart(Attempt(), 1, hours(1));
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message.find("a token's iat is"), std::string::npos);
}

TEST_F(JwtIssuerTest, OverlongTextIsRefusedUnread) {
  std::string payload(kStartPayload);
  payload.pop_back();
  const auto padded = [&](std::size_t spaces) {
    return Forge(kHeader, payload + std::string(spaces, ' ') + "}");
  };
  std::size_t spaces = kLongestJws / 4 * 3 - 400;
  while (padded(spaces + 1).size() <= kLongestJws) ++spaces;
  EXPECT_EQ(padded(spaces).size(), kLongestJws);
  Verified(padded(spaces), TokenUse::kStart);
  ExpectRefused(padded(spaces + 1), TokenFault::kMalformed);
}

TEST_F(JwtIssuerTest, ValidityHasBounds) {
  EXPECT_EQ(issuer_->MintStart(Attempt(), 1, Duration(0)).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(issuer_->MintStart(Attempt(), 1, Duration(1)));
  EXPECT_TRUE(issuer_->MintStart(Attempt(), 1, std::chrono::years(10)));
  EXPECT_FALSE(issuer_->MintStart(Attempt(), 1, std::chrono::years(10) + Duration(1)));
  for (const auto& [options, name] : std::vector<std::pair<JwtOptions, std::string>>{
           {{.work_valid = Duration(0)}, "work_valid"},
           {{.work_valid = microseconds(1'500'000)}, "work_valid"},
           {{.ceiling = -seconds(1)}, "ceiling"},
           {{.ceiling = Duration(1)}, "ceiling"},
           {{.ceiling = std::chrono::years(10) + seconds(1)}, "ceiling"},
           {{.max_skew = Duration(-1)}, "max_skew"}}) {
    const auto made = JwtIssuer::Create(options, Keys(Jwk("k1", Secret())), clock_);
    ASSERT_FALSE(made) << name;
    EXPECT_NE(made.error().message.find(name), std::string::npos);
  }
}

TEST_F(JwtIssuerTest, FaultsAreToldWithoutTheToken) {
  std::set<std::string> texts;
  for (const auto fault : {TokenFault::kMalformed, TokenFault::kAlgorithm, TokenFault::kUnknownKey,
                           TokenFault::kBadSignature, TokenFault::kWrongUse,
                           TokenFault::kNotYetValid, TokenFault::kExpired, TokenFault::kCeiling}) {
    const Error error = executor::ToError(fault);
    EXPECT_EQ(error.code, Code::kPermissionDenied);
    EXPECT_NE(error.message.find(executor::TokenFaultName(fault)), std::string::npos);
    texts.insert(error.message);
  }
  EXPECT_EQ(texts.size(), 8U);
}

TEST_F(JwtIssuerTest, KeysChangeUnderCallsFromOtherThreads) {
  const std::string token = Start();
  std::vector<std::jthread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        EXPECT_TRUE(issuer_->Verify(token, TokenUse::kStart));
        EXPECT_TRUE(issuer_->Verify(Start(), TokenUse::kStart));
      }
    });
  for (int i = 0; i < 300; ++i)
    keys_->Set(i % 2 == 0 ? Keys(Jwk("k2", std::string(32, 'x')) + "," + Jwk("k1", Secret()))
                          : Keys(Jwk("k1", Secret()) + "," + Jwk("k2", std::string(32, 'x'))));
}

}  // namespace
}  // namespace headworks::token
