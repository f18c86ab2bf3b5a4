#include "remote_artifacts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "headworks/artifact_store_conformance/harness.h"
#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/base/json.h"
#include "headworks/base/random.h"
#include "headworks/base/tenant.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/rpc/rpc_server.h"
#include "headworks/token/jwt_issuer.h"

// The engine's store from afar: as the port says, over a real connection, and through bad days.
namespace headworks::worker {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using artifact_store::Blob;
using artifact_store::BlobStore;
using artifact_store::Owner;
using executor::Reply;
using worker_api::ArtifactPiece;
using worker_api::ArtifactTaken;

/// What comes within a minute, or after whoever waited for it has gone.
template <typename T>
class Awaited {
 public:
  worker_api::WorkerService::Done<T> Done() const {
    return [promise = promise_](const Result<T>& result) {
      EXPECT_TRUE(result) << result.error().message;
      promise->set_value(result.value_or(T{}));
    };
  }
  T Get() {
    auto future = promise_->get_future();
    if (future.wait_for(1min) != std::future_status::ready)
      throw std::runtime_error("nothing came within a minute");
    return future.get();
  }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
};

/// Hears all that is said.
class Judge final : public executor::AttemptSink {
 public:
  void Started(const model::AttemptKey&) override {}
  void Ended(const model::AttemptKey&, model::Outcome) override {}
  void CapacityChanged() override {}
  void Hear(executor::Word, std::function<void(executor::Heard)> done) override {
    done({Reply::kGoOn, SystemClock().Now()});
  }
};

/// Of each run the blob that is wanted of it.
class Wanted final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt& attempt) override {
    executor::Resolved resolved{.context_json = "{}"};
    const std::scoped_lock lock(mutex);
    if (const auto blob = of.find(attempt.key.epoch.value); blob != of.end())
      resolved.artifacts = {
          {{.file = "f", .sha256 = blob->second.sha256, .size = blob->second.size},
           "leaves.f",
           attempt.artifact_dir + "/leaves/f/f"}};
    return resolved;
  }
  std::mutex mutex;
  std::map<std::int64_t, Blob> of;  // by epoch; guarded by mutex
};

class OpenDoor final : public rpc::Authenticator {
 public:
  explicit OpenDoor(const std::string& tenant) : tenant_(tenant) {}
  Result<rpc::Grant> Check(std::string_view) override { return rpc::Grant{.tenant = tenant_}; }

 private:
  const TenantId tenant_;
};

/// An engine with a folder for artifacts, a port, and a worker at it, for one tenant.
class Site {
 public:
  Site(const std::string& tenant, artifact_store::ArtifactStore& store) : tenant_(tenant) {
    queue_ = *executor_queue::NewQueueExecutor({}, {.resolver = wanted_,
                                                    .logs = *logs_,
                                                    .tokens = *tokens_,
                                                    .token_clock = clock_,
                                                    .clock = clock_,
                                                    .log = log_,
                                                    .artifacts = &store});
    EXPECT_TRUE(queue_->Start(judge_));
    server_ = *rpc::RpcServer::Open({.address = "127.0.0.1:0"}, {*queue_, door_, clock_, log_});
    client_ = *rpc::RpcClient::Open(
        {.target = server_->address(), .credential = [] { return std::string("any"); }});
    artifacts_ = std::make_unique<RemoteArtifacts>(*client_);
    Awaited<worker_api::Welcome> welcome;
    client_->Register({.who = who_, .slots = {{"default", 1'000}}, .artifact_dir = "/var/needs"},
                      welcome.Done());
    welcome.Get();
  }
  ~Site() { EXPECT_TRUE(queue_->Drain(0s)); }

  /// As an attempt of that run sees the store whose job names `blob`.
  std::shared_ptr<BlobStore> StoreOf(const RunId& run, const std::optional<Blob>& blob) {
    executor::Attempt attempt;
    attempt.key = {tenant_, RunNo(1), *workflow_->Find("needs"), -1, Epoch(++epochs_)};
    attempt.run_id = run;
    attempt.workflow = workflow_;
    {
      const std::scoped_lock lock(wanted_.mutex);
      if (blob) wanted_.of[epochs_] = *blob;
    }
    EXPECT_EQ(queue_->Offer(attempt).disposition, model::Disposition::kDispatched);
    Awaited<worker_api::Polled> polled;
    client_->PollFor({.who = who_, .free = {{"default", 1}}, .wait = 10s}, polled.Done());
    const auto given = polled.Get();
    EXPECT_EQ(given.assignments.size(), 1U);
    Awaited<worker_api::Started> started;
    client_->Start(who_, given.assignments.at(0).start_token, started.Done());
    const auto job = started.Get();
    EXPECT_EQ(job.reply, Reply::kGoOn);
    artifacts_->Open(attempt.key, job.work_token);
    return artifacts_->Of(attempt.key);
  }

 private:
  static std::shared_ptr<const model::Workflow> Flow() {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    model::Task leaves{.id = "leaves", .action = model::ExecAction{{"x"}}};
    leaves.artifacts = {{"f", "f"}};
    model::Task needs{.id = "needs", .action = model::ExecAction{{"x"}}};
    needs.needs = {"leaves"};
    needs.artifacts = {{"g", "g"}};
    definition.tasks = {leaves, needs};
    return model::Workflow::Create(definition).value();
  }

  const TenantId tenant_;
  const worker_api::Identity who_{tenant_, "w", "one"};
  const std::shared_ptr<const model::Workflow> workflow_ = Flow();
  SystemClock clock_;
  SystemRandom random_;
  NullLogger log_;
  Judge judge_;
  Wanted wanted_;
  OpenDoor door_{tenant_.value};
  const std::unique_ptr<log_store::LogStore> logs_ = log_store::NewMemoryLogStore();
  std::unique_ptr<token::JwtIssuer> tokens_ =
      *token::JwtIssuer::Create({}, token::TokenKeys::Generate(random_), clock_);
  std::int64_t epochs_ = 0;
  std::unique_ptr<executor_queue::QueueExecutor> queue_;
  std::unique_ptr<rpc::RpcServer> server_;
  std::unique_ptr<rpc::RpcClient> client_;
  std::unique_ptr<RemoteArtifacts> artifacts_;
};

/// Written and read from afar, each time by another attempt; removed and swept by the engine.
class FromAfar final : public artifact_store::ArtifactStore {
 public:
  explicit FromAfar(const std::string& folder)
      : here_(artifact_store_files::NewFileArtifactStore(folder)) {}

  Result<std::unique_ptr<artifact_store::Writer>> Begin(const Owner& owner) override {
    if (!HasWorkers(owner)) return here_->Begin(owner);
    return SiteOf(owner).StoreOf(owner.run, std::nullopt)->Begin(owner);
  }
  Result<std::unique_ptr<artifact_store::Reader>> Open(const Owner& owner,
                                                       const Blob& blob) override {
    if (!HasWorkers(owner)) return here_->Open(owner, blob);
    return SiteOf(owner).StoreOf(owner.run, blob)->Open(owner, blob);
  }
  Status Settle(const Owner& owner) override { return here_->Settle(owner); }
  Status Remove(const Owner& owner) override { return here_->Remove(owner); }
  Status Sweep(const std::function<Result<bool>(const Owner&)>& kept) override {
    return here_->Sweep(kept);
  }

 private:
  /// An engine may have blobs of earlier owners, by any names.
  static bool HasWorkers(const Owner& owner) {
    return CheckTenantName(owner.tenant.value).has_value();
  }
  Site& SiteOf(const Owner& owner) {
    auto& site = sites_[owner.tenant];
    if (!site) site = std::make_unique<Site>(owner.tenant.value, *here_);
    return *site;
  }

  std::unique_ptr<artifact_store::ArtifactStore> here_;
  std::map<TenantId, std::unique_ptr<Site>> sites_;
};

class WirePlace final : public artifact_store::conformance::Place {
 public:
  WirePlace() {
    std::string folder = (fs::temp_directory_path() / "remote-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~WirePlace() override { fs::remove_all(folder_); }
  std::unique_ptr<artifact_store::ArtifactStore> Open() override {
    return std::make_unique<FromAfar>(folder_);
  }
  void Spoil(const Owner& owner, const Blob& blob) override {
    const fs::path file =
        fs::path(folder_) / "runs" / owner.tenant.value / owner.run.value / blob.sha256;
    fs::permissions(file, fs::perms::owner_all);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).put('!');
  }

 private:
  std::string folder_;
};

}  // namespace
}  // namespace headworks::worker

namespace headworks::artifact_store::conformance {
INSTANTIATE_TEST_SUITE_P(Remote, ArtifactStoreConformance,
                         ::testing::Values(Adapter{
                             "wire", [] { return std::make_unique<worker::WirePlace>(); }}));
}  // namespace headworks::artifact_store::conformance

namespace headworks::worker {
namespace {

/// An engine that keeps one upload in memory, and answers as the test says.
class Memory final : public worker_api::WorkerService {
 public:
  /// Asked about each word; a result is the answer.
  std::function<std::optional<Result<ArtifactTaken>>(const worker_api::ArtifactPut&)> on_put =
      [](const auto&) { return std::nullopt; };
  std::function<std::optional<Result<ArtifactPiece>>(const worker_api::ArtifactGet&)> on_get =
      [](const auto&) { return std::nullopt; };
  std::string upload, bytes, token;
  std::size_t largest = 0;

  void PutArtifact(worker_api::ArtifactPut put, Done<ArtifactTaken> done) override {
    token = put.work_token;
    largest = std::max(largest, put.bytes.size());
    if (auto answer = on_put(put)) return done(*std::move(answer));
    if (put.upload != upload && put.offset == 0) {
      upload = put.upload;
      bytes.clear();
    }
    if (put.upload != upload) return done(ArtifactTaken{.reply = Reply::kGoOn});
    if (put.offset == bytes.size()) bytes += put.bytes;
    done(ArtifactTaken{.reply = Reply::kGoOn, .have = bytes.size(), .stored = !put.sha256.empty()});
  }
  void GetArtifact(worker_api::ArtifactGet get, Done<ArtifactPiece> done) override {
    if (auto answer = on_get(get)) return done(*std::move(answer));
    ArtifactPiece piece{.reply = Reply::kGoOn, .bytes = bytes.substr(get.offset, get.max_bytes)};
    piece.last = get.offset + piece.bytes.size() == bytes.size();
    done(piece);
  }
  void Register(worker_api::Registration, Done<worker_api::Welcome>) override {}
  void PollFor(worker_api::Poll, Done<worker_api::Polled>) override {}
  void Start(const worker_api::Identity&, std::string, Done<worker_api::Started>) override {}
  void Beat(worker_api::Heartbeat, Done<worker_api::Beaten>) override {}
  void Log(std::string, std::vector<log_store::Line>, Done<Reply>) override {}
  void Complete(std::string, model::Outcome, Done<Reply>) override {}
  void HandBack(const worker_api::Identity&, std::vector<std::string>, Done<bool>) override {}
  void Leave(const worker_api::Identity&, Done<bool>) override {}
};

class RemoteTest : public testing::Test {
 protected:
  const model::AttemptKey key_{TenantId("public"), RunNo(1), TaskNo(0), -1, Epoch(1)};
  const Owner owner_{TenantId("public"), RunId("run-1")};
  Memory engine_;
  RemoteArtifacts artifacts_{engine_};
  std::shared_ptr<BlobStore> store_ = [this] {
    artifacts_.Open(key_, "first");
    return artifacts_.Of(key_);
  }();
  const std::string large_ = std::string(2 * RemoteArtifacts::kPieceBytes, 'x') + "end";

  Result<Blob> Put(const std::string& bytes) {
    HEADWORKS_ASSIGN(const auto writer, store_->Begin(owner_));
    HEADWORKS_TRY(writer->Append(bytes));
    return writer->Commit();
  }
  Result<std::string> Get(const Blob& blob) {
    HEADWORKS_ASSIGN(const auto reader, store_->Open(owner_, blob));
    std::string all(blob.size + 1, '\0');
    std::size_t at = 0;
    for (;;) {
      HEADWORKS_ASSIGN(const std::size_t count,
                       reader->Read(std::span(all).subspan(at, all.size() - at)));
      if (count == 0) return all.substr(0, at);
      at += count;
    }
  }
};

TEST_F(RemoteTest, ALargeFileGoesInPieces) {
  const auto blob = Put(large_);
  ASSERT_TRUE(blob);
  EXPECT_EQ(*blob, (Blob{Sha256Hex(large_), large_.size()}));
  EXPECT_EQ(engine_.bytes, large_);
  EXPECT_EQ(engine_.largest, RemoteArtifacts::kPieceBytes);
  EXPECT_EQ(Get(*blob).value(), large_);
}

TEST_F(RemoteTest, WhatGetsNoAnswerIsSaidAgainWithTheTokenThatCountsThen) {
  int said = 0;
  engine_.on_put = [&](const auto&) -> std::optional<Result<ArtifactTaken>> {
    ++said;
    if (said == 1) return Error{Code::kUnavailable, "no answer"};
    artifacts_.Renew(key_, "second");
    if (said == 2) return ArtifactTaken{.reply = Reply::kAskAgain};
    return std::nullopt;
  };
  EXPECT_TRUE(Put("abc"));
  EXPECT_EQ(said, 3);
  EXPECT_EQ(engine_.token, "second");
}

TEST_F(RemoteTest, WhatArrivedInPartGoesOnFromThere) {
  bool cut = false;
  engine_.on_put = [&](const auto& put) -> std::optional<Result<ArtifactTaken>> {
    if (std::exchange(cut, true)) return std::nullopt;
    engine_.upload = put.upload;
    engine_.bytes = put.bytes.substr(0, 10);
    return ArtifactTaken{.reply = Reply::kGoOn, .have = 10};
  };
  EXPECT_TRUE(Put(large_));
  EXPECT_EQ(engine_.bytes, large_);
}

TEST_F(RemoteTest, WhatTheEngineLostIsToBeginAnew) {
  engine_.on_put = [&](const auto& put) -> std::optional<Result<ArtifactTaken>> {
    if (put.offset > 0) engine_.upload.clear();  // it was started anew
    return std::nullopt;
  };
  const auto lost = Put(large_);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kConflict);
  engine_.on_put = [](const auto&) -> std::optional<Result<ArtifactTaken>> {
    return ArtifactTaken{.reply = Reply::kGoOn, .failure = Error{Code::kCorrupt, "not that"}};
  };
  EXPECT_EQ(Put("x").error().code, Code::kConflict) << "nor did it arrive as it was said";
  engine_.on_put = [](const auto&) { return std::nullopt; };
  EXPECT_TRUE(Put(large_));
  EXPECT_EQ(engine_.bytes, large_);
}

TEST_F(RemoteTest, WhatTheEngineSaysAgainstItIsTheError) {
  std::optional<Result<ArtifactTaken>> answer;
  engine_.on_put = [&](const auto&) { return answer; };
  for (const Code code : {Code::kUnavailable, Code::kInvalidArgument}) {
    answer = ArtifactTaken{.reply = Reply::kGoOn, .failure = Error{code, "why"}};
    EXPECT_EQ(Put("x").error(), (Error{code, "why"}));
  }
  answer = Error{Code::kPermissionDenied, "attempt token: expired"};
  EXPECT_EQ(Put("x").error(), (Error{Code::kUnavailable, "attempt token: expired"}));
  answer = Error{Code::kInvalidArgument, "a bound"};
  EXPECT_EQ(Put("x").error().code, Code::kUnavailable) << "which says nothing of the file";
  answer = ArtifactTaken{.reply = Reply::kStop};
  EXPECT_EQ(Put("x").error().code, Code::kUnavailable);
}

TEST_F(RemoteTest, WhatArrivesOtherwiseIsDamaged) {
  engine_.bytes = "abc";
  EXPECT_EQ(Get({Sha256Hex("abd"), 3}).error().code, Code::kCorrupt);
  EXPECT_EQ(Get({Sha256Hex("abc"), 4}).error().code, Code::kCorrupt);
  EXPECT_EQ(Get({Sha256Hex("abc"), 3}).value(), "abc");
  engine_.on_get = [](const auto&) -> std::optional<Result<ArtifactPiece>> {
    return ArtifactPiece{.reply = Reply::kGoOn};
  };
  EXPECT_EQ(Get({Sha256Hex("abc"), 3}).error().code, Code::kUnavailable) << "neither more nor last";
}

TEST_F(RemoteTest, WhoeverWaitsIsStoppedAtOnce) {
  std::promise<void> asked;
  std::atomic<bool> first = true;
  engine_.on_put = [&](const auto&) -> std::optional<Result<ArtifactTaken>> {
    if (first.exchange(false)) asked.set_value();
    return Error{Code::kUnavailable, "no answer"};
  };
  auto put = std::async(std::launch::async, [&] { return Put("x"); });
  EXPECT_EQ(asked.get_future().wait_for(1min), std::future_status::ready);
  artifacts_.Stop(key_);
  EXPECT_EQ(put.get().error().code, Code::kCancelled);
  EXPECT_EQ(Put("x").error().code, Code::kCancelled);
  artifacts_.Close(key_);
  store_ = artifacts_.Of(key_);
  EXPECT_EQ(Put("x").error().code, Code::kCancelled);
}

}  // namespace
}  // namespace headworks::worker
