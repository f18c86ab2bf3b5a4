#include "owner_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "headworks/base/host.h"

namespace headworks::store_sqlite {
namespace {

Error Failed(const std::string& path, std::string_view what) {
  const int error = errno;
  return {error == EACCES || error == EPERM || error == EROFS ? Code::kPermissionDenied
                                                              : Code::kUnavailable,
          fmt::format("{}: cannot {} the engine's lock file: {}", path, what,
                      std::generic_category().message(error))};
}

std::string ReadOwner(int fd) {
  std::array<char, 512> text{};
  const ssize_t size = pread(fd, text.data(), text.size() - 1, 0);
  // Empty for a moment between taking the lock and writing the name.
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "another process";
}

/// All of the file, for its only writer.
struct flock WholeFile() {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<std::unique_ptr<OwnerLock>> OwnerLock::Take(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Failed(path, "open");
  std::unique_ptr<OwnerLock> lock(new OwnerLock(fd));
  struct flock whole = WholeFile();
  if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES) return Failed(path, "lock");
    return Error{Code::kConflict,
                 fmt::format("{}: the engine of this database is {}; stop it first, or leave the "
                             "work to it",
                             path, ReadOwner(fd))};
  }
  const std::string owner = fmt::format("process {} on {}", getpid(), HostName());
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    return Failed(path, "write");
  }
  return lock;
}

Result<std::string> OwnerLock::Holder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return Failed(path, "open");
  const OwnerLock closer(fd);
  struct flock held = WholeFile();
  if (fcntl(fd, F_OFD_GETLK, &held) != 0) return Failed(path, "look at");
  return held.l_type == F_UNLCK ? std::string() : ReadOwner(fd);
}

OwnerLock::~OwnerLock() { close(fd_); }

}  // namespace headworks::store_sqlite
