#include "remote_artifacts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <optional>
#include <utility>

#include "headworks/base/sha256.h"
#include "headworks/base/time.h"

namespace headworks::worker {
namespace {

using artifact_store::Blob;
using artifact_store::Owner;
using executor::Reply;
using worker_api::ArtifactPiece;
using worker_api::ArtifactTaken;

/// Before what got no answer is said again: at first and at most.
constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kLongestRetry = std::chrono::seconds(5);

Error Stopped() { return {Code::kCancelled, "stopped"}; }
Error Lost(std::string_view what) { return {Code::kConflict, std::string(what)}; }

}  // namespace

/// What all calls of one attempt have in common.
class RemoteArtifacts::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(worker_api::WorkerService& service, std::string work_token)
      : service_(service), token_(std::move(work_token)) {}

  void Renew(std::string work_token) {
    const std::scoped_lock lock(mutex_);
    token_ = std::move(work_token);
  }
  void Stop() {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  /// Of an upload: new at each call.
  std::string NextName() {
    const std::scoped_lock lock(mutex_);
    return fmt::format("upload-{}", ++uploads_);
  }

  Result<ArtifactTaken> Put(const worker_api::ArtifactPut& put) {
    return Ask<ArtifactTaken>([&](std::string token, auto done) {
      worker_api::ArtifactPut said = put;
      said.work_token = std::move(token);
      service_.PutArtifact(std::move(said), std::move(done));
    });
  }
  Result<ArtifactPiece> Get(const worker_api::ArtifactGet& get) {
    return Ask<ArtifactPiece>([&](std::string token, auto done) {
      worker_api::ArtifactGet said = get;
      said.work_token = std::move(token);
      service_.GetArtifact(std::move(said), std::move(done));
    });
  }

 private:
  /// Until it is answered, for as long as that takes.
  template <typename T, typename Say>
  Result<T> Ask(const Say& say) {
    for (Duration retry = kFirstRetry;; retry = std::min(2 * retry, kLongestRetry)) {
      const auto answer = std::make_shared<std::optional<Result<T>>>();
      std::unique_lock lock(mutex_);
      if (stopped_) return Stopped();
      std::string token = token_;
      lock.unlock();
      say(std::move(token), [self = this->shared_from_this(), answer](Result<T> result) {
        const std::scoped_lock heard(self->mutex_);
        answer->emplace(std::move(result));
        self->changed_.notify_all();
      });
      lock.lock();
      changed_.wait(lock, [&] { return stopped_ || answer->has_value(); });
      if (stopped_) return Stopped();
      const Result<T>& said = **answer;
      if (said && (said->reply == Reply::kGoOn || said->reply == Reply::kCancel)) {
        if (said->failure) return *said->failure;
        return said;
      }
      if (said && said->reply == Reply::kStop)
        return Error{Code::kUnavailable, "the attempt is somebody else's by now"};
      // It would be answered so again.
      if (!said && (said.error().code == Code::kPermissionDenied ||
                    said.error().code == Code::kInvalidArgument))
        return Error{Code::kUnavailable, said.error().message};
      changed_.wait_for(lock, retry, [&] { return stopped_; });
    }
  }

  worker_api::WorkerService& service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::string token_;
  bool stopped_ = false;
  std::uint64_t uploads_ = 0;
};

namespace {

using SessionPtr = std::shared_ptr<RemoteArtifacts::Session>;

class RemoteWriter final : public artifact_store::Writer {
 public:
  explicit RemoteWriter(SessionPtr session)
      : session_(std::move(session)), upload_(session_->NextName()) {}

  Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::size_t room = RemoteArtifacts::kPieceBytes - piece_.size();
      piece_ += bytes.substr(0, room);
      bytes.remove_prefix(std::min(room, bytes.size()));
      if (piece_.size() == RemoteArtifacts::kPieceBytes) HEADWORKS_TRY(Say({}));
    }
    return {};
  }

  Result<Blob> Commit() override {
    digest_.Add(piece_);
    Blob blob{.sha256 = digest_.Hex(), .size = offset_ + piece_.size()};
    HEADWORKS_TRY(Send(blob.sha256));
    return blob;
  }

 private:
  Status Say(const std::string& sha256) {
    digest_.Add(piece_);
    return Send(sha256);
  }
  Status Send(const std::string& sha256) {
    for (;;) {
      const std::uint64_t end = offset_ + piece_.size();
      auto taken =
          session_->Put({.upload = upload_, .offset = offset_, .bytes = piece_, .sha256 = sha256});
      // What did not arrive as it was said is said again, from the beginning.
      if (!taken && taken.error().code == Code::kCorrupt) return Lost(taken.error().message);
      if (!taken) return Error(taken.error());
      if (taken->stored || (sha256.empty() && taken->have == end)) {
        offset_ = end;
        piece_.clear();
        return {};
      }
      if (taken->have <= offset_ || taken->have > end)
        return Lost("the engine does not have what had arrived");
      piece_.erase(0, taken->have - offset_);
      offset_ = taken->have;
    }
  }

  const SessionPtr session_;
  const std::string upload_;
  Sha256 digest_;
  std::uint64_t offset_ = 0;  // of piece_
  std::string piece_;         // that is not answered yet
};

class RemoteReader final : public artifact_store::Reader {
 public:
  RemoteReader(SessionPtr session, Blob blob)
      : session_(std::move(session)), blob_(std::move(blob)) {}

  Result<std::size_t> Read(std::span<char> into) override {
    while (used_ == piece_.size() && !last_) HEADWORKS_TRY(Fetch());
    if (used_ == piece_.size()) return End();
    const std::size_t count = std::min(into.size(), piece_.size() - used_);
    std::memcpy(into.data(), piece_.data() + used_, count);
    used_ += count;
    return count;
  }

  Status Fetch() {
    HEADWORKS_ASSIGN(auto piece, session_->Get({.sha256 = blob_.sha256,
                                                .offset = offset_,
                                                .max_bytes = RemoteArtifacts::kPieceBytes}));
    if (piece.bytes.empty() && !piece.last)
      return Error{Code::kUnavailable, "the engine gives nothing of it"};
    piece_ = std::move(piece.bytes);
    used_ = 0;
    last_ = piece.last;
    offset_ += piece_.size();
    digest_.Add(piece_);
    return {};
  }

 private:
  Result<std::size_t> End() {
    if (!ended_) is_whole_ = digest_.Hex() == blob_.sha256 && offset_ == blob_.size;
    ended_ = true;
    if (is_whole_) return std::size_t{0};
    return Error{Code::kCorrupt, "is damaged: what arrived is not what was stored"};
  }

  const SessionPtr session_;
  const Blob blob_;
  Sha256 digest_;
  std::uint64_t offset_ = 0;
  std::string piece_;
  std::size_t used_ = 0;
  bool last_ = false, ended_ = false, is_whole_ = false;
};

/// Its owner is the attempt's run, whoever it is said to be.
class RemoteStore final : public artifact_store::BlobStore {
 public:
  explicit RemoteStore(SessionPtr session) : session_(std::move(session)) {}

  Result<std::unique_ptr<artifact_store::Writer>> Begin(const Owner&) override {
    return std::make_unique<RemoteWriter>(session_);
  }
  Result<std::unique_ptr<artifact_store::Reader>> Open(const Owner&, const Blob& blob) override {
    auto reader = std::make_unique<RemoteReader>(session_, blob);
    HEADWORKS_TRY(reader->Fetch());
    return reader;
  }
  /// The engine gives and says that it has stored only what is.
  Status Settle(const Owner&) override { return {}; }

 private:
  const SessionPtr session_;
};

}  // namespace

RemoteArtifacts::RemoteArtifacts(worker_api::WorkerService& service) : service_(service) {}
RemoteArtifacts::~RemoteArtifacts() { Shut(); }

void RemoteArtifacts::Open(const model::AttemptKey& attempt, std::string work_token) {
  const std::scoped_lock lock(mutex_);
  if (!shut_) sessions_[attempt] = std::make_shared<Session>(service_, std::move(work_token));
}

std::shared_ptr<RemoteArtifacts::Session> RemoteArtifacts::Find(const model::AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(attempt);
  return found == sessions_.end() ? nullptr : found->second;
}

void RemoteArtifacts::Renew(const model::AttemptKey& attempt, std::string work_token) {
  if (const auto session = Find(attempt)) session->Renew(std::move(work_token));
}

void RemoteArtifacts::Stop(const model::AttemptKey& attempt) {
  if (const auto session = Find(attempt)) session->Stop();
}

void RemoteArtifacts::Close(const model::AttemptKey& attempt) {
  Stop(attempt);
  const std::scoped_lock lock(mutex_);
  sessions_.erase(attempt);
}

void RemoteArtifacts::Shut() {
  const std::scoped_lock lock(mutex_);
  shut_ = true;
  for (const auto& [attempt, session] : sessions_) session->Stop();
}

std::shared_ptr<artifact_store::BlobStore> RemoteArtifacts::Of(const model::AttemptKey& attempt) {
  auto session = Find(attempt);
  if (!session) {
    session = std::make_shared<Session>(service_, "");
    session->Stop();
  }
  return std::make_shared<RemoteStore>(std::move(session));
}

}  // namespace headworks::worker
