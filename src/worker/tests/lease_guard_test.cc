#include "lease_guard.h"

#include <gtest/gtest.h>

#include <future>

namespace headworks::worker {
namespace {

using namespace std::chrono_literals;

model::AttemptKey Key(std::int64_t run) {
  return {.tenant = TenantId("t"),
          .run = RunNo(run),
          .task = TaskNo(0),
          .map_index = -1,
          .epoch = Epoch(1)};
}

TEST(LeaseGuard, EndsTheProgramWhenOneIsNotClearedInTime) {
  SystemClock clock;
  std::promise<std::string> ended;
  LeaseGuard guard(clock, [&](const std::string& why) { ended.set_value(why); });
  const Duration begin = clock.Monotonic();
  guard.Add(Key(1), begin + 200ms);
  guard.Add(Key(2), begin + 100ms);
  guard.Add(Key(3), begin + 60s);
  guard.Move(Key(2), begin + 60s);
  guard.Move(Key(4), begin);  // nobody's
  auto why = ended.get_future();
  ASSERT_EQ(why.wait_for(60s), std::future_status::ready);
  EXPECT_GE(clock.Monotonic() - begin, 200ms);
  EXPECT_EQ(why.get(),
            "a function of run 1 did not stop in time, and another worker may begin it: this "
            "program ends");
}

TEST(LeaseGuard, WhatIsClearedMayNotBeMoved) {
  SystemClock clock;
  std::atomic<int> ended = 0;
  std::promise<void> last;
  LeaseGuard guard(clock, [&](const std::string& why) {
    ++ended;
    if (why.find("run 2") != std::string::npos) last.set_value();
  });
  guard.Add(Key(1), clock.Monotonic() + 50ms);
  guard.Clear(Key(1));
  guard.Move(Key(1), Duration(0));
  guard.Add(Key(2), clock.Monotonic() + 100ms);
  ASSERT_EQ(last.get_future().wait_for(60s), std::future_status::ready);
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace headworks::worker
