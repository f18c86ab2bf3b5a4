#pragma once

#include <string_view>

#include "headworks/base/result.h"

namespace headworks {

/// What stands for a tenant: 1 to 100 letters of ASCII, digits, `_`, `.` and `-`, as in the name of
/// a workflow, of which it is a part.  kInvalidArgument says so of any other.  To be asked wherever
/// a name comes in; a TenantId may hold any.
Status CheckTenantName(std::string_view name);

}  // namespace headworks
