#include "headworks/metrics/histogram.h"

#include <algorithm>

namespace headworks::metrics {

void Histogram::Observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++buckets_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

}  // namespace headworks::metrics
