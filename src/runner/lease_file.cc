#include "lease_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "headworks/base/fd.h"
#include "headworks/base/file.h"

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
  if (!ReplaceFile(path_, fmt::format("{}\n", lease.count()), 0600)) return Failed("write", path_);
  return {};
}

}  // namespace headworks
