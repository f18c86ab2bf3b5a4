#pragma once

#include <string_view>

namespace headworks::spec {

/// Any bytes give a workflow that the model takes and that reads back as itself, or faults that
/// point into the text and can be explained.  A broken property ends the process.
void CheckWorkflowText(std::string_view text);

}  // namespace headworks::spec
