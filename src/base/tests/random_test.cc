#include "headworks/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace headworks {
namespace {

TEST(Random, SameSeedSameSequence) {
  SeededRandom a(7), b(7), c(8);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Next(), c.Next());
}

TEST(Random, UuidV7CarriesTimeVersionAndVariant) {
  SeededRandom random(1);
  const std::string id = NewUuidV7(Instant(std::chrono::milliseconds(0x0123456789ab)), random);
  EXPECT_EQ(id.size(), 36U);
  EXPECT_EQ(id.substr(0, 15), "01234567-89ab-7");
  EXPECT_NE(std::string("89ab").find(id[19]), std::string::npos);
}

TEST(Random, UuidsDiffer) {
  SystemRandom random;
  std::set<std::string> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(NewUuidV7(Instant(), random));
  EXPECT_EQ(seen.size(), 1'000U);
}

}  // namespace
}  // namespace headworks
