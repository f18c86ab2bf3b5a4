#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headworks/alert/alert.h"
#include "headworks/alert/commands.h"
#include "headworks/base/log.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"

namespace headworks::alert {

/// Takes alerts to the command: one at a time, and in sum where many wait, tenants in turn.
///
/// What it takes is under a short lease that is prolonged while the command runs, so the next
/// engine has it soon after this one died.  A command that fails is tried again, later each time,
/// while other alerts go first, for a day; then the alert is a dead item, and logged.
///
/// Threads.  One, but for `wake`, which is called on any.
class Courier {
 public:
  static constexpr Duration kLease = std::chrono::seconds(10);
  static constexpr Duration kExtend = std::chrono::seconds(3);
  /// Where more wait, one command is told of up to kMaxBatch of them, and given the first so many.
  static constexpr std::int64_t kFew = 10;
  /// An empty queue is asked again after that, if nothing changes it before.
  static constexpr Duration kLongestRest = std::chrono::minutes(1);

  Courier(task_queue::Queues& queues, Commands& commands, Clock& clock, Logger& log,
          std::function<void()> wake)
      : queues_(queues), commands_(commands), clock_(clock), log_(log), wake_(std::move(wake)) {}

  /// Settles what has ended, or begins the next; `all`: what the survey lists.  Errors are of the
  /// store; then it is to be called again.
  Status Tick(std::span<const task_queue::TenantQueue> all);
  /// A command runs, or has ended and is not settled.
  bool busy() const { return delivery_.has_value(); }
  /// Stops the command, if one runs, and hands back what it was told of.
  Status Stop();

  struct Figures {
    std::uint64_t succeeded = 0, failed = 0, given_up = 0;
  };
  Figures figures() const { return {succeeded_, failed_, given_up_}; }

 private:
  struct Delivery {
    TenantId tenant;
    std::vector<task_queue::ClaimedItem> items;
    Duration extend_at{};
  };
  /// How an empty queue stood when it was asked, and when it is worth asking again.
  struct Rest {
    std::int64_t pending = 0, processing = 0, enqueued = 0;
    Duration until{};
  };
  /// Shared with the command's end, which may come when the courier is gone.
  struct Mail {
    std::mutex mutex;
    std::optional<CommandEnd> end;
  };

  Status Next(std::span<const task_queue::TenantQueue> all);
  /// True if it took something.
  Result<bool> Take(const task_queue::TenantQueue& queue);
  Status Finish(const CommandEnd& end);
  Status Extend();
  void Count(const CommandEnd& end, std::size_t given_up);

  task_queue::Queues& queues_;
  Commands& commands_;
  Clock& clock_;
  Logger& log_;
  const std::function<void()> wake_;
  std::optional<Delivery> delivery_;
  std::optional<CommandEnd> end_;  // of it, not settled yet
  std::shared_ptr<Mail> mail_;     // of it
  std::map<TenantId, Rest> rests_;
  TenantId last_;  // whose turn it was
  std::atomic<std::uint64_t> succeeded_ = 0, failed_ = 0, given_up_ = 0;
};

}  // namespace headworks::alert
