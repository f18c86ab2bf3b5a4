#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::rpc {

struct RpcClientOptions {
  /// "HOST:PORT", or "unix:PATH" of at most 107 bytes of path.
  std::string target;
  /// How errors call it; empty = by its target.
  std::string name{};
  /// PEM file of the authorities that the server's certificate is checked by; empty = unencrypted.
  std::string tls_ca_file{};
  /// The worker's credential, asked for each call: printable ASCII, at most 8 KiB; white space at
  /// its end is dropped.
  std::function<std::string()> credential;
  /// By which lines have their times: the engine moves them where this one is more than a minute
  /// off its own.  Borrowed; nullptr = it is not told.
  Clock* clock = nullptr;
  /// How long an answer may take, beyond what the call itself waits and what it takes to say the
  /// request at 250 kbit/s; so much more for a piece of a file, and two minutes where it is a job.
  Duration patience = std::chrono::seconds(10);
  /// A connection that is silent for so long is asked whether it lives, and is given up after
  /// `keepalive_timeout` more: its calls end with kUnavailable.
  Duration keepalive_every = std::chrono::seconds(10);
  Duration keepalive_timeout = std::chrono::seconds(8);
};

/// The engine's WorkerService from afar.  Connects when it is first asked, and again whenever the
/// connection is lost, directly (no proxy of the environment is used).
///
/// Errors.  Those of the service, and kUnavailable for all that is not known to have been answered
///   by an engine, as what a proxy says.
///   A credential that is refused, or that none can be, is kPermissionDenied to Register and
///   PollFor; to the other calls it is kUnavailable, because an attempt is not over by it.
/// Life.  The destructor ends calls under way as kCancelled, and returns after their `done`.
/// Threads.  As the port says; `done` is called on gRPC's threads, and on the caller's where a call
///   is out of bounds.
class RpcClient final : public worker_api::WorkerService {
 public:
  /// Does not connect yet.  kInvalidArgument: the target is none, or the file of authorities
  /// cannot be read.
  static Result<std::unique_ptr<RpcClient>> Open(RpcClientOptions options);
  ~RpcClient() override;

  void Register(worker_api::Registration registration, Done<worker_api::Welcome> done) override;
  void PollFor(worker_api::Poll poll, Done<worker_api::Polled> done) override;
  void Start(const worker_api::Identity& who, std::string start_token,
             Done<worker_api::Started> done) override;
  void Beat(worker_api::Heartbeat heartbeat, Done<worker_api::Beaten> done) override;
  void Log(std::string work_token, std::vector<log_store::Line> lines,
           Done<executor::Reply> done) override;
  void PutArtifact(worker_api::ArtifactPut put, Done<worker_api::ArtifactTaken> done) override;
  void GetArtifact(worker_api::ArtifactGet get, Done<worker_api::ArtifactPiece> done) override;
  void Complete(std::string work_token, model::Outcome outcome,
                Done<executor::Reply> done) override;
  void HandBack(const worker_api::Identity& who, std::vector<std::string> start_tokens,
                Done<bool> done) override;
  void Leave(const worker_api::Identity& who, Done<bool> done) override;

 private:
  class Impl;
  explicit RpcClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::rpc
