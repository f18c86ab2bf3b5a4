#include "headworks/engine/ready_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace headworks::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// Tasks are told apart by their run's number.
class ReadyQueueTest : public testing::Test {
 protected:
  void Push(const char* tenant, std::int64_t run, int priority = 0, Duration since = Duration(0)) {
    queue_.Push(TenantId(tenant), {queue_.Rank(priority, since), pushed_++, RunNo(run), TaskNo(0)});
  }
  std::string PopAll() {
    std::string runs;
    while (!queue_.empty()) runs += std::to_string(queue_.Pop().run.value) + " ";
    return runs;
  }

  ReadyOrder order_;
  ReadyQueue queue_{order_};
  std::uint64_t pushed_ = 0;
};

TEST_F(ReadyQueueTest, HigherPriorityThenOlderFirst) {
  Push("a", 1);
  Push("a", 2, 5);
  Push("a", 3);
  Push("a", 4, -5);
  EXPECT_EQ(PopAll(), "2 1 3 4 ");
}

TEST_F(ReadyQueueTest, WaitingAddsToPriority) {
  Push("a", 1, 0, minutes(0));
  Push("a", 2, 3, minutes(3) - Duration(1));
  Push("a", 3, 3, minutes(3) + Duration(1));
  EXPECT_EQ(PopAll(), "2 1 3 ");
}

TEST_F(ReadyQueueTest, AtTheBoundOfAgeingTheOlderIsFirst) {
  Push("a", 1, 0, minutes(0));
  Push("a", 2, 3, minutes(3));
  EXPECT_EQ(PopAll(), "1 2 ");
}

TEST_F(ReadyQueueTest, WithoutAgeingPriorityAloneCounts) {
  order_.ageing = Duration(0);
  Push("a", 1, 0, minutes(0));
  Push("a", 2, 1, minutes(10'000));
  Push("a", 3, 0, minutes(20'000));
  EXPECT_EQ(PopAll(), "2 1 3 ");
}

TEST_F(ReadyQueueTest, TheExtremesOfPriorityKeepTheirOrder) {
  order_.ageing = Duration::max();
  Push("a", 1, -2'000, std::chrono::hours(24 * 365 * 100));
  Push("a", 2, 2'000, seconds(1));
  EXPECT_EQ(PopAll(), "2 1 ");
}

TEST_F(ReadyQueueTest, TenantsTakeTurnsHoweverManyTasksOneHas) {
  for (int run = 1; run <= 4; ++run) Push("flood", run, 100);
  Push("b", 10, -100);
  Push("c", 20);
  EXPECT_EQ(PopAll(), "1 10 20 2 3 4 ");
}

TEST_F(ReadyQueueTest, ATenantQueuesAsManyInItsTurnAsItWeighs) {
  order_.tenant_weights = {{"heavy", 3}};
  for (int run = 1; run <= 5; ++run) Push("heavy", run);
  for (int run = 11; run <= 13; ++run) Push("light", run);
  EXPECT_EQ(PopAll(), "1 2 3 11 4 5 12 13 ");
}

TEST_F(ReadyQueueTest, ATenantThatComesBackWaitsForItsTurn) {
  Push("a", 1);
  Push("b", 11);
  Push("b", 12);
  EXPECT_EQ(queue_.size(), 3U);
  EXPECT_EQ(queue_.Pop().run, RunNo(1));
  EXPECT_EQ(queue_.size(), 2U);
  Push("a", 2);
  EXPECT_EQ(PopAll(), "11 2 12 ");
}

TEST_F(ReadyQueueTest, LinesWithoutCreditArePassedOverUntilTheyAreOpenedAgain) {
  std::int64_t run = 0;
  const auto push = [&](const char* tenant, const char* line) {
    queue_.PushToLine(TenantId(tenant), line,
                      {queue_.Rank(0, Duration(0)), pushed_++, RunNo(++run), TaskNo(0)});
  };
  for (const char* line : {"shut", "shut", "open", "shut", "open"}) push("a", line);
  push("b", "shut");
  push("b", "open");
  std::string asked;
  const auto get_credit = [&](const std::string& tenant, const std::string& line) {
    asked += tenant + "/" + line + " ";
    return line != "shut" ? ReadyQueue::Credit::kSome : ReadyQueue::Credit::kNotThisLine;
  };
  const auto pop_all = [&] {
    std::string runs;
    while (const auto task = queue_.PopFromLines(get_credit))
      runs += std::to_string(task->run.value) + " ";
    return runs;
  };
  EXPECT_EQ(pop_all(), "3 7 5 ") << "tenants in turn, and in each the first that may";
  EXPECT_EQ(asked, "a/shut a/open b/shut b/open a/open ");
  push("b", "open");
  push("a", "shut");
  asked.clear();
  EXPECT_EQ(pop_all(), "8 ") << "a line that was not asked about yet";
  EXPECT_EQ(asked, "b/open ");
  EXPECT_EQ(queue_.size(), 5U);
  asked.clear();
  queue_.Reopen();
  EXPECT_EQ(pop_all(), "");
  EXPECT_EQ(asked, "b/shut a/shut ");
  queue_.Reopen();
  const auto any = [](const auto&, const auto&) { return ReadyQueue::Credit::kSome; };
  std::string rest;
  while (const auto task = queue_.PopFromLines(any)) rest += std::to_string(task->run.value) + " ";
  EXPECT_EQ(rest, "6 1 2 4 9 ");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ReadyQueueTest, OfManyLinesWithoutCreditSoManyAreAskedAboutAtOnceAndEachInTurn) {
  constexpr std::size_t kLines = 4 * ReadyQueue::kMostClosed + 1;
  const auto push = [&](const char* tenant, std::size_t line) {
    queue_.PushToLine(TenantId(tenant), std::to_string(line),
                      {queue_.Rank(0, Duration(0)), pushed_++, RunNo(0), TaskNo(0)});
  };
  for (std::size_t line = 0; line < kLines; ++line) push("a", line);
  push("b", 0);
  std::map<std::string, int> asked;
  std::string open;
  std::size_t asks = 0;
  const auto get_credit = [&](const std::string& tenant, const std::string& line) {
    ++asks;
    if (tenant == "a") ++asked[line];
    return tenant == "b" || line == open ? ReadyQueue::Credit::kSome
                                         : ReadyQueue::Credit::kNotThisLine;
  };
  const auto pop = [&] {
    asks = 0;
    queue_.Reopen();
    return queue_.PopFromLines(get_credit);
  };
  EXPECT_TRUE(pop()) << "another tenant's";
  EXPECT_EQ(asks, ReadyQueue::kMostClosed + 1);
  EXPECT_FALSE(queue_.PopFromLines(get_credit));
  EXPECT_TRUE(queue_.is_cut());
  for (int more = 1; more < 4; ++more) {
    EXPECT_FALSE(pop());
    EXPECT_EQ(asks, ReadyQueue::kMostClosed);
    EXPECT_TRUE(queue_.is_cut());
  }
  open = std::to_string(kLines - 1);
  EXPECT_TRUE(pop()) << "the last one";
  EXPECT_EQ(asks, 1U);
  EXPECT_FALSE(queue_.PopFromLines(get_credit));
  EXPECT_FALSE(queue_.is_cut());
  EXPECT_EQ(asked.size(), kLines);
  EXPECT_TRUE(std::ranges::all_of(asked, [](const auto& line) { return line.second == 1; }));
  open = "0";
  EXPECT_TRUE(pop()) << "from the first on";
}

TEST_F(ReadyQueueTest, LinesWithoutCreditAreAskedAboutAgainHoweverManyTasksAnotherHas) {
  const auto push = [&](std::size_t line) {
    queue_.PushToLine(TenantId("a"), std::to_string(line),
                      {queue_.Rank(0, Duration(0)), pushed_++, RunNo(0), TaskNo(0)});
  };
  for (std::size_t line = 0; line <= ReadyQueue::kMostClosed; ++line) push(line);
  std::string asked;
  const auto get_credit = [&](const std::string&, const std::string& line) {
    asked = line;
    return line == std::to_string(ReadyQueue::kMostClosed) ? ReadyQueue::Credit::kSome
                                                           : ReadyQueue::Credit::kNotThisLine;
  };
  EXPECT_FALSE(queue_.PopFromLines(get_credit));
  queue_.Reopen();
  for (int task = 0; task < 10; ++task) {
    push(ReadyQueue::kMostClosed);
    EXPECT_TRUE(queue_.PopFromLines(get_credit));
  }
  queue_.Reopen();
  const auto first = [&](const std::string&, const std::string& line) {
    asked = line;
    return ReadyQueue::Credit::kSome;
  };
  EXPECT_TRUE(queue_.PopFromLines(first));
  EXPECT_EQ(asked, "0");
}

TEST_F(ReadyQueueTest, ATenantWithoutCreditIsAskedAboutOnceWhateverItsLines) {
  for (int line = 0; line < 5'000; ++line)
    queue_.PushToLine(TenantId("a"), std::to_string(line),
                      {queue_.Rank(0, Duration(0)), pushed_++, RunNo(line), TaskNo(0)});
  int asks = 0;
  auto credit = ReadyQueue::Credit::kNotThisTenant;
  const auto get_credit = [&](const auto&, const auto&) {
    ++asks;
    return credit;
  };
  for (int round = 0; round < 3; ++round) {
    queue_.Reopen();
    EXPECT_FALSE(queue_.PopFromLines(get_credit));
    EXPECT_FALSE(queue_.PopFromLines(get_credit));
  }
  EXPECT_EQ(asks, 3);
  credit = ReadyQueue::Credit::kSome;
  queue_.Reopen();
  EXPECT_EQ(queue_.PopFromLines(get_credit)->run, RunNo(0)) << "in its order";
}

}  // namespace
}  // namespace headworks::engine
