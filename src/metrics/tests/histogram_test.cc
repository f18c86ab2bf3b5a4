#include "headworks/metrics/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace headworks::metrics {
namespace {

constexpr double kBounds[] = {1, 10};

std::vector<std::uint64_t> Buckets(const Histogram& histogram) {
  return {histogram.buckets().begin(), histogram.buckets().end()};
}

TEST(Histogram, BoundIsInclusive) {
  Histogram histogram(kBounds);
  for (const double value : {0.0, 1.0, 1.001, 10.0, 10.001, 1e300, -1.0}) histogram.Observe(value);
  EXPECT_EQ(Buckets(histogram), (std::vector<std::uint64_t>{3, 2, 2}));
  EXPECT_EQ(histogram.count(), 7U);
}

TEST(Histogram, DurationsCountInSeconds) {
  Histogram histogram(kBounds);
  histogram.Observe(std::chrono::milliseconds(1'500));
  histogram.Observe(std::chrono::seconds(1));
  EXPECT_EQ(Buckets(histogram), (std::vector<std::uint64_t>{1, 1, 0}));
  EXPECT_DOUBLE_EQ(histogram.sum(), 2.5);
}

TEST(Histogram, CopyStaysAsItWas) {
  Histogram histogram(kBounds);
  const Histogram before = histogram;
  histogram.Observe(1);
  EXPECT_EQ(before.count(), 0U);
}

TEST(Histogram, HasAsManyBoundsAsItSaysAndNoMore) {
  std::vector<double> bounds(Histogram::kMostBounds);
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>(i);
  Histogram histogram(bounds);
  histogram.Observe(static_cast<double>(Histogram::kMostBounds));
  EXPECT_EQ(histogram.bounds().size(), Histogram::kMostBounds);
  EXPECT_EQ(histogram.buckets().back(), 1U);
  bounds.push_back(static_cast<double>(Histogram::kMostBounds));
  EXPECT_DEATH(Histogram{bounds}, "kMostBounds");
}

TEST(Histogram, StandardBoundsRiseAndFit) {
  for (const std::span<const double> bounds :
       {std::span<const double>(kAnswerSeconds), std::span<const double>(kTaskSeconds)}) {
    EXPECT_LE(bounds.size(), Histogram::kMostBounds);
    EXPECT_TRUE(std::ranges::is_sorted(bounds, std::ranges::less_equal()));
  }
}

}  // namespace
}  // namespace headworks::metrics
