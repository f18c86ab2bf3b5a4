// What a round costs beside a program that only writes the same rows.
//
// W1-like: single-task runs, each in two rounds.  The first inserts run, input, queued task and an
// event; the second updates run and task (with its output) and inserts attempt and event: 8 rows a
// run, and the guard row once a round.  The floor does the same with bare prepared statements.
//
//   store_floor [--seconds N] [--folder PATH]

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr int kRowsPerRun = 8;
const std::string kInput = R"({"customer":"4711","day":"2026-01-02"})";
const std::string kOutput = R"({"rows":1234,"path":"reports/4711.html"})";
const std::string kVersion(64, 'a');

[[noreturn]] void Die(std::string_view what) {
  fmt::print(stderr, "store_floor: {}\n", what);
  std::exit(1);
}

std::string RunIdText(std::int64_t run) {
  return fmt::format("0191a0b1-{:04x}-7{:03x}-8000-{:012x}", run >> 12, run & 0xfff, run);
}

/// Time spent in commits, without what prepares them.
struct Spent {
  double wall = 0;
  double cpu = 0;  // of all threads, so checkpoints count
  std::int64_t runs = 0;

  template <typename Work>
  void Time(Work work) {
    const auto wall_start = SteadyClock::now();
    const double cpu_start = CpuSeconds();
    work();
    cpu += CpuSeconds() - cpu_start;
    wall += std::chrono::duration<double>(SteadyClock::now() - wall_start).count();
  }
  double rows_per_second() const { return static_cast<double>(runs * kRowsPerRun) / wall; }
  double micros_per_row() const { return cpu / static_cast<double>(runs * kRowsPerRun) * 1e6; }

 private:
  static double CpuSeconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }
};

/// Makes rounds of `batch` runs for `seconds` of commits.
template <typename Rounds>
Spent Measure(Rounds&& rounds, int batch, double seconds) {
  Spent spent;
  while (spent.wall < seconds) {
    rounds.Round(spent.runs + 1, batch, spent);
    spent.runs += batch;
  }
  return spent;
}

// ---- Through the store.

class StoreRounds {
 public:
  explicit StoreRounds(const std::string& path) {
    auto opened = store_sqlite::Open(path, {});
    if (!opened) Die(opened.error().message);
    db_ = *std::move(opened);
    const Shard shard(0);
    auto guards = db_->runs().Acquire(std::span(&shard, 1), "bench", std::chrono::hours(1));
    if (!guards) Die(guards.error().message);
    guard_ = guards->front();
  }

  void Round(std::int64_t first, int count, Spent& spent) {
    store::Round round = Next();
    for (std::int64_t run = first; run < first + count; ++run) {
      round.runs.push_back(Started(run));
    }
    spent.Time([&] { Commit(round); });
    round = Next();
    for (std::int64_t run = first; run < first + count; ++run) {
      round.runs.push_back(Finished(run));
    }
    spent.Time([&] { Commit(round); });
  }

 private:
  store::Round Next() {
    guard_.round = RoundNo(guard_.round.value + 1);
    store::Round round;
    round.guards = {guard_};
    round.lease_ttl = std::chrono::hours(1);
    round.now = now_;
    return round;
  }

  void Commit(const store::Round& round) {
    if (const Status status = db_->runs().Commit(round); !status) Die(status.error().message);
  }

  store::RunWrite Started(std::int64_t run) {
    store::RunWrite write;
    model::RunHeader& h = write.header;
    h.run_no = RunNo(run);
    h.run_id = RunId(RunIdText(run));
    h.tenant = TenantId("public");
    h.name.workflow = "report";
    h.version = kVersion;
    h.state = model::RunState::kRunning;
    h.next_epoch = Epoch(2);
    h.created_at = now_;
    h.started_at = now_;
    h.wake_at = {};
    h.counts[2] = 1;
    write.insert_input = kInput;
    auto& task = write.tasks.emplace_back();
    task.row.state = model::TaskState::kQueued;
    task.row.epoch = Epoch(1);
    task.row.since = now_;
    task.executor = "inline";
    task.holder = "engine-1";
    write.events.push_back({now_, "started", "", ""});
    return write;
  }

  store::RunWrite Finished(std::int64_t run) {
    store::RunWrite write = Started(run);
    write.insert_input.reset();
    model::RunHeader& h = write.header;
    h.state = model::RunState::kSucceeded;
    h.finished_at = now_;
    h.wake_at = kNever;
    h.counts[2] = 0;
    h.counts[5] = 1;
    auto& task = write.tasks[0];
    task.row.state = model::TaskState::kSucceeded;
    task.row.tries = 1;
    task.executor.clear();
    task.holder.clear();
    task.output = kOutput;
    auto& attempt = write.attempts.emplace_back();
    attempt.epoch = Epoch(1);
    attempt.queued_at = now_;
    attempt.outcome.started_at = now_;
    attempt.outcome.ended_at = now_;
    write.events[0].kind = "finished";
    return write;
  }

  std::unique_ptr<store::Database> db_;
  store::Guard guard_;
  const Instant now_ = Instant(std::chrono::seconds(1'800'000'000));
};

// ---- The floor.

class BareRounds {
 public:
  explicit BareRounds(const std::string& path) {
    Check(sqlite3_open(path.c_str(), &db_));
    Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536");
    Exec("INSERT INTO guard VALUES (0, 1, 0, 'bench', 0, 'boot')");
    for (std::size_t i = 0; i < kSql.size(); ++i) {
      Check(sqlite3_prepare_v2(db_, kSql[i], -1, &statements_[i], nullptr));
    }
  }
  ~BareRounds() {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  BareRounds(const BareRounds&) = delete;
  BareRounds& operator=(const BareRounds&) = delete;

  void Round(std::int64_t first, int count, Spent& spent) {
    spent.Time([&] { Start(first, count); });
    spent.Time([&] { Finish(first, count); });
  }

 private:
  void Start(std::int64_t first, int count) {
    Step(kBegin);
    Step(kGuard);
    for (std::int64_t run = first; run < first + count; ++run) {
      const std::string id = RunIdText(run);
      Text(kInsertRun, 2, id);
      Text(kInsertRun, 3, kVersion);
      Step(kInsertRun, run);
      Text(kInsertInput, 2, kInput);
      Step(kInsertInput, run);
      Step(kInsertTask, run);
      Step(kInsertStarted, run);
    }
    Step(kCommit);
  }

  void Finish(std::int64_t first, int count) {
    Step(kBegin);
    Step(kGuard);
    for (std::int64_t run = first; run < first + count; ++run) {
      Step(kUpdateRun, run);
      Text(kUpdateTask, 2, kOutput);
      Step(kUpdateTask, run);
      Step(kInsertAttempt, run);
      Step(kInsertFinished, run);
    }
    Step(kCommit);
  }

  enum Statement {
    kBegin,
    kCommit,
    kGuard,
    kInsertRun,
    kInsertInput,
    kInsertTask,
    kInsertStarted,
    kUpdateRun,
    kUpdateTask,
    kInsertAttempt,
    kInsertFinished
  };
  static constexpr std::array kSql{
      "BEGIN IMMEDIATE",
      "COMMIT",
      "UPDATE guard SET round = round + 1 WHERE shard = 0",
      "INSERT INTO run VALUES ('public', ?1, ?2, 'embedded', 'report', ?3, 0, 1800000000000000, "
      "'', '', 0, 0, NULL, NULL, NULL, NULL, 2, 0, 0, 0, 2, 1800000000000000, 0, 0, 0, 0, 0, 0, "
      "0, 0, 0, 0, x'0100000100000000000000', '')",
      "INSERT INTO run_input VALUES ('public', ?1, CAST(x'01' || ?2 AS BLOB))",
      "INSERT INTO task VALUES ('public', ?1, 0, -1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, "
      "1800000000000000, NULL, NULL, 'inline', NULL, 'engine-1', NULL)",
      "INSERT INTO run_event VALUES ('public', ?1, 1, 1800000000000000, 'started', '', '')",
      "UPDATE run SET state = 3, finished_at = 1800000000000000, wake_at = 9223372036854775807, "
      "counts = x'0100000000000100000000' WHERE tenant_id = 'public' AND run_no = ?1",
      "UPDATE task SET state = 5, tries = 1, executor = '', holder = '', "
      "output = CAST(x'01' || ?2 AS BLOB) WHERE tenant_id = 'public' AND run_no = ?1 "
      "AND task_no = 0 AND map_index = -1",
      "INSERT INTO attempt VALUES ('public', ?1, 1, 0, -1, 1, 0, 1, 0, NULL, NULL, "
      "1800000000000000, 1800000000000000, 1800000000000000, 0, '')",
      "INSERT INTO run_event VALUES ('public', ?1, 2, 1800000000000000, 'finished', '', '')"};

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

  sqlite3* db_ = nullptr;
  std::array<sqlite3_stmt*, kSql.size()> statements_{};
};

/// Flushes per second of this disk, to read the rest by: it drifts by a third.
double FlushRate(const fs::path& file) {
  const int fd = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) Die("cannot create a file");
  const std::string page(4096, 'x');
  int flushes = 0;
  const auto start = SteadyClock::now();
  std::chrono::duration<double> elapsed{};
  while (elapsed.count() < 1) {
    if (pwrite(fd, page.data(), page.size(), 0) < 0 || fdatasync(fd) != 0) Die("cannot write");
    ++flushes;
    elapsed = SteadyClock::now() - start;
  }
  close(fd);
  return flushes / elapsed.count();
}

int Main(int argc, char** argv) {
  double seconds = 3;
  fs::path folder = fs::temp_directory_path();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--seconds") seconds = std::atof(argv[i + 1]);
    if (std::string_view(argv[i]) == "--folder") folder = argv[i + 1];
  }
  std::string scratch = (folder / "headworks-floor-XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) Die("cannot create a folder below " + folder.string());
  fmt::print("flushes/s {:.0f}\n", FlushRate(fs::path(scratch) / "flush"));
  fmt::print("{:>6} {:>13} {:>13} {:>6}   {:>13} {:>13} {:>6}\n", "batch", "floor rows/s",
             "store rows/s", "ratio", "floor cpu us", "store cpu us", "ratio");
  for (const int batch : {1, 100, 1000}) {
    const std::string name = fmt::format("{}/{}", scratch, batch);
    if (auto created = store_sqlite::Open(name + "-floor", {}); !created) {
      Die(created.error().message);
    }
    const Spent floor = Measure(BareRounds(name + "-floor"), batch, seconds);
    const Spent store = Measure(StoreRounds(name + "-store"), batch, seconds);
    fmt::print("{:>6} {:>13.0f} {:>13.0f} {:>6.2f}   {:>13.2f} {:>13.2f} {:>6.2f}\n", batch,
               floor.rows_per_second(), store.rows_per_second(),
               store.rows_per_second() / floor.rows_per_second(), floor.micros_per_row(),
               store.micros_per_row(), floor.micros_per_row() / store.micros_per_row());
  }
  fs::remove_all(scratch);
  return 0;
}

}  // namespace
}  // namespace headworks

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  return headworks::Main(argc, argv);
}
