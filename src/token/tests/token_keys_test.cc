#include "headworks/token/token_keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base64url.h"

namespace headworks::token {
namespace {

std::string Jwk(std::string_view id, std::size_t bytes, char fill = 's') {
  return fmt::format(R"({{"kty":"oct","alg":"HS256","kid":"{}","k":"{}"}})", id,
                     EncodeBase64Url(std::string(bytes, fill)));
}

std::string Set(const std::vector<std::string>& keys) {
  return fmt::format(R"({{"keys":[{}]}})", fmt::join(keys, ","));
}

class TokenKeysTest : public testing::Test {
 protected:
  TokenKeysTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "keys-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = (folder_ / "keys.json").string();
  }
  ~TokenKeysTest() override { std::filesystem::remove_all(folder_); }

  void WriteFile(std::string_view text, mode_t mode = 0600) const {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string ReadFile() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  mode_t Mode() const {
    struct stat about = {};
    EXPECT_EQ(stat(path_.c_str(), &about), 0);
    return about.st_mode & 07777;
  }

  std::filesystem::path folder_;
  std::string path_;
  SystemRandom random_;
};

TEST_F(TokenKeysTest, FirstOfTwoSignsAndBothAreKnown) {
  const auto keys = TokenKeys::Parse(Set({Jwk("new", 32), Jwk("old", 64)}));
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->signing().id, "new");
  ASSERT_NE(keys->Find("old"), nullptr);
  EXPECT_EQ(keys->Find("old")->secret, std::string(64, 's'));
  EXPECT_EQ(keys->Find("other"), nullptr);
  EXPECT_EQ(keys->Find(""), nullptr);
}

TEST_F(TokenKeysTest, WhatIsNoKeySetIsRefusedWithItsPlace) {
  const std::string k = EncodeBase64Url(std::string(32, 's'));
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a JWK Set"},
           {"[]", "not a JWK Set"},
           {"{}", "1 or 2 keys"},
           {R"({"keys":{}})", "1 or 2 keys"},
           {Set({}), "1 or 2 keys"},
           {Set({Jwk("a", 32), Jwk("b", 32), Jwk("c", 32)}), "1 or 2 keys"},
           {Set({Jwk("a", 32), Jwk("a", 33)}), "same 'kid'"},
           {Set({"1"}), "key 1: a key is an object"},
           {Set({Jwk("a", 31)}), "key 1: 'k' must be 32 to 64 bytes"},
           {Set({Jwk("a", 32), Jwk("b", 65)}), "key 2: 'k' must be 32 to 64 bytes"},
           {Set({Jwk("", 32)}), "'kid' must be"},
           {Set({Jwk(std::string(65, 'a'), 32)}), "'kid' must be"},
           {Set({Jwk("a b", 32)}), "'kid' must be"},
           {Set({R"({"kty":"RSA","alg":"HS256","kid":"a","k":")" + k + "\"}"}), "'kty'"},
           {Set({R"({"kty":"oct","alg":"none","kid":"a","k":")" + k + "\"}"}), "'alg'"},
           {Set({R"({"kty":"oct","kid":"a","k":")" + k + "\"}"}), "'alg'"},
           {Set({R"({"kty":"oct","alg":"HS256","kid":7,"k":")" + k + "\"}"}), "'kid'"},
           {Set({R"({"kty":"oct","alg":"HS256","kid":"a","k":")" + k + "=\"}"}), "'k'"}}) {
    const auto keys = TokenKeys::Parse(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code, Code::kInvalidArgument);
    EXPECT_NE(keys.error().message.find(said), std::string::npos) << keys.error().message;
    EXPECT_EQ(keys.error().message.find(k.substr(0, 8)), std::string::npos) << "a secret is told";
  }
  EXPECT_TRUE(TokenKeys::Parse(Set({Jwk(std::string(64, 'a'), 32)})));
}

TEST_F(TokenKeysTest, OnlyItsOwnerMayReadTheFile) {
  for (const mode_t mode : {0600, 0400}) {
    WriteFile(Set({Jwk("a", 32)}), mode);
    EXPECT_TRUE(TokenKeys::Load(path_)) << mode;
    ASSERT_EQ(unlink(path_.c_str()), 0);
  }
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0700, 0644, 0660, 0666}) {
    WriteFile(Set({Jwk("a", 32)}), mode);
    const auto keys = TokenKeys::Load(path_);
    ASSERT_FALSE(keys) << mode;
    EXPECT_EQ(keys.error().code, Code::kPermissionDenied);
    EXPECT_NE(keys.error().message.find(fmt::format("{:04o}", mode)), std::string::npos);
    EXPECT_FALSE(TokenKeys::LoadOrCreate(path_, random_)) << "it would be used after all";
  }
}

TEST_F(TokenKeysTest, OnlyARegularFileOfSomeSizeIsRead) {
  EXPECT_EQ(TokenKeys::Load(path_).error().code, Code::kNotFound);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(TokenKeys::Load(path_).error().code, Code::kInvalidArgument);
  ASSERT_EQ(unlink(path_.c_str()), 0);

  const std::string fits = Set({Jwk("a", 32)});
  WriteFile(fits + std::string(16'384 - fits.size(), ' '));
  EXPECT_TRUE(TokenKeys::Load(path_));
  WriteFile(fits + std::string(16'385 - fits.size(), ' '));
  EXPECT_EQ(TokenKeys::Load(path_).error().code, Code::kInvalidArgument);

  const std::string link = path_ + ".link";
  WriteFile(fits);
  std::filesystem::create_symlink(path_, link);
  EXPECT_EQ(TokenKeys::Load(link).error().code, Code::kUnavailable);
}

TEST_F(TokenKeysTest, MissingFileIsMadeForItsOwnerAlone) {
  const mode_t before = umask(0);
  const auto made = TokenKeys::LoadOrCreate(path_, random_);
  umask(before);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(Mode(), 0600U);
  EXPECT_EQ(made->signing().secret.size(), TokenKeys::kLeastBytes);
  const auto again = TokenKeys::LoadOrCreate(path_, random_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->signing().id, made->signing().id);
  EXPECT_EQ(again->signing().secret, made->signing().secret);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "leftovers";
  EXPECT_NE(TokenKeys::Generate(random_).signing().secret, made->signing().secret);
  EXPECT_EQ(TokenKeys::LoadOrCreate(path_ + "/below/keys", random_).error().code,
            Code::kUnavailable);
}

TEST_F(TokenKeysTest, ManyWhoMakeItAtOnceEndWithOne) {
  std::vector<std::string> ids(8);
  {
    std::vector<std::jthread> threads;
    threads.reserve(ids.size());
    for (auto& id : ids)
      threads.emplace_back([&] {
        const auto keys = TokenKeys::LoadOrCreate(path_, random_);
        id = keys ? keys->signing().id : keys.error().message;
      });
  }
  for (const auto& id : ids) EXPECT_EQ(id, ids.front());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TokenKeysTest, RotationKeepsTheLastSignerAndNoOther) {
  const auto first = TokenKeys::LoadOrCreate(path_, random_);
  ASSERT_TRUE(first);
  const auto second = TokenKeys::Rotate(path_, random_);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(second->signing().id, first->signing().id);
  EXPECT_NE(second->Find(first->signing().id), nullptr);
  const auto third = TokenKeys::Rotate(path_, random_);
  ASSERT_TRUE(third);
  EXPECT_NE(third->Find(second->signing().id), nullptr);
  EXPECT_EQ(third->Find(first->signing().id), nullptr);
  const auto stored = TokenKeys::Load(path_);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->signing().secret, third->signing().secret);
  EXPECT_EQ(Mode(), 0600U);
  EXPECT_EQ(TokenKeys::Rotate(path_ + "x", random_).error().code, Code::kNotFound);
}

TEST_F(TokenKeysTest, FaultInAFileNamesTheFileButNoSecret) {
  const std::string secret = EncodeBase64Url(std::string(31, 'q'));
  WriteFile(Set({Jwk("a", 31, 'q')}));
  const auto keys = TokenKeys::Load(path_);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().message.find(path_), std::string::npos);
  EXPECT_EQ(keys.error().message.find(secret.substr(0, 8)), std::string::npos);
}

}  // namespace
}  // namespace headworks::token
