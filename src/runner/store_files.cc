#include "store_files.h"

#include <filesystem>

namespace headworks {

std::string ArtifactsPath(const RunnerOptions& options, const std::string& database) {
  return options.artifact_dir.empty() ? database + "-artifacts"
                                      : std::filesystem::absolute(options.artifact_dir).string();
}

Status SweepArtifacts(artifact_store::ArtifactStore& artifacts, store::RunQuery& query, bool own,
                      const std::function<bool()>& stop) {
  return artifacts.Sweep([&](const artifact_store::Owner& owner) -> Result<bool> {
    if (stop()) return Error{Code::kCancelled, "told to stop"};
    if (!own) return true;  // it may be another store's
    const auto run = query.GetRun(owner.tenant, owner.run.value);
    if (!run && run.error().code != Code::kNotFound) return Error(run.error());
    return run.has_value();
  });
}

}  // namespace headworks
