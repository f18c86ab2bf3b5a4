#include "token_mint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "headworks/token/token_keys.h"

namespace headworks::cli {
namespace {

using namespace std::chrono_literals;

class WallClock final : public Clock {
 public:
  Instant Now() override { return now; }
  Duration Monotonic() override { return {}; }
  Instant now{std::chrono::hours(24 * 365 * 50)};
};

class TokenMintTest : public testing::Test {
 protected:
  TokenMintTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "mint-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    keys_ = folder_ + "/keys";
  }
  ~TokenMintTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<TokenMint> Open() {
    auto mint =
        TokenMint::Open(keys_, {.tenant = TenantId("acme"), .worker = "w-1"}, clock_, random_);
    EXPECT_TRUE(mint) << mint.error().message;
    return *std::move(mint);
  }
  /// By the keys of the file as they are, at the time that it is.
  bool IsGood(const std::string& token) {
    const auto keys = token::TokenKeys::Load(keys_);
    EXPECT_TRUE(keys);
    const auto claims = token::WorkerTokens(*keys, clock_).Verify(token);
    return claims && claims->tenant.value == "acme" && claims->worker == "w-1";
  }

  std::string folder_, keys_;
  WallClock clock_;
  SystemRandom random_;
};

TEST_F(TokenMintTest, ATokenIsGoodForHalfOfItsTimeAtLeast) {
  const auto mint = Open();
  const std::string first = mint->Get();
  EXPECT_TRUE(IsGood(first));
  clock_.now += TokenMint::kValid / 2 - 1us;
  EXPECT_EQ(mint->Get(), first);
  clock_.now += 1us;
  const std::string second = mint->Get();
  EXPECT_NE(second, first);
  clock_.now += TokenMint::kValid / 2;
  EXPECT_FALSE(IsGood(first));
  EXPECT_TRUE(IsGood(second));
}

TEST_F(TokenMintTest, AClockThatIsSetBackMakesNoneOfTheFuture) {
  const auto mint = Open();
  clock_.now -= 1h;
  EXPECT_TRUE(IsGood(mint->Get()));
}

TEST_F(TokenMintTest, OtherKeysMakeAnotherAndNoneKeepTheLast) {
  const auto mint = Open();
  const std::string first = mint->Get();
  std::filesystem::remove(keys_);
  EXPECT_EQ(mint->Get(), first);
  ASSERT_TRUE(token::TokenKeys::LoadOrCreate(keys_, random_));
  EXPECT_FALSE(IsGood(first));
  EXPECT_TRUE(IsGood(mint->Get()));
}

TEST_F(TokenMintTest, KeysThatOthersMayReadAreRefused) {
  Open();
  std::filesystem::permissions(keys_, std::filesystem::perms(0644));
  const auto mint = TokenMint::Open(keys_, {.tenant = TenantId("acme")}, clock_, random_);
  ASSERT_FALSE(mint);
  EXPECT_EQ(mint.error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace headworks::cli
