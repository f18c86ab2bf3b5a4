#include "headworks/base/time.h"

#include <gtest/gtest.h>

namespace headworks {
namespace {

using namespace std::chrono_literals;

TEST(Time, ParsesSumsOfUnits) {
  EXPECT_EQ(ParseDuration("250ms").value(), 250ms);
  EXPECT_EQ(ParseDuration("1h30m").value(), 90min);
  EXPECT_EQ(ParseDuration("2d").value(), 48h);
  EXPECT_EQ(ParseDuration("0s").value(), 0s);
}

TEST(Time, RefusesAndSaysHow) {
  for (const char* text : {"", "10", "s", "-1s", "1w", "1.5s", "99999999999999999999s", "4000d"}) {
    const auto result = ParseDuration(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_NE(result.error().message.find("1h30m"), std::string::npos);
  }
  EXPECT_TRUE(ParseDuration("3653d").has_value());
  EXPECT_FALSE(ParseDuration("3653d1us").has_value());
}

TEST(Time, FormatsUtcWithSixDigits) {
  EXPECT_EQ(FormatInstant(Instant(1'700'000'000'000'007us)), "2023-11-14T22:13:20.000007Z");
  EXPECT_EQ(FormatInstant(Instant(-1us)), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(FormatInstant(Instant::min()), FormatInstant(Instant::min() + 1us));
  EXPECT_EQ(FormatInstant(Instant::max()), "294247-01-10T04:00:54.775807Z");
}

TEST(Time, FormatsDurationsForPeople) {
  EXPECT_EQ(FormatDuration(0s), "0s");
  EXPECT_EQ(FormatDuration(850ms), "850ms");
  EXPECT_EQ(FormatDuration(12'340ms), "12.3s");
  EXPECT_EQ(FormatDuration(245s), "4m05s");
  EXPECT_EQ(FormatDuration(2h + 3min), "2h03m");
}

TEST(Time, MonotonicDoesNotGoBack) {
  SystemClock clock;
  const Duration first = clock.Monotonic();
  EXPECT_GE(clock.Monotonic(), first);
}

}  // namespace
}  // namespace headworks
