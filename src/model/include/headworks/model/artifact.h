#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks::model {

/// A file that a task left for its successors.
struct Artifact {
  /// Its name, without folders.
  std::string file;
  /// Of its bytes, in lower-case hex.
  std::string sha256;
  /// Bytes.
  std::uint64_t size = 0;
  bool executable = false;

  bool operator==(const Artifact&) const = default;
};

/// By the names that the task declares.
using Artifacts = std::map<std::string, Artifact, std::less<>>;

/// Of one task.
inline constexpr std::size_t kMaxArtifacts = 100;

/// What a success gives.
struct TaskResult {
  /// JSON object as text; empty = none.
  std::string output;
  Artifacts artifacts;

  bool operator==(const TaskResult&) const = default;
};

/// As outcomes carry it and stores keep it: the output, and only where there are artifacts, behind
/// a record separator (RFC 7464), which no JSON text holds, an object of them.
std::string WriteResult(const TaskResult& result);
/// kCorrupt: WriteResult did not write that.
Result<TaskResult> ReadResult(std::string_view text);

/// Paths that begin with it are below the folder that the tasks of a run share; all others below
/// the task's working folder.
inline constexpr std::string_view kScratchPath = "$HEADWORKS_SCRATCH/";

/// Why `path` cannot be that of an artifact, and what to do; empty = it can.  Of a path with
/// templates only the rest is looked at.
std::string ArtifactPathProblem(std::string_view path);

}  // namespace headworks::model
