#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/metrics/histogram.h"

namespace headworks::metrics {

enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };

/// "counter", "gauge", "histogram".
std::string_view TypeName(Type type);

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;
  double value = 0;
  /// kHistogram only, instead of `value`.
  std::optional<Histogram> histogram;
};

/// One metric: all its samples at one moment.
struct Family {
  std::string_view name;
  Type type = Type::kGauge;
  std::string_view help;
  std::vector<Sample> samples;
};

/// The text exposition format of Prometheus, version 0.0.4.
std::string PrometheusText(std::span<const Family> families);
inline constexpr std::string_view kPrometheusContentType =
    "text/plain; version=0.0.4; charset=utf-8";

}  // namespace headworks::metrics
