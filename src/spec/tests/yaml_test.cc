#include <fmt/format.h>
#include <gtest/gtest.h>

#include "headworks/base/json.h"
#include "headworks/spec/workflow_file.h"
#include "parse.h"
#include "source.h"
#include "yaml_tree.h"
#include "yaml_value.h"

namespace headworks::spec {
namespace {

/// The document as canonical JSON, or "line:column CODE" of its first fault.
std::string Json(std::string_view text) {
  Source source("t.yaml", text);
  const auto tree = YamlTree::Parse(source);
  std::string json = tree ? ToJson(*tree, tree->root(), source) : "";
  if (!source.good()) {
    const Fault fault = source.TakeFaults().front();
    return fmt::format("{}:{} {}", fault.line, fault.column, fault.code);
  }
  const auto value = ParseJson(json, {});
  EXPECT_TRUE(value.has_value()) << json;
  return value ? CanonicalJson(*value) : json;
}

TEST(Yaml, ScalarsFollowTheCoreSchema) {
  EXPECT_EQ(Json("[~, null, Null, NULL, '', \"null\", nULL]"),
            R"([null,null,null,null,"","null","nULL"])");
  EXPECT_EQ(Json("[true, True, TRUE, false, tRue, yes, on, 'true']"),
            R"([true,true,true,false,"tRue","yes","on","true"])");
  EXPECT_EQ(Json("[1, -1, +1, 010, 0o17, 0x1F, -0, 1_000, '1', 0b1]"),
            R"([1,-1,1,10,15,31,0,"1_000","1","0b1"])");
  EXPECT_EQ(Json("[1.5, .5, 5., 1e3, -1.5E-2, +.5, 1.2.3, e5, ., -, 12e03]"),
            R"([1.5,0.5,5,1000,-0.015,0.5,"1.2.3","e5",".","-",12000])");
  EXPECT_EQ(Json("[9223372036854775807, -9223372036854775808, 18446744073709551615]"),
            "[9223372036854775807,-9223372036854775808,18446744073709551615]");
  EXPECT_EQ(Json("[2026-01-31, 12:30, \"\\u00e4\", a#b]"),
            "[\"2026-01-31\",\"12:30\",\"\xC3\xA4\",\"a#b\"]");
}

TEST(Yaml, NumbersBeyondJsonAreFaults) {
  for (const char* number : {".inf", "-.Inf", ".nan", "18446744073709551616",
                             "-9223372036854775809", "1e400", "-1.5E+400", "1e-400", ".5e999",
                             "5.e999", "0x10000000000000000", "0o2000000000000000000000"})
    EXPECT_EQ(Json(fmt::format("a: {}", number)), "1:4 HW1010") << number;
  EXPECT_EQ(
      Json("[1e, e400, 1.2e400.1, 0xG, 0o8, 0x, '1e400', 1e400x, 1.7976931348623157e308]"),
      R"(["1e","e400","1.2e400.1","0xG","0o8","0x","1e400","1e400x",1.7976931348623157e+308])");
}

TEST(Yaml, AliasesAndMergeKeysAreApplied) {
  EXPECT_EQ(Json("a: &x {k: [1]}\nb: *x\n"), R"({"a":{"k":[1]},"b":{"k":[1]}})");
  EXPECT_EQ(Json("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3, m: 4}\n"),
            R"({"a":{"k":1,"l":2},"b":{"k":1,"l":3,"m":4}})");
  EXPECT_EQ(Json("- &x {k: 1}\n- &y {k: 2, l: 2}\n- {<<: [*x, *y], m: 3}\n"),
            R"([{"k":1},{"k":2,"l":2},{"k":1,"l":2,"m":3}])");
  EXPECT_EQ(Json("'<<': 1"), R"({"<<":1})") << "quoted, it is a key like others";
  EXPECT_EQ(Json("&a x: 1\n*a : 2\n"), "1:1 HW1004") << "an alias as key is the same key";
}

TEST(Yaml, SurrogatePairsAreOneCharacterAsInJson) {
  const std::string smile = "\xF0\x9F\x98\x80", last = "\xF4\x8F\xBF\xBF";
  EXPECT_EQ(Json(R"({"\ud83d\ude00": "a\uD83D\uDE00\uDbFf\udFfF\\ud83d\\ude00"})"),
            "{\"" + smile + "\":\"a" + smile + last + R"(\\ud83d\\ude00"})");
  EXPECT_EQ(Json(R"(["\ud800\udc00", "\u00e4\uFFFF"])"),
            "[\"\xF0\x90\x80\x80\",\"\xC3\xA4\xEF\xBF\xBF\"]");
  // Where there are no escapes, they are text as it stands; each digit in its case.
  const std::string plain = R"(\ud83d\ude00 \uD9aB\uDfeF \uDABC\uDCdE \udbff\udfff)";
  const std::string quoted = QuoteJson(plain);
  EXPECT_EQ(
      Json("- " + plain + "\n- '" + plain + "'\n- |-\n  " + plain + "\n- \"\\ud83d\\ude00\"\n"),
      "[" + quoted + "," + quoted + "," + quoted + ",\"" + smile + "\"]");
  for (const char* alone : {R"(a: "\ud83d")", R"(a: "\ude00\ud83d")", R"(a: "\ud83d \ude00")",
                            R"(a: "\\ud83d\ude00")", R"(a: "\ud83d\u0041")", R"(a: "\ud83d\ude0")"})
    EXPECT_TRUE(Json(alone).ends_with("HW1002")) << alone;
  // Not told from what would hide them.
  for (const char* taken : {"\"\\ud83d\\ude00 \xEE\x82\xA0\"", R"("\ud83d\ude00 \ue0a0")"})
    EXPECT_TRUE(Json(taken).ends_with("HW1002")) << taken;
  EXPECT_EQ(Json("[\"\xEE\x82\xA0\", \"\\ue0a0\"]"), "[\"\xEE\x82\xA0\",\"\xEE\x82\xA0\"]");
}

TEST(Yaml, MergeKeyStandsOnce) {
  EXPECT_EQ(Json("a: &x {k: 1}\nb: {<<: *x, <<: *x}\n"), "2:13 HW1004");
  EXPECT_EQ(Json("a: &x {k: 1}\nb: {<<: *x, '<<': 2}\n"), R"({"a":{"k":1},"b":{"<<":2,"k":1}})");
}

TEST(Yaml, AnchorsMayBeNamedAgain) {
  EXPECT_EQ(Json("[&x 1, *x, &x 2, *x]"), "[1,1,2,2]");
  EXPECT_EQ(Json("- &x {a: &x 1}\n- *x\n"), R"([{"a":1},1])") << "the one that begins last";
  EXPECT_EQ(Json("a: *x\nb: &x 1\n"), "1:4 HW1002");
}

TEST(Yaml, ColumnsCountCharactersOnLinesOfAnyLength) {
  EXPECT_EQ(Json("\xC3\xA4\xC3\xB6: {\xE2\x82\xAC: 1, \xE2\x82\xAC: 2}\nk: {a: 1, a: 2}\n"),
            "1:12 HW1004");
  std::string line = "{";
  for (int i = 0; i < 50'000; ++i) line += fmt::format("\"\xC3\xA4{}\": 1, ", i);
  const std::string before = line;
  EXPECT_EQ(Json(line + "\"\xC3\xA4" + "7\": 2}"),
            fmt::format("1:{} HW1004", before.size() - 50'000 + 1));
}

TEST(Yaml, WhatOlderYamlTakesForAnEndOfLineIsRefused) {
  EXPECT_EQ(Json("a: b # \xE2\x80\xA8"
                 "c: d\n"),
            "1:8 HW1005");
  EXPECT_EQ(Json("a: \"x\xE2\x80\xA9y\"\n"), "1:6 HW1005");
  EXPECT_EQ(Json("a: x\xC2\x85y\n"), "1:5 HW1005");
  EXPECT_EQ(Json("a: \"x\\Ly\"\n"), "{\"a\":\"x\xE2\x80\xA8y\"}");
  EXPECT_EQ(Json("a: x\xC2\x80y\n"), "1:5 HW1002") << "a control character";
}

TEST(Yaml, RepeatedKeysAreFoundInMapsOfAnySize) {
  for (const int size : {1, 2, 15, 16, 17, 18, 100}) {
    std::string text;
    for (int i = 0; i < size; ++i) text += fmt::format("k{}: 1\n", i);
    EXPECT_EQ(Json(text).front(), '{');
    EXPECT_EQ(Json(text + "k0: 2\n"), fmt::format("{}:1 HW1004", size + 1));
    EXPECT_EQ(Json(text + fmt::format("k{}: 2\n", size - 1)), fmt::format("{}:1 HW1004", size + 1));
  }
}

TEST(Yaml, AliasWithinItselfIsRefused) {
  EXPECT_EQ(Json("a: &x [*x]"), "1:8 HW1003");
  EXPECT_EQ(Json("&x {a: {b: *x}}"), "1:12 HW1003");
}

TEST(Yaml, DepthHoldsAtTheBound) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Json(nested(kMaxDepth)), nested(kMaxDepth));
  EXPECT_EQ(Json(nested(kMaxDepth + 1)), "1:65 HW1003");
  EXPECT_EQ(Json(nested(100'000)), "1:65 HW1003");
  // Aliases count with what they name: 40 levels within 25.
  const std::string deep = "[&x " + nested(40) + ", ";
  EXPECT_EQ(Json(deep + std::string(23, '[') + "*x" + std::string(23, ']') + "]").front(), '[');
  EXPECT_EQ(Json(deep + std::string(24, '[') + "*x" + std::string(24, ']') + "]"),
            fmt::format("1:{} HW1003", deep.size() + 25));
}

TEST(Yaml, AliasesThatMultiplyAreRefused) {
  std::string laughs = "- &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 10; ++i)
    laughs += fmt::format("- &a{} [*a{}, *a{}, *a{}, *a{}, *a{}, *a{}, *a{}, *a{}, *a{}]\n", i,
                          i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
  EXPECT_TRUE(Json(laughs).ends_with(" HW1003")) << Json(laughs).substr(0, 100);

  std::string merges = "- &a {";
  for (int i = 0; i < 10'000; ++i) merges += fmt::format("k{}: 1, ", i);
  merges += "}\n";
  for (int i = 0; i < 1'000; ++i) merges += "- {<<: *a}\n";
  EXPECT_TRUE(Json(merges).ends_with(" HW1003")) << Json(merges).substr(0, 100);

  std::string texts = "- &a " + std::string(1'000'000, 'x') + "\n";
  for (int i = 0; i < 600; ++i) texts += "- *a\n";
  EXPECT_TRUE(Json(texts).ends_with(" HW1003")) << Json(texts).substr(0, 100);
}

TEST(Yaml, TextThatNeedsQuotesIsShownWithThem) {
  const auto says = [](std::string_view line, std::string_view mended) {
    const std::string message = MessageOf(fmt::format(
        "version: 1\nparams: {{who: x}}\ntasks:\n  b: {{run: x}}\n  a:\n    {}\n", line));
    EXPECT_NE(message.find(fmt::format("{}\n", mended)), std::string::npos) << message;
  };
  says("run: echo ${{ true ? \"x\" : \"y\" }} done",
       "needs quotes, or a block after |; write run: 'echo ${{ true ? \"x\" : \"y\" }} done'");
  says("when: true ? true : false", "write when: 'true ? true : false'");
  says("run: ${{ \"it's: \" + params.who }} # tell",
       "write run: '${{ \"it''s: \" + params.who }}' # tell");
  says("run: echo error: bad", "write run: 'echo error: bad'");
  says("exec:\n      - echo\n      - ${{ true ? \"x\" : \"y\" }}",
       "write - '${{ true ? \"x\" : \"y\" }}'");
  says("exec:\n      - echo\n      - ${{ true ? 1 : 2 }}", "write - '${{ true ? 1 : 2 }}'");
  says("exec:\n      - echo hello: you", "write - 'echo hello: you'");
  says("when:\n      - params.who == 'x' ? true : false",
       "write - 'params.who == ''x'' ? true : false'");
  says("exec: [echo, ${{ run.id }}, b ${{ params.who }} c]",
       "within { } and [ ] a text with ${{ }} needs quotes; write exec: [echo, '${{ run.id }}', 'b "
       "${{ params.who }} c']");
  says("env: {A: 'x ${{ run.id }}', X: ${{ true ? \"x\" : \"y\" }}, B: c}",
       "write env: {A: 'x ${{ run.id }}', X: '${{ true ? \"x\" : \"y\" }}', B: c}");
  says("run: echo ${{ \"a #b\" }}",
       "' #' begins a comment, also within ${{ }}; put the text into quotes: run: 'echo ${{ \"a "
       "#b\" }}'");
  const std::string blank(200, ' ');
  EXPECT_EQ(MessageOf("version: 1\ntasks:\n  a:\n    run: x" + blank + ": y\n").find("write"),
            std::string::npos)
      << "too long to show";
}

TEST(Explain, KnowsEveryCodeOnceAscending) {
  const auto all = Explanations();
  EXPECT_GE(all.size(), 30U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(Explain(all[i]->code), all[i]);
    EXPECT_GT(all[i]->text.size(), 80U) << all[i]->code;
    if (i > 0) {
      EXPECT_LT(all[i - 1]->code, all[i]->code);
    }
  }
  EXPECT_EQ(Explain("hw1006"), Explain("HW1006"));
  EXPECT_EQ(Explain("HW9999"), nullptr);
}

}  // namespace
}  // namespace headworks::spec
