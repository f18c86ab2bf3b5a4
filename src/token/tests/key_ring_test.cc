#include "headworks/token/key_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "headworks/token/worker_tokens.h"

namespace headworks::token {
namespace {

using executor::TokenFault;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return Instant(std::chrono::hours(500'000)) + mono_.load(); }
  Duration Monotonic() override { return mono_; }
  void Advance(Duration by) { mono_ = mono_.load() + by; }

 private:
  std::atomic<Duration> mono_{std::chrono::hours(1)};
};

class KeyRingTest : public testing::Test {
 protected:
  KeyRingTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ring-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = (folder_ / "keys").string();
    ring_ = *KeyRing::Open(path_, random_, clock_, log_);
  }
  ~KeyRingTest() override { std::filesystem::remove_all(folder_); }

  std::string Mint() {
    return *WorkerTokens(ring_, clock_).Mint({.tenant = TenantId("t")}, std::chrono::hours(1));
  }
  /// By the engine's ring: nullopt = it is good.
  std::optional<TokenFault> FaultOf(const std::string& token) {
    const auto claims = WorkerTokens(ring_, clock_).Verify(token);
    return claims ? std::nullopt : std::optional(claims.error());
  }
  /// As another process does it.
  void Rotate() {
    ASSERT_TRUE(TokenKeys::Rotate(path_, random_));
    clock_.Advance(KeyRing::kLookEvery);
  }

  std::filesystem::path folder_;
  std::string path_;
  SystemRandom random_;
  ManualClock clock_;
  NullLogger log_;
  std::shared_ptr<KeyRing> ring_;
};

TEST_F(KeyRingTest, WhatTheLastKeySignedIsGoodUntilTheNextRotation) {
  const std::string first = Mint();
  Rotate();
  EXPECT_EQ(FaultOf(first), std::nullopt);
  const std::string second = Mint();
  Rotate();
  EXPECT_EQ(FaultOf(first), TokenFault::kUnknownKey);
  EXPECT_EQ(FaultOf(second), std::nullopt);
}

TEST_F(KeyRingTest, TheFileIsLookedAtOnceASecond) {
  const auto before = ring_->keys();
  ASSERT_TRUE(TokenKeys::Rotate(path_, random_));
  EXPECT_EQ(ring_->keys(), before);
  clock_.Advance(KeyRing::kLookEvery);
  EXPECT_EQ(ring_->keys()->signing().id, TokenKeys::Load(path_)->signing().id);
}

TEST_F(KeyRingTest, AFileThatCannotBeReadChangesNothing) {
  const std::string token = Mint();
  std::ofstream(path_) << "no keys";
  clock_.Advance(KeyRing::kLookEvery);
  EXPECT_EQ(FaultOf(token), std::nullopt);
  std::filesystem::remove(path_);
  clock_.Advance(KeyRing::kLookEvery);
  EXPECT_EQ(FaultOf(token), std::nullopt);
  ASSERT_TRUE(TokenKeys::LoadOrCreate(path_, random_));
  clock_.Advance(KeyRing::kLookEvery);
  EXPECT_EQ(FaultOf(token), TokenFault::kUnknownKey) << "whose keys these are, those count";
}

TEST_F(KeyRingTest, KeysChangeUnderCallsOfOtherThreads) {
  std::vector<std::jthread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(FaultOf(Mint()), std::nullopt);
    });
  ASSERT_TRUE(TokenKeys::Rotate(path_, random_));
  clock_.Advance(KeyRing::kLookEvery);
}

}  // namespace
}  // namespace headworks::token
