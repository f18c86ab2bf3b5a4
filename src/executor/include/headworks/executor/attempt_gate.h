#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/executor/token_issuer.h"

namespace headworks::executor {

struct AttemptGateOptions {
  /// As of the engine: a start token is good for start_timeout and this.
  Duration pending_timeout = std::chrono::hours(1);
  /// A heartbeat renews a working token that ends within this.
  Duration renew_before = std::chrono::minutes(5);
  /// An attempt is told to stop so long before its tokens end for good, so that it can still say
  /// how it ended: longer than any task's `grace`.
  Duration stop_before_ceiling = std::chrono::minutes(1);
};

/// Where the words of attempts come in that run elsewhere: the token says in whose name, the engine
/// judges (I3, I5), and the answer carries the token for what is said next.
///
/// Tokens.  The one of the start opens the gate and nothing else.  Whoever was let in holds the
///   working token, which a heartbeat renews once it proved that the attempt lives, up to the
///   issuer's ceiling.  Then it is to stop, and ends as `credential_ceiling`.  A holder whose
///   token has ended is not heard any more; it stops its code by its own clock.
/// Threads.  All methods may be called concurrently.
/// Errors.  kPermissionDenied: the token, with its fault by name.  It is safe to pass on.
class AttemptGate {
 public:
  struct Answer {
    Reply reply = Reply::kAskAgain;
    /// For all that is said from now on; empty = as before.
    std::string token{};
  };
  using Callback = std::function<void(Result<Answer>)>;

  /// All of them are borrowed, and called from the threads of whoever calls.  `clock` is the one
  /// that the issuer goes by.
  AttemptGate(AttemptGateOptions options, TokenIssuer& issuer, Clock& clock)
      : options_(options), issuer_(issuer), clock_(clock) {}

  /// The start token of an attempt that is handed out.
  Result<std::string> Admit(const Attempt& attempt);
  /// Whether Admit makes one.  An error makes the offer kRejected.
  Status CheckAdmission(const Attempt& attempt) const;
  /// `holder` would begin.  `done` is called as AttemptSink::Hear calls its reply.
  void Open(AttemptSink& sink, std::string_view start_token, std::string holder, Callback done);
  /// Any other word of the holder that the working token names.  `outcome` of kVerdict.
  void Say(AttemptSink& sink, std::string_view work_token, Word::Kind kind, model::Outcome outcome,
           Callback done);

 private:
  Duration StartValid(const Attempt& attempt) const;
  /// It is to stop, for its tokens will end.
  bool NearCeiling(const TokenClaims& work) const;

  const AttemptGateOptions options_;
  TokenIssuer& issuer_;
  Clock& clock_;
};

}  // namespace headworks::executor
