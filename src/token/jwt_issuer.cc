#include "headworks/token/jwt_issuer.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <boost/json.hpp>
#include <limits>
#include <optional>

#include "base64url.h"
#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks::token {
namespace {

using executor::TokenClaims;
using executor::TokenFault;
using executor::TokenUse;
using Seconds = std::chrono::seconds;

constexpr std::string_view kIssuer = "headworks";
/// 9999-12-31: beyond it a number of seconds is no time.
constexpr std::int64_t kLastSecond = 253'402'300'799;
constexpr Duration kLongest = std::chrono::years(10);

std::string_view Audience(TokenUse use) {
  return use == TokenUse::kStart ? "headworks:start" : "headworks:work";
}

std::int64_t ToSeconds(Instant at) {
  return std::chrono::floor<Seconds>(at).time_since_epoch().count();
}

std::string Hmac(const TokenKeys::Key& key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  HEADWORKS_CHECK(HMAC(EVP_sha256(), key.secret.data(), static_cast<int>(key.secret.size()),
                       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                       digest.data(), &size) != nullptr);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string HeaderJson(const TokenKeys::Key& key) {
  return fmt::format(R"({{"alg":"HS256","kid":"{}","typ":"JWT"}})", key.id);
}

/// Header, claims and signature as they stand in the token.
struct Parts {
  std::string_view header, payload, signature, signed_text;
};

std::optional<Parts> SplitToken(std::string_view token) {
  const std::size_t first = token.find('.');
  const std::size_t last = token.rfind('.');
  if (token.size() > JwtIssuer::kLongestToken || first == last) return std::nullopt;
  const std::string_view payload = token.substr(first + 1, last - first - 1);
  if (payload.find('.') != std::string_view::npos) return std::nullopt;
  return Parts{token.substr(0, first), payload, token.substr(last + 1), token.substr(0, last)};
}

std::optional<boost::json::object> DecodeObject(std::string_view part) {
  const auto text = DecodeBase64Url(part);
  if (!text) return std::nullopt;
  auto parsed = ParseJson(*text, {.max_bytes = JwtIssuer::kLongestToken, .max_depth = 4});
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return std::move(parsed->get_object());
}

/// Empty: not there, or no text.
std::string_view Text(const boost::json::object& object, std::string_view member) {
  const auto* value = object.if_contains(member);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

/// What a claim may be: minting and verifying go by the same.
struct Range {
  std::string_view claim;
  std::int64_t low, high;
  bool Holds(std::int64_t value) const { return value >= low && value <= high; }
};
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr Range kRun{"run", 1, kMost};
constexpr Range kTask{"task", 0, std::numeric_limits<std::uint32_t>::max()};
constexpr Range kMapIndex{"map_index", -1, kMostInt};
constexpr Range kTry{"try", 1, kMostInt};
constexpr Range kEpoch{"epoch", 1, kMost};
constexpr Range Time(std::string_view claim) { return {claim, 0, kLastSecond}; }

/// A whole number within the range; its absence is noted in `ok`.
std::int64_t Number(const boost::json::object& object, const Range& range, bool& ok) {
  const auto* value = object.if_contains(range.claim);
  const auto* number = value == nullptr ? nullptr : value->if_int64();
  if (number == nullptr || !range.Holds(*number)) {
    ok = false;
    return 0;
  }
  return *number;
}

/// The claims of a token whose signature holds.
std::optional<TokenClaims> ReadClaims(const boost::json::object& object, TokenUse use) {
  bool ok = true;
  const auto at = [&](std::string_view member) {
    return Instant(Seconds(Number(object, Time(member), ok)));
  };
  TokenClaims claims;
  claims.use = use;
  claims.attempt.tenant = TenantId(std::string(Text(object, "tenant")));
  claims.attempt.run = RunNo(Number(object, kRun, ok));
  claims.attempt.task = TaskNo(static_cast<std::uint32_t>(Number(object, kTask, ok)));
  claims.attempt.map_index = static_cast<std::int32_t>(Number(object, kMapIndex, ok));
  claims.attempt.epoch = Epoch(Number(object, kEpoch, ok));
  claims.try_no = static_cast<int>(Number(object, kTry, ok));
  claims.issued_at = at("iat");
  claims.expires_at = at("exp");
  if (use == TokenUse::kWork) {
    claims.holder = Text(object, "holder");
    claims.opened_at = at("auth_time");
    ok = ok && !claims.holder.empty();
  }
  if (!ok || claims.attempt.tenant.value.empty()) return std::nullopt;
  return claims;
}

Status CheckName(std::string_view name, std::string_view what) {
  if (name.empty() || name.size() > JwtIssuer::kLongestName)
    return Error{Code::kInvalidArgument, fmt::format("a token's {} has 1 to {} bytes, not {}", what,
                                                     JwtIssuer::kLongestName, name.size())};
  if (ValidUtf8Prefix(name) != name.size())
    return Error{Code::kInvalidArgument, fmt::format("a token's {} must be valid UTF-8", what)};
  return {};
}

/// Whether Verify takes such claims.
Status CheckClaims(const TokenClaims& claims) {
  HEADWORKS_TRY(CheckName(claims.attempt.tenant.value, "tenant"));
  if (claims.use == TokenUse::kWork) HEADWORKS_TRY(CheckName(claims.holder, "holder"));
  const std::pair<Range, std::int64_t> numbers[] = {
      {kRun, claims.attempt.run.value},
      {kTask, claims.attempt.task.value},
      {kMapIndex, claims.attempt.map_index},
      {kTry, claims.try_no},
      {kEpoch, claims.attempt.epoch.value},
      {Time("iat"), ToSeconds(claims.issued_at)},
      {Time("exp"), ToSeconds(claims.expires_at)},
      {Time("auth_time"), ToSeconds(claims.opened_at)}};  // of a start token 0
  for (const auto& [range, value] : numbers)
    if (!range.Holds(value))
      return Error{Code::kInvalidArgument, fmt::format("a token's {} is from {} to {}, not {}",
                                                       range.claim, range.low, range.high, value)};
  return {};
}

}  // namespace

Result<std::unique_ptr<JwtIssuer>> JwtIssuer::Create(JwtOptions options, TokenKeys keys,
                                                     Clock& clock) {
  const auto fits = [](Duration d) { return d % Seconds(1) == Duration(0) && d <= kLongest; };
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("JwtOptions::{}", what)};
  };
  if (options.work_valid <= Duration(0) || !fits(options.work_valid))
    return bad("work_valid must be whole seconds, from one to 10 years");
  if (options.ceiling < Duration(0) || !fits(options.ceiling))
    return bad("ceiling must be whole seconds, at most 10 years, or 0 for none");
  if (options.max_skew < Duration(0) || options.max_skew > kLongest)
    return bad("max_skew must be from nothing to 10 years");
  return std::unique_ptr<JwtIssuer>(new JwtIssuer(options, std::move(keys), clock));
}

JwtIssuer::JwtIssuer(JwtOptions options, TokenKeys keys, Clock& clock)
    : options_(options), clock_(clock), keys_(std::make_shared<const TokenKeys>(std::move(keys))) {}

void JwtIssuer::SetKeys(TokenKeys keys) {
  auto fresh = std::make_shared<const TokenKeys>(std::move(keys));
  const std::scoped_lock lock(mutex_);
  keys_.swap(fresh);
}

std::shared_ptr<const TokenKeys> JwtIssuer::keys() const {
  const std::scoped_lock lock(mutex_);
  return keys_;
}

std::string JwtIssuer::Sign(const TokenClaims& claims) const {
  const auto keys = this->keys();
  const TokenKeys::Key& key = keys->signing();
  std::string payload = fmt::format(
      R"({{"iss":"{}","aud":"{}","iat":{},"nbf":{},"exp":{},"tenant":{},"run":{},"task":{},)"
      R"("map_index":{},"try":{},"epoch":{})",
      kIssuer, Audience(claims.use), ToSeconds(claims.issued_at), ToSeconds(claims.issued_at),
      ToSeconds(claims.expires_at), QuoteJson(claims.attempt.tenant.value),
      claims.attempt.run.value, claims.attempt.task.value, claims.attempt.map_index, claims.try_no,
      claims.attempt.epoch.value);
  if (claims.use == TokenUse::kWork)
    payload += fmt::format(R"(,"holder":{},"auth_time":{})", QuoteJson(claims.holder),
                           ToSeconds(claims.opened_at));
  payload += '}';
  std::string token = EncodeBase64Url(HeaderJson(key)) + '.' + EncodeBase64Url(payload);
  token += '.' + EncodeBase64Url(Hmac(key, token));
  return token;
}

Result<std::string> JwtIssuer::MintStart(const model::AttemptKey& attempt, int try_no,
                                         Duration valid) {
  if (valid <= Duration(0) || valid > kLongest)
    return Error{Code::kInvalidArgument,
                 "a start token is valid for more than nothing, and at "
                 "most 10 years: check start_timeout and pending_timeout"};
  const Instant now = clock_.Now();
  const TokenClaims claims{.use = TokenUse::kStart,
                           .attempt = attempt,
                           .try_no = try_no,
                           .issued_at = now,
                           .expires_at = std::chrono::ceil<Seconds>(now + valid)};
  HEADWORKS_TRY(CheckClaims(claims));
  return Sign(claims);
}

Instant JwtIssuer::WorkEnd(Instant now, Instant opened_at) const {
  const Instant end = std::chrono::ceil<Seconds>(now + options_.work_valid);
  return std::min(end, Ceiling(opened_at));
}

Instant JwtIssuer::Ceiling(Instant opened_at) const {
  return options_.ceiling == Duration(0)
             ? kNever
             : std::chrono::floor<Seconds>(opened_at) + options_.ceiling;
}

bool JwtIssuer::AtCeiling(Instant now, Instant opened_at) const {
  return now >= Ceiling(opened_at);
}

Result<std::string> JwtIssuer::MintWork(const TokenClaims& start, std::string_view holder,
                                        Instant opened_at) {
  if (start.use != TokenUse::kStart)
    return Error{Code::kInvalidArgument, "only a start token is answered with a working token"};
  const Instant now = clock_.Now();
  if (opened_at > now + options_.max_skew)
    return Error{Code::kInvalidArgument,
                 "the gate cannot have opened later than now: check the clocks of the hosts"};
  opened_at = std::chrono::floor<Seconds>(opened_at);
  const TokenClaims claims{.use = TokenUse::kWork,
                           .attempt = start.attempt,
                           .try_no = start.try_no,
                           .holder = std::string(holder),
                           .issued_at = now,
                           .expires_at = WorkEnd(now, opened_at),
                           .opened_at = opened_at};
  HEADWORKS_TRY(CheckClaims(claims));
  if (AtCeiling(now, opened_at)) return executor::ToError(TokenFault::kCeiling);
  return Sign(claims);
}

tl::expected<std::string, TokenFault> JwtIssuer::Renew(const TokenClaims& work) {
  const Instant now = clock_.Now();
  if (work.use != TokenUse::kWork) return tl::unexpected(TokenFault::kWrongUse);
  // Of both the ceiling is the truth: its last token ends with it.
  if (AtCeiling(now, work.opened_at)) return tl::unexpected(TokenFault::kCeiling);
  if (now >= work.expires_at) return tl::unexpected(TokenFault::kExpired);
  TokenClaims next = work;
  next.issued_at = now;
  next.expires_at = WorkEnd(now, work.opened_at);
  return Sign(next);
}

tl::expected<TokenClaims, TokenFault> JwtIssuer::Verify(std::string_view token, TokenUse use) {
  const auto refuse = [](TokenFault fault) { return tl::unexpected(fault); };
  const auto parts = SplitToken(token);
  if (!parts) return refuse(TokenFault::kMalformed);
  const auto header = DecodeObject(parts->header);
  if (!header) return refuse(TokenFault::kMalformed);
  if (Text(*header, "alg") != "HS256") return refuse(TokenFault::kAlgorithm);
  // What must be understood (RFC 7515, section 4.1.11) and is not.
  if (header->contains("crit")) return refuse(TokenFault::kMalformed);
  const auto keys = this->keys();
  const TokenKeys::Key* key = keys->Find(Text(*header, "kid"));
  if (key == nullptr) return refuse(TokenFault::kUnknownKey);
  const auto signature = DecodeBase64Url(parts->signature);
  const std::string expected = Hmac(*key, parts->signed_text);
  if (!signature || signature->size() != expected.size() ||
      CRYPTO_memcmp(signature->data(), expected.data(), expected.size()) != 0)
    return refuse(TokenFault::kBadSignature);
  const auto payload = DecodeObject(parts->payload);
  if (!payload || Text(*payload, "iss") != kIssuer) return refuse(TokenFault::kMalformed);
  if (Text(*payload, "aud") != Audience(use)) return refuse(TokenFault::kWrongUse);
  auto claims = ReadClaims(*payload, use);
  bool has_nbf = true;
  const Instant nbf(Seconds(Number(*payload, Time("nbf"), has_nbf)));
  if (!claims || !has_nbf) return refuse(TokenFault::kMalformed);
  const Instant now = clock_.Now();
  if (now + options_.max_skew < nbf) return refuse(TokenFault::kNotYetValid);
  if (now >= claims->expires_at) return refuse(TokenFault::kExpired);
  return *std::move(claims);
}

}  // namespace headworks::token
