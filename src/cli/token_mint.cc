#include "token_mint.h"

#include <utility>

#include "headworks/token/token_keys.h"

namespace headworks::cli {

Result<std::unique_ptr<TokenMint>> TokenMint::Open(std::string keys_file,
                                                   token::WorkerClaims claims, Clock& clock,
                                                   Random& random) {
  HEADWORKS_TRY(token::TokenKeys::LoadOrCreate(keys_file, random));
  std::unique_ptr<TokenMint> mint(new TokenMint(std::move(keys_file), std::move(claims), clock));
  const std::scoped_lock lock(mint->mutex_);
  HEADWORKS_TRY(mint->Make(clock.Now()));
  return mint;
}

std::string TokenMint::Get() {
  const std::scoped_lock lock(mutex_);
  const Instant now = clock_.Now();
  // A clock that was set back would make it one of the future.
  const bool fresh = now >= made_at_ && now < made_at_ + kValid / 2;
  if (!fresh || FileStamp::Of(keys_file_) != stamp_)
    (void)Make(now).has_value();  // without keys the last one: whoever refuses it says why
  return token_;
}

Status TokenMint::Make(Instant now) {
  const FileStamp stamp = FileStamp::Of(keys_file_);
  HEADWORKS_ASSIGN(auto keys, token::TokenKeys::Load(keys_file_));
  HEADWORKS_ASSIGN(token_, token::WorkerTokens(std::move(keys), clock_).Mint(claims_, kValid));
  stamp_ = stamp;
  made_at_ = now;
  return {};
}

}  // namespace headworks::cli
