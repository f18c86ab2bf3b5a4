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

/// Of an engine that runs all tasks itself: what comes to it are handlers of items.
class NoTasks final : public worker_api::EngineService {
 public:
  void Register(worker_api::Registration, Done<worker_api::Welcome> done) override { done(Why()); }
  void PollFor(worker_api::Poll, Done<worker_api::Polled> done) override { done(Why()); }
  void Start(const worker_api::Identity&, std::string, Done<worker_api::Started> done) override {
    done(Why());
  }
  void Beat(worker_api::Heartbeat, Done<worker_api::Beaten> done) override { done(Why()); }
  void Log(std::string, std::vector<log_store::Line>, Done<executor::Reply> done) override {
    done(Why());
  }
  void PutArtifact(worker_api::ArtifactPut, Done<worker_api::ArtifactTaken> done) override {
    done(Why());
  }
  void GetArtifact(worker_api::ArtifactGet, Done<worker_api::ArtifactPiece> done) override {
    done(Why());
  }
  void Complete(std::string, model::Outcome, Done<executor::Reply> done) override { done(Why()); }
  void HandBack(const worker_api::Identity&, std::vector<std::string>, Done<bool> done) override {
    done(Why());
  }
  void Leave(const worker_api::Identity&, Done<bool> done) override { done(Why()); }
  Result<worker_api::Identity> SpeakerOf(std::string_view) override { return Why(); }

 private:
  static Error Why() {
    return {Code::kConflict,
            "this engine runs all tasks itself, and only gives out items of queues; set "
            "command_executor or function_executor to queue, where it is started"};
  }
};

}  // namespace

class WorkerEndpoint::Tokens final : public rpc::Authenticator {
 public:
  Tokens(std::shared_ptr<token::KeyRing> keys, Clock& clock) : tokens_(std::move(keys), clock) {}

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
    : tokens_(std::move(tokens)),
      no_tasks_(std::make_unique<NoTasks>()),
      socket_(std::move(socket)) {}
WorkerEndpoint::~WorkerEndpoint() = default;

Result<std::unique_ptr<WorkerEndpoint>> WorkerEndpoint::Open(const Context& context,
                                                             Runner& runner) {
  const Settings& settings = context.settings();
  HEADWORKS_ASSIGN(WorkerSocket socket, WorkerSocket::Open(settings.runner.database_url));
  HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(settings.runner.database_url));
  SystemRandom random;
  HEADWORKS_ASSIGN(auto keys, token::KeyRing::Open(file, random, context.clock, context.logger));
  std::unique_ptr<WorkerEndpoint> endpoint(new WorkerEndpoint(
      std::make_unique<Tokens>(std::move(keys), context.clock), std::move(socket)));
  const bool gives_tasks = runner.worker_service() != nullptr;
  const rpc::RpcServerPorts ports{
      .service = gives_tasks ? *runner.worker_service() : *endpoint->no_tasks_,
      .authenticator = *endpoint->tokens_,
      .clock = context.clock,
      .log = context.logger,
      .queues = &runner.queues()};
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
