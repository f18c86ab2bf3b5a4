#include <algorithm>
#include <array>
#include <thread>

#include "headworks/executor_conformance/harness.h"

namespace headworks::executor::conformance {
namespace {

using model::Disposition;
using model::Verdict;

TEST_P(Conformance, AnAttemptEndsOnceWithItsVerdict) {
  const Attempt attempt = Next(harness_->Succeeds());
  Offer(attempt);
  EXPECT_EQ(sink_.AwaitEnded(attempt.key).verdict, Verdict::kSucceeded);
  EXPECT_LE(sink_.starts(attempt.key), 1) << "who has ended need not say that it had started";
  EXPECT_EQ(sink_.ends(attempt.key), 1);
}

TEST_P(Conformance, AFailureSaysWhy) {
  const Attempt attempt = Next(harness_->Fails());
  Offer(attempt);
  const model::Outcome outcome = sink_.AwaitEnded(attempt.key);
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_NE(outcome.reason, model::Reason::kNone);
  EXPECT_FALSE(outcome.error.empty());
}

TEST_P(Conformance, AnEpochRunsOnceHoweverOftenAndFromHoweverManyThreadsItIsOffered) {
  const Attempt attempt = Next(harness_->Waits());
  {
    std::vector<std::jthread> threads;
    threads.reserve(8);
    for (int t = 0; t < 8; ++t) threads.emplace_back([&] { Offer(attempt); });
  }
  sink_.AwaitStarted(attempt.key);
  Offer(attempt);
  EXPECT_EQ(executor().List(), std::vector{attempt.key});
  EXPECT_EQ(executor().GetCapacity().used, 1U);
  executor().Cancel(attempt.key);
  sink_.AwaitEnded(attempt.key);
  EXPECT_EQ(sink_.starts(attempt.key), 1);
  EXPECT_EQ(sink_.ends(attempt.key), 1);
}

TEST_P(Conformance, WhatIsAskedAboutIsAnsweredInThatOrder) {
  const Attempt ended = Next(harness_->Succeeds());
  Offer(ended);
  sink_.AwaitEnded(ended.key);
  const Attempt running = Wait();
  const Attempt unknown = Next(harness_->Succeeds());
  const std::array asked{unknown, ended, running};
  const auto answers = executor().Inspect(asked);
  ASSERT_TRUE(answers) << answers.error().message;
  ASSERT_EQ(answers->size(), 3U);
  EXPECT_TRUE(std::holds_alternative<Absent>((*answers)[0]));
  ASSERT_TRUE(std::holds_alternative<Ended>((*answers)[1]));
  EXPECT_EQ(std::get<Ended>((*answers)[1]).outcome.verdict, Verdict::kSucceeded);
  EXPECT_TRUE(std::holds_alternative<Running>((*answers)[2]));
}

TEST_P(Conformance, AVerdictIsKeptUntilItIsSettled) {
  const Attempt attempt = Next(harness_->Succeeds());
  Offer(attempt);
  sink_.AwaitEnded(attempt.key);
  EXPECT_TRUE(std::holds_alternative<Ended>(Inspect(attempt)));
  EXPECT_TRUE(std::holds_alternative<Ended>(Inspect(attempt))) << "asking does not use it up";
  executor().Settled({&attempt.key, 1});
  EXPECT_TRUE(std::holds_alternative<Absent>(Inspect(attempt)));
  executor().Settled({&attempt.key, 1});
}

TEST_P(Conformance, ACancelStopsWhatRunsAndNothingElse) {
  const Attempt stopped = Wait();
  const Attempt other = Wait();
  executor().Cancel(Next(harness_->Waits()).key);  // never offered
  executor().Cancel(stopped.key);
  executor().Cancel(stopped.key);
  EXPECT_EQ(sink_.AwaitEnded(stopped.key).verdict, Verdict::kCancelled);
  executor().Cancel(stopped.key);  // over
  EXPECT_TRUE(std::holds_alternative<Running>(Inspect(other)));
  EXPECT_EQ(executor().List(), std::vector{other.key});
  executor().Cancel(other.key);
  sink_.AwaitEnded(other.key);
  EXPECT_EQ(sink_.ends(stopped.key), 1);
}

TEST_P(Conformance, WhatHasNoPlaceIsDeferredUntilThereIsOne) {
  const std::uint32_t max = executor().GetCapacity().max;
  ASSERT_GT(max, 0U);
  ASSERT_LE(max, 64U) << "a harness whose executor is small fills it sooner";
  std::vector<Attempt> taken;
  for (std::uint32_t i = 0; i < max; ++i) {
    taken.push_back(Next(harness_->Waits()));
    Offer(taken.back());
  }
  EXPECT_EQ(executor().GetCapacity().free(), 0U);
  const Attempt last = Next(harness_->Succeeds());
  const OfferResult full = executor().Offer(last);
  EXPECT_EQ(full.disposition, Disposition::kDeferred);
  EXPECT_EQ(full.error, DispatchError::kNoCapacity);
  EXPECT_FALSE(full.cause.empty());
  EXPECT_TRUE(std::holds_alternative<Absent>(Inspect(last))) << "nothing was attempted";
  const int told = sink_.capacity_changes();
  sink_.AwaitStarted(taken[0].key);
  executor().Cancel(taken[0].key);
  sink_.AwaitEnded(taken[0].key);
  sink_.AwaitCapacity(told + 1);
  EXPECT_EQ(executor().GetCapacity().free(), 1U);
  Offer(last);
  for (const Attempt& attempt : taken) executor().Cancel(attempt.key);
  EXPECT_EQ(sink_.AwaitEnded(last.key).verdict, Verdict::kSucceeded);
}

TEST_P(Conformance, ADrainInterruptsWhatIsThereAndTakesNothingMore) {
  const std::uint32_t max = executor().GetCapacity().max;
  std::vector<Attempt> taken{Wait()};
  while (taken.size() < max) {  // some of them may not have begun
    taken.push_back(Next(harness_->Waits()));
    Offer(taken.back());
  }
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        const Status drained = executor().Drain(Duration(0));
        EXPECT_TRUE(drained) << drained.error().message;
      });
  }
  for (const Attempt& attempt : taken) {
    EXPECT_EQ(sink_.AwaitEnded(attempt.key).verdict, Verdict::kInterrupted);
    EXPECT_EQ(sink_.ends(attempt.key), 1);
  }
  EXPECT_TRUE(executor().List().empty());
  const OfferResult closed = executor().Offer(Next(harness_->Succeeds()));
  EXPECT_EQ(closed.disposition, Disposition::kDeferred);
  EXPECT_EQ(closed.error, DispatchError::kNoCapacity);
  EXPECT_TRUE(executor().Drain(Duration(0)));
}

TEST_P(Conformance, FiguresFollowWhatHappens) {
  EXPECT_EQ(executor().GetMetrics().executed, 0U);
  const Attempt running = Wait();
  const Metrics busy = executor().GetMetrics();
  EXPECT_EQ(busy.active, 1U);
  EXPECT_EQ(busy.available(), busy.max - 1);
  executor().Cancel(running.key);
  sink_.AwaitEnded(running.key);
  for (model::Task task : {harness_->Succeeds(), harness_->Fails()}) {
    const Attempt attempt = Next(std::move(task));
    Offer(attempt);
    sink_.AwaitEnded(attempt.key);
  }
  const Metrics after = executor().GetMetrics();
  EXPECT_EQ(after.active, 0U);
  EXPECT_EQ(after.executed, 3U);
  EXPECT_EQ(after.failed, 1U);
  EXPECT_GT(after.mean_duration, Duration(0));
  EXPECT_GE(after.p99_duration, after.mean_duration);
}

}  // namespace
}  // namespace headworks::executor::conformance
