#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "headworks/alert/alert.h"
#include "headworks/base/log.h"
#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/control/control.h"
#include "headworks/dispatcher/dispatcher.h"
#include "headworks/engine/active_runs.h"
#include "headworks/engine/due_tenants.h"
#include "headworks/engine/evaluator.h"
#include "headworks/engine/held_tasks.h"
#include "headworks/engine/pools.h"
#include "headworks/engine/ready_queue.h"
#include "headworks/engine/stats.h"
#include "headworks/executor/executor.h"
#include "headworks/model/run.h"
#include "headworks/model/step.h"
#include "headworks/store/run_store.h"

/// Owns runs: decides, commits, hands out.
namespace headworks::engine {

struct EngineOptions {
  /// Name of this incarnation; holder of the attempts that it hands out.  Unique per start.
  std::string owner;
  Duration lease_ttl = std::chrono::seconds(10);
  /// How often the inbox is looked at where the store cannot tell that something was appended;
  /// where it can, every second is often enough.
  Duration inbox_poll = std::chrono::milliseconds(20);
  /// "Started" is written with the next round, or after this long: a task that ends sooner costs
  /// no row of its own for it.
  Duration started_delay = std::chrono::milliseconds(50);
  /// What tasks have that do not say otherwise.
  model::PlatformDefaults defaults;
  /// How long an attempt that has not started within its `start_timeout` may still be pending, or
  /// unknown to its executor, before its task fails.
  Duration pending_timeout = std::chrono::hours(1);
  /// Load unfinished runs.  If false, only runs that are started or commanded are touched.
  bool recover = true;
  /// If false, events and commands are applied, but nothing is queued.
  bool start_tasks = true;
  std::uint32_t max_runs = 20'000;
  std::uint32_t max_task_states = 1'000'000;
  /// Runs that are read from the store in one round, at most.
  std::size_t admit_batch = 1'000;
  ReadyOrder ready_order;
  std::size_t max_round_rows = 2'000;
  std::size_t max_round_bytes = std::size_t{8} << 20;
  /// Starts that wait in memory for their round; beyond it Start answers kAtCapacity.
  std::size_t max_waiting_starts = 100'000;
  /// Words that wait for theirs; beyond it Hear answers kAskAgain at once.
  std::size_t max_waiting_words = 100'000;
  std::size_t max_waiting_word_bytes = std::size_t{64} << 20;
  /// Durable queues, of the tenant each is about, that alerts of failed tasks and stuck runs are
  /// put into by the round that writes the failure.  None = no alerts.
  std::vector<std::string> alert_queues;
};

/// One committed change, for whoever watches.  What it refers to lives until the call returns.
struct Change {
  RunNo run;
  const RunId& run_id;
  std::optional<TaskNo> task;  // none = the run itself
  std::string_view task_id;
  model::RunState run_state = model::RunState::kRunning;
  model::TaskState task_state = model::TaskState::kWaiting;
  model::Reason reason = model::Reason::kNone;
};

/// Told after each commit, on the control thread; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void Committed(std::span<const Change> changes) = 0;
  /// The run is gone from the store; what is kept of it elsewhere may go too.
  virtual void Deleted(const TenantId& tenant, RunNo run, const RunId& run_id) = 0;
};

/// The transactional state machine over all shards that it owns: gather, step, commit, perform.
///
/// Life.  Construct, Open, Tick until done (or EngineLoop), Close, destroy.  Ports must outlive it.
/// Threads.  Open, Tick and Close on one control thread.  Start, Execute, stats, StopQueueing and
///   the calls of the sinks from any thread: they only post to the mailbox.
/// Durability.  A callback is called after the commit of what it reports (I1).
/// Errors.  A store that fails is retried with the same bytes; a lost lease ends the engine
///   (`stats().lost`): it then writes nothing more.
class Engine final : public executor::AttemptSink,
                     public dispatcher::RetrySink,
                     public dispatcher::FailureSink {
 public:
  using StartCallback = std::function<void(Result<control::Started>)>;
  using CommandCallback = std::function<void(Status)>;

  Engine(EngineOptions options, store::Database& database, dispatcher::Dispatcher& dispatcher,
         Evaluator& evaluator, Clock& clock, Random& random, Logger& logger, Observer* observer);
  ~Engine() override;

  /// Takes the shards.  kConflict names the owner if there is one.  The dispatcher need not be
  /// started before the first Tick: whoever has the shards may touch what executors left behind.
  Status Open();
  /// After Open, before the first Tick: the number of the first run that this incarnation makes.
  /// Runs with a smaller one are of earlier incarnations.
  Result<RunNo> FirstRun();
  /// One round (possibly empty).  Returns when to call again at the latest, by the monotonic
  /// clock; the mailbox may ask for it sooner (`WaitForMail`).
  Duration Tick();
  /// Blocks until there is mail, `until` is reached or Wake() was called.
  void WaitForMail(Duration until);
  void Wake();
  /// Gives the leases back.  Call after executors are drained and their verdicts ticked in.
  Status Close();

  void Start(control::StartRequest request, StartCallback done);
  void Execute(control::Command command, CommandCallback done);
  /// From now on nothing is queued; live attempts go on.
  void StopQueueing();
  EngineStats stats() const;

  void Started(const model::AttemptKey& key) override;
  void Ended(const model::AttemptKey& key, model::Outcome outcome) override;
  void Hear(executor::Word word, std::function<void(executor::Heard)> reply) override;
  void CapacityChanged() override;
  /// As if Dispatch had answered so (`Answered` is the one policy).
  void HandleDispatchFailure(const model::AttemptKey& key,
                             const executor::OfferResult& result) override;
  void HandleDispatchRecovery(const model::AttemptKey& key) override;
  /// Ends the task as failed (`dispatch_failed`), unless its attempt has started.
  void MarkTaskDispatchFailed(const model::AttemptKey& key, std::string_view reason) override;

 private:
  friend class EnginePeer;  // the simulator compares memory with the store

  struct StartWork {
    control::StartRequest request;
    StartCallback done;
    Result<control::Started> result;
  };
  struct CommandWork {
    control::Command command;
    CommandCallback done;
    Status result;
  };
  struct WordWork {
    executor::Word word;
    std::function<void(executor::Heard)> done;
    executor::Heard reply = executor::Reply::kAskAgain;
  };
  /// One thing to do in a round; kept until the commit is known, so that it can be done again.
  struct Work {
    TenantId tenant;
    RunNo run;  // 0 for starts
    std::variant<model::Event, StartWork, CommandWork, WordWork> what;
    std::int64_t inbox_id = 0;  // 0 = not from the inbox
    std::string dedupe_key;
  };
  /// Who was let in by the start gate of an attempt.
  struct Claim {
    Epoch epoch;
    std::string holder;
    /// False: as an earlier incarnation stored it, which may be its own name.
    bool heard = true;
    Duration heard_at{0};  // its last word; until then: when it was loaded
  };
  /// By what the lists of a store find a run.
  struct Listing {
    int priority;
    Instant wake_at;
    Instant finished_at;
    bool stuck;
    explicit Listing(const model::RunHeader& header)
        : priority(header.priority),
          wake_at(header.wake_at),
          finished_at(header.finished_at),
          stuck(!header.stuck_reason.empty()) {}
    bool operator==(const Listing&) const = default;
  };
  /// A run in memory.
  struct Slot {
    model::Run run;
    std::optional<Listing> listed;  // as the store has it
    model::Changes changes;         // of the round under way
    std::optional<std::string> insert_input;
    std::vector<model::Changes::Offer> superseded;  // verdicts that came too late
    /// By lane: ready, but `max_parallel` attempts are live.
    std::map<std::size_t, HeldTasks> held;
    std::vector<model::TimerDue> due;  // timers that were due when the run was loaded
    std::map<TaskNo, Claim> claims;    // of attempts that run elsewhere
    bool touched = false;              // has changes in the round under way
    bool visited = false;              // loaded or looked at in the round under way
    bool continuing = false;           // ContinueRun or StartRun is in the backlog
    bool deleted = false;
    bool asking = false;  // tasks of it may stand in the line of a pool
    bool active = false;  // counted as running: so the store has it
    std::array<std::uint32_t, model::kTaskStateCount> counted{};  // in stats_.tasks
  };
  struct LiveRef {
    RunNo run;
    TaskNo task;
    Epoch epoch;
    auto operator<=>(const LiveRef&) const = default;
  };
  /// The platform said no for good; the event that ends the epoch is under way.
  static constexpr int kAnsweredNo = -1;
  /// An executor may have it or not: it is asked until it knows.
  static constexpr int kInDoubt = -2;
  /// An attempt that no executor is known to have.
  struct Soft {
    int answers = 0;           // soft ones so far, or kAnsweredNo, kInDoubt
    Duration due{0};           // of its one timer, monotonic; others are not wanted.  0 = none
    int last_hurried = -1;     // so many answers it had when a recovery last brought that forward
    std::uint64_t offers = 0;  // not taken; of the first and the last:
    Duration since{0};         // monotonic
    Instant since_at{};
    std::string said;
    Duration note_at{0};  // monotonic; people are told then
  };
  /// An attempt that its executor has, and that has yet to start.
  struct Unstarted {
    LiveRef ref;
    Duration due;  // asked about then, monotonic
    bool operator>(const Unstarted& other) const {
      return due != other.due ? due > other.due : ref > other.ref;
    }
  };
  /// One that did not start in time, or may not have.
  struct Overdue {
    Duration since;  // monotonic; may yet come
    model::Reason reason = model::Reason::kNone;
    bool absent = false;  // its executor did not have it last time
  };
  /// Tenant and line; both empty where the lane has no lines.
  using LineKey = std::pair<std::string, std::string>;
  struct Lane {
    ReadyQueue ready;
    bool has_lines = false;
    /// Accepted by nobody yet, same epoch; no line without any.
    std::map<LineKey, std::deque<LiveRef>> deferred = {};
    /// Of a lane with lines: those for which the executor said "later", and until when, monotonic.
    std::map<LineKey, Duration> later = {};
    /// Of a lane with lines: runs that may let more of their held tasks go.
    std::set<RunNo> letting_go = {};
    std::uint32_t live = 0;   // attempts not yet settled
    std::size_t carried = 0;  // ready when the round began
    std::uint32_t max = 0;    // live attempts, as the executor said when the round began
    bool troubled = false;    // the executor could not answer last time
    Duration recovered_at{0};
    Duration held_up_since{0};  // the oldest attempt that it does not take; 0 = none
  };
  struct Timer {
    Duration due;  // monotonic
    enum class Kind : std::uint8_t { kRun, kTask, kWake, kReoffer, kInspect, kAsk } kind;
    Instant when;
    TenantId tenant;
    LiveRef ref;
    bool operator>(const Timer& other) const {
      return due != other.due ? due > other.due : ref > other.ref;
    }
  };
  /// Task states that are loaded in one go: one large run, or many small ones.
  static constexpr std::size_t kAdmitStates = 20'000;
  /// What a run that has to be read counts for beside its tasks.
  static constexpr std::size_t kLoadStates = 64;
  /// A store that did not answer is asked again after this.
  static constexpr Duration kScanAgain = std::chrono::seconds(1);
  /// So few are not worth the look.
  static constexpr std::size_t kFewTimers = 1'024;
  /// A run counts towards limits until the last of its attempts is provably over.
  static bool TakesPlace(const model::Run& run) {
    return run.header.state == model::RunState::kRunning ||
           (model::IsTerminal(run.header.state) && run.live > 0);
  }
  struct StartedNote {
    model::AttemptKey key;
    Duration at;
  };
  /// A question that could not be answered yet.
  struct Unanswered {
    RunNo run;
    model::Changes::Evaluation asked;
  };
  /// What an executor said of an attempt that was taken before it did.
  struct LateAnswer {
    model::AttemptKey key;
    executor::OfferResult result;
    bool fails_task = false;
  };
  using Mail = std::variant<Work, StartedNote, Unanswered, LateAnswer>;

  /// A round whose bytes are fixed and whose commit is not known yet.
  struct Pending {
    store::Round round;
    std::vector<Work> works;
    int failures = 0;
    bool maybe_committed = false;
    Duration retry_at{0};
  };
  struct Stuck {
    TenantId tenant;
    RunNo run;
    std::string why;
  };

  // gather.cc
  void Post(Mail mail);
  void Gather();
  void GatherInbox();
  void GatherTimers();
  void AddTimer(Timer timer);
  /// False: what it was armed for is over.
  bool IsWanted(const Timer& timer) const;
  void GatherStarted();
  /// False: the store did not answer, so it is to be done later.
  bool ApplyLate(const LateAnswer& late);
  void ApplyLateFailure(Slot& slot, const LiveRef& ref, const LateAnswer& late);
  Work DecodeInbox(const store::InboxRow& row);
  /// An event of a run in memory.
  Work EventOf(const Slot& slot, model::Event event) const;
  Duration NextDue() const;
  void Enqueue(Work work);
  void KeepLease();
  /// As far as this engine knows: nobody else can have taken over.
  bool OwnsShards() const { return !lost_ && clock_.Monotonic() < lease_end_; }
  void Publish();

  // admission.cc
  bool HasRoom(std::uint32_t tasks) const;
  std::size_t RoomForRuns() const;
  /// There are runs to look for, and nothing that stands against it but a store that did not
  /// answer.
  bool MayAdmit() const;
  void Admit();
  /// False: the store did not answer.
  bool FindDueTenants();
  /// Runs that are to come into memory in this round: those that there may be credit for, and a few
  /// more, as the tasks of some may go to an executor that has some.
  std::size_t AdmitBatch() const;
  /// As far as rows, room and task states allow; false: the store did not answer.
  bool AdmitInTurn();
  enum class Admission : std::uint8_t { kDone, kPassedOver, kNoRoom, kUnavailable };
  /// `states` grows by what it costs to load.
  Admission AdmitRun(model::RunHeader run, Instant now, std::size_t& states);
  void WakeRun(const Timer& timer);

  // overdue.cc
  /// Its executor has taken it: from now on it is to start within its `start_timeout`.
  void WatchStart(const Slot& slot, const LiveRef& ref);
  /// In place of the time that was set before, if any.
  void WatchStartUntil(const LiveRef& ref, Duration due);
  bool IsUnstarted(const LiveRef& ref) const;
  bool IsWatched(const Unstarted& waits) const;
  bool WaitsForStart(const Unstarted& waits) const;
  void CheckUnstarted();
  /// What the executor of an attempt says that has not started.  `in_line`: as Pending::in_line.
  void NoteOverdue(const Slot& slot, const executor::Attempt& attempt, model::Reason reason,
                   const std::string& why, bool in_line);
  /// Once more in a second to a minute, at `latest` if that is yet to come.
  void AskAboutStart(const executor::Attempt& attempt, Duration latest);
  void DropOverdue(const LiveRef& ref);
  /// One more offer was not taken, and there will be another.
  void CountHeldUp(Soft& soft, const executor::OfferResult& result);
  /// Who waits longest for each executor, in figures; and of each one that waits for long, a note
  /// in its run's history, ever more seldom.
  void NoteHeldUp();
  std::uint64_t& OverdueCount(model::Reason reason);

  // words.cc
  bool ApplyWord(Work& work, WordWork& spoken);
  executor::Heard Judge(Slot& slot, const executor::Word& word);
  /// Whether the store still calls this engine the owner.
  bool StillOwns(Shard shard);
  static std::size_t BytesOf(const executor::Word& word);
  executor::Heard ClaimStart(Slot& slot, const executor::Word& word);
  /// Who holds the attempt by its start gate; nullptr = nobody.
  static Claim* ClaimOf(Slot& slot, TaskNo task, Epoch epoch);

  // round.cc
  /// Does `again` once more, or (empty) what is waiting, as far as the bounds allow.
  void RunRound(std::vector<Work> again, bool grant);
  bool TryCommit();
  void Split(std::vector<Work> works, const Error& error);
  /// False: the store did not answer a question, so it is to be done later.
  bool Apply(Work& work);
  bool ApplyEvent(Work& work, const model::Event& event);
  void KeepForUnstick(std::vector<Work>& kept, const Work& work, const model::Event& event);
  bool ApplyStart(Work& work, StartWork& start);
  /// The run that a start key made, in the round under way or before it.
  Result<std::optional<control::Started>> FindStarted(const control::StartRequest& request);
  bool ApplyCommand(Work& work, CommandWork& command);
  void ApplyToSlot(Slot& slot, CommandWork& command);
  bool Unstick(Work& work, CommandWork& command);
  Status StepSlot(Slot& slot, const model::Event& event);
  /// Alerts of what failed are part of the round's rows; the step changed these tasks, and ended
  /// these attempts, from there on.
  void CountAlerts(const Slot& slot, std::size_t tasks, std::size_t attempts);
  /// Rows that queueing what is ready and has credit will add: kept free, so that the commit that
  /// makes a task ready queues it, too.
  std::size_t RowsToQueue() const;
  bool RoundIsFull() const;
  void GrantCredit(std::vector<Work>& works);
  /// Of a lane with lines.
  void GrantLines(std::size_t lane, std::vector<Work>& works);
  /// Credit for one: it is queued, or waits for something else.
  void Grant(const ReadyTask& next, std::vector<Work>& works);
  /// It was let go, and has had its turn: another of its line may be.
  void CompetesNoMore(Slot& slot, TaskNo task);
  static bool AtMaxParallel(const Slot& slot);
  void QueueAgain(Slot& slot, TaskNo task);
  void MarkStuck();
  store::Round BuildRound(const std::vector<Work>& works);
  void AddAlerts(const model::Workflow& workflow, const store::RunWrite& write,
                 std::vector<alert::Alert>& alerts) const;
  /// Over what an earlier round wrote there, whose room is used again.
  void WriteInto(store::RunWrite& write, Slot& slot, Instant now) const;
  static store::Answer AnswerOf(const Work& work);
  void Rollback();
  void Park(const TenantId& tenant, RunNo run, const std::string& why, std::vector<Work> works);
  static bool IsQueueTask(const Work& work);
  void SetAside(std::vector<Work> works);
  void Answer(std::vector<Work>& works);
  /// Whoever still waits gets an answer, and so does whoever asks from now on; what is in the inbox
  /// stays there.
  void AnswerAll();
  void Refuse(std::vector<Work> works);
  void Lose(const Error& error);

  // perform.cc
  void Perform(const store::Round& round, std::vector<Work>& works);
  void PerformEffects(std::vector<Work>& works);
  /// What a round brings about outside of its runs.
  struct Effects {
    std::vector<executor::Attempt> settled;
    std::vector<executor::Attempt> offers;
    std::vector<Change> told;
  };
  void PerformSlot(Slot& slot, Effects& effects);
  /// Whether it takes places of its groups now, and who gets those that it left.
  void CountActive(Slot& slot);
  void Offer(const executor::Attempt& attempt);
  /// What each disposition leads to, whether it came at once or late.
  void Answered(const Slot& slot, const executor::Attempt& attempt,
                const executor::OfferResult& result);
  /// Of an attempt that no executor is known to have: in place of the timer it has, if any.
  void ArmSoft(const LiveRef& ref, Soft& soft, Timer::Kind kind, Duration delay);
  /// It is offered again once its executor has room for such.
  void Defer(const TenantId& tenant, const model::Workflow& workflow, const LiveRef& ref);
  void OfferAgain(std::size_t lane);
  void OfferLineAgain(std::size_t lane, const LineKey& line, std::deque<LiveRef>& deferred);
  /// The executor took one, so that its line may have more.
  void Took(std::size_t lane, const TenantId& tenant, const model::Workflow& workflow, TaskNo task);
  /// The executor answers: what waited for that is offered within seconds.
  void Recovered(std::size_t lane);
  /// No executor takes more: what none has is ended by the owner, once that is certain.
  void HandBack();
  void InspectRecovered();
  void ApplyInspection(const executor::Attempt& attempt, executor::Inspection answer);
  void ApplyUnknown(const Slot& slot, const executor::Attempt& attempt, const std::string& why);
  void ApplyPending(const Slot& slot, const executor::Attempt& attempt,
                    const executor::Pending& pending);
  void ApplyAbsence(const executor::Attempt& attempt, const model::TaskRun& task);
  /// Its executor does not have it, but somebody was let in.
  void ApplyHeldAbsence(const executor::Attempt& attempt, const Claim& claim);
  /// What an executor of this incarnation took it has no more.
  void ApplyOverdueAbsence(const executor::Attempt& attempt, Overdue& overdue);
  /// The owner ends an epoch that no executor has (I5).
  void EndUnstarted(const LiveRef& ref, model::Verdict verdict, std::string_view why = {});
  void CancelAttempt(Slot& slot, TaskNo task, Epoch epoch);
  void Doubt(const executor::Attempt& attempt);
  void Ask(const Slot& slot, const model::Changes::Evaluation& asked);
  void AskLater(const Unanswered& unanswered);
  executor::Attempt MakeAttempt(const Slot& slot, TaskNo task, Epoch epoch) const;
  /// What Settled needs of one: its key and its workflow.
  static executor::Attempt OverAttempt(const Slot& slot, TaskNo task, Epoch epoch);
  static void Tell(const Slot& slot, std::vector<Change>& told);
  void EvictVisited();
  void Evict(RunNo run);

  // places.cc
  /// Whether a pending run may start by its workflow's `max_active_runs` and `concurrency`; if not,
  /// it waits from now on.
  Result<bool> TakePlace(const Slot& slot);
  Result<bool> HasPlace(const RunGroup& group, const ActiveRuns::Limit& limit,
                        const model::RunHeader& run);
  /// Runs of the group that are under way in the store.
  Result<std::size_t> ActiveIn(const RunGroup& group);
  /// Begins to count the runs of a group.
  Status CountRuns(const RunGroup& group, const ActiveRuns::Limit& limit);
  /// Runs that have the key or wait with it, as the round under way leaves them.
  Result<std::vector<model::RunHeader>> HoldersOf(const RunGroup& group, std::size_t limit);
  /// kConflict if a run that is to start finds no place, and its workflow says `skip`.
  Status CheckSkip(const model::Workflow& workflow, const RunGroup& group);
  /// kConflict if a run that is over finds no place to go on.
  Status CheckRerun(const model::Run& run);
  /// The oldest that are in the way of a run are cancelled; those at work once its rate lets it
  /// start.
  Status CancelPrevious(const model::RunHeader& header, const RunGroup& group,
                        const ActiveRuns::Limit& limit);
  /// A run that waited for a place is not there: others try.
  void PassPlaceOn(RunNo run);
  /// The next run of the group tries to start.
  void OfferPlace(const RunGroup& group);
  void OfferPlaces(const model::RunHeader& header);
  void OfferDuePlaces();

  // permits.cc
  /// Whether a task for which there is credit may be queued.  If its pool has too few permits, it
  /// waits for them from now on, and `works` receives what made it so.
  bool GetPermits(Slot& slot, const ReadyTask& ready, std::vector<Work>& works);
  /// An engine that recovers nothing goes on with those that hold what a task of its own waits for.
  void WakeHolders(const PermitAsk& ask);
  /// Runs that hold permits come into memory however full it is: others there may wait for them.
  void LoadHolders();
  bool MayTakePermits(const PermitAsk& ask);
  PermitAsk AskOf(const Slot& slot, const ReadyTask& ready) const;
  /// What a step queued and ended, from these positions on, takes and frees permits.
  void MovePermits(Slot& slot, std::size_t attempts, std::size_t offers);
  /// Tasks of the round under way that are no longer ready wait for no permits.
  void ForgetAsks();
  void WritePermits(const Slot& slot, store::RunWrite& write, Instant now) const;
  /// Tasks that could have their permits now compete for credit.
  void ReservePermits();
  void RefreshLimits();
  bool LimitsAreFresh(const TenantId& tenant);
  /// Where memory is full of runs that may wait for what it holds, a run comes in all the same.
  bool LoadHolder(const store::Permit& permit);
  /// Compares who holds permits with who should (I9), and complains.
  void AuditPermits();

  // measure.cc
  /// What a commit changed, in stats_ and in the log.
  void Measure(Slot& slot);
  /// One line for each Dispatch, another for what comes late.
  void LogOffer(std::string_view message, const executor::Attempt& attempt,
                const executor::OfferResult& result);
  void LogEnd(const Slot& slot, const model::AttemptRecord& record);
  /// Tasks per state, since the last time.  `ended`: those that ended count as such.
  void CountTasks(Slot& slot, bool ended);

  std::size_t LaneOf(const Slot& slot, TaskNo task) const {
    return dispatcher_.LaneOf(slot.run.header.tenant, slot.run.workflow->task(task));
  }
  LineKey LineOf(std::size_t lane, const TenantId& tenant, const model::Workflow& workflow,
                 TaskNo task) const {
    if (!lanes_[lane].has_lines) return {};
    return {tenant.value, dispatcher_.LineOf(lane, workflow, task)};
  }
  /// Whether the executor takes one more now.
  bool TakesMore(std::size_t lane, const LineKey& line) const;

  // slots.cc
  /// The run in memory, loaded if need be; kConflict if it is parked as stuck.
  Result<Slot*> Load(const TenantId& tenant, RunNo run, Instant now);
  Status CheckLoadable(RunNo run) const;
  /// Parks a run whose rows or version cannot be read; what whoever wanted it is told.
  Error ParkUnreadable(const TenantId& tenant, RunNo run, const Error& why);
  Result<Slot*> Build(store::RunImage image, Instant now);
  /// What is known of a loaded run's live attempts; those that another incarnation handed out are
  /// asked about.
  void RestoreAttempts(Slot& slot, const store::RunImage& image, const model::Changes& effects,
                       Instant now);
  /// kConflict if a live attempt is with another executor than its task would go to now: only that
  /// one knows what became of it (I4, I5).
  Status CheckExecutors(const model::Workflow& workflow, const store::RunImage& image,
                        const model::Changes& effects) const;
  void Continue(Slot& slot, model::Event event);
  Slot& Insert(model::Run run);
  Result<std::shared_ptr<const model::Workflow>> LoadWorkflow(const TenantId& tenant,
                                                              const std::string& version);
  void Visit(Slot& slot);
  ReadyTask MakeReady(const Slot& slot, TaskNo task);
  void PushReady(const TenantId& tenant, const model::Workflow& workflow, const ReadyTask& ready);
  /// It waits until fewer attempts of its run are live.
  void Hold(Slot& slot, const ReadyTask& ready);
  /// Whether there was one that may compete for credit again.
  bool ReleaseHeld(Slot& slot);
  /// What competes in this lane has no credit: whether there is another whose line may have some.
  bool ReleaseOthers(std::size_t lane);
  void PushTimer(const Slot& slot, const model::Changes::Timer& timer, Instant now);
  Status ReserveRunNos();
  Result<RunNo> NextRunNo();

  const EngineOptions options_;
  store::Database& database_;
  dispatcher::Dispatcher& dispatcher_;
  Evaluator& evaluator_;
  Clock& clock_;
  Random& random_;
  Logger& logger_;
  Observer* const observer_;

  // Mailbox: the only part that other threads touch.
  mutable std::mutex mutex_;
  std::condition_variable mail_arrived_;
  std::vector<Mail> mail_;
  std::size_t waiting_starts_ = 0;
  std::size_t waiting_words_ = 0;
  std::size_t waiting_word_bytes_ = 0;
  bool woken_ = false;
  bool queueing_stopped_ = false;
  bool closed_ = false;    // whoever asks is refused
  bool appended_ = false;  // to the inbox, as the store says
  EngineStats published_;

  // Control thread only.
  bool open_ = false;
  bool start_tasks_ = true;
  bool lost_ = false;
  std::vector<store::Guard> guards_;  // by shard number
  std::vector<Shard> shards_;
  std::unordered_map<RunNo, std::unique_ptr<Slot>> slots_;
  std::unordered_map<std::string, std::shared_ptr<const model::Workflow>> workflows_;
  std::vector<Mail> taken_mail_;  // changes places with the mailbox, so that its memory is kept
  std::deque<Work> cancels_;      // applied before the backlog
  std::deque<Work> backlog_;
  std::vector<Work> later_;  // the store did not answer
  Duration later_at_{0};
  std::deque<std::vector<Work>> isolated_;  // halves of a round that failed for good
  std::optional<Pending> pending_;
  std::vector<store::RunWrite> spare_writes_;       // of the last round
  std::optional<std::pair<RunNo, Error>> faulted_;  // its Step failed in the round under way
  std::vector<RunNo> visited_;                      // in order of first visit
  std::vector<Work> after_commit_;                  // what it leads to
  std::map<Shard, bool> owned_;                     // what the store says of those looked up in it
  std::size_t round_states_ = 0;                    // task states that were read for it
  Instant round_began_{};
  std::size_t round_rows_ = 0;
  std::size_t round_bytes_ = 0;
  bool grant_more_ = false;  // there may be credit for more than the round asked for
  std::unordered_map<std::string, control::Started> round_start_keys_;
  ActiveRuns active_runs_;
  Pools pools_;
  std::set<store::RunKey> holders_;  // runs that hold permits and are to be loaded
  Duration holders_at_{0};
  std::set<std::pair<std::string, std::string>> woken_pools_;  // tenant, pool: their holders
  Duration limits_at_{0};  // when they are to be read again, should tasks wait for permits
  Duration limits_failed_at_{-Pools::kFresh};  // when they could not be read
  std::vector<Lane> lanes_;
  std::vector<Timer> timers_;  // a min-heap; at most about half of it is no longer wanted
  std::size_t tidy_timers_at_ = kFewTimers;
  std::deque<StartedNote> started_;
  std::deque<executor::Attempt> to_inspect_;
  std::map<LiveRef, Soft> soft_failures_;
  /// Of attempts that were dispatched after soft answers, should a late one follow.
  std::map<LiveRef, Soft> overcome_failures_;
  std::vector<Unstarted> unstarted_;  // a min-heap; at most about half has started or ended
  std::size_t tidy_unstarted_at_ = kFewTimers;
  std::map<LiveRef, Duration> watched_;  // the one entry of unstarted_ that counts
  std::map<LiveRef, Overdue> overdue_;
  Duration held_up_at_{0};        // when to look at those that no executor takes, if there are any
  std::vector<LateAnswer> late_;  // the store did not answer
  std::unordered_map<RunNo, std::vector<Work>> stuck_works_;
  std::unordered_map<RunNo, Error> unloadable_;  // and why
  std::deque<Stuck> to_mark_;                    // parked in memory, not yet in the store
  Duration mark_at_{0};
  std::uint64_t ready_order_ = 0;
  std::uint32_t task_states_ = 0;
  RunNo next_run_no_{0}, run_no_end_{0};
  std::int64_t run_no_block_ = 1;               // doubles, so that a short-lived engine skips few
  std::unique_ptr<store::Inbox::Watch> watch_;  // null = the inbox is polled
  Duration next_inbox_{0};
  std::unordered_set<std::int64_t> inbox_held_;  // rows that are in memory, not yet consumed
  std::int64_t data_version_ = -1;
  Duration lease_due_{0};
  Duration lease_end_{0};  // unless it is renewed
  bool renewal_failed_ = false;
  // Admission: runs in the store that are not in memory.
  DueTenants due_;
  std::optional<TenantId> due_tenants_after_;  // the next page of tenants that may have some
  bool memory_full_ = false;
  Duration admit_at_{0};
  Duration next_scan_{0};
  EngineStats stats_;
};

/// Runs Tick on a thread of its own.
class EngineLoop {
 public:
  explicit EngineLoop(Engine& engine);
  ~EngineLoop();
  void Start();
  /// Stops after the round under way; idempotent, legal before Start.
  void Stop();

 private:
  Engine& engine_;
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace headworks::engine
