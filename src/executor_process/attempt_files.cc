#include "attempt_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "headworks/base/fd.h"
#include "headworks/base/file.h"

namespace headworks::executor_process {
namespace {

constexpr mode_t kFileMode = 0600;

Error CannotWrite(const std::string& path) {
  return {Code::kUnavailable, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error{Code::kUnavailable,
               fmt::format("cannot make the folder {}: {}", path, std::strerror(errno))};
}

/// Opens `path` for writing.  What stands there is used only if it is as an earlier attempt was
/// given it: never what a task put in its place, by whatever name that has elsewhere.
Fd OpenOwn(const std::string& path, struct stat& status) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Fd file(open(path.c_str(), kFlags, kFileMode));
  if (file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
      (status.st_mode & ALLPERMS) == kFileMode && status.st_uid == geteuid()) {
    return file;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  file = Fd(open(path.c_str(), kFlags | O_EXCL, kFileMode));
  status.st_size = 0;
  return file;
}

Status WriteOver(const std::string& path, std::string_view bytes) {
  struct stat status{};
  const Fd file = OpenOwn(path, status);
  if (!file) return CannotWrite(path);
  const auto size = static_cast<off_t>(bytes.size());
  if (!WriteAll(file.get(), bytes)) return CannotWrite(path);
  // Afterwards, and not to nothing before: that would make the file system write it out at once.
  if (status.st_size > size && ftruncate(file.get(), size) != 0) return CannotWrite(path);
  return {};
}

}  // namespace

Result<std::unique_ptr<StateFolder>> StateFolder::Open(const std::string& path) {
  std::unique_ptr<StateFolder> folder(new StateFolder(std::filesystem::absolute(path).string()));
  for (const char* name : {"", "/attempts", "/scratch"}) {
    HEADWORKS_TRY(MakeFolder(folder->path_ + name));
  }
  return folder;
}

std::string StateFolder::ScratchRoot(const std::string& path) {
  return std::filesystem::absolute(path).string() + "/scratch";
}

Result<AttemptFiles> StateFolder::Take(const RunId& run_id) {
  AttemptFiles files;
  {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) free_.push_back(++made_);
    files.slot = free_.back();
    free_.pop_back();
  }
  const std::string folder = fmt::format("{}/attempts/{}", path_, files.slot);
  files.input = folder + "/input.json";
  files.output = folder + "/output";
  files.script = folder + "/script";
  files.artifacts = folder + "/needs";
  files.run = run_id;
  files.scratch = scratch_.PathOf(run_id);
  Status made = MakeFolder(folder);
  if (made) made = scratch_.Take(run_id);
  if (made) return files;
  Free(files.slot);
  return made.error();
}

Status StateFolder::Write(const AttemptFiles& files, const std::string& input,
                          const std::string& script) {
  if (!script.empty()) HEADWORKS_TRY(WriteOver(files.script, script));
  return WriteOver(files.input, input);
}

void StateFolder::Free(std::uint32_t slot) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(slot);
}

bool StateFolder::Release(const AttemptFiles& files) {
  if (files.slot == 0) return true;
  scratch_.Release(files.run);
  if (files.placed || (unlink(files.output.c_str()) != 0 && errno == EISDIR)) return false;
  Free(files.slot);
  return true;
}

void StateFolder::ReleaseTree(const AttemptFiles& files) {
  std::error_code error;
  std::filesystem::remove_all(files.output, error);
  if (!error) std::filesystem::remove_all(files.artifacts, error);
  // With what cannot be removed the slot is of no use; it goes with the next Clear.
  if (!error) Free(files.slot);
}

Status StateFolder::Clear() {
  const std::scoped_lock lock(mutex_);
  free_.clear();
  made_ = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/attempts", error)) {
    std::filesystem::remove_all(entry.path(), error);
  }
  if (!error) return {};
  return Error{Code::kUnavailable, fmt::format("cannot remove what is left in {}/attempts: {}",
                                               path_, error.message())};
}

}  // namespace headworks::executor_process
