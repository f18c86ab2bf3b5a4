#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/model/resources.h"
#include "headworks/model/workflow.h"
#include "headworks/spec/fault.h"

/// Files to workflows, or all that is wrong with them.
///
/// A file holds one workflow as YAML 1.2 (core schema; JSON is YAML).  Aliases and merge keys work;
/// tags and repeated keys are refused.
namespace headworks::spec {

/// Larger files are refused before anything is parsed, unless the caller says otherwise.
inline constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
/// Nesting of lists and maps, aliases followed.
inline constexpr std::size_t kMaxDepth = 64;
/// Bytes that the file may come to with all aliases written out; a value counts its text and 64.
inline constexpr std::size_t kMaxExpandedBytes = std::size_t{512} << 20;

/// Reads and checks a file; relative paths of its tasks start at its folder.  `faults`, if given,
/// receives all of them, by position, or of a file that is taken its warnings: what may be meant
/// otherwise.  What tasks ask for is checked against `limits` (`model::CheckLimits`).
/// Errors.  kInvalidArgument: the joined faults.  kNotFound, kPermissionDenied, kUnavailable: the
///   file cannot be read.
Result<model::WorkflowDefinition> ParseWorkflowFile(const std::string& path,
                                                    std::vector<Fault>* faults = nullptr,
                                                    std::size_t max_bytes = kMaxFileBytes,
                                                    const model::PlatformLimits& limits = {});

/// Reads and checks text.  `source_name` stands in faults, and its stem is the workflow's name
/// unless the text gives one.  `base_dir`: absolute, or empty.
/// The result passes `Workflow::Check`.
Result<model::WorkflowDefinition> ParseWorkflow(std::string_view text,
                                                const std::string& source_name,
                                                const std::string& base_dir,
                                                std::vector<Fault>* faults = nullptr,
                                                std::size_t max_bytes = kMaxFileBytes,
                                                const model::PlatformLimits& limits = {});

}  // namespace headworks::spec
