#include "headworks/engine/due_tenants.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace headworks::engine {
namespace {

using Place = DueTenants::Place;

auto OrderOf(const Place& place) { return std::tuple(place.wake_at, -place.priority, place.run); }

/// Behind all that wait for nothing.
Place FirstWoken() { return {Instant{}, -std::numeric_limits<int>::max(), RunNo(0)}; }

}  // namespace

Place DueTenants::PlaceOf(const model::RunHeader& run) {
  return {std::max(run.wake_at, Instant{}), run.priority, run.run_no};
}

void DueTenants::List::ReadFrom(const Place& place) {
  if (!open) {
    open = true;
    after = place;
  } else if (OrderOf(place) < OrderOf(after)) {
    again = !again || OrderOf(place) < OrderOf(*again) ? place : *again;
  }
}

DueTenants::Tenant& DueTenants::TenantOf(const TenantId& tenant) {
  const auto [found, added] = tenants_.try_emplace(tenant);
  if (added) {
    const auto weight = weights_->find(tenant.value);
    if (weight != weights_->end()) found->second.weight = weight->second;
    weight_ += found->second.weight;
    turns_.push_back(found);
  }
  return found->second;
}

void DueTenants::AddAll(const TenantId& tenant, Instant until) {
  AddWoken(tenant, until);
  TenantOf(tenant).pending.ReadFrom(Place{});
}

void DueTenants::AddPending(const model::RunHeader& run) {
  Place before = PlaceOf(run);
  --before.run.value;
  TenantOf(run.tenant).pending.ReadFrom(before);
}

void DueTenants::AddWoken(const TenantId& tenant, Instant until) {
  List& woken = TenantOf(tenant).woken;
  woken.until = woken.open ? std::max(woken.until, until) : until;
  woken.ReadFrom(FirstWoken());
}

void DueTenants::ShareOut(std::size_t rows, std::size_t room) {
  share_ = std::max<std::size_t>(std::min(rows, room) / std::max<std::size_t>(weight_, 1), 1);
  if (turns_.empty()) return;
  Tenant& now = turns_.front()->second;  // it may have begun when there was more
  now.left = std::min(now.left, now.weight * share_);
}

DueTenants::Page DueTenants::Next(std::size_t rows, std::size_t room) {
  auto& [id, tenant] = *turns_.front();
  if (tenant.left == 0) tenant.left = tenant.weight * share_;
  tenant.progress = false;
  const List& list = tenant.list();
  // Where many are passed over, ever more are read at once.
  const std::size_t wanted = std::max(std::min(tenant.left, room), 2 * tenant.skipped);
  return {id, list.until, list.after, std::min(rows, wanted)};
}

bool DueTenants::Passed(const Place& place, bool admitted) {
  Tenant& tenant = turns_.front()->second;
  tenant.list().after = place;
  tenant.skipped = admitted ? 0 : tenant.skipped + 1;
  tenant.progress |= admitted;
  if (admitted) --tenant.left;
  return tenant.left > 0;
}

void DueTenants::PageOver(bool complete) {
  const auto now = turns_.front();
  Tenant& tenant = now->second;
  if (complete) {
    List& list = tenant.list();
    list.open = list.again.has_value();
    if (list.again) list.after = *std::exchange(list.again, std::nullopt);
    tenant.skipped = 0;
  }
  const bool over = !tenant.woken.open && !tenant.pending.open;
  if (!over && tenant.left > 0 && (tenant.progress || complete)) return;
  turns_.pop_front();
  tenant.left = 0;
  if (!over) return turns_.push_back(now);
  weight_ -= tenant.weight;
  tenants_.erase(now);
}

}  // namespace headworks::engine
