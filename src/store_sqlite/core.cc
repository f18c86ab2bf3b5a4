#include "core.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "headworks/base/file.h"
#include "headworks/base/host.h"
#include "schema.h"

namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

constexpr int kPageBytes = 4096;

Error CannotCreate(const std::string& path, int error) {
  return ToError(error == ENOSPC || error == EDQUOT ? SQLITE_FULL : SQLITE_CANTOPEN, "", error,
                 path);
}

Error NoDatabase(const std::string& path) {
  return {Code::kNotFound, fmt::format("{}: there is no database here", path)};
}

/// SQLite would create them for everybody to read.
Status CreatePrivateFile(const std::string& path) {
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path folder = fs::path(path).parent_path();
       !folder.empty() && !fs::exists(folder, error); folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    if (mkdir(it->c_str(), 0700) != 0 && errno != EEXIST) return CannotCreate(path, errno);
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
  } else if (errno != EEXIST) {
    return CannotCreate(path, errno);
  }
  return {};
}

}  // namespace

Core::Core(std::string path, const Options& options)
    : path_(std::move(path)),
      options_(options),
      clock_(options.clock != nullptr ? *options.clock : system_clock_),
      logger_(options.logger != nullptr ? *options.logger : null_logger_),
      boot_id_(options.boot_id.empty() ? BootId() : options.boot_id),
      redact_(options.redact ? options.redact : task_queue::RedactCredentials) {}

Core::~Core() {
  if (checkpointer_.joinable()) {
    checkpointer_.request_stop();
    checkpointer_.join();
  }
  idle_readers_.clear();
  version_.reset();
  writer_.reset();  // last: writes the log back and removes it
}

Result<std::unique_ptr<Core>> Core::Open(const std::string& path, const Options& options) {
  std::string absolute = path;
  if (options.vfs.empty()) {
    std::error_code error;
    if (path.empty()) return Error{Code::kInvalidArgument, "no path given for the database"};
    absolute = RealPath(path);
    if (!options.create && !fs::exists(absolute, error)) return NoDatabase(absolute);
    if (options.create) HEADWORKS_TRY(CreatePrivateFile(absolute));
  }
  std::unique_ptr<Core> core(new Core(std::move(absolute), options));
  HEADWORKS_TRY(core->OpenWriter());
  return core;
}

Result<std::unique_ptr<Connection>> Core::OpenConnection(const char* settings) {
  HEADWORKS_ASSIGN(
      auto connection,
      Connection::Open(
          path_, {.flags = SQLITE_OPEN_READWRITE | (options_.vfs.empty() ? 0 : SQLITE_OPEN_CREATE),
                  .vfs = options_.vfs,
                  .busy_timeout = options_.busy_timeout}));
  HEADWORKS_TRY(connection->Script(settings));
  return connection;
}

Result<std::optional<std::string>> Core::SetWal() {
  constexpr int kTries = 100;
  for (int tries = 1;; ++tries) {
    auto mode = writer_->Value<std::string>("PRAGMA journal_mode = WAL");
    if (mode || (sqlite3_errcode(writer_->handle()) & 0xFF) != SQLITE_BUSY || tries == kTries)
      return mode;
    // Others do the same to a new file, and SQLite does not wait for that; for this it does.
    HEADWORKS_TRY(writer_->Run("BEGIN IMMEDIATE"));
    HEADWORKS_TRY(writer_->Run("COMMIT"));
  }
}

Status Core::OpenWriter() {
  HEADWORKS_ASSIGN(writer_, OpenConnection("PRAGMA cell_size_check = ON"));
  // Before anything is written: the file may be somebody else's.
  const int program_level = Migrations().back().level;
  HEADWORKS_ASSIGN(const Levels levels, CheckLevels(*writer_, program_level));
  // Whoever began to make it died, or is still at it.
  if (!options_.create && levels.schema == 0) return NoDatabase(path_);
  if (sqlite3_db_readonly(writer_->handle(), "main") == 1) {
    return ToError(SQLITE_READONLY, "", 0, path_);
  }
  HEADWORKS_ASSIGN(const auto mode, SetWal());
  if (mode != "wal") {
    return Error{
        Code::kUnavailable,
        fmt::format("{}: this file system cannot share memory between processes, which the "
                    "database needs; choose a local disk",
                    path_)};
  }
  // The log's size is cut back after a burst.
  HEADWORKS_TRY(writer_->Script(fmt::format("PRAGMA synchronous = FULL;"
                                            "PRAGMA temp_store = MEMORY;"
                                            "PRAGMA cache_size = -{};"
                                            "PRAGMA journal_size_limit = {};",
                                            options_.cache_bytes / 1024, 2 * options_.wal_bytes)
                                    .c_str()));
  if (levels.schema < program_level) HEADWORKS_TRY(ApplyMigrations(*writer_, Migrations()));
  if (options_.vfs.empty()) {
    sqlite3_wal_hook(writer_->handle(), &Core::OnCommit, this);  // also ends automatic checkpoints
    checkpointer_ = std::jthread([this](const std::stop_token& stop) { CheckpointLoop(stop); });
  }
  return {};
}

Status Core::CheckWritable() {
  if (!writer_->flush_failed()) return {};
  return Error{Code::kCorrupt,
               fmt::format("{}: a flush to disk failed, so what was written last may be lost; end "
                           "this process, check the disk, and start again",
                           path_)};
}

Result<bool> Core::TakeOwnership() {
  if (owner_lock_ != nullptr || !options_.vfs.empty()) return false;
  // What lies beside it, the lock and SQLite's log among it, goes by its name.
  if (std::error_code error; fs::hard_link_count(path_, error) > 1 && !error)
    return Error{
        Code::kPermissionDenied,
        fmt::format("{}: this file has another name, too (a hard link), so whoever uses it "
                    "by that one knows nothing of this engine; remove one of the names",
                    path_)};
  HEADWORKS_ASSIGN(owner_lock_, OwnerLock::Take(path_ + ".lock"));
  return true;
}

Result<std::int64_t> Core::DataVersion() {
  const std::lock_guard lock(version_mutex_);
  if (version_ == nullptr) {
    HEADWORKS_ASSIGN(version_, OpenConnection("PRAGMA query_only = ON"));
  }
  HEADWORKS_ASSIGN(const auto version, version_->Value<std::int64_t>("PRAGMA data_version"));
  return version.value_or(0);
}

Result<Core::Reader> Core::TakeReader() {
  {
    std::unique_lock lock(readers_mutex_);
    reader_free_.wait(lock,
                      [this] { return !idle_readers_.empty() || open_readers_ < kMaxReaders; });
    if (!idle_readers_.empty()) {
      auto connection = std::move(idle_readers_.back());
      idle_readers_.pop_back();
      return Reader(this, std::move(connection));
    }
    ++open_readers_;
  }
  auto opened = OpenConnection("PRAGMA query_only = ON; PRAGMA cache_size = -8192");
  if (!opened) {
    const std::lock_guard lock(readers_mutex_);
    --open_readers_;
    reader_free_.notify_one();
    return std::move(opened).error();
  }
  return Reader(this, *std::move(opened));
}

void Core::GiveBack(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(readers_mutex_);
  idle_readers_.push_back(std::move(connection));
  reader_free_.notify_one();
}

int Core::OnCommit(void* self, sqlite3*, const char*, int wal_pages) {
  auto* const core = static_cast<Core*>(self);
  if (std::int64_t{wal_pages} * kPageBytes >= core->options_.wal_bytes) {
    const std::lock_guard lock(core->checkpoint_mutex_);
    core->want_checkpoint_ = true;
    core->checkpoint_wanted_.notify_one();
  }
  return SQLITE_OK;
}

void Core::CheckpointLoop(const std::stop_token& stop) {
  std::unique_ptr<Connection> connection;
  for (;;) {
    {
      std::unique_lock lock(checkpoint_mutex_);
      if (!checkpoint_wanted_.wait(lock, stop, [this] { return want_checkpoint_; })) return;
      want_checkpoint_ = false;
    }
    const Status status = [&]() -> Status {
      if (connection == nullptr) {
        HEADWORKS_ASSIGN(connection, OpenConnection("PRAGMA synchronous = FULL"));
      }
      return Checkpoint(*connection);
    }();
    // The log only grows meanwhile; the next commit asks again.
    if (!status) logger_.Warning("checkpoint failed", {{"error", status.error().message}});
  }
}

Status Core::Checkpoint(Connection& connection) {
  const auto passive = [&]() -> Status {
    const int rc = sqlite3_wal_checkpoint_v2(connection.handle(), "main", SQLITE_CHECKPOINT_PASSIVE,
                                             nullptr, nullptr);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY) return connection.Failure(rc);
    return {};
  };
  // Most of the log while commits go on; then the little that they added, with the writer held, so
  // that the next commit finds everything written back and starts the log over.
  HEADWORKS_TRY(passive());
  const std::lock_guard lock(writer_mutex_);
  return passive();
}

}  // namespace headworks::store_sqlite
