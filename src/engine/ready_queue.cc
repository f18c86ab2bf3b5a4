#include "headworks/engine/ready_queue.h"

#include <algorithm>

namespace headworks::engine {

std::int64_t ReadyQueue::Rank(int priority, Duration since) const {
  if (order_->ageing <= Duration(0)) return -priority;
  constexpr Duration kLongest = std::chrono::hours(24 * 365);  // so that no product overflows
  return since.count() - priority * std::min(order_->ageing, kLongest).count();
}

ReadyQueue::Tenant& ReadyQueue::TenantOf(const TenantId& tenant) {
  const auto [found, added] = tenants_.try_emplace(tenant.value);
  if (added) {
    const auto weight = order_->tenant_weights.find(tenant.value);
    if (weight != order_->tenant_weights.end()) found->second.weight = weight->second;
    found->second.left = found->second.weight;
    turns_.push_back(found);
  }
  ++size_;
  return found->second;
}

void ReadyQueue::Push(const TenantId& tenant, const ReadyTask& task) {
  TenantOf(tenant).ready.push(task);
}

void ReadyQueue::PushToLine(const TenantId& tenant, const std::string& line,
                            const ReadyTask& task) {
  TenantOf(tenant).lines[line].ready.push(task);
}

ReadyTask ReadyQueue::Take(Tasks& ready) {
  const ReadyTask task = ready.top();
  ready.pop();
  --size_;
  return task;
}

void ReadyQueue::TookTurn(Tenants::iterator tenant) {
  const bool empty = tenant->second.ready.empty() && tenant->second.lines.empty();
  if (!empty && --tenant->second.left > 0) return;
  turns_.pop_front();
  tenant->second.left = tenant->second.weight;
  if (empty)
    tenants_.erase(tenant);
  else
    turns_.push_back(tenant);
}

ReadyTask ReadyQueue::Pop() {
  const auto now = turns_.front();
  const ReadyTask task = Take(now->second.ready);
  TookTurn(now);
  return task;
}

std::optional<ReadyTask> ReadyQueue::PopFromLines(const HasCredit& has_credit) {
  while (!turns_.empty()) {
    const auto now = turns_.front();
    auto& lines = now->second.lines;
    auto next = lines.end();
    for (auto line = lines.begin(); line != lines.end(); ++line)
      if (!line->second.closed &&
          (next == lines.end() || next->second.ready.top() < line->second.ready.top()))
        next = line;
    if (next == lines.end()) {
      now->second.left = now->second.weight;
      passed_over_.push_back(now);
      turns_.pop_front();
    } else if (!has_credit(now->first, next->first)) {
      next->second.closed = true;
      closed_.push_back(&next->second);
    } else {
      const ReadyTask task = Take(next->second.ready);
      if (next->second.ready.empty()) lines.erase(next);
      TookTurn(now);
      return task;
    }
  }
  return std::nullopt;
}

void ReadyQueue::Reopen() {
  for (Line* const line : closed_) line->closed = false;
  closed_.clear();
  turns_.insert(turns_.end(), passed_over_.begin(), passed_over_.end());
  passed_over_.clear();
}

}  // namespace headworks::engine
