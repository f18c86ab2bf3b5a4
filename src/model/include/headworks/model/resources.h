#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/model/workflow.h"

namespace headworks::model {

struct ResourceFault {
  std::string_view field;  // "cpu", "memory"
  std::string message;
};
/// What is out of the bounds of Resources, whoever gave it; none = all is well.
std::vector<ResourceFault> CheckResources(const Resources& resources);

/// What of it is `asked` above `most`, of which zero is any amount; none = nothing is.
std::vector<ResourceFault> Excesses(const Resources& asked, const Resources& most);
/// The same in one text; empty = nothing is.
std::string Excess(const Resources& asked, const Resources& most);

/// What a platform has for tasks.
struct PlatformLimits {
  /// The declared pools; none = not known, so that nothing is said of pools.
  std::optional<PoolLimits> pools{};
  /// What one task may ask for; zero = any amount.
  Resources max_resources{};
};
/// What tasks ask for that the platform never has: pools, permits and resources.  Of a matrix it is
/// told once.
std::vector<Fault> CheckLimits(const WorkflowDefinition& definition, const PlatformLimits& limits);

}  // namespace headworks::model
