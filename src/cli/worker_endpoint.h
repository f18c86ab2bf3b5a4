#pragma once

#include <memory>
#include <optional>
#include <string>

#include "headworks/rpc/rpc_server.h"
#include "headworks/runner/runner.h"
#include "session.h"
#include "worker_socket.h"

namespace headworks::cli {

/// Where workers of a runner connect, and handlers of its queues' items: by its store, and at
/// `rpc_listen`.  Who may: whoever has a worker token that was made beside the store.
///
/// Life.  Only the owner of the store may have one, because it takes the place of whoever listened
///   there before; so the runner must outlive it.
class WorkerEndpoint {
 public:
  /// kInvalidArgument: by these settings nobody could connect.
  static Result<std::unique_ptr<WorkerEndpoint>> Open(const Context& context, Runner& runner);
  ~WorkerEndpoint();

  /// Over the network; empty = nowhere.
  std::string address() const { return server_ ? server_->address() : std::string(); }

 private:
  class Tokens;
  explicit WorkerEndpoint(std::unique_ptr<Tokens> tokens, WorkerSocket socket);

  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<worker_api::EngineService> no_tasks_;
  WorkerSocket socket_;
  std::unique_ptr<rpc::RpcServer> local_, server_;
};

}  // namespace headworks::cli
