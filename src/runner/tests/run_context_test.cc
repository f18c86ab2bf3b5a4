#include "run_context.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "headworks/model/workflow.h"

namespace headworks {
namespace {

namespace json = boost::json;

/// What expressions see of an output `stored` of which `n` is declared as `integer`.
std::string SeenOf(const std::string& stored) {
  model::WorkflowDefinition definition;
  definition.name.workflow = "typed";
  model::Task give{.id = "give", .action = model::ShellAction{.script = "true"}};
  give.output.type_json = R"({"n": "integer"})";
  model::Task use{.id = "use", .needs = {"give"}, .action = model::ShellAction{.script = "true"}};
  definition.tasks = {give, use};
  const auto workflow = model::Workflow::Create(definition).value();
  json::object context =
      json::parse(R"({"params": {}, "needs": {"give": {"output": )" + stored + "}}}").as_object();
  const TenantId tenant("public");
  const RunId id("r");
  TypeNumbers(context, {.tenant = tenant,
                        .run = RunNo(1),
                        .run_id = id,
                        .task = *workflow->Find("use"),
                        .workflow = *workflow});
  return json::serialize(context["needs"].at("give").at("output").at("n"));
}

TEST(TypeNumbers, AWholeDoubleWithinSixtyFourBitsIsAnInt) {
  EXPECT_EQ(SeenOf(R"({"n": 3.0})"), "3");
  EXPECT_EQ(SeenOf(R"({"n": -0.0})"), "0");
  EXPECT_EQ(SeenOf(R"({"n": -9223372036854774784.0})"), "-9223372036854774784") << "1024 - 2^63";
  EXPECT_EQ(SeenOf(R"({"n": 9223372036854774784.0})"), "9223372036854774784") << "2^63 - 1024";
}

TEST(TypeNumbers, WhatIsNoIntStaysAsItIs) {
  EXPECT_EQ(SeenOf(R"({"n": 3.5})"), "3.5E0");
  EXPECT_EQ(SeenOf(R"({"n": 9223372036854775808.0})"), "9.223372036854776E18") << "2^63";
  EXPECT_EQ(SeenOf(R"({"n": -9223372036854775808.0})"), "-9.223372036854776E18")
      << "it may have been a smaller number";
  EXPECT_EQ(SeenOf(R"({"n": 1e300})"), "1E300");
  EXPECT_EQ(SeenOf(R"({"n": "3.0"})"), "\"3.0\"");
}

}  // namespace
}  // namespace headworks
