#pragma once

#include <string_view>

#include "headworks/base/result.h"
#include "headworks/runner/runner.h"

namespace headworks {

/// What is said of options before anything is opened; kInvalidArgument names the one at fault.
Status CheckOptions(const RunnerOptions& options);
/// A tenant that one of them names.
Status CheckTenant(std::string_view option, std::string_view tenant);

}  // namespace headworks
