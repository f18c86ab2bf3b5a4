#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/base/result.h"

namespace headworks::token {

/// The keys that tokens are signed with: the first signs, all verify.  During a rotation there are
/// two, so that what the old one signed stays good until the next rotation.
///
/// A file is a JWK Set (RFC 7517) of `oct` keys for HS256, readable by its owner alone.  Whoever
/// can read it can make any token: no error, log line or message contains a key.
/// Errors.  kPermissionDenied: others may read the file.  kInvalidArgument: what it contains.
///   kNotFound, kUnavailable: the file itself.
class TokenKeys {
 public:
  static constexpr std::size_t kMostKeys = 2;
  /// HMAC-SHA256 needs a key of at least its own length (RFC 7518, section 3.2).
  static constexpr std::size_t kLeastBytes = 32;
  static constexpr std::size_t kMostBytes = 64;

  struct Key {
    std::string id;
    std::string secret;
    Key(std::string name, std::string bytes) : id(std::move(name)), secret(std::move(bytes)) {}
    Key(const Key&) = default;
    Key& operator=(const Key&) = default;
    ~Key();  // overwrites the secret
  };

  /// One key, nowhere but in memory.
  static TokenKeys Generate(Random& random);
  static Result<TokenKeys> Parse(std::string_view jwk_set);
  static Result<TokenKeys> Load(const std::string& path);
  /// A file that is not there is made.  Of several processes that do so at once, one makes it.
  static Result<TokenKeys> LoadOrCreate(const std::string& path, Random& random);
  /// Puts a new key first and keeps the one that signed until now.  One process at a time; the
  /// others load the file again.
  static Result<TokenKeys> Rotate(const std::string& path, Random& random);

  const Key& signing() const { return keys_.front(); }
  /// nullptr: not known.
  const Key* Find(std::string_view id) const;

 private:
  explicit TokenKeys(std::vector<Key> keys) : keys_(std::move(keys)) {}
  std::string ToJwkSet() const;

  std::vector<Key> keys_;  // 1 to kMostKeys
};

}  // namespace headworks::token
