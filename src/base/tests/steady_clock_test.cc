#include "headworks/base/steady_clock.h"

#include <gtest/gtest.h>

namespace headworks {
namespace {

using namespace std::chrono_literals;

class SettableClock final : public Clock {
 public:
  Instant wall{1'000s};
  Duration passed = 5s;
  Instant Now() override { return wall; }
  Duration Monotonic() override { return passed; }
};

TEST(SteadyClock, FollowsTimeAndNoHand) {
  SettableClock clock;
  SteadyClock steady(clock);
  EXPECT_EQ(steady.Now(), Instant(1'000s));
  clock.wall = Instant(9'000s);  // somebody set it
  EXPECT_EQ(steady.Now(), Instant(1'000s));
  clock.passed += 7s;
  EXPECT_EQ(steady.Now(), Instant(1'007s));
  EXPECT_EQ(steady.Monotonic(), 12s);
}

}  // namespace
}  // namespace headworks
