#include "headworks/rpc/rpc_items.h"
#include "headworks/rpc/rpc_server.h"
#include "rig.h"

// Workers of jobs that come over gRPC, each with a server of its own before the queues.
namespace headworks {
namespace {

/// No task is given to anybody.
class NoEngine final : public worker_api::EngineService {
  void Register(worker_api::Registration, Done<worker_api::Welcome>) override {}
  void PollFor(worker_api::Poll, Done<worker_api::Polled>) override {}
  void Start(const worker_api::Identity&, std::string, Done<worker_api::Started>) override {}
  void Beat(worker_api::Heartbeat, Done<worker_api::Beaten>) override {}
  void Log(std::string, std::vector<log_store::Line>, Done<executor::Reply>) override {}
  void PutArtifact(worker_api::ArtifactPut, Done<worker_api::ArtifactTaken>) override {}
  void GetArtifact(worker_api::ArtifactGet, Done<worker_api::ArtifactPiece>) override {}
  void Complete(std::string, model::Outcome, Done<executor::Reply>) override {}
  void HandBack(const worker_api::Identity&, std::vector<std::string>, Done<bool>) override {}
  void Leave(const worker_api::Identity&, Done<bool>) override {}
  Result<worker_api::Identity> SpeakerOf(std::string_view) override {
    return Error{Code::kPermissionDenied, "none"};
  }
};

class Anybody final : public rpc::Authenticator {
  Result<rpc::Grant> Check(std::string_view) override { return rpc::Grant{.tenant = kTenant}; }
};

class Remote final : public Way {
 public:
  Remote(task_queue::Queues& queues, Clock& clock, Logger& log, const JobWorkerOptions& options)
      : clock_(clock), log_(log) {
    auto server =
        rpc::RpcServer::Open({.address = "127.0.0.1:0"}, {engine_, anybody_, clock, log, &queues});
    EXPECT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
    auto items =
        rpc::RpcItems::Open({.target = server_->address(), .credential = [] { return "any"; }},
                            options.tenant, options.name, random_);
    EXPECT_TRUE(items) << items.error().message;
    items_ = *std::move(items);
  }
  Result<std::unique_ptr<JobWorker>> Open(JobWorkerOptions options) override {
    return JobWorker::OpenRemote(std::move(options),
                                 {.items = *items_, .clock = clock_, .log = log_});
  }

 private:
  Clock& clock_;
  Logger& log_;
  SystemRandom random_;
  NoEngine engine_;
  Anybody anybody_;
  std::unique_ptr<rpc::RpcServer> server_;
  std::unique_ptr<rpc::RpcItems> items_;
};

}  // namespace

std::unique_ptr<Way> MakeWay(task_queue::Queues& queues, Clock& clock, Logger& log,
                             const JobWorkerOptions& options) {
  return std::make_unique<Remote>(queues, clock, log, options);
}

}  // namespace headworks
