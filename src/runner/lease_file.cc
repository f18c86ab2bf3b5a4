#include "lease_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "headworks/base/fd.h"

namespace headworks {
namespace {

Error Failed(std::string_view what, const std::string& path) {
  return {Code::kUnavailable,
          fmt::format("cannot {} {}, the longest lease that workers were promised: {}", what, path,
                      std::strerror(errno))};
}

}  // namespace

Result<Duration> LeaseFile::Longest() {
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return Duration(0);
  char text[32];
  const ssize_t size = file ? read(file.get(), text, sizeof text) : -1;
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
    const Fd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fsync(file.get()) != 0)
      return Failed("write", beside);
  }
  if (std::rename(beside.c_str(), path_.c_str()) != 0) return Failed("replace", path_);
  const auto parent = std::filesystem::path(path_).parent_path();
  const Fd folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return Failed("store", path_);
  return {};
}

}  // namespace headworks
