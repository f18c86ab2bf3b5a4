#include <array>
#include <map>

#include "headworks/base/random.h"
#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/trace.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/store_sqlite_testing/fault_vfs.h"
#include "tests/engine.h"

namespace headworks::store_sqlite {
namespace {

using Operation = FaultVfs::Operation;
using Fault = FaultVfs::Fault;
using model::TaskState;
using store::conformance::AttemptAt;
using store::conformance::Harness;
using store::conformance::kShard;
using store::conformance::kTenant;
using store::conformance::ManualClock;
using store::conformance::Message;
using store::conformance::NewRun;
using store::conformance::PlainHeader;
using store::conformance::TaskAt;

constexpr std::array kShards{kShard};

/// A disk in memory, the database on it, and an engine that owns a shard.
struct Machine {
  FaultVfs vfs;
  ManualClock clock;
  std::unique_ptr<store::Database> db;
  std::optional<Engine> engine;

  Machine() { Boot(); }
  void Boot() {
    db = MustOpen("db", {.clock = &clock, .vfs = vfs.name()});
    engine.emplace(*db);
    ASSERT_TRUE(engine->Own());
  }
  /// The power goes, whatever the database would still like to do.
  void PowerCut(Random& random) {
    vfs.StopAfter(0);
    engine.reset();
    db.reset();
    vfs.PowerCut(random);
    Boot();
  }
};

/// Run `n` and what belongs to it: written in one round, so all of it is there or none.
store::RunWrite WholeRun(std::int64_t n) {
  store::RunWrite write =
      NewRun(PlainHeader(RunNo(n)), std::string(static_cast<std::size_t>(n * 700), 'i'));
  for (std::uint32_t task = 0; task < 4; ++task) {
    write.tasks.push_back(TaskAt(task, TaskState::kSucceeded, std::string(3'000, 'o')));
    write.attempts.push_back(AttemptAt(task, task + 1));
  }
  write.events = {{store::conformance::kT0, "finished", "", ""}};
  return write;
}

/// 1 = there with all its rows, 0 = nothing of it; anything else fails the test.
int Presence(store::Database& db, std::int64_t n) {
  const auto tasks = db.query().ListTasks(kTenant, RunNo(n), {}, 100);
  if (!tasks) {
    EXPECT_EQ(tasks.error().code, Code::kNotFound) << tasks.error().message;
    return 0;
  }
  EXPECT_EQ(tasks->size(), 4U);
  EXPECT_EQ(db.query().ListAttempts(kTenant, RunNo(n), {}, {}, 100)->size(), 4U);
  EXPECT_EQ(db.query().ListEvents(kTenant, RunNo(n), 100)->size(), 1U);
  EXPECT_EQ(db.query().ReadInput(kTenant, RunNo(n))->size(), static_cast<std::size_t>(n * 700));
  return 1;
}

TEST(SqliteFaults, PowerCutAtAnyWriteKeepsWhatWasAcknowledgedAndTheRestWholeOrNot) {
  SeededRandom random(1);
  int kept_unacknowledged = 0;
  int lost_unacknowledged = 0;
  // Stops after every write and sync of the first rounds in turn.
  for (std::int64_t stop = 0; stop < 120; ++stop) {
    Machine machine;
    machine.vfs.StopAfter(stop);
    std::int64_t acknowledged = 0;
    while (machine.engine->Commit(WholeRun(acknowledged + 1))) ++acknowledged;
    machine.PowerCut(random);
    for (std::int64_t n = 1; n <= acknowledged; ++n) {
      ASSERT_EQ(Presence(*machine.db, n), 1) << "stop " << stop << ", run " << n;
    }
    const int last = Presence(*machine.db, acknowledged + 1);
    (last == 1 ? kept_unacknowledged : lost_unacknowledged) += 1;
    EXPECT_EQ(machine.engine->guard().round.value, acknowledged + last);  // one with its round
    ASSERT_TRUE(machine.engine->Commit(WholeRun(50)));
  }
  EXPECT_GT(kept_unacknowledged, 0);  // both ends were met
  EXPECT_GT(lost_unacknowledged, 0);
}

TEST(SqliteFaults, PowerCutsDuringLongWorkLoseNothingAcknowledged) {
  SeededRandom random(2);
  Machine machine;
  std::int64_t acknowledged = 0;
  for (int cut = 0; cut < 15; ++cut) {
    // Long enough for checkpoints, which write the pages back and start the log over.
    machine.vfs.StopAfter(static_cast<std::int64_t>(random.Next() % 3'000));
    while (machine.engine->Commit(WholeRun(acknowledged + 1))) {
      ++acknowledged;
    }
    machine.PowerCut(random);
    for (std::int64_t n = 1; n <= acknowledged; ++n) ASSERT_EQ(Presence(*machine.db, n), 1);
    acknowledged += Presence(*machine.db, acknowledged + 1);
  }
  EXPECT_GT(acknowledged, 100);
}

TEST(SqliteFaults, PowerCutKeepsAcknowledgedMessages) {
  SeededRandom random(3);
  Machine machine;
  std::int64_t acknowledged = 0;
  for (std::int64_t cut = 0; cut < 40; ++cut) {
    machine.vfs.StopAfter(cut);
    const auto append = [&] {
      const std::array row{Message("start", std::to_string(acknowledged + 1))};
      return machine.db->inbox().Append(row);
    };
    while (append()) ++acknowledged;
    machine.PowerCut(random);
    const auto rows = machine.db->runs().ReadInbox(kShards, 0, 10'000);
    ASSERT_TRUE(rows);
    const auto stored = static_cast<std::int64_t>(rows->size());
    ASSERT_TRUE(stored == acknowledged || stored == acknowledged + 1);
    acknowledged = stored;
  }
}

TEST(SqliteFaults, FullDiskIsAtCapacityLosesNothingAndHeals) {
  Machine machine;
  ASSERT_TRUE(machine.engine->Commit(WholeRun(1)));
  machine.vfs.LimitBytes(machine.vfs.bytes() + 4'000);
  const Status full = machine.engine->Commit(WholeRun(2));
  EXPECT_CODE(full, Code::kAtCapacity);
  EXPECT_NE(full.error().message.find("free space"), std::string::npos) << full.error().message;
  EXPECT_NE(full.error().message.find("db"), std::string::npos);
  EXPECT_EQ(Presence(*machine.db, 1), 1);
  EXPECT_EQ(Presence(*machine.db, 2), 0);
  EXPECT_EQ(machine.db->runs().ReadGuard(kShard)->round, RoundNo(1));
  machine.vfs.Heal();
  EXPECT_OK(machine.engine->Commit(WholeRun(2)));  // the very same bytes
  EXPECT_EQ(Presence(*machine.db, 2), 1);
}

TEST(SqliteFaults, FullDiskAtEveryWriteOfARoundLosesNothing) {
  for (std::int64_t skip = 0; skip < 12; ++skip) {
    Machine machine;
    ASSERT_TRUE(machine.engine->Commit(WholeRun(1)));
    machine.vfs.Fail(Operation::kWrite, Fault::kDiskFull, skip);
    const Status status = machine.engine->Commit(WholeRun(2));
    machine.vfs.Heal();
    if (!status) {
      EXPECT_CODE(status, Code::kAtCapacity);
      EXPECT_EQ(Presence(*machine.db, 2), 0) << skip;
      EXPECT_OK(machine.engine->Commit(WholeRun(2)));
    }
    EXPECT_EQ(Presence(*machine.db, 1), 1);
    EXPECT_EQ(Presence(*machine.db, 2), 1);
  }
}

TEST(SqliteFaults, WriteErrorIsUnavailableAndTheGuardTells) {
  int adopted = 0;
  for (std::int64_t skip = 0; skip < 12; ++skip) {
    Machine machine;
    machine.vfs.Fail(Operation::kWrite, Fault::kIoError, skip);
    const Status status = machine.engine->Commit(WholeRun(1));
    machine.vfs.Heal();
    if (status) continue;
    EXPECT_CODE(status, Code::kUnavailable);
    const auto guard = machine.db->runs().ReadGuard(kShard);
    ASSERT_TRUE(guard);
    EXPECT_EQ(Presence(*machine.db, 1), guard->round.value) << skip;
    adopted += static_cast<int>(guard->round.value);
    if (guard->round.value == 0) EXPECT_OK(machine.engine->Commit(WholeRun(1)));
    EXPECT_EQ(Presence(*machine.db, 1), 1);
  }
  EXPECT_EQ(adopted, 0);  // SQLite takes a round back whose writes failed
}

TEST(SqliteFaults, FailedFlushEndsAllWritingUntilTheProcessStartsAgain) {
  SeededRandom random(4);
  Machine machine;
  ASSERT_TRUE(machine.engine->Commit(WholeRun(1)));
  machine.vfs.Fail(Operation::kSync, Fault::kIoError);
  EXPECT_CODE(machine.engine->Commit(WholeRun(2)), Code::kUnavailable);
  machine.vfs.Heal();
  const Status stopped = machine.engine->Commit(WholeRun(2));
  EXPECT_CODE(stopped, Code::kCorrupt);
  EXPECT_NE(stopped.error().message.find("start again"), std::string::npos);
  EXPECT_CODE(machine.db->runs().ReadGuard(kShard), Code::kCorrupt);
  EXPECT_CODE(machine.db->inbox().Append(std::array{Message("start", "k")}), Code::kCorrupt);
  EXPECT_EQ(Presence(*machine.db, 1), 1);  // reading goes on
  machine.PowerCut(random);
  EXPECT_EQ(Presence(*machine.db, 1), 1);
  EXPECT_EQ(machine.engine->guard().round.value, 1 + Presence(*machine.db, 2));
  EXPECT_OK(machine.engine->Commit(WholeRun(9)));
}

TEST(SqliteFaults, ReadErrorIsUnavailableAndPasses) {
  Machine machine;
  ASSERT_TRUE(machine.engine->Commit(WholeRun(1)));
  machine.vfs.Fail(Operation::kRead, Fault::kIoError, 0, 1'000);
  EXPECT_CODE(machine.db->query().ReadInput(kTenant, RunNo(1)), Code::kUnavailable);
  machine.vfs.Heal();
  EXPECT_EQ(Presence(*machine.db, 1), 1);
}

TEST(SqliteFaults, DamagedPagesAreCorruptAndNeverWrongAnswers) {
  SeededRandom random(5);
  int found = 0;
  for (int round = 0; round < 10; ++round) {
    Machine machine;
    for (std::int64_t n = 1; n <= 30; ++n) ASSERT_TRUE(machine.engine->Commit(WholeRun(n)));
    machine.engine.reset();
    machine.db.reset();  // everything is in the main file now
    const std::int64_t pages = machine.vfs.FileSize("db") / 4096;
    for (std::int64_t page = 60; page < pages; ++page) {  // behind the schema
      machine.vfs.Damage("db", page * 4096, 16);
    }
    const auto db = MustOpen("db", {.clock = &machine.clock, .vfs = machine.vfs.name()});
    ASSERT_NE(db, nullptr);
    for (std::int64_t n = 1; n <= 30; ++n) {
      const auto tasks = db->query().ListTasks(kTenant, RunNo(n), {}, 100);
      if (tasks || tasks.error().code == Code::kNotFound) continue;
      EXPECT_CODE(tasks, Code::kCorrupt);
      EXPECT_NE(tasks.error().message.find("db check"), std::string::npos);
      ++found;
    }
    machine.vfs.Damage("db", 0, 100);
    EXPECT_CODE(Open("db", {.vfs = machine.vfs.name()}), Code::kCorrupt);
  }
  EXPECT_GT(found, 0);
}

TEST(SqliteFaults, FileThatCannotBeOpenedSaysWhy) {
  FaultVfs vfs;
  vfs.Fail(Operation::kOpen, Fault::kCannotOpen);
  const auto refused = Open("db", {.vfs = vfs.name()});
  EXPECT_CODE(refused, Code::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("Permission denied"), std::string::npos)
      << refused.error().message;
}

// ---- The conformance suite and the traces, where every crash is a power cut.

class PowerCutHarness final : public Harness {
 public:
  PowerCutHarness() { Reopen(); }
  store::Database& db() override { return *db_; }
  store::WorkerStore& workers() override { return db_->workers(); }
  task_queue::Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override {
    vfs_.StopAfter(0);
    db_.reset();
    vfs_.PowerCut(random_);
    Reopen();
  }

 private:
  void Reopen() { db_ = MustOpen("db", {.clock = &clock, .vfs = vfs_.name()}); }

  FaultVfs vfs_;
  SeededRandom random_{7};
  std::unique_ptr<Database> db_;
};

class MemoryHarness final : public Harness {
 public:
  store::Database& db() override { return *db_; }
  store::WorkerStore& workers() override { return db_->workers(); }
  task_queue::Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_ = store_memory::Open(storage_, clock); }

 private:
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> db_ = store_memory::Open(storage_, clock);
};

class SqliteTraces : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SqliteTraces, AnswerWhatMemoryAnswersOverPowerCuts) {
  MemoryHarness reference;
  PowerCutHarness subject;
  CompareTraces(reference, subject, GetParam(), 1'000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SqliteTraces, testing::Range<std::uint64_t>(100, 108));

}  // namespace
}  // namespace headworks::store_sqlite

namespace headworks::store::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(SqlitePowerCuts, Conformance,
                         testing::Values(Store{
                             "SqlitePowerCuts",
                             [] { return std::make_unique<store_sqlite::PowerCutHarness>(); }}));

}  // namespace
}  // namespace headworks::store::conformance
