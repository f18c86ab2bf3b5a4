#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/model/attempt.h"

/// What an attempt that runs elsewhere proves itself with.
namespace headworks::executor {

/// What a token opens.
enum class TokenUse : std::uint8_t {
  /// The start gate of one attempt (I5), nothing else.
  kStart = 1,
  /// That attempt's own calls, by the holder that the gate let in.
  kWork = 2,
};

/// Why a token is refused.  None of them says anything about what the token claims: until its
/// signature holds, that is what a stranger wrote.
enum class TokenFault : std::uint8_t {
  /// No JWT, too long, or without a claim that it must have.
  kMalformed = 1,
  /// Signed by another algorithm than its key is for, or by none.
  kAlgorithm,
  /// Signed with a key that is not, or no longer, known here.
  kUnknownKey,
  kBadSignature,
  /// Good, but for the other use or for somebody else.
  kWrongUse,
  /// The clocks of two hosts differ by more than is allowed.
  kNotYetValid,
  kExpired,
  /// A working token that was renewed for as long as it may be.  The attempt is over.
  kCeiling,
};

/// "malformed", ..., "credential_ceiling".
std::string_view TokenFaultName(TokenFault fault);
/// kPermissionDenied, with what to do about it.
Error ToError(TokenFault fault);

struct TokenClaims {
  TokenUse use = TokenUse::kStart;
  model::AttemptKey attempt;
  int try_no = 1;
  /// kWork: who claimed the start.  Otherwise empty.
  std::string holder;
  /// In whole seconds, like all times of a token.
  Instant issued_at;
  /// The first instant at which it is refused.
  Instant expires_at;
  /// kWork: when the gate opened; the ceiling counts from here.
  Instant opened_at;

  bool operator==(const TokenClaims&) const = default;
};

/// Makes and checks the two tokens of an attempt: one that opens its start gate, and one that the
/// gate answers with.  A token is as good as the right it stands for: it is never logged and never
/// part of a command line.
///
/// Threads.  All methods may be called concurrently.
/// Errors.  Minting: kInvalidArgument names the claim that Verify would not take; the offer is then
///   kRejected.
class TokenIssuer {
 public:
  virtual ~TokenIssuer() = default;

  /// For an attempt that is handed out.  `valid`: start_timeout + pending_timeout.
  virtual Result<std::string> MintStart(const model::AttemptKey& attempt, int try_no,
                                        Duration valid) = 0;
  /// Whether MintStart makes one, without making it: most attempts wait before one is needed.
  virtual Status CheckStart(const model::AttemptKey& attempt, int try_no, Duration valid) const = 0;
  /// The answer of the gate, which let `holder` in by the verified claims `start`.  `opened_at`:
  /// when it did so first; a gate that answers the same holder again passes the same, so that the
  /// ceiling stays where it was.  kPermissionDenied: that is reached.
  virtual Result<std::string> MintWork(const TokenClaims& start, std::string_view holder,
                                       Instant opened_at) = 0;
  /// For a heartbeat that proved liveness; `work` are its verified claims.  kCeiling: never again.
  virtual tl::expected<std::string, TokenFault> Renew(const TokenClaims& work) = 0;
  virtual tl::expected<TokenClaims, TokenFault> Verify(std::string_view token, TokenUse use) = 0;
  /// When working tokens of an attempt whose gate opened then end for good; kNever = renewed for as
  /// long as it lives.
  virtual Instant Ceiling(Instant opened_at) const = 0;
};

}  // namespace headworks::executor
