/// Rounds of the store without an engine: what its rows and checks cost beside bare statements.

#include <fmt/format.h>

#include <array>

#include "bench.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "tables.h"

namespace headworks::bench {
namespace {

constexpr Instant kNow{std::chrono::seconds(1'800'000'000)};

/// Runs of one task as the engine writes them: made, queued, ended.
class StoreRounds {
 public:
  explicit StoreRounds(const fs::path& path) {
    auto opened = store_sqlite::Open(path.string(), {});
    if (!opened) Die(opened.error().message);
    db_ = *std::move(opened);
    const Shard shard(0);
    auto guards = db_->runs().Acquire({&shard, 1}, "bench", std::chrono::hours(1));
    if (!guards) Die(guards.error().message);
    guard_ = guards->front();
  }

  void Insert(std::int64_t first, int count) { Commit(Round(first, count, &Pending)); }
  store::Round Queued(std::int64_t first, int count) { return Round(first, count, &Queue); }
  store::Round Ended(std::int64_t first, int count) { return Round(first, count, &End); }
  void Commit(const store::Round& round) {
    if (const Status status = db_->runs().Commit(round); !status) Die(status.error().message);
  }

 private:
  store::Round Round(std::int64_t first, int count, void (*change)(store::RunWrite&)) {
    guard_.round = RoundNo(guard_.round.value + 1);
    store::Round round{.guards = {guard_}, .lease_ttl = std::chrono::hours(1), .now = kNow};
    for (std::int64_t run = first; run < first + count; ++run) {
      store::RunWrite& write = round.runs.emplace_back();
      model::RunHeader& header = write.header;
      header.run_no = RunNo(run);
      header.run_id = RunId(RunIdText(run));
      header.tenant = TenantId("public");
      header.name.workflow = "report";
      header.version = VersionText();
      header.created_at = kNow;
      header.wake_at = Instant{};
      change(write);
    }
    return round;
  }
  static void Pending(store::RunWrite& write) {
    write.insert_input = "{}";
    write.header.counts[0] = 1;
  }
  static void Queue(store::RunWrite& write) {
    write.relist = false;
    write.header.state = model::RunState::kRunning;
    write.header.next_epoch = Epoch(2);
    write.header.started_at = kNow;
    write.header.counts[2] = 1;
    auto& task = write.tasks.emplace_back();
    task.row.state = model::TaskState::kQueued;
    task.row.epoch = Epoch(1);
    task.row.since = kNow;
    task.executor = "inline";
    task.holder = "host:12345:0191a0b1-0000-7000-8000-000000000000";
  }
  static void End(store::RunWrite& write) {
    Queue(write);
    write.relist = true;
    write.header.state = model::RunState::kSucceeded;
    write.header.finished_at = kNow;
    write.header.wake_at = kNever;
    write.header.counts = {};
    write.header.counts[5] = 1;
    auto& task = write.tasks.front();
    task.known = true;
    task.row.state = model::TaskState::kSucceeded;
    task.row.tries = 1;
    task.executor.clear();
    task.holder.clear();
    auto& attempt = write.attempts.emplace_back();
    attempt.epoch = Epoch(1);
    attempt.queued_at = kNow;
    attempt.outcome.started_at = attempt.outcome.ended_at = kNow;
  }

  std::unique_ptr<store::Database> db_;
  store::Guard guard_;
};

void Add(Spent& sum, const Stopwatch& watch) {
  sum.seconds += watch.Seconds();
  sum.cpu += watch.Cpu();
}

Spent MeasureStore(const fs::path& path, std::int64_t runs, int batch) {
  StoreRounds rounds(path);
  for (std::int64_t run = 1; run <= runs; run += batch) rounds.Insert(run, batch);
  Spent spent;
  for (std::int64_t run = 1; run <= runs; run += batch) {
    for (const store::Round& round : {rounds.Queued(run, batch), rounds.Ended(run, batch)}) {
      const Stopwatch watch;
      rounds.Commit(round);
      Add(spent, watch);
    }
  }
  return spent;
}

Spent MeasureTables(const fs::path& path, std::int64_t runs, int batch) {
  Tables tables(path);
  const auto commit = [&](std::int64_t first, auto&& write) {
    tables.Begin();
    for (std::int64_t run = first; run < first + batch; ++run) write(run);
    tables.Commit();
  };
  for (std::int64_t run = 1; run <= runs; run += batch)
    commit(run, [&](std::int64_t r) { tables.InsertRun(r); });
  const Stopwatch watch;
  for (std::int64_t run = 1; run <= runs; run += batch) {
    commit(run, [&](std::int64_t r) {
      tables.UpdateRun(r, 2, false);
      tables.Queue(r, 0);
    });
    commit(run, [&](std::int64_t r) {
      tables.UpdateRun(r, 2, true);
      tables.Settle(r, 0);
    });
  }
  return {watch.Seconds(), watch.Cpu()};
}

}  // namespace

Figures StoreRoundsAlone(const Options& options) {
  Figures figures;
  for (const int batch : {1, 100, 1'000}) {
    const Scratch scratch(options);
    const double flush = FlushMicros(scratch.path());
    const std::int64_t runs =
        batch == 1 ? (options.quick ? 100 : 2'000) : (options.quick ? 1'000 : 50'000);
    const Spent floor = MeasureTables(scratch.path() / "floor.db", runs, batch);
    const Spent store = MeasureStore(scratch.path() / "store.db", runs, batch);
    const auto count = static_cast<double>(runs);
    figures.push_back({.workload = "store",
                       .what = fmt::format("commits of {} single-task runs, no engine", batch),
                       .unit = "runs/s",
                       .engine = count / store.seconds,
                       .floor = count / floor.seconds,
                       .engine_cpu_us = store.cpu * 1e6 / count,
                       .floor_cpu_us = floor.cpu * 1e6 / count,
                       .commits = 2 * runs / batch,
                       .flush_us = flush});
  }
  return figures;
}

}  // namespace headworks::bench
