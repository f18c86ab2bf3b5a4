#include "headworks/task_queue/async_queues.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "headworks/store_memory/memory_store.h"

namespace headworks::task_queue {
namespace {

using namespace std::chrono_literals;

const TenantId kTenant("acme");

/// Keeps what it is told.
class Ear {
 public:
  AsyncQueues::Hear Hear(bool heard = true) {
    return [promise = promise_, heard](Result<Polled> polled) {
      promise->set_value(std::move(polled));
      return heard;
    };
  }
  bool HasHeard() const { return future_.wait_for(0s) == std::future_status::ready; }
  Polled Get() {
    if (future_.wait_for(60s) != std::future_status::ready)
      throw std::runtime_error("nothing was heard");
    auto polled = future_.get();
    if (!polled) throw std::runtime_error(polled.error().message);
    return *std::move(polled);
  }

 private:
  std::shared_ptr<std::promise<Result<Polled>>> promise_ =
      std::make_shared<std::promise<Result<Polled>>>();
  std::future<Result<Polled>> future_ = promise_->get_future();
};

class Async : public testing::Test {
 protected:
  void Push(const std::string& id, Duration delay = {}, const std::string& queue = "q") {
    const NewItem item{.id = id, .payload = "1", .delay = delay};
    ASSERT_TRUE(queues().tasks().Enqueue(kTenant, queue, {&item, 1}));
  }
  static PollRequest Request(const std::string& queue = "q") {
    return {.tenant = kTenant, .queue = queue};
  }
  ItemRecord Item(const std::string& id) {
    return queues().admin().GetItem(kTenant, "q", id)->item;
  }
  Queues& queues() { return database_->queues(); }
  /// Whoever was told to look has done so by then, as there is one thread.
  static void AwaitTurn(AsyncQueues& async) {
    std::promise<void> done;
    async.Do([&](TaskQueue&) { done.set_value(); });
    done.get_future().get();
  }

  SystemClock clock_;
  NullLogger log_;
  std::unique_ptr<store_memory::Database> database_ =
      store_memory::Open(store_memory::NewStorage(), clock_);
};

TEST_F(Async, WhatIsThereIsHeardAtOnceAndWhatComesLaterByItsRing) {
  AsyncQueues async(queues(), clock_, log_, 1);
  Push("a");
  Ear there, comes, never;
  async.Await("1", Request(), 1h, there.Hear());
  EXPECT_EQ(there.Get().items.at(0).id, "a");
  async.Await("2", Request(), 1h, comes.Hear());
  async.Await("3", Request("other"), 1h, never.Hear());
  AwaitTurn(async);
  EXPECT_FALSE(comes.HasHeard());
  const Duration waited = 20ms;
  std::this_thread::sleep_for(waited);  // tidy-allow(sleep): the wait is measured
  Push("b");
  const Polled polled = comes.Get();
  EXPECT_EQ(polled.items.at(0).id, "b");
  EXPECT_GE(polled.waited, waited);
  AwaitTurn(async);
  EXPECT_FALSE(never.HasHeard());
}

TEST_F(Async, AWaitEndsByItsTimeByADelayAndByWhoeverEndsIt) {
  AsyncQueues async(queues(), clock_, log_, 1);
  Ear time, delay, ended, by_key, before, after, at_once;
  async.Await("1", Request("none"), 20ms, time.Hear());
  EXPECT_TRUE(time.Get().items.empty());
  Push("d", 20ms);
  async.Await("2", Request(), 1h, delay.Hear());
  EXPECT_EQ(delay.Get().items.at(0).id, "d");
  async.End(async.Await("3", Request(), 1h, ended.Hear()));
  EXPECT_TRUE(ended.Get().items.empty());
  async.Await("4", Request(), 1h, by_key.Hear());
  AwaitTurn(async);
  async.End("4");
  async.End("nobody's");
  EXPECT_TRUE(by_key.Get().items.empty());
  async.Await("5", Request(), 1h, before.Hear());
  async.Await("5", Request(), 1h, after.Hear());
  EXPECT_TRUE(before.Get().items.empty());
  AwaitTurn(async);
  EXPECT_FALSE(after.HasHeard());
  async.Await("6", Request(), 0s, at_once.Hear());
  EXPECT_TRUE(at_once.Get().items.empty());
  Push("e");
  EXPECT_EQ(after.Get().items.at(0).id, "e");
  // Nobody sits there any more.
  EXPECT_TRUE(queues().bell().Waited().empty());
}

TEST_F(Async, WhatNobodyHeardIsHandedBackToWhoeverWaits) {
  AsyncQueues async(queues(), clock_, log_, 1);
  Ear deaf, good;
  async.Await("1", Request(), 1h, deaf.Hear(false));
  AwaitTurn(async);
  async.Await("2", Request(), 1h, good.Hear());
  AwaitTurn(async);
  Push("a");
  EXPECT_EQ(deaf.Get().items.at(0).id, "a");
  EXPECT_EQ(good.Get().items.at(0).id, "a");
  EXPECT_EQ(Item("a").attempts, 1) << "the other one was given back";
}

TEST_F(Async, ThousandsWaitOnAFewThreadsAndEachItemIsHeardOnce) {
  constexpr int kWaits = 5'000;
  AsyncQueues async(queues(), clock_, log_, 4);
  std::mutex mutex;
  std::multiset<std::string> heard;
  std::promise<void> all;
  for (int i = 0; i < kWaits; ++i)
    async.Await(std::to_string(i), Request(), 1h, [&](const Result<Polled>& polled) {
      const std::scoped_lock lock(mutex);
      for (const ClaimedItem& item : polled->items) heard.insert(item.id);
      if (heard.size() == kWaits) all.set_value();
      return true;
    });
  std::vector<NewItem> items(1'000);
  for (int i = 0; i < kWaits; ++i) {
    items[static_cast<std::size_t>(i % 1'000)] = {.id = std::to_string(i), .payload = "1"};
    if (i % 1'000 == 999) ASSERT_TRUE(queues().tasks().Enqueue(kTenant, "q", items));
  }
  ASSERT_EQ(all.get_future().wait_for(100s), std::future_status::ready);
  const std::scoped_lock lock(mutex);
  EXPECT_EQ(std::set(heard.begin(), heard.end()).size(), std::size_t{kWaits});
}

TEST_F(Async, WhoeverIsLeftWhenItEndsIsNotAnsweredAndARingMeanwhileFindsNobody) {
  std::atomic<bool> over = false;
  std::jthread rings([&] {
    while (!over) queues().bell().Ring(kTenant, "q", 100);
  });
  for (int i = 0; i < 50; ++i) {
    AsyncQueues async(queues(), clock_, log_, 2);
    for (int j = 0; j < 20; ++j)
      async.Await(std::to_string(j % 15), Request(), 1h,
                  [](const Result<Polled>&) { return true; });
  }
  over = true;
  rings.join();
  EXPECT_TRUE(queues().bell().Waited().empty());
}

}  // namespace
}  // namespace headworks::task_queue
