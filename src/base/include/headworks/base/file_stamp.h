#pragma once

#include <sys/stat.h>

#include <ctime>
#include <string>

namespace headworks {

/// Which file was read, and as of when.
struct FileStamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::time_t seconds = 0;  // when it was changed
  long nanoseconds = 0;

  bool operator==(const FileStamp&) const = default;

  static FileStamp Of(const struct stat& file) {
    return {.device = file.st_dev,
            .inode = file.st_ino,
            .size = file.st_size,
            .seconds = file.st_mtim.tv_sec,
            .nanoseconds = file.st_mtim.tv_nsec};
  }
  /// As it is now; of none that can be looked at, no file's.
  static FileStamp Of(const std::string& path) {
    struct stat file{};
    return stat(path.c_str(), &file) == 0 ? Of(file) : FileStamp{};
  }
};

}  // namespace headworks
