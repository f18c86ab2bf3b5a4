#include "rig.h"

namespace headworks {
namespace {

class JobDrainTest : public JobWorkerTest {};
INSTANTIATE_TEST_SUITE_P(Jobs, JobDrainTest, testing::Values("Memory", "Sqlite"), NameOf);

TEST_P(JobDrainTest, WhatRunsMayEndAndNothingMoreIsBegun) {
  Working one(queues(), clock_);
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) { gate.Pass(); }, {.slots = 1}));
  Push("q", "a", "1");
  Push("q", "b", "1");
  one.Start();
  gate.Await(1);
  one.worker->Drain();
  gate.Open();
  EXPECT_TRUE(one.Await());
  EXPECT_EQ(StateOf("q", "a"), ItemState::kCompleted);
  EXPECT_EQ(StateOf("q", "b"), ItemState::kPending);
  EXPECT_EQ(Item("q", "b").attempts, 0);
}

/// A store whose poll answers only after the worker was drained.
class Late final : public task_queue::Queues, task_queue::TaskQueue {
 public:
  Late(task_queue::Queues& inner, std::function<void()> meanwhile)
      : inner_(inner), meanwhile_(std::move(meanwhile)) {}
  task_queue::TaskQueue& tasks() override { return *this; }
  task_queue::QueueAdmin& admin() override { return inner_.admin(); }
  task_queue::QueueSurvey& survey() override { return inner_.survey(); }
  task_queue::Bell& bell() override { return inner_.bell(); }

 private:
  Result<std::vector<task_queue::Enqueued>> Enqueue(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::NewItem> items) override {
    return inner_.tasks().Enqueue(tenant, queue, items);
  }
  Result<task_queue::Polled> Poll(const task_queue::PollRequest& request) override {
    auto polled = inner_.tasks().Poll(request);
    if (polled && !polled->items.empty()) meanwhile_();
    return polled;
  }
  Result<std::vector<Result<ItemState>>> Settle(
      const TenantId& tenant, std::string_view queue,
      std::span<const task_queue::Settlement> settlements) override {
    return inner_.tasks().Settle(tenant, queue, settlements);
  }
  Result<std::vector<Status>> Extend(const TenantId& tenant, std::string_view queue,
                                     std::span<const task_queue::Claim> claims,
                                     Duration visibility) override {
    return inner_.tasks().Extend(tenant, queue, claims, visibility);
  }
  Result<ItemState> Cancel(const TenantId& tenant, std::string_view queue,
                           std::string_view id) override {
    return inner_.tasks().Cancel(tenant, queue, id);
  }

  task_queue::Queues& inner_;
  const std::function<void()> meanwhile_;
};

TEST_P(JobDrainTest, WhatWasClaimedAndNotBegunIsHandedBackAndUsesNoAttempt) {
  JobWorker* drained = nullptr;
  Late late(queues(), [&] { drained->Drain(); });
  Working one(late, clock_);
  drained = one.worker.get();
  std::atomic<int> calls = 0;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&) { ++calls; }));
  for (const char* const id : {"a", "b", "c"}) Push("q", id, "1");
  one.Start();
  EXPECT_TRUE(one.Await());
  EXPECT_EQ(calls, 0);
  for (const char* const id : {"a", "b", "c"}) {
    EXPECT_EQ(StateOf("q", id), ItemState::kPending);
    EXPECT_EQ(Item("q", id).attempts, 0);
  }
  EXPECT_EQ(one.figures().handed_back, 3U);
}

TEST_P(JobDrainTest, AfterTheTimeoutHandlersAreToldAndNamed) {
  Working one(queues(), clock_, {.drain_timeout = 50ms});
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q",
                                       [&](const Json&, JobContext& context) {
                                         gate.UntilCancelled(context);
                                         if (context.id() == "ends") return;
                                         throw std::runtime_error("broken off");
                                       },
                                       {.slots = 12}));
  for (int i = 0; i < 10; ++i) Push("q", std::to_string(i), "1");
  Push("q", "ends", "1");
  one.Start();
  gate.Await(11);
  one.worker->Drain();
  const Status ended = one.Await();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kDrainTimeout);
  EXPECT_TRUE(ended.error().message.starts_with("11 handlers did not end in time"))
      << ended.error().message;
  EXPECT_TRUE(ended.error().message.ends_with(", ...")) << "ten are named";
  EXPECT_NE(ended.error().message.find("q/0, "), std::string::npos);
  EXPECT_EQ(StateOf("q", "0"), ItemState::kPending);
  EXPECT_EQ(Item("q", "0").attempts, 0) << "a shutdown uses no attempt";
  EXPECT_EQ(StateOf("q", "ends"), ItemState::kCompleted) << "a success stays one";
  EXPECT_EQ(one.figures().handed_back, 10U);
}

TEST_P(JobDrainTest, ASecondCallTellsHandlersAtOnce) {
  Working one(queues(), clock_, {.drain_timeout = 1h});
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&, JobContext& context) {
    gate.UntilCancelled(context);
    context.ThrowIfCancelled();
  }));
  Push("q", "a", "1");
  one.Start();
  gate.Await(1);
  one.worker->Drain();
  EXPECT_EQ(StateOf("q", "a"), ItemState::kProcessing);
  one.worker->Drain();
  one.worker->Drain();
  EXPECT_EQ(one.Await().error().message,
            "1 handlers did not end in time and were told to stop: q/a");
  EXPECT_EQ(StateOf("q", "a"), ItemState::kPending);
  EXPECT_EQ(Item("q", "a").attempts, 0);
}

TEST_P(JobDrainTest, AHandBackIsSaidUntilItIsKnown) {
  Working one(queues(), clock_, {.drain_timeout = 0s});
  Gate gate;
  ASSERT_TRUE(one.worker->Handle<Json>("q", [&](const Json&, JobContext& context) {
    gate.UntilCancelled(context);
    context.ThrowIfCancelled();
  }));
  Push("q", "a", "1");
  one.Start();
  gate.Await(1);
  one.queues.answers_lost = 2;
  EXPECT_EQ(one.Leave().error().code, Code::kDrainTimeout);
  EXPECT_EQ(StateOf("q", "a"), ItemState::kPending);
  EXPECT_EQ(one.figures().handed_back, 1U);
}

}  // namespace
}  // namespace headworks
