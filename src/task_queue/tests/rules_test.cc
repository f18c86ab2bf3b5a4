#include "headworks/task_queue/rules.h"

#include <gtest/gtest.h>

#include "headworks/task_queue/bell.h"

namespace headworks::task_queue {
namespace {

using std::chrono::seconds;

QueueTime At(Duration time, std::int64_t boot = 1) { return {Instant(time), time, boot}; }

TEST(TokenBucket, NeverLetsThroughMoreThanItsRateOverALongTime) {
  for (const auto [count, per] : {std::pair<std::int64_t, Duration>{3, seconds(10)},
                                  {7, seconds(1)},
                                  {700'000, seconds(1)},
                                  {1'000'000, std::chrono::hours(24)}}) {
    QueueRow queue;
    queue.record.settings.rate = RateLimit{count, per};
    std::int64_t taken = 0;
    const Duration step(per.count() / 997 + 13);
    Duration now(1);
    for (int i = 0; i < 5'000; ++i, now += step) {
      const std::int64_t allowed = AllowedClaims(queue, count, At(now));
      queue.tokens -= allowed;
      taken += allowed;
    }
    const double earned = static_cast<double>(count) *
                          (static_cast<double>(now.count()) / static_cast<double>(per.count()));
    EXPECT_LE(static_cast<double>(taken), static_cast<double>(count) + earned);
    EXPECT_GE(static_cast<double>(taken), earned * 0.99);
  }
}

TEST(TokenBucket, IsFullAfterABootAndAfterTheRateWasLowered) {
  QueueRow queue;
  queue.record.settings.rate = RateLimit{5, seconds(10)};
  EXPECT_EQ(AllowedClaims(queue, 100, At(seconds(1'000))), 5);
  queue.tokens = 0;
  EXPECT_EQ(AllowedClaims(queue, 100, At(seconds(1'000))), 0);
  EXPECT_EQ(AllowedClaims(queue, 100, At(seconds(1), 2)), 5);
  queue.record.settings.rate = RateLimit{2, seconds(10)};
  EXPECT_EQ(AllowedClaims(queue, 100, At(seconds(1), 2)), 2);
}

TEST(Claim, ParsesWhatItFormatsAndNothingElse) {
  EXPECT_EQ(ParseClaim("17-42").value(), (Claim{ItemNo(17), ClaimNo(42)}));
  for (const char* const bad : {"", "17", "17-", "-42", "0-1", "1-0", "17-42x", "017-42", "17--42",
                                "a-b", "99999999999999999999-1"}) {
    EXPECT_FALSE(ParseClaim(bad)) << bad;
  }
}

TEST(Bell, WhoeverAwaitsWaitersIsToldToStopAlthoughSomebodyWaits) {
  Bell bell;
  const Bell::Seat seat(bell, TenantId("acme"), "q");
  std::stop_source stop;
  EXPECT_TRUE(bell.AwaitWaiters(stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(bell.AwaitWaiters(stop.get_token()));
}

TEST(Bell, WhatWokeOneThatLeavesIsLeftForTheNext) {
  Bell bell;
  const TenantId tenant("t");
  auto first = std::make_unique<Bell::Seat>(bell, tenant, "q");
  Bell::Seat second(bell, tenant, "q");
  Bell::Seat other(bell, tenant, "p");
  bell.Ring(tenant, "q", 1);
  EXPECT_FALSE(second.Wait(Duration(1), {}));
  first.reset();
  EXPECT_TRUE(second.Wait(Duration(1), {}));
  EXPECT_FALSE(second.Wait(Duration(1), {}));  // heard once
  EXPECT_FALSE(other.Wait(Duration(1), {}));
  bell.Ring(tenant, "p", 5);
  EXPECT_TRUE(other.Wait(std::chrono::minutes(1), {}));
  EXPECT_EQ(bell.Waited().size(), 2U);
}

}  // namespace
}  // namespace headworks::task_queue
