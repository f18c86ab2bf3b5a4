#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"
#include "headworks/executor/executor.h"
#include "headworks/log_store/log_store.h"
#include "headworks/model/attempt.h"

/// The seam between workers and the engine that they work for, whatever carries the words.
namespace headworks::worker_api {

/// Of this interface and of the protocol that carries it.  A worker that speaks another is refused.
inline constexpr std::int32_t kProtocol = 1;

/// Bounds, checked by whoever implements WorkerService; one byte more is kInvalidArgument.
inline constexpr std::size_t kMaxNameBytes = 64;  // worker, queue: of [A-Za-z0-9_-]
inline bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
             std::string_view::npos;
}
inline constexpr std::size_t kMaxQueues = 64;  // of one worker
inline constexpr std::size_t kMaxLabels = 64;  // of one worker, each at most kMaxLabelBytes
inline constexpr std::size_t kMaxLabelBytes = 128;
inline constexpr std::uint32_t kMaxSlots = 10'000;  // of one worker, over all its queues
/// The output of one attempt, as text.
inline constexpr std::size_t kMaxOutputBytes = std::size_t{1} << 20;
/// The lines of one Log, each with its bytes and kLineOverhead more.
inline constexpr std::size_t kMaxLogBytes = std::size_t{4} << 20;
inline constexpr std::size_t kLineOverhead = 16;
inline std::size_t BytesOf(const log_store::Line& line) {
  return line.bytes.size() + kLineOverhead;
}
/// The bytes of one PutArtifact or GetArtifact.
inline constexpr std::size_t kMaxPieceBytes = std::size_t{4} << 20;
/// Registration::artifact_dir.
inline constexpr std::size_t kMaxPathBytes = 4'096;
/// Of an outcome, for people: what is longer is cut.
inline constexpr std::size_t kMaxErrorBytes = std::size_t{4} << 10;
/// The worker's own, that it shows with all it says.
inline constexpr std::size_t kMaxTokenBytes = std::size_t{8} << 10;
inline constexpr Duration kMaxWait = std::chrono::seconds(60);
/// Polls and heartbeats of one worker that wait; beyond that the oldest is answered.
inline constexpr std::size_t kMaxPolls = 64;
inline constexpr std::size_t kMaxBeats = 16;
inline constexpr Duration kMaxLease = std::chrono::hours(24);

/// One start of one worker.  Two processes of the same name are two workers: whatever is held is
/// held by an incarnation.
struct Identity {
  TenantId tenant;
  std::string worker;
  /// Random, made at the start of the process; 1 to 64 of [A-Za-z0-9_-].
  std::string incarnation;

  auto operator<=>(const Identity&) const = default;
};

struct Registration {
  Identity who;
  /// Attempts that it runs at a time, for each queue that it serves.
  std::map<std::string, std::uint32_t> slots;
  /// "gpu", "region=eu": a task that `requires` others goes to another worker.
  std::vector<std::string> labels;
  /// Of its program, for people.
  std::string version;
  std::string host;
  std::int32_t protocol = kProtocol;
  /// The folder below which it puts the artifacts that attempts need (see ArtifactFolder);
  /// absolute, UTF-8.  Empty: attempts of tasks that leave or need artifacts go to others.
  std::string artifact_dir;
};

/// Where a worker puts the artifacts that one attempt needs, before its code begins.
inline std::string ArtifactFolder(std::string_view artifact_dir, const model::AttemptKey& attempt) {
  return std::string(artifact_dir) + '/' + std::to_string(attempt.run.value) + '-' +
         std::to_string(attempt.epoch.value);
}

struct Welcome {
  /// An attempt whose worker has not been heard for so long is lost.  The worker, who counts from
  /// when it began to say the last word that was answered, stops its code before.
  Duration lease{};
  Duration heartbeat_every{};
};

struct Poll {
  Identity who;
  /// Of each queue that is asked for, how many more it has room for.
  std::map<std::string, std::uint32_t> free;
  /// Answered with nothing after so long, or earlier: at most kMaxWait.
  Duration wait{};
};

/// An attempt that is this worker's to start.  Whoever does not open its gate within the lease
/// loses it to another, as does one that hands it back.
struct Assignment {
  model::AttemptKey attempt;
  std::string queue;
  std::string start_token;
};

struct Polled {
  std::vector<Assignment> assignments;
  /// There is nothing for it now: the worker is cordoned, or is to leave.
  bool drain = false;
  /// An operator wants it to drain, as by Worker::Drain, and to leave; said until it has.
  bool leave = false;
};

/// What there is to do: everything that the code is to see, with expressions in place, so that a
/// worker needs neither the store nor the rest of the workflow.
struct Job {
  model::AttemptKey attempt;
  RunId run_id;
  std::string workflow, task, version;
  int try_no = 1;
  std::uint32_t generation = 0;
  /// Zero = none.
  Duration timeout{};
  /// The same over all tries.
  std::string idempotency_key;
  /// A workflow of this one task, without needs and conditions: canonical JSON.
  std::string definition_json;
  executor::Resolved resolved;
};

/// kGoOn: `job` and `work_token` are set.  kCancel: `work_token` is, to say kCancelled with.
/// kStop: it is another's, or over, also because what it needs cannot be had.
struct Started {
  executor::Reply reply = executor::Reply::kAskAgain;
  std::string work_token;
  Job job;
};

struct Heartbeat {
  Identity who;
  /// Of all attempts that this worker holds, or of some: at most kMaxSlots, as of one HandBack.
  std::vector<std::string> work_tokens;
  /// Answered after so long or earlier, as soon as one of them is to be cancelled or stopped; once
  /// more for one that was told so already only when the wait is over.
  Duration wait{};
};

/// Of one token.  One that is refused is answered kStop.
struct Pulse {
  executor::Reply reply = executor::Reply::kAskAgain;
  /// Instead of the one that was shown; empty = that one stays.
  std::string work_token;
};

struct Beaten {
  std::vector<Pulse> pulses;  // in the order of the tokens
  /// As in Polled: whoever has no free slot does not poll.
  bool leave = false;
};

/// A piece of a file that an attempt leaves.
struct ArtifactPut {
  std::string work_token;
  /// One try to pass on one file: 1 to kMaxNameBytes of [A-Za-z0-9_-], new for each.  An attempt
  /// has one at a time: another one ends it.
  std::string upload;
  std::uint64_t offset = 0;
  /// At most kMaxPieceBytes.
  std::string bytes;
  /// With the last piece: of the whole file, in lower-case hex.
  std::string sha256;
};

struct ArtifactTaken {
  executor::Reply reply = executor::Reply::kAskAgain;
  /// kGoOn, kCancel: how much of it is there, which is where the next piece begins; less than what
  /// had been answered: it is lost, begin anew under another name.
  std::uint64_t have = 0;
  /// All of it is in the store, durably.
  bool stored = false;
  /// Why it is not and will not be: kInvalidArgument: it is larger than a file may be.  kCorrupt:
  /// its bytes are not those of `sha256`.  kUnavailable: the store has no room, or fails.
  std::optional<Error> failure = {};
};

/// Of a file that the attempt's job names.
struct ArtifactGet {
  std::string work_token;
  std::string sha256;
  std::uint64_t offset = 0;
  /// 1 to kMaxPieceBytes.
  std::uint64_t max_bytes = 0;
};

struct ArtifactPiece {
  executor::Reply reply = executor::Reply::kAskAgain;
  std::string bytes;
  /// With these bytes the file ends, and all of it is what was stored.
  bool last = false;
  /// kNotFound: the job names no such file, or the store does not have it (any more).  kCorrupt:
  /// what is there is not what was stored.  kUnavailable: it cannot be read.
  std::optional<Error> failure = {};
};

/// What workers ask.  Implemented by whatever has the engine (executor_queue) and by whatever
/// carries the words to it (rpc), so that a worker is written once.
///
/// Answers.  `done` is called once, on any thread, also on this one; it must not block.  All calls
///   may be repeated: what has been done already is answered as the first time.
/// Errors.  kNotFound: this incarnation is not registered (any more); register, and go on with
///   whatever is held.  Those that show a working token need no registration, it says who speaks.
///   kPermissionDenied: a token, with its fault by name; that attempt is over.  kUnavailable: no
///   answer; say it again.  kInvalidArgument: a bound.  kConflict: the protocol.
/// Threads.  All methods may be called concurrently.
class WorkerService {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~WorkerService() = default;

  virtual void Register(Registration registration, Done<Welcome> done) = 0;
  virtual void PollFor(Poll poll, Done<Polled> done) = 0;
  /// Opens the start gate: user code begins only when this is answered kGoOn, which is committed.
  virtual void Start(const Identity& who, std::string start_token, Done<Started> done) = 0;
  /// Extends the leases of what is held.
  virtual void Beat(Heartbeat heartbeat, Done<Beaten> done) = 0;
  /// Lines are numbered by the worker, upwards, and said in this order: of one attempt one Log is
  /// under way at a time, and said again until it is answered otherwise than kAskAgain.  Stored
  /// when this is answered kGoOn or kCancel (I6).
  virtual void Log(std::string work_token, std::vector<log_store::Line> lines,
                   Done<executor::Reply> done) = 0;
  /// Of a file that the task leaves: piece by piece, each said again until it is answered otherwise
  /// than kAskAgain.  Only what is stored counts as left (I6).
  virtual void PutArtifact(ArtifactPut put, Done<ArtifactTaken> done) = 0;
  /// Of a file that the task needs.  Nothing is kept for whoever asks: any piece at any time.
  virtual void GetArtifact(ArtifactGet get, Done<ArtifactPiece> done) = 0;
  /// How it ended, with its output and artifacts (model::WriteResult).  kGoOn: committed.  kStop:
  /// it was somebody else's by then.
  virtual void Complete(std::string work_token, model::Outcome outcome,
                        Done<executor::Reply> done) = 0;
  /// Attempts that were assigned and not started: for another worker, at no cost.
  virtual void HandBack(const Identity& who, std::vector<std::string> start_tokens,
                        Done<bool> done) = 0;
  /// The worker is gone; what it still holds is lost at once.
  virtual void Leave(const Identity& who, Done<bool> done) = 0;
};

/// One that has the engine, and so can say who holds an attempt.
class EngineService : public WorkerService {
 public:
  /// Whom a working token was made for: nobody else may speak with it (I13).  kPermissionDenied:
  /// the token, with its fault by name.
  virtual Result<Identity> SpeakerOf(std::string_view work_token) = 0;
};

}  // namespace headworks::worker_api
