#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/model/attempt.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::worker {

/// The engine's artifact store, as the attempts of this host may use it: in pieces, each said again
/// until it is answered, with the working token that counts then.
///
/// Errors.  Of its stores, beside those of the port: kCancelled once the attempt was stopped or
///   closed; kUnavailable: what the engine says of its disk, or that it does not hear this attempt.
/// Bounds.  Two pieces of some 1 MiB for each writer or reader.
/// Threads.  All methods may be called concurrently.  Writers and readers block, until they are
///   answered or the attempt is stopped.
class RemoteArtifacts {
 public:
  /// Of what is said with one PutArtifact or GetArtifact: below 1 MiB, which is what a proxy may
  /// bound messages by.
  static constexpr std::size_t kPieceBytes = 1'000'000;

  explicit RemoteArtifacts(worker_api::WorkerService& service);
  ~RemoteArtifacts();

  void Open(const model::AttemptKey& attempt, std::string work_token);
  void Renew(const model::AttemptKey& attempt, std::string work_token);
  /// Whoever waits for the engine waits no longer.
  void Stop(const model::AttemptKey& attempt);
  void Close(const model::AttemptKey& attempt);
  /// Stops all, also what comes.
  void Shut();

  /// Of an attempt that is open; of another one all is kCancelled.
  std::shared_ptr<artifact_store::BlobStore> Of(const model::AttemptKey& attempt);

  class Session;

 private:
  std::shared_ptr<Session> Find(const model::AttemptKey& attempt);

  worker_api::WorkerService& service_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<model::AttemptKey, std::shared_ptr<Session>> sessions_;
  bool shut_ = false;
};

}  // namespace headworks::worker
