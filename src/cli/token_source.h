#pragma once

#include <mutex>
#include <string>

#include "headworks/base/file_stamp.h"
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
  Result<std::string> Read(FileStamp& stamp) const;

  const std::string file_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string token_;
  FileStamp stamp_;
};

}  // namespace headworks::cli
