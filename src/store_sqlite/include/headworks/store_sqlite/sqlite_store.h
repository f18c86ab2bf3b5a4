#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/task_queue/queues.h"
#include "headworks/task_queue/redact.h"

struct sqlite3;

/// The store of one host: a SQLite file.
namespace headworks::store_sqlite {

struct Options {
  /// For leases and queues; must outlive the database.  Null = the machine's.
  Clock* clock = nullptr;
  /// Null = silent.  Must outlive the database.
  Logger* logger = nullptr;
  /// False: a missing file, or one in which nothing was made yet, is kNotFound and left so.
  bool create = true;
  /// How long a write waits for other processes that write.
  Duration busy_timeout = std::chrono::seconds(5);
  /// Page cache of the writing connection.
  std::int64_t cache_bytes = std::int64_t{64} << 20;
  /// Size at which the write-ahead log is written back; it stays below about twice that, unless a
  /// reader holds it.
  std::int64_t wal_bytes = std::int64_t{16} << 20;

  /// For the reasons of failed queue items; null = task_queue::RedactCredentials.
  task_queue::Redactor redact;

  // What follows is for tests and the simulator.

  /// A registered SQLite VFS; then file permissions, folders and the owner's lock are not our
  /// affair, and nothing runs in a thread of its own.  Empty = the default one.
  std::string vfs;
  /// What identifies this boot; empty = the kernel's.  A lease of another boot has ended.
  std::string boot_id;
};

class Database : public store::Database {
 public:
  virtual task_queue::Queues& queues() = 0;
  virtual store::WorkerStore& workers() = 0;
};

/// Opens the database in the file `path`, creating it (mode 0600, folders 0700) and bringing it to
/// this program's level as needed.
///
/// Durability.  What a call acknowledged survives a crash and a power cut (WAL, synchronous=FULL).
/// Ownership.  The engine of a file is whoever holds a kernel lock on `<path>.lock`, from the first
///   Acquire until the last Release or the end of the process.  While it is held, every other
///   Acquire is kConflict and names process and host; as soon as it is free it is taken at once,
///   whatever the leases say.  Any process may read, append and use the queues meanwhile.
/// Queues.  What another process makes available rings the bell within 20 ms: as long as somebody
///   waits, a thread looks whether anything was committed.
/// Threads.  All methods of all parts may be called concurrently; appends that wait for the same
///   commit share it.
/// Errors.  kInvalidArgument: a database of another program.  kCorrupt: damaged, or no database.
///   kConflict: written by a newer program.  kPermissionDenied: file or folder is read-only.
///   kNotFound: see `Options::create`.  After a flush to disk failed, all writes are kCorrupt: end
///   the process, check the disk, start again.
Result<std::unique_ptr<Database>> Open(const std::string& path, const Options& options);

/// The same as TaskQueue::Enqueue, as a part of the transaction that the caller has open on `db`, a
/// connection of its own to a file that `Open` opened at some time: the items are there if and only
/// if the caller commits.  After an error nothing of it is left, and the transaction goes on.
///
/// `clock` is that of the database: the machine's, but for tests.  `log` is warned of duplicates
/// that differ, as that of a database is.  Whoever waits hears of the items 20 ms after the commit.
/// Errors.  As for Enqueue, and kInvalidArgument: no transaction is open, or the file is none of
///   Headworks.  kConflict: the file is of an older level; open it once with this program.
///   kUnavailable: another process writes, or has written since the transaction's first read; begin
///   it with BEGIN IMMEDIATE.
Result<std::vector<task_queue::Enqueued>> EnqueueInTransaction(
    sqlite3* db, Clock& clock, Logger& log, const TenantId& tenant, std::string_view queue,
    std::span<const task_queue::NewItem> items);

}  // namespace headworks::store_sqlite
