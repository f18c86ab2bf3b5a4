#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/trace.h"
#include "headworks/store_memory/memory_store.h"
#include "tests/crashing_database.h"

namespace headworks::store::conformance {
namespace {

class SqliteHarness final : public Harness {
 public:
  Database& db() override { return *db_; }
  WorkerStore& workers() override { return db_->workers(); }
  task_queue::Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_.CrashAndReopen(); }

 private:
  store_sqlite::CrashingDatabase db_{clock};
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
