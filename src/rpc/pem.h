#pragma once

#include <string>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks::rpc {

/// The text of a PEM file.  kInvalidArgument names it as `what`.
Result<std::string> ReadPem(const std::string& path, std::string_view what);

}  // namespace headworks::rpc
