#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "headworks/rpc/rpc_client.h"

namespace headworks::rpc {

/// What a refused credential means to a call.
enum class OnRefusal : unsigned char { kIsTheAnswer, kSayAgain };

/// What is large may take so much longer; said again it would be as large.
inline constexpr Duration kPerKiB = std::chrono::milliseconds(32);  // 250 kbit/s

/// A channel to one engine, and what is under way on it.
///
/// Life.  The destructor ends calls as kCancelled, and returns after their `done`.
/// Threads.  All methods may be called concurrently.
class Connection {
 public:
  /// Does not connect yet.  Errors as for RpcClient::Open.
  static Result<std::unique_ptr<Connection>> Open(RpcClientOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const RpcClientOptions& options() const { return options_; }

  /// Says `request` by the generated method of `stub`; `read` makes the value of an answer.  What
  /// is returned gives the call up: it ends, soon, by its `done`.
  template <typename Async, typename Request, typename Response, typename Read, typename Done>
  std::function<void()> Say(Async* stub,
                            void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                                  std::function<void(grpc::Status)>),
                            Request request, Duration wait, OnRefusal refusal, Done done,
                            Read read) {
    struct Saying {
      grpc::ClientContext context;
      Request request;
      Response response;
    };
    auto saying = std::make_shared<Saying>();
    saying->request = std::move(request);
    SetDeadline(saying->context, wait, saying->request.ByteSizeLong());
    const auto bearer = Bearer();
    if (!bearer) {
      Error error = bearer.error();
      if (refusal == OnRefusal::kSayAgain) error.code = Code::kUnavailable;
      done(std::move(error));
      return [] {};
    }
    saying->context.AddMetadata("authorization", *bearer);
    Begin(saying->context);
    (stub->*method)(
        &saying->context, &saying->request, &saying->response,
        [this, saying, refusal, read, done = std::move(done)](const grpc::Status& status) {
          if (status.ok()) {
            was_answered_ = true;
            done(read(saying->response));
          } else {
            done(ErrorOf(saying->context, saying->request.ByteSizeLong(), status, refusal));
          }
          End(saying->context);
        });
    return [saying] { saying->context.TryCancel(); };
  }

 private:
  Connection(RpcClientOptions options,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials);

  void SetDeadline(grpc::ClientContext& context, Duration wait, std::size_t bytes) const;
  void Begin(grpc::ClientContext& context);
  void End(grpc::ClientContext& context);
  Result<std::string> Bearer() const;
  std::string HintOf(std::string_view said) const;
  Error ErrorOf(const grpc::ClientContext& context, std::size_t bytes, const grpc::Status& status,
                OnRefusal refusal) const;

  const RpcClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> was_answered_ = false;
  std::mutex mutex_;
  std::condition_variable idle_;
  // Guarded by mutex_.
  std::set<grpc::ClientContext*> under_way_;
  bool closed_ = false;
};

}  // namespace headworks::rpc
