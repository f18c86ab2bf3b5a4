#include "headworks/log_store_sqlite/admin.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "headworks/log_store_sqlite/sqlite_log_store.h"

namespace headworks::log_store_sqlite {
namespace {

namespace fs = std::filesystem;

const TenantId kTenant("public");

class LogAdmin : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headworks-logs-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (std::int64_t run = 1; run <= 3; ++run) Append(run, 50);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const char* name = "store-logs") const { return folder_ / name; }
  /// Lines of 4 KiB.
  void Append(std::int64_t run, std::int64_t lines) const {
    const auto store = OpenSqliteLogStore(Path());
    ASSERT_TRUE(store) << store.error().message;
    log_store::Batch batch{
        .attempt = {.tenant = kTenant, .run = RunNo(run), .task = TaskNo(0), .epoch = Epoch(1)},
        .lines = {}};
    for (std::int64_t i = 1; i <= lines; ++i)
      batch.lines.push_back({.number = i,
                             .stream = log_store::Stream::kStdout,
                             .at = Instant(Duration(i)),
                             .bytes = std::string(4'096, 'x')});
    ASSERT_TRUE((*store)->Append({&batch, 1}));
  }
  static std::size_t LinesOf(const std::string& path, std::int64_t run) {
    const auto store = OpenSqliteLogStore(path);
    EXPECT_TRUE(store) << store.error().message;
    if (!store) return 0;
    const auto page =
        (*store)->Read({.tenant = kTenant, .run = RunNo(run), .after = {}, .max_lines = 1'000});
    EXPECT_TRUE(page) << page.error().message;
    return page ? page->entries.size() : 0;
  }
  /// Overwrites the page behind the schema: the root of the table.
  void Damage() const {
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4'096);
    file << std::string(4'096, '\xff');
  }

  fs::path folder_;
};

TEST_F(LogAdmin, CheckReadsEveryLineAndFindsDamage) {
  const auto sound = CheckLogs(Path());
  ASSERT_TRUE(sound) << sound.error().message;
  EXPECT_TRUE(sound->problems.empty()) << sound->problems.front();
  EXPECT_EQ(sound->lines, 150);
  Damage();
  const auto damaged = CheckLogs(Path());
  ASSERT_TRUE(damaged) << damaged.error().message;
  EXPECT_FALSE(damaged->problems.empty());
  EXPECT_LE(damaged->problems.size(), LogCheck::kMaxProblems);
}

TEST_F(LogAdmin, CheckCallsWhatIsNoDatabaseDamaged) {
  std::ofstream(Path("other")) << std::string(10'000, 'x');
  const auto check = CheckLogs(Path("other"));
  ASSERT_TRUE(check) << check.error().message;
  ASSERT_EQ(check->problems.size(), 1U);
  EXPECT_NE(check->problems[0].find(Path("other")), std::string::npos);
}

TEST_F(LogAdmin, NothingIsMadeWhereThereIsNoFile) {
  const auto kept = [](const TenantId&, RunNo) -> Result<bool> { return true; };
  EXPECT_EQ(CheckLogs(Path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(BackUpLogs(Path("none"), Path("copy")).error().code, Code::kNotFound);
  EXPECT_EQ(VacuumLogs(Path("none"), kept).error().code, Code::kNotFound);
  EXPECT_FALSE(fs::exists(Path("none")));
  EXPECT_FALSE(fs::exists(Path("copy")));
}

TEST_F(LogAdmin, BackupHasAllLinesAndOverwritesNothing) {
  const auto bytes = BackUpLogs(Path(), Path("copy"));
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_GT(*bytes, 150 * 4'096);
  for (std::int64_t run = 1; run <= 3; ++run) EXPECT_EQ(LinesOf(Path("copy"), run), 50U);
  const auto again = BackUpLogs(Path(), Path("copy"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_EQ(LinesOf(Path("copy"), 1), 50U);
}

TEST_F(LogAdmin, BackupThatFailsLeavesNothing) {
  Damage();
  ASSERT_FALSE(BackUpLogs(Path(), Path("copy")));
  EXPECT_FALSE(fs::exists(Path("copy")));
}

TEST_F(LogAdmin, VacuumRemovesLinesOfRunsThatAreGoneAndGivesTheirSpaceBack) {
  std::set<std::int64_t> asked;
  const auto vacuum = VacuumLogs(Path(), [&](const TenantId& tenant, RunNo run) -> Result<bool> {
    EXPECT_EQ(tenant, kTenant);
    asked.insert(run.value);
    return run == RunNo(2);
  });
  ASSERT_TRUE(vacuum) << vacuum.error().message;
  EXPECT_EQ(asked, (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_LT(vacuum->bytes_after, vacuum->bytes_before / 2);
  EXPECT_EQ(static_cast<std::int64_t>(fs::file_size(Path())), vacuum->bytes_after);
  EXPECT_EQ(LinesOf(Path(), 1) + LinesOf(Path(), 3), 0U);
  EXPECT_EQ(LinesOf(Path(), 2), 50U);
}

TEST_F(LogAdmin, VacuumRemovesNothingOfWhichItIsNotSure) {
  const auto vacuum = VacuumLogs(Path(), [](const TenantId&, RunNo) -> Result<bool> {
    return Error{Code::kUnavailable, "the store does not answer"};
  });
  ASSERT_FALSE(vacuum);
  EXPECT_EQ(vacuum.error().code, Code::kUnavailable);
  EXPECT_EQ(LinesOf(Path(), 1), 50U);
}

}  // namespace
}  // namespace headworks::log_store_sqlite
