#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "sqlite.h"
#include "tests/engine.h"
#include "tests/scratch_folder.h"

/// What uses threads: also run under TSan.
namespace headworks::store_sqlite {
namespace {

namespace fs = std::filesystem;

using store::conformance::kShard;
using store::conformance::kTenant;
using store::conformance::Message;
using store::conformance::NewRun;
using store::conformance::PlainHeader;

TEST(SqliteThreads, ManyMayCreateTheSameFileAtOnce) {
  const ScratchFolder folder;
  std::atomic<int> opened{0};
  {
    std::vector<std::jthread> threads;
    threads.reserve(8);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        auto db = Open(folder.File("db"), {});
        EXPECT_TRUE(db) << db.error().message;
        if (db && (*db)->runs().ReserveRunNos(1)) ++opened;
      });
    }
  }
  EXPECT_EQ(opened, 8);
  EXPECT_EQ(MustOpen(folder.File("db"))->runs().ReserveRunNos(1)->value, 9);
}

TEST(SqliteThreads, LogStaysBoundedUnderSteadyWritesAndALongReader) {
  constexpr std::int64_t kWal = 256 << 10;
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"), {.wal_bytes = kWal});
  Engine engine(*db);
  ASSERT_TRUE(engine.Own());
  std::int64_t run = 0;
  const auto write = [&] {
    ASSERT_TRUE(engine.Commit(NewRun(PlainHeader(RunNo(++run)), std::string(20'000, 'x'))));
  };
  const auto wal = [&] { return static_cast<std::int64_t>(fs::file_size(folder.File("db-wal"))); };
  const auto settles = [&] {
    // The checkpoint runs beside the commits, so the log is cut back by one of the next ones.
    for (int i = 0; i < 2'000 && wal() > 2 * kWal; ++i) write();
    return wal() <= 2 * kWal;
  };
  for (int i = 0; i < 300; ++i) write();
  EXPECT_TRUE(settles()) << wal();
  {
    auto reader = Connection::Open(folder.File("db"), {});
    auto transaction = Transaction::BeginRead(**reader);
    ASSERT_TRUE((*reader)->Value<int>("SELECT count(*) FROM run"));
    for (int i = 0; i < 100; ++i) write();
    EXPECT_GT(wal(), 2 * kWal);
  }
  EXPECT_TRUE(settles()) << wal();
}

TEST(SqliteThreads, AppendsOfManyThreadsAreAllStoredOnce) {
  constexpr int kThreads = 8;
  constexpr int kEach = 25;
  const ScratchFolder folder;
  const auto db = MustOpen(folder.File("db"));
  Engine engine(*db);
  ASSERT_TRUE(engine.Own());
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          // Every key is appended by two threads.
          const std::array row{Message("start", std::to_string(t / 2) + "/" + std::to_string(i))};
          EXPECT_OK(db->inbox().Append(row));
          EXPECT_OK(db->query().ListRuns(kTenant, {}));
        }
      });
    }
    for (int i = 1; i <= kEach; ++i) EXPECT_OK(engine.Commit(NewRun(PlainHeader(RunNo(i)))));
  }
  const auto rows = db->runs().ReadInbox(std::array{kShard}, 0, 1'000);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), std::size_t{kThreads} / 2 * kEach);
}

}  // namespace
}  // namespace headworks::store_sqlite
