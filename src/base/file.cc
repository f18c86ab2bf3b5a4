#include "headworks/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "headworks/base/fd.h"

namespace headworks {
namespace {

/// False; what is done to tidy up changes no errno.
bool Remove(const std::string& path) {
  const int why = errno;
  unlink(path.c_str());
  errno = why;
  return false;
}

}  // namespace

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool SyncFolder(const std::string& folder) {
  const Fd opened(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened && fsync(opened.get()) == 0;
}

std::string RealPath(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMaxLinks = 40;  // as the kernel
  std::error_code error;
  fs::path at = fs::absolute(path, error).lexically_normal();
  // A link to what is not there yet: the file will be where it leads.
  for (int links = 0; links < kMaxLinks && fs::is_symlink(at, error) && !fs::exists(at, error);
       ++links)
    at = (at.parent_path() / fs::read_symlink(at, error)).lexically_normal();
  const fs::path real = fs::weakly_canonical(at, error);
  return (error ? at : real).string();
}

std::string WriteBeside(const std::string& path, std::string_view text, unsigned mode) {
  std::string beside = path + ".XXXXXX";
  const Fd file(mkostemp(beside.data(), O_CLOEXEC));
  if (!file) return {};
  if (WriteAll(file.get(), text) && fchmod(file.get(), mode) == 0 && fsync(file.get()) == 0)
    return beside;
  Remove(beside);
  return {};
}

bool ReplaceFile(const std::string& path, std::string_view text, unsigned mode) {
  const std::string beside = WriteBeside(path, text, mode);
  if (beside.empty()) return false;
  if (std::rename(beside.c_str(), path.c_str()) != 0) return Remove(beside);
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

}  // namespace headworks
