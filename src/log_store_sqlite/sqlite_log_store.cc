#include "headworks/log_store_sqlite/sqlite_log_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "database.h"
#include "headworks/log_store/chunk.h"

namespace headworks::log_store_sqlite {
namespace {

using log_store::Batch;
using log_store::Cursor;
using log_store::Line;
using log_store::Page;
using log_store::Query;

/// One transaction of a delete: a run may hold gigabytes, and appends wait meanwhile.
constexpr int kDeleteChunks = 64;

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
