#include <fmt/format.h>

#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Ids = std::vector<std::string>;

Ids IdsOf(const Result<std::vector<ItemRecord>>& items) {
  Ids ids;
  for (const ItemRecord& item : items.value()) ids.push_back(item.id);
  return ids;
}

TEST_P(QueueConformance, DeadLetterRedrivenTwiceIsOneItem) {
  MakeDead("a");
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"a"}})->count, 1);
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"a"}})->count, 0);
  EXPECT_EQ(admin().Redrive(kTenant, "q", {})->count, 0);
  EXPECT_EQ(Queue().pending, 1);
  EXPECT_EQ(Queue().dead, 0);
  EXPECT_EQ(Item("a").redrives, 1);
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(claimed_.back().attempt, 1);  // with all its attempts
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"a"}})->count, 0);
  EXPECT_EQ(Ack("a"), "completed");
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"a"}})->count, 0);
}

TEST_P(QueueConformance, RedriveTakesOneOrThoseThatFitOrAll) {
  MakeDead("a", "timeout of db");
  clock().Advance(hours(1));
  MakeDead("b", "timeout of http");
  MakeDead("c", "bad input");
  MakeDead("d", "bad input");
  QUEUE_EXPECT_OK(Push("alive"));
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {.states = {ItemState::kDead}})),
            (Ids{"a", "b", "c", "d"}));
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.reason = "timeout", .older_than = hours(1)})->count, 1);
  EXPECT_EQ(Item("a").state, ItemState::kPending);
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"c", "nobody", "c"}})->count, 1);
  Moved moved = *admin().Redrive(kTenant, "q", {.limit = 1});
  EXPECT_EQ(moved.count, 1);
  EXPECT_TRUE(moved.more);
  moved = *admin().Redrive(kTenant, "q", {.after = moved.after, .limit = 1});
  EXPECT_EQ(moved.count, 1);
  EXPECT_FALSE(moved.more);
  EXPECT_EQ(Queue().pending, 5);
  QUEUE_EXPECT_CODE(admin().Redrive(kTenant, "q", {.states = {ItemState::kPending}}),
                    kInvalidArgument);
  QUEUE_EXPECT_CODE(admin().Redrive(kTenant, "none", {}), kNotFound);
}

TEST_P(QueueConformance, SurveyListsTheDeadOfAllTenantsInTheOrderOfTheirDeath) {
  MakeDead("b");
  clock().Advance(seconds(1));
  MakeDead("a");
  QUEUE_EXPECT_OK(Push("alive"));
  QUEUE_EXPECT_OK(Push({.id = "c", .payload = "{}"}, "other", TenantId("t2")));
  std::vector<std::string> names;
  for (const TenantQueue& q : *survey().ListAll())
    names.push_back(fmt::format("{}/{} {} {} {}", q.tenant.value, q.record.name, q.record.pending,
                                q.record.dead, q.record.failed));
  EXPECT_EQ(names, (std::vector<std::string>{kTenant.value + "/q 1 2 2", "t2/other 1 0 0"}));

  const auto page = survey().ListDead(kTenant, "q", {}, 1);
  EXPECT_EQ(IdsOf(page), Ids{"b"});
  const QueueSurvey::DeadAfter after{page->back().ended_at, page->back().no};
  EXPECT_EQ(IdsOf(survey().ListDead(kTenant, "q", after, 1'000)), Ids{"a"});
  // Inclusive of its time, whatever its number.
  EXPECT_EQ(IdsOf(survey().ListDead(kTenant, "q", {after.ended_at}, 1'000)), (Ids{"b", "a"}));
  EXPECT_EQ(IdsOf(survey().ListDead(TenantId("t2"), "q", {}, 10)), Ids{});
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"b"}})->count, 1);
  EXPECT_EQ(IdsOf(survey().ListDead(kTenant, "q", {}, 10)), Ids{"a"});
  QUEUE_EXPECT_CODE(survey().ListDead(kTenant, "q", {}, 1'001), kInvalidArgument);
  QUEUE_EXPECT_CODE(survey().ListDead(TenantId(""), "q", {}, 1), kInvalidArgument);
}

TEST_P(QueueConformance, PurgeRemovesItemsAndIdsOutliveThem) {
  MakeDead("dead");
  for (const char* const id : {"a", "b", "held"}) QUEUE_EXPECT_OK(Push(id));
  EXPECT_EQ(*tasks().Cancel(kTenant, "q", "b"), ItemState::kCancelled);
  QUEUE_EXPECT_OK(Push({.id = "held2", .payload = "1", .priority = 5}));
  EXPECT_EQ(Poll(1), Ids{"held2"});
  EXPECT_EQ(admin().Purge(kTenant, "q", {.states = {ItemState::kDead}})->count, 1);
  EXPECT_EQ(admin().Purge(kTenant, "q", {})->count, 2);  // neither cancelled nor held
  EXPECT_EQ(Queue().pending, 0);
  EXPECT_EQ(Queue().processing, 1);
  EXPECT_EQ(Queue().dead, 0);
  EXPECT_EQ(Item("a").state, ItemState::kPurged);
  EXPECT_TRUE(admin().GetItem(kTenant, "q", "a")->payload.empty());
  EXPECT_EQ(*Push("a"), Enqueued::kDuplicate);
  QUEUE_EXPECT_CODE(tasks().Cancel(kTenant, "q", "a"), kConflict);
  QUEUE_EXPECT_CODE(admin().Purge(kTenant, "q", {.states = {ItemState::kProcessing}}),
                    kInvalidArgument);
  QUEUE_EXPECT_CODE(admin().Purge(kTenant, "none", {}), kNotFound);
  clock().Advance(hours(24));
  EXPECT_EQ(*Push("a"), Enqueued::kInserted);
}

TEST_P(QueueConformance, EmptyQueueIsDeletedWithTheIdsThatItKnows) {
  QUEUE_EXPECT_CODE(admin().Delete(kTenant, "q"), kNotFound);
  MakeDead("dead");
  QUEUE_EXPECT_CODE(admin().Delete(kTenant, "q"), kConflict);
  EXPECT_EQ(admin().Purge(kTenant, "q", {})->count, 1);
  QUEUE_EXPECT_OK(Push("held"));
  QUEUE_EXPECT_CODE(admin().Delete(kTenant, "q"), kConflict);  // pending
  EXPECT_EQ(Poll(), Ids{"held"});
  QUEUE_EXPECT_CODE(admin().Delete(kTenant, "q"), kConflict);  // processing
  EXPECT_EQ(Ack("held"), "completed");
  QUEUE_EXPECT_CODE(admin().Delete(kOtherTenant, "q"), kNotFound);
  const auto deleted = admin().Delete(kTenant, "q");
  EXPECT_EQ(deleted->count, 2);
  EXPECT_FALSE(deleted->more);
  QUEUE_EXPECT_CODE(admin().GetQueue(kTenant, "q"), kNotFound);
  EXPECT_EQ(*Push("held"), Enqueued::kInserted);
  EXPECT_EQ(Queue().enqueued, 1);
}

TEST_P(QueueConformance, QueueWithManyKnownIdsIsDeletedInSteps) {
  std::vector<NewItem> items;
  items.reserve(kMaxBatch);
  for (std::size_t i = 0; i < kMaxBatch; ++i)
    items.push_back({.id = fmt::format("{}", i), .payload = "1"});
  QUEUE_EXPECT_OK(tasks().Enqueue(kTenant, "q", items));
  QUEUE_EXPECT_OK(Push("one more"));
  EXPECT_EQ(admin().Purge(kTenant, "q", {.limit = kMaxBatch})->count, 1'000);
  EXPECT_EQ(admin().Purge(kTenant, "q", {})->count, 1);
  const auto first = admin().Delete(kTenant, "q");
  EXPECT_EQ(first->count, 1'000);
  EXPECT_TRUE(first->more);
  EXPECT_EQ(*Push("one more"), Enqueued::kDuplicate);  // the queue is still there
  const auto last = admin().Delete(kTenant, "q");
  EXPECT_EQ(last->count, 1);
  EXPECT_FALSE(last->more);
  QUEUE_EXPECT_CODE(admin().GetQueue(kTenant, "q"), kNotFound);
}

TEST_P(QueueConformance, PausedQueueTakesInAndGivesNothing) {
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  QUEUE_EXPECT_OK(Push("b"));
  QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", true));
  QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", true));
  QUEUE_EXPECT_OK(Push("c"));
  const auto polled = tasks().Poll({.tenant = kTenant, .queue = "q"});
  EXPECT_TRUE(polled->paused);
  EXPECT_TRUE(polled->items.empty());
  EXPECT_FALSE(polled->next);
  EXPECT_EQ(Extend(ClaimOf("a")), "ok");
  EXPECT_EQ(Ack("a"), "completed");
  harness_->CrashAndReopen();
  EXPECT_EQ(Poll(), Ids());
  QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", false));
  EXPECT_EQ(Poll(), (Ids{"b", "c"}));
  QUEUE_EXPECT_CODE(admin().SetPaused(kTenant, "none", true), kNotFound);
}

TEST_P(QueueConformance, LeasesOfAPausedQueueEnd) {
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1", .max_attempts = 1}));
  EXPECT_EQ(Poll(), Ids{"a"});
  QUEUE_EXPECT_OK(admin().SetPaused(kTenant, "q", true));
  clock().Advance(minutes(5));
  EXPECT_TRUE(tasks().Poll({.tenant = kTenant, .queue = "q"})->paused);
  EXPECT_EQ(Item("a").state, ItemState::kDead);
  EXPECT_EQ(Queue().dead, 1);
}

TEST_P(QueueConformance, ItemsAreListedByStateInOrderOfArrivalByPages) {
  MakeDead("dead");
  for (int i = 0; i < 4; ++i) QUEUE_EXPECT_OK(Push(fmt::format("{}", i)));
  EXPECT_EQ(Poll(2), (Ids{"0", "1"}));
  EXPECT_EQ(Ack("0"), "completed");
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {})), (Ids{"dead", "0", "1", "2", "3"}));
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {.states = {ItemState::kPending}})),
            (Ids{"2", "3"}));
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {.states = {ItemState::kProcessing}})), Ids{"1"});
  EXPECT_EQ(
      IdsOf(admin().ListItems(kTenant, "q", {.states = {ItemState::kDead, ItemState::kCompleted}})),
      (Ids{"dead", "0"}));
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {.ids = {"3", "nobody", "1"}})), (Ids{"1", "3"}));
  const auto page = admin().ListItems(kTenant, "q", {.limit = 2});
  EXPECT_EQ(IdsOf(page), (Ids{"dead", "0"}));
  EXPECT_EQ(IdsOf(admin().ListItems(kTenant, "q", {.after = page->back().no, .limit = 2})),
            (Ids{"1", "2"}));
  QUEUE_EXPECT_CODE(admin().ListItems(kTenant, "q", {.limit = 0}), kInvalidArgument);
  QUEUE_EXPECT_CODE(admin().ListItems(kTenant, "q", {.limit = 1'001}), kInvalidArgument);
  QUEUE_EXPECT_CODE(admin().ListItems(kTenant, "none", {}), kNotFound);
  QUEUE_EXPECT_CODE(admin().ListItems(kOtherTenant, "q", {}), kNotFound);
  QUEUE_EXPECT_CODE(admin().GetItem(kTenant, "q", "nobody"), kNotFound);
  EXPECT_EQ(admin().GetItem(kTenant, "q", "3")->payload, "{}");
}

TEST_P(QueueConformance, FiguresCountWhatHappened) {
  QUEUE_EXPECT_CODE(admin().GetQueue(kTenant, "q"), kNotFound);
  for (const char* const id : {"a", "b", "c", "d"}) QUEUE_EXPECT_OK(Push(id));
  QUEUE_EXPECT_OK(Push({.id = "later", .payload = "1", .delay = hours(1)}));
  EXPECT_EQ(Poll(3), (Ids{"a", "b", "c"}));
  EXPECT_EQ(Ack("a"), "completed");
  EXPECT_EQ(Nack("b", "bad", hours(2)), "pending");
  clock().Advance(seconds(30));
  QueueRecord record = Queue();
  EXPECT_EQ(record.pending, 3);
  EXPECT_EQ(record.processing, 1);
  EXPECT_EQ(record.enqueued, 5);
  EXPECT_EQ(record.completed, 1);
  EXPECT_EQ(record.failed, 1);
  EXPECT_EQ(record.oldest_age, seconds(30));
  EXPECT_DOUBLE_EQ(record.enqueue_rate, 5);
  EXPECT_DOUBLE_EQ(record.complete_rate, 1);
  EXPECT_DOUBLE_EQ(record.fail_rate, 1);
  clock().Advance(seconds(60));  // half of the minute after that one
  EXPECT_DOUBLE_EQ(Queue().enqueue_rate, 2.5);
  clock().Advance(minutes(2));
  EXPECT_DOUBLE_EQ(Queue().enqueue_rate, 0);
  EXPECT_EQ(Poll(), Ids{"d"});
  EXPECT_EQ(Queue().oldest_age, Duration());  // what is left is not available yet
  QUEUE_EXPECT_OK(Push({.id = "x", .payload = "1"}, "another"));
  QUEUE_EXPECT_OK(Push({.id = "x", .payload = "1"}, "q", kOtherTenant));
  const auto all = admin().ListQueues(kTenant);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).name, "another");
  EXPECT_EQ(Text(all->at(1)), Text(Queue()));
}

TEST_P(QueueConformance, SweepEndsLeasesAndForgetsByItself) {
  QUEUE_EXPECT_OK(admin().Configure(
      kTenant, "q",
      {.visibility = seconds(10), .dedup_window = minutes(1), .dead_retention = hours(1)}));
  MakeDead("dead");
  for (const char* const id : {"a", "b", "c", "d"}) QUEUE_EXPECT_OK(Push(id));
  EXPECT_EQ(Poll(3), (Ids{"a", "b", "c"}));
  EXPECT_EQ(Ack("a"), "completed");
  EXPECT_EQ(admin().Sweep(1'000)->leases_ended, 0);
  clock().Advance(seconds(10));
  Swept swept = *admin().Sweep(1);
  EXPECT_EQ(swept.leases_ended, 1);
  EXPECT_TRUE(swept.more);
  EXPECT_EQ(admin().Sweep(1'000)->leases_ended, 1);
  EXPECT_EQ(Queue().pending, 3);
  EXPECT_EQ(Queue().processing, 0);
  clock().Advance(minutes(1));
  swept = *admin().Sweep(1'000);
  EXPECT_EQ(swept.forgotten, 1);
  EXPECT_FALSE(swept.more);
  QUEUE_EXPECT_CODE(admin().GetItem(kTenant, "q", "a"), kNotFound);
  clock().Advance(hours(1));
  EXPECT_EQ(admin().Sweep(1'000)->forgotten, 1);
  QUEUE_EXPECT_CODE(admin().GetItem(kTenant, "q", "dead"), kNotFound);
  EXPECT_EQ(Queue().dead, 0);
  EXPECT_EQ(admin().Sweep(1'000)->forgotten, 0);
  QUEUE_EXPECT_CODE(admin().Sweep(0), kInvalidArgument);
  QUEUE_EXPECT_CODE(admin().Sweep(1'001), kInvalidArgument);
}

}  // namespace
}  // namespace headworks::task_queue::conformance
