#include "headworks/store_sqlite/admin.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "schema.h"
#include "sqlite.h"
#include "tests/child.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

using model::TaskState;
using store::conformance::AttemptAt;
using store::conformance::kT0;
using store::conformance::kTenant;
using store::conformance::Message;
using store::conformance::NewRun;
using store::conformance::PlainHeader;
using store::conformance::SetState;
using store::conformance::TaskAt;

/// A run whose counts and tasks agree, as the engine writes it.
store::RunWrite FinishedRun(RunNo run, std::size_t output_bytes) {
  store::RunWrite write = NewRun(PlainHeader(run));
  SetState(write.header, model::RunState::kSucceeded);
  write.header.counts = {};
  write.header.counts[static_cast<std::size_t>(TaskState::kSucceeded)] = 2;
  write.tasks = {TaskAt(0, TaskState::kSucceeded, std::string(output_bytes, 'o')),
                 TaskAt(1, TaskState::kSucceeded)};
  write.attempts = {AttemptAt(0, 1), AttemptAt(1, 2)};
  write.events = {{kT0, "finished", "", ""}};
  return write;
}

class SqliteAdmin : public testing::Test {
 protected:
  void SetUp() override {
    db_ = MustOpen(Path());
    engine_.emplace(*db_);
    ASSERT_TRUE(engine_->Own());
    ASSERT_TRUE(db_->runs().ReserveRunNos(1'000));
    ASSERT_TRUE(db_->workflows().PutVersion(kTenant, PlainHeader(RunNo(1)).version, "{}", kT0));
    for (int run = 1; run <= 5; ++run) {
      ASSERT_TRUE(engine_->Commit(FinishedRun(RunNo(run), 50'000)));
    }
    ASSERT_TRUE(db_->inbox().Append(std::array{Message("start", "k")}));
  }

  std::string Path() const { return folder_.File("db"); }
  void Close() {
    engine_.reset();
    db_.reset();
  }
  void Script(const char* sql) {
    auto connection = Connection::Open(Path(), {});
    ASSERT_TRUE(connection);
    EXPECT_OK((*connection)->Script(sql));
  }
  std::string Problems() {
    const auto report = Check(Path());
    if (!report) return report.error().message;
    std::string all;
    for (const std::string& problem : report->problems) all += problem + "\n";
    return all;
  }

  const ScratchFolder folder_;
  std::unique_ptr<store::Database> db_;
  std::optional<Engine> engine_;
};

TEST_F(SqliteAdmin, HealthyDatabaseHasNoProblemsAndIsCountedWhileTheEngineRuns) {
  const auto report = Check(Path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Problems(), "");
  EXPECT_EQ(report->runs, 5);
  EXPECT_EQ(report->tasks, 10);
  EXPECT_EQ(report->attempts, 10);
  EXPECT_EQ(report->waiting_messages, 1);
}

TEST_F(SqliteAdmin, CheckNamesWhatDoesNotFit) {
  Script("DELETE FROM run WHERE run_no = 1");
  const std::string orphans = Problems();
  for (const char* problem :
       {"1 inputs of no run", "2 tasks of no run", "2 attempts of no run", "1 events of no run"}) {
    EXPECT_NE(orphans.find(problem), std::string::npos) << orphans;
  }
  Script("DELETE FROM task WHERE run_no = 2 AND task_no = 1");
  EXPECT_NE(Problems().find("run 2: its counts do not fit its tasks"), std::string::npos);
  Script("UPDATE run SET counts = x'0100' WHERE run_no = 3");
  EXPECT_NE(Problems().find("run 3: its counts are damaged"), std::string::npos);
  Script("UPDATE store SET waiting_starts = 7");
  EXPECT_NE(Problems().find("waiting starts"), std::string::npos);
  Script("UPDATE store SET next_run_no = 2");
  EXPECT_NE(Problems().find("next run number"), std::string::npos);
  Script("DELETE FROM workflow_version");
  EXPECT_NE(Problems().find("4 runs of a version that is not there"), std::string::npos);
}

TEST_F(SqliteAdmin, CheckReportsADamagedPage) {
  Close();
  const auto size = static_cast<std::int64_t>(fs::file_size(Path()));
  std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
  for (std::int64_t page = std::int64_t{4096} * 20; page < size; page += 4096) {
    file.seekp(page);
    file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  }
  file.close();
  EXPECT_NE(Problems(), "");
}

TEST_F(SqliteAdmin, BackupWhileTheEngineCommitsIsWholeAndPrivate) {
  const std::string copy = folder_.File("copy");
  {
    std::jthread writer([&](const std::stop_token& stop) {
      for (int run = 6; run < 1'000 && !stop.stop_requested(); ++run) {
        EXPECT_OK(engine_->Commit(FinishedRun(RunNo(run), 5'000)));
      }
    });
    const auto report = Backup(Path(), copy);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GT(report->bytes, 250'000);
  }
  const auto check = Check(copy);
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->problems.empty()) << check->problems.front();
  EXPECT_GE(check->runs, 5);
  struct stat status{};
  ASSERT_EQ(stat(copy.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const auto restored = MustOpen(copy);
  EXPECT_OK(Engine(*restored).Own());
}

TEST_F(SqliteAdmin, BackupOverwritesNothing) {
  std::ofstream(folder_.File("copy")) << "precious";
  EXPECT_CODE(Backup(Path(), folder_.File("copy")), Code::kConflict);
  EXPECT_EQ(fs::file_size(folder_.File("copy")), 8U);
  EXPECT_CODE(Backup(Path(), folder_.File("no/such/folder")), Code::kUnavailable);
  EXPECT_CODE(Backup(Path(), Path()), Code::kConflict);
}

TEST_F(SqliteAdmin, VacuumGivesSpaceBackAndNeedsTheEngineToRest) {
  store::Round round = engine_->NextRound();
  for (int run = 1; run <= 4; ++run) round.deleted_runs.push_back({kTenant, RunNo(run)});
  EXPECT_OK(engine_->Commit(round));
  EXPECT_CODE(Vacuum(Path()), Code::kConflict);
  Close();
  const auto report = Vacuum(Path());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->bytes_before - report->bytes_after, 4 * 48'000);
  EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(Path())), report->bytes_after);
  EXPECT_EQ(Problems(), "");
  EXPECT_OK(MustOpen(Path())->query().GetRun(kTenant, "5"));
}

TEST_F(SqliteAdmin, MigrateSaysWhatItWouldDoAndDoesIt) {
  EXPECT_TRUE(Migrate(Path(), false)->steps.empty());
  const std::string path = folder_.File("old");
  {
    auto connection =
        Connection::Open(path, {.flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, .vfs = {}});
    EXPECT_OK((*connection)->Script("PRAGMA application_id = 0x48575354"));
  }
  for (const bool dry_run : {true, true, false}) {
    const auto report = Migrate(path, dry_run);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->from_level, 0);
    EXPECT_EQ(report->to_level, Migrations().back().level);
    EXPECT_EQ(report->steps.size(), Migrations().size());
  }
  EXPECT_EQ(Migrate(path, false)->from_level, Migrations().back().level);
}

TEST_F(SqliteAdmin, MissingAndForeignFilesAreRefused) {
  const std::string missing = folder_.File("missing");
  EXPECT_CODE(Check(missing), Code::kNotFound);
  EXPECT_CODE(Backup(missing, folder_.File("copy")), Code::kNotFound);
  EXPECT_CODE(Vacuum(missing), Code::kNotFound);
  EXPECT_CODE(Migrate(missing, true), Code::kNotFound);
  EXPECT_FALSE(fs::exists(missing));
  EXPECT_FALSE(fs::exists(folder_.File("copy")));
}

}  // namespace
}  // namespace headworks::store_sqlite
