#include "headworks/dispatcher_conformance/harness.h"

#include <algorithm>

namespace headworks::dispatcher::conformance {

using executor::Attempt;
using executor::OfferResult;
using model::AttemptKey;

void Signal::Await(const std::function<bool()>& holds) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), holds));
}

void Sink::Ended(const AttemptKey& key, model::Outcome outcome) {
  signal.Do([&] { ended[key] = std::move(outcome); });
}
void Sink::CapacityChanged() {
  before_word();
  signal.Do([&] { ++capacity_changes; });
}
void Sink::HandleDispatchFailure(const AttemptKey& key, const OfferResult& result) {
  before_late(key);
  signal.Do([&] { late.emplace_back(key, result); });
}
void Sink::HandleDispatchRecovery(const AttemptKey& key) {
  before_word();
  signal.Do([&] { recovered.push_back(key); });
}
void Sink::MarkTaskDispatchFailed(const AttemptKey& key, std::string_view reason) {
  signal.Do([&] { failed.emplace_back(key, reason); });
}
std::vector<OfferResult> Sink::LateFor(const AttemptKey& key) const {
  std::vector<OfferResult> results;
  for (const auto& [of, result] : late)
    if (of == key) results.push_back(result);
  return results;
}

OfferResult ScriptedExecutor::Offer(const Attempt& attempt) {
  {
    const std::scoped_lock lock(mutex_);
    if (taken.contains(attempt.key)) return {};
  }
  const auto note = [&](bool was_taken) {
    const std::scoped_lock lock(mutex_);
    signal.Do([&] {
      offered.push_back(attempt.key);
      if (was_taken) taken.emplace(attempt.key, attempt);
    });
  };
  OfferResult result;
  try {
    result = answer(attempt);
  } catch (...) {
    note(false);
    throw;
  }
  note(result.disposition == model::Disposition::kDispatched);
  return result;
}

void ScriptedExecutor::Cancel(const AttemptKey& key) {
  signal.Do([&] { cancelled.push_back(key); });
  after_cancel();
}

executor::Capacity ScriptedExecutor::GetCapacity() const {
  before_capacity();
  const std::scoped_lock lock(mutex_);
  return {.max = max, .used = static_cast<std::uint32_t>(taken.size())};
}

Result<std::vector<executor::Inspection>> ScriptedExecutor::Inspect(
    std::span<const Attempt> attempts) {
  std::vector<executor::Inspection> answers;
  for (const Attempt& attempt : attempts) {
    if (inspect) {
      HEADWORKS_ASSIGN(auto one, inspect(attempt));
      answers.push_back(std::move(one));
      continue;
    }
    const std::scoped_lock lock(mutex_);
    answers.push_back(taken.contains(attempt.key) ? executor::Inspection(executor::Running{})
                                                  : executor::Inspection(executor::Absent{}));
  }
  return answers;
}

std::vector<AttemptKey> ScriptedExecutor::List() const {
  const std::scoped_lock lock(mutex_);
  std::vector<AttemptKey> keys;
  keys.reserve(taken.size());
  for (const auto& [key, attempt] : taken) keys.push_back(key);
  return keys;
}

void ScriptedExecutor::Settled(std::span<const AttemptKey> keys) {
  before_settled();
  const std::scoped_lock lock(mutex_);
  signal.Do([&] {
    for (const AttemptKey& key : keys) {
      settled.push_back(key);
      taken.erase(key);
    }
  });
}

Status ScriptedExecutor::Drain(Duration) {
  ++drains;
  return drained;
}

Attempt AttemptOf(TaskNo task, std::int64_t epoch) {
  static const auto workflow = [] {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    definition.tasks = {{.id = "function", .action = model::FunctionAction{"f"}},
                        {.id = "command", .action = model::ExecAction{{"true"}}}};
    return *model::Workflow::Create(std::move(definition));
  }();
  return {
      .key = {.tenant = TenantId("public"), .run = RunNo(1), .task = task, .epoch = Epoch(epoch)},
      .run_id = RunId("run-1"),
      .workflow = workflow};
}

OfferResult Conformance::Answer(const Attempt& attempt) {
  OfferResult result = dispatcher().Dispatch(attempt);
  if (result.answered) return result;
  EXPECT_EQ(result.disposition, model::Disposition::kDispatched) << result.cause;
  ScriptedExecutor& to = attempt.key.task == kFunction ? functions_ : commands_;
  to.signal.Await([&] { return std::ranges::find(to.offered, attempt.key) != to.offered.end(); });
  bool taken = false;
  to.signal.Do([&] { taken = to.taken.contains(attempt.key); });
  if (taken) return {};
  sink_.signal.Await([&] { return !sink_.LateFor(attempt.key).empty(); });
  sink_.signal.Do([&] { result = sink_.LateFor(attempt.key).at(0); });
  return result;
}

}  // namespace headworks::dispatcher::conformance
