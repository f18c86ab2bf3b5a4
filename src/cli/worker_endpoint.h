#pragma once

#include <memory>

#include "headworks/rpc/rpc_server.h"
#include "headworks/runner/runner.h"
#include "session.h"

namespace headworks::cli {

/// Where workers of a runner connect, and who may: whoever has a worker token that was made beside
/// its store.
class WorkerEndpoint {
 public:
  /// kInvalidArgument: by these settings no worker could be given anything, or connect.
  static Result<std::unique_ptr<WorkerEndpoint>> Open(const Context& context, Runner& runner);
  ~WorkerEndpoint();

  const std::string& address() const { return server_->address(); }

 private:
  class Tokens;
  explicit WorkerEndpoint(std::unique_ptr<Tokens> tokens);

  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<rpc::RpcServer> server_;
};

}  // namespace headworks::cli
