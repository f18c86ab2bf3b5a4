#include "headworks/rpc/rpc_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "address.h"
#include "grpc_library.h"
#include "headworks/base/text.h"
#include "headworks/rpc/rpc_server.h"
#include "headworks/worker/v1/worker.grpc.pb.h"
#include "pem.h"
#include "status.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

constexpr int kSlackBytes = 1 << 20;
/// What fits the kernel's address of a socket, with the zero at its end.
constexpr std::size_t kMaxSocketPath = 107;
/// No limit of a message is below that.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
/// What gRPC's libraries say of a message beyond a limit.  With the same code they end calls for
/// want of memory and of much else that passes.
constexpr std::string_view kTooLarge[] = {"larger than max", "exceeds maximum size"};
/// Before a lost connection is tried again: at first and at most.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 5'000;
/// For a connection to be made, with TLS and across the world.
constexpr int kConnectWithinMs = 5'000;
/// What is large may take so much longer: said again it would be as large.
constexpr Duration kPerKiB = std::chrono::milliseconds(32);  // 250 kbit/s
/// For the job of a Start to arrive, whose size is not known before.
constexpr Duration kForJob = std::chrono::minutes(2);

int ToMs(Duration duration) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

gpr_timespec In(Duration wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(wait.count(), GPR_TIMESPAN));
}

Result<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const std::string& ca_file) {
  if (ca_file.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  HEADWORKS_ASSIGN(tls.pem_root_certs, ReadPem(ca_file, "TLS authorities"));
  return grpc::SslCredentials(tls);
}

grpc::ChannelArguments ArgumentsOf(const RpcClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxJobBytes) + kSlackBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ToMs(options.keepalive_every));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMs(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectWithinMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

/// What a refused credential means to a call.
enum class OnRefusal : unsigned char { kIsTheAnswer, kSayAgain };

}  // namespace

class RpcClient::Impl {
 public:
  Impl(RpcClientOptions options, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : options_(std::move(options)),
        stub_(v1::Worker::NewStub(
            grpc::CreateCustomChannel(options_.target, credentials, ArgumentsOf(options_)))) {}

  ~Impl() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    for (grpc::ClientContext* context : under_way_) context->TryCancel();
    idle_.wait(lock, [this] { return under_way_.empty(); });
  }

  /// Says `request` by the generated method; `read` makes the value of an answer.
  template <typename Request, typename Response, typename T>
  void Say(void (v1::Worker::Stub::async::*method)(grpc::ClientContext*, const Request*, Response*,
                                                   std::function<void(grpc::Status)>),
           Request request, Duration wait, OnRefusal refusal, Done<T> done,
           T (*read)(const Response&)) {
    struct Saying {
      grpc::ClientContext context;
      Request request;
      Response response;
    };
    auto saying = std::make_shared<Saying>();
    saying->request = std::move(request);
    saying->context.set_deadline(
        In(wait + options_.patience +
           kPerKiB * static_cast<std::int64_t>(saying->request.ByteSizeLong() / 1'024)));
    const auto bearer = Bearer();
    if (!bearer) {
      Error error = bearer.error();
      if (refusal == OnRefusal::kSayAgain) error.code = Code::kUnavailable;
      return done(std::move(error));
    }
    saying->context.AddMetadata("authorization", *bearer);
    {
      const std::scoped_lock lock(mutex_);
      under_way_.insert(&saying->context);
      if (closed_) saying->context.TryCancel();
    }
    (stub_->async()->*method)(
        &saying->context, &saying->request, &saying->response,
        [this, saying, refusal, read, done = std::move(done)](const grpc::Status& status) {
          if (status.ok())
            done(read(saying->response));
          else
            done(ErrorOf(saying->context, saying->request.ByteSizeLong(), status, refusal));
          const std::scoped_lock lock(mutex_);
          under_way_.erase(&saying->context);
          if (under_way_.empty()) idle_.notify_all();
        });
  }

  /// 0 = it has no clock.
  std::int64_t NowUs() const {
    return options_.clock == nullptr ? 0 : options_.clock->Now().time_since_epoch().count();
  }

 private:
  /// What may stand in a header: gRPC ends the program at anything else.
  Result<std::string> Bearer() const {
    std::string word = options_.credential();
    word.erase(word.find_last_not_of(" \t\r\n") + 1);
    const auto bad = std::ranges::find_if(word, [](char c) { return c < 0x20 || c > 0x7e; });
    if (bad != word.end())
      return Error{Code::kPermissionDenied,
                   fmt::format("the worker's token has a character at {} that no token has; is it "
                               "whole, and one line?",
                               bad - word.begin() + 1)};
    if (word.size() > worker_api::kMaxTokenBytes)
      return Error{Code::kPermissionDenied,
                   fmt::format("the worker's token has {} bytes; at most {}", word.size(),
                               worker_api::kMaxTokenBytes)};
    return "Bearer " + word;
  }

  /// `bytes`: of the request.
  Error ErrorOf(const grpc::ClientContext& context, std::size_t bytes, const grpc::Status& status,
                OnRefusal refusal) const {
    Error error = FromStatus(status);
    const bool engines = context.GetServerTrailingMetadata().contains(kEngineMark);
    // By whatever the request comes through: it would be so again.
    const bool too_large = !engines && error.code == Code::kAtCapacity && bytes > kLargeBytes &&
                           std::ranges::any_of(kTooLarge, [&](std::string_view text) {
                             return status.error_message().find(text) != std::string::npos;
                           });
    if (too_large)
      error = {Code::kInvalidArgument,
               fmt::format("too large on the way to {}: {}", options_.name, error.message)};
    else if (!engines && error.code != Code::kCancelled)
      error.code = Code::kUnavailable;
    if (error.code == Code::kUnavailable)
      error.message = fmt::format("no answer from {}: {}", options_.name, error.message);
    if (status.error_code() == grpc::UNAUTHENTICATED && refusal == OnRefusal::kSayAgain)
      error.code = Code::kUnavailable;
    return error;
  }

  const RpcClientOptions options_;
  const std::unique_ptr<v1::Worker::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_.
  std::set<grpc::ClientContext*> under_way_;
  bool closed_ = false;
};

namespace {

template <typename T, typename Response>
T ReadAs(const Response& response) {
  return FromWire(response);
}
template <typename Response>
executor::Reply ReadReply(const Response& response) {
  return FromWire(response.reply());
}
template <typename Response>
bool ReadDone(const Response& response) {
  return response.done();
}

Status CheckTarget(const std::string& text) {
  if (IsUnixAddress(text)) {
    const std::size_t bytes = text.size() - text.find(':') - 1;
    if (bytes > 0 && bytes <= kMaxSocketPath) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' has a path of {} bytes; that of a socket has 1 to {}", text,
                             bytes, kMaxSocketPath)};
  }
  HEADWORKS_ASSIGN(const Address target, ParseAddress(text));
  if (!target.host.empty() && target.port != 0) return {};
  return Error{Code::kInvalidArgument, fmt::format("'{}' names no server; write HOST:PORT", text)};
}

}  // namespace

Result<std::unique_ptr<RpcClient>> RpcClient::Open(RpcClientOptions options) {
  PrepareGrpc();
  HEADWORKS_TRY(CheckTarget(options.target));
  if (options.name.empty()) options.name = options.target;
  HEADWORKS_ASSIGN(const auto credentials, CredentialsOf(options.tls_ca_file));
  return std::unique_ptr<RpcClient>(
      new RpcClient(std::make_unique<Impl>(std::move(options), credentials)));
}

RpcClient::RpcClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RpcClient::~RpcClient() = default;

using Async = class v1::Worker::Stub::async;

void RpcClient::Register(worker_api::Registration registration, Done<worker_api::Welcome> done) {
  v1::RegisterRequest request;
  ToWire(registration, request);
  impl_->Say(&Async::Register, std::move(request), {}, OnRefusal::kIsTheAnswer, std::move(done),
             &ReadAs<worker_api::Welcome, v1::RegisterResponse>);
}

void RpcClient::PollFor(worker_api::Poll poll, Done<worker_api::Polled> done) {
  v1::PollRequest request;
  ToWire(poll, request);
  impl_->Say(&Async::Poll, std::move(request), poll.wait, OnRefusal::kIsTheAnswer, std::move(done),
             &ReadAs<worker_api::Polled, v1::PollResponse>);
}

void RpcClient::Start(const worker_api::Identity& who, std::string start_token,
                      Done<worker_api::Started> done) {
  v1::StartRequest request;
  ToWire(who, *request.mutable_who());
  request.set_start_token(std::move(start_token));
  impl_->Say(&Async::Start, std::move(request), kForJob, OnRefusal::kSayAgain, std::move(done),
             &ReadAs<worker_api::Started, v1::StartResponse>);
}

void RpcClient::Beat(worker_api::Heartbeat heartbeat, Done<worker_api::Beaten> done) {
  v1::HeartbeatRequest request;
  ToWire(heartbeat, request);
  impl_->Say(&Async::Heartbeat, std::move(request), heartbeat.wait, OnRefusal::kSayAgain,
             std::move(done), &ReadAs<worker_api::Beaten, v1::HeartbeatResponse>);
}

void RpcClient::Log(std::string work_token, std::vector<log_store::Line> lines,
                    Done<executor::Reply> done) {
  if (const Status fits = CheckLines(lines); !fits) return done(fits.error());
  v1::LogRequest request;
  request.set_work_token(std::move(work_token));
  ToWire(lines, request);
  request.set_sent_at_us(impl_->NowUs());
  impl_->Say(&Async::Log, std::move(request), {}, OnRefusal::kSayAgain, std::move(done),
             &ReadReply<v1::LogResponse>);
}

void RpcClient::PutArtifact(worker_api::ArtifactPut put, Done<worker_api::ArtifactTaken> done) {
  if (const Status fits = CheckPut(put); !fits) return done(fits.error());
  v1::PutArtifactRequest request;
  ToWire(std::move(put), request);
  impl_->Say(&Async::PutArtifact, std::move(request), {}, OnRefusal::kSayAgain, std::move(done),
             &ReadAs<worker_api::ArtifactTaken, v1::PutArtifactResponse>);
}

void RpcClient::GetArtifact(worker_api::ArtifactGet get, Done<worker_api::ArtifactPiece> done) {
  if (const Status fits = CheckGet(get); !fits) return done(fits.error());
  v1::GetArtifactRequest request;
  ToWire(get, request);
  const Duration for_piece = kPerKiB * static_cast<std::int64_t>(get.max_bytes / 1'024);
  impl_->Say(&Async::GetArtifact, std::move(request), for_piece, OnRefusal::kSayAgain,
             std::move(done), &ReadAs<worker_api::ArtifactPiece, v1::GetArtifactResponse>);
}

void RpcClient::Complete(std::string work_token, model::Outcome outcome,
                         Done<executor::Reply> done) {
  if (const Status fits = CheckOutcome(outcome); !fits) return done(fits.error());
  // The engine keeps no more, and the whole is not to be too large for it.
  if (outcome.error.size() > worker_api::kMaxErrorBytes)
    outcome.error.resize(
        ValidUtf8Prefix(std::string_view(outcome.error).substr(0, worker_api::kMaxErrorBytes)));
  v1::CompleteRequest request;
  request.set_work_token(std::move(work_token));
  ToWire(outcome, *request.mutable_outcome());
  impl_->Say(&Async::Complete, std::move(request), {}, OnRefusal::kSayAgain, std::move(done),
             &ReadReply<v1::CompleteResponse>);
}

void RpcClient::HandBack(const worker_api::Identity& who, std::vector<std::string> start_tokens,
                         Done<bool> done) {
  v1::HandBackRequest request;
  ToWire(who, *request.mutable_who());
  for (std::string& token : start_tokens) request.add_start_tokens(std::move(token));
  impl_->Say(&Async::HandBack, std::move(request), {}, OnRefusal::kSayAgain, std::move(done),
             &ReadDone<v1::HandBackResponse>);
}

void RpcClient::Leave(const worker_api::Identity& who, Done<bool> done) {
  v1::LeaveRequest request;
  ToWire(who, *request.mutable_who());
  impl_->Say(&Async::Leave, std::move(request), {}, OnRefusal::kSayAgain, std::move(done),
             &ReadDone<v1::LeaveResponse>);
}

}  // namespace headworks::rpc
