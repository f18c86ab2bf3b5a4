#include "base64url.h"

#include <gtest/gtest.h>

#include <utility>

namespace headworks::token {
namespace {

TEST(Base64Url, IsThatOfRfc4648) {
  // Section 10, without padding; the last two differ between the alphabets.
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg"},
                                    {"fo", "Zm8"},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg"},
                                    {"fooba", "Zm9vYmE"},
                                    {"foobar", "Zm9vYmFy"},
                                    {"\xfb\xff", "-_8"},
                                    {std::string("\0\0", 2), "AAA"}}) {
    EXPECT_EQ(EncodeBase64Url(bytes), text);
    EXPECT_EQ(DecodeBase64Url(text), bytes);
  }
}

TEST(Base64Url, ValueHasOneText) {
  for (const char* text : {"Zg==", "Zg=", "Zh", "Zm9=", "Zm9", "A", "AAAAA", "Zm 9v", "Zm9v\n",
                           "+/8", "Zm9v.", "\xc3\xa9zz"})
    EXPECT_FALSE(DecodeBase64Url(text)) << text;
}

TEST(Base64Url, EveryTextOfTwoCharactersIsRefusedOrTheOneTextOfItsValue) {
  int taken = 0;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const auto bytes = DecodeBase64Url(text);
      if (!bytes) continue;
      ++taken;
      EXPECT_EQ(EncodeBase64Url(*bytes), text);
    }
  EXPECT_EQ(taken, 256);
}

}  // namespace
}  // namespace headworks::token
