#include "headworks/executor_conformance/harness.h"

namespace headworks::executor::conformance {
namespace {

constexpr auto kDeadline = std::chrono::seconds(30);  // of a wait that never comes true

}  // namespace

void Sink::Started(const model::AttemptKey& key) {
  const std::scoped_lock lock(mutex_);
  ++started_[key];
  changed_.notify_all();
}
void Sink::Ended(const model::AttemptKey& key, model::Outcome outcome) {
  const std::scoped_lock lock(mutex_);
  ended_[key].push_back(std::move(outcome));
  changed_.notify_all();
}
void Sink::CapacityChanged() {
  const std::scoped_lock lock(mutex_);
  ++capacity_changes_;
  changed_.notify_all();
}

void Sink::Await(const std::function<bool()>& holds) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kDeadline, holds));
}
void Sink::AwaitStarted(const model::AttemptKey& key) {
  Await([&] { return started_.contains(key); });
}
model::Outcome Sink::AwaitEnded(const model::AttemptKey& key) {
  Await([&] { return ended_.contains(key); });
  const std::scoped_lock lock(mutex_);
  return ended_.contains(key) ? ended_.at(key).front() : model::Outcome{};
}
void Sink::AwaitCapacity(int changes) {
  Await([&] { return capacity_changes_ >= changes; });
}
int Sink::starts(const model::AttemptKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto at = started_.find(key);
  return at == started_.end() ? 0 : at->second;
}
int Sink::ends(const model::AttemptKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto at = ended_.find(key);
  return at == ended_.end() ? 0 : static_cast<int>(at->second.size());
}
int Sink::capacity_changes() const {
  const std::scoped_lock lock(mutex_);
  return capacity_changes_;
}

Attempt AttemptOf(model::Task task, std::int64_t epoch) {
  if (task.id.empty()) task.id = "t";
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.base_dir = testing::TempDir();
  definition.tasks = {std::move(task)};
  auto workflow = model::Workflow::Create(std::move(definition));
  EXPECT_TRUE(workflow) << workflow.error().message;
  return {.key = {.tenant = TenantId("public"),
                  .run = RunNo(1),
                  .task = TaskNo(0),
                  .epoch = Epoch(epoch)},
          .run_id = RunId("run-1"),
          .timeout = (*workflow)->task(TaskNo(0)).timeout,
          .workflow = *workflow};
}

void Conformance::SetUp() {
  harness_ = GetParam().make();
  const Status started = executor().Start(sink_);
  ASSERT_TRUE(started) << started.error().message;
}

void Conformance::TearDown() {
  if (const Status drained = executor().Drain(Duration(0)); !drained)
    ADD_FAILURE() << drained.error().message;
  harness_.reset();
}

Attempt Conformance::Wait() {
  Attempt attempt = Next(harness_->Waits());
  Offer(attempt);
  sink_.AwaitStarted(attempt.key);
  return attempt;
}

void Conformance::Offer(const Attempt& attempt) {
  const OfferResult result = executor().Offer(attempt);
  EXPECT_EQ(result.disposition, model::Disposition::kDispatched) << result.cause;
  EXPECT_TRUE(result.cause.empty());
  EXPECT_FALSE(result.error);
}

Inspection Conformance::Inspect(const Attempt& attempt) {
  auto answers = executor().Inspect({&attempt, 1});
  EXPECT_TRUE(answers && answers->size() == 1);
  return answers ? std::move(answers->front()) : Inspection(Unknown{answers.error().message});
}

}  // namespace headworks::executor::conformance
