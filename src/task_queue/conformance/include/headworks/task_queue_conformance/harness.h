#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"

/// One suite for every adapter.  Its test links `headworks_task_queue_conformance` and says
///
///   INSTANTIATE_TEST_SUITE_P(Memory, QueueConformance,
///                            testing::Values(Adapter{"Memory", MakeHarness}));
namespace headworks::task_queue::conformance {

/// A clock that stands still until it is told to go on; its wall time can jump.
class ManualClock final : public Clock {
 public:
  Instant Now() override {
    return Instant(Duration(1'700'000'000'000'000)) + elapsed_.load() + jump_.load();
  }
  Duration Monotonic() override { return std::chrono::hours(1) + elapsed_.load(); }
  void Advance(Duration by) { elapsed_ = elapsed_.load() + by; }
  void JumpWall(Duration by) { jump_ = jump_.load() + by; }

 private:
  std::atomic<Duration> elapsed_{};
  std::atomic<Duration> jump_{};
};

/// One adapter under test, with its disk.
class Harness {
 public:
  virtual ~Harness() = default;
  /// Of the open database; dangling after CrashAndReopen.
  virtual Queues& queues() = 0;
  /// Drops the database as a kill would, and opens it again on the same disk.
  virtual void CrashAndReopen() = 0;

  ManualClock clock;
};

struct Adapter {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
};
inline void PrintTo(const Adapter& adapter, std::ostream* os) { *os << adapter.name; }

inline const TenantId kTenant{"acme"};
inline const TenantId kOtherTenant{"zeta"};

/// "ok", or the name of its error's code.
template <typename T>
std::string CodeOf(const Result<T>& result) {
  return result ? "ok" : std::string(CodeName(result.error().code));
}

// Every field, in one line, so that a difference shows itself.
std::string Text(const ItemRecord& item);
std::string Text(const QueueRecord& record);
std::string Text(const QueueSettings& settings);
std::string Text(const Polled& polled);

class QueueConformance : public testing::TestWithParam<Adapter> {
 protected:
  void SetUp() override { harness_ = GetParam().make(); }

  TaskQueue& tasks() { return harness_->queues().tasks(); }
  QueueAdmin& admin() { return harness_->queues().admin(); }
  QueueSurvey& survey() { return harness_->queues().survey(); }
  ManualClock& clock() { return harness_->clock; }

  Result<Enqueued> Push(NewItem item, const std::string& queue = "q",
                        const TenantId& tenant = kTenant);
  Result<Enqueued> Push(const std::string& id) { return Push({.id = id, .payload = "{}"}); }
  /// Ids of what a poll gets, in its order; the claims are in `claims_` by id.
  std::vector<std::string> Poll(std::size_t max = 100, const std::string& queue = "q");
  Claim ClaimOf(const std::string& id) const;
  /// Code of the item's answer, or the state that the item is in.
  std::string Settle(Claim claim, Settlement::Kind kind, std::string reason = "",
                     std::optional<Duration> delay = std::nullopt);
  std::string Ack(const std::string& id) { return Settle(ClaimOf(id), Settlement::Kind::kAck); }
  std::string Nack(const std::string& id, std::string reason = "bad",
                   std::optional<Duration> delay = Duration()) {
    return Settle(ClaimOf(id), Settlement::Kind::kNack, std::move(reason), delay);
  }
  std::string HandBack(const std::string& id) {
    return Settle(ClaimOf(id), Settlement::Kind::kHandBack);
  }
  std::string Extend(Claim claim, Duration visibility = {});
  ItemRecord Item(const std::string& id);
  QueueRecord Queue();
  /// Pushes, polls and nacks so that it is dead.
  void MakeDead(const std::string& id, const std::string& reason = "bad");

  std::unique_ptr<Harness> harness_;
  std::vector<ClaimedItem> claimed_;
};

}  // namespace headworks::task_queue::conformance

/// Expects success and shows the error's message otherwise.
#define QUEUE_EXPECT_OK(expression)                                               \
  do {                                                                            \
    const auto& expect_ok_result = (expression);                                  \
    EXPECT_TRUE(expect_ok_result.has_value())                                     \
        << #expression << ": "                                                    \
        << (expect_ok_result ? std::string() : expect_ok_result.error().message); \
  } while (false)
#define QUEUE_EXPECT_CODE(expression, expected)                       \
  EXPECT_EQ(::headworks::task_queue::conformance::CodeOf(expression), \
            ::headworks::CodeName(::headworks::Code::expected))       \
      << #expression
