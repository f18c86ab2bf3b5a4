#include "artifact_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "headworks/base/fd.h"
#include "headworks/base/file.h"

namespace headworks::executor_process {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
/// Begun anew, where the store lost what it had.
constexpr int kMostAgain = 10;
constexpr mode_t kReadOnly = 0400, kExecutable = 0100;

Error Stopped() { return {Code::kCancelled, "stopped"}; }

Error Bad(const LeftFile& left, std::string_view what) {
  return {Code::kInvalidArgument, fmt::format("artifact {} ({}) {}", left.name, left.path, what)};
}

Error Trouble(std::string_view what, const std::string& path) {
  return {Code::kUnavailable, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

/// What the file is called once all links are followed.
std::string RealPath(const Fd& file) {
  char path[PATH_MAX];
  const std::string self = fmt::format("/proc/self/fd/{}", file.get());
  const ssize_t size = readlink(self.c_str(), path, sizeof path);
  return size < 0 ? std::string() : std::string(path, static_cast<std::size_t>(size));
}

/// Opened so that a pipe does not block and nothing is done to a terminal.
Result<Fd> OpenLeft(const LeftFile& left, struct stat& status) {
  if (const std::string problem = model::ArtifactPathProblem(left.path); !problem.empty())
    return Bad(left, problem);
  const bool in_scratch = left.path.starts_with(model::kScratchPath);
  const fs::path base = in_scratch ? left.scratch : left.cwd;
  const fs::path path =
      base / (in_scratch ? left.path.substr(model::kScratchPath.size()) : left.path);
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && (errno == ENOENT || errno == ENOTDIR))
    return Bad(left,
               fmt::format("is not there: the command succeeded, and left no {}", path.string()));
  if (!file && errno != EACCES && errno != ELOOP && errno != ENAMETOOLONG && errno != ENXIO)
    return Trouble("open", path.string());
  if (!file) return Bad(left, fmt::format("cannot be opened: {}", std::strerror(errno)));
  if (fstat(file.get(), &status) != 0) return Trouble("look at", path.string());
  if (S_ISDIR(status.st_mode))
    return Bad(left, "is a folder; an artifact is one file, so pack it (tar) and name that");
  if (!S_ISREG(status.st_mode)) return Bad(left, "is no regular file");
  std::error_code error;
  const std::string real = RealPath(file), top = fs::canonical(base, error).string();
  if (error || !real.starts_with(top == "/" ? top : top + '/'))
    return Bad(left, fmt::format("is a link to {}, which is not below {}; copy it there", real,
                                 base.string()));
  return file;
}

Status Copy(artifact_store::Reader& from, const std::string& path, mode_t mode,
            const std::function<bool()>& stop) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file) return Trouble("make", path);
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    if (stop()) return Stopped();
    HEADWORKS_ASSIGN(const std::size_t count, from.Read(piece));
    if (count == 0) break;
    if (!WriteAll(file.get(), {piece.data(), count})) return Trouble("write", path);
  }
  if (fchmod(file.get(), mode) != 0) return Trouble("make readable", path);  // whatever the umask
  return {};
}

Error TooLarge(const LeftFile& left) {
  return Bad(left, fmt::format("has more than {} bytes, the most that one may have "
                               "(max_artifact_bytes)",
                               left.max_bytes));
}

/// The whole file, from its beginning.  kConflict: again.
Result<artifact_store::Blob> Store(artifact_store::BlobStore& store,
                                   const artifact_store::Owner& owner, const LeftFile& left,
                                   const Fd& file, const std::function<bool()>& stop) {
  // What the store itself says against it is said of this file.
  const auto said = [&](const Error& error) {
    return error.code == Code::kInvalidArgument ? Bad(left, error.message) : error;
  };
  if (lseek(file.get(), 0, SEEK_SET) != 0) return Trouble("read", left.path);
  HEADWORKS_ASSIGN(const auto writer, store.Begin(owner));
  std::vector<char> piece(kPieceBytes);
  std::uint64_t size = 0;
  for (;;) {
    if (stop()) return Stopped();
    const ssize_t count = read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Trouble("read", left.path);
    if (count == 0) break;
    size += static_cast<std::uint64_t>(count);
    if (size > left.max_bytes) return TooLarge(left);  // it grows
    const Status appended = writer->Append({piece.data(), static_cast<std::size_t>(count)});
    if (!appended) return said(appended.error());
  }
  auto blob = writer->Commit();
  if (!blob) return said(blob.error());
  return blob;
}

}  // namespace

Result<model::Artifact> KeepFile(artifact_store::BlobStore& store,
                                 const artifact_store::Owner& owner, const LeftFile& left,
                                 const std::function<bool()>& stop) {
  struct stat status{};
  HEADWORKS_ASSIGN(const Fd file, OpenLeft(left, status));
  if (static_cast<std::uint64_t>(status.st_size) > left.max_bytes) return TooLarge(left);
  auto blob = Store(store, owner, left, file, stop);
  for (int again = 0; !blob && blob.error().code == Code::kConflict && again < kMostAgain; ++again)
    blob = Store(store, owner, left, file, stop);
  if (!blob && blob.error().code == Code::kConflict) blob.error().code = Code::kUnavailable;
  if (!blob) return Error(std::move(blob).error());
  return model::Artifact{.file = fs::path(left.path).filename().string(),
                         .sha256 = std::move(blob->sha256),
                         .size = blob->size,
                         .executable = (status.st_mode & kExecutable) != 0};
}
Status PlaceFile(artifact_store::BlobStore& store, const artifact_store::Owner& owner,
                 const executor::NeededArtifact& needed, const std::function<bool()>& stop) {
  const model::Artifact& artifact = needed.artifact;
  const auto reader = store.Open(owner, {artifact.sha256, artifact.size});
  const mode_t mode = artifact.executable ? kReadOnly | kExecutable : kReadOnly;
  Status placed = reader ? Copy(**reader, needed.path, mode, stop) : Status(Error(reader.error()));
  if (placed || placed.error().code == Code::kCancelled) return placed;
  return Error{placed.error().code,
               fmt::format("artifact {}: {}", needed.name, placed.error().message)};
}

}  // namespace headworks::executor_process
