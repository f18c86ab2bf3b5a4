#include "headworks/sim/schedule.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace headworks::sim {
namespace {

TEST(Schedule, TheSameSeedGivesTheSameLastDrawAndTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto store : {StoreKind::kMemory, StoreKind::kSqlite}) {
      const ScheduleOptions options{.seed = seed, .store = store, .trace = true};
      const auto first = RunSchedule(options);
      const auto second = RunSchedule(options);
      EXPECT_EQ(first.last_draw, second.last_draw) << "seed " << seed;
      EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    }
  }
}

TEST(Schedule, ATraceChangesNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(RunSchedule({.seed = seed, .trace = true}).last_draw,
              RunSchedule({.seed = seed}).last_draw)
        << "seed " << seed;
}

/// A seed that once broke an invariant, and what was wrong.
struct Found {
  std::uint64_t seed;
  const char* what;
};

class FoundBySimulation : public testing::TestWithParam<Found> {};

TEST_P(FoundBySimulation, HoldsNow) {
  const auto result = RunSchedule({.seed = GetParam().seed, .plain = true});
  EXPECT_EQ(result.violation, "") << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, FoundBySimulation,
    testing::Values(
        Found{2,
              "a run that was loaded because a task's backoff was over was evicted again before "
              "its timer fired"},
        Found{11, "verdicts of a stuck run, said again and again, piled up in memory"},
        Found{62, "attempts given up as zombies were not counted when a run was loaded"},
        Found{91, "a run whose parking could not be written was stuck in memory only"},
        Found{126, "a zombie whose process had died was never asked about"},
        Found{165, "tasks queued again after a failed round went over max_parallel"},
        Found{441, "a definite error was believed though the first sending had been committed"},
        Found{788, "an answer about an attempt that was over left an entry behind"},
        Found{1050, "a rejected offer of a run that was parked was forgotten"},
        Found{1186, "a stale entry took the place that max_parallel had freed"},
        Found{3400, "an offer was refused and taken at once: two answers for one epoch"},
        Found{5808, "an attempt that nobody knew of was forgotten when its run was reloaded"},
        Found{9695, "half a round queued a task before it applied the cancel"},
        Found{17465, "answers about attempts were dropped between the halves of a round"},
        Found{32723, "an offer that was due again ended the doubt about a zombie"},
        Found{48228,
              "a refused offer was asked about, and made, again before its refusal was applied"},
        Found{20886, "an engine that had lost its lease acknowledged its successor's verdict"}),
    [](const auto& info) { return std::to_string(info.param.seed); });

/// Of schedules with conditions, deadlines and buffers.
class FoundInFull : public testing::TestWithParam<Found> {};

TEST_P(FoundInFull, HoldsNow) {
  const auto result = RunSchedule({.seed = GetParam().seed, .limits = false});
  EXPECT_EQ(result.violation, "") << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, FoundInFull,
    testing::Values(
        Found{47765, "verdicts of a deleted run, said again and again, kept runs from admission"},
        Found{125630, "one that was asked about twice in one go lost the timer of its next offer"}),
    [](const auto& info) { return std::to_string(info.param.seed); });

/// Of schedules with pools, concurrency keys and rates as well.
class FoundWithLimits : public testing::TestWithParam<Found> {};

TEST_P(FoundWithLimits, HoldsNow) {
  const auto result = RunSchedule({.seed = GetParam().seed});
  EXPECT_EQ(result.violation, "") << GetParam().what;
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, FoundWithLimits,
    testing::Values(Found{144,
                          "a task that failed while its attempt was silent, and whose attempt was "
                          "over in the same round, was told to nobody"},
                    Found{488,
                          "a run that held permits was not loaded, because memory was full of runs "
                          "that waited for them"},
                    Found{1673,
                          "a ready task whose queue had no workers kept the place of its run that "
                          "max_parallel had freed"},
                    Found{2970,
                          "what a round of few rows kept free for ready tasks left nothing for "
                          "messages"}),
    [](const auto& info) { return std::to_string(info.param.seed); });

}  // namespace
}  // namespace headworks::sim
