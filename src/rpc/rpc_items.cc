#include "headworks/rpc/rpc_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "connection.h"
#include "headworks/worker/v1/queue.grpc.pb.h"
#include "queue_wire.h"
#include "wire.h"

namespace headworks::rpc {
namespace {

/// The end of a wait is asked for again, should the word have overtaken the claim, or be lost.
constexpr Duration kAskAgain = std::chrono::milliseconds(250);

/// For items to arrive, whose size is not known before.
constexpr Duration kForItems = std::chrono::minutes(2);

/// What passes, though it is no answer: say it again.
Error Passing(Error error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kConflict:
    case Code::kPermissionDenied:
      return error;
    default:
      error.code = Code::kUnavailable;
      return error;
  }
}

/// One answer, for a thread that waits for it.
template <typename T>
class Answer {
 public:
  void Set(Result<T> answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = std::move(answer);
    changed_.notify_all();
  }
  Result<T> Get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return answer_.has_value(); });
    return *std::move(answer_);
  }
  /// Until there is one, or `stop` asks.
  bool Wait(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [this] { return answer_.has_value(); });
  }
  bool WaitFor(Duration wait) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, wait, [this] { return answer_.has_value(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Result<T>> answer_;
};

}  // namespace

class RpcItems::Impl {
 public:
  Impl(std::unique_ptr<Connection> connection, worker_api::Identity who)
      : who_(std::move(who)),
        stub_(v1::Queues::NewStub(connection->channel())),
        connection_(std::move(connection)) {}

  template <typename Request>
  Result<Request> RequestFor(const TenantId& tenant, std::string_view queue) const {
    if (tenant != who_.tenant)
      return Error{Code::kInvalidArgument,
                   fmt::format("this connection is for tenant '{}', not '{}'", who_.tenant.value,
                               tenant.value)};
    Request request;
    ToWire(who_, *request.mutable_who());
    request.set_queue(std::string(queue));
    return request;
  }

  /// `read` makes a Result<T> of a response.
  template <typename T, typename Request, typename Response, typename Read>
  std::pair<std::shared_ptr<Answer<T>>, std::function<void()>> Say(
      void (v1::Queues::Stub::async::*method)(grpc::ClientContext*, const Request*, Response*,
                                              std::function<void(grpc::Status)>),
      Request request, Duration wait, OnRefusal refusal, Read read) {
    auto answer = std::make_shared<Answer<T>>();
    auto give_up = connection_->Say(
        stub_->async(), method, std::move(request), wait, refusal,
        [answer](Result<T> result) {
          answer->Set(result ? std::move(result) : Result<T>(Passing(result.error())));
        },
        read);
    return {std::move(answer), std::move(give_up)};
  }

  Duration patience() const { return connection_->options().patience; }

 private:
  const worker_api::Identity who_;
  const std::unique_ptr<v1::Queues::Stub> stub_;
  const std::unique_ptr<Connection> connection_;  // last: waits for calls of the stub
};

namespace {

using Async = class v1::Queues::Stub::async;

/// The answers, if there are as many as were asked for.
template <typename T, typename Response, typename Each>
Result<std::vector<T>> ReadAll(const Response& response, std::size_t count, Each each) {
  if (static_cast<std::size_t>(response.answers_size()) != count)
    return Error{Code::kUnavailable,
                 fmt::format("an engine answered {} of {} claims", response.answers_size(), count)};
  std::vector<T> all;
  all.reserve(count);
  for (const v1::ClaimAnswer& answer : response.answers()) all.push_back(each(answer));
  return all;
}

}  // namespace

Result<std::unique_ptr<RpcItems>> RpcItems::Open(RpcClientOptions options, TenantId tenant,
                                                 std::string worker, Random& random) {
  worker_api::Identity who{.tenant = std::move(tenant),
                           .worker = std::move(worker),
                           .incarnation = fmt::format("{:016x}", random.Next())};
  if (!worker_api::IsName(who.worker))
    return Error{
        Code::kInvalidArgument,
        fmt::format("'{}' is no name of a worker; give 1 to {} letters, digits, '_' or '-'",
                    who.worker, worker_api::kMaxNameBytes)};
  HEADWORKS_ASSIGN(auto connection, Connection::Open(std::move(options)));
  return std::unique_ptr<RpcItems>(
      new RpcItems(std::make_unique<Impl>(std::move(connection), std::move(who))));
}

RpcItems::RpcItems(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RpcItems::~RpcItems() = default;

Result<task_queue::Polled> RpcItems::Await(const task_queue::PollRequest& request, Duration wait,
                                           const std::stop_token& stop) {
  if (stop.stop_requested()) return task_queue::Polled{};
  wait = std::min(wait, worker_api::kMaxWait);
  HEADWORKS_ASSIGN(auto claim, impl_->RequestFor<v1::ClaimRequest>(request.tenant, request.queue));
  v1::ClaimRequest end = claim;
  claim.set_max_items(static_cast<std::uint32_t>(request.max_items));
  claim.set_visibility_us(request.visibility.count());
  claim.set_wait_us(wait.count());
  const auto read = [](v1::ClaimResponse& response) { return FromWire(response); };
  const auto [answer, give_up] = impl_->Say<task_queue::Polled>(
      &Async::Claim, std::move(claim), wait + kForItems, OnRefusal::kIsTheAnswer, read);
  if (answer->Wait(stop)) return answer->Get();
  // Items may be on their way: so the wait is ended, and not the call.
  for (Duration asked{}; asked < impl_->patience(); asked += kAskAgain) {
    impl_->Say<task_queue::Polled>(&Async::Claim, end, {}, OnRefusal::kSayAgain, read);
    if (answer->WaitFor(kAskAgain)) return answer->Get();
  }
  give_up();
  return answer->Get();
}

Result<std::vector<Result<task_queue::ItemState>>> RpcItems::Settle(
    const TenantId& tenant, std::string_view queue,
    std::span<const task_queue::Settlement> settlements) {
  HEADWORKS_ASSIGN(auto request, impl_->RequestFor<v1::SettleRequest>(tenant, queue));
  for (const auto& settlement : settlements) ToWire(settlement, *request.add_settlements());
  return impl_
      ->Say<std::vector<Result<task_queue::ItemState>>>(
          &Async::Settle, std::move(request), {}, OnRefusal::kSayAgain,
          [count = settlements.size()](const v1::SettleResponse& response) {
            return ReadAll<Result<task_queue::ItemState>>(response, count, StateOf);
          })
      .first->Get();
}

Result<std::vector<Status>> RpcItems::Extend(const TenantId& tenant, std::string_view queue,
                                             std::span<const task_queue::Claim> claims,
                                             Duration visibility) {
  HEADWORKS_ASSIGN(auto request, impl_->RequestFor<v1::ExtendRequest>(tenant, queue));
  for (const task_queue::Claim claim : claims) request.add_claims(task_queue::FormatClaim(claim));
  request.set_visibility_us(visibility.count());
  return impl_
      ->Say<std::vector<Status>>(&Async::Extend, std::move(request), {}, OnRefusal::kSayAgain,
                                 [count = claims.size()](const v1::ExtendResponse& response) {
                                   return ReadAll<Status>(response, count, StatusOf);
                                 })
      .first->Get();
}

}  // namespace headworks::rpc
