#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/token_issuer.h"
#include "headworks/token/key_ring.h"
#include "headworks/token/token_keys.h"

/// Attempt tokens as JWTs.
namespace headworks::token {

struct JwtOptions {
  /// Of a working token; whole seconds, more than none.  A heartbeat renews it.
  Duration work_valid = std::chrono::minutes(10);
  /// How long renewing goes on after the gate opened; whole seconds.  0 = without end.
  Duration ceiling = std::chrono::hours(24);
  /// How far the clock of the host that made a token may be ahead of this one's.
  Duration max_skew = std::chrono::seconds(5);
};

/// JWS in compact form (RFC 7515), HMAC-SHA256, claims of RFC 7519 and the attempt's own: tenant,
/// run, task, map_index, try, epoch; of a working token also holder, and auth_time for when the
/// gate opened.  The use is the audience: "headworks:start", "headworks:work".
///
/// The algorithm belongs to the key: what a token's header says is compared with it, never obeyed.
/// Threads.  All methods may be called concurrently.
/// Bounds.  Tokens over 8 KiB are refused unread; tenant and holder have at most 256 bytes of
///   UTF-8, so that every token that is made fits.
class JwtIssuer final : public executor::TokenIssuer {
 public:
  /// kInvalidArgument names the option.  `clock` is borrowed.
  static Result<std::unique_ptr<JwtIssuer>> Create(JwtOptions options,
                                                   std::shared_ptr<KeyRing> keys, Clock& clock);
  static Result<std::unique_ptr<JwtIssuer>> Create(JwtOptions options, TokenKeys keys,
                                                   Clock& clock) {
    return Create(options, std::make_shared<KeyRing>(std::move(keys)), clock);
  }

  Result<std::string> MintStart(const model::AttemptKey& attempt, int try_no,
                                Duration valid) override;
  Status CheckStart(const model::AttemptKey& attempt, int try_no, Duration valid) const override;
  /// kInvalidArgument, too: `opened_at` is further ahead than `max_skew`.
  Result<std::string> MintWork(const executor::TokenClaims& start, std::string_view holder,
                               Instant opened_at) override;
  tl::expected<std::string, executor::TokenFault> Renew(const executor::TokenClaims& work) override;
  tl::expected<executor::TokenClaims, executor::TokenFault> Verify(std::string_view token,
                                                                   executor::TokenUse use) override;
  Instant Ceiling(Instant opened_at) const override;

 private:
  JwtIssuer(JwtOptions options, std::shared_ptr<KeyRing> keys, Clock& clock);
  Result<executor::TokenClaims> StartClaims(const model::AttemptKey& attempt, int try_no,
                                            Duration valid) const;
  std::string Sign(const executor::TokenClaims& claims) const;
  /// When a working token that is made at `now` ends.
  Instant WorkEnd(Instant now, Instant opened_at) const;
  bool AtCeiling(Instant now, Instant opened_at) const;

  const JwtOptions options_;
  Clock& clock_;
  const std::shared_ptr<KeyRing> keys_;
};

}  // namespace headworks::token
