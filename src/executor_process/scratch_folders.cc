#include "scratch_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace headworks::executor_process {
namespace {

constexpr mode_t kMode = 0700;

/// Whether nothing shows that a task had anything to do with it.
bool IsUntouched(const std::string& path) {
  struct stat status{};
  std::error_code error;
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         (status.st_mode & ALLPERMS) == kMode && status.st_uid == geteuid() &&
         std::filesystem::is_empty(path, error) && !error;
}

}  // namespace

Status ScratchFolders::Take(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  const auto [use, is_new] = uses_.try_emplace(run);
  if (is_new) {
    Reuse(run);
  } else if (use->second.tasks == 0) {
    idle_.erase(use->second.idle);
  }
  const std::string path = PathOf(run);
  if (mkdir(path.c_str(), kMode) == 0 || errno == EEXIST) {
    ++use->second.tasks;
    return {};
  }
  const int error = errno;
  if (use->second.tasks == 0) uses_.erase(use);
  return Error{Code::kUnavailable,
               fmt::format("cannot make the folder {}: {}", path, std::strerror(error))};
}

/// Gives the longest idle folder to `run` if it may be had.
void ScratchFolders::Reuse(const RunId& run) {
  if (idle_.size() < max_idle_) return;
  const RunId other = std::move(idle_.front());
  idle_.pop_front();
  uses_.erase(other);
  // Never over what is there already, from an earlier engine.
  if (IsUntouched(PathOf(other))) {
    renameat2(AT_FDCWD, PathOf(other).c_str(), AT_FDCWD, PathOf(run).c_str(), RENAME_NOREPLACE);
  }
}

void ScratchFolders::Release(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  const auto use = uses_.find(run);
  if (use == uses_.end() || --use->second.tasks > 0) return;
  use->second.idle = idle_.insert(idle_.end(), run);
}

Status ScratchFolders::Remove(const RunId& run) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto use = uses_.find(run); use != uses_.end() && use->second.tasks == 0) {
      idle_.erase(use->second.idle);
      uses_.erase(use);
    }
  }
  const std::string path = PathOf(run);
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return {};
  return Error{Code::kUnavailable,
               fmt::format("cannot remove the scratch folder {}: {}", path, error.message())};
}

}  // namespace headworks::executor_process
