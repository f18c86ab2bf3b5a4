#include "headworks/runner/database_care.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/log_store/log_store.h"
#include "headworks/model/artifact.h"

// A store is more than its database: what its tasks printed and left is looked after with it.
namespace headworks {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class DatabaseCare : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headworks-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.database_url = "sqlite:" + Path("hw.db");
    const auto runner = Open();
    ASSERT_NE(runner, nullptr);
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.base_dir = folder_;
    model::Task task;
    task.id = "a";
    task.action = model::ShellAction{
        .script = "echo said; printf 'seven words that a task has left\\n' > left", .shell = {}};
    task.artifacts = {{"left", "left"}};
    definition.tasks.push_back(std::move(task));
    const auto workflow = model::Workflow::Create(definition);
    ASSERT_TRUE(workflow) << workflow.error().message;
    ASSERT_TRUE(runner->Register(*workflow));
    const auto run = runner->Start("w");
    ASSERT_TRUE(run) << run.error().message;
    const auto ended = run->Wait(60s);
    ASSERT_TRUE(ended) << ended.error().message;
    ASSERT_EQ(ended->state, model::RunState::kSucceeded);
    run_id_ = run->run_id();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }
  std::unique_ptr<Runner> Open() const {
    auto runner = Runner::Open(options_);
    EXPECT_TRUE(runner) << runner.error().message;
    return runner ? *std::move(runner) : nullptr;
  }
  fs::path Blobs(const std::string& store = "hw.db") const {
    return folder_ / (store + "-artifacts") / "runs/public" / run_id_.value;
  }
  static std::int64_t Figure(const CareReport& report, std::string_view name) {
    for (const auto& [known, figure] : report.figures)
      if (known == name) return figure;
    ADD_FAILURE() << "no figure " << name;
    return -1;
  }
  void DamageArtifact() const {
    const fs::path blob = fs::directory_iterator(Blobs())->path();
    fs::permissions(blob, fs::perms::owner_all);
    std::ofstream(blob, std::ios::binary | std::ios::in | std::ios::out) << "SEVEN";
  }
  void DamageLogs() const {
    std::ofstream(Path("hw.db-logs"), std::ios::trunc) << std::string(8'192, 'x');
  }

  fs::path folder_;
  RunnerOptions options_;
  RunId run_id_;
};

TEST_F(DatabaseCare, SoundStoreHasItsLinesAndArtifactsRead) {
  const auto report = CheckDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->lines.empty()) << report->lines.front();
  EXPECT_EQ(Figure(*report, "runs"), 1);
  EXPECT_EQ(Figure(*report, "log_lines"), 1);
  EXPECT_EQ(Figure(*report, "artifacts"), 1);
}

TEST_F(DatabaseCare, CheckFindsDamagedLogs) {
  DamageLogs();
  const auto report = CheckDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->lines.size(), 1U);
  EXPECT_NE(report->lines[0].find(Path("hw.db-logs")), std::string::npos) << report->lines[0];
}

TEST_F(DatabaseCare, CheckFindsDamagedAndMissingArtifacts) {
  DamageArtifact();
  auto report = CheckDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->lines.size(), 1U);
  EXPECT_NE(report->lines[0].find("run 1, task number 0: artifact 'left'"), std::string::npos);
  EXPECT_NE(report->lines[0].find("damaged"), std::string::npos) << report->lines[0];
  fs::remove_all(Blobs());
  report = CheckDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->lines.size(), 1U);
  EXPECT_NE(report->lines[0].find("not there"), std::string::npos) << report->lines[0];
}

TEST_F(DatabaseCare, BackupIsAStoreWithLinesAndArtifacts) {
  const auto report = BackUpDatabase(options_, Path("copy.db"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->lines.empty());
  EXPECT_GT(Figure(*report, "log_bytes"), 0);
  EXPECT_EQ(Figure(*report, "artifacts"), 1);
  for (const char* file : {"hw.db", "hw.db-logs", "hw.db-artifacts"}) fs::remove_all(Path(file));
  RunnerOptions copy;
  copy.database_url = "sqlite:" + Path("copy.db");
  const auto runner = Runner::Attach(copy);
  ASSERT_TRUE(runner) << runner.error().message;
  const auto page = (*runner)->logs().Read(
      {.tenant = TenantId("public"), .run = RunNo(1), .after = {}, .max_lines = 10});
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_EQ(page->entries.size(), 1U);
  EXPECT_EQ(page->entries[0].line.bytes, "said");
  const auto checked = CheckDatabase(copy);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_TRUE(checked->lines.empty()) << checked->lines.front();
  EXPECT_EQ(Figure(*checked, "artifacts"), 1);
}

TEST_F(DatabaseCare, BackupNamesArtifactsThatItLacks) {
  DamageArtifact();
  const auto report = BackUpDatabase(options_, Path("copy.db"));
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->lines.size(), 1U);
  EXPECT_NE(report->lines[0].find("artifact 'left'"), std::string::npos);
  EXPECT_EQ(Figure(*report, "artifacts"), 0);
  EXPECT_TRUE(fs::exists(Path("copy.db")));
  EXPECT_FALSE(fs::exists(Blobs("copy.db")));
}

TEST_F(DatabaseCare, BackupOverwritesNothingAndLeavesNothingWhenItFails) {
  for (const char* taken : {"copy.db", "copy.db-logs", "copy.db-artifacts"}) {
    std::ofstream(Path(taken)) << "mine";
    const auto report = BackUpDatabase(options_, Path("copy.db"));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kConflict);
    EXPECT_EQ(fs::file_size(Path(taken)), 4U);
    fs::remove(Path(taken));
  }
  DamageLogs();
  EXPECT_FALSE(BackUpDatabase(options_, Path("copy.db")));
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with("copy")) << entry.path();
}

TEST_F(DatabaseCare, VacuumRemovesWhatDeletedRunsLeftAndKeepsTheRest) {
  {
    const auto runner = Open();
    ASSERT_NE(runner, nullptr);
    log_store::Batch batch{.attempt = {.tenant = TenantId("public"),
                                       .run = RunNo(700),
                                       .task = TaskNo(0),
                                       .epoch = Epoch(1)},
                           .lines = {}};
    for (std::int64_t i = 1; i <= 500; ++i)
      batch.lines.push_back({.number = i, .at = {}, .bytes = std::string(1'000, 'x')});
    ASSERT_TRUE(runner->logs().Append({&batch, 1}));
  }
  const fs::path gone = Blobs().parent_path() / "01890000-0000-7000-8000-000000000000";
  fs::create_directories(gone);
  std::ofstream(gone / "blob") << "x";
  const auto report = VacuumDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LT(Figure(*report, "log_bytes_after"), Figure(*report, "log_bytes_before") / 2);
  EXPECT_FALSE(fs::exists(gone));
  const auto checked = CheckDatabase(options_);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_TRUE(checked->lines.empty()) << checked->lines.front();
  EXPECT_EQ(Figure(*checked, "log_lines"), 1);
}

TEST_F(DatabaseCare, VacuumLeavesAFolderThatIsSetToItsOtherStores) {
  options_.artifact_dir = Path("shared");
  const fs::path other = folder_ / "shared/runs/public/01890000-0000-7000-8000-000000000000";
  fs::create_directories(other);
  const auto report = VacuumDatabase(options_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(DatabaseCare, NothingIsMadeWhereThereIsNoStore) {
  RunnerOptions none;
  none.database_url = "sqlite:" + Path("none.db");
  none.create = false;
  EXPECT_EQ(Runner::Attach(none).error().code, Code::kNotFound);
  EXPECT_EQ(Runner::Open(none).error().code, Code::kNotFound);
  EXPECT_EQ(CheckDatabase(none).error().code, Code::kNotFound);
  EXPECT_EQ(VacuumDatabase(none).error().code, Code::kNotFound);
  EXPECT_EQ(BackUpDatabase(none, Path("copy.db")).error().code, Code::kNotFound);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with("none") || name.starts_with("copy")) << name;
  }
}

}  // namespace
}  // namespace headworks
