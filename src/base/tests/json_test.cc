#include "headworks/base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>

#include "headworks/base/random.h"

namespace headworks {
namespace {

std::string Canonical(std::string_view text) { return CanonicalJson(ParseJson(text, {}).value()); }

TEST(Json, CanonicalSortsKeysAndDropsSpace) {
  EXPECT_EQ(Canonical(R"({ "b": [1, 2.0, 2.5], "a": {"d": null, "c": true} })"),
            R"({"a":{"c":true,"d":null},"b":[1,2,2.5]})");
}

TEST(Json, CanonicalKeepsLargeIntegers) {
  EXPECT_EQ(Canonical("[9223372036854775807,18446744073709551615,-1]"),
            "[9223372036854775807,18446744073709551615,-1]");
}

TEST(Json, RefusesWhatIsNotOneDocument) {
  for (const char* text : {"", "{", "{} {}", "NaN", "[1,]", "{\"a\":1,\"a\":2}",
                           "{\"x\":{\"a\":1,\"a\":2}}", "\"\xff\"", "'a'"})
    EXPECT_FALSE(ParseJson(text, {}).has_value()) << text;
}

TEST(Json, RefusesNumbersThatWouldBeInfinite) {
  EXPECT_TRUE(ParseJson("[1e308, -1.7976931348623157e308]", {}));
  for (const std::string& text :
       {std::string(R"({"a":1e309})"), std::string("-1e400"), std::string(400, '9')}) {
    const auto value = ParseJson(text, {});
    ASSERT_FALSE(value) << text;
    EXPECT_NE(value.error().message.find("beyond what can be held"), std::string::npos)
        << value.error().message;
  }
}

TEST(Json, NumbersAreReadToTheNearestBit) {
  SeededRandom random(7);
  int read = 0;
  while (read < 2'000) {
    const auto value = std::bit_cast<double>(random.Next());
    if (!std::isfinite(value)) continue;
    ++read;
    for (const std::string& text : {fmt::format("{}", value), fmt::format("{:.17e}", value)}) {
      const auto parsed = ParseJson("[" + text + "]", {});
      ASSERT_TRUE(parsed) << parsed.error().message;
      EXPECT_EQ(parsed->as_array()[0].to_number<double>(), value) << text;
    }
  }
  for (const char* const text :
       {"0.1", "2.2250738585072014e-308", "5e-324", "1.7976931348623157e308"})
    EXPECT_EQ(ParseJson(text, {})->as_double(), std::strtod(text, nullptr)) << text;
  EXPECT_EQ(ParseJson("1e-400", {})->as_double(), 0);
}

TEST(Json, SameKeyInTwoObjectsIsFine) {
  EXPECT_TRUE(ParseJson(R"({"a":{"k":1},"b":{"k":2}})", {}).has_value());
}

TEST(Json, BoundsHoldAtTheBound) {
  EXPECT_TRUE(ParseJson("[1]", {.max_bytes = 3}).has_value());
  EXPECT_FALSE(ParseJson("[1]", {.max_bytes = 2}).has_value());
  EXPECT_TRUE(ParseJson("[[1]]", {.max_depth = 2}).has_value());
  EXPECT_FALSE(ParseJson("[[1]]", {.max_depth = 1}).has_value());
}

TEST(Json, ObjectErrorNamesWhatItIs) {
  const auto result = ParseJsonObject("[1]", "output of task a", {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message,
            "output of task a must be a JSON object ({\"key\": value}), not array");
}

TEST(Json, MergeFollowsTheDesign) {
  boost::json::value into = boost::json::parse(R"({"l":[1,2],"o":{"a":1,"b":1},"s":1})");
  MergeJson(into, boost::json::parse(R"({"l":[2,3],"o":{"b":2,"c":3},"s":[9],"n":null})"));
  EXPECT_EQ(CanonicalJson(into), R"({"l":[1,2,3],"n":null,"o":{"a":1,"b":2,"c":3},"s":[9]})");
}

TEST(Json, QuoteReplacesInvalidUtf8AndKeepsTheRest) {
  EXPECT_EQ(QuoteJson("a\"\n\xc3\xa4"), "\"a\\\"\\n\xc3\xa4\"");
  EXPECT_EQ(QuoteJson("x\xff\xc3y"), "\"x\xEF\xBF\xBD\xEF\xBF\xBDy\"");
}

TEST(Json, Sha256OfAbcIsThePublishedOne) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace headworks
