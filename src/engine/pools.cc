#include "headworks/engine/pools.h"

#include <algorithm>
#include <utility>

namespace headworks::engine {

void Pools::Load(std::span<const store::Permit> held) {
  for (const store::Permit& permit : held) {
    const auto pool = pools_.try_emplace({permit.tenant.value, permit.pool}).first;
    pool->second.used += permit.weight;
    used_ += permit.weight;
    held_.insert_or_assign({permit.run, permit.epoch}, Holding{pool, permit.task, permit.weight});
  }
}

void Pools::SetLimits(const TenantId& tenant, std::span<const store::PoolRecord> pools,
                      Duration now) {
  for (auto pool = pools_.lower_bound({tenant.value, {}});
       pool != pools_.end() && pool->first.first == tenant.value;) {
    const auto here = pool++;
    if (std::ranges::find(pools, here->first.second, &store::PoolRecord::name) != pools.end())
      continue;
    SetLimit(here, 0);
    if (here->second.idle()) pools_.erase(here);
  }
  for (const store::PoolRecord& record : pools)
    SetLimit(pools_.try_emplace({tenant.value, record.name}).first, record.limit);
  read_at_.insert_or_assign(tenant.value, now);
}

void Pools::SetLimit(Pooled::iterator at, int limit) {
  Pool& pool = at->second;
  if (pool.limit == limit) return;
  Changed(at);
  pool.limit = limit;
  aside_ -= pool.aside.size();
  auto asks = std::exchange(pool.line, {});
  asks.merge(std::exchange(pool.aside, {}));
  while (!asks.empty()) {
    auto ask = asks.extract(asks.begin());
    auto& line = pool.LineOf(ask.mapped().weight);
    line.insert(line.end(), std::move(ask));
  }
  aside_ += pool.aside.size();
}

void Pools::Changed(Pooled::iterator pool) {
  if (!std::exchange(pool->second.changed, true)) changed_.push_back(pool);
}

void Pools::SetDue(Pooled::iterator pool, std::optional<Duration> due) {
  std::optional<Duration>& now = pool->second.due;
  if (now == due) return;
  if (now) due_.erase({*now, pool->first});
  now = due;
  if (now) due_.emplace(*now, pool->first);
}

bool Pools::IsFresh(const TenantId& tenant, Duration now) const {
  const auto read = read_at_.find(tenant.value);
  return read != read_at_.end() && now < read->second + kFresh;
}

std::vector<TenantId> Pools::Stale(Duration now) const {
  std::vector<TenantId> tenants;
  for (const auto& [tenant, asks] : waiting_)
    if (!IsFresh(TenantId(tenant), now)) tenants.emplace_back(tenant);
  return tenants;
}

bool Pools::GaveUp(const Ask& ask, Duration now) {
  return ask.reserved_at && now >= *ask.reserved_at + kReserved;
}

bool Pools::MayTake(const PermitAsk& ask, Duration now) const {
  const auto found = pools_.find({ask.tenant.value, ask.pool});
  if (found == pools_.end()) return false;
  const Pool& pool = found->second;
  std::int64_t left = pool.free();
  if (ask.weight > left) return false;
  const Place mine = PlaceOf(ask.ready);
  for (const auto& [place, before] : pool.line) {
    if (place >= mine) break;
    if (GaveUp(before, now)) continue;
    left -= before.weight;
    if (ask.weight > left) return false;
  }
  return true;
}

void Pools::Wait(const PermitAsk& ask) {
  Forget(ask.ready.run, ask.ready.task);
  const auto pool = pools_.try_emplace({ask.tenant.value, ask.pool}).first;
  const Place place = PlaceOf(ask.ready);
  auto& line = pool->second.LineOf(ask.weight);
  if (&line == &pool->second.aside) ++aside_;
  line.insert_or_assign(place, Ask{ask.weight, ask.ready, std::nullopt});
  asks_.insert_or_assign({ask.ready.run, ask.ready.task}, Standing{pool, place});
  ++waiting_[ask.tenant.value];
  Changed(pool);
}

void Pools::Take(const TenantId& tenant, const std::string& pool, int weight, RunNo run,
                 TaskNo task, Epoch epoch) {
  Forget(run, task);
  const auto from = pools_.try_emplace({tenant.value, pool}).first;
  from->second.delta += weight;
  taken_.push_back({{run, epoch}, {from, task, weight}});
}

void Pools::Free(RunNo run, Epoch epoch) {
  const auto holding = held_.find({run, epoch});
  if (holding == held_.end()) return;
  holding->second.pool->second.delta -= holding->second.weight;
  freed_.push_back(holding->first);
  Changed(holding->second.pool);
}

void Pools::BeginRound() {
  for (const auto& [holder, holding] : taken_) {
    holding.pool->second.delta -= holding.weight;
    Changed(holding.pool);
  }
  for (const Holder& holder : freed_) {
    const Holding& holding = held_.at(holder);
    holding.pool->second.delta += holding.weight;
  }
  taken_.clear();
  freed_.clear();
}

void Pools::Committed() {
  for (const Holder& holder : freed_) {
    const auto holding = held_.find(holder);
    holding->second.pool->second.delta += holding->second.weight;
    holding->second.pool->second.used -= holding->second.weight;
    used_ -= holding->second.weight;
    held_.erase(holding);
  }
  for (const auto& [holder, holding] : taken_) {
    holding.pool->second.delta -= holding.weight;
    holding.pool->second.used += holding.weight;
    used_ += holding.weight;
    held_.insert_or_assign(holder, holding);
  }
  taken_.clear();
  freed_.clear();
}

void Pools::Erase(std::map<std::pair<RunNo, TaskNo>, Standing>::iterator ask) {
  Pool& pool = ask->second.pool->second;
  if (pool.line.erase(ask->second.place) + pool.passed.erase(ask->second.place) == 0)
    aside_ -= pool.aside.erase(ask->second.place);
  Changed(ask->second.pool);
  const auto waiting = waiting_.find(ask->second.pool->first.first);
  if (--waiting->second == 0) waiting_.erase(waiting);
  asks_.erase(ask);
}

void Pools::Forget(RunNo run, TaskNo task) {
  if (const auto ask = asks_.find({run, task}); ask != asks_.end()) Erase(ask);
}

void Pools::Forget(RunNo run) {
  for (auto ask = asks_.lower_bound({run, TaskNo(0)});
       ask != asks_.end() && ask->first.first == run;)
    Erase(ask++);
}

bool Pools::IsWaiting(RunNo run) const {
  const auto ask = asks_.lower_bound({run, TaskNo(0)});
  return ask != asks_.end() && ask->first.first == run;
}

std::vector<store::Permit> Pools::Held() const {
  std::vector<store::Permit> permits;
  permits.reserve(held_.size());
  for (const auto& [holder, holding] : held_)
    permits.push_back({.tenant = TenantId(holding.pool->first.first),
                       .pool = holding.pool->first.second,
                       .run = holder.first,
                       .epoch = holder.second,
                       .task = holding.task,
                       .weight = holding.weight});
  return permits;
}

std::vector<PoolStats> Pools::Figures() const {
  std::vector<PoolStats> figures;
  figures.reserve(pools_.size());
  for (const auto& [key, pool] : pools_)
    figures.push_back({.tenant = key.first,
                       .pool = key.second,
                       .limit = static_cast<std::uint64_t>(pool.limit),
                       .held = static_cast<std::uint64_t>(pool.used),
                       .waiting = pool.line.size() + pool.aside.size() + pool.passed.size()});
  return figures;
}

std::vector<PermitAsk> Pools::Reserve(Duration now) {
  std::vector<PermitAsk> reserved;
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto pool = pools_.find(due_.begin()->second);
    SetDue(pool, std::nullopt);
    Changed(pool);
  }
  for (const auto pool : std::exchange(changed_, {})) {
    pool->second.changed = false;
    Reserve(pool, now, reserved);
  }
  return reserved;
}

void Pools::Reserve(Pooled::iterator at, Duration now, std::vector<PermitAsk>& reserved) {
  ++looks_;
  Pool& pool = at->second;
  std::optional<Duration> due;
  std::int64_t left = pool.free();
  for (auto next = pool.line.begin(); next != pool.line.end() && left > 0;) {
    const auto here = next++;
    Ask& ask = here->second;
    if (GaveUp(ask, now)) {
      pool.passed.insert(pool.line.extract(here));
      continue;
    }
    if (ask.weight > left) break;  // what is free is saved up for this one
    left -= ask.weight;
    if (!ask.reserved_at) {
      ask.reserved_at = now;
      reserved.push_back({TenantId(at->first.first), at->first.second, ask.weight, ask.ready});
    }
    due = std::min(due.value_or(Duration::max()), *ask.reserved_at + kReserved);
  }
  SetDue(at, due);
}

}  // namespace headworks::engine
