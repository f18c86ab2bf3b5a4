#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>

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
class ReadyQueue {
 public:
  /// `order` is borrowed.
  explicit ReadyQueue(const ReadyOrder& order) : order_(&order) {}

  /// Of a task that became ready at `since` of the monotonic clock.  Priority grows with time at
  /// the same rate for all, so their order among themselves is known at once.
  std::int64_t Rank(int priority, Duration since) const;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void Push(const TenantId& tenant, const ReadyTask& task);
  ReadyTask Pop();

 private:
  struct Tenant {
    std::uint32_t weight = 1;
    std::uint32_t left = 1;  // of its turn
    std::priority_queue<ReadyTask> ready;
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;

  const ReadyOrder* order_;
  Tenants tenants_;  // those with ready tasks
  std::deque<Tenants::iterator> turns_;
  std::size_t size_ = 0;
};

}  // namespace headworks::engine
