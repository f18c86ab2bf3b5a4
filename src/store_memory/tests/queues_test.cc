#include "headworks/store_memory/memory_store.h"
#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {
namespace {

class MemoryHarness final : public Harness {
 public:
  Queues& queues() override { return db_->queues(); }
  void CrashAndReopen() override { db_ = store_memory::Open(storage_, clock); }

 private:
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> db_ = store_memory::Open(storage_, clock);
};

INSTANTIATE_TEST_SUITE_P(Memory, QueueConformance,
                         testing::Values(Adapter{
                             "Memory", [] { return std::make_unique<MemoryHarness>(); }}));

}  // namespace
}  // namespace headworks::task_queue::conformance
