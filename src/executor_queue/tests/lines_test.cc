#include "lines.h"

#include <gtest/gtest.h>

#include <set>

namespace headworks::executor_queue {
namespace {

Place At(std::uint64_t order, Labels required = {}, int priority = 0, std::string queue = "q") {
  return {"t", std::move(queue), std::move(required), priority, order};
}

TEST(Lines, ThePriorityIsFirstThenTheOrderOfOffer) {
  Lines lines;
  lines.Add({1, 1}, At(1));
  lines.Add({2, 1}, At(2, {}, 5));
  lines.Add({3, 1}, At(3, {"gpu"}));
  lines.Add({4, 1}, At(4, {}, 5));
  EXPECT_EQ(lines.Take("t", "q", {"gpu"}, 3), (std::vector<Id>{{2, 1}, {4, 1}, {1, 1}}));
  EXPECT_EQ(lines.Take("t", "q", {"gpu"}, 3), (std::vector<Id>{{3, 1}}));
  EXPECT_TRUE(lines.empty());
}

TEST(Lines, WhatNobodyMatchesIsPassedBy) {
  Lines lines;
  lines.Add({1, 1}, At(1, {"gpu", "region=eu"}));
  lines.Add({2, 1}, At(2, {"region=eu"}));
  EXPECT_TRUE(lines.Take("t", "q", {"gpu"}, 9).empty());
  EXPECT_EQ(lines.Take("t", "q", {"cpu", "region=eu"}, 9), (std::vector<Id>{{2, 1}}));
  EXPECT_EQ(lines.Take("t", "q", {"gpu", "region=eu"}, 9), (std::vector<Id>{{1, 1}}));
}

TEST(Lines, TenantsAndQueuesAreApart) {
  Lines lines;
  lines.Add({1, 1}, At(1));
  EXPECT_TRUE(lines.Take("u", "q", {}, 9).empty());
  EXPECT_TRUE(lines.Take("t", "r", {}, 9).empty());
  lines.AddPoll(1, "u", "q", {});
  EXPECT_FALSE(lines.PollFor(At(2)));
}

TEST(Lines, WhatGoesBackStandsWhereItStood) {
  Lines lines;
  for (std::uint64_t i = 1; i <= 3; ++i) lines.Add({static_cast<std::int64_t>(i), 1}, At(i));
  EXPECT_EQ(lines.Take("t", "q", {}, 1), (std::vector<Id>{{1, 1}}));
  lines.Add({1, 1}, At(1));
  EXPECT_EQ(lines.Take("t", "q", {}, 2), (std::vector<Id>{{1, 1}, {2, 1}}));
}

TEST(Lines, ThePollThatWaitedLongestOfThoseThatMatchGetsIt) {
  Lines lines;
  lines.AddPoll(1, "t", "q", {});
  lines.AddPoll(2, "t", "q", {"gpu"});
  lines.AddPoll(3, "t", "q", {"gpu"});
  EXPECT_EQ(lines.PollFor(At(1, {"gpu"})), 2U);
  EXPECT_EQ(lines.PollsFor(At(1, {"gpu"})), 2U);
  EXPECT_EQ(lines.PollsFor(At(1)), 3U);
  EXPECT_EQ(lines.PollsFor(At(1, {}, 0, "r")), 0U);
  EXPECT_EQ(lines.PollFor(At(1)), 1U);
  lines.RemovePoll(2, "t", "q", {"gpu"});
  EXPECT_EQ(lines.PollFor(At(1, {"gpu"})), 3U);
  lines.RemovePoll(3, "t", "q", {"gpu"});
  EXPECT_FALSE(lines.PollFor(At(1, {"gpu"})));
  lines.RemovePoll(1, "t", "q", {});
  EXPECT_TRUE(lines.empty());
}

TEST(Lines, TheNameOfALineSaysWhatItWaitsFor) {
  std::set<std::string> names;
  for (const Labels& labels : std::vector<Labels>{{}, {""}, {"a"}, {"a", "b"}, {"ab"}, {"a b\n"}}) {
    const std::string name = NameOf(At(1, labels));
    EXPECT_TRUE(names.insert(name).second);
    const Place place = PlaceOfLine("t", name);
    EXPECT_EQ(place.queue, "q");
    EXPECT_EQ(place.required, labels);
  }
}

}  // namespace
}  // namespace headworks::executor_queue
