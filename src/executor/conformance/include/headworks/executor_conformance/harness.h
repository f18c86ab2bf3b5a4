#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "headworks/executor/executor.h"

/// One suite for every executor.  An adapter's test links `headworks_executor_conformance` and says
///
///   INSTANTIATE_TEST_SUITE_P(Inline, Conformance, testing::Values(Kind{"Inline", MakeHarness}));
namespace headworks::executor::conformance {

/// The engine's side: keeps what it is told, and waits for it.  A wait that never comes true fails
/// its test after half a minute.
class Sink final : public AttemptSink {
 public:
  void Started(const model::AttemptKey& key) override;
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override;
  void Hear(Word, std::function<void(Heard)> reply) override { reply(Reply::kStop); }
  void CapacityChanged() override;

  void AwaitStarted(const model::AttemptKey& key);
  model::Outcome AwaitEnded(const model::AttemptKey& key);
  void AwaitCapacity(int changes);
  /// How often it was told.
  int starts(const model::AttemptKey& key) const;
  int ends(const model::AttemptKey& key) const;
  int capacity_changes() const;

 private:
  void Await(const std::function<bool()>& holds);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<model::AttemptKey, int> started_;
  std::map<model::AttemptKey, std::vector<model::Outcome>> ended_;
  int capacity_changes_ = 0;
};

/// One executor under test, not yet started, and tasks that it can run.
class Harness {
 public:
  virtual ~Harness() = default;
  virtual Executor& executor() = 0;
  /// Takes up to `Capacity::max` attempts at once; few, because the suite fills it.
  virtual model::Task Succeeds() = 0;
  /// Ends in kRetry.
  virtual model::Task Fails() = 0;
  /// Runs until it is stopped, and stops when it is asked to.
  virtual model::Task Waits() = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
};
inline void PrintTo(const Kind& kind, std::ostream* os) { *os << kind.name; }

/// The first attempt of a run of a workflow of one task.
Attempt AttemptOf(model::Task task, std::int64_t epoch);

class Conformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override;
  /// Drains what a test left, while its sink is there.
  void TearDown() override;

  Executor& executor() { return harness_->executor(); }
  Attempt Next(model::Task task) { return AttemptOf(std::move(task), ++epochs_); }
  /// One that runs until it is stopped.
  Attempt Wait();
  void Offer(const Attempt& attempt);
  Inspection Inspect(const Attempt& attempt);

  Sink sink_;
  std::unique_ptr<Harness> harness_;
  std::int64_t epochs_ = 0;
};

}  // namespace headworks::executor::conformance
