#include "headworks/job_worker/job.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

// Handlers without a worker.
namespace headworks {
namespace {

struct Part {
  int size = 0;
};
HEADWORKS_FIELDS(Part, size);
struct Letter {
  std::string to;
  std::optional<std::string> subject;
  std::vector<Part> parts;
};
HEADWORKS_FIELDS(Letter, to, subject, parts);

JobResult Call(const JobFunction& job, std::string_view payload) {
  NullLogger log;
  JobContext context({.queue = "mail", .id = "a", .attempt = 2}, std::stop_token(), log);
  return job(payload, context);
}

TEST(Job, TakesItsPayloadAndWhatItLikesOfTheContext) {
  std::string seen;
  const auto plain = MakeJob<Letter>([&](const Letter& letter) { seen = letter.to; });
  EXPECT_TRUE(Call(plain, R"({"to": "ann", "parts": [], "more": 1})").done());
  EXPECT_EQ(seen, "ann");
  const auto with_context = MakeJob<Letter>([&](const Letter& letter, JobContext& context) {
    seen = letter.to + context.id() + std::to_string(context.attempt());
  });
  EXPECT_TRUE(Call(with_context, R"({"to": "bob", "parts": []})").done());
  EXPECT_EQ(seen, "boba2");
  const auto text = MakeJob<Json>([&](const Json& json) { seen = json.text; });
  EXPECT_TRUE(Call(text, "[1,  2]").done());
  EXPECT_EQ(seen, "[1,  2]") << "as it was pushed";
  const auto number = MakeJob<int>([&](int value) { seen = std::to_string(value); });
  EXPECT_TRUE(Call(number, "17").done());
  EXPECT_EQ(seen, "17");
}

TEST(Job, APayloadThatDoesNotFitFailsForGoodAndNamesTheFields) {
  bool was_called = false;
  const auto job = MakeJob<Letter>([&](const Letter&) { was_called = true; });
  const JobResult result = Call(job, R"({"parts": [{"size": 1}, {"size": "x"}]})");
  ASSERT_NE(result.fail(), nullptr);
  EXPECT_STREQ(result.fail()->what(),
               "payload: field \"to\" is missing; parts[1].size of payload: expected an integer "
               "from -2147483648 to 2147483647, found a string \"x\"");
  EXPECT_FALSE(was_called);
}

TEST(Job, ResultsAreWhatTheHandlerSays) {
  EXPECT_TRUE(Call(MakeJob<Json>([](const Json&) -> Status { return {}; }), "1").done());
  const auto error = Call(
      MakeJob<Json>([](const Json&) -> Status { return Error{Code::kUnavailable, "no smtp"}; }),
      "1");
  EXPECT_EQ(error.error()->message, "no smtp");
  const auto later = Call(
      MakeJob<Json>([](const Json&) { return RetryLater(std::chrono::hours(1), "busy"); }), "1");
  EXPECT_EQ(later.later()->delay, std::chrono::hours(1));
  EXPECT_EQ(later.later()->why, "busy");
  const auto fail =
      Call(MakeJob<Json>([](const Json&) -> JobResult { return Fail("no mailbox"); }), "1");
  EXPECT_STREQ(fail.fail()->what(), "no mailbox");
}

}  // namespace
}  // namespace headworks
