#pragma once

#include <string>

#include "headworks/model/workflow.h"

namespace headworks::model {

/// The text that a version is the digest of.  Format 1: `"format":1` first, then the fields in the
/// order of WorkflowDefinition, a field only if it differs from its default, no white space, times
/// in microseconds (`_us`).  The defaults are part of the format: a version stays the same when a
/// later program adds fields, and a changed default needs a new format.
std::string ToCanonicalJson(const WorkflowDefinition& definition);

}  // namespace headworks::model
