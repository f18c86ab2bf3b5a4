#include "headworks/token/worker_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "headworks/base/json.h"
#include "headworks/base/tenant.h"
#include "jws.h"

namespace headworks::token {
namespace {

using executor::TokenFault;

constexpr std::string_view kAudience = "headworks:worker";
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxQueues = 64;
constexpr Duration kMaxSkew = std::chrono::seconds(5);

bool IsName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return !name.empty() && name.size() <= kMaxName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Status CheckClaims(const WorkerClaims& claims) {
  const auto bad = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message)};
  };
  HEADWORKS_TRY(CheckTenantName(claims.tenant.value));
  std::string_view name = claims.worker;
  const bool is_prefix = name.ends_with('*');
  if (is_prefix) name.remove_suffix(1);
  if (!(is_prefix && name.empty()) && !IsName(name))
    return bad(
        fmt::format("worker '{}' is no name: 1 to 64 letters, digits, '-' and '_', with "
                    "'*' at its end for all that begin so",
                    claims.worker));
  if (claims.queues.size() > kMaxQueues)
    return bad(
        fmt::format("{} queues; a worker serves at most {}", claims.queues.size(), kMaxQueues));
  for (const std::string& queue : claims.queues)
    if (!IsName(queue))
      return bad(fmt::format("queue '{}' is no name: 1 to 64 letters, digits, '-' and '_'", queue));
  return {};
}

std::optional<WorkerClaims> ReadClaims(const boost::json::object& object) {
  bool ok = true;
  WorkerClaims claims;
  claims.tenant = TenantId(std::string(TextClaim(object, "tenant")));
  claims.worker = TextClaim(object, "worker");
  claims.issued_at = TimeClaim(object, "iat", ok);
  claims.expires_at = TimeClaim(object, "exp", ok);
  const auto* const queues = object.if_contains("queues");
  if (!ok || queues == nullptr || !queues->is_array()) return std::nullopt;
  for (const auto& queue : queues->get_array()) {
    if (!queue.is_string()) return std::nullopt;
    claims.queues.emplace_back(queue.get_string());
  }
  if (!CheckClaims(claims)) return std::nullopt;
  return claims;
}

}  // namespace

WorkerTokens::WorkerTokens(std::shared_ptr<KeyRing> keys, Clock& clock)
    : keys_(std::move(keys)), clock_(clock) {}

Result<std::string> WorkerTokens::Mint(WorkerClaims claims, Duration valid) const {
  HEADWORKS_TRY(CheckClaims(claims));
  if (valid <= Duration(0) || valid > kLongestValid)
    return Error{Code::kInvalidArgument,
                 "a worker token is valid for more than nothing, and at most 10 years"};
  const Instant now = clock_.Now();
  const auto expires = std::chrono::ceil<std::chrono::seconds>(now + valid);
  boost::json::array queues(claims.queues.begin(), claims.queues.end());
  return SignJws(
      keys_->keys()->signing(),
      fmt::format(R"({{"iss":"{}","aud":"{}","iat":{},"nbf":{},"exp":{},"tenant":{},"worker":{},)"
                  R"("queues":{}}})",
                  kIssuer, kAudience, ToSeconds(now), ToSeconds(now), ToSeconds(expires),
                  QuoteJson(claims.tenant.value), QuoteJson(claims.worker), CanonicalJson(queues)));
}

tl::expected<WorkerClaims, TokenFault> WorkerTokens::Verify(std::string_view token) const {
  const auto payload = VerifyJws(token, kAudience, *keys_->keys(), clock_.Now(), kMaxSkew);
  if (!payload) return tl::unexpected(payload.error());
  auto claims = ReadClaims(*payload);
  if (!claims) return tl::unexpected(TokenFault::kMalformed);
  return *std::move(claims);
}

Error RefusalOfWorker(TokenFault fault) {
  const auto text = [&]() -> std::string_view {
    switch (fault) {
      case TokenFault::kMalformed:
      case TokenFault::kAlgorithm:
      case TokenFault::kWrongUse:
        return "this is no worker token; give one that `headworks worker token create` made";
      case TokenFault::kUnknownKey:
        return "the worker token's key is not known here; make a new token beside the store of "
               "this engine";
      case TokenFault::kBadSignature:
        return "the worker token's signature does not fit; give it as it was made";
      case TokenFault::kNotYetValid:
        return "the worker token is from the future; compare the clocks of both hosts";
      case TokenFault::kExpired:
      case TokenFault::kCeiling:
        return "the worker token has expired; make a new one with `headworks worker token create`";
    }
    return "the worker token is refused";
  }();
  return {Code::kPermissionDenied, fmt::format("{} ({})", text, executor::TokenFaultName(fault))};
}

}  // namespace headworks::token
