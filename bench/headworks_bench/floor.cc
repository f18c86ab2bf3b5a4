#include "floor.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "bench.h"
#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks::bench {
namespace {

/// The engine's bound of a round.
constexpr std::int64_t kCommitRows = 2'000;
const std::string kVersion(64, 'a');

std::string RunIdText(std::int64_t run) {
  return fmt::format("0191a0b1-{:04x}-7{:03x}-8000-{:012x}", run >> 12, run & 0xfff, run);
}

/// The tables of Headworks, written by hand.
class Tables {
 public:
  explicit Tables(const std::filesystem::path& path) {
    if (auto created = store_sqlite::Open(path.string(), {}); !created)
      Die(created.error().message);
    Check(sqlite3_open(path.c_str(), &db_));
    Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536");
    Exec("INSERT INTO guard VALUES (0, 1, 0, 'bench', 0, 'boot')");
    for (std::size_t i = 0; i < kSql.size(); ++i)
      Check(sqlite3_prepare_v2(db_, kSql[i], -1, &statements_[i], nullptr));
  }
  ~Tables() {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  void Begin() {
    Step(kBegin);
    Step(kGuard);
  }
  void Commit() { Step(kCommit); }

  void InsertRun(std::int64_t run) {
    const std::string id = RunIdText(run);
    Text(kInsertRun, 2, id);
    Text(kInsertRun, 3, kVersion);
    Step(kInsertRun, run);
    Step(kInsertInput, run);
  }
  void UpdateRun(std::int64_t run, std::int64_t epoch, bool ended) {
    Check(sqlite3_bind_int64(statements_[kUpdateRun], 2, epoch));
    Check(sqlite3_bind_int(statements_[kUpdateRun], 3, ended ? 1 : 0));
    Step(kUpdateRun, run);
  }
  void Queue(std::int64_t run, std::int64_t task) { Step(kInsertTask, run, task); }
  void Settle(std::int64_t run, std::int64_t task) {
    Step(kUpdateTask, run, task);
    Step(kInsertAttempt, run, task);
  }
  void Event(std::int64_t run, std::int64_t number) { Step(kInsertEvent, run, number); }

 private:
  enum Statement {
    kBegin,
    kCommit,
    kGuard,
    kInsertRun,
    kInsertInput,
    kUpdateRun,
    kInsertTask,
    kUpdateTask,
    kInsertAttempt,
    kInsertEvent,
  };
  static constexpr std::array kSql{
      "BEGIN IMMEDIATE",
      "COMMIT",
      "UPDATE guard SET round = round + 1 WHERE shard = 0",
      "INSERT INTO run VALUES ('public', ?1, ?2, 'embedded', 'report', ?3, 0, 1800000000000000, "
      "'', '', 0, 0, NULL, NULL, NULL, NULL, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, "
      "0, 0, 0, 0, 0, x'0101000000000000000000', '')",
      "INSERT INTO run_input VALUES ('public', ?1, x'017b7d')",
      "UPDATE run SET state = 2 + ?3, next_epoch = ?2, started_at = 1800000000000000, "
      "finished_at = ?3 * 1800000000000000, wake_at = iif(?3, 9223372036854775807, 0), "
      "counts = iif(?3, x'0100000000000100000000', x'0100000100000000000000') "
      "WHERE tenant_id = 'public' AND run_no = ?1",
      "INSERT INTO task VALUES ('public', ?1, ?2, -1, 2, 0, ?2 + 1, 0, 0, 0, 0, 0, 0, 0, "
      "1800000000000000, NULL, NULL, 'inline', NULL, "
      "'host:12345:0191a0b1-0000-7000-8000-000000000000', NULL)",
      "UPDATE task SET state = 5, tries = 1, executor = '', holder = '' "
      "WHERE tenant_id = 'public' AND run_no = ?1 AND task_no = ?2 AND map_index = -1",
      "INSERT INTO attempt VALUES ('public', ?1, ?2 + 1, ?2, -1, 1, 0, 1, 0, NULL, NULL, "
      "1800000000000000, 1800000000000000, 1800000000000000, 0, '')",
      "INSERT INTO run_event VALUES ('public', ?1, ?2, 1800000000000000, 'started', '', '')"};

  void Check(int rc) {
    if (rc != SQLITE_OK) Die(fmt::format("floor: {}", sqlite3_errmsg(db_)));
  }
  void Exec(const char* sql) { Check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  void Text(Statement which, int parameter, std::string_view text) {
    Check(sqlite3_bind_text(statements_[which], parameter, text.data(),
                            static_cast<int>(text.size()), SQLITE_STATIC));
  }
  void Step(Statement which) {
    sqlite3_step(statements_[which]);
    Check(sqlite3_reset(statements_[which]));
  }
  void Step(Statement which, std::int64_t run) {
    Check(sqlite3_bind_int64(statements_[which], 1, run));
    Step(which);
  }
  void Step(Statement which, std::int64_t run, std::int64_t second) {
    Check(sqlite3_bind_int64(statements_[which], 2, second));
    Step(which, run);
  }

  sqlite3* db_ = nullptr;
  std::array<sqlite3_stmt*, kSql.size()> statements_{};
};

/// The tasks that one commit queues, and the next one settles.
struct Piece {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

std::vector<Piece> Cut(std::span<const std::uint32_t> waves, std::int64_t at_most) {
  std::vector<Piece> pieces;
  std::int64_t task = 0;
  for (const std::uint32_t wave : waves)
    for (const std::int64_t end = task + wave; task < end; task = pieces.back().end)
      pieces.push_back({task, std::min(task + at_most, end)});
  return pieces;
}

}  // namespace

Written ReadWritten(const std::filesystem::path& database) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(database.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK)
    Die("cannot read " + database.string());
  const auto count = [&](const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
      Die(fmt::format("{}: {}", sql, sqlite3_errmsg(db)));
    const std::int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
  };
  const Written written{.commits = count("SELECT coalesce(sum(round), 0) FROM guard"),
                        .tasks = count("SELECT count(*) FROM task"),
                        .attempts = count("SELECT count(*) FROM attempt"),
                        .events = count("SELECT count(*) FROM run_event")};
  sqlite3_close(db);
  return written;
}

Spent MeasureFloor(const std::filesystem::path& database, const FloorOptions& options) {
  Tables tables(database);
  std::int64_t tasks = 0;
  for (const std::uint32_t wave : options.waves) tasks += wave;
  const std::int64_t runs = options.run_per_task ? tasks : 1;
  for (std::int64_t run = 1; run <= runs;) {
    tables.Begin();
    for (int i = 0; i < 1'000 && run <= runs; ++i) tables.InsertRun(run++);
    tables.Commit();
  }
  // Task row twice and attempt; with a run of its own that row twice, and its events.
  const std::int64_t rows = 3 + (options.run_per_task ? 2 + options.events : 0);
  const auto pieces = Cut(options.waves, std::max<std::int64_t>(kCommitRows / rows, 1));
  const auto run_of = [&](std::int64_t task) { return options.run_per_task ? task + 1 : 1; };
  const auto task_of = [&](std::int64_t task) { return options.run_per_task ? 0 : task; };

  const Stopwatch watch;
  std::int64_t event = 0;
  for (std::size_t i = 0; i <= pieces.size(); ++i) {
    tables.Begin();
    if (i > 0) {
      for (std::int64_t t = pieces[i - 1].first; t < pieces[i - 1].end; ++t) {
        if (options.run_per_task) tables.UpdateRun(run_of(t), 2, true);
        tables.Settle(run_of(t), task_of(t));
        if (options.run_per_task)
          for (std::int64_t e = 1; e <= options.events; ++e) tables.Event(run_of(t), e);
      }
    }
    if (!options.run_per_task) {
      tables.UpdateRun(1, i < pieces.size() ? pieces[i].end + 1 : tasks + 1, i == pieces.size());
      if (i == 0 || i == pieces.size())
        for (; event < (i == 0 ? options.events / 2 : options.events); ++event)
          tables.Event(1, event + 1);
    }
    if (i < pieces.size())
      for (std::int64_t t = pieces[i].first; t < pieces[i].end; ++t) {
        if (options.run_per_task) tables.UpdateRun(run_of(t), 2, false);
        tables.Queue(run_of(t), task_of(t));
      }
    tables.Commit();
  }
  return {watch.Seconds(), watch.Cpu()};
}

}  // namespace headworks::bench
