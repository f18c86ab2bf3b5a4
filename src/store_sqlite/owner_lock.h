#pragma once

#include <memory>
#include <string>

#include "headworks/base/result.h"

namespace headworks::store_sqlite {

/// The right to run the engine of a database file: a kernel lock on a side file, so that it ends
/// with its process, however that ends, and a pause of any length loses nothing.
///
/// A lock of the open file description: one of the process would be lost as soon as any other
/// descriptor of the file is closed, and a flock cannot be asked for without taking it.  The
/// descriptor is closed on exec, so that no child keeps it.
class OwnerLock {
 public:
  /// kConflict names process and host of the owner.
  static Result<std::unique_ptr<OwnerLock>> Take(const std::string& path);
  /// Process and host of the owner; empty = nobody.  Takes nothing, so it is in nobody's way.
  static Result<std::string> Holder(const std::string& path);
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

 private:
  explicit OwnerLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace headworks::store_sqlite
