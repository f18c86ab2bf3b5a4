#include <unistd.h>

#include <filesystem>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/trace.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/store_sqlite/sqlite_store.h"
#include "tests/scratch_folder.h"

namespace headworks::store::conformance {
namespace {

namespace fs = std::filesystem;

class SqliteHarness final : public Harness {
 public:
  SqliteHarness() { Reopen(); }
  Database& db() override { return *db_; }
  WorkerStore& workers() override { return db_->workers(); }
  task_queue::Queues& queues() override { return db_->queues(); }

  /// Goes on with what is on disk now: the copies know nothing of what the old connections would
  /// still do when they close.
  void CrashAndReopen() override {
    const fs::path from = Path();
    ++crashes_;
    fs::copy_file(from, Path());
    fs::copy_file(from.string() + "-wal", Path().string() + "-wal");
    Reopen();
  }

 private:
  fs::path Path() const { return folder_.path() / ("db" + std::to_string(crashes_)); }

  void Reopen() {
    auto opened = store_sqlite::Open(Path(), {.clock = &clock});
    ASSERT_TRUE(opened) << opened.error().message;
    db_ = *std::move(opened);
  }

  store_sqlite::ScratchFolder folder_;
  int crashes_ = 0;
  std::unique_ptr<store_sqlite::Database> db_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, Conformance,
                         testing::Values(Store{"Sqlite",
                                               [] { return std::make_unique<SqliteHarness>(); }}));

class MemoryHarness final : public Harness {
 public:
  Database& db() override { return *db_; }
  WorkerStore& workers() override { return db_->workers(); }
  task_queue::Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_ = store_memory::Open(storage_, clock); }

 private:
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> db_ = store_memory::Open(storage_, clock);
};

class Traces : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Traces, SqliteAnswersWhatMemoryAnswers) {
  MemoryHarness reference;
  SqliteHarness subject;
  CompareTraces(reference, subject, GetParam(), 300);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Traces, testing::Range<std::uint64_t>(1, 4));

}  // namespace
}  // namespace headworks::store::conformance
