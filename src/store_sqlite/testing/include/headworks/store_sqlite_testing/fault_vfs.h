#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "headworks/base/random.h"

/// A disk in memory that fails on demand, for tests and the simulator.
namespace headworks::store_sqlite {

/// A SQLite VFS (`Options::vfs = vfs.name()`) whose files live in it.
///
/// What was written but not synced is kept apart: a power cut keeps any part of it, in sectors of
/// 512 bytes, in any order.  Creating and deleting files is durable at once.
/// Time.  Waiting for a lock takes none.  Deterministic: no thread, no clock, no randomness of its
///   own; the same calls do the same I/O.
/// Threads.  May be used concurrently.  Close all databases on it before it is destroyed.
class FaultVfs {
 public:
  enum class Operation : std::uint8_t { kRead, kWrite, kSync, kOpen };
  enum class Fault : std::uint8_t { kIoError, kDiskFull, kCannotOpen };

  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  /// Unique among those that exist.
  const std::string& name() const;

  /// Lets the next `times` operations of this kind fail, after `skip` more have succeeded.
  void Fail(Operation operation, Fault fault, std::int64_t skip = 0, std::int64_t times = 1);
  /// Files together may not grow beyond this; writes that would are kDiskFull.  -1 = no limit.
  void LimitBytes(std::int64_t bytes);
  /// The machine stops after `operations` more writes, syncs, truncations and deletions: from then
  /// on everything fails and changes nothing.
  void StopAfter(std::int64_t operations);
  bool stopped() const;
  /// Ends all faults.
  void Heal();
  /// What the disk holds when the power comes back: synced bytes, and of the rest all, nothing or
  /// a mixture, as `random` says.  Ends all faults.  All databases must be closed.
  void PowerCut(Random& random);

  /// Writes, syncs, truncations and deletions so far.
  std::int64_t operations() const;
  std::int64_t bytes() const;
  /// Size of one file, -1 if there is none.
  std::int64_t FileSize(std::string_view file) const;
  /// Turns bytes of a file around, as a bad disk would.
  void Damage(std::string_view file, std::int64_t offset, std::int64_t size);

 private:
  struct Disk;
  const std::unique_ptr<Disk> disk_;
};

}  // namespace headworks::store_sqlite
