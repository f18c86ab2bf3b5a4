#include "headworks/store_memory/memory_store.h"

#include "headworks/store_conformance/harness.h"

namespace headworks::store::conformance {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Memory, Conformance,
                         testing::Values(Store{"Memory",
                                               [] { return std::make_unique<MemoryHarness>(); }}));

}  // namespace
}  // namespace headworks::store::conformance
