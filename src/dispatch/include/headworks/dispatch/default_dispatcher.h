#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/dispatcher/dispatcher.h"
#include "headworks/executor/executor.h"

namespace headworks::dispatch {

/// Which executor takes which kind of task.  One key for both is the rule; an embedded engine on
/// one host has one for functions of its own program and one for commands.
struct Routes {
  std::string functions;
  std::string commands;
  /// Of tenants all of whose tasks go to another one.
  std::map<std::string, std::string, std::less<>> tenants = {};
};

/// What the operator says of every attempt.
struct DispatchPolicy {
  /// A task that asks for more is refused; zero = any amount.
  model::Resources max_resources = {};
  /// Asked before the executor; nullptr = nobody is.  Borrowed.
  dispatcher::WarmPlacer* warm_placer = nullptr;
};

/// A registry of executors by key, and the routes to them.  One lane per route's executor.
///
/// Life.  Construct, RegisterExecutor, Start, dispatch, Close, destroy.  Executors are borrowed and
///   must outlive it.
/// Errors.  A key that no executor has fails Start, with the known keys listed.
class DefaultDispatcher final : public dispatcher::Dispatcher {
 public:
  explicit DefaultDispatcher(Routes routes, const DispatchPolicy& policy = {});

  /// kConflict if the key is taken.
  Status RegisterExecutor(std::string key, executor::Executor& executor);
  bool HasExecutor(std::string_view key) const;
  /// Checks the routes and starts the executors that they lead to.
  Status Start(executor::AttemptSink& sink);

  std::size_t lanes() const override { return lanes_.size(); }
  std::size_t LaneOf(const TenantId& tenant, const model::Task& task) const override;
  std::string_view LaneName(std::size_t lane) const override { return lanes_[lane].key; }
  executor::Capacity GetCapacity(std::size_t lane) const override;
  bool HasLines(std::size_t lane) const override { return lanes_[lane].executor->HasLines(); }
  std::string LineOf(std::size_t lane, const model::Workflow& workflow,
                     TaskNo task) const override {
    return lanes_[lane].executor->LineOf(workflow, task);
  }
  executor::Credit GetCredit(std::size_t lane, const TenantId& tenant,
                             const std::string& line) const override {
    return lanes_[lane].executor->GetCredit(tenant, line);
  }
  executor::OfferResult Dispatch(const executor::Attempt& attempt) override;
  void Cancel(const executor::Attempt& attempt) override;
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override;
  void Settled(std::span<const executor::Attempt> attempts) override;
  Status Close(Duration timeout) override;

 private:
  struct Lane {
    std::string key;
    executor::Executor* executor;
  };
  std::size_t LaneOf(const executor::Attempt& attempt) const {
    return LaneOf(attempt.key.tenant, attempt.task());
  }
  Result<std::size_t> LaneFor(const std::string& key);
  /// Attempts' positions, grouped by lane.
  std::vector<std::vector<std::size_t>> ByLane(std::span<const executor::Attempt> attempts) const;

  const Routes routes_;
  const DispatchPolicy policy_;
  std::vector<Lane> registry_;
  std::vector<Lane> lanes_;
  std::size_t function_lane_ = 0;
  std::size_t command_lane_ = 0;
  std::map<std::string, std::size_t, std::less<>> tenant_lanes_;
};

}  // namespace headworks::dispatch
