#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "headworks/base/check.h"
#include "headworks/base/time.h"

namespace headworks::metrics {

/// Counts values by upper bounds, each inclusive, as Prometheus does.  A plain value, of fixed
/// size: whoever owns it counts, and copies of it are given away.
class Histogram {
 public:
  static constexpr std::size_t kMostBounds = 16;

  /// `bounds` rise, are at most kMostBounds, and outlive all copies.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {
    HEADWORKS_CHECK(bounds.size() <= kMostBounds);
  }

  void Observe(double value);
  /// In seconds.
  void Observe(Duration duration) { Observe(std::chrono::duration<double>(duration).count()); }

  std::span<const double> bounds() const { return bounds_; }
  /// Not cumulative.  The last one is that of values above all bounds.
  std::span<const std::uint64_t> buckets() const {
    return std::span(buckets_).first(bounds_.size() + 1);
  }
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::array<std::uint64_t, kMostBounds + 1> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

/// 0.1 ms to 10 s: what a disk or a platform takes to answer.
inline constexpr double kAnswerSeconds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                            0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                            1,      2.5,     5,      10};
/// 1 ms to 6 h: what a task takes.
inline constexpr double kTaskSeconds[] = {0.001, 0.005, 0.025, 0.1, 0.25, 0.5,   1,     2.5,
                                          5,     15,    60,    300, 900,  3'600, 7'200, 21'600};

}  // namespace headworks::metrics
