#pragma once

#include <memory>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/log.h"

namespace headworks::executor_queue {

/// A store whose errors may be told to workers: they say what is wrong, and the log says where,
/// which is nobody's affair on another host.  Both are borrowed.
class DiscreetStore final : public artifact_store::BlobStore {
 public:
  DiscreetStore(artifact_store::BlobStore& store, Logger& log) : store_(store), log_(log) {}

  Result<std::unique_ptr<artifact_store::Writer>> Begin(
      const artifact_store::Owner& owner) override;
  Result<std::unique_ptr<artifact_store::Reader>> Open(const artifact_store::Owner& owner,
                                                       const artifact_store::Blob& blob) override;
  Status Settle(const artifact_store::Owner& owner) override;

 private:
  artifact_store::BlobStore& store_;
  Logger& log_;
};

}  // namespace headworks::executor_queue
