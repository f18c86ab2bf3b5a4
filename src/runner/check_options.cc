#include "check_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "headworks/alert/alert.h"
#include "headworks/base/tenant.h"
#include "headworks/model/resources.h"

namespace headworks {
namespace {

/// Whether there is an executor of each key that tasks go to.
Status CheckRoutes(const RunnerOptions& options) {
  std::vector<std::string_view> known = {"inline", "process", "queue"};
  for (const auto& [key, own] : options.executors)
    if (std::ranges::find(known, key) == known.end()) known.push_back(key);
  std::vector<std::string_view> wanted = {options.function_executor, options.command_executor};
  for (const auto& [tenant, key] : options.tenant_executors) wanted.push_back(key);
  for (const std::string_view key : wanted)
    if (std::ranges::find(known, key) == known.end())
      return Error{Code::kInvalidArgument, fmt::format("no executor is called '{}'; known: {}", key,
                                                       fmt::join(known, ", "))};
  return {};
}

}  // namespace

Status CheckTenant(std::string_view option, std::string_view tenant) {
  if (const Status good = CheckTenantName(tenant); !good)
    return Error{good.error().code,
                 fmt::format("RunnerOptions::{}: {}", option, good.error().message)};
  return {};
}

Status CheckOptions(const RunnerOptions& options) {
  HEADWORKS_TRY(options.defaults.Check());
  if (const auto faults = model::CheckResources(options.max_resources); !faults.empty())
    return Error{Code::kInvalidArgument, fmt::format("RunnerOptions::max_resources: {} {}",
                                                     faults[0].field, faults[0].message)};
  if (const auto why = model::Excess(options.defaults.resources, options.max_resources);
      !why.empty())
    return Error{Code::kInvalidArgument,
                 fmt::format("RunnerOptions::defaults is above RunnerOptions::max_resources: {}; "
                             "lower the one or raise the other",
                             why)};
  if (options.pending_timeout < Duration(0))
    return Error{Code::kInvalidArgument,
                 fmt::format("RunnerOptions::pending_timeout is {}us; give 0 or more",
                             options.pending_timeout.count())};
  if (options.worker_attempt_ceiling < Duration(0) ||
      options.worker_attempt_ceiling % std::chrono::seconds(1) != Duration(0))
    return Error{
        Code::kInvalidArgument,
        fmt::format("RunnerOptions::worker_attempt_ceiling is {}us; give whole seconds, or 0 "
                    "for none",
                    options.worker_attempt_ceiling.count())};
  for (const auto& [tenant, key] : options.tenant_executors)
    HEADWORKS_TRY(CheckTenant("tenant_executors", tenant));
  for (const auto& [tenant, weight] : options.tenant_weights) {
    HEADWORKS_TRY(CheckTenant("tenant_weights", tenant));
    if (weight == 0 || weight > kMaxTenantWeight)
      return Error{Code::kInvalidArgument,
                   fmt::format("RunnerOptions::tenant_weights: '{}' weighs {}; give 1 to {}",
                               tenant, weight, kMaxTenantWeight)};
  }
  if (options.priority_ageing < Duration(0))
    return Error{Code::kInvalidArgument,
                 fmt::format("RunnerOptions::priority_ageing is {}us; give 0 for none, or more",
                             options.priority_ageing.count())};
  if (options.alert_timeout < std::chrono::milliseconds(100) ||
      options.alert_timeout > std::chrono::hours(1))
    return Error{Code::kInvalidArgument,
                 fmt::format("RunnerOptions::alert_timeout is {}us; give 100 ms to an hour",
                             options.alert_timeout.count())};
  HEADWORKS_TRY(CheckRoutes(options));
  return alert::CheckQueue(options.alert_queue);
}

}  // namespace headworks
