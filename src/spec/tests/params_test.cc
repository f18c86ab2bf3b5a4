#include "headworks/spec/params.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "headworks/base/json.h"
#include "headworks/spec/workflow_file.h"

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
  const auto made = Declares({{"day", R"("${{ run.created_at }}")"}, {"n", "1"}});
  EXPECT_EQ(Parse(made, {}), R"({"input":{},"params":{"n":1}})") << "known when the run is";
  EXPECT_EQ(Parse(made, {"day=x"}), R"({"input":{},"params":{"day":"x","n":1}})");
  EXPECT_EQ(Parse(Declares({{"n", "3"}, {"s", "\"x\""}}), {}, R"({"k": [1]})"),
            R"({"input":{"k":[1]},"params":{"n":3,"s":"x"}})");
}

TEST(Params, DefaultsAreRenderedWhereNothingWasGiven) {
  auto workflow =
      Declares({{"day", R"("${{ run.date }}")"}, {"n", "1"}, {"late", R"("${{ run.x }}")"}});
  boost::json::object context{
      {"params", {{"n", 2}, {"late", "no"}}}, {"run", {{"date", "2026-01-31"}}}, {"slot", nullptr}};
  ASSERT_TRUE(RenderDefaults(workflow, context));
  EXPECT_EQ(CanonicalJson(context.at("params")), R"({"day":"2026-01-31","late":"no","n":2})");
  workflow.params.at("day").pattern = "[0-9]{4}";
  context.at("params").as_object().erase("day");
  EXPECT_EQ(RenderDefaults(workflow, context).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(RenderDefaults(workflow, context).error().message.starts_with("parameter day takes"));
}

TEST(Params, OfAFileTakeTheTypeOfTheirDefault) {
  const auto workflow = ParseWorkflow(
      "version: 1\nparams: {x: 0.5, n: 3, s: a}\n"
      "tasks: {t: {run: x, when: params.x * 2.0 > 1.0 && params.n + 1 > 3}}\n",
      "w.yaml", "/srv", nullptr);
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(Parse(*workflow, {"x=1", "n=4", "s=5"}),
            R"({"input":{},"params":{"n":4,"s":"5","x":1}})");
  EXPECT_EQ(Parse(*workflow, {"n=2.5"}), "HW1203 parameter n takes a whole number, not \"2.5\"");
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

TEST(Params, DeclaredTypesAndBoundsHold) {
  const auto workflow = ParseWorkflow(R"(version: 1
params:
  text: {type: string}
  whole: {type: integer, min: 1, max: 3}
  part: {type: number, min: 0.5}
  flag: {type: boolean}
  list: {type: array}
  map: {type: object}
  day: {type: date}
  time: {type: datetime}
  env: {enum: [dev, prod]}
  code: {pattern: "[a-z]+"}
tasks: {a: {run: x}}
)",
                                      "w.yaml", "/");
  ASSERT_TRUE(workflow.has_value()) << workflow.error().message;
  EXPECT_EQ(Parse(*workflow,
                  {"text=[1]", "whole=3", "part=0.5", "flag=false", "list=[1]", "map={}",
                   "day=2024-02-29", "time=2026-01-31T23:59:60.5+01:00", "env=prod", "code=abc"}),
            R"({"input":{},"params":{"code":"abc","day":"2024-02-29","env":"prod","flag":false,)"
            R"("list":[1],"map":{},"part":0.5,"text":"[1]","time":"2026-01-31T23:59:60.5+01:00",)"
            R"("whole":3}})");
  EXPECT_EQ(
      Parse(*workflow, {"whole=4", "part=0.4", "flag=1", "list={}", "map=[]", "day=2026-02-29",
                        "time=2026-01-31T24:00:00Z", "env=test", "code=ab1"}),
      "HW1203 parameter whole takes 1 to 3, not \"4\"\n"
      "HW1203 parameter part takes 0.5 or more, not \"0.4\"\n"
      "HW1203 parameter flag takes true or false, not \"1\"\n"
      "HW1203 parameter list takes a JSON list, e.g. [1, 2], not \"{}\"\n"
      "HW1203 parameter map takes a JSON object, e.g. {\"a\": 1}, not \"[]\"\n"
      "HW1203 parameter day takes a date, e.g. 2026-01-31, not \"2026-02-29\"\n"
      "HW1203 parameter time takes a time with its zone, e.g. 2026-01-31T08:30:00Z, not "
      "\"2026-01-31T24:00:00Z\"\n"
      "HW1203 parameter env takes one of \"dev\", \"prod\", not \"test\"\n"
      "HW1203 parameter code takes text that matches \"[a-z]+\", not \"ab1\"");
  EXPECT_EQ(Parse(*workflow, {"whole=2.5"}),
            "HW1203 parameter whole takes a whole number, not \"2.5\"");
  EXPECT_EQ(Parse(*workflow, {}),
            R"({"input":{},"params":{"code":null,"day":null,"env":null,"flag":null,"list":null,)"
            R"("map":null,"part":null,"text":null,"time":null,"whole":null}})")
      << "not required";
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

TEST(Params, ConcurrencyKeyIsShortTextANumberOrABoolean) {
  model::WorkflowDefinition workflow;
  EXPECT_EQ(*ConcurrencyKey(workflow, "{}"), std::nullopt);
  workflow.concurrency = model::Concurrency{.limit = 1};
  EXPECT_EQ(*ConcurrencyKey(workflow, "{}"), "");
  workflow.concurrency->key = "input.who";
  const auto key = [&](const std::string& value) {
    return ConcurrencyKey(workflow, R"({"params": {}, "input": {"who": )" + value + "}}");
  };
  EXPECT_EQ(*key("\"ada\""), "ada");
  EXPECT_EQ(*key("7"), "7");
  EXPECT_EQ(*key("true"), "true");
  const std::string longest(256, 'x');
  EXPECT_EQ(*key('"' + longest + '"'), longest);
  const auto refused = [&](const std::string& value, std::string_view says) {
    const auto result = key(value);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
  };
  refused('"' + longest + "x\"", "its value has 257 bytes, at most 256 are taken");
  refused("1.5", "its value is no text, whole number or boolean");
  refused("null", "its value is no text, whole number or boolean");
}

TEST(Params, DefaultsAreRenderedWhereverTheirTemplatesStand) {
  const auto workflow = ParseWorkflow(R"(version: 1
params:
  list: {type: array, default: ["${{ run.date }}", "x-${{ run.date }}", 1, "${{ size(run.date) }}"]}
  map: {type: object, default: {a: {b: ["${{ run }}"]}, "c": "$${{ d }}"}}
  day: {type: date, default: "${{ slot }}"}
  plain: [a]
tasks: {a: {run: x}}
)",
                                      "w.yaml", "");
  ASSERT_TRUE(workflow) << workflow.error().message;
  EXPECT_EQ(Parse(*workflow, {}), R"({"input":{},"params":{"plain":["a"]}})");
  const auto rendered = [&](const std::string& name, boost::json::value slot) {
    const model::Param& param = workflow->params.at(name);
    EXPECT_TRUE(HasTemplateDefault(param));
    const auto value =
        RenderDefault(name, param, {{"run", {{"date", "2026-01-31"}}}, {"slot", std::move(slot)}});
    return value ? CanonicalJson(*value) : value.error().message;
  };
  EXPECT_EQ(rendered("list", nullptr), R"(["2026-01-31","x-2026-01-31",1,10])");
  EXPECT_EQ(rendered("map", nullptr), R"({"a":{"b":[{"date":"2026-01-31"}]},"c":"${{ d }}"})");
  EXPECT_EQ(rendered("day", nullptr), "null") << "no value";
  EXPECT_EQ(rendered("day", "2026-02-01"), R"("2026-02-01")");
  EXPECT_EQ(rendered("day", "soon"), "parameter day takes a date, e.g. 2026-01-31, not \"soon\"");
  EXPECT_NE(rendered("day", 1).find("parameter day takes a date"), std::string::npos);
  EXPECT_FALSE(HasTemplateDefault(workflow->params.at("plain")));
}

}  // namespace
}  // namespace headworks::spec
