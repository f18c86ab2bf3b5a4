#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "headworks/base/time.h"
#include "headworks/store/run_store.h"
#include "headworks/store/worker_store.h"
#include "headworks/task_queue/queues.h"

/// One suite for every store.  An adapter's test links `headworks_store_conformance` and says
///
///   INSTANTIATE_TEST_SUITE_P(Memory, Conformance, testing::Values(Store{"Memory", MakeHarness}));
namespace headworks::store::conformance {

/// A clock that stands still until it is told to go on.
class ManualClock final : public Clock {
 public:
  Instant Now() override { return Instant(Duration(1'700'000'000'000'000) + elapsed_.load()); }
  Duration Monotonic() override { return elapsed_; }
  void Advance(Duration by) { elapsed_ = elapsed_.load() + by; }

 private:
  std::atomic<Duration> elapsed_{std::chrono::hours(1)};
};

/// One store under test, with its disk.
class Harness {
 public:
  virtual ~Harness() = default;
  /// The open database; dangling after CrashAndReopen.
  virtual Database& db() = 0;
  /// Of the same database.
  virtual WorkerStore& workers() = 0;
  virtual task_queue::Queues& queues() = 0;
  /// Drops the database as a kill would, and opens it again on the same disk.
  virtual void CrashAndReopen() = 0;

  ManualClock clock;
};

struct Store {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
};
inline void PrintTo(const Store& store, std::ostream* os) { *os << store.name; }

class Conformance : public testing::TestWithParam<Store> {
 protected:
  void SetUp() override { harness_ = GetParam().make(); }

  RunStore& runs() { return harness_->db().runs(); }
  Inbox& inbox() { return harness_->db().inbox(); }
  RunQuery& query() { return harness_->db().query(); }
  WorkflowStore& workflows() { return harness_->db().workflows(); }
  LimitStore& limits() { return harness_->db().limits(); }
  WorkerStore& workers() { return harness_->workers(); }
  task_queue::Queues& queues() { return harness_->queues(); }

  /// Acquires `kShard` and keeps the guard.
  void Own();
  /// A round of `kShard` that follows the last one committed through Commit.
  Round NextRound() const;
  /// Commits and, if that succeeded, moves the guard on.
  Status Commit(const Round& round);
  Status Commit(RunWrite write);

  std::unique_ptr<Harness> harness_;
  Guard guard_;
};

}  // namespace headworks::store::conformance
