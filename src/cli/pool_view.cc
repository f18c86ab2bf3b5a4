#include "pool_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace headworks::cli {
namespace {

/// Finds the ids of tasks of any run; one look for each run, and one for each version.
class TaskNames {
 public:
  TaskNames(const Context& context, Runner& runner) : context_(context), runner_(runner) {}

  std::string Find(RunNo run, TaskNo task) {
    auto [known, added] = runs_.try_emplace(run);
    if (added) known->second = Load(run);
    if (known->second == nullptr || task.value >= known->second->size()) return {};
    return known->second->task(task).id;
  }

 private:
  std::shared_ptr<const model::Workflow> Load(RunNo run) {
    const auto record = runner_.query().GetRun(context_.tenant(), fmt::format("{}", run.value));
    if (!record) return nullptr;
    auto [known, added] = versions_.try_emplace(record->header.version);
    if (!added) return known->second;
    const auto text = runner_.workflows().GetVersion(context_.tenant(), known->first);
    if (!text) return nullptr;
    if (auto workflow = model::Workflow::FromCanonicalJson(*text))
      known->second = *std::move(workflow);
    return known->second;
  }

  const Context& context_;
  Runner& runner_;
  std::map<RunNo, std::shared_ptr<const model::Workflow>> runs_;
  std::map<std::string, std::shared_ptr<const model::Workflow>> versions_;
};

}  // namespace

Result<std::vector<PoolView>> ReadPools(const Context& context, Runner& runner, HolderNames with) {
  HEADWORKS_ASSIGN(const auto records, runner.limits().ListPools(context.tenant()));
  HEADWORKS_ASSIGN(const auto permits, runner.limits().ListPermits(context.tenant()));
  std::map<std::string, PoolView> pools;
  for (const store::PoolRecord& record : records)
    pools.emplace(
        record.name,
        PoolView{.name = record.name, .limit = record.limit, .by_configuration = record.declared});
  TaskNames names(context, runner);
  for (const store::Permit& permit : permits) {
    PoolView& pool = pools[permit.pool];
    pool.name = permit.pool;
    pool.held += permit.weight;
    pool.holders.push_back({permit.run,
                            with == HolderNames::kYes ? names.Find(permit.run, permit.task) : "",
                            permit.weight, permit.granted_at});
  }
  std::vector<PoolView> views;
  for (auto& [name, pool] : pools) {
    std::ranges::sort(pool.holders, {}, [](const PermitHolder& holder) {
      return std::tuple(holder.since, holder.run, std::string_view(holder.task));
    });
    views.push_back(std::move(pool));
  }
  return views;
}

}  // namespace headworks::cli
