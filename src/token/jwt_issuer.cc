#include "headworks/token/jwt_issuer.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <limits>
#include <optional>

#include "headworks/base/json.h"
#include "jws.h"

namespace headworks::token {
namespace {

using executor::TokenClaims;
using executor::TokenFault;
using executor::TokenUse;
using Seconds = std::chrono::seconds;

std::string_view Audience(TokenUse use) {
  return use == TokenUse::kStart ? "headworks:start" : "headworks:work";
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr Range kRun{"run", 1, kMost};
constexpr Range kTask{"task", 0, std::numeric_limits<std::uint32_t>::max()};
constexpr Range kMapIndex{"map_index", -1, kMostInt};
constexpr Range kTry{"try", 1, kMostInt};
constexpr Range kEpoch{"epoch", 1, kMost};

/// The claims of a token whose signature holds.
std::optional<TokenClaims> ReadClaims(const boost::json::object& object, TokenUse use) {
  bool ok = true;
  const auto at = [&](std::string_view member) { return TimeClaim(object, member, ok); };
  TokenClaims claims;
  claims.use = use;
  claims.attempt.tenant = TenantId(std::string(TextClaim(object, "tenant")));
  claims.attempt.run = RunNo(NumberClaim(object, kRun, ok));
  claims.attempt.task = TaskNo(static_cast<std::uint32_t>(NumberClaim(object, kTask, ok)));
  claims.attempt.map_index = static_cast<std::int32_t>(NumberClaim(object, kMapIndex, ok));
  claims.attempt.epoch = Epoch(NumberClaim(object, kEpoch, ok));
  claims.try_no = static_cast<int>(NumberClaim(object, kTry, ok));
  claims.issued_at = at("iat");
  claims.expires_at = at("exp");
  if (use == TokenUse::kWork) {
    claims.holder = TextClaim(object, "holder");
    claims.opened_at = at("auth_time");
    ok = ok && !claims.holder.empty();
  }
  if (!ok || claims.attempt.tenant.value.empty()) return std::nullopt;
  return claims;
}

/// Whether Verify takes such claims.
Status CheckClaims(const TokenClaims& claims) {
  HEADWORKS_TRY(CheckClaim(claims.attempt.tenant.value, "tenant"));
  if (claims.use == TokenUse::kWork) HEADWORKS_TRY(CheckClaim(claims.holder, "holder"));
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

Result<std::unique_ptr<JwtIssuer>> JwtIssuer::Create(JwtOptions options,
                                                     std::shared_ptr<KeyRing> keys, Clock& clock) {
  const auto fits = [](Duration d) { return d % Seconds(1) == Duration(0) && d <= kLongestValid; };
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("JwtOptions::{}", what)};
  };
  if (options.work_valid <= Duration(0) || !fits(options.work_valid))
    return bad("work_valid must be whole seconds, from one to 10 years");
  if (options.ceiling < Duration(0) || !fits(options.ceiling))
    return bad("ceiling must be whole seconds, at most 10 years, or 0 for none");
  if (options.max_skew < Duration(0) || options.max_skew > kLongestValid)
    return bad("max_skew must be from nothing to 10 years");
  return std::unique_ptr<JwtIssuer>(new JwtIssuer(options, std::move(keys), clock));
}

JwtIssuer::JwtIssuer(JwtOptions options, std::shared_ptr<KeyRing> keys, Clock& clock)
    : options_(options), clock_(clock), keys_(std::move(keys)) {}

std::string JwtIssuer::Sign(const TokenClaims& claims) const {
  const auto keys = keys_->keys();
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
  return SignJws(key, payload);
}

Result<TokenClaims> JwtIssuer::StartClaims(const model::AttemptKey& attempt, int try_no,
                                           Duration valid) const {
  if (valid <= Duration(0) || valid > kLongestValid)
    return Error{Code::kInvalidArgument,
                 "a start token is valid for more than nothing, and at "
                 "most 10 years: check start_timeout and pending_timeout"};
  const Instant now = clock_.Now();
  TokenClaims claims{.use = TokenUse::kStart,
                     .attempt = attempt,
                     .try_no = try_no,
                     .issued_at = now,
                     .expires_at = std::chrono::ceil<Seconds>(now + valid)};
  HEADWORKS_TRY(CheckClaims(claims));
  return claims;
}

Status JwtIssuer::CheckStart(const model::AttemptKey& attempt, int try_no, Duration valid) const {
  HEADWORKS_TRY(StartClaims(attempt, try_no, valid));
  return {};
}

Result<std::string> JwtIssuer::MintStart(const model::AttemptKey& attempt, int try_no,
                                         Duration valid) {
  HEADWORKS_ASSIGN(const TokenClaims claims, StartClaims(attempt, try_no, valid));
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
  const auto payload =
      VerifyJws(token, Audience(use), *keys_->keys(), clock_.Now(), options_.max_skew);
  if (!payload) return tl::unexpected(payload.error());
  auto claims = ReadClaims(*payload, use);
  if (!claims) return tl::unexpected(TokenFault::kMalformed);
  return *std::move(claims);
}

}  // namespace headworks::token
