#pragma once

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

/// The first of what is `asked` that is above `most`, in words, of which zero is any amount; empty
/// = nothing is.
std::string Excess(const Resources& asked, const Resources& most);

}  // namespace headworks::model
