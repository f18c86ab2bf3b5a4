#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include "discreet_store.h"
#include "headworks/executor/attempt_gate.h"
#include "headworks/executor/duration_histogram.h"
#include "headworks/executor_queue/queue_executor.h"
#include "lines.h"
#include "transfers.h"

namespace headworks::executor_queue {

/// Whether this is said to an attempt's holder, who goes on with it.
inline bool Heard(executor::Reply reply) {
  return reply == executor::Reply::kGoOn || reply == executor::Reply::kCancel;
}

/// One mutex guards all that is remembered.  It is not held while the sink, a store or whoever
/// waits is called: that is collected, and called once it is released.  Tokens are made and lines
/// are logged under it.
class Impl final : public QueueExecutor {
 public:
  Impl(const QueueOptions& options, const QueuePorts& ports);
  ~Impl() override;

  // queue_executor.cc
  std::string_view Name() const override { return "queue"; }
  Status Start(executor::AttemptSink& sink) override;
  executor::OfferResult Offer(const executor::Attempt& attempt) override;
  void Cancel(const model::AttemptKey& key) override;
  executor::Capacity GetCapacity() const override;
  bool HasLines() const override { return true; }
  std::string LineOf(const model::Workflow& workflow, TaskNo task) const override;
  executor::Credit GetCredit(const TenantId& tenant, const std::string& line) const override;
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override;
  std::vector<model::AttemptKey> List() const override;
  executor::Metrics GetMetrics() const override;
  void Settled(std::span<const model::AttemptKey> keys) override;
  Status Drain(Duration timeout) override;
  std::vector<WorkerStatus> Roster() const override;
  std::map<worker_api::Identity, Departure> TakeDepartures() override;
  QueueFigures Figures() const override;

  // orders.cc
  void SetOrders(WorkerOrders orders) override;

  // service.cc
  void Register(worker_api::Registration registration, Done<worker_api::Welcome> done) override;
  void PollFor(worker_api::Poll poll, Done<worker_api::Polled> done) override;
  void HandBack(const worker_api::Identity& who, std::vector<std::string> start_tokens,
                Done<bool> done) override;
  void Leave(const worker_api::Identity& who, Done<bool> done) override;

  // words.cc
  void Start(const worker_api::Identity& who, std::string start_token,
             Done<worker_api::Started> done) override;
  void Beat(worker_api::Heartbeat heartbeat, Done<worker_api::Beaten> done) override;
  void Log(std::string work_token, std::vector<log_store::Line> lines,
           Done<executor::Reply> done) override;
  void Complete(std::string work_token, model::Outcome outcome,
                Done<executor::Reply> done) override;
  Result<worker_api::Identity> SpeakerOf(std::string_view work_token) override;

  // artifacts.cc
  void PutArtifact(worker_api::ArtifactPut put, Done<worker_api::ArtifactTaken> done) override;
  void GetArtifact(worker_api::ArtifactGet get, Done<worker_api::ArtifactPiece> done) override;

  // tick.cc
  Duration Tick() override;
  bool RunNext() override;

 private:
  using Identity = worker_api::Identity;
  /// To be made once the lock is released, in this order.
  using Calls = std::vector<std::function<void()>>;
  using Lock = std::unique_lock<std::mutex>;

  enum class Stage : std::uint8_t {
    kWaiting,
    /// A worker has its start token.
    kAssigned,
    /// Is to end before it begins: the gate is asked (I5).
    kWithdrawn,
    kRunning,
    kEnded,
  };
  /// What a worker does before the code begins, and after it has ended; no time of the task's.
  enum class Transfer : std::uint8_t { kNone, kFetching, kPassingOn };
  /// What is stored of an attempt's output.
  struct LogState {
    bool known = false;
    std::int64_t last = 0;  // number of the last line
    std::size_t bytes = 0;
    bool full = false;
    std::uint64_t dropped = 0;
    /// Of the first line that was to be said again and was not yet; 0 = none.  No later one is
    /// stored before it.
    std::int64_t gap = 0;
  };
  using Needed = std::map<std::string, artifact_store::Blob>;
  struct Entry {
    /// Without a workflow until the engine has said more than its key.
    executor::Attempt attempt;
    Stage stage = Stage::kWaiting;
    Place place{};  // while it has yet to begin: then its order is not 0
    Instant waits_since{};
    /// kAssigned, kRunning, and kEnded where it ran.
    Identity who{};
    /// kAssigned: its worker knows of it, for it asked the gate.
    bool asked = false;
    /// The queue of which it takes one of its worker's slots; empty = none (any more).
    std::string slot{};
    /// kRunning: as the engine has it.
    std::string holder{};
    /// kWithdrawn: the gate let this executor in, to end it.
    bool gate_is_ours = false;
    bool cancel = false;
    /// The holder was answered that it is to stop.
    bool cancel_told = false;
    /// Of its lease, or of the next try to withdraw it; in due_.
    Duration due{0};
    Duration heard_at{0};      // kRunning, monotonic
    Duration begun_at{0};      // its code, at the earliest, as this process knows; monotonic
    Duration cancelled_at{0};  // with `cancel`; monotonic
    Transfer transfer = Transfer::kNone;
    Duration transfer_began{0}, moved_at{0};  // the first and the last piece; monotonic
    std::set<std::string> fetched{};          // digests, of whole files
    Instant began_at{};
    /// kRunning: by a worker to whom this process had promised its lease; else an earlier one may
    /// have, a longer one.
    bool let_in_here = false;
    std::optional<model::Outcome> outcome{};  // kEnded
    LogState log{};
    /// The artifacts that its job names, by their digests; unset: not known (any more).
    std::optional<Needed> needed{};
    /// Digests of what it passed on, or was about to; counted anew by the next process.
    std::set<std::string> left{};
  };
  using Entries = std::map<Id, Entry>;

  struct Worker {
    std::shared_ptr<const worker_api::Registration> registration;
    Labels labels;
    Instant registered_at{};
    Instant heard_at{};
    Duration heard{0};
    std::set<PollNo> polls{};
    std::set<std::uint64_t> beats{};
    /// Hashes of tokens that were answered kStop: that is no news any more.
    std::set<std::size_t> stopped{};
    /// A heartbeat was answered at once to say so: that is no news any more.
    bool told_to_leave = false;
  };
  /// What a worker has.
  struct Hold {
    std::set<Id> ids{};
    std::map<std::string, WorkerStatus::Load> used{};  // slots, by queue
  };
  using Workers_ = std::map<Identity, Worker>;

  struct WaitingPoll {
    Identity who;
    std::map<std::string, std::uint32_t> free;
    Labels labels;
    Duration due;
    Done<worker_api::Polled> done;
  };
  /// A heartbeat whose answer waits.
  struct Beating {
    struct One {
      std::string token;
      Id id{};
      executor::TokenClaims work{};  // of a good one
      worker_api::Pulse pulse{};
      bool ask = false;   // the engine is to hear it
      bool good = false;  // its token
    };
    Identity who;
    std::vector<One> ones;
    std::size_t open = 0;
    bool news = false;
    Duration due{0};
    Duration timer{0};  // in beats_due_: later than due where the engine is slow
    Duration ask_again_at = Duration::max();
    Done<worker_api::Beaten> done;
  };
  struct StartJob {
    executor::Attempt attempt;
    std::string work_token;
  };
  struct LogJob {
    model::AttemptKey key;
    std::vector<log_store::Line> lines;
    std::size_t bytes = 0;
    executor::Reply reply = executor::Reply::kGoOn;
    Done<executor::Reply> done;
    Status stored{};
  };
  static Id IdOf(const model::AttemptKey& key) { return {key.run.value, key.epoch.value}; }
  static void Make(const Calls& calls) {
    for (const auto& call : calls) call();
  }
  /// Waits that are over at once are answered on the caller's thread.
  template <typename T>
  static void Answer(Calls& calls, Done<T> done, Result<T> answer) {
    calls.push_back([done = std::move(done), answer = std::move(answer)] { done(answer); });
  }

  // queue_executor.cc
  Entry& NewLocked(const model::AttemptKey& key);
  void OfferedAgainLocked(Entry& entry, const executor::Attempt& attempt, Calls& calls);
  void TakeLocked(const executor::Attempt& attempt, Place place, Calls& calls);
  /// Whoever saw no room is told that there is some.
  void TellOfRoomLocked(Calls& calls);
  void EraseLocked(Entries::iterator at, Calls& calls);
  /// In its place, or to a poll that waits for such a one.
  void WaitLocked(Entry& entry, Calls& calls);
  /// nullopt: no start token can be made; the attempt is dropped.
  std::optional<worker_api::Assignment> AssignLocked(Entry& entry, const Identity& who,
                                                     Calls& calls);
  void ReturnLocked(Entry& entry, std::string_view why, Calls& calls);
  void WithdrawLocked(Entry& entry, Calls& calls);
  void RunLocked(Entry& entry, const Identity& who, std::string holder, Calls& calls);
  /// How many more may wait in this line.
  executor::Credit RoomLocked(const std::string& tenant, const std::string& line) const;
  /// The answer where one more may not.
  std::optional<executor::OfferResult> FullLocked(const Place& place) const;
  /// It is over without a word of its holder's.
  void EndLocked(Entry& entry, model::Outcome outcome, Calls& calls);
  /// Leaves what it was, whatever that is.
  void LeaveStageLocked(Entry& entry, Calls& calls);
  ScopedLogger LogOf(const Entry& entry) const;
  void SetDueLocked(Entry& entry, Duration due);
  void SayWithdrawn(const model::AttemptKey& key);
  /// Of one that waits: for what.
  std::string WaitsForLocked(const Entry& entry,
                             std::map<std::pair<std::string, Labels>, std::size_t>& serving) const;
  executor::Inspection InspectLocked(const executor::Attempt& attempt,
                                     std::map<std::pair<std::string, Labels>, std::size_t>& serving,
                                     Calls& calls);

  // orders.cc
  bool IsLeaving(const Identity& who) const { return orders_.leaving.contains(who); }
  /// Gets nothing new.
  bool IsBarred(const Identity& who) const {
    return IsLeaving(who) || orders_.cordoned.contains({who.tenant, who.worker});
  }
  /// What a barred worker was given and does not know of goes to others.
  void TakeBackLocked(const Worker& worker, const std::string& queue, std::uint32_t free,
                      Calls& calls);

  // service.cc
  Result<Worker*> FindLocked(const Identity& who);
  void HoldLocked(Entry& entry, const Identity& who);
  void TakeSlotLocked(Entry& entry);
  /// The engine has said more of it than its key.
  void LearnLocked(Entry& entry, const executor::Attempt& attempt);
  void LetGoLocked(Entry& entry, Calls& calls);
  /// The worker has room for another.
  void FreeSlotLocked(Entry& entry, Calls& calls);
  /// Attempts of this queue that a registered worker has.
  std::uint32_t UsedLocked(const Identity& who, const std::string& queue) const;
  /// Of this queue, to a worker with `free` slots for it: first what it was given before and does
  /// not know of.
  void GiveLocked(const Worker& worker, const std::string& queue, std::uint32_t free,
                  std::vector<worker_api::Assignment>& given, Calls& calls);
  std::vector<Entry*> UnknownLocked(const Identity& who, const std::string& queue,
                                    std::uint32_t free, std::uint32_t slots);
  /// Room for one more worker; of its own name the one heard longest ago that holds nothing makes
  /// it where there is none.
  Status MakeRoomLocked(const Identity& who, Calls& calls);
  /// At most once a minute for each name.
  void WarnOfTwinLocked(const Identity& who, const Identity& other);
  void ForgetWorkerLocked(Workers_::iterator at, Departure why, Calls& calls);
  void AnswerPollLocked(PollNo poll, worker_api::Polled polled, Calls& calls);
  /// With nothing, those of this worker that ask for this queue.
  void AnswerPollsLocked(const Identity& who, const std::string& queue, Calls& calls);

  // words.cc
  /// Begins a call of the sink; kUnavailable: there is no engine (any more).
  Result<executor::AttemptSink*> SpeakLocked();
  void Spoken();
  /// When its holder should have ended it, however late it heard of that, and is heard no more
  /// (monotonic): a worker that lives and hangs does not keep an attempt for ever.
  Duration OverdueAt(const Entry& entry) const;
  /// A piece of its artifacts came, or was answered.
  void MovedLocked(Entry& entry, Transfer transfer) const;
  void Moved(const Id& id, Transfer transfer, const std::string& fetched = {});
  /// How one ends whose holder was last heard then and is not any more.
  model::Outcome SilenceOf(const Entry& entry) const;
  void HeardLocked(Entry& entry);
  void CancelLocked(Entry& entry);
  /// Somebody who has the working token lives.
  void TouchLocked(const executor::TokenClaims& work);
  /// The engine heard the holder, so it is the holder.
  void AdoptLocked(const executor::TokenClaims& work, Calls& calls);
  /// Whether the worker that has it is known to know of it.
  void AskedLocked(const model::AttemptKey& key, const Identity& who, bool asked);
  void Opened(const Identity& who, const executor::TokenClaims& start,
              const executor::AttemptGate::Answer& answer, Done<worker_api::Started> done);
  void SayVerdict(const std::string& work_token, model::Outcome outcome,
                  Done<executor::Reply> done);
  /// One that was checked.
  void PassVerdict(executor::AttemptSink& sink, const std::string& work_token, const Id& id,
                   const model::Outcome& outcome, Done<executor::Reply> done);
  void AskWhatItIs(executor::AttemptSink& sink, const std::string& work_token,
                   const executor::TokenClaims& work, Done<executor::Reply> done);
  /// Says the heartbeats that were not answered yet.
  void AskPulsesLocked(std::uint64_t beat, Calls& calls);
  void Pulsed(std::uint64_t beat, std::size_t index, const executor::TokenClaims& work,
              const Result<executor::AttemptGate::Answer>& answer);
  bool KnowsOfStopLocked(const Identity& who, const std::string& token) const;
  void NotePulseLocked(std::uint64_t beat, std::size_t index,
                       const Result<executor::AttemptGate::Answer>& answer, Calls& calls);
  void AnswerBeatLocked(std::uint64_t beat, Calls& calls);
  void CountLocked(const model::Outcome& outcome);
  void NoteReply(executor::Reply reply);

  // artifacts.cc
  /// Asks the engine whether the holder is heard, and says of which attempt it is; an attempt
  /// without a workflow, or a reply that is not heard, ends it.
  using Heard_ = std::function<void(Result<executor::Reply>, const executor::Attempt&)>;
  void HearHolder(const std::string& work_token, Heard_ then);
  /// A success is said once its artifacts are found to be there.
  void CheckArtifacts(const std::string& work_token, const artifact_store::Owner& owner,
                      const Id& id, model::Outcome outcome, Done<executor::Reply> done);
  /// Whether it may leave that: workers are not trusted with the disk (I12).
  Status AdmitPut(const executor::Attempt& attempt, const std::string& sha256);
  /// Of what it needs; empty: it sees no artifacts.
  std::string ArtifactDirLocked(const Entry& entry) const;
  Result<artifact_store::Blob> FindNeeded(const executor::Attempt& attempt,
                                          const std::string& sha256);
  void NoteNeeded(const Id& id, const std::vector<executor::NeededArtifact>& artifacts);

  // tick.cc
  void BeatDueLocked(std::uint64_t beat, Duration now, Calls& calls);
  void ExpireLocked(Duration now, Calls& calls);
  void TidyLocked(Duration now, Calls& calls);
  Duration NextDueLocked() const;
  void WakeLocked(Duration due);
  /// Nobody counts on an earlier process's longer lease any more.
  void ForgetEarlierLease();
  /// One that a thread may do: one of them is left for lines (I6).
  bool StartIsDueLocked() const;
  void Resolve(StartJob job);
  void AnswerStarting(const Id& id, const Result<worker_api::Started>& answer);
  bool StoreLogs();
  void StoreTogether(std::vector<LogJob>& jobs);
  Status StoreAlone(const LogJob& job);
  void RememberLocked(const LogJob& job, const Status& stored, const LogState& state);
  Status Gather(const LogJob& job, std::map<Id, LogState>& states,
                std::vector<log_store::Batch>& batches);

  const QueueOptions options_;
  const QueuePorts ports_;
  executor::AttemptGate gate_;
  std::optional<DiscreetStore> artifacts_;  // what workers hear of ports_.artifacts
  Transfers transfers_;

  mutable std::mutex mutex_;
  executor::AttemptSink* sink_ = nullptr;  // null before Start and after Drain
  std::size_t speaking_ = 0;               // calls of it that have yet to return
  std::condition_variable quiet_;
  Entries entries_;
  Lines lines_;
  std::uint64_t next_order_ = 0;
  struct Waiting {
    std::uint32_t all = 0;
    std::map<std::string, std::uint32_t> lines{};
  };
  std::map<std::string, Waiting> waiting_;  // kWaiting to kWithdrawn, by tenant and LineOf
  std::uint32_t unbegun_ = 0;               // the sum of these
  std::uint32_t running_ = 0;
  mutable bool room_wanted_ = false;  // somebody was told that there is none
  std::map<Identity, Hold> held_;
  std::set<std::pair<Duration, Id>> due_;
  Workers_ workers_;
  std::map<Identity, Departure> departures_;  // since they were taken
  WorkerOrders orders_;
  /// When it was said that a name is there twice; monotonic.
  std::map<std::pair<TenantId, std::string>, Duration> twins_;
  std::map<PollNo, WaitingPoll> polls_;
  PollNo next_poll_ = 0;
  std::set<std::pair<Duration, PollNo>> polls_due_;
  std::map<std::uint64_t, Beating> beats_;
  std::uint64_t next_beat_ = 0;
  std::set<std::pair<Duration, std::uint64_t>> beats_due_;
  std::deque<StartJob> starts_;
  std::size_t resolving_ = 0;  // threads that are at it
  /// Who waits for that, in starts_ or at it.
  std::map<Id, std::vector<Done<worker_api::Started>>> starting_;
  std::deque<LogJob> logs_;
  std::size_t waiting_log_bytes_ = 0;
  bool storing_ = false;  // one thread at a time, so that lines stay in order
  std::condition_variable_any work_;
  std::condition_variable_any ticks_;
  Duration next_tick_ = Duration::max();
  Duration last_tick_{0};
  Duration next_tidy_{0};
  Duration no_loss_before_{0};
  /// ... of those who may count on an earlier process's longer lease.
  Duration no_earlier_loss_before_{0};
  /// When nobody counts on an earlier process's longer lease any more; max = nobody does.
  Duration earlier_over_at_ = Duration::max();
  executor::DurationHistogram durations_;
  std::uint64_t executed_ = 0, failed_ = 0, lines_dropped_ = 0;
  std::uint64_t returned_ = 0, lost_ = 0, stale_words_ = 0;

  std::vector<std::jthread> threads_;  // last: stop first
};

}  // namespace headworks::executor_queue
