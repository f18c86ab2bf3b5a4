#include "headworks/job_worker/job_worker.h"

#include <algorithm>
#include <map>
#include <set>

#include "headworks/task_queue/long_poll.h"
#include "rig.h"

namespace headworks {
namespace {

INSTANTIATE_TEST_SUITE_P(Jobs, JobWorkerTest, testing::Values("Memory", "Sqlite"), NameOf);

TEST_P(JobWorkerTest, AnItemGoesToItsHandlerAndIsCompletedAfterIt) {
  Working one(queues(), clock_);
  Gate gate;
  JobInfo info;
  Mail seen;
  ASSERT_TRUE(one.worker->Handle<Mail>("mail", [&](const Mail& mail, JobContext& context) {
    seen = mail;
    info = context.info();
    context.log().Info("sent", {{"to", mail.to}});
    gate.Pass();
  }));
  one.Start();
  const Instant before = clock_.Now() - 1s;
  Push("mail", "m1", R"({"to": "ann", "copies": 2})", 7);
  gate.Await(1);
  EXPECT_EQ(StateOf("mail", "m1"), ItemState::kProcessing);
  EXPECT_EQ(Item("mail", "m1").holder, "jobs");
  EXPECT_EQ(one.figures().running, 1U);
  gate.Open();
  EXPECT_TRUE(Becomes("mail", "m1", ItemState::kCompleted));
  EXPECT_TRUE(one.Leave());
  EXPECT_EQ(seen.to, "ann");
  EXPECT_EQ(seen.copies, 2);
  EXPECT_EQ(info.queue, "mail");
  EXPECT_EQ(info.id, "m1");
  EXPECT_EQ(info.attempt, 1);
  EXPECT_EQ(info.max_attempts, 7);
  EXPECT_GE(info.enqueued_at, before);
  EXPECT_TRUE(one.log.Has("sent queue=mail item=m1 to=ann")) << one.log.text();
  EXPECT_EQ(one.figures().claimed, 1U);
  EXPECT_EQ(one.figures().completed, 1U);
  EXPECT_EQ(one.figures().running, 0U);
}

TEST_P(JobWorkerTest, WhatAHandlerSaysDecidesWhereItsItemGoes) {
  Working one(queues(), clock_);
  ASSERT_TRUE(queues().admin().Configure(kTenant, "mail", {.backoff = 1h, .max_backoff = 1h}));
  ASSERT_TRUE(one.worker->Handle<Mail>("mail", [&](const Mail& mail) -> JobResult {
    if (mail.to == "error") return Error{Code::kUnavailable, "smtp says 421"};
    if (mail.to == "throws") throw std::runtime_error("disk full");
    if (mail.to == "odd") throw 17;
    if (mail.to == "later") return RetryLater(2h, "greylisted");
    if (mail.to == "never") throw Fail("no such mailbox");
    if (mail.to == "far") throw RetryLater(-1h, "clamped");
    return {};
  }));
  for (const char* const id : {"error", "throws", "odd", "later", "never", "last"})
    Push("mail", id,
         fmt::format(R"({{"to": "{}", "copies": 1}})", id == std::string("last") ? "error" : id),
         id == std::string("last") ? 1 : 5);
  Push("mail", "misfit", R"({"to": 3, "copies": 1})", 5);
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.figures().claimed == 7 && one.figures().running == 0; }));
  const auto went = [&](const std::string& id) {
    const auto item = Item("mail", id);
    return fmt::format(
        "{} {} in {}h: {}", task_queue::StateName(item.state), item.attempts,
        std::max<std::int64_t>(
            0,
            std::chrono::round<std::chrono::hours>(item.available_at - item.enqueued_at).count()),
        item.reason);
  };
  EXPECT_EQ(went("error"), "pending 1 in 1h: smtp says 421");
  EXPECT_EQ(went("throws"), "pending 1 in 1h: disk full");
  EXPECT_EQ(went("odd"), "pending 1 in 1h: the handler threw something that is no std::exception");
  EXPECT_EQ(went("later"), "pending 1 in 2h: greylisted");
  EXPECT_EQ(went("never"), "dead 1 in 0h: no such mailbox");
  EXPECT_EQ(went("last"), "dead 1 in 0h: smtp says 421");
  EXPECT_EQ(StateOf("mail", "misfit"), ItemState::kDead) << "it would not fit the next time";
  EXPECT_EQ(Item("mail", "misfit").reason, "to of payload: expected a string, found an integer 3");
  EXPECT_EQ(one.figures().retried, 4U);
  EXPECT_EQ(one.figures().dead, 3U);
  Push("mail", "far", R"({"to": "far", "copies": 1})", 2);
  EXPECT_TRUE(Becomes("mail", "far", ItemState::kDead)) << "a delay below zero is none";
}

TEST_P(JobWorkerTest, NoMoreIsClaimedThanThereAreFreeSlots) {
  Working one(queues(), clock_);
  Gate gate;
  std::atomic<int> at_once = 0, most = 0;
  ASSERT_TRUE(one.worker->Handle<Json>("q",
                                       [&](const Json&) {
                                         most = std::max(most.load(), ++at_once);
                                         gate.Pass();
                                         --at_once;
                                       },
                                       {.slots = 3}));
  for (int i = 0; i < 10; ++i) Push("q", std::to_string(i), "1");
  one.Start();
  gate.Await(3);
  EXPECT_EQ(queues().admin().GetQueue(kTenant, "q")->processing, 3);
  EXPECT_EQ(one.queues.largest_poll, 3U);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return one.figures().completed == 10; }));
  EXPECT_TRUE(one.Leave());
  EXPECT_EQ(most, 3);
  EXPECT_EQ(one.queues.largest_poll, 3U);
}

TEST_P(JobWorkerTest, AQueueThatIsSlowPausedOrEmptyHoldsUpNoOther) {
  Working one(queues(), clock_);
  Gate slow;
  ASSERT_TRUE(one.worker->Handle<Json>("slow", [&](const Json&) { slow.Pass(); }, {.slots = 1}));
  ASSERT_TRUE(one.worker->Handle<Json>("empty", [&](const Json&) {}));
  ASSERT_TRUE(one.worker->Handle<Json>("paused", [&](const Json&) {}));
  std::atomic<int> fast = 0;
  ASSERT_TRUE(one.worker->Handle<Json>("fast", [&](const Json&) { ++fast; }, {.slots = 2}));
  for (int i = 0; i < 20; ++i) Push("slow", std::to_string(i), "1");
  Push("paused", "p", "1");
  ASSERT_TRUE(queues().admin().SetPaused(kTenant, "paused", true));
  one.Start();
  slow.Await(1);
  for (int i = 0; i < 50; ++i) Push("fast", std::to_string(i), "1");
  EXPECT_TRUE(Eventually([&] { return fast == 50; }));
  EXPECT_EQ(StateOf("paused", "p"), ItemState::kPending);
  ASSERT_TRUE(queues().admin().SetPaused(kTenant, "paused", false));
  EXPECT_TRUE(Becomes("paused", "p", ItemState::kCompleted));
  EXPECT_EQ(slow.came(), 1);
  slow.Open();
  EXPECT_TRUE(Eventually([&] { return one.figures(0).completed == 20; }));
}

TEST_P(JobWorkerTest, WhileNothingHappensNothingIsAsked) {
  Working one(queues(), clock_);
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); }));
  ASSERT_TRUE(one.worker->Handle<Json>("other", [&](const Json&) {}));
  gate.Open();
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.queues.polls == 2; })) << "each queue once";
  const Duration until = clock_.Monotonic() + 300ms;
  EXPECT_TRUE(Eventually([&] { return clock_.Monotonic() > until; }));
  EXPECT_EQ(one.queues.polls, 2);
  Push("q", "a", "1");
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
  EXPECT_LE(one.queues.polls, 5) << "the item, whether there are more, and after it";
}

TEST_P(JobWorkerTest, AWorkerWithoutAFreeSlotLeavesTheRingToOthers) {
  Working one(queues(), clock_);
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); }, {.slots = 1}));
  Push("q", "a", "1");
  one.Start();
  gate.Await(1);
  Result<task_queue::Polled> polled;
  std::jthread other([&](const std::stop_token& stop) {
    polled = task_queue::LongPoll(queues().tasks(), queues().bell(), clock_,
                                  {.tenant = kTenant, .queue = "q"}, 1h, stop);
  });
  Push("q", "b", "1");
  other.join();
  ASSERT_TRUE(polled);
  EXPECT_EQ(polled->items.at(0).id, "b");
  gate.Open();
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
}

TEST_P(JobWorkerTest, ADelayIsWaitedForAndNotAskedFor) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) {}));
  const task_queue::NewItem item{.id = "a", .payload = "1", .delay = 300ms};
  ASSERT_TRUE(queues().tasks().Enqueue(kTenant, "q", {&item, 1}));
  one.Start();
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
  EXPECT_LE(one.queues.polls, 6);
}

TEST_P(JobWorkerTest, TwoWorkersShareWithoutDoubles) {
  // On a file each has its own connections, as two programs do.
  std::unique_ptr<store_sqlite::Database> again;
  if (sqlite_) again = OpenFile();
  Working one(queues(), clock_);
  Working two(again ? again->queues() : queues(), clock_);
  std::mutex mutex;
  std::multiset<std::string> done;
  std::set<Working*> who;
  Gate gate;
  for (Working* const each : {&one, &two})
    ASSERT_TRUE(each->worker->Handle<Json>("q", [&, each](const Json&, JobContext& context) {
      {
        const std::scoped_lock lock(mutex);
        done.insert(context.id());
        who.insert(each);
      }
      gate.Pass();
    }));
  one.Start();
  two.Start();
  constexpr int kItems = 300;
  for (int i = 0; i < kItems; ++i) Push("q", std::to_string(i), "1");
  gate.Await(8);  // the slots of both
  gate.Open();
  EXPECT_TRUE(
      Eventually([&] { return one.figures().completed + two.figures().completed == kItems; }));
  EXPECT_TRUE(one.Leave());
  EXPECT_TRUE(two.Leave());
  EXPECT_EQ(done.size(), std::size_t{kItems});
  EXPECT_EQ(std::set(done.begin(), done.end()).size(), std::size_t{kItems});
  EXPECT_EQ(who.size(), 2U);
}

TEST_P(JobWorkerTest, AnotherTenantsItemsAreNotTaken) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) {}));
  const task_queue::NewItem item{.id = "theirs", .payload = "1"};
  ASSERT_TRUE(queues().tasks().Enqueue(TenantId("zeta"), "q", {&item, 1}));
  one.Start();
  Push("q", "ours", "1");
  EXPECT_TRUE(Becomes("q", "ours", ItemState::kCompleted));
  EXPECT_TRUE(one.Leave());
  EXPECT_EQ(queues().admin().GetQueue(TenantId("zeta"), "q")->pending, 1);
}

TEST_P(JobWorkerTest, AnOutageIsWaitedOutAndShown) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) {}));
  one.queues.polls_cut = true;
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.queues.polls >= 3; }));
  EXPECT_TRUE(one.figures().trouble.ends_with("cut")) << one.figures().trouble;
  EXPECT_TRUE(one.log.Has("a queue does not answer; it is asked again queue=q error="));
  one.queues.polls_cut = false;
  EXPECT_TRUE(Eventually([&] { return one.figures().trouble.empty(); })) << "without an item";
  EXPECT_TRUE(one.log.Has("a queue answers again queue=q"));
  Push("q", "a", "1");
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
}

TEST_P(JobWorkerTest, WhatDoesNotPassEndsRun) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) {}));
  one.queues.broken = Code::kConflict;
  one.Start();
  const Status ended = one.Await();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kConflict);
}

TEST_P(JobWorkerTest, OptionsOutOfBoundsAreRefusedAndSayWhich) {
  Lines log;
  const auto open = [&](JobWorkerOptions options) -> std::string {
    const auto opened =
        JobWorker::Open(std::move(options), {.queues = queues(), .clock = clock_, .log = log});
    return opened ? "" : opened.error().message;
  };
  EXPECT_EQ(open({.name = std::string(256, 'x')}), "");
  EXPECT_NE(open({.name = std::string(257, 'x')}), "");
  EXPECT_NE(open({.name = ""}).find("has no name"), std::string::npos);
  EXPECT_EQ(open({.drain_timeout = task_queue::kLongestDelay}), "");
  EXPECT_NE(open({.drain_timeout = task_queue::kLongestDelay + Duration(1)}), "");
  EXPECT_NE(open({.drain_timeout = Duration(-1)}).find("drain_timeout"), std::string::npos);
  EXPECT_NE(open({.tenant = TenantId("")}), "");

  Working one(queues(), clock_);
  const auto nothing = [](const Json&) {};
  const auto handle = [&](const std::string& queue, JobQueueOptions options) -> std::string {
    const Status handled = one.worker->Handle<Json>(queue, nothing, options);
    return handled ? "" : handled.error().message;
  };
  EXPECT_NE(handle("q", {.slots = 0}).find("queue q: 0 slots; give 1 to 1000"), std::string::npos);
  EXPECT_NE(handle("q", {.slots = kMaxJobSlots + 1}), "");
  EXPECT_NE(handle("q", {.lease = 100ms - Duration(1)}).find("a lease of"), std::string::npos);
  EXPECT_NE(handle("q", {.lease = 24h + Duration(1)}), "");
  EXPECT_NE(handle("not a name", {}), "");
  EXPECT_NE(one.worker->HandleText("q", nullptr, {}).error().message.find("empty"),
            std::string::npos);
  EXPECT_EQ(handle("q", {.slots = kMaxJobSlots - 1, .lease = 100ms}), "");
  EXPECT_EQ(handle("q", {.slots = 1}), "queue q has a handler; one is enough");
  EXPECT_NE(handle("r", {.slots = 2}).find("give 1 to 1,"), std::string::npos);
  EXPECT_EQ(handle("r", {.slots = 1, .lease = 24h}), "");
}

TEST_P(JobWorkerTest, RunIsCalledOnceAndWithHandlers) {
  Working none(queues(), clock_);
  EXPECT_EQ(none.worker->Run().error().code, Code::kInvalidArgument);
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [](const Json&) {}));
  one.worker->Drain();
  EXPECT_TRUE(one.worker->Run()) << "it was drained before";
  EXPECT_EQ(one.queues.polls, 0);
  EXPECT_EQ(one.worker->Run().error().code, Code::kConflict);
  EXPECT_EQ(one.worker->Handle<Json>("r", [](const Json&) {}).error().code, Code::kConflict);
}

TEST_P(JobWorkerTest, AThousandSlotsRunAtOnce) {
  Working one(queues(), clock_);
  Gate gate;
  ASSERT_TRUE(
      one.worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); }, {.slots = kMaxJobSlots}));
  std::vector<task_queue::NewItem> items;
  items.reserve(kMaxJobSlots);
  for (std::uint32_t i = 0; i < kMaxJobSlots; ++i)
    items.push_back({.id = std::to_string(i), .payload = "1"});
  ASSERT_TRUE(queues().tasks().Enqueue(kTenant, "q", items));
  one.Start();
  gate.Await(kMaxJobSlots);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return one.figures().completed == kMaxJobSlots; }));
}

}  // namespace
}  // namespace headworks
