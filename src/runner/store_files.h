#pragma once

#include <functional>
#include <string>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/runner/runner.h"
#include "headworks/store/run_store.h"

/// What belongs to a store and is not in its database.
namespace headworks {

/// The file with what its tasks print.
inline std::string LogsPath(const std::string& database) { return database + "-logs"; }
/// The folder with what they leave.
std::string ArtifactsPath(const RunnerOptions& options, const std::string& database);

/// Removes what writers of artifacts left that died and, from a folder that is this store's alone
/// (`own`), all of runs that it does not know.  kCancelled once `stop` says so.
Status SweepArtifacts(artifact_store::ArtifactStore& artifacts, store::RunQuery& query, bool own,
                      const std::function<bool()>& stop);

}  // namespace headworks
