#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "attempt_files.h"
#include "environment.h"
#include "headworks/base/fd.h"
#include "headworks/executor_process/process_executor.h"
#include "outcome.h"
#include "output_capture.h"
#include "retry_watch.h"
#include "supervisor_client.h"

namespace headworks::executor_process {

/// The executor's threads and what they share.
///
/// The *preparer* loads inputs and writes files, so that a slow resolver stalls no output.  The
/// *loop* owns the supervisors and all pipes; it stores lines and gives verdicts, in that order.
/// *Carriers* copy artifacts on the way from the one to the other, and before the verdict.
/// Callers only post to them.
class ProcessExecutor::Impl {
 public:
  Impl(ProcessExecutorOptions options, std::unique_ptr<StateFolder> folder,
       const ProcessPorts& ports);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status Open();
  Status Start(executor::AttemptSink& sink);
  executor::OfferResult Offer(const executor::Attempt& attempt, std::optional<Duration> kill_at);
  void Cancel(const model::AttemptKey& key);
  executor::Capacity GetCapacity() const;
  Result<std::vector<executor::Inspection>> Inspect(std::span<const executor::Attempt> attempts);
  std::vector<model::AttemptKey> List() const;
  executor::Metrics GetMetrics() const;
  void Settled(std::span<const model::AttemptKey> keys);
  Status Drain(Duration timeout);
  void KillAt(const model::AttemptKey& key, Duration at);
  void KillAllAt(Duration at);
  std::string ArtifactRoot() const { return folder_->ArtifactRoot(); }
  Status RemoveScratch(const RunId& run_id) { return folder_->RemoveScratch(run_id); }

 private:
  /// An attempt between Offer and its verdict, as callers see it.
  struct Live {
    executor::Attempt offer;
    StopCause stop = StopCause::kNone;
    /// The supervisor may know of it.
    bool sent = false;
    /// By the monotonic clock.
    std::optional<Duration> kill_at{};
    Instant started_at{};
  };

  void KillLocked(Live& live, Duration at);

  struct Supervisor {
    Supervisor(SupervisorClient::Options options, Logger& log) : client(std::move(options), log) {}
    SupervisorClient client;
    bool readable = false;
    bool watched_for_writing = false;
  };

  struct Running;
  struct Pipe {
    Running* owner = nullptr;
    log_store::Stream stream{};
    Fd fd;
  };

  /// An attempt that the supervisor was told of; the loop's own.
  struct Running {
    Running(executor::Attempt o, std::size_t max_log_bytes)
        : offer(std::move(o)), capture(max_log_bytes) {}
    executor::Attempt offer;
    Supervisor* supervisor = nullptr;
    AttemptFiles files;
    OutputCapture capture;
    std::unique_ptr<RetryWatch> watch;
    /// What the output is made of, where the task says so; a little more than its bound.
    std::string stdout_text;
    Pipe out, err;
    std::string command;
    std::string cwd;
    std::map<std::string, std::string> artifacts;
    /// While its artifacts are stored, not the last word.
    std::optional<model::Outcome> outcome;
    /// The log store is full: its lines wait, and nothing more is read.
    bool held = false;

    bool keeps_stdout() const { return offer.task().output.mode != model::OutputMode::kFile; }
  };

  /// What the preparer hands to the loop.
  struct Prepared {
    executor::Attempt offer;
    AttemptFiles files;
    SpawnRequest request;
    executor::Rendered texts;
    std::unique_ptr<RetryWatch> watch;
    Fd out, err;
    std::map<std::string, std::string> artifacts;
    /// To be put where it looks for them.
    std::vector<executor::NeededArtifact> needed;
    /// Set: it cannot be started.
    std::optional<model::Outcome> failure;
  };
  struct Stop {
    model::AttemptKey key;
  };
  struct KillLater {
    model::AttemptKey key;
    Duration at;
  };
  /// An ended attempt was offered again: its verdict did not arrive.
  struct Repeat {
    model::AttemptKey key;
  };
  /// Settled made room where there was none.
  struct RoomAgain {};
  /// Its artifacts are stored, or cannot be.
  struct Carried {
    model::AttemptKey key;
    model::Outcome outcome;
  };
  using Message = std::variant<Prepared, Stop, KillLater, Repeat, RoomAgain, Carried>;
  /// A success whose artifacts are to be stored.
  struct Cargo {
    executor::Attempt offer;
    std::string cwd, scratch;
    std::map<std::string, std::string> artifacts;
    model::Outcome outcome;
  };
  /// A start to prepare, or an attempt that left more than files.
  using Job = std::variant<executor::Attempt, AttemptFiles>;
  using Load = std::variant<Prepared, Cargo>;

  // Preparer.
  void PrepareLoop(const std::stop_token& stop);
  Prepared Prepare(const executor::Attempt& attempt);
  std::optional<model::Outcome> Fill(const executor::Attempt& attempt, Prepared& prepared);
  void FillEnvironment(Prepared& prepared);
  static std::string FillCommand(const executor::Attempt& attempt, const executor::Rendered& texts,
                                 Prepared& prepared);
  Status OpenPipes(Prepared& prepared);

  // Carriers.
  bool HasStore() const { return ports_.artifacts != nullptr || ports_.artifacts_of; }
  /// Not null where HasStore.
  std::shared_ptr<artifact_store::BlobStore> StoreOf(const executor::Attempt& attempt) const;
  /// `quick`: it takes only what is soon done, so that no start waits for large files of others.
  void CarryLoop(const std::stop_token& stop, bool quick);
  static bool IsQuick(const Load& load);
  void Carry(Load load);
  /// One that is to stop waits for no carrier.
  void TakeOffLocked(const model::AttemptKey& key, StopCause why);
  void Place(Prepared& prepared, const std::stop_token& stop);
  void Keep(Cargo& cargo, const std::stop_token& stop);

  // Loop.
  void RunLoop(const std::stop_token& stop);
  void Wait();
  void HandleMessages();
  void Launch(Prepared prepared);
  void SendStop(const model::AttemptKey& key);
  void Handle(Supervisor& supervisor);
  void Converse();
  void RepeatEnd(const model::AttemptKey& key);
  void Handle(const supervisor::Started& started);
  void Handle(const supervisor::SpawnFailed& failed);
  void Handle(const supervisor::Ended& ended);
  void Handle(Carried carried);
  SupervisorClient::Options OptionsOfAlone(std::uint32_t slot) const;
  Status BuryEarlier();
  Result<Supervisor*> SupervisorFor(const executor::Attempt& attempt);
  void Suspect(const model::AttemptKey& key);
  void Recover(Supervisor& supervisor);
  void ReadPipe(Pipe& pipe, std::size_t limit);
  void ClosePipe(Pipe& pipe);
  void Watch(int fd, std::uint64_t tag);
  void End(Running& running, model::Outcome outcome);
  void Finish(Running& running, model::Outcome outcome);
  static void TakeOutput(const Running& running, model::Outcome& outcome);
  void StoreLines();
  void StoreWhatFits(const std::vector<Running*>& owners, std::vector<log_store::Batch>& batches);
  void Hold(Running& running, std::vector<log_store::Line> lines);
  void Unhold(Running& running);
  void FinishEnded();
  void Report(const executor::Attempt& offer, const AttemptFiles& files, model::Outcome outcome);
  StopCause StopOf(const model::AttemptKey& key) const;
  model::Outcome LostWithItsEngine(const model::AttemptKey& key) const;

  void Post(Message message);
  void Wake() const;

  ProcessExecutorOptions options_;  // kill_all_at: guarded by mutex_, the others never change
  const std::unique_ptr<StateFolder> folder_;
  const ProcessPorts ports_;
  const Environment own_environment_;
  std::string own_folder_;

  // Loop's own.
  std::stop_token stop_;
  Supervisor main_;
  /// By slot, each with one attempt of a task that lost an earlier one with its supervisor: if it
  /// was the culprit, it takes no neighbour along again, and if it was a neighbour, no other does.
  std::map<std::uint32_t, Supervisor> alone_;
  /// Those tasks, as attempts without epoch; the oldest are forgotten.
  std::set<model::AttemptKey> suspects_;
  std::deque<model::AttemptKey> suspects_by_age_;
  Fd epoll_, wake_;
  std::map<supervisor::AttemptKey, std::unique_ptr<Running>> running_;
  std::vector<Running*> unstored_;  // with lines to store
  std::vector<Running*> held_;      // whose lines the log store has no room for
  Duration held_tried_at_{};
  std::vector<Running*> ended_now_;
  std::size_t unstored_bytes_ = 0;
  std::vector<char> buffer_;
  std::vector<SupervisorEvent> events_;
  bool woken_ = false;
  /// When the log store began to fail; lines wait for it for a while, then they are dropped.
  std::optional<Duration> log_failing_since_;
  std::atomic<std::uint64_t> dropped_lines_ = 0;  // written by the loop alone

  executor::AttemptSink* sink_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable_any work_;   // the preparer's
  std::condition_variable_any carry_;  // the carriers'
  std::condition_variable idle_;       // Drain's
  // Guarded by mutex_.
  std::map<model::AttemptKey, Live> live_;
  std::map<model::AttemptKey, model::Outcome> ended_;
  std::deque<Job> jobs_;
  std::deque<Load> loads_;
  std::deque<Message> messages_;
  bool closing_ = false;
  std::uint64_t executed_ = 0, failed_ = 0;
  Duration total_duration_{};
  std::vector<Duration> recent_durations_;

  std::vector<std::jthread> carriers_;
  std::jthread preparer_, loop_;
};

}  // namespace headworks::executor_process
