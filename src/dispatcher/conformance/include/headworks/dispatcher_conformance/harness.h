#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "headworks/dispatcher/dispatcher.h"
#include "headworks/executor/executor.h"

/// One suite for every dispatcher.  Its test links `headworks_dispatcher_conformance` and says
///
///   INSTANTIATE_TEST_SUITE_P(Default, Conformance, testing::Values(Kind{"Default", Make}));
namespace headworks::dispatcher::conformance {

/// Waits for what other threads bring about; fails its test after half a minute.
class Signal {
 public:
  /// Runs `change` under the lock, and wakes who waits.
  template <typename F>
  void Do(F change) {
    const std::scoped_lock lock(mutex_);
    change();
    changed_.notify_all();
  }
  void Await(const std::function<bool()>& holds);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The engine's side: keeps what it is told.  Read through `signal`, or when all is quiet.
class Sink final : public executor::AttemptSink, public RetrySink, public FailureSink {
 public:
  Signal signal;
  std::map<model::AttemptKey, model::Outcome> ended;
  std::vector<std::pair<model::AttemptKey, executor::OfferResult>> late;
  std::vector<model::AttemptKey> recovered;
  std::vector<std::pair<model::AttemptKey, std::string>> failed;
  int capacity_changes = 0;
  /// Called first by HandleDispatchFailure; may throw.
  std::function<void(const model::AttemptKey&)> before_late = [](const model::AttemptKey&) {};
  /// Called first by CapacityChanged and HandleDispatchRecovery; may throw.
  std::function<void()> before_word = [] {};

  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override;
  void Hear(executor::Word, std::function<void(executor::Heard)> reply) override {
    reply(executor::Reply::kStop);
  }
  void CapacityChanged() override;
  void HandleDispatchFailure(const model::AttemptKey& key,
                             const executor::OfferResult& result) override;
  void HandleDispatchRecovery(const model::AttemptKey& key) override;
  void MarkTaskDispatchFailed(const model::AttemptKey& key, std::string_view reason) override;

  std::vector<executor::OfferResult> LateFor(const model::AttemptKey& key) const;
};

/// Runs nothing: takes attempts as a test says, and keeps what it was told.
class ScriptedExecutor final : public executor::Executor {
 public:
  explicit ScriptedExecutor(std::string name) : name_(std::move(name)) {}

  Signal signal;
  /// The answer to an offer of an attempt that is not here; may wait, and may throw.
  std::function<executor::OfferResult(const executor::Attempt&)> answer =
      [](const executor::Attempt&) { return executor::OfferResult{}; };
  std::function<Result<executor::Inspection>(const executor::Attempt&)> inspect;
  /// Set: it has lines, one per task id.
  std::function<executor::Credit(const TenantId&, const std::string&)> credit;
  /// Called last by Cancel; may throw.
  std::function<void()> after_cancel = [] {};
  /// Called first by GetCapacity and GetCredit, and by Settled; may throw.
  std::function<void()> before_capacity = [] {};
  std::function<void()> before_settled = [] {};
  Status drained;
  std::atomic<std::uint32_t> max{1'000};
  std::vector<model::AttemptKey> offered, cancelled, settled;
  /// Offers that were taken.
  std::map<model::AttemptKey, executor::Attempt> taken;
  std::atomic<int> drains{0};
  executor::AttemptSink* sink = nullptr;

  std::string_view Name() const override { return name_; }
  Status Start(executor::AttemptSink& s) override {
    sink = &s;
    return {};
  }
  executor::OfferResult Offer(const executor::Attempt& attempt) override;
  void Cancel(const model::AttemptKey& key) override;
  executor::Capacity GetCapacity() const override;
  bool HasLines() const override { return credit != nullptr; }
  std::string LineOf(const model::Workflow& workflow, TaskNo task) const override {
    return workflow.task(task).id;
  }
  executor::Credit GetCredit(const TenantId& tenant, const std::string& line) const override {
    return credit ? credit(tenant, line) : Executor::GetCredit(tenant, line);
  }
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override;
  std::vector<model::AttemptKey> List() const override;
  executor::Metrics GetMetrics() const override { return {}; }
  void Settled(std::span<const model::AttemptKey> keys) override;
  Status Drain(Duration timeout) override;

 private:
  const std::string name_;
  mutable std::mutex mutex_;
};

/// A dispatcher in front of two executors, which take functions and commands.
class Harness {
 public:
  virtual ~Harness() = default;
  /// Started.
  virtual Dispatcher& dispatcher() = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Harness>(executor::Executor& functions,
                                         executor::Executor& commands, Sink& sink)>
      make;
};
inline void PrintTo(const Kind& kind, std::ostream* os) { *os << kind.name; }

/// An attempt of a run of two tasks: task 0 is a function, task 1 a command.
executor::Attempt AttemptOf(TaskNo task, std::int64_t epoch);
inline constexpr TaskNo kFunction{0}, kCommand{1};

class Conformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { harness_ = GetParam().make(functions_, commands_, sink_); }

  Dispatcher& dispatcher() { return harness_->dispatcher(); }
  executor::Attempt Next(TaskNo task) { return AttemptOf(task, ++epochs_); }
  /// What its executor answered, at once or late.
  executor::OfferResult Answer(const executor::Attempt& attempt);

  Sink sink_;
  ScriptedExecutor functions_{"functions"}, commands_{"commands"};
  std::unique_ptr<Harness> harness_;
  std::int64_t epochs_ = 0;
};

}  // namespace headworks::dispatcher::conformance
