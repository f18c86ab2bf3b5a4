#include <gtest/gtest.h>

#include <limits>

#include "headworks/author/author.h"

namespace headworks {
namespace {

using namespace std::chrono_literals;

struct In {
  int n = 0;
};
HEADWORKS_FIELDS(In, n);
struct Out {
  int doubled = 0;
};
HEADWORKS_FIELDS(Out, doubled);

class SilentHost final : public TaskHost {
 public:
  void Log(std::string_view line) override { lines.emplace_back(line); }
  void Heartbeat() override {}
  std::vector<std::string> lines;
};

/// Calls `function` as an executor would, with {"n":4}.
template <typename F>
TaskResult<Json> CallTask(F function, std::string_view input = R"({"n":4})") {
  const TaskInfo info{};
  SilentHost host;
  TaskContext context(info, input, "{}", std::stop_token(), host);
  return MakeTask(std::move(function))(context);
}

Out FreeFunction(const In& in) { return {2 * in.n}; }
Out WithContext(In in, TaskContext& context) {
  context.Log("x");
  return {2 * in.n};
}

TEST(Task, TakesAnyOfItsSignatures) {
  EXPECT_EQ(CallTask(FreeFunction).value()->text, R"({"doubled":8})");
  EXPECT_EQ(CallTask(&FreeFunction).value()->text, R"({"doubled":8})");
  EXPECT_EQ(CallTask(WithContext).value()->text, R"({"doubled":8})");
  EXPECT_EQ(CallTask([] { return Out{1}; }).value()->text, R"({"doubled":1})");
  EXPECT_EQ(CallTask([](TaskContext& context) { return Json(std::string(context.input())); })
                .value()
                ->text,
            R"({"n":4})");
  EXPECT_EQ(CallTask([](const Json& in) { return in; }).value()->text, R"({"n":4})");
  EXPECT_EQ(CallTask([](In in) mutable { in.n = 0; }).value()->text, "");
  EXPECT_EQ(CallTask([](const In&) noexcept {}).value()->text, "");
}

TEST(Task, ReturnsAWordInsteadOfAValue) {
  const auto decide = [](const In& in) -> TaskResult<Out> {
    if (in.n == 1) return Fail("one");
    if (in.n == 2) return Skip("two");
    if (in.n == 3) return Snooze(3s, "three");
    return Out{in.n};
  };
  EXPECT_STREQ(CallTask(decide, R"({"n":1})").fail()->what(), "one");
  EXPECT_EQ(CallTask(decide, R"({"n":2})").skip()->why, "two");
  EXPECT_EQ(CallTask(decide, R"({"n":3})").snooze()->delay, 3s);
  EXPECT_EQ(CallTask(decide).value()->text, R"({"doubled":4})");
  EXPECT_EQ(CallTask([]() -> TaskResult<> { return Done(); }).value()->text, "");
  EXPECT_EQ(CallTask([]() -> TaskResult<> { return Skip(); }).skip()->why, "");
}

TEST(Task, InputThatDoesNotFitIsAFailure) {
  const auto result = CallTask(FreeFunction, "{}");
  ASSERT_NE(result.fail(), nullptr);
  EXPECT_STREQ(result.fail()->what(), "input: field \"n\" is missing");
}

TEST(Task, OutputWithoutAJsonFormIsAFailure) {
  const auto result = CallTask([] { return Json("{"); });
  EXPECT_EQ(result.fail(), nullptr);  // text is the executor's to check
  struct Nested {
    static std::map<std::string, double> Make() {
      return {{"x", std::numeric_limits<double>::infinity()}};
    }
  };
  ASSERT_NE(CallTask(Nested::Make).fail(), nullptr);
}

TEST(Task, SkipIsNotCaughtAsAnException) {
  const auto result = [] {
    try {
      try {
        throw Skip("through");
      } catch (const std::exception&) {
        return std::string("swallowed");
      }
    } catch (const Skip& skip) {
      return skip.why;
    }
  }();
  EXPECT_EQ(result, "through");
}

TEST(TaskContext, KnowsWhenToStop) {
  const TaskInfo info{};
  SilentHost host;
  std::stop_source stop;
  const TaskContext context(info, "{}", "{}", stop.get_token(), host);
  EXPECT_FALSE(context.cancelled());
  EXPECT_NO_THROW(context.ThrowIfCancelled());
  stop.request_stop();
  EXPECT_TRUE(context.cancelled());
  EXPECT_THROW(context.ThrowIfCancelled(), Cancelled);
}

}  // namespace
}  // namespace headworks
