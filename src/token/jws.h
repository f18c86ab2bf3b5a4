#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/token_issuer.h"
#include "headworks/token/token_keys.h"

/// What all tokens have in common: JWS in compact form, HMAC-SHA256, our issuer, an audience and
/// times in whole seconds.
namespace headworks::token {

inline constexpr std::string_view kIssuer = "headworks";
/// Longer tokens are refused unread.
inline constexpr std::size_t kLongestJws = 8'192;
/// Of names in claims.
inline constexpr std::size_t kLongestClaim = 256;
/// Most that a token may be good for.
inline constexpr Duration kLongestValid = std::chrono::years(10);

/// `payload` (JSON text), signed.
std::string SignJws(const TokenKeys::Key& key, std::string_view payload);

/// The claims of a token for `audience`, whose signature holds and which is good at `now`.
tl::expected<boost::json::object, executor::TokenFault> VerifyJws(std::string_view token,
                                                                  std::string_view audience,
                                                                  const TokenKeys& keys,
                                                                  Instant now, Duration max_skew);

std::int64_t ToSeconds(Instant at);

/// What a claim may be: minting and verifying go by the same.
struct Range {
  std::string_view claim;
  std::int64_t low, high;
  bool Holds(std::int64_t value) const { return value >= low && value <= high; }
};
/// 9999-12-31: beyond it a number of seconds is no time.
inline constexpr std::int64_t kLastSecond = 253'402'300'799;
constexpr Range Time(std::string_view claim) { return {claim, 0, kLastSecond}; }

/// Empty: not there, or no text.
std::string_view TextClaim(const boost::json::object& claims, std::string_view name);
/// A whole number within the range; its absence is noted in `ok`.
std::int64_t NumberClaim(const boost::json::object& claims, const Range& range, bool& ok);
Instant TimeClaim(const boost::json::object& claims, std::string_view name, bool& ok);

/// kInvalidArgument: not 1 to kLongestClaim bytes of UTF-8.
Status CheckClaim(std::string_view name, std::string_view what);

}  // namespace headworks::token
