#include "headworks/engine/due_tenants.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headworks::engine {
namespace {

using Place = DueTenants::Place;

const TenantId kA("a"), kB("b");
constexpr Instant kUntil(std::chrono::hours(1));

model::RunHeader RunOf(const TenantId& tenant, std::int64_t no, int priority = 0) {
  model::RunHeader run;
  run.tenant = tenant;
  run.run_no = RunNo(no);
  run.priority = priority;
  run.wake_at = Instant{};
  return run;
}

/// Admits all of the page; returns "tenant:limit".
std::string Take(DueTenants& due, std::size_t rows, std::size_t room, bool complete = false) {
  due.ShareOut(rows, room);
  const auto page = due.Next(rows, room);
  std::string text = page.tenant.value + ":" + std::to_string(page.limit);
  for (std::size_t i = 0; i < page.limit; ++i)
    if (!due.Passed({Instant{}, 0, RunNo(static_cast<std::int64_t>(i) + 1)}, true)) break;
  due.PageOver(complete);
  return text;
}

TEST(DueTenants, TakeTurnsByWeightAndShareTheRoom) {
  const DueTenants::Weights weights{{"b", 3}};
  DueTenants due(weights);
  EXPECT_TRUE(due.empty());
  due.AddAll(kA, kUntil);
  due.AddAll(kB, kUntil);
  EXPECT_FALSE(due.empty());
  EXPECT_EQ(Take(due, 1'000, 10), "a:2");
  EXPECT_EQ(Take(due, 1'000, 10), "b:6");
  EXPECT_EQ(Take(due, 1'000, 1), "a:1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(due, 1'000, 1), "b:1") << i;
  EXPECT_EQ(Take(due, 2, 100), "a:1");
  EXPECT_EQ(Take(due, 2, 100), "b:2");
}

TEST(DueTenants, WhatHasBegunBeforeComesFirst) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddAll(kA, kUntil);
  const auto woken = due.Next(10, 10);
  EXPECT_EQ(woken.until, kUntil);
  EXPECT_EQ(woken.after.wake_at, Instant{});
  due.PageOver(true);
  const auto pending = due.Next(10, 10);
  EXPECT_EQ(pending.until, Instant{});
  EXPECT_EQ(pending.after.wake_at, Instant::min());
  due.PageOver(true);
  EXPECT_TRUE(due.empty());

  due.AddPending(RunOf(kA, 7));
  due.AddWoken(kA, kUntil);
  EXPECT_EQ(due.Next(10, 10).until, kUntil);
}

TEST(DueTenants, ARunThatIsLeftToTheStoreIsReadOnceFromThereOn) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddPending(RunOf(kA, 7));
  due.ShareOut(10, 10);
  EXPECT_EQ(due.Next(10, 10).after.run, RunNo(6));
  EXPECT_TRUE(due.Passed({Instant{}, 0, RunNo(7)}, true));
  due.AddPending(RunOf(kA, 8));      // comes anyway
  due.AddPending(RunOf(kA, 10, 2));  // urgent, so behind what was read
  due.AddPending(RunOf(kA, 9, 5));
  EXPECT_TRUE(due.Passed({Instant{}, 0, RunNo(8)}, true));
  due.PageOver(true);
  const auto again = due.Next(10, 10);
  EXPECT_EQ(again.after.priority, 5);
  EXPECT_EQ(again.after.run, RunNo(8));
  due.PageOver(true);
  EXPECT_TRUE(due.empty());
}

TEST(DueTenants, WhatWasAddedBeforeTheTenantWasFoundHidesNothing) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddPending(RunOf(kA, 7));
  due.AddAll(kA, kUntil);
  due.PageOver(true);  // nothing was woken
  EXPECT_EQ(due.Next(10, 10).after.run, RunNo(6));
  due.PageOver(true);
  EXPECT_EQ(due.Next(10, 10).after.wake_at, Instant::min());
  due.PageOver(true);
  EXPECT_TRUE(due.empty());
}

TEST(DueTenants, WherePagesHaveNothingToAdmitTheyGrowAndOthersHaveTheirTurn) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddPending(RunOf(kA, 1));
  due.AddPending(RunOf(kB, 2));
  std::vector<std::size_t> limits;
  std::int64_t no = 0;
  for (int i = 0; i < 5; ++i) {
    const auto page = due.Next(100, 1);
    ASSERT_EQ(page.tenant, kA);
    limits.push_back(page.limit);
    for (std::size_t row = 0; row < page.limit; ++row)
      EXPECT_TRUE(due.Passed({Instant{}, 0, RunNo(++no)}, false));
    due.PageOver(false);
    EXPECT_EQ(Take(due, 100, 1), "b:1");
  }
  EXPECT_EQ(limits, (std::vector<std::size_t>{1, 2, 6, 18, 54}));
  EXPECT_EQ(due.Next(100, 1).limit, 100U);
}

TEST(DueTenants, ATurnShrinksWithTheRoom) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddPending(RunOf(kA, 1));
  due.AddPending(RunOf(kB, 2));
  due.ShareOut(1'000, 1'000);
  EXPECT_EQ(due.Next(1'000, 1'000).limit, 500U);
  EXPECT_TRUE(due.Passed({Instant{}, 0, RunNo(1)}, true));
  // The next one did not fit.
  EXPECT_EQ(Take(due, 1'000, 1), "a:1");
  EXPECT_EQ(Take(due, 1'000, 1), "b:1");
}

TEST(DueTenants, WhoeverGoesOnWithoutAnEndOfThePageKeepsItsTurn) {
  const DueTenants::Weights weights;
  DueTenants due(weights);
  due.AddPending(RunOf(kA, 1));
  due.AddPending(RunOf(kB, 2));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(due.Next(10, 10).tenant, kA);
}

}  // namespace
}  // namespace headworks::engine
