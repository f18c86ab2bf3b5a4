#include "headworks/rpc/rpc_client.h"

#include <cstdint>
#include <utility>

#include "connection.h"
#include "headworks/base/text.h"
#include "headworks/worker/v1/worker.grpc.pb.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

/// For the job of a Start to arrive, whose size is not known before.
constexpr Duration kForJob = std::chrono::minutes(2);

}  // namespace

class RpcClient::Impl {
 public:
  explicit Impl(std::unique_ptr<Connection> connection)
      : stub_(v1::Worker::NewStub(connection->channel())), connection_(std::move(connection)) {}

  template <typename Request, typename Response, typename T>
  void Say(void (v1::Worker::Stub::async::*method)(grpc::ClientContext*, const Request*, Response*,
                                                   std::function<void(grpc::Status)>),
           Request request, Duration wait, OnRefusal refusal, Done<T> done,
           T (*read)(const Response&)) {
    connection_->Say(stub_->async(), method, std::move(request), wait, refusal, std::move(done),
                     read);
  }

  /// 0 = it has no clock.
  std::int64_t NowUs() const {
    Clock* const clock = connection_->options().clock;
    return clock == nullptr ? 0 : clock->Now().time_since_epoch().count();
  }

 private:
  const std::unique_ptr<v1::Worker::Stub> stub_;
  const std::unique_ptr<Connection> connection_;  // last: waits for calls of the stub
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

}  // namespace

Result<std::unique_ptr<RpcClient>> RpcClient::Open(RpcClientOptions options) {
  HEADWORKS_ASSIGN(auto connection, Connection::Open(std::move(options)));
  return std::unique_ptr<RpcClient>(new RpcClient(std::make_unique<Impl>(std::move(connection))));
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
