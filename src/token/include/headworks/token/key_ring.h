#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "headworks/base/log.h"
#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/token/token_keys.h"

namespace headworks::token {

/// The keys that are good now, while others may rotate them.
///
/// Threads.  All methods may be called concurrently.
class KeyRing {
 public:
  /// A file is looked at so often at most.
  static constexpr Duration kLookEvery = std::chrono::seconds(1);

  /// These, until Set.
  explicit KeyRing(TokenKeys keys);
  /// Those of a file, which is made if it is missing, and read again once another stands there.
  /// One that cannot be read is complained about, and changes nothing.  The ports are borrowed.
  static Result<std::shared_ptr<KeyRing>> Open(std::string path, Random& random, Clock& clock,
                                               Logger& log);

  ~KeyRing();

  std::shared_ptr<const TokenKeys> keys();
  void Set(TokenKeys keys);

 private:
  struct File;
  KeyRing(std::unique_ptr<File> file, TokenKeys keys);
  void Look();

  std::mutex mutex_;
  std::shared_ptr<const TokenKeys> keys_;  // shared with calls under way while it is replaced
  const std::unique_ptr<File> file_;       // null = none
};

}  // namespace headworks::token
