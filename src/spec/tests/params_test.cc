#include "headworks/spec/params.h"

#include <gtest/gtest.h>

namespace headworks::spec {
namespace {

model::WorkflowDefinition Declares(const std::map<std::string, std::string>& params) {
  model::WorkflowDefinition d;
  for (const auto& [name, value] : params) d.params.emplace(name, model::Param::Plain(value));
  return d;
}

std::string Parse(const model::WorkflowDefinition& workflow, std::vector<std::string> assignments,
                  std::string_view input = "") {
  const auto result = ParseParams(workflow, assignments, input);
  return result ? *result : result.error().message;
}

TEST(Params, DefaultsAndInputStandSideBySide) {
  EXPECT_EQ(Parse(Declares({}), {}), R"({"input":{},"params":{}})");
  EXPECT_EQ(Parse(Declares({{"n", "3"}, {"s", "\"x\""}}), {}, R"({"k": [1]})"),
            R"({"input":{"k":[1]},"params":{"n":3,"s":"x"}})");
}

TEST(Params, ValuesAreReadAsTheTypeOfTheDefault) {
  const auto workflow = Declares({{"text", "\"x\""},
                                  {"number", "1"},
                                  {"flag", "false"},
                                  {"list", "[]"},
                                  {"object", "{}"},
                                  {"free", "null"}});
  EXPECT_EQ(Parse(workflow, {"text=1.10", "number=2.5", "flag=true", "list=[1,\"a=b\"]",
                             "object={\"k\":null}", "free=5"}),
            R"({"input":{},"params":{"flag":true,"free":"5","list":[1,"a=b"],"number":2.5,)"
            R"("object":{"k":null},"text":"1.10"}})");
  EXPECT_EQ(Parse(Declares({{"free", "null"}}), {"free=[1, 2]"}),
            R"({"input":{},"params":{"free":[1,2]}})");
  EXPECT_EQ(Parse(Declares({{"free", "null"}}), {"free=[no json"}),
            R"({"input":{},"params":{"free":"[no json"}})");
  EXPECT_EQ(Parse(Declares({{"free", "null"}}), {"free="}), R"({"input":{},"params":{"free":""}})");
}

TEST(Params, EverythingThatIsWrongIsNamedAtOnce) {
  const auto workflow = Declares({{"count", "1"}, {"flag", "true"}, {"day", "null"}});
  EXPECT_EQ(
      Parse(workflow, {"cuont=2", "count=two", "flag=yes", "flag=false", "nothing", "=x"}, "[]"),
      "HW1201 the workflow has no parameter \"cuont\", did you mean 'count'?\n"
      "HW1203 parameter count takes a number, not \"two\"\n"
      "HW1203 parameter flag takes true or false, not \"yes\"\n"
      "HW1204 parameter flag is given twice; keep one\n"
      "HW1204 \"nothing\" is no assignment; write name=value\n"
      "HW1204 \"=x\" is no assignment; write name=value\n"
      "HW1205 the input must be a JSON object ({\"key\": value}), not array\n"
      "HW1202 parameter day has no default and must be given: -p day=VALUE");
  EXPECT_EQ(Parse(Declares({}), {"a=1"}),
            "HW1201 the workflow has no parameter \"a\"; the workflow takes none");
  EXPECT_EQ(Parse(Declares({{"t", "\"\""}}), {"t=\xFF"}),
            "HW1203 the value of parameter t is not UTF-8");
}

}  // namespace
}  // namespace headworks::spec
