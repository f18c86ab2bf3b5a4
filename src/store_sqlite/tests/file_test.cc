#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "run_query.h"
#include "run_store.h"
#include "schema.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

using store::conformance::kShard;
using store::conformance::kT0;
using store::conformance::kTenant;
using store::conformance::NewRun;
using store::conformance::PlainHeader;

unsigned ModeOf(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777U;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Script(const std::string& path, const char* sql) {
  auto connection =
      Connection::Open(path, {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, .vfs = {}});
  ASSERT_TRUE(connection);
  EXPECT_OK((*connection)->Script(sql));
}

TEST(SqliteFile, EverythingIsPrivateToItsUser) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("a/b/db"));
  ASSERT_TRUE(Engine(*db).Own());
  for (const char* folder_name : {"a", "a/b"}) EXPECT_EQ(ModeOf(folder.File(folder_name)), 0700U);
  for (const char* file : {"a/b/db", "a/b/db-wal", "a/b/db-shm", "a/b/db.lock"}) {
    EXPECT_EQ(ModeOf(folder.File(file)), 0600U) << file;
  }
}

TEST(SqliteFile, MissingFileIsCreatedOnlyIfAsked) {
  const ScratchFolder folder;
  EXPECT_CODE(Open(folder.File("db"), {.create = false}), Code::kNotFound);
  EXPECT_FALSE(fs::exists(folder.File("db")));
  EXPECT_CODE(Open("", {}), Code::kInvalidArgument);
  EXPECT_OK(Open(folder.File("db"), {}));
  EXPECT_OK(Open(folder.File("db"), {.create = false}));
}

TEST(SqliteFile, EmptyFileIsNoDatabaseForWhoeverCreatesNone) {
  const ScratchFolder folder;
  std::ofstream(folder.File("db")) << "";
  EXPECT_CODE(Open(folder.File("db"), {.create = false}), Code::kNotFound);
  EXPECT_EQ(fs::file_size(folder.File("db")), 0U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.File("")), fs::directory_iterator()), 1);
}

TEST(SqliteFile, DatabaseOfAnotherProgramIsRefusedAndLeftAlone) {
  const ScratchFolder folder;
  Script(folder.File("db"), "CREATE TABLE photos (id INTEGER PRIMARY KEY)");
  const std::string before = ContentOf(folder.File("db"));
  const auto refused = Open(folder.File("db"), {});
  EXPECT_CODE(refused, Code::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("another program"), std::string::npos);
  EXPECT_NE(refused.error().message.find(folder.File("db")), std::string::npos);
  EXPECT_EQ(ContentOf(folder.File("db")), before);
}

TEST(SqliteFile, WhatIsNoDatabaseIsRefusedAndLeftAlone) {
  const ScratchFolder folder;
  const std::string text(10'000, 'x');
  std::ofstream(folder.File("db")) << text;
  // It may have been one.
  EXPECT_CODE(Open(folder.File("db"), {}), Code::kCorrupt);
  EXPECT_EQ(ContentOf(folder.File("db")), text);
  fs::create_directory(folder.File("folder"));
  EXPECT_CODE(Open(folder.File("folder"), {}), Code::kUnavailable);
}

/// Runs `body` as a user that may not write what root made private to itself.
template <typename Body>
void AsNobody(Body body) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  ASSERT_EQ(seteuid(kNobody), 0);
  body();
  ASSERT_EQ(seteuid(0), 0);
}

TEST(SqliteFile, ReadOnlyFileAndFolderAreRefusedWithAdvice) {
  const ScratchFolder folder;
  MustOpen(folder.File("db"));
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder.File("db"), fs::perms(0644));
  AsNobody([&] {
    const auto file = Open(folder.File("db"), {});
    EXPECT_CODE(file, Code::kPermissionDenied);
    EXPECT_NE(file.error().message.find("writable"), std::string::npos) << file.error().message;
    EXPECT_CODE(Open(folder.File("new"), {}), Code::kPermissionDenied);
    EXPECT_CODE(Open(folder.File("sub/new"), {}), Code::kPermissionDenied);
  });
  // The file alone is not enough: the log stands beside it.
  fs::permissions(folder.File("db"), fs::perms(0666));
  AsNobody([&] { EXPECT_CODE(Open(folder.File("db"), {}), Code::kPermissionDenied); });
}

// ---- Levels

const int kLevel = Migrations().back().level;
const Migration kNext{kLevel + 1, 1, "colours", "ALTER TABLE run ADD COLUMN colour TEXT"};
const Migration kBreaking{kLevel + 2, kLevel + 2, "new kinds",
                          "CREATE TABLE kinds (id INTEGER PRIMARY KEY) STRICT"};

std::vector<Migration> UpTo(const Migration& last) {
  std::vector<Migration> migrations(Migrations().begin(), Migrations().end());
  migrations.push_back(kNext);
  if (last.level == kBreaking.level) migrations.push_back(kBreaking);
  return migrations;
}

TEST(SqliteLevels, EmptyFileOfOursIsBroughtToThisLevel) {
  const ScratchFolder folder;
  Script(folder.File("db"), "PRAGMA application_id = 0x48575354");
  EXPECT_OK(MustOpen(folder.File("db"))->runs().ReserveRunNos(1));
}

TEST(SqliteLevels, OlderFileIsBroughtUpWithItsRowsAndTheOldProgramGoesOn) {
  const ScratchFolder folder;
  const auto old_program = MustOpen(folder.File("db"));
  Engine engine(*old_program);
  ASSERT_TRUE(engine.Own());
  EXPECT_OK(engine.Commit(NewRun(PlainHeader(RunNo(1)))));

  auto connection = Connection::Open(folder.File("db"), {});
  ASSERT_TRUE(connection);
  const auto applied = ApplyMigrations(**connection, UpTo(kNext));
  ASSERT_TRUE(applied) << applied.error().message;
  ASSERT_EQ(applied->size(), 1U);
  EXPECT_EQ(applied->front().level, kNext.level);
  EXPECT_EQ(CheckLevels(**connection, kNext.level)->schema, kNext.level);
  EXPECT_EQ(ApplyMigrations(**connection, UpTo(kNext))->size(), 0U);

  EXPECT_OK(engine.Commit(NewRun(PlainHeader(RunNo(2)))));
  EXPECT_OK(old_program->query().GetRun(kTenant, "1"));
  EXPECT_OK(MustOpen(folder.File("db"))->query().GetRun(kTenant, "2"));
}

TEST(SqliteLevels, TasksOfLevelOneAreKept) {
  const ScratchFolder folder;
  {
    auto connection = Connection::Open(
        folder.File("db"), {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, .vfs = {}});
    ASSERT_TRUE(ApplyMigrations(**connection, Migrations().first(1)));
    EXPECT_OK((*connection)
                  ->Script("INSERT INTO task VALUES ('t', 1, 2, -1, 5, 0, 3, 4, 5, 6, 7, 8, 1, 9, "
                           "10, NULL, NULL, 'e',"
                           " NULL, 'h', x'7b7d')"));
    ASSERT_TRUE(ApplyMigrations(**connection, Migrations()));
    std::string row;
    EXPECT_OK((*connection)
                  ->ForEach("SELECT tries || '/' || zombie || '/' || admitted || '/' || not_before "
                            "|| '/' || since || '/' || "
                            "deadline || '/' || executor || '/' || holder || '/' || hex(output) "
                            "FROM task WHERE tenant_id = 't' AND run_no = 1 AND task_no = 2",
                            [&](Row values) { values.Read(row); }));
    EXPECT_EQ(row, "6/1/0/9/10/0/e/h/7B7D");
  }
  EXPECT_OK(MustOpen(folder.File("db"))->runs().ReserveRunNos(1));
}

TEST(SqliteLevels, RunsOfTheFirstLevelAreFoundAfterwards) {
  const ScratchFolder folder;
  {
    auto first = Connection::Open(folder.File("db"),
                                  {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, .vfs = {}});
    ASSERT_TRUE(ApplyMigrations(**first, Migrations().first(1)));
    // As that program wrote them: pending, parked until a time, ended.
    ASSERT_TRUE((*first)->Script(
        "WITH old (run_no, state, wake_at, finished_at) AS "
        "(VALUES (1, 1, 0, 0), (2, 2, 5, 0), (3, 3, 9223372036854775807, 7)) "
        "INSERT INTO run SELECT 'acme', run_no, 'id' || run_no, 'p', 'w', 'v', 7, 0, '', '', 0, 0, "
        "NULL, NULL, NULL, NULL, state, 0, 0, 0, 1, 0, finished_at, 0, 0, 0, 0, 0, wake_at, 0, 0, "
        "0, x'0103000000000000000000', '' FROM old"));
  }
  const auto db = MustOpen(folder.File("db"));
  const auto due = db->runs().ListDue(std::array{kShard}, kT0, {}, 10);
  ASSERT_TRUE(due) << due.error().message;
  ASSERT_EQ(due->size(), 2U);
  EXPECT_EQ((*due)[0].run_no, RunNo(1));
  EXPECT_EQ((*due)[1].run_no, RunNo(2));
  const auto unfinished = db->query().ListRuns(
      kTenant, {.states = {model::RunState::kPending, model::RunState::kRunning}});
  ASSERT_TRUE(unfinished);
  EXPECT_EQ(unfinished->size(), 2U);
}

TEST(SqliteLevels, WorkersComeToAFileOfBeforeAndItsRunsStay) {
  const ScratchFolder folder;
  {
    auto sixth = Connection::Open(folder.File("db"),
                                  {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, .vfs = {}});
    ASSERT_TRUE(ApplyMigrations(**sixth, Migrations().first(6)));
    ASSERT_TRUE((*sixth)->Script("UPDATE store SET next_run_no = 42"));
  }
  const auto db = MustOpen(folder.File("db"));
  EXPECT_EQ(*db->runs().ReserveRunNos(1), RunNo(42));
  const store::WorkerRecord worker{.tenant = kTenant, .name = "w", .incarnation = "one"};
  EXPECT_OK(db->workers().WriteWorkers({&worker, 1}, kT0));
  EXPECT_EQ(*db->workers().ListWorkers(kTenant), std::vector{worker});
}

TEST(SqliteWorkers, OneDamagedRowIsToldAndHidesNoOther) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  const store::WorkerRecord good{.tenant = kTenant, .name = "good", .incarnation = "one"};
  store::WorkerRecord bad{.tenant = kTenant,
                          .name = "bad",
                          .incarnation = "one",
                          .queues = {{"q", 1, 0, 0}},
                          .labels = {"gpu"}};
  for (const char* damage : {"queues = '[[\"q\",4294967296,0,0]]'", "queues = '[[\"q\",1,-1,0]]'",
                             "queues = '[[\"q\",1,0,1.5]]'", "queues = '[[\"q\",1,0]]'",
                             "queues = '{'", "labels = '[1]'", "labels = ''"}) {
    EXPECT_OK(db->workers().WriteWorkers(std::vector{good, bad}, kT0));
    {
      auto other = Connection::Open(folder.File("db"), {});
      ASSERT_TRUE((*other)->Script(
          (std::string("UPDATE worker SET ") + damage + " WHERE name = 'bad'").c_str()));
    }
    EXPECT_CODE(db->workers().ListWorkers(kTenant), Code::kCorrupt) << damage;
    const auto present = db->workers().ListPresent();
    ASSERT_TRUE(present) << damage;
    ASSERT_EQ(present->size(), 2U);
    const store::WorkerRecord& read = present->front();
    EXPECT_EQ(read.name, "bad");
    EXPECT_NE(read.fault.find("worker bad: its "), std::string::npos) << read.fault;
    EXPECT_TRUE(read.queues.empty() && read.labels.empty());
    EXPECT_EQ(present->back(), good);
  }
}

TEST(SqliteLevels, FileThatNeedsANewerProgramIsRefused) {
  const ScratchFolder folder;
  MustOpen(folder.File("db"));
  {
    auto connection = Connection::Open(folder.File("db"), {});
    ASSERT_TRUE(ApplyMigrations(**connection, UpTo(kBreaking)));
  }
  const auto refused = Open(folder.File("db"), {});
  EXPECT_CODE(refused, Code::kConflict);
  EXPECT_NE(refused.error().message.find("newer Headworks"), std::string::npos);
}

TEST(SqliteLevels, FailedMigrationChangesNothing) {
  const ScratchFolder folder;
  MustOpen(folder.File("db"));
  auto connection = Connection::Open(folder.File("db"), {});
  std::vector<Migration> migrations = UpTo(kNext);
  migrations.push_back({kLevel + 2, kLevel + 2, "broken", "CREATE TABLE run (oops)"});
  EXPECT_FALSE(ApplyMigrations(**connection, migrations));
  EXPECT_EQ(CheckLevels(**connection, kLevel)->schema, kLevel);
  EXPECT_OK(MustOpen(folder.File("db"))->runs().ReserveRunNos(1));
}

// ---- Work on the file

TEST(SqliteFile, ReadersDoNotWaitForAWriterNorDoWritersForReaders) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"), {.busy_timeout = std::chrono::milliseconds(50)});
  Engine engine(*db);
  ASSERT_TRUE(engine.Own());
  EXPECT_OK(engine.Commit(NewRun(PlainHeader(RunNo(1)))));
  auto other = Connection::Open(folder.File("db"), {});
  {
    auto reading = Transaction::BeginRead(**other);
    ASSERT_TRUE((*other)->Value<int>("SELECT count(*) FROM run"));
    EXPECT_OK(engine.Commit(NewRun(PlainHeader(RunNo(2)))));
  }
  auto writing = Transaction::BeginWrite(**other);
  EXPECT_OK(db->query().GetRun(kTenant, "2"));
  const auto busy = db->runs().ReserveRunNos(1);
  EXPECT_CODE(busy, Code::kUnavailable);
  EXPECT_NE(busy.error().message.find("another process"), std::string::npos);
  EXPECT_OK(writing->Commit());
  EXPECT_OK(db->runs().ReserveRunNos(1));
}

/// How SQLite would run a statement.
std::string PlanOf(Connection& connection, const char* sql) {
  std::string plan;
  const std::string explain = std::string("EXPLAIN QUERY PLAN ") + sql;
  EXPECT_OK(connection.ForEach(explain.c_str(),
                               [&](Row row) { plan += row.Get<std::string>(3) + "\n"; }));
  return plan;
}

/// Trees (the table, its indexes) that a statement may write.
std::int64_t TreesWritten(Connection& connection, const char* sql) {
  std::int64_t trees = 0;
  const std::string explain = std::string("EXPLAIN ") + sql;
  EXPECT_OK(connection.ForEach(explain.c_str(), [&](Row row) {
    if (row.Get<std::string>(1) == "OpenWrite") ++trees;
  }));
  return trees;
}

TEST(SqliteFile, ARunMovesInNoIndexUntilItEnds) {
  const ScratchFolder folder;
  MustOpen(folder.File("db"));
  auto connection = Connection::Open(folder.File("db"), {});
  EXPECT_EQ(TreesWritten(**connection, kUpdateRun), 1);
  // The table, run_under_way, and run_unsuccessful, whose condition is the state.
  EXPECT_EQ(TreesWritten(**connection, kStartRun), 3);
  // And run_due, run_unfinished, run_stuck; run_key_active and run_zombie, in which most runs are
  // never.
  EXPECT_EQ(TreesWritten(**connection, kRelistRun), 8);
}

TEST(SqliteFile, WhoeverAppendsRingsAtTheEnginesDoor) {
  const ScratchFolder folder;
  const auto engine = MustOpen(folder.File("db"));
  const auto other = MustOpen(folder.File("db"));
  std::mutex mutex;
  std::condition_variable heard;
  int rings = 0;
  auto watch = engine->inbox().WatchAppends([&] {
    const std::scoped_lock lock(mutex);
    ++rings;
    heard.notify_one();
  });
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(fs::status(folder.File("db.bell")).permissions(), fs::perms(0600));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_OK(other->inbox().Append(
        std::array{store::conformance::Message("cancel", "k" + std::to_string(i), RunNo(1))}));
    std::unique_lock lock(mutex);
    EXPECT_TRUE(heard.wait_for(lock, std::chrono::seconds(30), [&] { return rings == i; }));
    EXPECT_EQ(engine->runs().ReadInbox(std::array{kShard}, 0, 10)->size(),
              static_cast<std::size_t>(i));
  }
  watch.reset();
  EXPECT_FALSE(fs::exists(folder.File("db.bell")));
  EXPECT_OK(other->inbox().Append(
      std::array{store::conformance::Message("cancel", "unheard", RunNo(1))}));
  EXPECT_EQ(rings, 3);
}

TEST(SqliteFile, WhatElseStandsInPlaceOfTheBellIsLeftAlone) {
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  std::ofstream(folder.File("db.bell")) << "mine";
  EXPECT_EQ(db->inbox().WatchAppends([] {}), nullptr);
  EXPECT_OK(db->inbox().Append(std::array{store::conformance::Message("cancel", "k", RunNo(1))}));
  EXPECT_EQ(fs::file_size(folder.File("db.bell")), 4U);
}

TEST(SqliteFile, ListsReadNoMoreThanTheyAnswer) {
  using model::RunState;
  const ScratchFolder folder;
  MustOpen(folder.File("db"));
  auto connection = Connection::Open(folder.File("db"), {});
  const auto uses = [&](const char* sql, std::string_view index, bool sorts = false) {
    const std::string plan = PlanOf(**connection, sql);
    EXPECT_NE(plan.find(index), std::string::npos) << plan;
    const bool scans_index = index.starts_with("SCAN");  // of which all rows are answers
    EXPECT_EQ(plan.find("SCAN") != std::string::npos, scans_index) << plan;
    EXPECT_EQ(plan.find("TEMP B-TREE") != std::string::npos, sorts) << plan;
  };
  uses(kDueOfPriority, "run_due (wake_at=? AND priority=? AND run_no>?)");
  uses(kDueBelow, "run_due (wake_at=? AND priority<?)");
  uses(kDueByTime, "run_due (wake_at>? AND wake_at<?)", true);
  uses(kHeld, "SEARCH r USING INDEX run_due (wake_at=?)\nSEARCH t USING PRIMARY KEY", true);
  uses(kHeldByStuck, "SCAN r USING INDEX run_stuck\nSEARCH t USING PRIMARY KEY", true);
  uses(ListStatement({}), "PRIMARY KEY (tenant_id=? AND run_no<?)");
  uses(ListStatement({.workflow = "a"}), "run_workflow (tenant_id=? AND workflow=? AND run_no<?)");
  uses(ListStatement({.states = {RunState::kRunning}}), "run_unfinished");
  uses(ListStatement({.states = {RunState::kFailed, RunState::kCancelled}}), "run_unsuccessful");
  uses(ListStatement({.stuck_only = true}), "run_stuck");
  uses(kActiveOfKey, "run_key_active (tenant_id=? AND workflow=? AND concurrency_key=?)");
  uses(kUnderWay, "run_under_way (tenant_id=? AND workflow=? AND package=?)");
  uses(kUnfinished, "run_unfinished (tenant_id=?)");
  uses(kZombies, "run_zombie (tenant_id=?)");
  uses(kCountActiveOfKey, "run_key_active (tenant_id=? AND workflow=? AND concurrency_key=?)");
  uses(kCountUnderWay, "run_under_way (tenant_id=? AND workflow=? AND package=?)");
  uses(kCountUnfinished, "run_unfinished (tenant_id=?)");
  uses(kCountZombies, "run_zombie (tenant_id=?)");
  uses(kStartsOfKey,
       "PRIMARY KEY (tenant_id=? AND package=? AND workflow=? AND concurrency_key=? AND "
       "started_at>?)");
}

}  // namespace
}  // namespace headworks::store_sqlite
