#pragma once

#include "headworks/model/workflow.h"

namespace headworks::model {

/// Marks what differs from a task of which nothing is said.
void NoteSaid(Task& task);
void FillGaps(const PlatformDefaults& defaults, Task& task);

}  // namespace headworks::model
