#pragma once

#include <sys/stat.h>

#include <mutex>
#include <string>

#include "headworks/base/result.h"

namespace headworks::cli {

/// The worker's token; of a file also after it was replaced.
///
/// Threads.  All methods may be called concurrently.
class TokenSource {
 public:
  /// `file` is the first line of one, white space at its end dropped; empty = `token` is it.
  TokenSource(std::string file, std::string token);

  /// kInvalidArgument: there is none, or the file cannot be read or holds none.
  Status Check();
  /// Of a file that cannot be read now, or holds none, the last that it held.
  std::string Get();

 private:
  /// Which file was read, and as of when.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    timespec changed{};
  };
  static bool Same(const Stamp& a, const Stamp& b);
  Result<std::string> Read(Stamp& stamp) const;

  const std::string file_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string token_;
  Stamp stamp_;
};

}  // namespace headworks::cli
