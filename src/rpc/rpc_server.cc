#include "headworks/rpc/rpc_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "address.h"
#include "front.h"
#include "grpc_library.h"
#include "headworks/base/key_pair.h"
#include "headworks/worker/v1/worker.grpc.pb.h"
#include "pem.h"
#include "queue_service.h"
#include "status.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

using worker_api::WorkerService;

/// A Log of the shortest lines takes more than its lines count, by half; and there is the token.
constexpr int kMaxRequestBytes = 2 * static_cast<int>(worker_api::kMaxLogBytes);
/// An answer's words beside its job.
constexpr int kSlackBytes = 1 << 20;
/// A credential of 8 KiB, and what gRPC adds.
constexpr int kMaxMetadataBytes = 16 * 1024;
/// Of the bytes that the library reads for calls, before anybody's credential is looked at; beyond
/// it calls are ended.  What Protobuf makes of them is not counted, and may be 40 times as much.
constexpr std::size_t kMaxMemory = std::size_t{1} << 30;
/// After the calls under way were answered.
constexpr Duration kCloseWithin = std::chrono::seconds(2);

/// The generated service over the port.
class Service final : public v1::Worker::CallbackService {
 public:
  Service(const RpcServerPorts& ports, Front& front, std::size_t max_piece_bytes)
      : ports_(ports), front_(front), pieces_(std::make_shared<Pieces>(max_piece_bytes)) {}

  grpc::ServerUnaryReactor* Register(Context* context, const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override {
    return Take("Register", *context, [&](auto& call, auto& grant) -> Status {
      auto registration = FromWire(*request);
      HEADWORKS_TRY(Admit(grant, registration.who));
      HEADWORKS_TRY(AdmitQueues(grant, registration.slots));
      ports_.service.Register(std::move(registration),
                              Answering<worker_api::Welcome>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* Poll(Context* context, const v1::PollRequest* request,
                                 v1::PollResponse* response) override {
    return Take("Poll", front_.waits(), *context, [&](auto& call, auto& grant) -> Status {
      auto poll = FromWire(*request);
      HEADWORKS_TRY(Admit(grant, poll.who));
      HEADWORKS_TRY(AdmitQueues(grant, poll.free));
      poll.wait = std::min(poll.wait, front_.Left(*context));
      ports_.service.PollFor(poll, [call, response, who = poll.who,
                                    &service = ports_.service](Result<worker_api::Polled> polled) {
        if (!polled) {
          call->Answer(ToStatus(polled.error()));
        } else if (!call->Answer(grpc::Status::OK, [&] { ToWire(*polled, *response); })) {
          // Nobody hears of these: sooner than by their leases they are another's.
          std::vector<std::string> tokens;
          for (auto& each : polled->assignments) tokens.push_back(std::move(each.start_token));
          if (!tokens.empty()) service.HandBack(who, std::move(tokens), [](const Result<bool>&) {});
        }
      });
      return {};
    });
  }

  grpc::ServerUnaryReactor* Start(Context* context, const v1::StartRequest* request,
                                  v1::StartResponse* response) override {
    return Take("Start", *context, [&](auto& call, auto& grant) -> Status {
      const auto who = FromWire(request->who());
      if (!MaySpeak(call, grant, who)) return {};
      ports_.service.Start(
          who, request->start_token(),
          [call, response, &service = ports_.service](const Result<worker_api::Started>& started) {
            if (!started)
              call->Answer(ToStatus(started.error()));
            else
              AnswerStart(call, *started, *response, service);
          });
      return {};
    });
  }

  grpc::ServerUnaryReactor* Heartbeat(Context* context, const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override {
    // One that cannot wait is heard all the same: leases hang on it (I11).
    bool waits = request->wait_us() > 0;
    const auto begin = [&](const TenantId& tenant) {
      auto begun = waits ? front_.waits().Begin(tenant) : nullptr;
      waits = begun != nullptr;
      return waits ? begun : front_.words().Begin(tenant);
    };
    return front_.TakeBy("Heartbeat", begin, *context, [&](auto& call, auto& grant) -> Status {
      auto heartbeat = FromWire(*request);
      if (!MaySpeak(call, grant, heartbeat.who)) return {};
      heartbeat.wait = waits ? std::min(heartbeat.wait, front_.Left(*context)) : Duration(0);
      ports_.service.Beat(std::move(heartbeat), Answering<worker_api::Beaten>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* Log(Context* context, const v1::LogRequest* request,
                                v1::LogResponse* response) override {
    return Take("Log", *context, [&](auto& call, auto& grant) -> Status {
      if (!MaySpeakOf(call, grant, request->work_token())) return {};
      HEADWORKS_ASSIGN(auto lines, FromWire(*request, ports_.clock.Now()));
      HEADWORKS_TRY(CheckLines(lines));
      ports_.service.Log(request->work_token(), std::move(lines),
                         Answering<executor::Reply>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* PutArtifact(Context* context, const v1::PutArtifactRequest* request,
                                        v1::PutArtifactResponse* response) override {
    return Take("PutArtifact", *context, [&](auto& call, auto& credential) -> Status {
      if (!MaySpeakOf(call, credential, request->work_token())) return {};
      auto put = FromWire(*request);
      HEADWORKS_TRY(CheckPut(put));
      ports_.service.PutArtifact(std::move(put),
                                 Answering<worker_api::ArtifactTaken>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* GetArtifact(Context* context, const v1::GetArtifactRequest* request,
                                        v1::GetArtifactResponse* response) override {
    return Take("GetArtifact", *context, [&](auto& call, auto& credential) -> Status {
      if (!MaySpeakOf(call, credential, request->work_token())) return {};
      auto get = FromWire(*request);
      HEADWORKS_TRY(CheckGet(get));
      auto room = pieces_->Take(credential.tenant, get.max_bytes);
      if (!room) return Error{Code::kAtCapacity, "too many pieces are under way"};
      call->Hold(std::move(room));
      ports_.service.GetArtifact(std::move(get),
                                 Answering<worker_api::ArtifactPiece>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* Complete(Context* context, const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override {
    return Take("Complete", *context, [&](auto& call, auto& grant) -> Status {
      if (!MaySpeakOf(call, grant, request->work_token())) return {};
      HEADWORKS_ASSIGN(auto outcome, FromWire(request->outcome()));
      HEADWORKS_TRY(CheckOutcome(outcome));
      ports_.service.Complete(request->work_token(), std::move(outcome),
                              Answering<executor::Reply>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* HandBack(Context* context, const v1::HandBackRequest* request,
                                     v1::HandBackResponse* response) override {
    return Take("HandBack", *context, [&](auto& call, auto& grant) -> Status {
      const auto who = FromWire(request->who());
      if (!MaySpeak(call, grant, who)) return {};
      ports_.service.HandBack(who, {request->start_tokens().begin(), request->start_tokens().end()},
                              Answering<bool>(call, response));
      return {};
    });
  }

  grpc::ServerUnaryReactor* Leave(Context* context, const v1::LeaveRequest* request,
                                  v1::LeaveResponse* response) override {
    return Take("Leave", *context, [&](auto& call, auto& grant) -> Status {
      const auto who = FromWire(request->who());
      if (!MaySpeak(call, grant, who)) return {};
      ports_.service.Leave(who, Answering<bool>(call, response));
      return {};
    });
  }

 private:
  /// A word of an attempt.
  template <typename Handle>
  grpc::ServerUnaryReactor* Take(const char* name, Context& context, const Handle& handle) {
    return Take(name, front_.words(), context, handle);
  }
  template <typename Handle>
  grpc::ServerUnaryReactor* Take(const char* name, Calls& calls, Context& context,
                                 const Handle& handle) {
    return front_.Take(name, calls, context, handle);
  }

  static bool MaySpeak(const CallPtr& call, const Grant& grant, const worker_api::Identity& who) {
    return rpc::MaySpeak(call, Admit(grant, who));
  }
  /// As that, of the attempt's holder.
  bool MaySpeakOf(const CallPtr& call, const Grant& grant, const std::string& work_token) {
    const auto who = ports_.service.SpeakerOf(work_token);
    if (!who) call->Answer(ToStatus(who.error()));
    return who && MaySpeak(call, grant, *who);
  }

  template <typename T, typename Response>
  static WorkerService::Done<T> Answering(const CallPtr& call, Response* response) {
    return [call, response](const Result<T>& result) {
      if (!result) {
        call->Answer(ToStatus(result.error()));
        return;
      }
      call->Answer(grpc::Status::OK, [&] {
        if constexpr (std::is_same_v<T, executor::Reply>)
          response->set_reply(ToWire(*result));
        else if constexpr (std::is_same_v<T, bool>)
          response->set_done(*result);
        else
          ToWire(*result, *response);
      });
    };
  }

  static void AnswerStart(const CallPtr& call, const worker_api::Started& started,
                          v1::StartResponse& response, WorkerService& service) {
    v1::StartResponse said;
    ToWire(started, said);
    const std::size_t bytes = said.job().ByteSizeLong();
    if (bytes <= kMaxJobBytes) {
      call->Answer(grpc::Status::OK, [&] { response.Swap(&said); });
      return;
    }
    // It holds the attempt and cannot be told of what: that would be the same at each further try.
    model::Outcome outcome{.verdict = model::Verdict::kFailed,
                           .reason = model::Reason::kDispatchFailed};
    outcome.error = fmt::format(
        "the task with its inputs has {} bytes; a worker is given at most {}: pass large data by "
        "reference",
        bytes, kMaxJobBytes);
    service.Complete(started.work_token, std::move(outcome),
                     [call, &response](const Result<executor::Reply>& reply) {
                       if (reply && *reply != executor::Reply::kAskAgain)
                         call->Answer(grpc::Status::OK,
                                      [&] { response.set_reply(v1::REPLY_STOP); });
                       else
                         call->Answer({grpc::UNAVAILABLE, "say it again"});
                     });
  }

  const RpcServerPorts ports_;
  Front& front_;
  const std::shared_ptr<Pieces> pieces_;
};

Result<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(const RpcServerOptions& options) {
  if (options.tls_cert_file.empty() != options.tls_key_file.empty())
    return Error{Code::kInvalidArgument,
                 "a TLS certificate needs its key, and a key its certificate: give both files"};
  if (options.tls_cert_file.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  HEADWORKS_ASSIGN(pair.cert_chain, ReadPem(options.tls_cert_file, "TLS certificate"));
  HEADWORKS_ASSIGN(pair.private_key, ReadPem(options.tls_key_file, "TLS key"));
  HEADWORKS_TRY(CheckKeyPair({options.tls_cert_file, pair.cert_chain},
                             {options.tls_key_file, pair.private_key}));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(tls);
}

}  // namespace

class RpcServer::Impl {
 public:
  Impl(RpcServerOptions options, const RpcServerPorts& ports)
      : options_(std::move(options)),
        front_(ports, options_.max_calls),
        service_(ports, front_, options_.max_piece_bytes) {
    if (ports.queues != nullptr) queues_.emplace(ports, front_, options_.max_piece_bytes);
  }

  ~Impl() {
    front_.Close();
    if (server_ != nullptr)
      server_->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                     gpr_time_from_micros(kCloseWithin.count(), GPR_TIMESPAN)));
  }

  Status Listen() {
    const bool local = IsUnixAddress(options_.address);
    Address at;
    if (!local) {
      HEADWORKS_ASSIGN(at, ParseAddress(options_.address));
      if (at.host.empty()) at.host = "127.0.0.1";
    }
    HEADWORKS_ASSIGN(const auto credentials, CredentialsOf(options_));
    grpc::ServerBuilder builder;
    int port = 0;
    address_ = local ? options_.address : at.ToString();
    builder.AddListeningPort(address_, credentials, &port);
    builder.RegisterService(&service_);
    if (queues_) builder.RegisterService(&*queues_);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(static_cast<int>(kMaxJobBytes) + kSlackBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    // That is looked at once headers have ended; whoever never ends them meets this bound.
    builder.SetResourceQuota(grpc::ResourceQuota("workers").Resize(kMaxMemory));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    // Workers ask each few seconds whether the connection lives.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) return CannotListen();
    at.port = port;
    if (!local) address_ = at.ToString();
    return {};
  }

  const std::string& address() const { return address_; }

 private:
  Error CannotListen() const {
    std::string why = "it is taken by another process, or not an address of this machine";
    if (IsUnixAddress(address_))
      why = "no socket can be made there; look at its folder, and who may write to it";
    return {Code::kConflict, fmt::format("cannot listen at {}: {}", address_, why)};
  }

  const RpcServerOptions options_;
  Front front_;
  Service service_;
  std::optional<QueueService> queues_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

Result<std::unique_ptr<RpcServer>> RpcServer::Open(RpcServerOptions options,
                                                   const RpcServerPorts& ports) {
  PrepareGrpc();
  auto impl = std::make_unique<Impl>(std::move(options), ports);
  HEADWORKS_TRY(impl->Listen());
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RpcServer::~RpcServer() = default;
const std::string& RpcServer::address() const { return impl_->address(); }

}  // namespace headworks::rpc
