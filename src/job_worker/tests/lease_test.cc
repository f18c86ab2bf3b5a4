#include "headworks/task_queue_conformance/harness.h"
#include "rig.h"

// What becomes of items whose handlers take longer than their leases, or lose them.
namespace headworks {
namespace {

class JobLeaseTest : public JobWorkerTest {};
INSTANTIATE_TEST_SUITE_P(Jobs, JobLeaseTest, testing::Values("Memory", "Sqlite"), NameOf);

TEST_P(JobLeaseTest, ALeaseIsExtendedForAsLongAsTheHandlerRuns) {
  Working one(queues(), clock_);
  Working two(queues(), clock_);
  Gate gate;
  for (Working* const each : {&one, &two})
    ASSERT_TRUE(each->worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); },
                                           {.slots = 3, .lease = 2400ms}));
  for (const char* const id : {"a", "b", "c"}) Push("q", id, "1");
  one.Start();
  gate.Await(3);
  two.Start();
  // One for each third of a lease, of all three together.
  ASSERT_TRUE(Eventually([&] { return one.queues.extends > 3; }));
  EXPECT_LT(one.queues.extends, 9) << "several in one call";
  gate.Open();
  for (const char* const id : {"a", "b", "c"}) EXPECT_TRUE(Becomes("q", id, ItemState::kCompleted));
  EXPECT_EQ(gate.came(), 3);
  EXPECT_EQ(Item("q", "a").attempts, 1);
}

TEST_P(JobLeaseTest, WhoeverLosesItsLeaseIsToldAndNotBelieved) {
  Working one(queues(), clock_);
  Working two(queues(), clock_);
  Gate told;
  Gate over;
  ASSERT_TRUE(one.worker->Handle<Json>("q",
                                       [&](const Json&, JobContext& context) {
                                         told.UntilCancelled(context);
                                         EXPECT_TRUE(context.cancelled());
                                         over.Pass();
                                       },
                                       {.lease = 2s}));
  std::atomic<int> attempt = 0;
  ASSERT_TRUE(two.worker->Handle<Json>(
      "q", [&](const Json&, JobContext& context) { attempt = context.attempt(); }));
  Push("q", "a", "1", 5);
  one.Start();
  told.Await(1);
  one.queues.extends_cut = one.queues.polls_cut = true;
  two.Start();
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted)) << "by the other one";
  EXPECT_EQ(attempt, 2);
  over.Await(1);
  EXPECT_EQ(one.figures().overrunning, 1U);
  EXPECT_EQ(one.figures().running, 1U);
  over.Open();
  EXPECT_TRUE(Eventually([&] { return one.figures().lost == 1; }));
  EXPECT_TRUE(Eventually([&] { return one.figures().overrunning == 0; }));
  EXPECT_EQ(one.queues.settles, 0);
  EXPECT_TRUE(one.log.Has("the lease of an item is lost; its handler is told to stop"));
  EXPECT_TRUE(one.log.Has("what its handler says of it is dropped queue=q item=a"));
  EXPECT_EQ(Item("q", "a").reason, "");
}

TEST_P(JobLeaseTest, ALeaseThatTheStoreHasGivenToAnotherIsLost) {
  Working one(queues(), clock_);
  Gate told;
  ASSERT_TRUE(one.worker->Handle<Json>("q",
                                       [&](const Json&, JobContext& context) {
                                         told.UntilCancelled(context);
                                         context.ThrowIfCancelled();
                                       },
                                       {.slots = 1, .lease = 3s}));
  Push("q", "a", "1");
  one.Start();
  told.Await(1);
  // An operator with the claim takes it away.
  const task_queue::Settlement back{.claim = {Item("q", "a").no, Item("q", "a").claim},
                                    .kind = task_queue::Settlement::Kind::kHandBack};
  ASSERT_TRUE(queues().admin().SetPaused(kTenant, "q", true));
  ASSERT_TRUE(queues().tasks().Settle(kTenant, "q", {&back, 1}));
  EXPECT_TRUE(Eventually([&] { return one.figures().lost == 1; })) << "the next extension says so";
  EXPECT_EQ(StateOf("q", "a"), ItemState::kPending);
  EXPECT_EQ(Item("q", "a").attempts, 0);
}

TEST_P(JobLeaseTest, ACancelledItemsHandlerIsToldAndItsFailureIsNotTriedAgain) {
  Working one(queues(), clock_);
  Gate told;
  ASSERT_TRUE(one.worker->Handle<Mail>("mail",
                                       [&](const Mail& mail, JobContext& context) {
                                         told.UntilCancelled(context);
                                         if (mail.to == "stops") context.ThrowIfCancelled();
                                         if (mail.to == "fails") throw Fail("interrupted");
                                       },
                                       {.lease = 1500ms}));
  for (const char* const id : {"stops", "fails", "ends"})
    Push("mail", id, fmt::format(R"({{"to": "{}", "copies": 1}})", id));
  one.Start();
  told.Await(3);
  for (const char* const id : {"stops", "fails", "ends"})
    ASSERT_TRUE(queues().tasks().Cancel(kTenant, "mail", id));
  EXPECT_TRUE(Becomes("mail", "stops", ItemState::kCancelled));
  EXPECT_TRUE(Becomes("mail", "fails", ItemState::kCancelled));
  EXPECT_TRUE(Becomes("mail", "ends", ItemState::kCompleted)) << "a success stays one";
  EXPECT_TRUE(Eventually([&] { return one.figures().cancelled == 2; }));
  EXPECT_TRUE(one.log.Has("an item is to be cancelled; its handler is told to stop"));
}

TEST_P(JobLeaseTest, AResultIsSaidUntilItIsKnown) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Mail>("mail",
                                       [&](const Mail& mail) -> JobResult {
                                         if (mail.to == "never") return Fail("no mailbox");
                                         if (mail.to == "again")
                                           return RetryLater(1h, "greylisted");
                                         return {};
                                       },
                                       {.slots = 1}));
  one.queues.settles_cut = true;
  Push("mail", "a", R"({"to": "ann", "copies": 1})");
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.queues.settles >= 4; }));
  EXPECT_EQ(StateOf("mail", "a"), ItemState::kProcessing);
  one.queues.settles_cut = false;
  EXPECT_TRUE(Becomes("mail", "a", ItemState::kCompleted));
  // Where only the answer is lost the second word finds it done.
  for (const char* const id : {"ack", "never", "again"}) {
    one.queues.answers_lost = 1;
    Push("mail", id, fmt::format(R"({{"to": "{}", "copies": 1}})", id));
    EXPECT_TRUE(Eventually([&] { return one.queues.answers_lost < 0; }));
    EXPECT_TRUE(Eventually([&] { return one.figures().running == 0; }));
  }
  EXPECT_EQ(one.figures().completed, 2U);
  EXPECT_EQ(one.figures().dead, 1U);
  EXPECT_EQ(one.figures().retried, 1U);
  EXPECT_EQ(one.figures().lost, 0U);
}

TEST_P(JobLeaseTest, AFullDiskIsWaitedOutAtEveryCall) {
  Working one(queues(), clock_);
  Gate gate;
  ASSERT_TRUE(
      one.worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); }, {.slots = 1, .lease = 5s}));
  one.queues.code = Code::kAtCapacity;
  one.queues.polls_cut = true;
  Push("q", "a", "1");
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.queues.polls >= 3; })) << "Run went on";
  one.queues.polls_cut = false;
  gate.Await(1);
  one.queues.extends_cut = one.queues.settles_cut = true;
  EXPECT_TRUE(Eventually([&] { return one.queues.extends >= 1; }));
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return one.queues.settles >= 3; }));
  one.queues.extends_cut = one.queues.settles_cut = false;
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted));
  EXPECT_EQ(Item("q", "a").attempts, 1);
  EXPECT_EQ(one.figures().lost, 0U);
}

TEST_P(JobLeaseTest, AResultThatIsNotKnownWhenTheLeaseIsOverIsLost) {
  Working one(queues(), clock_);
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) {}, {.lease = 200ms}));
  one.queues.settles_cut = one.queues.extends_cut = true;
  Push("q", "a", "1", 1'000);
  one.Start();
  EXPECT_TRUE(Eventually([&] { return one.figures().lost >= 1; }));
  one.queues.settles_cut = one.queues.extends_cut = false;
  EXPECT_TRUE(Becomes("q", "a", ItemState::kCompleted)) << "it came again";
  EXPECT_GE(Item("q", "a").attempts, 2);
}

TEST(JobClock, LeasesGoByTheClockThatIsGiven) {
  task_queue::conformance::ManualClock clock;
  const auto db = store_memory::Open(store_memory::NewStorage(), clock);
  const task_queue::NewItem item{.id = "a", .payload = "1"};
  ASSERT_TRUE(db->queues().tasks().Enqueue(kTenant, "q", {&item, 1}));
  Working one(db->queues(), clock);
  Gate told;
  ASSERT_TRUE(one.worker->Handle<Json>(
      "q", [&](const Json&, JobContext& context) { told.UntilCancelled(context); },
      {.slots = 1, .lease = 24h}));
  one.Start();
  told.Await(1);
  EXPECT_EQ(one.queues.extends, 0);
  clock.Advance(24h - Duration(1));
  one.queues.extends.wait(0);
  EXPECT_EQ(one.figures().overrunning, 0U) << "it was still held";
  ASSERT_TRUE(db->queues().admin().SetPaused(kTenant, "q", true));  // it would come again
  clock.JumpWall(48h);
  clock.Advance(24h + Duration(1));
  const Status ended = [&] {
    while (one.figures().lost == 0) std::this_thread::yield();
    return one.Leave();
  }();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace headworks
