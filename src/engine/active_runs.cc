#include "headworks/engine/active_runs.h"

namespace headworks::engine {

void ActiveRuns::Learn(const model::Namespace& name, std::size_t active, std::size_t starting) {
  Counts& counts = workflows_[name];
  counts.active = active;
  counts.starting = starting;
}

void ActiveRuns::BeginRound() {
  for (auto& [name, counts] : workflows_) counts.starting = 0;
}

bool ActiveRuns::Take(const model::RunHeader& run, std::size_t limit) {
  Counts& counts = workflows_.at(run.name);
  if (counts.active + counts.starting < limit) {
    Forget(run.run_no);
    return true;
  }
  const Place place(-run.priority, run.run_no);
  counts.waiting.insert(place);
  waiting_.insert_or_assign(run.run_no, std::pair(run.name, place));
  return false;
}

void ActiveRuns::Started(const model::Namespace& name) {
  if (const auto found = workflows_.find(name); found != workflows_.end()) ++found->second.starting;
}

void ActiveRuns::Changed(const model::Namespace& name, bool active) {
  const auto found = workflows_.find(name);
  if (found == workflows_.end()) return;
  if (active)
    ++found->second.active;
  else if (found->second.active > 0)
    --found->second.active;
}

std::optional<RunNo> ActiveRuns::Next(const model::Namespace& name) {
  const auto found = workflows_.find(name);
  if (found == workflows_.end() || found->second.waiting.empty()) return std::nullopt;
  const RunNo run = found->second.waiting.begin()->second;
  Forget(run);
  return run;
}

void ActiveRuns::Forget(RunNo run) {
  const auto found = waiting_.find(run);
  if (found == waiting_.end()) return;
  workflows_.at(found->second.first).waiting.erase(found->second.second);
  waiting_.erase(found);
}

std::vector<std::pair<TenantId, RunNo>> ActiveRuns::Heads() const {
  std::vector<std::pair<TenantId, RunNo>> heads;
  for (const auto& [name, counts] : workflows_)
    if (!counts.waiting.empty())
      heads.emplace_back(TenantId(name.tenant), counts.waiting.begin()->second);
  return heads;
}

}  // namespace headworks::engine
