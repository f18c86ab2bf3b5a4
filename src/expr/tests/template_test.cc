#include "headworks/expr/template.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "expressions.h"

namespace headworks::expr {
namespace {

std::string Messages(const std::vector<Fault>& faults) {
  std::string all;
  for (const Fault& fault : faults) {
    all += std::to_string(fault.offset) + ": " + fault.message + "\n";
  }
  return all;
}

std::string Rendered(std::string_view text) {
  std::vector<Fault> faults;
  const auto made = Template::Parse(text, TestEnvironment(), &faults);
  if (!made) return Messages(faults);
  const auto value = made->Render(TestVariables(), {});
  return value ? CanonicalJson(*value) : "error: " + value.error().message;
}

std::string Argument(std::string_view text) {
  std::vector<Fault> faults;
  const auto made = Template::ParseArgument(text, TestEnvironment(), &faults);
  if (!made) return Messages(faults);
  const auto value = made->RenderArgument(TestVariables(), {});
  return value ? *value : "error: " + value.error().message;
}

TEST(Template, WholeExpressionKeepsItsType) {
  EXPECT_EQ(Rendered("${{ params.count }}"), "3");
  EXPECT_EQ(Rendered("${{params.tags}}"), R"(["a","b"])");
  EXPECT_EQ(Rendered("${{ x['null'] }}"), "null");
  EXPECT_EQ(Rendered(" ${{ params.count }}"), R"(" 3")");
}

TEST(Template, ScalarsBecomeText) {
  EXPECT_EQ(Rendered("n=${{ params.count }}, r=${{ params.rate }}, ${{ true }} ${{ params.env }}"),
            R"("n=3, r=2.5, true prod")");
  EXPECT_EQ(Rendered("at ${{ timestamp('2026-01-02T03:04:05Z') }} for ${{ duration('90m') }}"),
            R"("at 2026-01-02T03:04:05Z for 5400s")");
  EXPECT_EQ(Rendered(""), R"("")");
  EXPECT_EQ(Rendered("plain $x ${y} }}"), R"("plain $x ${y} }}")");
}

TEST(Template, OtherValuesInTextSayWhatToWrite) {
  EXPECT_EQ(Rendered("tags: ${{ params.tags }}"),
            "10: 'params.tags' is a list, which is no text; write list.join(\" \"), or "
            "string(...) for JSON\n");
  EXPECT_EQ(Rendered("v: ${{ x.map }}"),
            "error: 'x.map' is a map, which is no text; choose a field, or write string(...) for "
            "JSON");
  EXPECT_EQ(Rendered("v: ${{ params.note }}"),
            "error: 'params.note' is null, which is no text; write string(...) for \"null\", or a "
            "condition: x == null ? \"\" : x");
}

TEST(Template, BracesAndQuotesOfTheLanguageDoNotEndIt) {
  EXPECT_EQ(Rendered("${{ {'a': {'b': '}}'}} }}"), R"({"a":{"b":"}}"}})");
  EXPECT_EQ(Rendered("${{ {'a':{}}}}"), R"({"a":{}})");
  EXPECT_EQ(Rendered("${{ '}}' }}-"), R"("}}-")");
}

TEST(Template, EscapeStandsForItself) {
  EXPECT_EQ(Rendered("$${{ x }}"), R"("${{ x }}")");
  EXPECT_EQ(Rendered("$$${{ x }}"), R"("$${{ x }}")");
  EXPECT_EQ(Rendered("${{ '$' }}${{ y }}"), R"("$7")");
}

TEST(Template, FaultsCountFromItsStart) {
  EXPECT_EQ(Rendered("a ${{ parms.x }} b ${{ 1 + 'x' }} ${{ }} ${{ 'x }}"),
            "6: there is no variable 'parms', did you mean 'params'?\n"
            "23: '+' does not take int and string; make both text: string(1) + 'x'\n"
            "38: the expression is empty; write one, e.g. true\n"
            "45: text that starts with ' needs ' at its end on the same line\n");
  EXPECT_EQ(Rendered("a ${{ y"),
            "2: the '${{' that opens here is never closed: '}}' is missing at the end of its "
            "expression; for the characters themselves write '$${{'\n");
  EXPECT_EQ(Rendered("a ${{ y } b"),
            "2: the '${{' that opens here is never closed: '}}' is missing at the end of its "
            "expression, where '}' is not enough; for the characters themselves write '$${{'\n");
  EXPECT_EQ(Rendered("${{ y $ ${{ y }}").substr(0, 6), "0: the");
  EXPECT_EQ(Rendered("${{ y $ }}").substr(0, 6), "6: '$'") << "closed, but wrong";
}

TEST(Template, TellsWhatItIs) {
  const auto whole = Template::Parse("${{ params.count }}", TestEnvironment(), nullptr);
  EXPECT_TRUE(whole->is_whole() && whole->has_expressions());
  EXPECT_EQ(whole->type(), Type(Type::Kind::kInt));
  const auto mixed = Template::Parse("", TestEnvironment(), nullptr);
  EXPECT_FALSE(mixed->is_whole() || mixed->has_expressions());
  EXPECT_EQ(mixed->type(), Type(Type::Kind::kString));
  const auto text = Template::Parse("é ${{ y }} ${{ params.env }}", TestEnvironment(), nullptr);
  ASSERT_EQ(text->references().size(), 2);
  EXPECT_EQ(text->references()[0].offset, 7);
  EXPECT_EQ(text->references()[1].variable, "params");
  EXPECT_EQ(text->references()[1].offset, 16);
}

TEST(Template, SizesAreBounded) {
  const std::string most(kMaxTemplateBytes, 'x');
  EXPECT_EQ(Rendered(most), "\"" + most + "\"");
  EXPECT_EQ(Rendered(most + "x"),
            "0: the text has 1048577 bytes, at most 1048576 are allowed; read "
            "it from a file instead\n");
  EXPECT_EQ(Rendered("a\xff"), "1: the text is not UTF-8 here\n");
  std::string many;
  for (std::size_t i = 0; i < kMaxTemplateExpressions; ++i) many += "${{ 1 }}";
  EXPECT_EQ(Rendered(many), "\"" + std::string(kMaxTemplateExpressions, '1') + "\"");
  EXPECT_EQ(Rendered(many + "${{ 1 }}"), "8000: more than 1000 expressions in one text\n");
  const auto text =
      Template::Parse("${{ params.env }}${{ params.env }}", TestEnvironment(), nullptr);
  EXPECT_EQ(text->Render(TestVariables(), {.max_bytes = 6}).error().code, Code::kAtCapacity);
}

TEST(Template, ArgumentIsOneText) {
  EXPECT_EQ(Argument("--n=${{ params.count }}"), "--n=3");
  EXPECT_EQ(Argument("${{ params.env }}"), "prod");
  EXPECT_EQ(Argument("${{ params.tags.join(',') }}"), "a,b");
  EXPECT_EQ(Argument("${{ params.tags }}"),
            "4: 'params.tags' is a list, which is no text; write list.join(\" \"), or string(...) "
            "for JSON\n");
  EXPECT_EQ(Argument("${{ 'a\\x00b' }}"),
            "error: the argument has a NUL character, which no command can be given");
}

}  // namespace
}  // namespace headworks::expr
