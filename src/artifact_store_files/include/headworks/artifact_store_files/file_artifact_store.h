#pragma once

#include <memory>
#include <string>

#include "headworks/artifact_store/artifact_store.h"

namespace headworks::artifact_store_files {

/// Blobs as files below `folder`: `incoming/` while they are written, then
/// `runs/TENANT/RUN/SHA256`, readable by this user alone.
///
/// Nothing is made before the first blob is.  A blob is synced before it gets its name, and its
/// name before Commit returns.
std::unique_ptr<artifact_store::ArtifactStore> NewFileArtifactStore(std::string folder);

}  // namespace headworks::artifact_store_files
