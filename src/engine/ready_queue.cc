#include "headworks/engine/ready_queue.h"

#include <algorithm>

namespace headworks::engine {

std::int64_t ReadyQueue::Rank(int priority, Duration since) const {
  if (order_->ageing <= Duration(0)) return -priority;
  constexpr Duration kLongest = std::chrono::hours(24 * 365);  // so that no product overflows
  return since.count() - priority * std::min(order_->ageing, kLongest).count();
}

void ReadyQueue::Push(const TenantId& tenant, const ReadyTask& task) {
  const auto [found, added] = tenants_.try_emplace(tenant.value);
  if (added) {
    const auto weight = order_->tenant_weights.find(tenant.value);
    if (weight != order_->tenant_weights.end()) found->second.weight = weight->second;
    found->second.left = found->second.weight;
    turns_.push_back(found);
  }
  found->second.ready.push(task);
  ++size_;
}

ReadyTask ReadyQueue::Pop() {
  const auto now = turns_.front();
  Tenant& tenant = now->second;
  const ReadyTask task = tenant.ready.top();
  tenant.ready.pop();
  --size_;
  const bool empty = tenant.ready.empty();
  if (empty || --tenant.left == 0) {
    turns_.pop_front();
    tenant.left = tenant.weight;
    if (empty)
      tenants_.erase(now);
    else
      turns_.push_back(now);
  }
  return task;
}

}  // namespace headworks::engine
