#pragma once

#include <array>
#include <cstdint>

#include "headworks/base/time.h"

namespace headworks::executor {

/// Counts durations in buckets that are an eighth of a power of two wide, so that a quantile is
/// at most 12.5 % too high.  One thread at a time.
class DurationHistogram {
 public:
  void Add(Duration duration);
  std::uint64_t count() const { return count_; }
  /// Zero while empty.
  Duration Mean() const;
  /// The upper end of the bucket that holds the `share` quantile (0 to 1).
  Duration Quantile(double share) const;

 private:
  std::array<std::uint64_t, 512> buckets_{};  // 64 powers, eight each
  std::uint64_t count_ = 0;
  std::uint64_t sum_us_ = 0;
};

}  // namespace headworks::executor
