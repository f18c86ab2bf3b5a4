#include "headworks/task_queue/sweeper.h"

#include <gtest/gtest.h>

#include <atomic>

#include "headworks/store_memory/memory_store.h"
#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue {
namespace {

using std::chrono::seconds;

class Lines final : public Logger {
 public:
  void Write(LogLevel, std::string_view message, Fields) override { all.emplace_back(message); }
  std::vector<std::string> all;
};

/// A queue in memory whose sweeps can fail.
class SweeperTest : public testing::Test, public QueueAdmin {
 protected:
  Result<Swept> Sweep(std::size_t limit) override {
    ++sweeps_;
    sweeps_.notify_all();
    if (broken_) return Error{Code::kUnavailable, "locked"};
    return real().Sweep(limit);
  }
  Result<QueueSettings> Configure(const TenantId& tenant, std::string_view queue,
                                  const SettingsChange& change) override {
    return real().Configure(tenant, queue, change);
  }
  Status SetPaused(const TenantId& tenant, std::string_view queue, bool paused) override {
    return real().SetPaused(tenant, queue, paused);
  }
  Result<QueueRecord> GetQueue(const TenantId& tenant, std::string_view queue) override {
    return real().GetQueue(tenant, queue);
  }
  Result<std::vector<QueueRecord>> ListQueues(const TenantId& tenant) override {
    return real().ListQueues(tenant);
  }
  Result<std::vector<ItemRecord>> ListItems(const TenantId& tenant, std::string_view queue,
                                            const ItemFilter& filter) override {
    return real().ListItems(tenant, queue, filter);
  }
  Result<ItemWithPayload> GetItem(const TenantId& tenant, std::string_view queue,
                                  std::string_view id) override {
    return real().GetItem(tenant, queue, id);
  }
  Result<Moved> Redrive(const TenantId& tenant, std::string_view queue,
                        const ItemFilter& filter) override {
    return real().Redrive(tenant, queue, filter);
  }
  Result<Moved> Purge(const TenantId& tenant, std::string_view queue,
                      const ItemFilter& filter) override {
    return real().Purge(tenant, queue, filter);
  }
  Result<Moved> Delete(const TenantId& tenant, std::string_view queue) override {
    return real().Delete(tenant, queue);
  }
  QueueAdmin& real() { return db_->queues().admin(); }

  conformance::ManualClock clock_;
  std::unique_ptr<store_memory::Database> db_ =
      store_memory::Open(store_memory::NewStorage(), clock_);
  Lines lines_;
  std::atomic<int> sweeps_ = 0;
  bool broken_ = false;
};

TEST_F(SweeperTest, SweepsOnceASecondAndGoesOnWhileThereIsMore) {
  const TenantId tenant("t");
  auto& tasks = db_->queues().tasks();
  std::vector<NewItem> items;
  items.reserve(1'500);
  for (int i = 0; i < 1'500; ++i) items.push_back({.id = std::to_string(i), .payload = "1"});
  ASSERT_TRUE(tasks.Enqueue(tenant, "q", std::span(items).first(1'000)));
  ASSERT_TRUE(tasks.Enqueue(tenant, "q", std::span(items).subspan(1'000)));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        tasks.Poll({.tenant = tenant, .queue = "q", .max_items = 1'000, .visibility = seconds(5)}));
  }
  Sweeper sweeper(*this, clock_, lines_);
  EXPECT_EQ(sweeper.Tick(), Sweeper::kInterval);
  clock_.Advance(Sweeper::kInterval - Duration(1));
  EXPECT_EQ(sweeper.Tick(), Duration(1));
  EXPECT_EQ(sweeps_, 1);
  clock_.Advance(seconds(5));
  EXPECT_EQ(sweeper.Tick(), Duration());
  EXPECT_EQ(real().GetQueue(tenant, "q")->pending, 1'000);
  EXPECT_EQ(sweeper.Tick(), Sweeper::kInterval);
  EXPECT_EQ(real().GetQueue(tenant, "q")->pending, 1'500);
}

TEST_F(SweeperTest, TroubleIsShownAndLoggedOnce) {
  Sweeper sweeper(*this, clock_, lines_);
  broken_ = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sweeper.Tick(), Sweeper::kInterval);
    clock_.Advance(Sweeper::kInterval);
  }
  EXPECT_EQ(sweeper.trouble(), "locked");
  EXPECT_EQ(lines_.all.size(), 1U);
  broken_ = false;
  sweeper.Tick();
  EXPECT_EQ(sweeper.trouble(), "");
}

TEST_F(SweeperTest, ThreadSweepsAndStops) {
  Sweeper sweeper(*this, clock_, lines_);
  sweeper.Start();
  sweeps_.wait(0);
}

}  // namespace
}  // namespace headworks::task_queue
