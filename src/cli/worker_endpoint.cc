#include "worker_endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "headworks/base/random.h"
#include "headworks/token/token_keys.h"
#include "headworks/token/worker_tokens.h"

namespace headworks::cli {
namespace {

/// Whether `address` (HOST:PORT) is of this machine alone; by a name only "localhost" is.
bool IsLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  in_addr ipv4{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return ntohl(ipv4.s_addr) >> 24 == 127;
  return host == "localhost" || host == "[::1]";
}

}  // namespace

class WorkerEndpoint::Tokens final : public rpc::Authenticator {
 public:
  Tokens(token::TokenKeys keys, Clock& clock) : tokens_(std::move(keys), clock) {}

  Result<rpc::Grant> Check(std::string_view bearer) override {
    if (bearer.empty())
      return Error{Code::kPermissionDenied,
                   "no worker token was shown; make one with `headworks worker token create` "
                   "(missing)"};
    const auto claims = tokens_.Verify(bearer);
    if (!claims) return token::RefusalOfWorker(claims.error());
    return rpc::Grant{.tenant = claims->tenant, .worker = claims->worker, .queues = claims->queues};
  }

 private:
  const token::WorkerTokens tokens_;
};

WorkerEndpoint::WorkerEndpoint(std::unique_ptr<Tokens> tokens, WorkerSocket socket)
    : tokens_(std::move(tokens)), socket_(std::move(socket)) {}
WorkerEndpoint::~WorkerEndpoint() = default;

Result<std::unique_ptr<WorkerEndpoint>> WorkerEndpoint::Open(const Context& context,
                                                             Runner& runner) {
  const Settings& settings = context.settings();
  if (runner.worker_service() == nullptr)
    return Error{Code::kInvalidArgument,
                 fmt::format("workers may connect to {} (rpc_listen), but no task goes to them: "
                             "set command_executor or function_executor to queue",
                             settings.rpc_listen)};
  HEADWORKS_ASSIGN(WorkerSocket socket, WorkerSocket::Open(settings.runner.database_url));
  HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(settings.runner.database_url));
  SystemRandom random;
  HEADWORKS_ASSIGN(auto keys, token::TokenKeys::LoadOrCreate(file, random));
  std::unique_ptr<WorkerEndpoint> endpoint(new WorkerEndpoint(
      std::make_unique<Tokens>(std::move(keys), context.clock), std::move(socket)));
  const rpc::RpcServerPorts ports{.service = *runner.worker_service(),
                                  .authenticator = *endpoint->tokens_,
                                  .clock = context.clock,
                                  .log = context.logger};
  auto local = rpc::RpcServer::Open({.address = endpoint->socket_.address()}, ports);
  if (!local)
    return Error{Code::kUnavailable,
                 fmt::format("no socket can be made at {}, where workers meet the engine; a store "
                             "whose tasks go to workers needs a disk that takes one",
                             endpoint->socket_.path())};
  endpoint->local_ = *std::move(local);
  if (settings.rpc_listen.empty()) return endpoint;
  HEADWORKS_ASSIGN(endpoint->server_, rpc::RpcServer::Open({.address = settings.rpc_listen,
                                                            .tls_cert_file = settings.rpc_tls_cert,
                                                            .tls_key_file = settings.rpc_tls_key},
                                                           ports));
  if (settings.rpc_tls_cert.empty() && !IsLoopback(endpoint->address()))
    context.logger.Warning(
        "workers connect without encryption: whoever reads along on the network can take their "
        "tokens; set rpc_tls_cert and rpc_tls_key",
        {{"address", endpoint->address()}});
  return endpoint;
}

}  // namespace headworks::cli
