#include "headworks/log_store_sqlite/sqlite_log_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "headworks/log_store/chunk.h"

namespace headworks::log_store_sqlite {
namespace {

using log_store::Batch;
using log_store::Cursor;
using log_store::Line;
using log_store::Page;
using log_store::Query;

constexpr int kBusyTimeoutMs = 5'000;
/// Raised when a program that knows only the level below can no longer write the file.
constexpr int kSchemaLevel = 1;
/// One transaction of a delete: a run may hold gigabytes, and appends wait meanwhile.
constexpr int kDeleteChunks = 64;

constexpr char kSchema[] = R"(
CREATE TABLE IF NOT EXISTS chunk(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL, run INTEGER NOT NULL, task INTEGER NOT NULL, map_index INTEGER NOT NULL,
  epoch INTEGER NOT NULL, first_number INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS chunk_by_run ON chunk(tenant, run);
CREATE INDEX IF NOT EXISTS chunk_by_attempt ON chunk(tenant, run, epoch);
)";

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

/// A prepared statement that is reset when its use ends.
class Statement {
 public:
  Status Prepare(sqlite3* db, std::string_view sql);
  sqlite3_stmt* get() const { return statement_.get(); }

  struct Use {
    explicit Use(Statement& s) : statement(s.get()) {}
    ~Use() {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    void Bind(int index, std::int64_t value) { sqlite3_bind_int64(statement, index, value); }
    void Bind(int index, std::string_view text) {
      sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    void BindBlob(int index, std::string_view bytes) {
      sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_STATIC);
    }
    int Step() { return sqlite3_step(statement); }
    std::int64_t Int(int column) const { return sqlite3_column_int64(statement, column); }
    std::string_view Blob(int column) const {
      return {static_cast<const char*>(sqlite3_column_blob(statement, column)),
              static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
    }
    sqlite3_stmt* statement;
  };

 private:
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
};

Error ErrorOf(sqlite3* db, std::string_view what) {
  const int code = sqlite3_errcode(db) & 0xFF;
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  const char* file = sqlite3_db_filename(db, "main");
  std::string_view help;
  if (code == SQLITE_FULL) help = "; free some space on its disk";
  if (damaged) help = "; move the file away: the runs themselves are in another one";
  return Error{damaged ? Code::kCorrupt : Code::kUnavailable,
               fmt::format("cannot {} the log file {}: {}{}", what, file == nullptr ? "" : file,
                           sqlite3_errmsg(db), help)};
}

Status Statement::Prepare(sqlite3* db, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &raw, nullptr) != SQLITE_OK) {
    return ErrorOf(db, "use");
  }
  statement_.reset(raw);
  return {};
}

Status Run(sqlite3* db, const char* sql, std::string_view what) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return ErrorOf(db, what);
  return {};
}

/// Others do the same to a new file, and SQLite does not wait for that; for a transaction it does.
Status SetWal(sqlite3* db) {
  constexpr int kTries = 100;
  for (int tries = 1;; ++tries) {
    Status set = Run(db, "PRAGMA journal_mode=WAL", "open");
    if (set || (sqlite3_errcode(db) & 0xFF) != SQLITE_BUSY || tries == kTries) return set;
    HEADWORKS_TRY(Run(db, "BEGIN IMMEDIATE; COMMIT", "open"));
  }
}

Result<Database> OpenDatabase(const std::string& path) {
  // SQLite would create it for everybody to read, and its side files like it.
  if (const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); fd >= 0)
    close(fd);
  sqlite3* raw = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(raw);
  if (opened != SQLITE_OK) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot open the log file {}: {}; check its folder's permissions",
                             path, raw == nullptr ? "out of memory" : sqlite3_errmsg(raw))};
  }
  sqlite3_extended_result_codes(raw, 0);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  // NORMAL: a commit does not wait for the disk.  Only a power cut can cost lines, the last ones.
  HEADWORKS_TRY(SetWal(raw));
  HEADWORKS_TRY(Run(raw, "PRAGMA synchronous=NORMAL", "open"));
  return db;
}

/// Reads `user_version`, makes the tables of a new file, refuses one from a later program.
Status Migrate(sqlite3* db) {
  HEADWORKS_TRY(Run(db, "BEGIN IMMEDIATE", "open"));
  int level = 0;
  {
    Statement pragma;
    HEADWORKS_TRY(pragma.Prepare(db, "PRAGMA user_version"));
    Statement::Use use(pragma);
    if (use.Step() != SQLITE_ROW) return ErrorOf(db, "open");
    level = static_cast<int>(use.Int(0));
  }
  if (level > kSchemaLevel) {
    HEADWORKS_TRY(Run(db, "ROLLBACK", "open"));
    return Error{Code::kConflict,
                 fmt::format("the log file {} was written by a later program (level {}, this one "
                             "knows {}): upgrade this program",
                             sqlite3_db_filename(db, "main"), level, kSchemaLevel)};
  }
  if (level < kSchemaLevel) {
    HEADWORKS_TRY(Run(db, kSchema, "set up"));
    HEADWORKS_TRY(Run(db, fmt::format("PRAGMA user_version={}", kSchemaLevel).c_str(), "set up"));
  }
  return Run(db, "COMMIT", "open");
}

class SqliteLogStore final : public log_store::LogStore {
 public:
  Status Open(const std::string& path) {
    HEADWORKS_ASSIGN(writer_, OpenDatabase(path));
    HEADWORKS_TRY(Migrate(writer_.get()));
    HEADWORKS_TRY(insert_.Prepare(
        writer_.get(),
        "INSERT INTO chunk(tenant, run, task, map_index, epoch, first_number, data) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
    HEADWORKS_TRY(delete_.Prepare(
        writer_.get(),
        fmt::format("DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE tenant = ?1 AND "
                    "run = ?2 LIMIT {})",
                    kDeleteChunks)));
    HEADWORKS_ASSIGN(reader_, OpenDatabase(path));
    return PrepareReads();
  }

  Status Append(std::span<const Batch> batches) override {
    HEADWORKS_TRY(log_store::CheckAppend(batches));
    Pending mine{.batches = batches, .done = false, .status = {}};
    std::unique_lock lock(queue_mutex_);
    queue_.push_back(&mine);
    // The first to come commits for all that came while the last commit was under way.
    committed_.wait(lock, [&] { return mine.done || !committing_; });
    if (mine.done) return mine.status;
    committing_ = true;
    const std::deque<Pending*> group = std::exchange(queue_, {});
    lock.unlock();
    const Status status = Commit(group);
    lock.lock();
    for (Pending* pending : group) {
      pending->status = status;
      pending->done = true;
    }
    committing_ = false;
    committed_.notify_all();
    return status;
  }

  Result<Page> Read(const Query& query) override { return Select(query, false); }
  Result<Page> Tail(const Query& query) override { return Select(query, true); }

  Status DeleteRun(const TenantId& tenant, RunNo run) override {
    while (true) {
      const std::scoped_lock lock(writer_mutex_);
      Statement::Use use(delete_);
      use.Bind(1, tenant.value);
      use.Bind(2, run.value);
      if (use.Step() != SQLITE_DONE) return ErrorOf(writer_.get(), "delete from");
      if (sqlite3_changes(writer_.get()) < kDeleteChunks) return {};
    }
  }

 private:
  struct Pending {
    std::span<const Batch> batches;
    bool done;
    Status status;
  };

  Status PrepareReads() {
    const auto sql = [](std::string_view scope, std::string_view order) {
      return fmt::format(
          "SELECT id, task, map_index, epoch, first_number, data FROM chunk WHERE tenant = ?1 "
          "AND run = ?2 {} AND (?4 IS NULL OR task = ?4) AND (?5 IS NULL OR map_index = ?5) "
          "AND id >= ?6 ORDER BY id {}",
          scope, order);
    };
    int i = 0;
    for (const char* scope : {"", "AND epoch = ?3"}) {
      for (const char* order : {"", "DESC"}) {
        HEADWORKS_TRY(select_[i++].Prepare(reader_.get(), sql(scope, order)));
      }
    }
    return {};
  }

  Status Commit(const std::deque<Pending*>& group) {
    const std::scoped_lock lock(writer_mutex_);
    sqlite3* const db = writer_.get();
    HEADWORKS_TRY(Run(db, "BEGIN IMMEDIATE", "write to"));
    Status status;
    for (const Pending* pending : group) {
      for (const Batch& batch : pending->batches) {
        if (status) status = Insert(batch);
      }
    }
    if (status) status = Run(db, "COMMIT", "write to");
    // Some errors roll back by themselves; then there is nothing to undo.
    if (!status && sqlite3_get_autocommit(db) == 0) {
      sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return status;
  }

  Status Insert(const Batch& batch) {
    const model::AttemptKey& key = batch.attempt;
    for (std::span<const Line> rest(batch.lines); !rest.empty();) {
      std::size_t taken = 0;
      const std::string chunk = log_store::EncodeChunk(rest, taken);
      Statement::Use use(insert_);
      use.Bind(1, key.tenant.value);
      use.Bind(2, key.run.value);
      use.Bind(3, std::int64_t{key.task.value});
      use.Bind(4, std::int64_t{key.map_index});
      use.Bind(5, key.epoch.value);
      use.Bind(6, rest.front().number);
      use.BindBlob(7, chunk);
      if (use.Step() != SQLITE_DONE) return ErrorOf(writer_.get(), "write to");
      rest = rest.subspan(taken);
    }
    return {};
  }

  Result<Page> Select(const Query& query, bool from_end) {
    HEADWORKS_TRY(log_store::CheckQuery(query));
    const std::scoped_lock lock(reader_mutex_);
    Statement::Use use(select_[(query.epoch ? 2 : 0) + (from_end ? 1 : 0)]);
    use.Bind(1, query.tenant.value);
    use.Bind(2, query.run.value);
    if (query.epoch) use.Bind(3, query.epoch->value);
    if (query.task) use.Bind(4, std::int64_t{query.task->value});
    if (query.map_index) use.Bind(5, std::int64_t{*query.map_index});
    use.Bind(6, query.after.chunk);
    Page page{.entries = {}, .next = query.after};
    std::size_t bytes = 0;
    int step = SQLITE_DONE;
    while (!page.more && (step = use.Step()) == SQLITE_ROW) {
      HEADWORKS_TRY(AddChunk(query, from_end, use, page, bytes));
    }
    if (!page.more && step != SQLITE_DONE) return ErrorOf(reader_.get(), "read");
    if (from_end) std::ranges::reverse(page.entries);
    return page;
  }

  /// Adds the selected lines of the current row to `page`, in the order of the query.
  static Status AddChunk(const Query& query, bool from_end, const Statement::Use& row, Page& page,
                         std::size_t& bytes) {
    const std::int64_t id = row.Int(0);
    const model::AttemptKey key{.tenant = query.tenant,
                                .run = query.run,
                                .task = TaskNo(static_cast<std::uint32_t>(row.Int(1))),
                                .map_index = static_cast<std::int32_t>(row.Int(2)),
                                .epoch = Epoch(row.Int(3))};
    HEADWORKS_ASSIGN(std::vector<Line> lines, log_store::DecodeChunk(row.Blob(5), row.Int(4)));
    const std::size_t first =
        id == query.after.chunk ? static_cast<std::size_t>(query.after.line) : 0;
    for (std::size_t i = first; i < lines.size(); ++i) {
      if (page.entries.size() == query.max_lines || bytes > log_store::kMaxPageBytes) {
        page.more = true;
        return {};
      }
      const std::size_t at = from_end ? lines.size() - 1 - (i - first) : i;
      const Cursor here{.chunk = id, .line = static_cast<std::int64_t>(at) + 1};
      if (!from_end || page.entries.empty()) page.next = here;
      bytes += lines[at].bytes.size();
      page.entries.push_back({key, std::move(lines[at])});
    }
    return {};
  }

  std::mutex queue_mutex_;
  std::condition_variable committed_;
  std::deque<Pending*> queue_;
  bool committing_ = false;

  std::mutex writer_mutex_;
  Database writer_;
  Statement insert_, delete_;

  std::mutex reader_mutex_;
  Database reader_;
  Statement select_[4];
};

}  // namespace

Result<std::unique_ptr<log_store::LogStore>> OpenSqliteLogStore(const std::string& path) {
  auto store = std::make_unique<SqliteLogStore>();
  HEADWORKS_TRY(store->Open(path));
  return std::unique_ptr<log_store::LogStore>(std::move(store));
}

}  // namespace headworks::log_store_sqlite
