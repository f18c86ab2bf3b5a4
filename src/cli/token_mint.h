#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "headworks/base/file_stamp.h"
#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/token/worker_tokens.h"

namespace headworks::cli {

/// Makes the token of a worker that can read the keys beside its engine's store, again and again,
/// so that each is good for a short time only.
///
/// Threads.  All methods may be called concurrently.
class TokenMint {
 public:
  /// Of each token.
  static constexpr Duration kValid = std::chrono::minutes(10);

  /// `keys_file` is made if it is missing; `clock` is borrowed.  Errors are those of TokenKeys, and
  /// of WorkerTokens about `claims`.
  static Result<std::unique_ptr<TokenMint>> Open(std::string keys_file, token::WorkerClaims claims,
                                                 Clock& clock, Random& random);

  /// One that is good for half of kValid at least; made with other keys once those have changed. As
  /// long as there are none, the last.
  std::string Get();

 private:
  TokenMint(std::string keys_file, token::WorkerClaims claims, Clock& clock)
      : keys_file_(std::move(keys_file)), claims_(std::move(claims)), clock_(clock) {}
  Status Make(Instant now);

  const std::string keys_file_;
  const token::WorkerClaims claims_;
  Clock& clock_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string token_;
  FileStamp stamp_;
  Instant made_at_;
};

}  // namespace headworks::cli
