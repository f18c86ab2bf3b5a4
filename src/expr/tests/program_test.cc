#include "headworks/expr/program.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expressions.h"
#include "headworks/expr/limits.h"

namespace headworks::expr {
namespace {

std::vector<Fault> FaultsOf(std::string_view text) {
  std::vector<Fault> faults;
  EXPECT_FALSE(Program::Compile(text, TestEnvironment(), &faults)) << text;
  return faults;
}

TEST(Program, EvaluatesOverJsonVariables) {
  EXPECT_EQ(Evaluated("needs.a.output.n > 3 && params.env == \"prod\""), "true");
  EXPECT_EQ(Evaluated("needs[\"build-x86\"].output.n + params.count"), "8");
  EXPECT_EQ(Evaluated("params.tags.map(t, t + '!')"), R"(["a!","b!"])");
  EXPECT_EQ(Evaluated("x.list.exists(e, e == y - 4) ? 'yes' : 'no'"), R"("yes")");
}

TEST(Program, PointsAtFaultsInTheText) {
  const auto faults = FaultsOf("needs.c.output > 1 && prams.env == 'x'");
  ASSERT_EQ(faults.size(), 2);
  EXPECT_EQ(faults[0].offset, 6);
  EXPECT_EQ(faults[0].length, 1);
  EXPECT_EQ(faults[0].kind, FaultKind::kUnknownName);
  EXPECT_EQ(faults[0].message, "'needs' has no field 'c'; it has a, build-x86");
  EXPECT_EQ(faults[1].offset, 22);
  EXPECT_EQ(faults[1].message, "there is no variable 'prams', did you mean 'params'?");
}

/// Faults of `text` where `m` may lack `x`, by their offsets.
std::vector<std::size_t> MissingIn(std::string_view text) {
  Environment environment;
  EXPECT_TRUE(environment.Declare(
      "m", Type::Object({{"a", Type::Kind::kInt}, {"x", Type::Kind::kInt, "at times"}}, false)));
  std::vector<Fault> faults;
  std::vector<std::size_t> offsets;
  if (Program::Compile(text, environment, &faults)) return offsets;
  for (const Fault& fault : faults) {
    EXPECT_NE(fault.message.find("has no field 'x' at times"), std::string::npos) << fault.message;
    offsets.push_back(fault.offset);
  }
  return offsets;
}

/// As many of `part` behind `first` as an expression may have.
std::string Longest(std::string first, std::string_view part) {
  while (first.size() + part.size() <= kMaxExpressionBytes) first += part;
  return first;
}

TEST(Program, OnlyAnotherQuestionAboutAValueGuardsItsOptionalField) {
  using Offsets = std::vector<std::size_t>;
  EXPECT_EQ(MissingIn("m.x == 1 && m.x == 2"), (Offsets{2, 14}));
  EXPECT_EQ(MissingIn("m['x'] == 1 && m.x == 2"), (Offsets{2, 17}));
  EXPECT_EQ(MissingIn("m.x == 1 && m.a == 2"), Offsets{});
  EXPECT_EQ(MissingIn("m.a == 1 && [m.x == 1 && 1 == 1] == []"), Offsets{});
  EXPECT_EQ(MissingIn("[m.a == 1, m.x == 1] == []"), Offsets{13});
  EXPECT_EQ(MissingIn("(m.a == 1 ? m.x : 2) == m.x"), Offsets{26});
}

// Were each read to look through all other conditions, these would take 100,000,000 steps.
TEST(Program, TheLongestConditionIsCheckedInOnePass) {
  const auto faults = MissingIn(Longest("m.x==1", "&&m.x==1"));
  ASSERT_EQ(faults.size(), kMaxExpressionFaults);
  EXPECT_EQ(faults.front(), 2U);
  EXPECT_EQ(faults.back(), 2 + 8 * (kMaxExpressionFaults - 1));
  EXPECT_TRUE(MissingIn(Longest("has(m.x)", "&&m.x==1")).empty());
}

TEST(Program, TellsSoManyFaultsAndNoMore) {
  const auto unknown = [](std::size_t count) {
    std::string text = "true";
    for (std::size_t i = 0; i < count; ++i) text += " || u == 1";
    return FaultsOf(text).size();
  };
  EXPECT_EQ(unknown(kMaxExpressionFaults - 1), kMaxExpressionFaults - 1);
  EXPECT_EQ(unknown(kMaxExpressionFaults), kMaxExpressionFaults);
  EXPECT_EQ(unknown(kMaxExpressionFaults + 1), kMaxExpressionFaults);
}

TEST(Program, SaysHowToWriteAFieldWithADash) {
  const auto faults = FaultsOf("needs.build-x86.output.n > 3");
  ASSERT_EQ(faults.size(), 1);
  EXPECT_EQ(faults[0].message,
            "'-' means minus here; the field is written needs[\"build-x86\"] (to subtract, put "
            "spaces around the '-')");
}

TEST(Program, TellsWhatItReads) {
  const auto program =
      Program::Compile("has(needs['build-x86'].output.n) || params.tags[y] == x.map[params.env].q",
                       TestEnvironment(), nullptr);
  ASSERT_TRUE(program) << program.error().message;
  std::vector<std::string> seen;
  for (const Reference& reference : program->references()) {
    std::string text = std::to_string(reference.offset) + ":" + reference.variable;
    for (const auto& field : reference.path) text += "/" + field;
    seen.push_back(text);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"4:needs/build-x86/output/n", "36:params/tags", "48:y",
                                            "54:x/map", "60:params/env"}));
}

TEST(Program, EvaluateBoolTakesNothingElseForABool) {
  const auto variables = TestVariables();
  EXPECT_EQ(*Program::Compile("y > 3", TestEnvironment(), nullptr)->EvaluateBool(variables, {}),
            true);
  const auto number =
      Program::Compile("y", TestEnvironment(), nullptr)->EvaluateBool(variables, {});
  EXPECT_EQ(number.error().message, "'y' is int, but a bool is needed; compare it with something");
}

TEST(Program, VariablesMayBeMissingWhereTheyAreNotUsed) {
  const auto program = Program::Compile("y > 3 || x == 1", TestEnvironment(), nullptr);
  EXPECT_EQ(*program->EvaluateBool({{"y", 4}}, {}), true);
  EXPECT_EQ(program->EvaluateBool({{"y", 1}}, {}).error().message,
            "'y > 3 || x == 1': there is no variable 'x' here, in 'x'");
}

TEST(Program, TextIsAScalar) {
  const auto variables = TestVariables();
  const auto text = [&](std::string_view expression) {
    const auto program = Program::Compile(expression, TestEnvironment(), nullptr);
    const auto made = program->EvaluateText(variables, {});
    return made ? *made : "error: " + made.error().message;
  };
  EXPECT_EQ(text("params.rate"), "2.5");
  EXPECT_EQ(text("1u"), "1");
  EXPECT_EQ(text("b'x'"), "error: 'b'x'' is bytes, which are no text; write string(...)");
  EXPECT_EQ(text("y / 0"), "error: 'y / 0': division by zero");
}

TEST(Program, IntegersBeyondInt64AreDoubles) {
  const boost::json::object variables = {{"x", std::uint64_t{5}}, {"y", UINT64_MAX}};
  const auto program =
      Program::Compile("type(x) == int && type(y) == double", TestEnvironment(), nullptr);
  EXPECT_EQ(*program->EvaluateBool(variables, {}), true);
}

TEST(Program, InputDeeperThanAnyParserAllowsIsRefused) {
  boost::json::value deep = 1;
  for (int i = 0; i < 1100; ++i) deep = boost::json::array{std::move(deep)};
  const boost::json::object variables = {{"x", deep}, {"y", deep}};
  for (const char* text : {"x == y", "[x]", "string(x) == ''", "'%s'.format([x]) == ''"}) {
    const auto program = Program::Compile(text, TestEnvironment(), nullptr);
    EXPECT_FALSE(program->Evaluate(variables, {})) << text;
  }
}

TEST(Program, StopsAtItsLimits) {
  // Three literals, two operators, and one result.
  EXPECT_EQ(Evaluated("1 + 2 + 3", {.max_cost = 6}), "6");
  EXPECT_EQ(Evaluated("1 + 2 + 3", {.max_cost = 5}),
            "error: '1 + 2 + 3' needs more than 5 steps; let a task compute it instead");
}

}  // namespace
}  // namespace headworks::expr
