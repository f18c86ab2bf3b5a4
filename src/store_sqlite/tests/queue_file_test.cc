/// Queues in a file: several connections and boots, the caller's own transactions, a disk that
/// fails, and how SQLite looks for items.

#include <fmt/format.h>

#include <array>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/store_sqlite/admin.h"
#include "headworks/store_sqlite_testing/fault_vfs.h"
#include "headworks/task_queue/checks.h"
#include "headworks/task_queue/long_poll.h"
#include "headworks/task_queue_conformance/harness.h"
#include "queue_sql.h"
#include "queue_transaction.h"
#include "schema.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

namespace headworks::store_sqlite {
namespace {

using store::conformance::kTenant;
using store::conformance::NewRun;
using store::conformance::PlainHeader;
using task_queue::ClaimedItem;
using task_queue::Enqueued;
using task_queue::NewItem;
using task_queue::Settlement;
using task_queue::conformance::ManualClock;

std::vector<NewItem> Items(int from, int count) {
  std::vector<NewItem> items;
  for (int i = from; i < from + count; ++i) {
    items.push_back({.id = fmt::format("item-{}", i), .payload = R"({"n":1})"});
  }
  return items;
}

Result<std::vector<Enqueued>> Push(Database& db, int from, int count,
                                   std::string_view queue = "q") {
  return db.queues().tasks().Enqueue(kTenant, queue, Items(from, count));
}

std::vector<ClaimedItem> Claim(Database& db, std::size_t max) {
  auto polled = db.queues().tasks().Poll({.tenant = kTenant, .queue = "q", .max_items = max});
  EXPECT_TRUE(polled) << polled.error().message;
  return polled ? std::move(polled->items) : std::vector<ClaimedItem>();
}

std::vector<Settlement> Acks(std::span<const ClaimedItem> items) {
  std::vector<Settlement> acks;
  for (const ClaimedItem& item : items) acks.push_back({item.claim});
  return acks;
}

std::int64_t Pending(Database& db) {
  const auto record = db.queues().admin().GetQueue(kTenant, "q");
  return record ? record->pending : 0;
}

// ---- Connections and boots

TEST(SqliteQueue, LeaseOfAnotherBootHasEnded) {
  const ScratchFolder folder;
  ManualClock clock;
  for (const char* const boot : {"one", "two", "three"}) {
    // Whatever the order of the boots' names, and although no time passes.
    const auto db = MustOpen(folder.File("db"), {.clock = &clock, .boot_id = boot});
    ASSERT_TRUE(Push(*db, 1, 1));
    EXPECT_EQ(Claim(*db, 1).size(), 1U) << boot;
    EXPECT_EQ(Claim(*db, 1).size(), 0U) << boot;
  }
}

TEST(SqliteQueue, ReasonsAreRedactedWhileOthersWrite) {
  const ScratchFolder folder;
  const auto other = MustOpen(folder.File("db"));
  int redacted = 0;
  const auto db = MustOpen(folder.File("db"), {.redact = [&](std::string_view text) {
                             EXPECT_TRUE(Push(*other, 10 + redacted++, 1));
                             return std::string(text);
                           }});
  ASSERT_TRUE(Push(*db, 1, 2));
  std::vector<Settlement> nacks = Acks(Claim(*db, 2));
  for (Settlement& each : nacks) each.kind = Settlement::Kind::kNack;
  EXPECT_TRUE(db->queues().tasks().Settle(kTenant, "q", nacks));
  EXPECT_EQ(redacted, 2);
  EXPECT_EQ(Pending(*db), 4);
}

TEST(SqliteQueue, LeaseOfAnotherBootIsSweptBesideOneThatHolds) {
  for (const auto& [first, second] : {std::pair("one", "two"), {"two", "one"}}) {
    const ScratchFolder folder;
    ManualClock clock;
    {
      const auto db = MustOpen(folder.File("db"), {.clock = &clock, .boot_id = first});
      ASSERT_TRUE(Push(*db, 1, 1'000));
      ASSERT_TRUE(Push(*db, 1'001, 1));
      EXPECT_EQ(Claim(*db, 1'000).size(), 1'000U);
      EXPECT_EQ(Claim(*db, 1'000).size(), 1U);
    }
    const auto db = MustOpen(folder.File("db"), {.clock = &clock, .boot_id = second});
    EXPECT_EQ(Claim(*db, 1).size(), 1U);  // ends as many leases as one call may
    const auto swept = db->queues().admin().Sweep(task_queue::kMaxBatch);
    ASSERT_TRUE(swept);
    EXPECT_EQ(swept->leases_ended, 1) << first;
    EXPECT_EQ(db->queues().admin().Sweep(task_queue::kMaxBatch)->leases_ended, 0) << first;
  }
}

TEST(SqliteQueue, ClockThatWentBackBetweenBootsHidesNothingFromAList) {
  const ScratchFolder folder;
  ManualClock clock;
  {
    const auto db = MustOpen(folder.File("db"), {.clock = &clock, .boot_id = "one"});
    ASSERT_TRUE(Push(*db, 1, 1));
  }
  clock.JumpWall(-std::chrono::hours(1));
  const auto db = MustOpen(folder.File("db"), {.clock = &clock, .boot_id = "two"});
  EXPECT_EQ(db->queues().admin().ListItems(kTenant, "q", {})->size(), 1U);
  EXPECT_EQ(db->queues().admin().Purge(kTenant, "q", {})->count, 1);
}

class LinesOfErrors final : public Logger {
 public:
  void Write(LogLevel level, std::string_view message, Fields fields) override {
    if (level < LogLevel::kWarning) return;
    lines += std::string(message) + "\n";
    for (const auto& [name, value] : fields) lines += std::string(value) + "\n";
  }
  std::string lines;
};

TEST(SqliteQueue, ItemWithoutPayloadIsSetAsideAndHoldsUpNoOther) {
  const ScratchFolder folder;
  LinesOfErrors log;
  const auto db = MustOpen(folder.File("db"), {.logger = &log});
  ASSERT_TRUE(Push(*db, 1, 3));
  EXPECT_OK(Connection::Open(folder.File("db"), {})
                .value()
                ->Script("DELETE FROM queue_payload WHERE item_no = 1"));
  const auto first = db->queues().tasks().Poll({.tenant = kTenant, .queue = "q"});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->items.empty());
  EXPECT_EQ(first->next, Duration());  // there are others
  EXPECT_NE(log.lines.find("item 1 of queue 'q' has lost its payload"), std::string::npos);
  EXPECT_EQ(Claim(*db, 3).size(), 2U);
  const auto dead =
      db->queues().admin().ListItems(kTenant, "q", {.states = {task_queue::ItemState::kDead}});
  ASSERT_EQ(dead->size(), 1U);
  EXPECT_NE(dead->front().reason.find("lost its payload"), std::string::npos);
  EXPECT_EQ(db->queues().admin().Purge(kTenant, "q", {})->count, 1);
  EXPECT_EQ(Claim(*db, 1).size(), 0U);
}

// An alert that cannot be written, in one of the queues that it goes to: the round is committed.
TEST(SqliteQueue, DamagedItemOfARoundIsLeftOutAndTheRoundStands) {
  const ScratchFolder folder;
  LinesOfErrors log;
  const auto db = MustOpen(folder.File("db"), {.logger = &log});
  ASSERT_TRUE(Push(*db, 1, 3));
  // Numbers 2 and 3 are taken in this queue, and the counter does not know.
  EXPECT_OK(Connection::Open(folder.File("db"), {})
                .value()
                ->Script("UPDATE store SET next_queue_no = 1; "
                         "DELETE FROM queue_item WHERE item_no = 1; "
                         "DELETE FROM queue_payload WHERE item_no = 1"));
  Engine engine(*db);
  ASSERT_TRUE(engine.Own());
  store::Round round = engine.NextRound();
  round.runs = {NewRun(PlainHeader(RunNo(1)))};
  for (const char* id : {"a", "b", "c"})
    round.items.push_back({.tenant = kTenant, .queue = "q", .id = id, .payload = "{}"});
  round.items.push_back({.tenant = kTenant, .queue = "other", .id = "a", .payload = "{}"});
  EXPECT_OK(db->runs().Commit(round));
  EXPECT_OK(db->query().GetRun(kTenant, "1"));
  EXPECT_EQ(db->queues().admin().ListItems(kTenant, "q", {})->size(), 3U);  // one of them new
  EXPECT_EQ(db->queues().admin().ListItems(kTenant, "other", {})->size(), 1U);
  EXPECT_NE(log.lines.find("an item of a round cannot be written, and is left out"),
            std::string::npos);
  EXPECT_NE(log.lines.find("is in use among the items of queue 'q'"), std::string::npos);
}

TEST(SqliteQueue, LongPollHearsWhatAnotherConnectionCommits) {
  const ScratchFolder folder;
  SystemClock clock;
  const auto here = MustOpen(folder.File("db"));
  const auto there = MustOpen(folder.File("db"));
  const auto poll = [&] {
    auto polled = LongPoll(here->queues().tasks(), here->queues().bell(), clock,
                           {.tenant = kTenant, .queue = "q"}, std::chrono::seconds(60), {});
    ASSERT_TRUE(polled);
    EXPECT_EQ(polled->items.size(), 1U);
  };
  std::jthread other([&] {
    const task_queue::Bell::Seat seat(there->queues().bell(), kTenant, "q");
    EXPECT_TRUE(Push(*there, 1, 1));
  });
  poll();
  other.join();
  // Its time comes while nothing is committed.
  NewItem later{.id = "later", .payload = "1", .delay = std::chrono::milliseconds(50)};
  ASSERT_TRUE(there->queues().tasks().Enqueue(kTenant, "q", std::span(&later, 1)));
  poll();
}

TEST(SqliteQueue, CheckFindsWhatDoesNotFit) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  ASSERT_TRUE(Push(*db, 1, 3));
  ASSERT_TRUE(db->queues().tasks().Settle(kTenant, "q", Acks(Claim(*db, 1))));
  const auto problems = [&] {
    std::string all;
    const auto report = Check(folder.File("db"));
    EXPECT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->queue_items, 3);
    for (const std::string& problem : report->problems) all += problem + "\n";
    return all;
  };
  EXPECT_EQ(problems(), "");
  const auto script = [&](const char* sql) {
    EXPECT_TRUE(Connection::Open(folder.File("db"), {}).value()->Script(sql));
  };
  script("UPDATE queue SET pending = 7");
  EXPECT_EQ(problems(), "1 queues whose counts do not fit their items\n");
  script("UPDATE queue SET pending = 2; UPDATE store SET next_queue_no = 2");
  EXPECT_EQ(problems(), "the next queue number is in use\n");
  script("UPDATE store SET next_queue_no = 9; DELETE FROM queue_payload WHERE item_no = 2");
  EXPECT_EQ(problems(), "1 queue items without payload\n");
  script("UPDATE queue_item SET queue = 'p' WHERE item_no = 1");
  EXPECT_NE(problems().find("1 queue items of no queue\n"), std::string::npos);
}

// ---- The caller's own transaction

class OwnTransaction : public testing::Test {
 protected:
  void SetUp() override {
    db_ = MustOpen(folder_.File("db"));
    own_ = Connection::Open(folder_.File("db"), {}).value();
    Run("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
  }
  void Run(const char* sql) { EXPECT_OK(own_->Script(sql)); }
  auto Enqueue(std::span<const NewItem> items) {
    return EnqueueInTransaction(own_->handle(), clock_, log_, kTenant, "q", items);
  }

  const ScratchFolder folder_;
  SystemClock clock_;
  LinesOfErrors log_;
  std::unique_ptr<Database> db_;
  std::unique_ptr<Connection> own_;
};

TEST_F(OwnTransaction, ItemsAreThereIfAndOnlyIfTheCallerCommits) {
  Run("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
  EXPECT_EQ(Enqueue(Items(1, 2)).value(), std::vector(2, Enqueued::kInserted));
  Run("ROLLBACK");
  EXPECT_EQ(Pending(*db_), 0);
  Run("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
  EXPECT_EQ(Enqueue(Items(1, 2)).value(), std::vector(2, Enqueued::kInserted));
  EXPECT_EQ(Enqueue(Items(2, 1)).value(), std::vector{Enqueued::kDuplicate});
  EXPECT_EQ(Pending(*db_), 0);
  Run("COMMIT");
  EXPECT_EQ(Claim(*db_, 9).size(), 2U);
}

TEST_F(OwnTransaction, APayloadThatDiffersIsAWarning) {
  Run("BEGIN IMMEDIATE");
  const std::array first{NewItem{.id = "a", .payload = "1"}, NewItem{.id = "b", .payload = "1"}};
  const std::array second{NewItem{.id = "a", .payload = "1"}, NewItem{.id = "b", .payload = "2"}};
  ASSERT_TRUE(Enqueue(first));
  EXPECT_EQ(log_.lines, "");
  EXPECT_EQ(Enqueue(second).value(),
            (std::vector{Enqueued::kDuplicate, Enqueued::kDuplicateDiffers}));
  EXPECT_EQ(log_.lines, fmt::format("an item with a known id and another payload was dropped\n"
                                    "{}\nq\nb\n",
                                    kTenant.value));
  Run("ROLLBACK");
}

TEST_F(OwnTransaction, CommitWakesALongPoll) {
  Run("BEGIN IMMEDIATE");
  ASSERT_TRUE(Enqueue(Items(1, 1)));
  std::jthread committer([&] { Run("COMMIT"); });
  const auto polled = LongPoll(db_->queues().tasks(), db_->queues().bell(), clock_,
                               {.tenant = kTenant, .queue = "q"}, std::chrono::seconds(60), {});
  ASSERT_TRUE(polled) << polled.error().message;
  EXPECT_EQ(polled->items.size(), 1U);
}

TEST_F(OwnTransaction, RefusalLeavesTheTransactionAsItWas) {
  ASSERT_TRUE(db_->queues().admin().Configure(kTenant, "q", {.max_depth = 3}));
  Run("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
  EXPECT_CODE(Enqueue(Items(1, 4)), Code::kAtCapacity);
  const std::array bad{NewItem{.id = "a", .payload = "{"}};
  EXPECT_CODE(Enqueue(bad), Code::kInvalidArgument);
  EXPECT_OK(Enqueue(Items(1, 3)));
  Run("COMMIT");
  EXPECT_EQ(own_->Value<int>("SELECT count(*) FROM orders").value(), 1);
  EXPECT_EQ(Pending(*db_), 3);
}

TEST_F(OwnTransaction, OneThatCannotHoldItIsRefused) {
  EXPECT_CODE(Enqueue(Items(1, 1)), Code::kInvalidArgument);  // none is open
  const auto other =
      Connection::Open(folder_.File("other"), {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE})
          .value();
  EXPECT_OK(other->Script("CREATE TABLE t (x); BEGIN IMMEDIATE"));
  EXPECT_CODE(EnqueueInTransaction(other->handle(), clock_, log_, kTenant, "q", Items(1, 1)),
              Code::kInvalidArgument);
  const auto old =
      Connection::Open(folder_.File("old"), {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE})
          .value();
  ASSERT_TRUE(ApplyMigrations(*old, Migrations().first(5)));
  EXPECT_OK(old->Script("BEGIN IMMEDIATE"));
  EXPECT_CODE(EnqueueInTransaction(old->handle(), clock_, log_, kTenant, "q", Items(1, 1)),
              Code::kConflict);
}

// ---- A disk that fails

struct Machine {
  FaultVfs vfs;
  ManualClock clock;
  std::unique_ptr<Database> db = MustOpen("db", {.clock = &clock, .vfs = vfs.name()});

  void PowerCut(Random& random) {
    vfs.StopAfter(0);
    db.reset();
    vfs.PowerCut(random);
    db = MustOpen("db", {.clock = &clock, .vfs = vfs.name()});
  }
};

TEST(SqliteQueueFaults, PowerCutAtAnyWriteKeepsWhatWasAnsweredAndTheRestWholeOrNot) {
  SeededRandom random(1);
  for (std::int64_t stop = 0; stop < 90; ++stop) {
    Machine machine;
    ASSERT_TRUE(Push(*machine.db, 0, 1));
    ASSERT_EQ(Claim(*machine.db, 1).size(), 1U);
    machine.vfs.StopAfter(stop);
    int pushed = 0;
    std::size_t acked = 0;
    for (;; ++pushed) {
      if (!Push(*machine.db, 1 + 5 * pushed, 5)) break;
      const auto polled =
          machine.db->queues().tasks().Poll({.tenant = kTenant, .queue = "q", .max_items = 2});
      if (!polled) break;
      if (!machine.db->queues().tasks().Settle(kTenant, "q", Acks(polled->items))) break;
      acked += 2;
    }
    machine.PowerCut(random);
    const auto record = machine.db->queues().admin().GetQueue(kTenant, "q");
    ASSERT_TRUE(record) << record.error().message;
    // The first push, whole batches, and what was answered.
    EXPECT_EQ((record->enqueued - 1) % 5, 0) << stop;
    EXPECT_GE(record->enqueued, 1 + 5 * pushed);
    EXPECT_EQ(record->completed % 2, 0);
    EXPECT_GE(record->completed, static_cast<std::int64_t>(acked));
    EXPECT_EQ(record->pending + record->processing + record->completed, record->enqueued);
    ASSERT_TRUE(Push(*machine.db, 1'000, 1));
  }
}

TEST(SqliteQueueFaults, FullDiskIsAtCapacityAndNothingHappened) {
  for (std::int64_t skip = 0; skip < 12; ++skip) {
    Machine machine;
    ASSERT_TRUE(Push(*machine.db, 0, 3));
    machine.vfs.Fail(FaultVfs::Operation::kWrite, FaultVfs::Fault::kDiskFull, skip);
    const auto pushed = Push(*machine.db, 3, 500);
    machine.vfs.Heal();
    EXPECT_EQ(Pending(*machine.db), pushed ? 503 : 3);
    if (!pushed) EXPECT_CODE(pushed, Code::kAtCapacity);
    EXPECT_OK(Push(*machine.db, 3, 500));
    EXPECT_EQ(Pending(*machine.db), 503);
  }
}

// ---- How SQLite does it

class QueueStatements : public testing::Test {
 protected:
  void SetUp() override {
    db_ = MustOpen(folder_.File("db"));
    c_ = Connection::Open(folder_.File("db"), {}).value();
    const auto count = [](unsigned, void* self, void*, void*) {
      ++static_cast<QueueStatements*>(self)->statements_;
      return 0;
    };
    sqlite3_trace_v2(c_->handle(), SQLITE_TRACE_STMT, count, this);
  }

  static auto Enqueue(QueueTransaction& q, std::span<const NewItem> items) {
    return q.Enqueue(items, task_queue::Digests(items));
  }
  /// The query plan, a line for each step.
  std::string Plan(const char* sql) {
    plans_.push_back(fmt::format("EXPLAIN QUERY PLAN {}", sql));
    std::string plan;
    EXPECT_OK(c_->ForEach(plans_.back().c_str(),
                          [&](Row row) { plan += row.Get<std::string>(3) + "\n"; }));
    return plan;
  }

  /// Statements of one transaction of `body`.
  template <typename Body>
  int Count(Body body) {
    auto transaction = Transaction::BeginWrite(*c_);
    QueueTransaction queue(*c_, kTenant, "q", {clock_.Now(), clock_.Monotonic(), 1});
    const int before = statements_;
    body(queue);
    const int count = statements_ - before;
    EXPECT_OK(transaction->Commit());
    return count;
  }

  /// Steps of SQLite's machine since the last call.
  int Steps() {
    int total = 0;
    for (sqlite3_stmt* s = sqlite3_next_stmt(c_->handle(), nullptr); s != nullptr;
         s = sqlite3_next_stmt(c_->handle(), s)) {
      total += sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 1);
    }
    return total;
  }

  const ScratchFolder folder_;
  SystemClock clock_;
  std::unique_ptr<Database> db_;
  std::unique_ptr<Connection> c_;
  int statements_ = 0;
  std::list<std::string> plans_;  // known by their addresses
};

TEST_F(QueueStatements, ItemsAreFoundByIndexWithoutScanOrSort) {
  const auto expect = [&](const char* sql, const char* index, bool may_sort = false) {
    const std::string plan = Plan(sql);
    EXPECT_NE(plan.find(index), std::string::npos) << sql << "\n" << plan;
    EXPECT_EQ(plan.find("SCAN queue"), std::string::npos) << sql << "\n" << plan;
    if (!may_sort) EXPECT_EQ(plan.find("TEMP B-TREE"), std::string::npos) << sql << "\n" << plan;
  };
  using namespace queue_sql;  // NOLINT(google-build-using-namespace)
  expect(kLevel, "queue_item_ready (tenant_id=? AND queue=? AND priority<?)");
  expect(kAvailable,
         "queue_item_ready (tenant_id=? AND queue=? AND priority=? AND available_at<?)");
  expect(kLeasesOfBootsBefore, "queue_item_lease (tenant_id=? AND queue=? AND lease_boot<?)");
  expect(kLeasesOfBootsAfter, "queue_item_lease (tenant_id=? AND queue=? AND lease_boot>?)");
  expect(kLeasesUpTo,
         "queue_item_lease (tenant_id=? AND queue=? AND lease_boot=? AND lease_until<?)");
  expect(kFirstLease, "queue_item_lease (tenant_id=? AND queue=? AND lease_boot=?)");
  expect(kOver, "queue_item_over (tenant_id=? AND queue=? AND state=? AND ended_at<?)");
  expect(kDeadAfter, "queue_item_over (tenant_id=? AND queue=? AND state=? AND ended_at>?)");
  expect(kAnyOver, "queue_item_over (tenant_id=? AND queue=? AND state=? AND ended_at<?)");
  expect(kItem, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
  expect(kItemById, "queue_item_id (tenant_id=? AND queue=? AND id=?)");
  expect(kList, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no>?)");
  expect(kListDead, "queue_item_over (tenant_id=? AND queue=? AND state=?)", true);
  expect(kListProcessing, "queue_item_lease (tenant_id=? AND queue=?)", true);
  expect(kSome, "PRIMARY KEY (tenant_id=? AND queue=?)");
  expect(kUpdate, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
  expect(kExtend, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
  expect(kDelete, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
  expect(kPayload, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
  expect(kDeletePayload, "PRIMARY KEY (tenant_id=? AND queue=? AND item_no=?)");
}

TEST_F(QueueStatements, BatchCostsAFixedNumberAndAFewForEachItem) {
  ASSERT_TRUE(db_->queues().admin().Configure(kTenant, "q", {}));
  int next = 0;
  for (const int size : {1, 10, 100, 1'000}) {
    EXPECT_EQ(Count([&](auto& q) { EXPECT_OK(Enqueue(q, Items(next, size))); }), 8 + 2 * size);
    next += size;
    const auto of_round = Items(1'000'000 + next, size);
    EXPECT_EQ(Count([&](auto& q) {
                EXPECT_EQ(q.EnqueueWhatFits(of_round, task_queue::Digests(of_round)).value(), 0U);
              }),
              8 + 2 * size);
    std::vector<ClaimedItem> claimed;
    EXPECT_EQ(
        Count([&](auto& q) {
          claimed =
              q.Poll({.tenant = kTenant, .queue = "q", .max_items = static_cast<std::size_t>(size)})
                  .value()
                  .items;
        }),
        // Queue, three ranges of leases, two levels, two numbers, and the items.
        10 + 2 * size);
    ASSERT_EQ(claimed.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(Count([&](auto& q) { EXPECT_OK(q.Settle(Acks(claimed))); }), 2 + 3 * size);
  }
}

TEST_F(QueueStatements, ClaimTakesTheSameStepsBesideALargeQueue) {
  const auto steps_of_claim = [&] {
    const std::array item{NewItem{.id = fmt::format("{}", statements_), .payload = "1"}};
    Count([&](auto& q) { EXPECT_OK(Enqueue(q, item)); });
    Steps();
    Count([&](auto& q) {
      EXPECT_EQ(q.Poll({.tenant = kTenant, .queue = "q"}).value().items.size(), 1U);
    });
    return Steps();
  };
  steps_of_claim();
  const int alone = steps_of_claim();
  for (int n = 0; n < 20'000; n += 1'000) ASSERT_TRUE(Push(*db_, n, 1'000, "large"));
  EXPECT_EQ(steps_of_claim(), alone);
}

TEST_F(QueueStatements, DelayedItemsOfHighPriorityAreNotWalkedThrough) {
  std::vector<NewItem> delayed = Items(0, 1'000);
  for (NewItem& item : delayed) {
    item.priority = 9;
    item.delay = std::chrono::hours(1);
  }
  Count([&](auto& q) { EXPECT_OK(Enqueue(q, delayed)); });
  Count([&](auto& q) { EXPECT_OK(Enqueue(q, Items(1'000, 1))); });
  Steps();
  Count([&](auto& q) {
    EXPECT_EQ(q.Poll({.tenant = kTenant, .queue = "q"}).value().items.size(), 1U);
  });
  EXPECT_LT(Steps(), 1'000);
}

}  // namespace
}  // namespace headworks::store_sqlite
