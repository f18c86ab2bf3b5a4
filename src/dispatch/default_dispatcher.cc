#include "headworks/dispatch/default_dispatcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "headworks/model/resources.h"

namespace headworks::dispatch {

DefaultDispatcher::DefaultDispatcher(Routes routes, const DispatchPolicy& policy)
    : routes_(std::move(routes)), policy_(policy) {}

Status DefaultDispatcher::RegisterExecutor(std::string key, executor::Executor& executor) {
  if (HasExecutor(key))
    return Error{Code::kConflict, fmt::format("an executor '{}' is registered already", key)};
  registry_.push_back({std::move(key), &executor});
  return {};
}

bool DefaultDispatcher::HasExecutor(std::string_view key) const {
  return std::ranges::find(registry_, key, &Lane::key) != registry_.end();
}

Result<std::size_t> DefaultDispatcher::LaneFor(const std::string& key) {
  if (const auto lane = std::ranges::find(lanes_, key, &Lane::key); lane != lanes_.end())
    return static_cast<std::size_t>(lane - lanes_.begin());
  const auto found = std::ranges::find(registry_, key, &Lane::key);
  if (found == registry_.end()) {
    std::string known;
    for (const auto& entry : registry_) known += (known.empty() ? "" : ", ") + entry.key;
    return Error{Code::kInvalidArgument,
                 fmt::format("no executor is called '{}'; known: {}", key, known)};
  }
  lanes_.push_back(*found);
  return lanes_.size() - 1;
}

Status DefaultDispatcher::Start(executor::AttemptSink& sink) {
  HEADWORKS_ASSIGN(function_lane_, LaneFor(routes_.functions));
  HEADWORKS_ASSIGN(command_lane_, LaneFor(routes_.commands));
  for (const auto& [tenant, key] : routes_.tenants) {
    HEADWORKS_ASSIGN(tenant_lanes_[tenant], LaneFor(key));
  }
  for (const Lane& lane : lanes_) HEADWORKS_TRY(lane.executor->Start(sink));
  return {};
}

std::size_t DefaultDispatcher::LaneOf(const TenantId& tenant, const model::Task& task) const {
  if (!tenant_lanes_.empty())
    if (const auto own = tenant_lanes_.find(tenant.value); own != tenant_lanes_.end())
      return own->second;
  return std::holds_alternative<model::FunctionAction>(task.action) ? function_lane_
                                                                    : command_lane_;
}

executor::Capacity DefaultDispatcher::GetCapacity(std::size_t lane) const {
  return lanes_[lane].executor->GetCapacity();
}

executor::OfferResult DefaultDispatcher::Dispatch(const executor::Attempt& attempt) {
  const model::Task& task = attempt.task();
  if (const std::string why = model::Excess(task.resources, policy_.max_resources); !why.empty())
    return NotTaken(executor::DispatchError::kValidation, why);
  if (policy_.warm_placer != nullptr &&
      policy_.warm_placer->Assign(attempt.workflow->version(), attempt))
    return {};
  return lanes_[LaneOf(attempt)].executor->Offer(attempt);
}

void DefaultDispatcher::Cancel(const executor::Attempt& attempt) {
  lanes_[LaneOf(attempt)].executor->Cancel(attempt.key);
}

std::vector<std::vector<std::size_t>> DefaultDispatcher::ByLane(
    std::span<const executor::Attempt> attempts) const {
  std::vector<std::vector<std::size_t>> groups(lanes_.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) groups[LaneOf(attempts[i])].push_back(i);
  return groups;
}

Result<std::vector<executor::Inspection>> DefaultDispatcher::Inspect(
    std::span<const executor::Attempt> attempts) {
  std::vector<executor::Inspection> all(attempts.size());
  const auto groups = ByLane(attempts);
  for (std::size_t lane = 0; lane < groups.size(); ++lane) {
    if (groups[lane].empty()) continue;
    std::vector<executor::Attempt> asked;
    for (const std::size_t i : groups[lane]) asked.push_back(attempts[i]);
    HEADWORKS_ASSIGN(auto answers, lanes_[lane].executor->Inspect(asked));
    if (answers.size() != asked.size())
      return Error{Code::kInternal,
                   fmt::format("executor {} was asked about {} attempts and answered of {}",
                               lanes_[lane].key, asked.size(), answers.size())};
    for (std::size_t k = 0; k < answers.size(); ++k) all[groups[lane][k]] = std::move(answers[k]);
  }
  return all;
}

void DefaultDispatcher::Settled(std::span<const executor::Attempt> attempts) {
  const auto groups = ByLane(attempts);
  for (std::size_t lane = 0; lane < groups.size(); ++lane) {
    if (groups[lane].empty()) continue;
    std::vector<model::AttemptKey> keys;
    for (const std::size_t i : groups[lane]) keys.push_back(attempts[i].key);
    lanes_[lane].executor->Settled(keys);
  }
}

Status DefaultDispatcher::Close(Duration timeout) {
  Status first;
  for (const Lane& lane : lanes_)
    if (auto drained = lane.executor->Drain(timeout); !drained && first)
      first = Error(std::move(drained).error());
  return first;
}

}  // namespace headworks::dispatch
