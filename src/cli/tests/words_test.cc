#include "words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "headworks/model/attempt.h"
#include "headworks/model/run.h"

namespace headworks::cli {
namespace {

bool IsExplained(std::string_view word) {
  return std::ranges::find(Words(), word, &Word::word) != Words().end();
}

TEST(Words, EveryReasonVerdictAndStateIsExplained) {
  for (int i = 0; i < 256; ++i) {
    const auto reason = static_cast<model::Reason>(i);
    const std::string_view name = model::ReasonName(reason);
    EXPECT_TRUE(IsExplained(name)) << name;
  }
  for (int i = static_cast<int>(model::Verdict::kSucceeded);
       i <= static_cast<int>(model::Verdict::kLost); ++i)
    EXPECT_TRUE(IsExplained(model::VerdictName(static_cast<model::Verdict>(i)))) << i;
  for (std::size_t i = 0; i < model::kTaskStateCount; ++i)
    EXPECT_TRUE(IsExplained(model::TaskStateName(static_cast<model::TaskState>(i)))) << i;
  for (int i = 1; i <= static_cast<int>(model::RunState::kCancelled); ++i)
    EXPECT_TRUE(IsExplained(model::RunStateName(static_cast<model::RunState>(i)))) << i;
}

TEST(Words, AreInOrderEachOnce) {
  EXPECT_TRUE(std::ranges::is_sorted(Words(), {}, &Word::word));
  EXPECT_EQ(std::ranges::adjacent_find(Words(), {}, &Word::word), Words().end());
}

}  // namespace
}  // namespace headworks::cli
