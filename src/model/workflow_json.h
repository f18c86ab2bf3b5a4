#pragma once

#include <array>
#include <string>
#include <string_view>

#include "headworks/model/workflow.h"

namespace headworks::model {

// By value of the enumerator.
inline constexpr std::array<std::string_view, 4> kOutputModeNames = {"file", "stdout-json",
                                                                     "stdout-lines", "stdout"};
inline constexpr std::array<std::string_view, 9> kParamTypeNames = {
    "any", "string", "integer", "number", "boolean", "array", "object", "date", "datetime"};

/// The text that a version is the digest of.  Format 1: `"format":1` first, then the fields in the
/// order of WorkflowDefinition, a field only if it differs from its default or Task::said names it,
/// no white space, times in microseconds (`_us`).  The defaults are part of the format: a version
/// stays the same when a later program adds fields, and a changed default needs a new format.
std::string ToCanonicalJson(const WorkflowDefinition& definition);

}  // namespace headworks::model
