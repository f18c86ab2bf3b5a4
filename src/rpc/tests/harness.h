#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "headworks/rpc/rpc_client.h"
#include "headworks/rpc/rpc_server.h"

namespace headworks::rpc {

/// One secret word for one credential.
class Words final : public Authenticator {
 public:
  Result<Grant> Check(std::string_view bearer) override {
    if (bearer == "other") return Grant{.tenant = TenantId("other")};
    if (bearer == "good") return Grant{.tenant = TenantId("acme")};
    if (bearer == "narrow")
      return Grant{.tenant = TenantId("acme"), .worker = "gpu-*", .queues = {"mail"}};
    if (bearer.empty()) return Error{Code::kPermissionDenied, "worker token: missing"};
    return Error{Code::kPermissionDenied, "worker token: bad_signature"};
  }
};

/// An engine that keeps what it is told, with its `done`, until the test answers.
template <typename Argument, typename Answer>
class Ear {
 public:
  using Done = worker_api::WorkerService::Done<Answer>;
  void Hear(Argument argument, Done done) {
    heard_.set_value({std::move(argument), std::move(done)});
  }
  /// The one thing that was said.
  std::pair<Argument, Done> Take() {
    auto future = heard_.get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      throw std::runtime_error("nothing was heard");
    auto heard = future.get();
    heard_ = {};
    return heard;
  }

 private:
  std::promise<std::pair<Argument, Done>> heard_;
};

class Engine final : public worker_api::EngineService {
 public:
  using Start_ = std::pair<worker_api::Identity, std::string>;
  using Log_ = std::pair<std::string, std::vector<log_store::Line>>;
  using Complete_ = std::pair<std::string, model::Outcome>;
  using HandBack_ = std::pair<worker_api::Identity, std::vector<std::string>>;

  void Register(worker_api::Registration r, Done<worker_api::Welcome> done) override {
    registered.Hear(std::move(r), std::move(done));
  }
  void PollFor(worker_api::Poll poll, Done<worker_api::Polled> done) override {
    polled.Hear(std::move(poll), std::move(done));
  }
  void Start(const worker_api::Identity& who, std::string token,
             Done<worker_api::Started> done) override {
    started.Hear({who, std::move(token)}, std::move(done));
  }
  void Beat(worker_api::Heartbeat beat, Done<worker_api::Beaten> done) override {
    beaten.Hear(std::move(beat), std::move(done));
  }
  void Log(std::string token, std::vector<log_store::Line> lines,
           Done<executor::Reply> done) override {
    logged.Hear({std::move(token), std::move(lines)}, std::move(done));
  }
  void PutArtifact(worker_api::ArtifactPut put, Done<worker_api::ArtifactTaken> done) override {
    given.Hear(std::move(put), std::move(done));
  }
  void GetArtifact(worker_api::ArtifactGet get, Done<worker_api::ArtifactPiece> done) override {
    got.Hear(std::move(get), std::move(done));
  }
  void Complete(std::string token, model::Outcome outcome, Done<executor::Reply> done) override {
    completed.Hear({std::move(token), std::move(outcome)}, std::move(done));
  }
  void HandBack(const worker_api::Identity& who, std::vector<std::string> tokens,
                Done<bool> done) override {
    handed_back.Hear({who, std::move(tokens)}, std::move(done));
  }
  void Leave(const worker_api::Identity& who, Done<bool> done) override {
    left.Hear(who, std::move(done));
  }

  Result<worker_api::Identity> SpeakerOf(std::string_view work_token) override {
    if (work_token == "expired") return Error{Code::kPermissionDenied, "attempt token: expired"};
    return speaker;
  }

  worker_api::Identity speaker{.tenant = TenantId("acme"), .worker = "w-1", .incarnation = "inc_7"};
  Ear<worker_api::Registration, worker_api::Welcome> registered;
  Ear<worker_api::Poll, worker_api::Polled> polled;
  Ear<Start_, worker_api::Started> started;
  Ear<worker_api::Heartbeat, worker_api::Beaten> beaten;
  Ear<Log_, executor::Reply> logged;
  Ear<worker_api::ArtifactPut, worker_api::ArtifactTaken> given;
  Ear<worker_api::ArtifactGet, worker_api::ArtifactPiece> got;
  Ear<Complete_, executor::Reply> completed;
  Ear<HandBack_, bool> handed_back;
  Ear<worker_api::Identity, bool> left;
};

/// What a call was answered, once it was.
template <typename T>
class Answered {
 public:
  worker_api::WorkerService::Done<T> done() {
    return [promise = promise_](Result<T> result) { promise->set_value(std::move(result)); };
  }
  Result<T> Get() {
    auto future = promise_->get_future();
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
      return Error{Code::kInternal, "no answer at all"};
    return future.get();
  }
  /// Of an answer that is none.
  T Value() {
    auto result = Get();
    if (!result) throw std::runtime_error(result.error().message);
    return *std::move(result);
  }

 private:
  std::shared_ptr<std::promise<Result<T>>> promise_ = std::make_shared<std::promise<Result<T>>>();
};

/// Of an answer that is an error, which `error()` of a value is not; none of a value.
template <typename T>
std::optional<Code> CodeOf(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

class RpcTest : public testing::Test {
 protected:
  const worker_api::Identity who{
      .tenant = TenantId("acme"), .worker = "w-1", .incarnation = "inc_7"};

  std::unique_ptr<RpcServer> Serve(RpcServerOptions options = {.address = "127.0.0.1:0"}) {
    auto opened = RpcServer::Open(std::move(options), {engine, words, clock, log});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  static std::unique_ptr<RpcClient> Connect(const std::string& target, std::string word = "good",
                                            RpcClientOptions options = {}) {
    options.target = target;
    options.credential = [word = std::move(word)] { return word; };
    auto opened = RpcClient::Open(std::move(options));
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }

  Engine engine;
  Words words;
  SystemClock clock;
  NullLogger log;
};

}  // namespace headworks::rpc
