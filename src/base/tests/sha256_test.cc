#include "headworks/base/sha256.h"

#include <gtest/gtest.h>

#include "headworks/base/json.h"

namespace headworks {
namespace {

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string whole;
  Sha256 digest;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string piece(i, static_cast<char>(i));
    digest.Add(piece);
    whole += piece;
  }
  EXPECT_EQ(digest.Hex(), Sha256Hex(whole));
}

TEST(Sha256, OfNothingIsThePublishedOne) {
  EXPECT_EQ(Sha256().Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace headworks
