#pragma once

#include <string>
#include <utility>

#include "headworks/base/fd.h"
#include "headworks/base/result.h"

namespace headworks::cli {

/// Where the engine of a store listens for workers that reach the store itself: the socket `rpc` in
/// the folder STORE-workers, which is its user's alone, as the store is.
class WorkerSocket {
 public:
  /// Makes the folder if it is missing.  kInvalidArgument: a store in memory.  kPermissionDenied:
  /// the folder is another user's, or others may enter it.  kUnavailable: it cannot be made.
  static Result<WorkerSocket> Open(const std::string& database_url);

  /// "unix:PATH", for this process and as long as this lives: by way of a descriptor of the folder,
  /// because the path of a socket has at most 107 bytes, and that of a store may have more.
  std::string address() const;
  /// For people.
  const std::string& path() const { return path_; }

 private:
  WorkerSocket(Fd folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}

  Fd folder_;
  std::string path_;
};

}  // namespace headworks::cli
