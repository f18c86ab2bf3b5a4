#include "lease_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace headworks {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error Failed(std::string_view what, const std::string& path) {
  return {Code::kUnavailable,
          fmt::format("cannot {} {}, the longest lease that workers were promised: {}", what, path,
                      std::strerror(errno))};
}

}  // namespace

Result<Duration> LeaseFile::Longest() {
  const File file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0 && errno == ENOENT) return Duration(0);
  char text[32];
  const ssize_t size = file.fd() < 0 ? -1 : read(file.fd(), text, sizeof text);
  if (size < 0) return Failed("read", path_);
  std::int64_t lease = 0;
  const auto [end, error] = std::from_chars(text, text + size, lease);
  if (error != std::errc() || std::string_view(end, text + size) != "\n" || lease < 0)
    return Error{Code::kCorrupt,
                 fmt::format("{} holds no duration in microseconds; remove it once no worker runs "
                             "anything for this store",
                             path_)};
  return Duration(lease);
}

Status LeaseFile::SetLongest(Duration lease) {
  const std::string beside = path_ + ".new", text = fmt::format("{}\n", lease.count());
  {
    const File file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.fd() < 0 ||
        write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fsync(file.fd()) != 0)
      return Failed("write", beside);
  }
  if (std::rename(beside.c_str(), path_.c_str()) != 0) return Failed("replace", path_);
  const auto parent = std::filesystem::path(path_).parent_path();
  const File folder(
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd() < 0 || fsync(folder.fd()) != 0) return Failed("store", path_);
  return {};
}

}  // namespace headworks
