#pragma once

/// Everything that an author of tasks and workflows needs.
#include "headworks/author/fields.h"            // IWYU pragma: export
#include "headworks/author/register.h"          // IWYU pragma: export
#include "headworks/author/registry.h"          // IWYU pragma: export
#include "headworks/author/task.h"              // IWYU pragma: export
#include "headworks/author/workflow_builder.h"  // IWYU pragma: export
