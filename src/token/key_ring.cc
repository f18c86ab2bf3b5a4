#include "headworks/token/key_ring.h"

#include <utility>

#include "headworks/base/file_stamp.h"

namespace headworks::token {
struct KeyRing::File {
  std::string path;
  Clock& clock;
  Logger& log;
  FileStamp stamp;  // of what was read, or could not be
  Duration look_at{0};
};

KeyRing::KeyRing(TokenKeys keys) : KeyRing(nullptr, std::move(keys)) {}

KeyRing::KeyRing(std::unique_ptr<File> file, TokenKeys keys)
    : keys_(std::make_shared<const TokenKeys>(std::move(keys))), file_(std::move(file)) {}

KeyRing::~KeyRing() = default;

Result<std::shared_ptr<KeyRing>> KeyRing::Open(std::string path, Random& random, Clock& clock,
                                               Logger& log) {
  HEADWORKS_TRY(TokenKeys::LoadOrCreate(path, random));
  const FileStamp stamp =
      FileStamp::Of(path);  // before it is read: what comes between is seen next time
  HEADWORKS_ASSIGN(auto keys, TokenKeys::Load(path));
  auto file = std::make_unique<File>(
      File{std::move(path), clock, log, stamp, clock.Monotonic() + kLookEvery});
  return std::shared_ptr<KeyRing>(new KeyRing(std::move(file), std::move(keys)));
}

std::shared_ptr<const TokenKeys> KeyRing::keys() {
  const std::scoped_lock lock(mutex_);
  if (file_ != nullptr) Look();
  return keys_;
}

void KeyRing::Set(TokenKeys keys) {
  auto fresh = std::make_shared<const TokenKeys>(std::move(keys));
  const std::scoped_lock lock(mutex_);
  keys_.swap(fresh);
}

void KeyRing::Look() {
  const Duration now = file_->clock.Monotonic();
  if (now < file_->look_at) return;
  file_->look_at = now + kLookEvery;
  const FileStamp stamp = FileStamp::Of(file_->path);
  if (stamp == file_->stamp) return;
  file_->stamp = stamp;
  auto keys = TokenKeys::Load(file_->path);
  if (!keys)
    return file_->log.Error("new token keys cannot be read; the former ones stay good",
                            {{"error", keys.error().message}});
  keys_ = std::make_shared<const TokenKeys>(*std::move(keys));
  file_->log.Info("token keys were rotated", {{"signing", keys_->signing().id}});
}

}  // namespace headworks::token
