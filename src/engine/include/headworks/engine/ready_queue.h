#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"

namespace headworks::engine {

/// How ready tasks are ordered.
struct ReadyOrder {
  /// Tasks that a tenant may queue in its turn; 1 for tenants that are not named.
  std::map<std::string, std::uint32_t, std::less<>> tenant_weights;
  /// Waiting so long counts as much as one step of priority.  Zero: it counts for nothing.
  Duration ageing = std::chrono::minutes(1);
};

struct ReadyTask {
  std::int64_t rank = 0;    // smaller = earlier
  std::uint64_t order = 0;  // among equals
  RunNo run;
  TaskNo task;
  bool operator<(const ReadyTask& other) const {
    return rank != other.rank ? rank > other.rank : order > other.order;
  }
};

/// Ready tasks of a lane that wait for credit.  Tenants take turns, each for as many tasks as it
/// weighs (deficit round-robin; every task costs one).  Within a tenant the highest priority comes
/// first, to which waiting adds, then the oldest.
///
/// Where the lane has lines, those of a tenant that have no credit are passed over.  A turn looks
/// at each line of its tenant that has some.
class ReadyQueue {
 public:
  using HasCredit = std::function<bool(const std::string& tenant, const std::string& line)>;

  /// `order` is borrowed.
  explicit ReadyQueue(const ReadyOrder& order) : order_(&order) {}

  /// Of a task that became ready at `since` of the monotonic clock.  Priority grows with time at
  /// the same rate for all, so their order among themselves is known at once.
  std::int64_t Rank(int priority, Duration since) const;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void Push(const TenantId& tenant, const ReadyTask& task);
  ReadyTask Pop();

  /// For lanes with lines, in place of the above.
  void PushToLine(const TenantId& tenant, const std::string& line, const ReadyTask& task);
  /// The next one whose line has credit; nullopt: there is none.  A line that has none is not asked
  /// about again until Reopen.
  std::optional<ReadyTask> PopFromLines(const HasCredit& has_credit);
  void Reopen();

 private:
  using Tasks = std::priority_queue<ReadyTask>;
  struct Line {
    Tasks ready;
    bool closed = false;  // it had no credit
  };
  struct Tenant {
    std::uint32_t weight = 1;
    std::uint32_t left = 1;  // of its turn
    Tasks ready;
    std::map<std::string, Line> lines = {};  // those with ready tasks; then `ready` is empty
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  Tenant& TenantOf(const TenantId& tenant);
  ReadyTask Take(Tasks& ready);
  /// One of its tasks was taken: the next has its turn if this one's is over.
  void TookTurn(Tenants::iterator tenant);

  const ReadyOrder* order_;
  Tenants tenants_;  // those with ready tasks
  std::deque<Tenants::iterator> turns_;
  std::vector<Line*> closed_;
  std::vector<Tenants::iterator> passed_over_;  // all of their lines are closed: not in turns_
  std::size_t size_ = 0;
};

}  // namespace headworks::engine
