#include "token_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "headworks/worker_api/worker_service.h"

namespace headworks::cli {

TokenSource::TokenSource(std::string file, std::string token)
    : file_(std::move(file)), token_(std::move(token)) {}

Status TokenSource::Check() {
  const std::scoped_lock lock(mutex_);
  if (!file_.empty()) {
    HEADWORKS_ASSIGN(token_, Read(stamp_));
    return {};
  }
  if (!token_.empty()) return {};
  return Error{Code::kInvalidArgument,
               "a worker needs a token: give --token-file or set HEADWORKS_WORKER_TOKEN; "
               "`headworks worker token create` makes one, beside the engine's store"};
}

std::string TokenSource::Get() {
  const std::scoped_lock lock(mutex_);
  struct stat now{};
  if (file_.empty() || stat(file_.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return token_;
  if (FileStamp::Of(now) == stamp_) return token_;
  // While it is being replaced, the old one is shown.
  FileStamp stamp;
  if (auto token = Read(stamp)) {
    token_ = *std::move(token);
    stamp_ = stamp;
  }
  return token_;
}

Result<std::string> TokenSource::Read(FileStamp& stamp) const {
  const auto fault = [this](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("{} {}; check --token-file", file_, what)};
  };
  const int fd = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fault(fmt::format("cannot be read ({})", std::strerror(errno)));
  struct stat about{};
  std::string token(worker_api::kMaxTokenBytes + 1, '\0');
  const bool known = fstat(fd, &about) == 0;
  std::size_t size = 0;
  ssize_t n = 0;
  while (size < token.size() && (n = read(fd, token.data() + size, token.size() - size)) > 0)
    size += static_cast<std::size_t>(n);
  const int error = errno;
  close(fd);
  if (n < 0 || !known) return fault(fmt::format("cannot be read ({})", std::strerror(error)));
  token.resize(size);
  const bool whole = token.size() <= worker_api::kMaxTokenBytes || token.find('\n') < token.size();
  token.resize(std::min(token.find('\n'), token.size()));
  token.resize(token.find_last_not_of(" \t\r") + 1);
  if (!whole || token.empty()) return fault("holds no worker token in its first line");
  stamp = FileStamp::Of(about);
  return token;
}

}  // namespace headworks::cli
