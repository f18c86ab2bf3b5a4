#include "headworks/executor/duration_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace headworks::executor {
namespace {

/// Below 8 µs each value has its own bucket; above, the three bits after the first pick one.
std::size_t BucketOf(std::uint64_t us) {
  if (us < 8) return us;
  const auto power = static_cast<unsigned>(std::bit_width(us)) - 1;
  return (power - 2) * std::size_t{8} + ((us >> (power - 3)) & 7);
}

std::uint64_t UpperEnd(std::size_t bucket) {
  if (bucket < 8) return bucket;
  const std::size_t power = bucket / 8 + 2;
  return ((bucket % 8 + 9) << (power - 3)) - 1;
}

}  // namespace

void DurationHistogram::Add(Duration duration) {
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count()));
  ++buckets_[BucketOf(us)];
  ++count_;
  sum_us_ += us;
}

Duration DurationHistogram::Mean() const {
  return Duration(count_ == 0 ? 0 : static_cast<std::int64_t>(sum_us_ / count_));
}

Duration DurationHistogram::Quantile(double share) const {
  auto rest = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  for (std::size_t bucket = 0; rest > 0 && bucket < buckets_.size(); ++bucket) {
    if (buckets_[bucket] >= rest) return Duration(static_cast<std::int64_t>(UpperEnd(bucket)));
    rest -= buckets_[bucket];
  }
  return Duration{0};
}

}  // namespace headworks::executor
