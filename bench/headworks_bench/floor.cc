#include "floor.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <vector>

#include "bench.h"
#include "tables.h"

namespace headworks::bench {
namespace {

/// The engine's bound of a round.
constexpr std::int64_t kCommitRows = 2'000;
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
