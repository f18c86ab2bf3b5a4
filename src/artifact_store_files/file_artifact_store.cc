#include "headworks/artifact_store_files/file_artifact_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "headworks/base/fd.h"
#include "headworks/base/file.h"
#include "headworks/base/sha256.h"

namespace headworks::artifact_store_files {
namespace {

namespace fs = std::filesystem;
using artifact_store::Blob;
using artifact_store::Owner;

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0400;
/// So that Commit has no more than that to wait for, and whoever is to stop may do so before.
constexpr std::uint64_t kSyncEvery = std::uint64_t{64} << 20;

Error Trouble(std::string_view what, const std::string& path, int error = errno) {
  return {Code::kUnavailable, fmt::format("cannot {} {}: {}", what, path, std::strerror(error))};
}

Status Sync(const std::string& folder) {
  if (!SyncFolder(folder)) return Trouble("sync the folder", folder);
  return {};
}

/// An owner's folder, and those above it to the store's own: whoever made them may have died before
/// each was durable in the one above.
Status SyncUp(fs::path folder) {
  constexpr int kLevels = 4;  // run, tenant, "runs", the store's
  for (int level = 0; level < kLevels; ++level, folder = folder.parent_path())
    HEADWORKS_TRY(Sync(folder));
  return {};
}

/// `path` and what is missing above it, each durable in the one above.
Status MakeFolders(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) == 0) return Sync(fs::path(path).parent_path());
  if (errno == EEXIST) return {};
  if (errno != ENOENT) return Trouble("make the folder", path);
  HEADWORKS_TRY(MakeFolders(fs::path(path).parent_path()));
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST)
    return Trouble("make the folder", path);
  return Sync(fs::path(path).parent_path());
}

/// Any text as the name of a folder: what is no letter, digit, '_' or '-' is %XX, and nothing is %.
std::string NameOf(std::string_view text) {
  if (text.empty()) return "%";
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (plain)
      name += c;
    else
      name += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

/// Back again; nullopt: NameOf makes no such name.
std::optional<std::string> TextOf(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      text += name[i];
      continue;
    }
    if (i + 2 >= name.size()) return std::nullopt;
    text += static_cast<char>(std::strtol(std::string(name.substr(i + 1, 2)).c_str(), nullptr, 16));
    i += 2;
  }
  if (NameOf(text) != name) return std::nullopt;
  return text;
}

class FileWriter final : public artifact_store::Writer {
 public:
  FileWriter(Fd file, std::string path, std::string folder)
      : file_(std::move(file)), path_(std::move(path)), folder_(std::move(folder)) {}
  ~FileWriter() override {
    if (!committed_) unlink(path_.c_str());
  }

  Status Append(std::string_view bytes) override {
    digest_.Add(bytes);
    size_ += bytes.size();
    if (!WriteAll(file_.get(), bytes)) return Trouble("write", path_);
    if (size_ - synced_ < kSyncEvery) return {};
    synced_ = size_;
    if (fdatasync(file_.get()) != 0) return Trouble("sync", path_);
    return {};
  }

  Result<Blob> Commit() override {
    Blob blob{.sha256 = digest_.Hex(), .size = size_};
    if (fchmod(file_.get(), kFileMode) != 0 || fsync(file_.get()) != 0)
      return Trouble("sync", path_);
    HEADWORKS_TRY(MakeFolders(folder_));
    const std::string name = folder_ + '/' + blob.sha256;
    if (rename(path_.c_str(), name.c_str()) != 0) return Trouble("rename to", name);
    committed_ = true;
    HEADWORKS_TRY(SyncUp(folder_));
    return blob;
  }

 private:
  Fd file_;  // locked, so that no sweep takes it for what a dead writer left
  const std::string path_, folder_;
  Sha256 digest_;
  std::uint64_t size_ = 0, synced_ = 0;
  bool committed_ = false;
};

class FileReader final : public artifact_store::Reader {
 public:
  FileReader(Fd file, std::string path, Blob blob)
      : file_(std::move(file)), path_(std::move(path)), blob_(std::move(blob)) {}

  Result<std::size_t> Read(std::span<char> into) override {
    for (;;) {
      const ssize_t count = read(file_.get(), into.data(), into.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Trouble("read", path_);
      if (count == 0) return End();
      digest_.Add({into.data(), static_cast<std::size_t>(count)});
      return static_cast<std::size_t>(count);
    }
  }

 private:
  Result<std::size_t> End() {
    if (!ended_) is_whole_ = digest_.Hex() == blob_.sha256;
    ended_ = true;
    if (is_whole_) return std::size_t{0};
    return Error{Code::kCorrupt,
                 fmt::format("{} is damaged: its bytes are not those that were stored", path_)};
  }

  Fd file_;
  const std::string path_;
  const Blob blob_;
  Sha256 digest_;
  bool ended_ = false, is_whole_ = false;
};

class FileArtifactStore final : public artifact_store::ArtifactStore {
 public:
  explicit FileArtifactStore(std::string folder)
      : folder_(std::move(folder)), incoming_(folder_ + "/incoming"), runs_(folder_ + "/runs") {}

  Result<std::unique_ptr<artifact_store::Writer>> Begin(const Owner& owner) override {
    HEADWORKS_TRY(MakeFolders(incoming_));
    for (;;) {
      std::string path = incoming_ + "/XXXXXX";
      Fd file(mkostemp(path.data(), O_CLOEXEC));
      if (!file) return Trouble("make a file in", incoming_);
      struct stat status{};
      if (flock(file.get(), LOCK_EX) != 0 || fstat(file.get(), &status) != 0)
        return Trouble("lock", path);
      // A sweep may have come before the lock.
      if (status.st_nlink == 0) continue;
      return std::make_unique<FileWriter>(std::move(file), std::move(path), FolderOf(owner));
    }
  }

  Result<std::unique_ptr<artifact_store::Reader>> Open(const Owner& owner,
                                                       const Blob& blob) override {
    std::string path = FolderOf(owner) + '/' + NameOf(blob.sha256);
    Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file && errno == ENOENT)
      return Error{Code::kNotFound, fmt::format("{} is not there", path)};
    struct stat status{};
    if (!file || fstat(file.get(), &status) != 0) return Trouble("open", path);
    if (static_cast<std::uint64_t>(status.st_size) != blob.size)
      return Error{Code::kCorrupt, fmt::format("{} is damaged: it has {} bytes instead of {}", path,
                                               status.st_size, blob.size)};
    return std::make_unique<FileReader>(std::move(file), std::move(path), blob);
  }

  Status Settle(const Owner& owner) override { return SyncUp(FolderOf(owner)); }

  Status Remove(const Owner& owner) override { return RemoveTree(FolderOf(owner)); }

  Status Sweep(const std::function<Result<bool>(const Owner&)>& kept) override {
    HEADWORKS_ASSIGN(const auto files, Names(incoming_));
    for (const std::string& name : files) RemoveIfLeft(incoming_ + '/' + name);
    HEADWORKS_ASSIGN(const auto tenants, Names(runs_));
    for (const std::string& tenant : tenants) {
      HEADWORKS_ASSIGN(const auto runs, Names(runs_ + '/' + tenant));
      for (const std::string& run : runs) {
        const auto tenant_id = TextOf(tenant), run_id = TextOf(run);
        if (!tenant_id || !run_id) continue;  // somebody else's
        HEADWORKS_ASSIGN(const bool keep, kept({TenantId(*tenant_id), RunId(*run_id)}));
        if (!keep) HEADWORKS_TRY(RemoveTree(runs_ + '/' + tenant + '/' + run));
      }
    }
    return {};
  }

 private:
  std::string FolderOf(const Owner& owner) const {
    return fmt::format("{}/{}/{}", runs_, NameOf(owner.tenant.value), NameOf(owner.run.value));
  }

  static Status RemoveTree(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
      return Error{Code::kUnavailable, fmt::format("cannot remove {}: {}", path, error.message())};
    return {};
  }

  /// What a living writer has is locked.
  static void RemoveIfLeft(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  }

  /// What is in a folder; nothing if there is none.
  static Result<std::vector<std::string>> Names(const std::string& path) {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
      names.push_back(entry->path().filename().string());
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory)
      return Error{Code::kUnavailable, fmt::format("cannot read {}: {}", path, error.message())};
    return names;
  }

  const std::string folder_, incoming_, runs_;
};

}  // namespace

std::unique_ptr<artifact_store::ArtifactStore> NewFileArtifactStore(std::string folder) {
  return std::make_unique<FileArtifactStore>(std::move(folder));
}

}  // namespace headworks::artifact_store_files
