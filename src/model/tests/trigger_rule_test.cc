#include <gtest/gtest.h>

#include <array>

#include "headworks/model/run.h"

namespace headworks::model {
namespace {

using Decision = TriggerDecision;

/// Succeeded, failed, upstream_failed, skipped, active, all: the letters of the design's table.
struct Counts {
  unsigned s, f, uf, k, a, n;
};

/// One line of the table, column by column as it is written there.
struct Row {
  TriggerRule rule;
  bool (*upstream_failed)(const Counts&);
  bool (*skipped)(const Counts&);
  bool (*waits)(const Counts&);
};

bool Never(const Counts&) { return false; }
bool Active(const Counts& c) { return c.a > 0; }
bool Failed(const Counts& c) { return c.f + c.uf > 0; }
bool AllSkipped(const Counts& c) { return c.k == c.n; }

const std::array<Row, 11> kTable = {{
    {TriggerRule::kAllSuccess, Failed, [](const Counts& c) { return c.k > 0; }, Active},
    {TriggerRule::kAllFailed, Never, [](const Counts& c) { return c.s + c.k > 0; }, Active},
    {TriggerRule::kAllDone, Never, Never, Active},
    {TriggerRule::kAllSkipped, Never, [](const Counts& c) { return c.s + c.f + c.uf > 0; }, Active},
    {TriggerRule::kOneSuccess, [](const Counts& c) { return c.s == 0 && c.k < c.n; }, AllSkipped,
     [](const Counts& c) { return c.s == 0 && c.a > 0; }},
    {TriggerRule::kOneFailed, Never, [](const Counts& c) { return c.f + c.uf == 0; },
     [](const Counts& c) { return c.f + c.uf == 0 && c.a > 0; }},
    {TriggerRule::kOneDone, Never, [](const Counts& c) { return c.s + c.f == 0; },
     [](const Counts& c) { return c.s + c.f == 0 && c.a > 0; }},
    {TriggerRule::kNoneFailed, Failed, Never, Active},
    {TriggerRule::kNoneFailedMinOneSuccess, Failed, AllSkipped, Active},
    {TriggerRule::kNoneSkipped, Never, [](const Counts& c) { return c.k > 0; }, Active},
    {TriggerRule::kAlways, Never, Never, Never},
}};

Decision Expected(const Row& row, const Counts& c) {
  if (c.n == 0) return Decision::kRun;
  if (row.waits(c)) return Decision::kWait;
  if (row.upstream_failed(c)) return Decision::kUpstreamFailed;
  return row.skipped(c) ? Decision::kSkip : Decision::kRun;
}

Decision Actual(const Row& row, const Counts& c) {
  return Decide(row.rule, {c.s, c.f, c.uf, c.k}, c.n);
}

testing::Message Where(const Row& row, const Counts& c) {
  return testing::Message() << TriggerRuleName(row.rule) << " S=" << c.s << " F=" << c.f
                            << " UF=" << c.uf << " K=" << c.k << " N=" << c.n;
}

TEST(TriggerRule, EqualsTheTableForAllCountsUpToFour) {
  int compared = 0;
  for (const Row& row : kTable)
    for (unsigned n = 0; n <= 4; ++n)
      for (unsigned s = 0; s <= n; ++s)
        for (unsigned f = 0; s + f <= n; ++f)
          for (unsigned uf = 0; s + f + uf <= n; ++uf)
            for (unsigned k = 0; s + f + uf + k <= n; ++k, ++compared) {
              const Counts c{s, f, uf, k, n - s - f - uf - k, n};
              EXPECT_EQ(Actual(row, c), Expected(row, c)) << Where(row, c);
            }
  EXPECT_EQ(compared, 11 * (1 + 5 + 15 + 35 + 70));
}

TEST(TriggerRule, NeverDependsOnTheOrderOfArrival) {
  int arrivals = 0;
  for (const Row& row : kTable)
    for (unsigned n = 1; n <= 4; ++n)
      for (unsigned order = 0; order < 1U << (2 * n); ++order, ++arrivals) {
        Counts c{0, 0, 0, 0, n, n};
        const std::array ends = {&c.s, &c.f, &c.uf, &c.k};
        Decision decided = Actual(row, c);
        for (unsigned arrived = 0; arrived < n; ++arrived) {
          if (decided != Decision::kWait) {
            ASSERT_EQ(decided, Decision::kRun) << "early, " << Where(row, c);
          }
          ++*ends[(order >> (2 * arrived)) & 3U];
          --c.a;
          const Decision now = Actual(row, c);
          if (decided != Decision::kWait) {
            ASSERT_EQ(now, decided) << "changed, " << Where(row, c);
          }
          decided = now;
        }
        ASSERT_NE(decided, Decision::kWait) << Where(row, c);
      }
  EXPECT_EQ(arrivals, 11 * (4 + 16 + 64 + 256));
}

TEST(TriggerRule, NamesGoBothWays) {
  for (const Row& row : kTable) EXPECT_EQ(TriggerRuleFromName(TriggerRuleName(row.rule)), row.rule);
  EXPECT_EQ(TriggerRuleFromName("all_succes"), std::nullopt);
  EXPECT_EQ(TriggerRuleFromName(""), std::nullopt);
}

TEST(RetryPolicy, DelaysFollowTheBackoff) {
  using std::chrono::seconds;
  RetryPolicy policy{.initial = seconds(2), .max = seconds(15), .jitter = 0};
  const auto delays = [&] {
    std::vector<seconds::rep> all;
    for (int tries = 1; tries <= 5; ++tries)
      all.push_back(std::chrono::duration_cast<seconds>(policy.DelayAfter(tries, 7)).count());
    return all;
  };
  using Delays = std::vector<seconds::rep>;
  EXPECT_EQ(delays(), (Delays{2, 4, 8, 15, 15}));
  policy.backoff = Backoff::kLinear;
  EXPECT_EQ(delays(), (Delays{2, 4, 6, 8, 10}));
  policy.backoff = Backoff::kFixed;
  EXPECT_EQ(delays(), (Delays{2, 2, 2, 2, 2}));
  policy.initial = seconds(0);
  policy.backoff = Backoff::kExponential;
  EXPECT_EQ(delays(), (Delays{0, 0, 0, 0, 0}));
}

TEST(RetryPolicy, LargestTriesAndTimesDoNotOverflow) {
  constexpr Duration kTenYears = std::chrono::hours(24 * 3653);
  for (const Backoff backoff : {Backoff::kFixed, Backoff::kLinear, Backoff::kExponential})
    for (const Duration initial : {Duration(1), kTenYears})
      for (const int tries : {1, 62, 63, 64, 65, 1'000, 2'147'483'647}) {
        const RetryPolicy policy{
            .backoff = backoff, .initial = initial, .max = kTenYears, .jitter = 0};
        const Duration delay = policy.DelayAfter(tries, 1);
        EXPECT_GE(delay, initial);
        EXPECT_LE(delay, kTenYears);
      }
  const RetryPolicy policy{.initial = Duration(1), .max = kTenYears, .jitter = 0};
  EXPECT_EQ(policy.DelayAfter(1'000, 1), kTenYears);
}

TEST(RetryPolicy, JitterIsTheSeedsAndStaysInItsShare) {
  const RetryPolicy policy{.initial = std::chrono::seconds(10), .jitter = 0.2};
  Duration least = Duration::max();
  Duration most(0);
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    const Duration delay = policy.DelayAfter(1, seed);
    EXPECT_EQ(delay, policy.DelayAfter(1, seed));
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, std::chrono::seconds(8));
  EXPECT_LE(most, std::chrono::seconds(12));
  EXPECT_LT(least, std::chrono::milliseconds(8'100));  // the whole share is used
  EXPECT_GT(most, std::chrono::milliseconds(11'900));
}

}  // namespace
}  // namespace headworks::model
