#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Ids = std::vector<std::string>;

TEST_P(QueueConformance, EnqueueIsIdempotentOnTenantQueueAndId) {
  EXPECT_EQ(*Push({.id = "a", .payload = R"({"n":1})"}), Enqueued::kInserted);
  EXPECT_EQ(*Push({.id = "a", .payload = R"({"n":1})"}), Enqueued::kDuplicate);
  EXPECT_EQ(*Push({.id = "a", .payload = "2"}, "other"), Enqueued::kInserted);
  EXPECT_EQ(*Push({.id = "a", .payload = "3"}, "q", kOtherTenant), Enqueued::kInserted);
  const std::vector<NewItem> batch{{.id = "a", .payload = R"({"n":1})"},
                                   {.id = "b", .payload = "1"},
                                   {.id = "b", .payload = "1"},
                                   {.id = "c", .payload = "1"}};
  EXPECT_EQ(*tasks().Enqueue(kTenant, "q", batch),
            (std::vector{Enqueued::kDuplicate, Enqueued::kInserted, Enqueued::kDuplicate,
                         Enqueued::kInserted}));
  EXPECT_EQ(Poll(), (Ids{"a", "b", "c"}));
  EXPECT_EQ(Queue().duplicates, 3);
  EXPECT_EQ(Queue().differing, 0);
}

TEST_P(QueueConformance, OtherPayloadUnderAKnownIdIsCountedAndTheFirstStands) {
  EXPECT_EQ(*Push({.id = "a", .payload = "1"}), Enqueued::kInserted);
  EXPECT_EQ(*Push({.id = "a", .payload = "2"}), Enqueued::kDuplicateDiffers);
  EXPECT_EQ(Queue().differing, 1);
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(claimed_.at(0).payload, "1");
  EXPECT_EQ(Ack("a"), "completed");
  // The payload is gone, but not what it was.
  EXPECT_EQ(*Push({.id = "a", .payload = "1"}), Enqueued::kDuplicate);
  EXPECT_EQ(*Push({.id = "a", .payload = "2"}), Enqueued::kDuplicateDiffers);
  EXPECT_EQ(Queue().duplicates, 3);
  EXPECT_EQ(Queue().differing, 2);
  EXPECT_EQ(Poll(), Ids());
}

TEST_P(QueueConformance, PollGoesByPriorityThenAvailableTimeThenArrival) {
  QUEUE_EXPECT_OK(Push({.id = "late", .payload = "1", .delay = seconds(2)}));
  QUEUE_EXPECT_OK(Push({.id = "first", .payload = "1", .delay = seconds(1)}));
  QUEUE_EXPECT_OK(Push({.id = "second", .payload = "1", .delay = seconds(1)}));
  QUEUE_EXPECT_OK(Push({.id = "low", .payload = "1", .priority = -1'000}));
  QUEUE_EXPECT_OK(Push({.id = "high", .payload = "1", .priority = 1'000, .delay = seconds(2)}));
  QUEUE_EXPECT_OK(Push({.id = "never", .payload = "1", .priority = 9, .delay = hours(1)}));
  clock().Advance(seconds(2) - Duration(1));
  EXPECT_EQ(Poll(1), Ids{"first"});
  clock().Advance(Duration(1));
  EXPECT_EQ(Poll(2), (Ids{"high", "second"}));
  EXPECT_EQ(Poll(), (Ids{"late", "low"}));
}

TEST_P(QueueConformance, ClaimedItemTellsWhatItIs) {
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = R"([1,"ä"])", .priority = 7, .max_attempts = 5}));
  const Instant pushed = clock().Now();
  clock().Advance(seconds(3));
  const auto polled = tasks().Poll({.tenant = kTenant,
                                    .queue = "q",
                                    .max_items = 1,
                                    .visibility = seconds(9),
                                    .holder = "worker-1"});
  ASSERT_EQ(polled->items.size(), 1U);
  const ClaimedItem& item = polled->items[0];
  EXPECT_EQ(item.payload, R"([1,"ä"])");
  EXPECT_EQ(item.priority, 7);
  EXPECT_EQ(item.attempt, 1);
  EXPECT_EQ(item.max_attempts, 5);
  EXPECT_EQ(item.lease, seconds(9));
  EXPECT_EQ(item.enqueued_at, pushed);
  EXPECT_EQ(ParseClaim(FormatClaim(item.claim)).value(), item.claim);
  EXPECT_EQ(Item("a").holder, "worker-1");
  EXPECT_EQ(Item("a").claimed_at, clock().Now());
}

TEST_P(QueueConformance, AckIsFencedByItsClaim) {
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  const Claim first = ClaimOf("a");
  clock().Advance(seconds(300) - Duration(1));
  EXPECT_EQ(Extend(first, seconds(1)), "ok");
  clock().Advance(seconds(1));
  // Nobody else has it yet, but the lease has ended.
  EXPECT_EQ(Ack("a"), "lease_lost");
  EXPECT_EQ(Extend(first), "lease_lost");
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(claimed_.back().attempt, 2);
  EXPECT_EQ(Settle(first, Settlement::Kind::kAck), "lease_lost");
  EXPECT_EQ(Settle(first, Settlement::Kind::kNack), "lease_lost");
  EXPECT_EQ(Extend(first), "lease_lost");
  EXPECT_EQ(Ack("a"), "completed");
  EXPECT_EQ(Settle(first, Settlement::Kind::kAck), "lease_lost");
  // The answer may have been lost; but that is all that may be said twice.
  EXPECT_EQ(Ack("a"), "completed");
  EXPECT_EQ(Nack("a"), "conflict");
  EXPECT_EQ(HandBack("a"), "conflict");
  EXPECT_EQ(Extend(ClaimOf("a")), "conflict");
  EXPECT_EQ(Queue().completed, 1);
  EXPECT_EQ(Settle({ItemNo(999), ClaimNo(1)}, Settlement::Kind::kAck), "not_found");
}

TEST_P(QueueConformance, OneBadSettlementLeavesTheOthersAlone) {
  QUEUE_EXPECT_OK(Push("a"));
  QUEUE_EXPECT_OK(Push("b"));
  EXPECT_EQ(Poll(), (Ids{"a", "b"}));
  const std::vector<Settlement> all{{ClaimOf("a")},
                                    {.claim = {ClaimOf("b").item, ClaimNo(77)}},
                                    {.claim = ClaimOf("b"), .kind = Settlement::Kind::kHandBack}};
  const auto answers = tasks().Settle(kTenant, "q", all);
  EXPECT_EQ(*answers->at(0), ItemState::kCompleted);
  QUEUE_EXPECT_CODE(answers->at(1), kLeaseLost);
  EXPECT_EQ(*answers->at(2), ItemState::kPending);
  // Another queue has no such items.
  const auto elsewhere = tasks().Settle(kTenant, "other", all);
  QUEUE_EXPECT_CODE(elsewhere->at(0), kNotFound);
}

TEST_P(QueueConformance, NackWaitsForItsDelayOrTheBackoffAndEndsAsDead) {
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(Nack("a", "disk full", seconds(5)), "pending");
  EXPECT_EQ(Item("a").reason, "disk full");
  clock().Advance(seconds(5) - Duration(1));
  EXPECT_EQ(Poll(), Ids());
  clock().Advance(Duration(1));
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(Nack("a", "again", std::nullopt), "pending");
  // The second failure: 2 s, give or take 20 %.
  clock().Advance(milliseconds(1'600) - Duration(1));
  EXPECT_EQ(Poll(), Ids());
  clock().Advance(milliseconds(800) + Duration(1));
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(Nack("a", "third", seconds(5)), "dead");
  EXPECT_EQ(Nack("a"), "conflict");
  clock().Advance(hours(1));
  EXPECT_EQ(Poll(), Ids());
  EXPECT_EQ(Queue().dead, 1);
  EXPECT_EQ(Queue().failed, 3);
  EXPECT_EQ(Item("a").reason, "third");
}

TEST_P(QueueConformance, HandBackConsumesNothingAndKeepsThePlace) {
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1", .max_attempts = 1}));
  clock().Advance(seconds(1));
  QUEUE_EXPECT_OK(Push("b"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Poll(1), Ids{"a"});
    EXPECT_EQ(claimed_.back().attempt, 1);
    EXPECT_EQ(HandBack("a"), "pending");
  }
  EXPECT_EQ(HandBack("a"), "conflict");
  EXPECT_EQ(Poll(), (Ids{"a", "b"}));
  EXPECT_EQ(Queue().failed, 0);
}

TEST_P(QueueConformance, RejectIsDeadAtOnceAndComesBackByRedrive) {
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1", .max_attempts = 5}));
  EXPECT_EQ(Poll(), Ids{"a"});
  const Claim first = ClaimOf("a");
  EXPECT_EQ(Settle(first, Settlement::Kind::kReject, "password=x is no mailbox"), "dead");
  EXPECT_EQ(Settle(first, Settlement::Kind::kReject), "conflict");
  EXPECT_EQ(Item("a").attempts, 1);
  EXPECT_EQ(Item("a").reason, "password=*** is no mailbox");
  EXPECT_EQ(Queue().dead, 1);
  EXPECT_EQ(Queue().failed, 1);
  EXPECT_EQ(admin().Redrive(kTenant, "q", {.ids = {"a"}})->count, 1);
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(*tasks().Cancel(kTenant, "q", "a"), ItemState::kProcessing);
  EXPECT_EQ(Settle(ClaimOf("a"), Settlement::Kind::kReject, "bad"), "cancelled");
  EXPECT_EQ(Queue().dead, 0);
}

TEST_P(QueueConformance, LeaseThatEndsConsumesADelivery) {
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.visibility = seconds(10), .max_attempts = 2}));
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  clock().Advance(seconds(10) - Duration(1));
  EXPECT_EQ(Poll(), Ids());
  clock().Advance(Duration(1));
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(claimed_.back().attempt, 2);
  clock().Advance(seconds(10));
  EXPECT_EQ(Poll(), Ids());
  EXPECT_EQ(Item("a").state, ItemState::kDead);
  EXPECT_EQ(Item("a").reason, "the lease of delivery 2 ended without a word from h");
  EXPECT_EQ(Ack("a"), "lease_lost");
}

TEST_P(QueueConformance, WallClockThatJumpsEndsNoLeaseAndHidesAndReleasesNothing) {
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  QUEUE_EXPECT_OK(Push({.id = "later", .payload = "1", .delay = hours(1)}));
  clock().JumpWall(hours(5));
  EXPECT_EQ(Poll(), Ids());
  QUEUE_EXPECT_OK(Push("b"));
  clock().JumpWall(-hours(10));
  EXPECT_EQ(Poll(), Ids{"b"});
  EXPECT_EQ(Extend(ClaimOf("a"), hours(2)), "ok");
  clock().Advance(hours(1));
  EXPECT_EQ(Poll(), (Ids{"later", "b"}));
  EXPECT_EQ(Ack("a"), "completed");
}

TEST_P(QueueConformance, CancelReachesEveryState) {
  for (const char* const id : {"pending", "held", "acked", "nacked", "back", "lost"}) {
    QUEUE_EXPECT_OK(Push(id));
  }
  MakeDead("dead");
  EXPECT_EQ(*tasks().Cancel(kTenant, "q", "pending"), ItemState::kCancelled);
  EXPECT_EQ(*tasks().Cancel(kTenant, "q", "pending"), ItemState::kCancelled);
  EXPECT_EQ(*tasks().Cancel(kTenant, "q", "dead"), ItemState::kCancelled);
  EXPECT_EQ(Queue().dead, 0);
  EXPECT_EQ(Poll(), (Ids{"held", "acked", "nacked", "back", "lost"}));
  for (const char* const id : {"held", "acked", "nacked", "back", "lost"}) {
    EXPECT_EQ(*tasks().Cancel(kTenant, "q", id), ItemState::kProcessing);
  }
  EXPECT_EQ(Extend(ClaimOf("held"), minutes(20)), "cancelled");
  EXPECT_EQ(Ack("acked"), "completed");  // a success stays one
  EXPECT_EQ(Nack("nacked"), "cancelled");
  EXPECT_EQ(HandBack("back"), "cancelled");
  clock().Advance(minutes(10));
  EXPECT_EQ(Poll(), Ids());
  EXPECT_EQ(Item("lost").state, ItemState::kCancelled);
  EXPECT_EQ(Ack("held"), "completed");  // its lease was extended
  QUEUE_EXPECT_CODE(tasks().Cancel(kTenant, "q", "acked"), kConflict);
  QUEUE_EXPECT_CODE(tasks().Cancel(kTenant, "q", "nobody"), kNotFound);
  QUEUE_EXPECT_CODE(tasks().Cancel(kTenant, "none", "nobody"), kNotFound);
  QUEUE_EXPECT_CODE(tasks().Cancel(kOtherTenant, "q", "lost"), kNotFound);
}

TEST_P(QueueConformance, WhatWasAnsweredSurvivesACrash) {
  QUEUE_EXPECT_OK(Push("a"));
  QUEUE_EXPECT_OK(Push("b"));
  MakeDead("c");
  EXPECT_EQ(Poll(1), Ids{"a"});
  harness_->CrashAndReopen();
  EXPECT_EQ(Item("c").state, ItemState::kDead);
  EXPECT_EQ(Poll(), Ids{"b"});
  EXPECT_EQ(Ack("a"), "completed");
  harness_->CrashAndReopen();
  EXPECT_EQ(*Push("a"), Enqueued::kDuplicate);
  EXPECT_EQ(Queue().processing, 1);
}

}  // namespace
}  // namespace headworks::task_queue::conformance
