#pragma once

#include <cstdint>
#include <string>

#include "headworks/base/time.h"

namespace headworks {

/// Randomness, as a port: the simulator's is seeded.
///
/// Threads.  May be called concurrently.
class Random {
 public:
  virtual ~Random() = default;
  /// 64 uniformly distributed bits.
  virtual std::uint64_t Next() = 0;
};

/// The kernel's (getrandom), pooled.
class SystemRandom final : public Random {
 public:
  std::uint64_t Next() override;
};

/// splitmix64 from a seed: the same seed gives the same sequence everywhere.  One thread.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() override;

 private:
  std::uint64_t state_;
};

/// Mixes 64 bits so that each bit of the input moves half of the output (splitmix64's finaliser).
std::uint64_t Mix64(std::uint64_t value);

/// UUID version 7 as text (RFC 9562): 48 bits of `now` in milliseconds, 74 random bits.
std::string NewUuidV7(Instant now, Random& random);

}  // namespace headworks
