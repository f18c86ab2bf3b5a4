#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"
#include "headworks/model/run.h"
#include "headworks/model/step.h"
#include "headworks/store/run_store.h"
#include "headworks/task_queue/task_queue.h"

/// What people are told without asking: what failed for good, so that nothing happens by itself any
/// more.  An alert is an item of a durable queue of the tenant that it is about (I13).
namespace headworks::alert {

/// Where alerts wait for the command.
inline constexpr char kCommandQueue[] = "headworks-alerts";
/// A command that fails is run again after these, doubled from the first to the longest ...
inline constexpr Duration kFirstRetry = std::chrono::seconds(1);
inline constexpr Duration kLongestRetry = std::chrono::minutes(5);
/// ... until that long after its first failure the alert is given up.
inline constexpr Duration kGivenUpAfter = std::chrono::hours(24);
constexpr Duration RetryDelay(int attempt) {  // 1-based: the one that failed
  return std::min<Duration>(kFirstRetry * (1 << std::min(attempt - 1, 20)), kLongestRetry);
}
/// How often the command is run for an alert: 296 times.
constexpr int CommandAttempts() {
  int attempts = 1;
  for (Duration waited{}; waited < kGivenUpAfter; waited += RetryDelay(attempts++)) {
  }
  return attempts;
}
inline constexpr int kCommandAttempts = CommandAttempts();
/// Of an attempt's error.
inline constexpr std::size_t kMaxErrorBytes = 1'024;

/// What became known of one thing that failed.  The same thing has the same id and payload.
struct Alert {
  TenantId tenant;
  /// "dead_letter:mail:17-42": what it is, and of what.
  std::string id;
  /// JSON object; docs/alerts.md lists the members.
  std::string payload;
};

/// An item that used up its attempts.
Alert OfDeadItem(const TenantId& tenant, std::string_view queue,
                 const task_queue::ItemRecord& item);
/// A task that is written in a round: none unless it ended failed in it, not by hand, and may not
/// fail.  `last`: its attempt that ended in the same round with a word of its own, if one did.
std::optional<Alert> OfTask(const model::RunHeader& run, const model::Task& task,
                            const model::StoredTask& row, const model::AttemptRecord* last);
/// A run that was set aside as stuck.
Alert OfStuckRun(const model::RunHeader& run);
/// One that somebody asked for; `id` makes it another each time.
Alert OfTest(const TenantId& tenant, std::string_view id, std::string_view actor, Instant at);

inline constexpr std::string_view kDeadLetter = "dead_letter";
inline constexpr std::string_view kTaskFailed = "task_failed";
inline constexpr std::string_view kRunStuck = "run_stuck";
inline constexpr std::string_view kTest = "test";
/// What an alert is about, which its id begins with: one of these.
std::string_view KindOf(std::string_view id);

/// kInvalidArgument: no queue of alerts can be called so.  Empty is none, and passes.
Status CheckQueue(std::string_view queue);
/// The queues that alerts go to.
std::vector<std::string> QueuesOf(bool has_command, const std::string& queue);
/// Deliveries of an alert in `queue`; 0 = the queue's own.
int AttemptsIn(std::string_view queue);
/// Adds them to a round, for each of `queues` in turn: a store takes those of one queue at once.
void AddItems(std::span<const Alert> alerts, std::span<const std::string> queues,
              std::vector<store::QueuedItem>& items);

}  // namespace headworks::alert
