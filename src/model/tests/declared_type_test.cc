#include "headworks/model/declared_type.h"

#include <gtest/gtest.h>

#include "headworks/base/json.h"

namespace headworks::model {
namespace {

/// What is wrong with `output`, up to what to do about it; empty = nothing.
std::string Mismatch(std::string type, std::string_view output) {
  const auto fields = ParseJsonObject(output.empty() ? "{}" : output, "output", {}).value();
  const Status status = CheckOutput({.type_json = std::move(type)}, fields);
  if (status) return "";
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  return status.error().message.substr(0, status.error().message.find("; correct"));
}

TEST(DeclaredOutput, WhatFitsIsTaken) {
  EXPECT_EQ(Mismatch("", R"({"anything": 1})"), "");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": 3, "more": 1})"), "");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": 3.0})"), "");
  EXPECT_EQ(Mismatch(R"({"n":"number"})", R"({"n": 3})"), "");
  EXPECT_EQ(Mismatch(R"({"l":["string"],"o":{"x":"boolean"}})", R"({"l":[],"o":{"x":true}})"), "");
  EXPECT_EQ(Mismatch(R"({"l":"array","o":"object"})", R"({"l":[1],"o":{"x":1}})"), "");
  EXPECT_EQ(Mismatch(R"({"x":"any"})", R"({"x": null})"), "");
  EXPECT_EQ(Mismatch(R"({"x":"any"})", ""), "") << "any may be missing";
  EXPECT_EQ(Mismatch(R"({"d":"date","t":"datetime"})",
                     R"({"d":"2026-02-28","t":"2026-02-28T00:00:00Z"})"),
            "");
}

TEST(DeclaredOutput, WhatDiffersIsNamed) {
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": "3"})"),
            R"(output.n is "3", but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": 3.5})"),
            R"(output.n is 3.5, but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": null})"),
            R"(output.n is null, but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", ""),
            R"(output.n is missing, but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"o":{"l":["string"]}})", R"({"o":{"l":["a", 2]}})"),
            R"(output.o.l[1] is 2, but is declared as "string")");
  EXPECT_EQ(Mismatch(R"({"o":[{"l":[["integer"]]}]})", R"({"o":[{"l":[]},{"l":[[1],[2, 3.5]]}]})"),
            R"(output.o[1].l[1][1] is 3.5, but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"o":[{"n":"integer"}]})", R"({"o":[{"n":1},{}]})"),
            R"(output.o[1].n is missing, but is declared as "integer")");
  EXPECT_EQ(Mismatch(R"({"o":{"x":"any"}})", R"({"o":[1]})"),
            R"(output.o is [1], but is declared as {"x":"any"})");
  EXPECT_EQ(Mismatch(R"({"d":"date"})", R"({"d":"2026-02-30"})"),
            R"(output.d is "2026-02-30", but is declared as "date")");
  EXPECT_EQ(Mismatch(R"({"s":"integer"})", R"({"s":")" + std::string(100, 'x') + "\"}"),
            "output.s is \"" + std::string(59, 'x') + "..., but is declared as \"integer\"");
}

TEST(DeclaredOutput, WhatDeclaresNoFieldsIsRefused) {
  EXPECT_EQ(Mismatch("[1]", "{}"), "output is declared as [1]; declare a map of its fields");
}

TEST(DeclaredOutput, AnIntegerHasSixtyFourBits) {
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": 9223372036854775807})"), "");
  EXPECT_EQ(Mismatch(R"({"n":"integer"})", R"({"n": -9223372036854775808})"), "");
  EXPECT_NE(Mismatch(R"({"n":"integer"})", R"({"n": 9223372036854775808})"), "");
  EXPECT_NE(Mismatch(R"({"n":"integer"})", R"({"n": -9223372036854775809})"), "");
  EXPECT_NE(Mismatch(R"({"n":"integer"})", R"({"n": 1e19})"), "");
  EXPECT_EQ(Mismatch(R"({"n":"number"})", R"({"n": 1e19})"), "");
}

TEST(DeclaredOutput, TextIsReadAsWhatIsDeclared) {
  const OutputSpec spec{
      .type_json = R"({"a":"any","b":"boolean","l":["integer"],"n":"integer","s":"string"})"};
  boost::json::object fields{{"a", "1"},    {"b", "true"}, {"l", "[1]"},
                             {"more", "1"}, {"n", "12"},   {"s", "12"}};
  ReadTextFields(spec, fields);
  EXPECT_EQ(CanonicalJson(fields), R"({"a":"1","b":true,"l":[1],"more":"1","n":12,"s":"12"})");
  boost::json::object wrong{{"b", "yes"}, {"n", "many"}};
  ReadTextFields(spec, wrong);
  EXPECT_EQ(CanonicalJson(wrong), R"({"b":"yes","n":"many"})");
}

}  // namespace
}  // namespace headworks::model
