#include <algorithm>
#include <atomic>
#include <thread>

#include "headworks/task_queue/long_poll.h"
#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Ids = std::vector<std::string>;

/// Counts what is asked.
class Counting final : public TaskQueue {
 public:
  explicit Counting(TaskQueue& queue) : queue_(queue) {}
  Result<std::vector<Enqueued>> Enqueue(const TenantId& tenant, std::string_view queue,
                                        std::span<const NewItem> items) override {
    return queue_.Enqueue(tenant, queue, items);
  }
  Result<Polled> Poll(const PollRequest& request) override {
    auto polled = queue_.Poll(request);
    ++polls;
    polls.notify_all();
    return polled;
  }
  Result<std::vector<Result<ItemState>>> Settle(const TenantId& tenant, std::string_view queue,
                                                std::span<const Settlement> all) override {
    return queue_.Settle(tenant, queue, all);
  }
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const Claim> claims, Duration by) override {
    return queue_.Extend(tenant, queue, claims, by);
  }
  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    return queue_.Cancel(tenant, queue, id);
  }

  std::atomic<int> polls = 0;

 private:
  TaskQueue& queue_;
};

class Poller {
 public:
  Poller(Harness& harness, Clock& clock)
      : counting(harness.queues().tasks()), thread_([&, this](const std::stop_token& stop) {
          polled = LongPoll(counting, harness.queues().bell(), clock,
                            {.tenant = kTenant, .queue = "q"}, hours(1), stop);
        }) {
    counting.polls.wait(0);
  }
  /// Waits for its end.
  Ids Take() {
    thread_.join();
    EXPECT_TRUE(polled) << polled.error().message;
    Ids ids;
    for (const ClaimedItem& item : polled->items) ids.push_back(item.id);
    return ids;
  }
  void Stop() { thread_.request_stop(); }

  Counting counting;
  Result<Polled> polled;

 private:
  std::jthread thread_;
};

TEST_P(QueueConformance, LongPollIsWokenByWhatMakesAnItemAvailable) {
  {
    Poller poller(*harness_, clock());
    QUEUE_EXPECT_OK(Push({.id = "elsewhere", .payload = "1"}, "other"));
    QUEUE_EXPECT_OK(Push("pushed"));
    EXPECT_EQ(poller.Take(), Ids{"pushed"});
    EXPECT_LE(poller.counting.polls, 2);  // nothing is asked in between
    claimed_ = poller.polled->items;
  }
  {
    Poller poller(*harness_, clock());
    EXPECT_EQ(Nack("pushed"), "pending");
    EXPECT_EQ(poller.Take(), Ids{"pushed"});
    claimed_ = poller.polled->items;
  }
  {
    EXPECT_EQ(Ack("pushed"), "completed");
    QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", true));
    QUEUE_EXPECT_OK(Push("paused"));
    Poller poller(*harness_, clock());
    QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", false));
    EXPECT_EQ(poller.Take(), Ids{"paused"});
  }
  {
    MakeDead("dead");
    Poller poller(*harness_, clock());
    EXPECT_EQ(admin().Redrive(kTenant, "q", {})->count, 1);
    EXPECT_EQ(poller.Take(), Ids{"dead"});
  }
}

TEST_P(QueueConformance, LongPollEndsWithItsTimeOrWhenToldTo) {
  const auto polled = LongPoll(tasks(), harness_->queues().bell(), clock(),
                               {.tenant = kTenant, .queue = "q"}, Duration(), std::stop_token());
  EXPECT_TRUE(polled->items.empty());
  Poller poller(*harness_, clock());
  poller.Stop();
  EXPECT_EQ(poller.Take(), Ids());
}

TEST_P(QueueConformance, WhoeverWasWokenForALaterItemAndLeavesTellsTheNext) {
  Poller first(*harness_, clock());
  Poller second(*harness_, clock());
  QUEUE_EXPECT_OK(Push({.id = "later", .payload = "1", .delay = hours(2)}));
  while (first.counting.polls + second.counting.polls < 3) std::this_thread::yield();
  Poller& woken = first.counting.polls == 2 ? first : second;
  Poller& asleep = &woken == &first ? second : first;
  woken.Stop();
  EXPECT_EQ(woken.Take(), Ids());
  asleep.counting.polls.wait(1);
  asleep.Stop();
  EXPECT_EQ(asleep.Take(), Ids());
}

TEST_P(QueueConformance, EachPushWakesOneOfThoseThatWait) {
  std::vector<std::unique_ptr<Poller>> pollers;
  pollers.reserve(3);
  for (int i = 0; i < 3; ++i) pollers.push_back(std::make_unique<Poller>(*harness_, clock()));
  QUEUE_EXPECT_OK(Push("a"));
  QUEUE_EXPECT_OK(Push("b"));
  QUEUE_EXPECT_OK(Push("c"));
  Ids all;
  for (const auto& poller : pollers) {
    for (const std::string& id : poller->Take()) all.push_back(id);
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (Ids{"a", "b", "c"}));
}

}  // namespace
}  // namespace headworks::task_queue::conformance
