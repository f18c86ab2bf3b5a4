#include "jws.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <boost/json.hpp>
#include <optional>

#include "base64url.h"
#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks::token {
namespace {

using executor::TokenFault;
using Seconds = std::chrono::seconds;

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
  if (token.size() > kLongestJws || first == last) return std::nullopt;
  const std::string_view payload = token.substr(first + 1, last - first - 1);
  if (payload.find('.') != std::string_view::npos) return std::nullopt;
  return Parts{token.substr(0, first), payload, token.substr(last + 1), token.substr(0, last)};
}

std::optional<boost::json::object> DecodeObject(std::string_view part) {
  const auto text = DecodeBase64Url(part);
  if (!text) return std::nullopt;
  auto parsed = ParseJson(*text, {.max_bytes = kLongestJws, .max_depth = 4});
  if (!parsed || !parsed->is_object()) return std::nullopt;
  return std::move(parsed->get_object());
}

}  // namespace

std::int64_t ToSeconds(Instant at) {
  return std::chrono::floor<Seconds>(at).time_since_epoch().count();
}

std::string SignJws(const TokenKeys::Key& key, std::string_view payload) {
  std::string token = EncodeBase64Url(HeaderJson(key)) + '.' + EncodeBase64Url(payload);
  token += '.' + EncodeBase64Url(Hmac(key, token));
  return token;
}

tl::expected<boost::json::object, TokenFault> VerifyJws(std::string_view token,
                                                        std::string_view audience,
                                                        const TokenKeys& keys, Instant now,
                                                        Duration max_skew) {
  const auto refuse = [](TokenFault fault) { return tl::unexpected(fault); };
  const auto parts = SplitToken(token);
  if (!parts) return refuse(TokenFault::kMalformed);
  const auto header = DecodeObject(parts->header);
  if (!header) return refuse(TokenFault::kMalformed);
  if (TextClaim(*header, "alg") != "HS256") return refuse(TokenFault::kAlgorithm);
  // What must be understood (RFC 7515, section 4.1.11) and is not.
  if (header->contains("crit")) return refuse(TokenFault::kMalformed);
  const TokenKeys::Key* key = keys.Find(TextClaim(*header, "kid"));
  if (key == nullptr) return refuse(TokenFault::kUnknownKey);
  const auto signature = DecodeBase64Url(parts->signature);
  const std::string expected = Hmac(*key, parts->signed_text);
  if (!signature || signature->size() != expected.size() ||
      CRYPTO_memcmp(signature->data(), expected.data(), expected.size()) != 0)
    return refuse(TokenFault::kBadSignature);
  auto payload = DecodeObject(parts->payload);
  if (!payload || TextClaim(*payload, "iss") != kIssuer) return refuse(TokenFault::kMalformed);
  if (TextClaim(*payload, "aud") != audience) return refuse(TokenFault::kWrongUse);
  bool ok = true;
  const Instant nbf = TimeClaim(*payload, "nbf", ok);
  const Instant exp = TimeClaim(*payload, "exp", ok);
  if (!ok) return refuse(TokenFault::kMalformed);
  if (now + max_skew < nbf) return refuse(TokenFault::kNotYetValid);
  if (now >= exp) return refuse(TokenFault::kExpired);
  return *std::move(payload);
}

std::string_view TextClaim(const boost::json::object& claims, std::string_view name) {
  const auto* value = claims.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

std::int64_t NumberClaim(const boost::json::object& claims, const Range& range, bool& ok) {
  const auto* value = claims.if_contains(range.claim);
  const auto* number = value == nullptr ? nullptr : value->if_int64();
  if (number == nullptr || !range.Holds(*number)) {
    ok = false;
    return 0;
  }
  return *number;
}

Instant TimeClaim(const boost::json::object& claims, std::string_view name, bool& ok) {
  return Instant(Seconds(NumberClaim(claims, Time(name), ok)));
}

Status CheckClaim(std::string_view name, std::string_view what) {
  if (name.empty() || name.size() > kLongestClaim)
    return Error{Code::kInvalidArgument, fmt::format("a token's {} has 1 to {} bytes, not {}", what,
                                                     kLongestClaim, name.size())};
  if (ValidUtf8Prefix(name) != name.size())
    return Error{Code::kInvalidArgument, fmt::format("a token's {} must be valid UTF-8", what)};
  return {};
}

}  // namespace headworks::token
