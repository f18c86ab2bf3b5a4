#include "headworks/store_memory/memory_store.h"
#include "headworks/task_queue_conformance/harness.h"
#include "headworks/task_queue_conformance/trace.h"
#include "tests/crashing_database.h"

namespace headworks::task_queue::conformance {
namespace {

class SqliteHarness final : public Harness {
 public:
  Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_.CrashAndReopen(); }

 private:
  store_sqlite::CrashingDatabase db_{clock};
};

INSTANTIATE_TEST_SUITE_P(Sqlite, QueueConformance,
                         testing::Values(Adapter{
                             "Sqlite", [] { return std::make_unique<SqliteHarness>(); }}));

class MemoryHarness final : public Harness {
 public:
  Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_ = store_memory::Open(storage_, clock); }

 private:
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> db_ = store_memory::Open(storage_, clock);
};

class QueueTraces : public testing::TestWithParam<std::uint64_t> {};

TEST_P(QueueTraces, SqliteAnswersWhatMemoryAnswers) {
  MemoryHarness reference;
  SqliteHarness subject;
  CompareTraces(reference, subject, GetParam(), 800);
}

INSTANTIATE_TEST_SUITE_P(Seeds, QueueTraces, testing::Range<std::uint64_t>(1, 6));

}  // namespace
}  // namespace headworks::task_queue::conformance
