#pragma once

#include <cstdint>
#include <span>

#include "headworks/base/random.h"
#include "headworks/base/time.h"

namespace headworks::sim {

/// Every choice of a schedule comes from here, so a seed replays exactly.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t Next() { return random_.Next(); }
  /// 0 to `n` - 1; `n` > 0.
  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(Next() % n); }
  bool Chance(unsigned per_mille) { return per_mille > 0 && Below(1'000) < per_mille; }
  Duration Between(Duration low, Duration high) {
    const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + Duration(static_cast<Duration::rep>(Next() % span));
  }
  template <typename T>
  const T& Pick(std::span<const T> from) {
    return from[Below(static_cast<std::uint32_t>(from.size()))];
  }

 private:
  SeededRandom random_;
};

/// A clock that moves only when it is told: the wall may jump, the monotonic one never does.
class SimClock final : public Clock {
 public:
  Instant Now() override { return wall_; }
  Duration Monotonic() override { return mono_; }

  void Advance(Duration by) {
    wall_ += by;
    mono_ += by;
  }
  void JumpWall(Duration by) { wall_ += by; }

 private:
  Instant wall_{std::chrono::hours(24 * 365 * 56)};
  Duration mono_{std::chrono::hours(1)};
};

}  // namespace headworks::sim
