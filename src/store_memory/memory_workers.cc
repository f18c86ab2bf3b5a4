#include "memory_workers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "headworks/store/checks.h"

namespace headworks::store_memory {
namespace {

using store::WorkerOrder;
using store::WorkerPresence;
using store::WorkerRecord;

template <typename T>  // WorkerRecord, WorkerOrder
WorkerKey KeyOf(const T& of) {
  return {of.tenant, of.name, of.incarnation};
}

bool IsGone(const WorkerRecord& worker) { return worker.presence == WorkerPresence::kGone; }

class MemoryWorkers final : public store::WorkerStore {
 public:
  explicit MemoryWorkers(std::shared_ptr<Storage> storage)
      : storage_(std::move(storage)), s_(*storage_) {}

  Status WriteWorkers(std::span<const WorkerRecord> workers, Instant now) override {
    HEADWORKS_TRY(store::CheckWorkers(workers));
    const std::lock_guard lock(s_.mutex);
    std::set<TenantId> left;
    for (const WorkerRecord& worker : workers) {
      s_.workers.insert_or_assign(KeyOf(worker), worker);
      if (IsGone(worker)) left.insert(worker.tenant);
    }
    const std::size_t over = std::erase_if(s_.workers, [&](const auto& each) {
      return IsGone(each.second) && each.second.gone_at <= now - kGoneTtl;
    });
    bool forgot = workers.empty() || over > 0;
    for (const TenantId& tenant : left) forgot |= ForgetOldest(tenant);
    ++s_.data_version;
    if (!forgot) return {};
    std::erase_if(s_.worker_orders, [&](const auto& each) {
      const auto& [key, order] = each;
      return order.incarnation.empty() ? !order.stands && order.at <= now - kGoneTtl
                                       : !s_.workers.contains(key);
    });
    return {};
  }

  Result<std::vector<WorkerRecord>> ListWorkers(const TenantId& tenant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    const std::lock_guard lock(s_.mutex);
    std::vector<WorkerRecord> workers;
    for (auto at = s_.workers.lower_bound({tenant, "", ""});
         at != s_.workers.end() && at->second.tenant == tenant; ++at)
      workers.push_back(at->second);
    std::ranges::sort(workers, {}, [](const WorkerRecord& worker) {
      return std::tuple(std::string_view(worker.name), worker.connected_at,
                        std::string_view(worker.incarnation));
    });
    return workers;
  }

  Result<std::vector<WorkerRecord>> ListPresent() override {
    const std::lock_guard lock(s_.mutex);
    std::vector<WorkerRecord> workers;
    for (const auto& [key, worker] : s_.workers)
      if (!IsGone(worker)) workers.push_back(worker);
    return workers;
  }

  Status Order(std::span<const WorkerOrder> orders) override {
    HEADWORKS_TRY(store::CheckOrders(orders));
    const std::lock_guard lock(s_.mutex);
    auto changed = s_.worker_orders;
    std::map<TenantId, std::size_t> counts;
    for (const WorkerOrder& order : orders) changed.insert_or_assign(KeyOf(order), order);
    std::map<TenantId, std::vector<std::pair<Instant, WorkerKey>>> over;
    for (const auto& [key, order] : changed) {
      if (order.stands) ++counts[order.tenant];
      if (!order.stands && order.taken) over[order.tenant].emplace_back(order.at, key);
    }
    for (const WorkerOrder& order : orders)
      if (counts[order.tenant] > kMaxOrders) return store::TooManyOrders(order.tenant);
    for (const WorkerOrder& order : orders) {
      auto& old = over[order.tenant];
      std::ranges::sort(old, std::ranges::greater());
      for (; old.size() > kMaxOrders; old.pop_back()) changed.erase(old.back().second);
    }
    s_.worker_orders = std::move(changed);
    ++s_.data_version;
    return {};
  }

  Result<std::vector<WorkerOrder>> ListOrders(const TenantId& tenant) override {
    HEADWORKS_TRY(store::CheckTenant(tenant));
    HEADWORKS_ASSIGN(auto all, ListAllOrders());
    std::erase_if(all, [&](const WorkerOrder& order) { return order.tenant != tenant; });
    return all;
  }

  Result<std::vector<WorkerOrder>> ListAllOrders() override {
    const std::lock_guard lock(s_.mutex);
    std::vector<WorkerOrder> all;
    all.reserve(s_.worker_orders.size());
    for (const auto& [key, order] : s_.worker_orders) all.push_back(order);
    return all;
  }

  Result<std::vector<WorkerOrder>> ListNewOrders() override {
    HEADWORKS_ASSIGN(auto orders, ListAllOrders());
    std::erase_if(orders, [](const WorkerOrder& order) { return order.taken; });
    return orders;
  }

  Status NoteTaken(std::span<const WorkerOrder> orders) override {
    const std::lock_guard lock(s_.mutex);
    for (const WorkerOrder& order : orders)
      if (const auto known = s_.worker_orders.find(KeyOf(order));
          known != s_.worker_orders.end() && known->second.at == order.at &&
          known->second.stands == order.stands)
        known->second.taken = true;
    ++s_.data_version;
    return {};
  }

 private:
  /// Whether there was one to forget.
  bool ForgetOldest(const TenantId& tenant) {
    std::vector<std::pair<Instant, WorkerKey>> gone;
    for (const auto& [key, worker] : s_.workers)
      if (worker.tenant == tenant && IsGone(worker)) gone.emplace_back(worker.gone_at, key);
    std::ranges::sort(gone, std::ranges::greater());
    for (std::size_t i = kMaxGone; i < gone.size(); ++i) s_.workers.erase(gone[i].second);
    return gone.size() > kMaxGone;
  }

  const std::shared_ptr<Storage> storage_;
  Storage& s_;
};

}  // namespace

std::unique_ptr<store::WorkerStore> NewMemoryWorkers(std::shared_ptr<Storage> storage) {
  return std::make_unique<MemoryWorkers>(std::move(storage));
}

}  // namespace headworks::store_memory
