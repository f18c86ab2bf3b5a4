#include "rig.h"

namespace headworks::executor_queue {
namespace {

class OrdersTest : public QueueTest {
 protected:
  void Cordon(const std::string& name) {
    queue_->SetOrders({.cordoned = {{TenantId("public"), name}}, .leaving = {}});
  }
  void Drain(const worker_api::Identity& who) {
    queue_->SetOrders({.cordoned = {}, .leaving = {who}});
  }
};

TEST_F(OrdersTest, CordonedWorkerGetsNothingNewAndAnotherGetsIt) {
  Make();
  const auto cordoned = Hire("a"), other = Hire("b");
  const std::string token = Run(cordoned, Next(Plain()));
  Cordon("a");
  const auto attempt = Offer(Plain());
  EXPECT_TRUE(Poll(cordoned)->assignments.empty());
  EXPECT_TRUE(Poll(cordoned)->drain);
  EXPECT_FALSE(Poll(cordoned)->leave);
  // What runs goes on.
  EXPECT_EQ(Beat(cordoned, {token})->pulses.at(0).reply, Reply::kGoOn);
  EXPECT_FALSE(Beat(cordoned, {token})->leave);
  EXPECT_EQ(**Complete(token, {.verdict = Verdict::kSucceeded}), Reply::kGoOn);
  const auto polled = Poll(other);
  ASSERT_EQ(polled->assignments.size(), 1U);
  EXPECT_EQ(polled->assignments[0].attempt, attempt.key);
  EXPECT_FALSE(polled->drain);
}

TEST_F(OrdersTest, PollOfACordonedWorkerWaitsAndIsAnsweredOnceItIsNot) {
  Make();
  const auto who = Hire("a");
  const auto before = Poll(who, 10s);
  EXPECT_FALSE(before.came());
  Cordon("a");
  ASSERT_TRUE(before.came());
  EXPECT_TRUE(before->drain);
  const auto during = Poll(who, 10s);
  Offer(Plain());
  Pass(9s);
  EXPECT_FALSE(during.came());
  Pass(1s);
  ASSERT_TRUE(during.came());
  EXPECT_TRUE(during->drain);
  const auto last = Poll(who, 10s);
  queue_->SetOrders({});
  ASSERT_TRUE(last.came());
  EXPECT_FALSE(last->drain);
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
}

TEST_F(OrdersTest, CordonIsOfANameAndATenant) {
  Make();
  Cordon("a");
  const auto who = Hire("a");  // that came after it
  Offer(Plain());
  EXPECT_TRUE(Poll(who)->assignments.empty());
  queue_->SetOrders({.cordoned = {{TenantId("other"), "a"}, {TenantId("public"), "aa"}},
                     .leaving = {{TenantId("public"), "a", "another"}}});
  EXPECT_EQ(Poll(who)->assignments.size(), 1U);
}

TEST_F(OrdersTest, WhatACordonedWorkerDoesNotKnowOfGoesToAnother) {
  Make();
  const auto cordoned = Hire("a", {}, {{"default", 1}}), other = Hire("b");
  const auto attempt = Offer(Plain());
  EXPECT_EQ(Poll(cordoned)->assignments.size(), 1U);  // and this is not heard
  Cordon("a");
  const auto waits = Poll(other, 10s);
  EXPECT_FALSE(waits.came());
  EXPECT_TRUE(Poll(cordoned)->assignments.empty());
  ASSERT_TRUE(waits.came());
  EXPECT_EQ(waits->assignments.at(0).attempt, attempt.key);
}

TEST_F(OrdersTest, WhoIsToLeaveIsToldByPollAndHeartbeatAtOnce) {
  Make();
  const auto who = Hire("a");
  const std::string token = Run(who, Next(Plain()));
  const auto poll = Poll(who, 10s);
  const auto beat = Beat(who, {token}, 10s);
  EXPECT_FALSE(poll.came());
  EXPECT_FALSE(beat.came());
  Drain(who);
  ASSERT_TRUE(poll.came());
  EXPECT_TRUE(poll->leave);
  EXPECT_TRUE(poll->drain);
  ASSERT_TRUE(beat.came());
  EXPECT_TRUE(beat->leave);
  EXPECT_EQ(beat->pulses.at(0).reply, Reply::kGoOn);
  // The next heartbeat waits, and says it all the same; a poll does not wait.
  const auto next = Beat(who, {token}, 10s);
  EXPECT_FALSE(next.came());
  EXPECT_TRUE(Poll(who, 10s)->leave);
  Pass(10s);
  EXPECT_TRUE(next->leave);
}

TEST_F(OrdersTest, WhoHasNoHeartbeatUnderWayHearsItByTheNext) {
  Make();
  const auto who = Hire("a", {}, {{"default", 1}});
  const std::string token = Run(who, Next(Plain()));
  Drain(who);
  const auto beat = Beat(who, {token}, 10s);
  ASSERT_TRUE(beat.came());
  EXPECT_TRUE(beat->leave);
}

TEST_F(OrdersTest, WhoHoldsNothingHearsItByAHeartbeat) {
  Make();
  const auto who = Hire("a");
  EXPECT_FALSE(Beat(who, {})->leave);
  const auto beat = Beat(who, {}, 10s);
  EXPECT_FALSE(beat.came());
  Drain(who);
  ASSERT_TRUE(beat.came());
  EXPECT_TRUE(beat->pulses.empty());
  EXPECT_TRUE(beat->leave);
}

TEST_F(OrdersTest, TaskDoesNotCountOnWorkersThatGetNothing) {
  Make();
  Hire("a");
  const auto attempt = Offer(Plain());
  const auto waits_for = [&] { return std::get<executor::Pending>(Inspect(attempt)).reason; };
  EXPECT_NE(waits_for().find("; 1 such workers"), std::string::npos) << waits_for();
  Cordon("a");
  EXPECT_NE(waits_for().find("; 0 such workers"), std::string::npos) << waits_for();
}

TEST_F(OrdersTest, LoadOfAWorkerFollowsItsAttempts) {
  Make();
  const auto who = Hire("a", {}, {{"default", 3}});
  using Loads = std::map<std::string, WorkerStatus::Load>;
  const auto loads = [&] { return queue_->Roster().at(0).loads; };
  EXPECT_EQ(loads(), Loads{});
  const std::string token = Run(who, Next(Plain()));
  Offer(Plain());
  const std::string start = Token(who);
  EXPECT_EQ(loads(), (Loads{{"default", {2, 1}}}));
  Answer<bool> back;
  queue_->HandBack(who, {start}, back.Done());
  EXPECT_EQ(loads(), (Loads{{"default", {1, 1}}}));
  EXPECT_EQ(**Complete(token, {.verdict = Verdict::kSucceeded}), Reply::kGoOn);
  EXPECT_EQ(loads(), Loads{});
}

}  // namespace
}  // namespace headworks::executor_queue
