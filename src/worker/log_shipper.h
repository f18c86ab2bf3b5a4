#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "headworks/executor_inline/inline_executor.h"
#include "headworks/log_store/log_store.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::worker {

/// Lines of attempts on their way to the engine: kept until it has answered that they are stored.
///
/// Full.  An attempt whose lines exceed its share is answered kAtCapacity (a command then waits at
///   the end of its pipe), or waits here until it is to stop (a C++ function); the others go on
///   (I11).  After DropRest the first line without room is replaced by a note, and the rest is
///   dropped.
/// Bounds.  `share` for each attempt, or one batch if that is larger.
/// Threads.  All methods may be called concurrently.
class LogShipper final : public log_store::LogStore, public executor_inline::LineSink {
 public:
  /// Most that `Peek` takes at once: one Log.
  static constexpr std::size_t kMaxTaken = worker_api::kMaxLogBytes;

  /// `on_lines` is called when there is something to Peek that there was not before.
  LogShipper(std::size_t share, std::function<void(const model::AttemptKey&)> on_lines);

  /// From now on the lines of `attempt` are kept; those of others are dropped.
  void Open(const model::AttemptKey& attempt);
  /// Its lines are worth nothing any more.
  void Close(const model::AttemptKey& attempt);
  /// Nobody waits for room for lines of `attempt` any more.
  void DropRest(const model::AttemptKey& attempt);
  /// The first lines, at most kMaxTaken bytes; they stay.
  std::vector<log_store::Line> Peek(const model::AttemptKey& attempt);
  /// The first `count` are stored.
  void Stored(const model::AttemptKey& attempt, std::size_t count);
  /// The first `count` are not taken, now or later: a note stands for them, unless they are that.
  void Refused(const model::AttemptKey& attempt, std::size_t count);
  bool HasLines(const model::AttemptKey& attempt) const;
  /// Whoever waits for room waits no longer.
  void Shut();

  // LogStore.
  Status Append(std::span<const log_store::Batch> batches) override;
  /// What is on its way cannot be read here: it is nobody's yet.
  Result<log_store::Page> Read(const log_store::Query& query) override;
  Result<log_store::Page> Tail(const log_store::Query& query) override;
  Status DeleteRun(const TenantId& tenant, RunNo run) override;

  // LineSink.
  /// kCancelled: `stop` was requested and there was no room.
  Status Append(const model::AttemptKey& key, std::int64_t number, Instant at,
                std::string_view line, const std::stop_token& stop) override;

 private:
  struct Waiting {
    std::deque<log_store::Line> lines;
    std::size_t bytes = 0;
    /// on_lines was called since the last Peek.
    bool told = false;
    /// What has no room is dropped; `cut`: something was.
    bool dropping = false, cut = false;

    /// Bytes that may be added.
    std::size_t Room(std::size_t share) const {
      return lines.empty() ? std::numeric_limits<std::size_t>::max()
                           : share - std::min(share, bytes);
    }
    void Pop(std::size_t count);
  };
  /// Bytes that need not wait.
  std::size_t RoomLocked(const model::AttemptKey& attempt) const;
  /// Whether on_lines is to be called.
  bool AddLocked(const model::AttemptKey& attempt, const std::vector<log_store::Line>& lines);

  const std::size_t share_;
  const std::function<void(const model::AttemptKey&)> on_lines_;
  mutable std::mutex mutex_;
  std::condition_variable_any room_;
  // Guarded by mutex_.
  std::map<model::AttemptKey, Waiting> waiting_;
  bool shut_ = false;
};

}  // namespace headworks::worker
