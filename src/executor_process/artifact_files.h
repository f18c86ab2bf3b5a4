#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/result.h"
#include "headworks/executor/executor.h"
#include "headworks/model/artifact.h"

namespace headworks::executor_process {

/// A file that a task was to leave.
struct LeftFile {
  std::string name;
  /// As ArtifactPathProblem takes it.
  std::string path;
  /// Where it begins: the task's working folder, and the scratch folder of its run.
  std::string cwd, scratch;
  /// A larger one is refused.
  std::uint64_t max_bytes = 0;
};

/// Stores the file.  Links are followed, but not out of the folder where the path begins.
/// kInvalidArgument: it is not there, or not what may be kept.  kCancelled: `stop` said so, which
/// is asked at each piece.  Else the store or the disk failed.
Result<model::Artifact> KeepFile(artifact_store::BlobStore& store,
                                 const artifact_store::Owner& owner, const LeftFile& left,
                                 const std::function<bool()>& stop);

/// Puts a copy where it is needed, for reading only, and makes the folders above it.  kNotFound,
/// kCorrupt: the store does not have it, or not as it was.  kCancelled: as KeepFile.
Status PlaceFile(artifact_store::BlobStore& store, const artifact_store::Owner& owner,
                 const executor::NeededArtifact& needed, const std::function<bool()>& stop);

}  // namespace headworks::executor_process
