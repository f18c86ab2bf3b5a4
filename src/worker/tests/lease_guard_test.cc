#include "lease_guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

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

class StandingClock final : public Clock {
 public:
  Instant Now() override { return Instant(); }
  Duration Monotonic() override {
    ++looks;
    return Duration(us_);
  }
  void Advance(Duration by) { us_ += by.count(); }
  /// How often it was looked at.
  std::atomic<int> looks = 0;

 private:
  std::atomic<std::int64_t> us_ = 0;
};

/// One whose clock stands still until the test moves it.
class Guard : public testing::Test {
 protected:
  /// What it ended for, in order; waits for one more.
  std::string Next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [this] { return !whys_.empty(); }));
    if (whys_.empty()) return "";
    std::string why = std::move(whys_.front());
    whys_.pop_front();
    return why.substr(0, why.find(" did"));
  }

  StandingClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> whys_;  // guarded by mutex_
  LeaseGuard guard_{clock_, [this](const std::string& why) {
                      const std::scoped_lock lock(mutex_);
                      whys_.push_back(why);
                      changed_.notify_all();
                    }};
};

TEST_F(Guard, EndsTheProgramWhenOneIsNotClearedInTime) {
  const Duration begin = clock_.Monotonic();
  guard_.Add(Key(1), begin + 200ms);
  guard_.Add(Key(2), begin + 100ms);
  guard_.Add(Key(3), begin + 60s);
  guard_.Move(Key(2), begin + 60s);
  guard_.Move(Key(4), begin);  // nobody's
  clock_.Advance(200ms);
  EXPECT_EQ(Next(), "a function of run 1");
  // What is past is at once, and what ends earlier is first.
  guard_.Move(Key(3), begin + 100ms);
  EXPECT_EQ(Next(), "a function of run 3");
  guard_.Move(Key(2), Duration(0));
  EXPECT_EQ(Next(), "a function of run 2");
}

TEST_F(Guard, WhatIsClearedMayNotBeMoved) {
  const Duration begin = clock_.Monotonic();
  guard_.Add(Key(1), begin + 50ms);
  guard_.Clear(Key(1));
  guard_.Move(Key(1), Duration(0));
  guard_.Add(Key(2), begin + 100ms);
  clock_.Advance(100ms);
  EXPECT_EQ(Next(), "a function of run 2");
  const std::scoped_lock lock(mutex_);
  EXPECT_TRUE(whys_.empty());
}

TEST(LeaseGuard, HeartbeatsDoNotWakeIt) {
  StandingClock clock;
  LeaseGuard guard(clock, [](const std::string&) { FAIL(); });
  const Duration begin = SystemClock().Monotonic();
  for (int beat = 0; beat < 100; ++beat)
    for (int run = 0; run < 100; ++run) {
      if (beat == 0)
        guard.Add(Key(run), 3600s);
      else
        guard.Move(Key(run), 3600s + std::chrono::seconds(beat));
    }
  // Each second, and before the first wait.
  EXPECT_LE(clock.looks, 2 + (SystemClock().Monotonic() - begin) / 1s);
}

TEST(LeaseGuardDeathTest, SaysWhyItEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        SystemClock clock;
        LeaseGuard guard(clock, {});
        guard.Add(Key(7), Duration(0));
        pause();
      },
      testing::ExitedWithCode(5), "headworks: a function of run 7 did not stop in time");
}

}  // namespace
}  // namespace headworks::worker
