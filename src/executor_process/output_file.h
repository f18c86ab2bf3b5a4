#pragma once

#include <string>
#include <string_view>

#include "headworks/base/result.h"
#include "headworks/model/workflow.h"

namespace headworks::executor_process {

/// Most bytes of a task's output.
inline constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;

/// What a task wrote to HEADWORKS_OUTPUT, as the canonical text of a JSON object: an object, or
/// `key=value` lines as an object (a later key wins).  A value of a line is text, unless `spec`
/// declares a type for its key of which it is as JSON.  Empty when the file is missing or blank.
/// kInvalidArgument says what is wrong with it, or is not as `spec` declares it.
Result<std::string> ReadOutputFile(const model::OutputSpec& spec, const std::string& path);

/// What a task wrote to stdout, as its output by `spec.mode`: kStdoutJson = the object it is, or
/// {"result": ...} around any other JSON value; kStdoutLines = {"lines": [...]}; kStdout =
/// {"text": ...} without the newline at its end.
Result<std::string> OutputOfStdout(const model::OutputSpec& spec, std::string_view text);

/// ReadOutputFile for text at hand.
Result<std::string> ParseOutput(const model::OutputSpec& spec, std::string_view text);

}  // namespace headworks::executor_process
