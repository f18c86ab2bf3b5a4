#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/random.h"
#include "headworks/base/time.h"
#include "headworks/dispatcher/dispatcher.h"

namespace headworks::dispatch {

struct BufferConfig {
  /// Attempts that wait at once for each executor; 0 = none waits: the caller's thread dispatches.
  /// At most 1,000,000.
  std::size_t buffer_size = 0;
  /// Threads that dispatch from the buffer to each executor; with a buffer at least one.  At most
  /// 1,024.
  std::size_t workers = 4;
  /// How long Close waits for what is being sent.
  Duration drain_timeout = std::chrono::seconds(15);
};

/// What a buffer works with; all borrowed, all must outlive it.
struct BufferPorts {
  dispatcher::Dispatcher& inner;
  dispatcher::MetricsRecorder& metrics;
  Clock& clock;
  Logger& log;
};

/// A bounded pool of threads between the engine and a platform that answers slowly, so that the
/// engine never waits for it.
///
/// Taking.  Dispatch puts an attempt into the buffer and says kDispatched; if that is full or
///   closed, kDeferred with kNoCapacity.  What is here is kDispatched again, and is sent once.
/// Lanes.  Each has its places and its threads, so that an executor that hangs holds up no other
///   (I11).  Within a lane, order is the order of Dispatch.
/// Credit.  Of an executor's free places, those that are promised to what is here are taken, in
///   whatever line that is; a full buffer leaves none.  Who saw none is told (CapacityChanged) once
///   there is one.
/// Answers.  What the executor did not take goes to the RetrySink.  What throws fails only itself:
///   it counts as kExecutionFailed if the executor does not have it, and as dispatched if it does.
///   If the sink throws, the attempt is sent again after a second: its executor answers the same.
///   Where any other call throws, of an executor or of the sink, that is logged and nothing else:
///   of one whose Inspect throws nothing is known, one whose GetCapacity throws has no room.
/// Asking.  Cancellations and inspections go to each executor by one more thread of its lane, in
///   that order.  Cancel waits for none, and one attempt has one on its way.  Inspect waits 200 ms
///   for all executors; of one that hangs the attempts are Unknown, what it answers later is told
///   to who asks next, and meanwhile nobody waits for it.  GetCapacity, GetCredit and Settled are
///   called on the caller's thread: an executor answers these from its memory.
/// Fate.  What waits, or is being sent and not yet known to its executor, is Pending to Inspect,
///   until the sink has been told what became of it; whoever is told may offer it again at once.
///   What is settled is not sent.  What Cancel or Close withdraws is reported as kDeferred, never
///   as ended: an earlier offer of the same epoch may have reached the executor (I4).
/// Life.  Construct, Start, use, Close, destroy.  The destructor waits for calls that hang.
/// Size 0.  As the inner dispatcher, on the caller's thread, with the same metrics and the same
///   wall against exceptions: an executor that hangs in any call holds up the engine.
class BufferedDispatcher final : public dispatcher::Dispatcher {
 public:
  BufferedDispatcher(const BufferConfig& config, const BufferPorts& ports);
  ~BufferedDispatcher() override;

  /// After the inner dispatcher was started.  kInvalidArgument: a size is out of bounds.
  Status Start(executor::AttemptSink& sink, dispatcher::RetrySink& late);
  /// The same without threads of its own: the caller calls SendNext, as a simulation does.
  Status StartWithoutThreads(executor::AttemptSink& sink, dispatcher::RetrySink& late);
  /// Sends the attempt that waits longest in its lane, lane by lane; false if none waits.
  bool SendNext();

  std::size_t lanes() const override { return ports_.inner.lanes(); }
  std::size_t LaneOf(const TenantId& tenant, const model::Task& task) const override {
    return ports_.inner.LaneOf(tenant, task);
  }
  std::string_view LaneName(std::size_t lane) const override { return ports_.inner.LaneName(lane); }
  executor::Capacity GetCapacity(std::size_t lane) const override;
  bool HasLines(std::size_t lane) const override { return ports_.inner.HasLines(lane); }
  std::string LineOf(std::size_t lane, const model::Workflow& workflow,
                     TaskNo task) const override {
    return ports_.inner.LineOf(lane, workflow, task);
  }
  executor::Credit GetCredit(std::size_t lane, const TenantId& tenant,
                             const std::string& line) const override;
  executor::OfferResult Dispatch(const executor::Attempt& attempt) override;
  void Cancel(const executor::Attempt& attempt) override;
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override;
  void Settled(std::span<const executor::Attempt> attempts) override;
  /// The buffer within `drain_timeout`, then the inner dispatcher with `timeout`.
  Status Close(Duration timeout) override;

 private:
  /// (run, epoch) names an attempt within a store.
  struct Id {
    std::int64_t run;
    std::int64_t epoch;
    bool operator==(const Id&) const = default;
  };
  struct IdHash {
    std::size_t operator()(const Id& id) const {
      return Mix64(static_cast<std::uint64_t>(id.run) ^
                   Mix64(static_cast<std::uint64_t>(id.epoch)));
    }
  };
  struct Entry {
    executor::Attempt attempt;
    std::size_t lane = 0;
    Duration taken_at{};
    bool sending = false;
    bool cancelled = false;  // while it was being sent
  };
  /// Nodes keep their place, and are used again.
  using Entries = std::unordered_map<Id, Entry, IdHash>;
  enum class Sent : std::uint8_t { kNothing, kSent, kUntold };
  /// What one Inspect asks one executor.
  struct Question {
    std::vector<executor::Attempt> attempts;
    std::vector<std::size_t> at;                // their places among those that were asked about
    std::unordered_set<Id, IdHash> here;        // in the buffer then, or put there since
    std::vector<executor::Inspection> answers;  // one for each, once `answered`
    bool begun = false, answered = false;
    bool left = false;  // nobody waits for the answers any more
  };
  struct Lane {
    std::condition_variable work, asked;
    // Guarded by mutex_.
    std::deque<Entry*> queue;
    std::uint32_t entries = 0;         // waiting or being sent
    bool troubled = false;             // its executor could not answer last time
    mutable bool room_wanted = false;  // somebody saw none since the last CapacityChanged
    std::deque<executor::Attempt> cancels;
    std::unordered_set<Id, IdHash> cancelling;  // those in `cancels`
    std::shared_ptr<Question> question;         // shared with who asked, who may go first
    std::unordered_map<Id, executor::Inspection, IdHash> late;  // nobody waited for them
    Duration late_at{};
  };

  static Id IdOf(const model::AttemptKey& key) { return {key.run.value, key.epoch.value}; }
  void Work(Lane& lane);
  Sent SendOne(Lane& lane);
  /// The inner dispatcher's answer, whatever it throws.
  executor::OfferResult Send(const executor::Attempt& attempt);
  executor::OfferResult AfterThrow(const executor::Attempt& attempt, std::string_view what);
  /// False: the sink threw.
  bool Tell(const executor::Attempt& attempt, const executor::OfferResult& result);
  /// Logs what `call` throws: it concerns nothing else.
  template <typename Call>
  void Guard(std::string_view failure, const executor::Attempt& attempt, const Call& call);
  void CancelInner(const executor::Attempt& attempt);
  /// On its lane's thread, if there is one.  Unlocks.
  void PassCancel(std::unique_lock<std::mutex>& lock, const executor::Attempt& attempt);
  /// A lane's thread for cancellations and inspections.
  void Ask(std::size_t number);
  /// One question for each lane that has one; returns with what was answered in time.
  void AskLanes(std::unique_lock<std::mutex>& lock,
                std::span<const std::shared_ptr<Question>> questions);
  std::vector<executor::Inspection> InspectInner(std::size_t lane,
                                                 std::span<const executor::Attempt> attempts);
  /// Keeps what came too late.
  void KeepLocked(Lane& lane, Question& question);
  bool TakeLateLocked(Lane& lane, const Id& id, executor::Inspection& answer);
  /// What a call of a lane's executor throws, and logs that if the last one did not.
  template <typename Call>
  std::optional<std::string> Throws(std::size_t lane, std::string_view what,
                                    const Call& call) const;
  /// Tells what an executor answered to one that has left the buffer; false if the sink threw: it
  /// is back then.  Unlocks meanwhile.
  bool TellLate(std::unique_lock<std::mutex>& lock, Entries::node_type& sent,
                const executor::OfferResult& result);
  void TellRoom();
  bool IsToldLocked(const Id& id) const;
  Entry& PutLocked(const executor::Attempt& attempt, Duration now);
  Entry& EnqueueLocked(Entries::node_type node);
  /// Takes one out of the buffer that is in no queue.
  Entries::node_type ExtractLocked(Entries::iterator at);
  void SpareLocked(Entries::node_type node);
  /// Takes one that waits out of the buffer.
  executor::Attempt WithdrawLocked(Entries::iterator at);
  void DepthChangedLocked(std::ptrdiff_t by);
  bool RoomWantedLocked(Lane& lane);
  /// Of so many free places of a lane's executor.
  std::uint32_t FreeLocked(const Lane& lane, std::uint32_t free) const;

  const BufferConfig config_;
  const BufferPorts ports_;
  executor::AttemptSink* sink_ = nullptr;  // set by Start, before any thread
  dispatcher::RetrySink* late_ = nullptr;

  std::vector<Lane> lanes_;  // as many as the inner dispatcher has, from Start on
  mutable std::mutex mutex_;
  std::condition_variable quiet_, answered_;
  mutable std::atomic<std::size_t> throwing_ = 0;  // the size of throws_
  // Guarded by mutex_.
  Entries entries_;
  std::vector<Entry*> telling_;  // out of the buffer; their answers are being told
  std::vector<Entries::node_type> spare_;
  std::size_t depth_ = 0;  // of all queues
  std::size_t next_lane_ = 0;
  std::size_t sending_ = 0;
  std::size_t cancels_ = 0;  // of all lanes
  bool closed_ = false;
  bool over_ = false;        // destroyed
  bool has_askers_ = false;  // each lane has its thread for them
  mutable std::set<std::pair<std::size_t, std::string_view>> throws_;  // lanes' calls, last time
  std::vector<std::string> untold_;  // lost to a sink that threw while closing

  std::vector<std::jthread> threads_;  // last: they use all of the above
};

/// Gives what is told to a RetrySink to a sink that keeps no policy: every failure ends the task,
/// except that nothing was attempted, which is an interruption (I7).
class FailEveryTask final : public dispatcher::RetrySink {
 public:
  /// Both are borrowed.
  FailEveryTask(dispatcher::FailureSink& failures, executor::AttemptSink& sink)
      : failures_(failures), sink_(sink) {}
  void HandleDispatchFailure(const model::AttemptKey& key,
                             const executor::OfferResult& result) override;
  void HandleDispatchRecovery(const model::AttemptKey&) override {}  // nothing waits

 private:
  dispatcher::FailureSink& failures_;
  executor::AttemptSink& sink_;
};

}  // namespace headworks::dispatch
