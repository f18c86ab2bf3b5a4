#include <algorithm>

#include "headworks/engine/engine.h"
#include "tests/rig.h"

namespace headworks::engine {
namespace {

using control::CommandKind;
using model::RunState;

TEST_F(EngineTest, ACancelOf100000TasksKeepsItsRoundsSmallAndLetsOthersThrough) {
  constexpr std::uint32_t kTasks = 100'000;
  constexpr std::uint32_t kLive = 1'000;
  dispatcher_.max = kLive;
  auto definition = Tasks("large", kTasks);
  for (auto& task : definition.tasks) task.priority = -1;
  const auto large = Start(*Put(std::move(definition)));
  const auto small = Put(Tasks("small", 1));
  Tick(5);
  ASSERT_TRUE(*large);
  for (std::uint32_t done = 0; done < kTasks / 2; done += kLive) {
    Succeed(kLive);
    Tick(3);
  }
  ASSERT_GE(Stored((*large)->run).counts[static_cast<std::size_t>(model::TaskState::kSucceeded)],
            kTasks / 2 - 2 * kLive);
  store_.sent.clear();
  const auto cancelled = Execute(CommandKind::kCancel, (*large)->run);
  Tick();
  const auto other = Start(*small);
  Tick(3);
  EXPECT_TRUE(*cancelled);
  EXPECT_TRUE(*other);
  EXPECT_EQ(Stored((*large)->run).state, RunState::kRunning);
  EXPECT_EQ(dispatcher_.cancelled.size(), dispatcher_.taken.size()) << "each live attempt is told";
  for (const auto& attempt : std::exchange(dispatcher_.taken, {}))
    engine_.Ended(attempt.key, {.verdict = model::Verdict::kCancelled});
  Tick(100);
  EXPECT_EQ(Stored((*large)->run).state, RunState::kCancelled);
  std::size_t most = 0;
  for (const auto& round : store_.sent) most = std::max(most, Rows(round));
  EXPECT_LE(most, 2'000U + 64U);
  EXPECT_GE(most, 1'900U);
}

}  // namespace
}  // namespace headworks::engine
