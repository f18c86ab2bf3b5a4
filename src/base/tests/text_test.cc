#include "headworks/base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace headworks {
namespace {

TEST(Text, Utf8PrefixEndsAtTheFirstBadByte) {
  for (const std::string_view good :
       {"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(ValidUtf8Prefix(good), good.size()) << good;
  for (const std::string_view bad :
       {"\xFF", "\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82"})
    EXPECT_EQ(ValidUtf8Prefix(std::string("ab") + std::string(bad)), 2U);
}

TEST(Text, NearestWordCountsEditsAndSwaps) {
  constexpr std::array<std::string_view, 4> kKnown = {"needs", "retry", "timeout", "cwd"};
  EXPECT_EQ(NearestWord("need", kKnown), "needs");
  EXPECT_EQ(NearestWord("rerty", kKnown), "retry");
  EXPECT_EQ(NearestWord("Timeout", kKnown), "timeout");
  EXPECT_EQ(NearestWord("tmieot", kKnown), "timeout");
  EXPECT_EQ(NearestWord("dwc", kKnown), "");
  EXPECT_EQ(NearestWord("x", kKnown), "");
  EXPECT_EQ(NearestWord("", kKnown), "");
  EXPECT_EQ(DidYouMean("cdw", kKnown), ", did you mean 'cwd'?");
  EXPECT_EQ(DidYouMean("quite_other", kKnown), "");
}

TEST(Text, NearestWordHasABound) {
  const std::string longest(100, 'a');
  const std::string near = longest.substr(1) + "b";
  const std::array<std::string_view, 1> known = {longest};
  EXPECT_EQ(NearestWord(near, known), longest);
  EXPECT_EQ(NearestWord(longest + "a", known), "");
}

TEST(Text, BytesCarryTheirUnitAndAreBounded) {
  EXPECT_EQ(ParseBytes("1"), 1U);
  EXPECT_EQ(ParseBytes("512MiB"), 512U << 20);
  EXPECT_EQ(ParseBytes("1024TiB"), std::uint64_t{1} << 50);
  for (const char* bad :
       {"", "0", "-1", "1025TiB", "1MB", "MiB", "1 MiB", "1.5GiB", "18446744073709551616"})
    EXPECT_FALSE(ParseBytes(bad)) << bad;
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1536}, std::uint64_t{1} << 20,
                                    (std::uint64_t{1} << 40) + 1, std::uint64_t{1} << 50})
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)), bytes) << FormatBytes(bytes);
  EXPECT_EQ(FormatBytes(std::uint64_t{3} << 30), "3GiB");
}

TEST(Text, DurationsAreWrittenWithoutLoss) {
  for (const char* text : {"0s", "1us", "1s500ms", "5m1s", "1h30m", "3653d", "2d1h1m1s1ms1us"})
    EXPECT_EQ(FormatExactly(*ParseDuration(text)), text);
  EXPECT_EQ(FormatExactly(*ParseDuration("90m")), "1h30m");
}

}  // namespace
}  // namespace headworks
