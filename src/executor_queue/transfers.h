#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/time.h"
#include "headworks/worker_api/worker_service.h"
#include "lines.h"

namespace headworks::executor_queue {

struct TransferOptions {
  /// Files that are open, each an attempt's, those of one tenant all but a quarter, rounded down;
  /// beyond it whoever would begin one is told to ask again (I11).
  std::size_t max_open = 256;
  /// Bytes that wait to be written, and texts to be looked at; likewise.
  std::size_t max_waiting_bytes = std::size_t{64} << 20;
  /// Of one file.
  std::uint64_t max_artifact_bytes = std::uint64_t{10} << 30;
  /// What one Get passes over at most, to come to its offset.
  std::uint64_t max_skipped_bytes = std::uint64_t{256} << 20;
  /// Pieces that may be asked for again, of all files; beyond it such a one costs another look.
  std::size_t max_kept_bytes = std::size_t{64} << 20;
  /// A file that nobody goes on with for so long is closed.
  Duration idle = std::chrono::minutes(5);
};

/// Artifacts of attempts elsewhere on their way to the store and from it, piece by piece.
///
/// What is said here was said by the attempt's holder; that is not looked at.  Of an attempt one
/// file is open at a time, for writing or for reading, between two pieces of it.
/// Threads.  All methods may be called concurrently.  The disk is touched by Run and RunNext alone.
///   `done` is called once, on their threads, with nothing locked; what waits still is answered
///   kUnavailable by the destructor.
class Transfers {
 public:
  template <typename T>
  using Done = worker_api::WorkerService::Done<T>;
  /// Room for bytes that wait; given back by its end.
  using Room = std::shared_ptr<const std::size_t>;
  /// An artifact by its name.
  using Named = std::pair<std::string, artifact_store::Blob>;

  /// Borrowed; null: nothing can be stored.
  Transfers(const TransferOptions& options, artifact_store::BlobStore* store, Clock& clock);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Null: there is none now.
  Room Take(std::size_t bytes);
  /// `may` says, once it is this piece's turn, whether it is taken; its error is the answer.
  /// `reply`: of the answer.
  void Put(const Id& id, artifact_store::Owner owner, worker_api::ArtifactPut put,
           std::function<Status()> may, executor::Reply reply, Room room,
           Done<worker_api::ArtifactTaken> done);
  /// `find` says which blob the attempt's job means; may block.  kAskAgain also where the offset is
  /// further off than `max_skipped_bytes`: it is gone on with from there.
  void Get(const Id& id, artifact_store::Owner owner, worker_api::ArtifactGet get,
           std::function<Result<artifact_store::Blob>()> find, executor::Reply reply,
           Done<worker_api::ArtifactPiece> done);
  /// Whether all of these are in the store, durably (I6): kNotFound and kCorrupt name the first
  /// that is not.  Before any piece that waits: a success hangs on it.
  void Check(artifact_store::Owner owner, std::vector<Named> blobs, Room room,
             std::function<void(Status)> done);
  /// The attempt is over: its file is closed, and what is not whole is gone.
  void End(const Id& id);
  void CloseIdle();

  /// Does one thing; false if there is none.
  bool RunNext();
  /// RunNext until `stop`.
  void Run(const std::stop_token& stop);

 private:
  /// A file of one attempt.
  struct Open {
    TenantId tenant;
    /// Of an upload; empty = `reader` is of `sha256`.
    std::string upload{}, sha256{};
    std::unique_ptr<artifact_store::Writer> writer{};
    std::unique_ptr<artifact_store::Reader> reader{};
    /// Bytes that have passed.
    std::uint64_t at = 0;
    /// The last of them that were answered, for whoever did not hear it; empty: not kept.
    std::string kept{};
    Room kept_room{};
    Duration touched{};
    /// A thread has `writer` and `reader`.
    bool busy = false;
    /// It goes once it is no longer busy.
    bool over = false;
  };
  /// `closed`: it is only to be answered.
  using Job = std::function<void(bool closed)>;

  /// `at`: jobs_ or checks_.
  void Post(std::deque<Job>& at, Job job);
  /// The attempt's own, an empty one if there is none; nullopt: it is busy, or there is no room.
  std::optional<Open> Claim(const Id& id, const TenantId& tenant);
  /// A thread has done with it; `keep`: it goes on.
  void Release(const Id& id, Open open, bool keep);
  void DropLocked(std::map<Id, Open>::iterator at);

  worker_api::ArtifactTaken DoPut(const Id& id, const artifact_store::Owner& owner,
                                  const worker_api::ArtifactPut& put);
  /// The last piece, whose answer was not heard, of what is stored.
  void FindStored(const artifact_store::Owner& owner, const worker_api::ArtifactPut& put,
                  worker_api::ArtifactTaken& taken);
  /// True: it goes on.
  bool Append(Open& open, const artifact_store::Owner& owner, const worker_api::ArtifactPut& put,
              worker_api::ArtifactTaken& taken);
  worker_api::ArtifactPiece DoGet(const Id& id, const artifact_store::Owner& owner,
                                  const worker_api::ArtifactGet& get,
                                  const artifact_store::Blob& blob);
  Result<worker_api::ArtifactPiece> Read(Open& open, const artifact_store::Owner& owner,
                                         const worker_api::ArtifactGet& get,
                                         const artifact_store::Blob& blob);
  /// Opens it where it is not open, and goes on to `offset`; false: it is not there yet.
  Result<bool> Seek(Open& open, const artifact_store::Owner& owner,
                    const artifact_store::Blob& blob, std::uint64_t offset);

  const TransferOptions options_;
  artifact_store::BlobStore* const store_;
  Clock& clock_;

  /// Beside the last Room that is held.
  struct Budget {
    std::mutex mutex;
    std::size_t bytes = 0;  // guarded by mutex
  };
  static Room TakeOf(const std::shared_ptr<Budget>& budget, std::size_t bytes, std::size_t most);
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>();
  const std::shared_ptr<Budget> kept_ = std::make_shared<Budget>();

  std::mutex mutex_;
  std::condition_variable_any work_;
  // Guarded by mutex_.
  std::deque<Job> jobs_, checks_;  // the latter first
  std::map<Id, Open> open_;
};

}  // namespace headworks::executor_queue
