#pragma once

#include "headworks/base/ids.h"
#include "headworks/model/workflow.h"

namespace headworks::model {

/// Whether artifacts pass between their store and whoever runs the task: it leaves some, or needs a
/// task that does.  Functions see none.
bool PassesArtifacts(const Workflow& workflow, TaskNo task);

}  // namespace headworks::model
