/// Queues beside a program that only writes the same rows, and a small one beside a large one.

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "bench.h"
#include "headworks/store_sqlite/sqlite_store.h"

namespace headworks::bench {
namespace {

using task_queue::NewItem;
using task_queue::Settlement;

constexpr std::string_view kPayload = R"({"to":"ann@example.org","template":"welcome","n":17})";

std::string IdOf(std::int64_t n) {
  return fmt::format("0191a0b1-{:04x}-7{:03x}-8000-{:012x}", n >> 12, n & 0xfff, n);
}

std::unique_ptr<store_sqlite::Database> OpenDatabase(const fs::path& path) {
  auto opened = store_sqlite::Open(path.string(), {});
  if (!opened) Die(opened.error().message);
  return *std::move(opened);
}

/// The rows of a queue, written by hand: what no program can do faster.  Each batch is a commit.
class Floor {
 public:
  explicit Floor(const fs::path& path) {
    OpenDatabase(path);  // makes the tables
    Check(sqlite3_open(path.c_str(), &db_));
    Check(sqlite3_exec(db_,
                       "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                       "PRAGMA cache_size = -65536;"
                       "INSERT INTO queue VALUES ('public', 'q', 0, 300000000, 3, 1000000, "
                       "300000000, 0, 0, 1000000, 86400000000, 2592000000000, 0, 0, 0, 0, 0, 0, 0, "
                       "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
                       nullptr, nullptr, nullptr));
    for (std::size_t i = 0; i < kSql.size(); ++i)
      Check(sqlite3_prepare_v2(db_, kSql[i], -1, &statements_[i], nullptr));
  }
  ~Floor() {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  void Push(std::int64_t first, std::int64_t count) {
    Step(kBegin);
    for (std::int64_t n = first; n < first + count; ++n) {
      const std::string id = IdOf(n);
      sqlite3_bind_text(statements_[kInsert], 2, id.data(), static_cast<int>(id.size()),
                        SQLITE_TRANSIENT);
      Step(kInsert, n);
      sqlite3_bind_blob(statements_[kInsertPayload], 2, kPayload.data(),
                        static_cast<int>(kPayload.size()), SQLITE_STATIC);
      Step(kInsertPayload, n);
    }
    Step(kNumber, first + count);
    Step(kQueue, count);
    Step(kCommit);
  }

  void ClaimAndAck(std::int64_t count) {
    std::vector<std::int64_t> items;
    Step(kBegin);
    sqlite3_stmt* const ready = statements_[kReady];
    sqlite3_bind_int64(ready, 1, count);
    while (sqlite3_step(ready) == SQLITE_ROW) items.push_back(sqlite3_column_int64(ready, 0));
    sqlite3_reset(ready);
    for (const std::int64_t item : items) {
      Step(kClaim, item);
      Step(kReadPayload, item);
    }
    Step(kNumber, items.back());
    Step(kQueue, count);
    Step(kCommit);
    Step(kBegin);
    for (const std::int64_t item : items) {
      Step(kAck, item);
      Step(kDeletePayload, item);
    }
    Step(kQueue, count);
    Step(kCommit);
  }

 private:
  enum Statement {
    kBegin,
    kCommit,
    kInsert,
    kInsertPayload,
    kNumber,
    kQueue,
    kReady,
    kReadPayload,
    kClaim,
    kAck,
    kDeletePayload,
    kStatements,
  };
  static constexpr std::array kSql{
      "BEGIN IMMEDIATE",
      "COMMIT",
      "INSERT INTO queue_item VALUES ('public', 'q', ?1, ?2, 1, 0, 0, 0, 0, 0, 1800000000000000, "
      "1800000000000000, 0, 0, 0, 0, 0, 52, 1234567890123456789, '', '')",
      "INSERT INTO queue_payload VALUES ('public', 'q', ?1, ?2)",
      "UPDATE store SET next_queue_no = ?1",
      "UPDATE queue SET pending = pending + ?1, enqueued = enqueued + ?1 "
      "WHERE tenant_id = 'public' AND name = 'q'",
      "SELECT item_no FROM queue_item WHERE tenant_id = 'public' AND queue = 'q' AND state = 1 "
      "AND priority = 0 AND available_at <= 1900000000000000 ORDER BY available_at, item_no "
      "LIMIT ?1",
      "SELECT payload FROM queue_payload WHERE tenant_id = 'public' AND queue = 'q' "
      "AND item_no = ?1",
      "UPDATE queue_item SET state = 2, attempts = 1, claimed_at = 1800000000000000, "
      "claim_no = ?1, lease_until = 1800000000000, lease_boot = 1234567890123456789, "
      "holder = 'host:12345' WHERE tenant_id = 'public' AND queue = 'q' AND item_no = ?1",
      "UPDATE queue_item SET state = 3, ended_at = 1800000000000000 "
      "WHERE tenant_id = 'public' AND queue = 'q' AND item_no = ?1",
      "DELETE FROM queue_payload WHERE tenant_id = 'public' AND queue = 'q' AND item_no = ?1"};
  static_assert(kSql.size() == kStatements);

  void Check(int rc) {
    if (rc != SQLITE_OK && rc != SQLITE_DONE && rc != SQLITE_ROW) Die(sqlite3_errmsg(db_));
  }
  void Step(Statement which) {
    Check(sqlite3_step(statements_[which]));
    sqlite3_reset(statements_[which]);
  }
  void Step(Statement which, std::int64_t first) {
    sqlite3_bind_int64(statements_[which], 1, first);
    Step(which);
  }

  sqlite3* db_ = nullptr;
  std::array<sqlite3_stmt*, kStatements> statements_{};
};

/// One queue through its port.
class Queue {
 public:
  explicit Queue(store_sqlite::Database& db, std::string name = "q")
      : tasks_(db.queues().tasks()), name_(std::move(name)) {}

  void Push(std::int64_t first, std::int64_t count) {
    std::vector<NewItem> items;
    items.reserve(static_cast<std::size_t>(count));
    for (std::int64_t n = first; n < first + count; ++n)
      items.push_back({.id = IdOf(n), .payload = std::string(kPayload)});
    if (const auto pushed = tasks_.Enqueue(tenant_, name_, items); !pushed)
      Die(pushed.error().message);
  }

  void ClaimAndAck(std::int64_t count) {
    const auto polled = tasks_.Poll({.tenant = tenant_,
                                     .queue = name_,
                                     .max_items = static_cast<std::size_t>(count),
                                     .holder = "host:12345"});
    if (!polled) Die(polled.error().message);
    if (polled->items.size() != static_cast<std::size_t>(count)) Die("items are missing");
    std::vector<Settlement> acks;
    acks.reserve(polled->items.size());
    for (const auto& item : polled->items) acks.push_back({item.claim});
    if (const auto settled = tasks_.Settle(tenant_, name_, acks); !settled)
      Die(settled.error().message);
  }

 private:
  task_queue::TaskQueue& tasks_;
  const TenantId tenant_{"public"};
  const std::string name_;
};

/// Seconds to push `items` in batches, and to claim and acknowledge them.
template <typename Subject>
std::array<Spent, 2> Measure(Subject& subject, std::int64_t items, std::int64_t batch) {
  const Stopwatch push;
  for (std::int64_t n = 1; n <= items; n += batch) subject.Push(n, batch);
  const Spent pushed{push.Seconds(), push.Cpu()};
  const Stopwatch claim;
  for (std::int64_t n = 1; n <= items; n += batch) subject.ClaimAndAck(batch);
  return {pushed, {claim.Seconds(), claim.Cpu()}};
}

Figure RateFigure(std::string what, const Options& options, std::int64_t items, const Spent& engine,
                  const Spent& floor, std::string aim) {
  const auto count = static_cast<double>(items);
  return {.workload = "queue",
          .what = std::move(what),
          .unit = "items/s",
          .engine = count / engine.seconds,
          .floor = count / floor.seconds,
          .engine_cpu_us = engine.cpu * 1e6 / count,
          .floor_cpu_us = floor.cpu * 1e6 / count,
          .aim = std::move(aim),
          .flush_us = FlushMicros(options.folder)};
}

Figures Batches(const Options& options) {
  Figures figures;
  for (const auto [batch, all] : {std::pair<std::int64_t, std::int64_t>{1, 4'000},
                                  {10, 20'000},
                                  {100, 100'000},
                                  {1'000, 200'000}}) {
    const std::int64_t items = options.quick ? std::max(batch, all / 40) : all;
    const Scratch scratch(options);
    Floor floor(scratch.path() / "floor");
    const auto database = OpenDatabase(scratch.path() / "queue");
    Queue queue(*database);
    const auto least = Measure(floor, items, batch);
    const auto spent = Measure(queue, items, batch);
    const std::string aim = batch == 1 ? "" : ">= 0.5 of the floor";
    figures.push_back(RateFigure(fmt::format("push, {} at a time", batch), options, items, spent[0],
                                 least[0], aim));
    figures.push_back(RateFigure(fmt::format("claim and ack, {} at a time", batch), options, items,
                                 spent[1], least[1], aim));
  }
  return figures;
}

/// Eight threads that push one item at a time share commits.
Figure Threads(const Options& options) {
  constexpr std::int64_t kThreads = 8;
  const std::int64_t each = options.quick ? 50 : 1'000;
  const Scratch scratch(options);
  Floor floor(scratch.path() / "floor");
  const auto database = OpenDatabase(scratch.path() / "queue");
  Queue queue(*database);
  const auto least = Measure(floor, each, 1);
  const Stopwatch watch;
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (std::int64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::int64_t n = 0; n < each; ++n) queue.Push(1 + t * each + n, 1);
      });
  }
  const Spent spent{watch.Seconds() / kThreads, watch.Cpu() / kThreads};
  return RateFigure("push, 1 at a time from 8 threads; floor: from one", options, each, spent,
                    least[0], "");
}

/// What an item of a small queue costs beside a large one, and alone.
Figure BesideALargeOne(const Options& options) {
  const std::int64_t large = options.quick ? 20'000 : 1'000'000;
  const std::int64_t items = options.quick ? 100 : 2'000;
  const Scratch scratch(options);
  const auto alone = OpenDatabase(scratch.path() / "alone");
  const auto beside = OpenDatabase(scratch.path() / "beside");
  Queue other(*beside, "large");
  for (std::int64_t n = 1; n <= large; n += 1'000) other.Push(n, 1'000);
  const auto measure = [&](store_sqlite::Database& db) {
    Queue queue(db, "small");
    const Stopwatch watch;
    for (std::int64_t n = 1; n <= items; ++n) {
      queue.Push(n, 1);
      queue.ClaimAndAck(1);
    }
    return Spent{watch.Seconds(), watch.Cpu()};
  };
  const Spent least = measure(*alone);
  const Spent spent = measure(*beside);
  return RateFigure(
      fmt::format("push, claim and ack beside {} items of another queue; floor: alone", large),
      options, items, spent, least, "as fast as alone");
}

}  // namespace

Figures QueueItems(const Options& options) {
  Figures figures = Batches(options);
  figures.push_back(Threads(options));
  figures.push_back(BesideALargeOne(options));
  return figures;
}

}  // namespace headworks::bench
