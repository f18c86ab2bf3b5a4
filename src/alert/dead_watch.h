#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "headworks/alert/alert.h"
#include "headworks/task_queue/queues.h"

namespace headworks::alert {

/// Writes an alert into one queue of alerts for each item that dies, in whatever process.  So a
/// queue of alerts that is full keeps no other from its own.
///
/// Nothing stored says how far it came: an item whose alert has a known id was alerted.  So the
/// first look at a queue goes over all its dead items, and the queues of alerts remember ids for as
/// long as dead items are kept.  From then on only what died since is read.
///
/// Threads.  One.
/// Bounds.  A look goes over kMostAtOnce items at most.
class DeadWatch {
 public:
  static constexpr std::size_t kMostAtOnce = 10'000;

  /// `targets`: all queues of alerts; `target`: the one that this watch writes into.
  DeadWatch(task_queue::Queues& queues, std::vector<std::string> targets, std::string target)
      : queues_(queues), targets_(std::move(targets)), target_(std::move(target)) {}

  struct Looked {
    std::uint64_t written = 0;
    /// The bound was reached: look again at once.
    bool more = false;
    /// The first error; each leaves the rest of its queue to the next look.
    Status trouble;
  };
  /// `all`: what the survey lists.
  Looked Look(std::span<const task_queue::TenantQueue> all);

 private:
  using Key = std::pair<TenantId, std::string>;
  /// How far a queue was looked through.
  struct Seen {
    /// failed, dead, enqueued: as long as they stay, nothing died.
    std::optional<std::tuple<std::int64_t, std::int64_t, std::int64_t>> figures;
    /// When the last one died, and those that died at that time.
    Instant last = Instant::min();
    std::set<task_queue::Claim> at_last{};
    /// Within a look that was cut short.
    std::optional<task_queue::QueueSurvey::DeadAfter> resume{};
  };

  bool IsTarget(const std::string& queue) const;
  Status LookAt(const task_queue::TenantQueue& queue, Seen& seen, std::size_t& budget,
                std::uint64_t& written);
  Status Write(const task_queue::TenantQueue& queue, const std::vector<Alert>& alerts,
               bool may_be_known, std::uint64_t& written);
  /// Makes the queue of alerts, if there is none, or none any more.
  Status KeepIds(const TenantId& tenant, Duration window);

  task_queue::Queues& queues_;
  const std::vector<std::string> targets_;
  const std::string target_;
  std::map<Key, Seen> seen_;
};

}  // namespace headworks::alert
