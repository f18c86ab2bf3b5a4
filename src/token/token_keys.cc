#include "headworks/token/token_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base64url.h"
#include "headworks/base/fd.h"
#include "headworks/base/file.h"
#include "headworks/base/json.h"

namespace headworks::token {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 16'384;
constexpr std::size_t kLongestId = 64;
constexpr mode_t kOthers = 0177;  // all but reading and writing by the owner

void Wipe(std::string& secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

Error OfFile(std::string_view what, const std::string& path) {
  const int error = errno;
  return {error == ENOENT ? Code::kNotFound : Code::kUnavailable,
          fmt::format("cannot {} the token keys {}: {}", what, path, std::strerror(error))};
}

Result<std::string> ReadOwn(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return OfFile("open", path);
  struct stat about = {};
  if (fstat(file.get(), &about) != 0) return OfFile("look at", path);
  if (!S_ISREG(about.st_mode))
    return Error{Code::kInvalidArgument, fmt::format("the token keys {} are no file", path)};
  if (about.st_uid != geteuid() || (about.st_mode & kOthers) != 0)
    return Error{Code::kPermissionDenied,
                 fmt::format("the token keys {} must belong to this user and be mode 0600, not "
                             "{:04o}; whoever has seen them can make tokens, so make new ones",
                             path, about.st_mode & 07777)};
  std::string text(kLargestFile + 1, '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return OfFile("read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > kLargestFile)
      return Error{Code::kInvalidArgument,
                   fmt::format("the token keys {} are over {} bytes", path, kLargestFile)};
  }
  text.resize(size);
  return text;
}

/// Beside `path`, durable, with `text`, which is wiped, and mode 0600; its name.
Result<std::string> WriteSecretBeside(const std::string& path, std::string text) {
  std::string beside = WriteBeside(path, text, 0600);
  const int error = errno;
  Wipe(text);
  errno = error;
  if (beside.empty()) return OfFile("make", path);
  return beside;
}

TokenKeys::Key NewKey(Random& random) {
  const auto bytes = [&](std::size_t count) {
    std::string text;
    text.reserve(count + sizeof(std::uint64_t));
    while (text.size() < count) {
      const std::uint64_t next = random.Next();
      text.append(reinterpret_cast<const char*>(&next), sizeof next);
    }
    return text;
  };
  return {EncodeBase64Url(bytes(8)), bytes(TokenKeys::kLeastBytes)};
}

bool IsId(std::string_view id) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !id.empty() && id.size() <= kLongestId &&
         id.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<TokenKeys::Key> ReadKey(const boost::json::value& value, std::size_t number) {
  const auto bad = [&](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("token key {}: {}", number, what)};
  };
  const auto* object = value.if_object();
  if (object == nullptr) return bad("a key is an object");
  const auto text = [&](std::string_view member) -> std::string_view {
    const auto* found = object->if_contains(member);
    return found != nullptr && found->is_string() ? std::string_view(found->get_string()) : "";
  };
  if (text("kty") != "oct") return bad("'kty' must be \"oct\"");
  if (text("alg") != "HS256") return bad("'alg' must be \"HS256\"");
  if (!IsId(text("kid"))) return bad("'kid' must be 1 to 64 of A-Z a-z 0-9 - _ .");
  auto secret = DecodeBase64Url(text("k"));
  if (!secret || secret->size() < TokenKeys::kLeastBytes || secret->size() > TokenKeys::kMostBytes)
    return bad("'k' must be 32 to 64 bytes in base64url without padding");
  return TokenKeys::Key(std::string(text("kid")), *std::move(secret));
}

}  // namespace

TokenKeys::Key::~Key() { Wipe(secret); }

TokenKeys TokenKeys::Generate(Random& random) { return TokenKeys({NewKey(random)}); }

Result<TokenKeys> TokenKeys::Parse(std::string_view jwk_set) {
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("token keys: {}", what)};
  };
  const auto parsed = ParseJson(jwk_set, {.max_bytes = kLargestFile});
  if (!parsed || !parsed->is_object()) return bad("not a JWK Set, {\"keys\": [...]}");
  const auto* list = parsed->get_object().if_contains("keys");
  if (list == nullptr || !list->is_array() || list->get_array().empty() ||
      list->get_array().size() > kMostKeys)
    return bad("'keys' must be a list of 1 or 2 keys, the signing one first");
  std::vector<Key> keys;
  for (const auto& value : list->get_array()) {
    HEADWORKS_ASSIGN(Key key, ReadKey(value, keys.size() + 1));
    if (std::ranges::find(keys, key.id, &Key::id) != keys.end())
      return bad("both have the same 'kid'");
    keys.push_back(std::move(key));
  }
  return TokenKeys(std::move(keys));
}

std::string TokenKeys::ToJwkSet() const {
  // In one piece of memory, which the caller wipes: neither growing nor a temporary leaves secrets.
  std::string text;
  text.reserve(kLargestFile);
  text += "{\"keys\": [";
  for (const Key& key : keys_) {
    std::string secret = EncodeBase64Url(key.secret);
    text += &key == &keys_.front() ? "\n" : ",\n";
    text += R"(  {"kty": "oct", "alg": "HS256", "kid": ")";
    text += key.id;
    text += R"(", "k": ")";
    text += secret;
    text += "\"}";
    Wipe(secret);
  }
  text += "\n]}\n";
  return text;
}

Result<TokenKeys> TokenKeys::Load(const std::string& path) {
  HEADWORKS_ASSIGN(std::string text, ReadOwn(path));
  auto keys = Parse(text);
  Wipe(text);
  if (!keys) return Error{keys.error().code, fmt::format("{} (in {})", keys.error().message, path)};
  return keys;
}

Result<TokenKeys> TokenKeys::LoadOrCreate(const std::string& path, Random& random) {
  auto loaded = Load(path);
  if (loaded || loaded.error().code != Code::kNotFound) return loaded;
  HEADWORKS_ASSIGN(const auto beside, WriteSecretBeside(path, Generate(random).ToJwkSet()));
  // Linked, not renamed: another process' keys must not be replaced.
  const bool linked = link(beside.c_str(), path.c_str()) == 0;
  const bool lost = !linked && errno == EEXIST;
  if (!linked && !lost) {
    const Error error = OfFile("make", path);
    unlink(beside.c_str());
    return error;
  }
  unlink(beside.c_str());
  if (!SyncFolder(fs::path(path).parent_path().string())) return OfFile("store", path);
  return Load(path);
}

Result<TokenKeys> TokenKeys::Rotate(const std::string& path, Random& random) {
  HEADWORKS_ASSIGN(const TokenKeys old, Load(path));
  TokenKeys keys({NewKey(random), old.signing()});
  HEADWORKS_ASSIGN(const auto beside, WriteSecretBeside(path, keys.ToJwkSet()));
  if (rename(beside.c_str(), path.c_str()) != 0) {
    const Error error = OfFile("replace", path);
    unlink(beside.c_str());
    return error;
  }
  if (!SyncFolder(fs::path(path).parent_path().string())) return OfFile("store", path);
  return keys;
}

const TokenKeys::Key* TokenKeys::Find(std::string_view id) const {
  const auto found = std::ranges::find(keys_, id, &Key::id);
  return found == keys_.end() ? nullptr : &*found;
}

}  // namespace headworks::token
