#include <gtest/gtest.h>

#include <limits>

#include "headworks/metrics/family.h"

namespace headworks::metrics {
namespace {

TEST(PrometheusText, SamplesStandBelowHelpAndType) {
  const std::vector<Family> families = {
      {"a_total", Type::kCounter, "How many.", {{{}, 3, {}}}},
      {"b", Type::kGauge, "How\nmuch \\ \"now\".", {{{{"x", "1"}, {"y", "2"}}, 0.5, {}}}},
      {"c", Type::kGauge, "None.", {}}};
  EXPECT_EQ(PrometheusText(families),
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n"
            "# HELP b How\\nmuch \\\\ \"now\".\n# TYPE b gauge\nb{x=\"1\",y=\"2\"} 0.5\n"
            "# HELP c None.\n# TYPE c gauge\n");
}

TEST(PrometheusText, LabelsAreEscaped) {
  const Family family{"a", Type::kGauge, "h", {{{{"x", "q\" b\\ n\n \xc3\xa9"}}, 1, {}}}};
  EXPECT_EQ(PrometheusText({&family, 1}),
            "# HELP a h\n# TYPE a gauge\na{x=\"q\\\" b\\\\ n\\n \xc3\xa9\"} 1\n");
}

TEST(PrometheusText, BucketsAreCumulative) {
  static constexpr double kBounds[] = {0.5, 10};
  Histogram histogram(kBounds);
  for (const double value : {0.25, 0.25, 3.0, 100.0}) histogram.Observe(value);
  const Family family{"h_seconds", Type::kHistogram, "h", {{{{"x", "1"}}, 0, histogram}}};
  EXPECT_EQ(PrometheusText({&family, 1}),
            "# HELP h_seconds h\n# TYPE h_seconds histogram\n"
            "h_seconds_bucket{x=\"1\",le=\"0.5\"} 2\n"
            "h_seconds_bucket{x=\"1\",le=\"10\"} 3\n"
            "h_seconds_bucket{x=\"1\",le=\"+Inf\"} 4\n"
            "h_seconds_sum{x=\"1\"} 103.5\n"
            "h_seconds_count{x=\"1\"} 4\n");
}

TEST(PrometheusText, NumbersReadBack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Family family{"a",
                      Type::kGauge,
                      "h",
                      {{{}, 9007199254740993.0, {}},
                       {{}, 1e21, {}},
                       {{}, 1e-7, {}},
                       {{}, kInfinity, {}},
                       {{}, -kInfinity, {}},
                       {{}, std::numeric_limits<double>::quiet_NaN(), {}}}};
  const std::string text = PrometheusText({&family, 1});
  for (const char* line : {"\na 9007199254740992\n", "\na 1e+21\n", "\na 1e-07\n", "\na +Inf\n",
                           "\na -Inf\n", "\na NaN\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace headworks::metrics
