#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/token_issuer.h"
#include "headworks/token/key_ring.h"

namespace headworks::token {

/// What the bearer of a worker token may do.
struct WorkerClaims {
  TenantId tenant;
  /// The name that its worker has, 1 to 64 of [A-Za-z0-9_-]; with "*" at its end, alone too, any
  /// that begins so.
  std::string worker = "*";
  /// That it may serve, at most 64; empty = any.
  std::vector<std::string> queues;
  /// In whole seconds.
  Instant issued_at;
  /// The first instant at which it is refused.
  Instant expires_at;

  bool operator==(const WorkerClaims&) const = default;
};

/// Makes and checks what a worker connects with: a JWT like those of attempts, for the audience
/// "headworks:worker", with the claims tenant, worker and queues.  Good for connecting and for
/// nothing that an attempt says.
///
/// Threads.  All methods may be called concurrently.
class WorkerTokens {
 public:
  /// `clock` is borrowed.  That of the host that made a token may be 5 s ahead of it.
  WorkerTokens(std::shared_ptr<KeyRing> keys, Clock& clock);
  WorkerTokens(TokenKeys keys, Clock& clock)
      : WorkerTokens(std::make_shared<KeyRing>(std::move(keys)), clock) {}

  /// Good for `valid` from now on, rounded up to seconds.  kInvalidArgument names the claim that
  /// Verify would not take.
  Result<std::string> Mint(WorkerClaims claims, Duration valid) const;
  tl::expected<WorkerClaims, executor::TokenFault> Verify(std::string_view token) const;

 private:
  const std::shared_ptr<KeyRing> keys_;
  Clock& clock_;
};

/// kPermissionDenied, with the fault's name and what to do about it.
Error RefusalOfWorker(executor::TokenFault fault);

}  // namespace headworks::token
