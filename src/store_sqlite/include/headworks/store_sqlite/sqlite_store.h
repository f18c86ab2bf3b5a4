#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/store/run_store.h"

/// The store of one host: a SQLite file.
namespace headworks::store_sqlite {

struct Options {
  /// For leases; must outlive the database.  Null = the machine's.
  Clock* clock = nullptr;
  /// Null = silent.  Must outlive the database.
  Logger* logger = nullptr;
  /// False: a missing file is kNotFound.
  bool create = true;
  /// How long a write waits for other processes that write.
  Duration busy_timeout = std::chrono::seconds(5);
  /// Page cache of the writing connection.
  std::int64_t cache_bytes = std::int64_t{64} << 20;
  /// Size at which the write-ahead log is written back; it stays below about twice that, unless a
  /// reader holds it.
  std::int64_t wal_bytes = std::int64_t{16} << 20;

  // What follows is for tests and the simulator.

  /// A registered SQLite VFS; then file permissions, folders and the owner's lock are not our
  /// affair, and nothing runs in a thread of its own.  Empty = the default one.
  std::string vfs;
  /// What identifies this boot; empty = the kernel's.  A lease of another boot has ended.
  std::string boot_id;
};

/// Opens the database in the file `path`, creating it (mode 0600, folders 0700) and bringing it to
/// this program's level as needed.
///
/// Durability.  What a call acknowledged survives a crash and a power cut (WAL, synchronous=FULL).
/// Ownership.  The engine of a file is whoever holds a kernel lock on `<path>.lock`, from the first
///   Acquire until the last Release or the end of the process.  While it is held, every other
///   Acquire is kConflict and names process and host; as soon as it is free it is taken at once,
///   whatever the leases say.  Any process may read and append meanwhile.
/// Threads.  All methods of all parts may be called concurrently; appends that wait for the same
///   commit share it.
/// Errors.  kInvalidArgument: not a Headworks database.  kConflict: written by a newer program.
///   kPermissionDenied: file or folder is read-only.  kNotFound: see `Options::create`.  After a
///   flush to disk failed, all writes are kCorrupt: end the process, check the disk, start again.
Result<std::unique_ptr<store::Database>> Open(const std::string& path, const Options& options);

}  // namespace headworks::store_sqlite
