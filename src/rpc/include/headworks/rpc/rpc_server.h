#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/task_queue/queues.h"
#include "headworks/worker_api/worker_service.h"

/// The words between workers and the engine over gRPC, headworks.worker.v1, and those of whoever
/// handles items of its queues.
namespace headworks::rpc {

/// What a worker may do that has shown its credential.
struct Grant {
  /// All that it says is said for this tenant (I13).
  TenantId tenant;
  /// The name that it bears; "gpu-*" = any that begins so, "*" = any.
  std::string worker = "*";
  /// That it may serve; empty = any.
  std::vector<std::string> queues;
};

/// Who may connect.
///
/// Threads.  Called concurrently, for every call; must not block.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  /// What follows "Bearer " in the metadata `authorization`.  kPermissionDenied names its fault, in
  /// words that are safe to pass on.
  virtual Result<Grant> Check(std::string_view bearer) = 0;
};

/// The largest job of one Start; the other bounds are those of worker_api.  The attempt of one that
/// has a byte more fails, as `dispatch_failed`.
inline constexpr std::size_t kMaxJobBytes = std::size_t{16} << 20;

struct RpcServerOptions {
  /// As CheckAddress takes it; or "unix:PATH", a socket of this host.  One that is there is
  /// replaced, whoever listens at it: that it is nobody's is the caller's affair, and who may come
  /// to it is that of its folder's permissions.  Removed by the destructor.
  std::string address;
  /// PEM files; both or none.  None = unencrypted, credentials included.
  std::string tls_cert_file, tls_key_file;
  /// Polls, claims and heartbeats that wait, and as many of all other calls; those of one tenant
  /// all but a quarter, rounded down; more are answered kAtCapacity (I11, I12).  A heartbeat that
  /// has no room to wait is one of the others, and heard without waiting.
  std::size_t max_calls = 20'000;
  /// Bytes of artifacts that were asked for and are not sent yet, and as many of items that were
  /// claimed; those of one tenant all but a quarter, rounded down; whoever asks for more is
  /// answered kAtCapacity (I11, I12).
  std::size_t max_piece_bytes = std::size_t{64} << 20;
};

/// All borrowed; each must outlive the server.
struct RpcServerPorts {
  worker_api::EngineService& service;
  Authenticator& authenticator;
  Clock& clock;
  Logger& log;
  /// Whose items are given to workers; null = no items are.
  task_queue::Queues* queues = nullptr;
};

/// Whether `address` is one to listen at: "127.0.0.1:7070", "[::1]:7070", "0.0.0.0:7070"; without
/// a host (":7070") it is 127.0.0.1.  Port 0 = any that is free.  kInvalidArgument.
Status CheckAddress(std::string_view address);

/// The payloads of one claim; fewer items are given where they are large.
inline constexpr std::size_t kMaxClaimBytes = std::size_t{16} << 20;

/// Serves a WorkerService, and queues.
///
/// Life.  Open, destroy.  The destructor answers all calls under way with kUnavailable, then takes
///   no more; what the service says of them later is dropped.
/// Threads.  gRPC's own, a fixed few: a call that waits holds none.  The service is called on them,
///   the queues on a few more.
/// Deadlines.  A wait ends before its caller's deadline does.  What was assigned to a caller who
///   did not wait for the answer is handed back.
/// Bounds.  As in the options, of the job above, and those of worker_api.
class RpcServer {
 public:
  /// kInvalidArgument: the address, or a file of TLS.  kConflict: the address is taken, or not this
  /// machine's, or no socket can be made at the path.
  static Result<std::unique_ptr<RpcServer>> Open(RpcServerOptions options,
                                                 const RpcServerPorts& ports);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// "127.0.0.1:41837": with the port that it has; "unix:PATH" as it was given.
  const std::string& address() const;

 private:
  class Impl;
  explicit RpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::rpc
