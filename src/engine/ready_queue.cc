#include "headworks/engine/ready_queue.h"

#include <algorithm>
#include <utility>

namespace headworks::engine {

std::int64_t ReadyQueue::Rank(int priority, Duration since) const {
  if (order_->ageing <= Duration(0)) return -priority;
  constexpr Duration kLongest = std::chrono::hours(24 * 365);  // so that no product overflows
  return since.count() - priority * std::min(order_->ageing, kLongest).count();
}

ReadyQueue::Tenants::iterator ReadyQueue::TenantOf(const TenantId& tenant) {
  const auto [found, added] = tenants_.try_emplace(tenant.value);
  if (added) {
    const auto weight = order_->tenant_weights.find(tenant.value);
    if (weight != order_->tenant_weights.end()) found->second.weight = weight->second;
    found->second.left = found->second.weight;
    turns_.push_back(found);
  }
  ++size_;
  return found;
}

void ReadyQueue::Push(const TenantId& tenant, const ReadyTask& task) {
  TenantOf(tenant)->second.ready.push(task);
}

void ReadyQueue::PushToLine(const TenantId& tenant, const std::string& line,
                            const ReadyTask& task) {
  const auto at = TenantOf(tenant);
  Tenant& own = at->second;
  const auto here = own.lines.try_emplace(line).first;
  Line& its = here->second;
  if (!its.closed && !its.ready.empty() && its.ready.top() < task)
    own.open.erase({its.ready.top(), here});
  its.ready.push(task);
  if (its.closed) return;
  own.open.insert({its.ready.top(), here});
  if (!own.passed_over || !own.idle) return;
  own.passed_over = false;
  own.resumed = true;
  turns_.push_back(at);
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
  if (empty) {
    if (tenant->second.resumed) std::erase(passed_over_, tenant);
    tenants_.erase(tenant);
  } else {
    turns_.push_back(tenant);
  }
}

ReadyTask ReadyQueue::Pop() {
  const auto now = turns_.front();
  const ReadyTask task = Take(now->second.ready);
  TookTurn(now);
  return task;
}

std::optional<ReadyTask> ReadyQueue::PopFromLines(const GetCredit& get_credit) {
  while (!turns_.empty()) {
    const auto now = turns_.front();
    Tenant& tenant = now->second;
    const bool cut = !tenant.open.empty() && tenant.asked >= kMostClosed;
    cut_ |= cut;
    Credit credit = Credit::kNotThisTenant;
    if (!tenant.open.empty() && !cut)
      credit = get_credit(now->first, tenant.open.begin()->line->first);
    if (credit == Credit::kNotThisTenant) {
      tenant.left = tenant.weight;
      tenant.passed_over = true;
      tenant.idle = tenant.open.empty();
      passed_over_.push_back(now);
      turns_.pop_front();
      continue;
    }
    const auto line = tenant.open.extract(tenant.open.begin()).value().line;
    if (credit == Credit::kNotThisLine) {
      line->second.closed = true;
      if (tenant.closed.empty()) closed_.push_back(now);
      tenant.closed.push_back(line);
      ++tenant.asked;
      continue;
    }
    const ReadyTask task = Take(line->second.ready);
    if (line->second.ready.empty())
      tenant.lines.erase(line);
    else
      tenant.open.insert({line->second.ready.top(), line});
    TookTurn(now);
    return task;
  }
  return std::nullopt;
}

void ReadyQueue::Reopen() {
  std::erase_if(closed_, [](const Tenants::iterator& at) {
    Tenant& tenant = at->second;
    if (std::exchange(tenant.asked, 0) >= kMostClosed && !tenant.open.empty()) return false;
    for (const auto line : std::exchange(tenant.closed, {})) {
      line->second.closed = false;
      tenant.open.insert({line->second.ready.top(), line});
    }
    return true;
  });
  for (const auto at : std::exchange(passed_over_, {})) {
    at->second.resumed = false;
    if (std::exchange(at->second.passed_over, false)) turns_.push_back(at);
  }
  cut_ = false;
}

}  // namespace headworks::engine
