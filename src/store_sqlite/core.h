#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "owner_lock.h"
#include "sqlite.h"

namespace headworks::store_sqlite {

/// One open file: its writing connection, its readers, its checkpoints.
///
/// Threads.  All methods may be called concurrently.  One thread of its own writes the log back.
class Core {
 public:
  static constexpr std::size_t kMaxReaders = 8;

  static Result<std::unique_ptr<Core>> Open(const std::string& path, const Options& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Runs `body(connection)` in a write transaction, and commits unless it returns an error.
  template <typename Body>
  std::invoke_result_t<Body, Connection&> Write(Body&& body) {
    const std::lock_guard lock(writer_mutex_);
    return WriteLocked(std::forward<Body>(body));
  }
  /// The same for a caller that holds `writer_mutex()`.
  template <typename Body>
  std::invoke_result_t<Body, Connection&> WriteLocked(Body&& body) {
    HEADWORKS_TRY(CheckWritable());
    HEADWORKS_ASSIGN(Transaction transaction, Transaction::BeginWrite(*writer_));
    auto result = body(*writer_);
    if (result) HEADWORKS_TRY(transaction.Commit());
    return result;
  }
  /// Runs `body(connection)` in a read transaction of a connection that no writer waits for.
  template <typename Body>
  std::invoke_result_t<Body, Connection&> Read(Body&& body) {
    HEADWORKS_ASSIGN(const Reader reader, TakeReader());
    HEADWORKS_ASSIGN(const Transaction transaction, Transaction::BeginRead(*reader.connection));
    return body(*reader.connection);
  }

  std::mutex& writer_mutex() { return writer_mutex_; }

  /// Takes the owner's lock unless it is held already; true if it was taken now.  The caller holds
  /// `writer_mutex()`.
  Result<bool> TakeOwnership();
  void DropOwnership() { owner_lock_.reset(); }

  Result<std::int64_t> DataVersion();

  /// Where appenders tell the engine that they appended; empty = nowhere (a VFS of tests).
  std::string DoorbellPath() const { return options_.vfs.empty() ? path_ + ".bell" : ""; }

  /// The store's clock, for leases ...
  Duration Monotonic() { return clock_.Monotonic(); }
  /// ... and for queues.
  Instant Now() { return clock_.Now(); }
  Logger& logger() { return logger_; }
  const task_queue::Redactor& redact() const { return redact_; }
  /// Whether threads may be started for this database.
  bool has_threads() const { return options_.vfs.empty(); }
  const std::string& boot_id() const { return boot_id_; }

 private:
  struct Reader {
    Core* core;
    std::unique_ptr<Connection> connection;

    Reader(Core* c, std::unique_ptr<Connection> conn) : core(c), connection(std::move(conn)) {}
    Reader(Reader&&) = default;
    ~Reader() {
      if (connection) core->GiveBack(std::move(connection));
    }
  };

  Core(std::string path, const Options& options);
  Status OpenWriter();
  /// The mode that the file is in then.
  Result<std::optional<std::string>> SetWal();
  Result<std::unique_ptr<Connection>> OpenConnection(const char* settings);
  Status CheckWritable();
  Result<Reader> TakeReader();
  void GiveBack(std::unique_ptr<Connection> connection);

  static int OnCommit(void* self, sqlite3* db, const char* schema, int wal_pages);
  void CheckpointLoop(const std::stop_token& stop);
  Status Checkpoint(Connection& connection);

  const std::string path_;
  const Options options_;
  SystemClock system_clock_;
  NullLogger null_logger_;
  Clock& clock_;
  Logger& logger_;
  const std::string boot_id_;
  const task_queue::Redactor redact_;

  std::mutex writer_mutex_;
  std::unique_ptr<Connection> writer_;     // under writer_mutex_
  std::unique_ptr<OwnerLock> owner_lock_;  // under writer_mutex_

  std::mutex version_mutex_;
  std::unique_ptr<Connection> version_;  // under version_mutex_

  std::mutex readers_mutex_;
  std::condition_variable reader_free_;
  std::vector<std::unique_ptr<Connection>> idle_readers_;  // under readers_mutex_
  std::size_t open_readers_ = 0;                           // under readers_mutex_

  std::mutex checkpoint_mutex_;
  std::condition_variable_any checkpoint_wanted_;
  bool want_checkpoint_ = false;  // under checkpoint_mutex_
  std::jthread checkpointer_;     // last: stops first
};

}  // namespace headworks::store_sqlite
