#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/worker/worker.h"
#include "headworks/worker_api/worker_service.h"

namespace headworks::worker {

/// What a worker says next, and what it does with its attempts: the protocol, without threads,
/// clock or I/O.
///
/// Use.  `Next(now)` returns what is to be done now; each answer and each end of code goes in by an
///   On...; then `Next` again, at the latest at `due()`.
/// Time.  `now` is monotonic.  An attempt's lease counts from when the last Start or Heartbeat
///   began that was answered for it, so that the worker's count ends before the engine's does (I3).
/// Attempts.  By the key that they were assigned under.
class Conversation {
 public:
  struct SayRegister {
    worker_api::Registration registration;
  };
  struct SayPoll {
    std::uint64_t id = 0;
    worker_api::Poll poll;
  };
  struct SayStart {
    model::AttemptKey attempt;
    std::string start_token;
  };
  struct SayBeat {
    std::uint64_t id = 0;
    worker_api::Heartbeat heartbeat;
  };
  /// The first of its lines that were not answered.
  struct SayLog {
    model::AttemptKey attempt;
    std::string work_token;
  };
  struct SayComplete {
    model::AttemptKey attempt;
    std::string work_token;
    model::Outcome outcome;
  };
  struct SayHandBack {
    std::vector<std::string> start_tokens;
  };
  struct SayLeave {};
  /// The gate let it in.  Its code may not live beyond `kill_at`, unless KillAt moves that.
  struct Launch {
    model::AttemptKey attempt;
    worker_api::Job job;
    Duration kill_at{};
    /// Until Renew brings another.
    std::string work_token{};
  };
  /// What is said of it is said with this from now on.
  struct Renew {
    model::AttemptKey attempt;
    std::string work_token;
  };
  /// As Executor::Cancel.
  struct Cancel {
    model::AttemptKey attempt;
  };
  /// Its code may not live beyond that, unless this is moved; 0 = kill it now.
  struct KillAt {
    model::AttemptKey attempt;
    Duration at{};
  };
  /// Its code lives although that has passed, or although this worker has drained.
  struct Overdue {
    model::AttemptKey attempt;
  };
  /// What it prints is worth nothing any more: nobody is to wait for room for it.
  struct Mute {
    model::AttemptKey attempt;
  };
  /// What it prints and there is no room for is to be dropped: it was stopped, its code had all of
  /// its grace or of its lease, and its end is not to wait for an engine that takes nothing.
  struct DropRest {
    model::AttemptKey attempt;
  };
  /// Nothing more is said of it.
  struct Forget {
    model::AttemptKey attempt;
  };
  using Action =
      std::variant<SayRegister, SayPoll, SayStart, SayBeat, SayLog, SayComplete, SayHandBack,
                   SayLeave, Launch, Renew, Cancel, KillAt, Overdue, Mute, DropRest, Forget>;

  using Tell = std::function<void(const std::string& line)>;

  /// `random` is borrowed: jitter of what is said again.
  Conversation(const WorkerOptions& options, std::string incarnation, Random& random, Tell tell);
  /// Before the first Next: where this host puts artifacts.
  void SetArtifactDir(std::string path) { registration_.artifact_dir = std::move(path); }

  std::vector<Action> Next(Duration now);
  /// Duration::max() = only after another On...
  Duration due() const { return due_; }
  /// Set once there is nothing more to do: what Run returns.
  const std::optional<Status>& end() const { return end_; }
  WorkerFigures figures() const;
  const worker_api::Identity& who() const { return registration_.who; }

  void OnRegistered(const Result<worker_api::Welcome>& welcome, Duration now);
  void OnPolled(std::uint64_t id, const Result<worker_api::Polled>& polled, Duration now);
  void OnStarted(const model::AttemptKey& attempt, Result<worker_api::Started> started,
                 Duration now);
  /// How long its code may take to end once it is stopped.
  void OnGrace(const model::AttemptKey& attempt, Duration grace);
  void OnBeaten(std::uint64_t id, const Result<worker_api::Beaten>& beaten, Duration now);
  /// It printed something that is not said yet.
  void OnLines(const model::AttemptKey& attempt);
  /// `more`: there are lines beyond those that were said.
  void OnLogged(const model::AttemptKey& attempt, const Result<executor::Reply>& reply, bool more,
                Duration now);
  /// Its code has ended.
  void OnEnded(const model::AttemptKey& attempt, model::Outcome outcome);
  void OnCompleted(const model::AttemptKey& attempt, const Result<executor::Reply>& reply,
                   Duration now);
  void OnLeft();
  /// The second time it is urgent.
  void OnDrain(Duration now);

 private:
  /// When something that got no answer is said again.
  struct Retry {
    Duration at{};
    Duration delay{};
  };
  enum class Stage : unsigned char { kAssigned, kRunning, kEnded };
  enum class Stopped : unsigned char { kNot, kCancel, kLease, kDrain };
  struct Held {
    std::string queue, start_token, work_token;
    std::string name;  // for people
    Stage stage = Stage::kAssigned;
    Retry retry, log_retry;
    /// A Start or Complete is under way.
    bool asking = false;
    Duration asked_at{};  // the last Start
    /// The gate may be open, for all that is known.
    bool maybe_started = false;
    /// Its lease counts from here, and is as long as it was promised then: a shorter one of the
    /// next engine is for what that one is heard to say.
    Duration heard_at{}, lease{};
    int beats = 0;  // under way, that show its token
    bool lines = false, logging = false;
    Stopped stopped = Stopped::kNot;
    Duration stopped_at{}, grace{};
    bool dropping = false;  // what there is no room for
    bool overdue = false;
    /// It is somebody else's: its code is to end, and nothing is said.
    bool fenced = false;
    bool end_said = false, refused_once = false;  // its outcome
    model::Outcome outcome;
  };
  using Attempts = std::map<model::AttemptKey, Held>;
  struct Beating {
    std::vector<model::AttemptKey> attempts;
    Duration sent_at{}, wait{};
    bool full = false;
  };

  void Again(Retry& retry, Duration now);
  /// An operator wants it to drain, by way of the engine.
  void OnToldToLeave(Duration now);
  /// Whether an error is that this incarnation is not known; if so it registers again.
  bool Unknown(const Error& error);
  void NoteAnswer(const Status& status);
  void Refused(const Error& error, Duration now);
  std::uint32_t FreeSlots(const std::string& queue, std::uint32_t slots) const;
  void Due(Duration at);

  void NextForAttempts(Duration now, std::vector<Action>& actions);
  void NextForRunning(const model::AttemptKey& key, Held& held, Duration now,
                      std::vector<Action>& actions);
  /// The gate let it in, and it is over without its code.
  void NeverRuns(Held& held, bool cancelled) const;
  void NoteRoom(const model::Outcome& outcome);
  /// Whether it finds out already if there is room for one of this queue.
  bool HasTrial(const std::string& queue) const;
  /// `most`, or as much of it as may pass without a word.
  Duration Pause(Duration most) const;
  void NextPolls(Duration now, std::vector<Action>& actions);
  void NextBeats(Duration now, std::vector<Action>& actions);
  void SayBeats(bool full, Duration wait, Duration now, std::vector<Action>& actions);
  void NextDrain(Duration now, std::vector<Action>& actions);
  void GiveBack(std::vector<std::string> start_tokens);
  void GiveUpRefused(Duration now);
  void Heard(const model::AttemptKey& key, Held& held, Duration at);
  void Stop(const model::AttemptKey& key, Held& held, Stopped why, Duration now);
  void Fence(const model::AttemptKey& key, Held& held);
  void Drop(Attempts::iterator at);
  static Duration SoftEnd(const Held& held) { return held.heard_at + held.lease - held.lease / 8; }
  static Duration HardEnd(const Held& held) { return held.heard_at + held.lease - held.lease / 16; }
  Duration DropAt(const Held& held) const;

  worker_api::Registration registration_;
  const Duration poll_wait_, drain_timeout_, report_patience_;
  Random& random_;
  const Tell tell_;

  std::deque<Action> pending_;  // that On... wants done
  Duration due_{};
  std::optional<Status> end_;

  bool registered_ = false, registering_ = false;
  std::optional<Error> refusal_;
  bool silent_ = false;  // the last that was said got no answer
  Retry register_retry_, poll_retry_, beat_retry_;
  /// Polls come less and less often while this host has no room for what they bring.
  Retry room_retry_;
  Duration next_trial_{};  // not before that, for one has just begun
  std::string no_room_;    // why, of the last end in a row; empty = there is room
  bool found_no_room_ = false;
  Duration lease_{}, heartbeat_every_{};

  Attempts attempts_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::map<std::string, std::uint32_t>> polls_;
  std::map<std::uint64_t, Beating> beats_;
  Duration beat_not_before_{}, extra_beat_not_before_{};

  bool draining_ = false;
  bool told_to_leave_ = false;  // and OnDrain has not been called yet
  Duration stop_at_{}, give_up_at_{};
  bool leaving_ = false;
  std::uint64_t started_ = 0, reported_ = 0, stopped_for_lease_ = 0, fenced_ = 0, interrupted_ = 0;
};

}  // namespace headworks::worker
