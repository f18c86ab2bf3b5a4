#include "worker_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "headworks/base/file.h"

namespace headworks::cli {

Result<WorkerSocket> WorkerSocket::Open(const std::string& database_url) {
  constexpr std::string_view kScheme = "sqlite:";
  if (!database_url.starts_with(kScheme))
    return Error{
        Code::kInvalidArgument,
        fmt::format("tasks go to workers, and none reaches {}; use a store on disk", database_url)};
  const std::string folder = RealPath(database_url.substr(kScheme.size())) + "-workers";
  const auto failed = [&](std::string_view what) {
    return Error{Code::kUnavailable, fmt::format("cannot {} {}, where workers meet the engine: {}",
                                                 what, folder, std::strerror(errno))};
  };
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed("make");
  Fd opened(open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about{};
  if (!opened || fstat(opened.get(), &about) != 0) return failed("open");
  if (about.st_uid != geteuid() || (about.st_mode & 0077) != 0)
    return Error{Code::kPermissionDenied,
                 fmt::format("{}, where workers meet the engine, must belong to this user and be "
                             "mode 0700, but is user {}'s and {:04o}; whoever gets in there can be "
                             "a worker",
                             folder, about.st_uid, about.st_mode & 07777)};
  return WorkerSocket(std::move(opened), folder + "/rpc");
}

std::string WorkerSocket::address() const {
  return fmt::format("unix:/proc/self/fd/{}/rpc", folder_.get());
}

}  // namespace headworks::cli
