#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/disposition_rig.h"

// A minute under 10,000 tasks that nobody takes.
namespace headworks::engine {
namespace {

using model::RunState;
using model::TaskState;
using model::Verdict;
using namespace std::chrono_literals;

class LargeDispatchTest : public DispositionTest {};
class LargeBufferTest : public DispositionTest {};
INSTANTIATE_TEST_SUITE_P(Answers, LargeDispatchTest, testing::Values(0, 64));
INSTANTIATE_TEST_SUITE_P(Buffer, LargeBufferTest, testing::Values(4));

TEST_P(LargeDispatchTest, AMinuteWithoutRoomUnderTenThousandTasksFailsNothingAndKeepsTheOrder) {
  constexpr std::uint32_t kTasks = 10'000;
  platform_.max = 10;
  const RunNo large = Start(kTasks);
  const RunNo urgent = Start(1, [](model::Task& task) { task.priority = 5; });
  Tick();
  ASSERT_EQ(platform_.here.size(), 10U);
  const std::size_t writes = store_.sent.size();
  Pass(1min, 1s);
  EXPECT_EQ(platform_.here.size(), 10U);
  EXPECT_EQ(store_.sent.size(), writes) << "who waits costs nothing";
  EXPECT_EQ(Image(large).header.counts[static_cast<std::size_t>(TaskState::kFailed)], 0U);
  platform_.End(platform_.offered[0].key, Verdict::kSucceeded);
  Tick(2);
  EXPECT_EQ(platform_.offered.back().key.run, urgent) << "by priority, not behind the flood";
  while (!platform_.here.empty()) {
    platform_.EndAll(Verdict::kSucceeded);
    Tick(2);
  }
  EXPECT_EQ(Image(large).header.state, RunState::kSucceeded);
  EXPECT_EQ(Image(urgent).header.state, RunState::kSucceeded);
  EXPECT_EQ(Epochs().size(), kTasks + 1U) << "one epoch each";
  std::vector<std::uint32_t> order;
  for (const auto& offered : platform_.offered)
    if (offered.key.run == large) order.push_back(offered.key.task.value);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST_P(LargeBufferTest, AMinuteOfAFullBufferFailsNothingAndKeepsTheOrder) {
  constexpr std::uint32_t kTasks = 10'000;
  sends_ = false;  // the platform hangs
  const RunNo run = Start(kTasks);
  Tick();
  const std::size_t writes = store_.sent.size();
  Pass(1min, 1s);
  EXPECT_EQ(metrics_.Read().depth, GetParam());
  EXPECT_GT(metrics_.Read().at_capacity, 0U);
  EXPECT_TRUE(platform_.offered.empty());
  EXPECT_LE(store_.sent.size() - writes, 20U) << "the first rounds, and notes after 10 and 40 s";
  sends_ = true;
  for (int i = 0; i < 30'000 && platform_.here.size() < kTasks; ++i) Tick();
  ASSERT_EQ(platform_.here.size(), kTasks);
  EXPECT_EQ(platform_.offered.size(), kTasks) << "none was offered twice";
  EXPECT_TRUE(std::ranges::is_sorted(platform_.offered, {},
                                     [](const auto& offered) { return offered.key.task; }));
  platform_.EndAll(Verdict::kSucceeded);
  Tick(20);
  EXPECT_EQ(Image(run).header.state, RunState::kSucceeded);
  EXPECT_EQ(metrics_.Read().max_depth, GetParam());
}

}  // namespace
}  // namespace headworks::engine
