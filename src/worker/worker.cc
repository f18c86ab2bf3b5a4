#include "headworks/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <limits>
#include <mutex>
#include <utility>

#include "conversation.h"
#include "headworks/base/json.h"
#include "headworks/base/tenant.h"
#include "headworks/base/text.h"
#include "headworks/executor_inline/inline_executor.h"
#include "headworks/executor_process/process_executor.h"
#include "jobs.h"
#include "lease_guard.h"
#include "log_shipper.h"
#include "remote_artifacts.h"

namespace headworks::worker {
namespace {

namespace fs = std::filesystem;
using executor::Reply;
using model::AttemptKey;
using worker_api::IsName;

/// Of the lines that wait to be passed on, shared by the slots; of one attempt at least and at
/// most.
constexpr std::size_t kLogMemory = std::size_t{64} << 20;
constexpr std::size_t kLeastShare = std::size_t{1} << 20;
constexpr std::size_t kMostShare = std::size_t{8} << 20;
constexpr std::size_t kMostFunctionThreads = 1'024;
/// For an earlier worker with this folder to be gone with all its tasks.
constexpr Duration kLockWait = std::chrono::seconds(5);
/// Before an attempt that found no room here is assigned again.
constexpr Duration kNoRoomPause = std::chrono::seconds(1);
constexpr Duration kLongestSleep = std::chrono::hours(1);

std::uint64_t SlotsOf(const WorkerOptions& options) {
  std::uint64_t sum = 0;
  for (const auto& [queue, slots] : options.slots) sum += slots;
  return sum;
}

/// What is passed on for people.
std::vector<const std::string*> Texts(const WorkerOptions& options) {
  std::vector<const std::string*> texts{&options.version, &options.host};
  for (const std::string& label : options.labels) texts.push_back(&label);
  return texts;
}

Status CheckOptions(const WorkerOptions& options) {
  const auto bad = [](std::string message) {
    return Error{Code::kInvalidArgument, std::move(message)};
  };
  constexpr std::string_view kNameRule = "1 to 64 letters, digits, '-' and '_'";
  HEADWORKS_TRY(CheckTenantName(options.tenant.value));
  if (!IsName(options.name))
    return bad(fmt::format("'{}' is no name of a worker: {}", options.name, kNameRule));
  if (options.slots.empty()) return bad("a worker needs a queue");
  if (options.slots.size() > worker_api::kMaxQueues)
    return bad(fmt::format("{} queues; at most {}", options.slots.size(), worker_api::kMaxQueues));
  for (const auto& [queue, slots] : options.slots) {
    if (!IsName(queue)) return bad(fmt::format("'{}' is no queue: {}", queue, kNameRule));
    if (slots == 0) return bad(fmt::format("queue {} has no slots; give 1 or more", queue));
  }
  if (SlotsOf(options) > worker_api::kMaxSlots)
    return bad(fmt::format("{} slots in sum; at most {}", SlotsOf(options), worker_api::kMaxSlots));
  if (options.labels.size() > worker_api::kMaxLabels)
    return bad(fmt::format("{} labels; at most {}", options.labels.size(), worker_api::kMaxLabels));
  for (const std::string& label : options.labels)
    if (label.empty() || label.size() > worker_api::kMaxLabelBytes)
      return bad(fmt::format("label '{}' has {} bytes; 1 to {}", label, label.size(),
                             worker_api::kMaxLabelBytes));
  for (const std::string* text : Texts(options))
    if (ValidUtf8Prefix(*text) != text->size())
      return bad(fmt::format("{} is no UTF-8; labels, version and host must be", QuoteJson(*text)));
  if (options.state_dir.empty()) return bad("a worker needs a state_dir");
  if (options.poll_wait <= Duration(0) || options.poll_wait > worker_api::kMaxWait)
    return bad(fmt::format("poll_wait must be above 0 and at most {}",
                           FormatDuration(worker_api::kMaxWait)));
  if (options.drain_timeout < Duration(0) || options.report_patience < Duration(0))
    return bad("drain_timeout and report_patience must not be below 0");
  return {};
}

std::string NewIncarnation(Random& random) {
  return fmt::format("{:016x}{:016x}", random.Next(), random.Next());
}

/// The end of an attempt that an executor of this host did not take.
model::Outcome NotTaken(model::Disposition why, std::string_view cause, Instant now) {
  model::Outcome outcome{.verdict = model::Verdict::kRetry,
                         .reason = model::Reason::kDispatchFailed,
                         .error = std::string(cause),
                         .started_at = now,
                         .ended_at = now};
  if (why == model::Disposition::kRefused) outcome.verdict = model::Verdict::kFailed;
  // There will be room, which is the host's affair and costs no try (I7).
  if (why == model::Disposition::kDeferred || why == model::Disposition::kBackpressure ||
      why == model::Disposition::kTransient) {
    outcome.verdict = model::Verdict::kSnoozed;
    outcome.not_before = now + kNoRoomPause;
  }
  return outcome;
}

model::Outcome Interrupted(std::string why, Instant now) {
  return {.verdict = model::Verdict::kInterrupted,
          .error = std::move(why),
          .output = {},
          .started_at = now,
          .ended_at = now};
}

/// What happened, from any thread to Run's.
class Mailbox {
 public:
  using Letter = std::function<void()>;

  void Post(Letter letter) {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    letters_.push_back(std::move(letter));
    came_.notify_one();
  }
  /// What came since the last call; waits for it, at most `timeout`.
  std::deque<Letter> Take(Duration timeout) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, timeout, [this] { return !letters_.empty(); });
    return std::exchange(letters_, {});
  }
  void Close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    letters_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  // Guarded by mutex_.
  std::deque<Letter> letters_;
  bool closed_ = false;
};

}  // namespace

/// One thread (Run's) owns the conversation; whatever happens elsewhere is a letter to it.  From
/// its assignment on an attempt goes by its LocalKey, which is unique too.
class Worker::Impl final : public executor::AttemptSink {
 public:
  Impl(WorkerOptions options, const WorkerPorts& ports)
      : options_(std::move(options)),
        ports_(ports),
        share_(std::clamp(kLogMemory / SlotsOf(options_), kLeastShare, kMostShare)),
        lines_(share_,
               [this](const AttemptKey& key) {
                 mail_->Post([this, key] { conversation_.OnLines(key); });
               }),
        artifacts_(ports_.service),
        guard_(ports_.clock, ports_.end_program),
        conversation_(options_, NewIncarnation(ports_.random), ports_.random,
                      [this](const std::string& line) {
                        if (ports_.tell) ports_.tell(line);
                      }) {}

  ~Impl() override {
    mail_->Close();
    lines_.Shut();
    artifacts_.Shut();
    functions_.reset();
    commands_.reset();
  }

  Status Open() {
    std::error_code ec;
    fs::create_directories(options_.state_dir, ec);
    if (ec)
      return Error{Code::kUnavailable,
                   fmt::format("folder {} cannot be made: {}", options_.state_dir, ec.message())};
    const auto slots = static_cast<std::uint32_t>(SlotsOf(options_));
    auto commands = executor_process::ProcessExecutor::Open(
        {.supervisor_path = options_.supervisor_path,
         .state_dir = options_.state_dir,
         .store_id = Sha256Hex(fs::absolute(options_.state_dir).string()).substr(0, 16),
         .max_concurrent = slots,
         .max_artifact_bytes = std::numeric_limits<std::uint64_t>::max(),  // the engine says
         .lock_wait = kLockWait},
        {.resolver = jobs_,
         .log_store = lines_,
         .clock = ports_.clock,
         .log = ports_.log,
         .artifacts_of = [this](const executor::Attempt& attempt) {
           return artifacts_.Of(attempt.key);
         }});
    if (!commands && commands.error().code == Code::kUnavailable)
      return Error{Code::kUnavailable,
                   fmt::format("{}; a worker of this host that uses {} still runs: give this one "
                               "another name or state folder",
                               commands.error().message, options_.state_dir)};
    if (!commands) return Error(commands.error());
    commands_ = *std::move(commands);
    const std::string folder = commands_->ArtifactRoot();
    // Its path goes into JSON.
    const bool plain = ValidUtf8Prefix(folder) == folder.size();
    if (plain) conversation_.SetArtifactDir(folder);
    if (!plain)
      ports_.log.Warning(
          "no task with artifacts comes here: the path of the state folder is no "
          "UTF-8",
          {});
    HEADWORKS_TRY(commands_->Start(*this));
    const std::size_t threads = ports_.registry.Functions().empty() ? 1 : slots;
    functions_ = executor_inline::NewInlineExecutor(
        {.threads = std::min(threads, kMostFunctionThreads), .queue_depth = slots},
        {.registry = ports_.registry,
         .resolver = jobs_,
         .lines = lines_,
         .clock = ports_.clock,
         .log = ports_.log});
    return functions_->Start(*this);
  }

  Status Run() {
    for (;;) {
      const Duration now = ports_.clock.Monotonic();
      for (Conversation::Action& action : conversation_.Next(now))
        std::visit([&](auto& act) { Do(act); }, action);
      Publish();
      if (conversation_.end()) return *conversation_.end();
      const Duration wait =
          std::clamp(conversation_.due() - ports_.clock.Monotonic(), Duration(0), kLongestSleep);
      for (const Mailbox::Letter& letter : mail_->Take(wait)) letter();
    }
  }

  void Drain() {
    mail_->Post([this] { conversation_.OnDrain(Now()); });
  }

  WorkerFigures Figures() const {
    const std::scoped_lock lock(figures_mutex_);
    return figures_;
  }

  // AttemptSink: what the executors say.
  void Started(const AttemptKey& /*key*/) override {}
  void Ended(const AttemptKey& key, model::Outcome outcome) override {
    guard_.Clear(key);
    mail_->Post([this, key, outcome = std::move(outcome)]() mutable {
      for (executor::Executor* each : Executors()) each->Settled({&key, 1});
      jobs_.Remove(key);  // its end may wait for the engine for long
      conversation_.OnEnded(key, std::move(outcome));
    });
  }
  void Hear(executor::Word /*word*/, std::function<void(executor::Heard)> reply) override {
    reply(Reply::kStop);  // nobody but executors of this host speaks here
  }
  void CapacityChanged() override {}

 private:
  Duration Now() { return ports_.clock.Monotonic(); }
  std::vector<executor::Executor*> Executors() { return {commands_.get(), functions_.get()}; }
  void Publish() {
    const std::scoped_lock lock(figures_mutex_);
    figures_ = conversation_.figures();
  }

  /// A `done` that calls `hear` with the answer on Run's thread, as long as there is one.
  template <typename T, typename Hear>
  worker_api::WorkerService::Done<T> Letter(Hear hear) {
    return [mail = mail_, hear = std::move(hear)](Result<T> result) {
      mail->Post([hear, result = std::move(result)]() mutable { hear(std::move(result)); });
    };
  }

  void Do(Conversation::SayRegister& say) {
    ports_.service.Register(std::move(say.registration),
                            Letter<worker_api::Welcome>([this](const auto& welcome) {
                              conversation_.OnRegistered(welcome, Now());
                            }));
  }
  void Do(Conversation::SayPoll& say) {
    ports_.service.PollFor(std::move(say.poll),
                           Letter<worker_api::Polled>([this, id = say.id](auto polled) {
                             if (polled)
                               for (auto& each : polled->assignments)
                                 each.attempt = LocalKey(each.attempt);
                             conversation_.OnPolled(id, polled, Now());
                           }));
  }
  void Do(Conversation::SayStart& say) {
    ports_.service.Start(conversation_.who(), std::move(say.start_token),
                         Letter<worker_api::Started>([this, key = say.attempt](auto started) {
                           conversation_.OnStarted(key, std::move(started), Now());
                         }));
  }
  void Do(Conversation::SayBeat& say) {
    ports_.service.Beat(std::move(say.heartbeat),
                        Letter<worker_api::Beaten>([this, id = say.id](const auto& beaten) {
                          conversation_.OnBeaten(id, beaten, Now());
                        }));
  }
  void Do(Conversation::SayLog& say) {
    auto lines = lines_.Peek(say.attempt);
    const std::size_t count = lines.size();
    const auto logged = [this, key = say.attempt, count](const Result<Reply>& reply) {
      const bool stored = reply && (*reply == Reply::kGoOn || *reply == Reply::kCancel);
      // What the engine does not take as it is, it will not take later.
      const bool refused = !reply && reply.error().code == Code::kInvalidArgument;
      if (refused)
        ports_.log.Error("lines of a task are refused", {{"run", fmt::to_string(key.run.value)},
                                                         {"epoch", fmt::to_string(key.epoch.value)},
                                                         {"error", reply.error().message}});
      if (stored) lines_.Stored(key, count);
      if (refused) lines_.Refused(key, count);
      conversation_.OnLogged(key, refused ? Reply::kGoOn : reply, lines_.HasLines(key), Now());
    };
    if (count == 0) return logged(Reply::kGoOn);
    ports_.service.Log(std::move(say.work_token), std::move(lines), Letter<Reply>(logged));
  }
  void Do(Conversation::SayComplete& say) {
    ports_.service.Complete(std::move(say.work_token), std::move(say.outcome),
                            Letter<Reply>([this, key = say.attempt](const auto& reply) {
                              conversation_.OnCompleted(key, reply, Now());
                            }));
  }
  void Do(Conversation::SayHandBack& say) {
    // Said once: whoever is not heard gives them back by their leases.
    ports_.service.HandBack(conversation_.who(), std::move(say.start_tokens),
                            [](const Result<bool>&) {});
  }
  void Do(Conversation::SayLeave&) {
    ports_.service.Leave(conversation_.who(),
                         Letter<bool>([this](const Result<bool>&) { conversation_.OnLeft(); }));
  }

  void Do(Conversation::Launch& launch) {
    const AttemptKey& key = launch.attempt;
    lines_.Open(key);
    artifacts_.Open(key, std::move(launch.work_token));
    auto attempt = jobs_.Add(key, std::move(launch.job));
    // Perhaps a newer engine's: another worker may read it.
    if (!attempt) return CannotRun(key, model::Disposition::kRejected, attempt.error().message);
    attempt->artifact_dir = worker_api::ArtifactFolder(commands_->ArtifactRoot(), key);
    conversation_.OnGrace(key, attempt->task().grace);
    const bool function = std::holds_alternative<model::FunctionAction>(attempt->task().action);
    if (Now() >= launch.kill_at)
      return NeverBegan(key, Interrupted("its lease was over before its worker could begin it",
                                         ports_.clock.Now()));
    if (function) guard_.Add(key, launch.kill_at);
    const executor::OfferResult offered =
        function ? functions_->Offer(*attempt) : commands_->OfferUntil(*attempt, launch.kill_at);
    if (offered.disposition != model::Disposition::kDispatched)
      CannotRun(key, offered.disposition, offered.cause);
  }
  void CannotRun(const AttemptKey& key, model::Disposition why, const std::string& cause) {
    NeverBegan(key, NotTaken(why, cause, ports_.clock.Now()));
  }
  void NeverBegan(const AttemptKey& key, model::Outcome outcome) {
    guard_.Clear(key);
    mail_->Post([this, key, outcome = std::move(outcome)]() mutable {
      conversation_.OnEnded(key, std::move(outcome));
    });
  }
  void Do(Conversation::Renew& renew) { artifacts_.Renew(renew.attempt, renew.work_token); }
  void Do(Conversation::Cancel& cancel) {
    for (executor::Executor* each : Executors()) each->Cancel(cancel.attempt);
    artifacts_.Stop(cancel.attempt);  // once there is a mark that says why
  }
  void Do(Conversation::KillAt& kill) {
    commands_->KillAt(kill.attempt, kill.at);
    // A function cannot be killed alone: it has what is left of its lease.
    if (kill.at > Duration(0)) guard_.Move(kill.attempt, kill.at);
  }
  void Do(Conversation::Overdue& overdue) {
    // Commands are dead by now: their supervisor sees to that.
    guard_.Move(overdue.attempt, Duration(0));
  }
  void Do(Conversation::Mute& mute) { lines_.Close(mute.attempt); }
  void Do(Conversation::DropRest& drop) { lines_.DropRest(drop.attempt); }
  void Do(Conversation::Forget& forget) {
    guard_.Clear(forget.attempt);
    lines_.Close(forget.attempt);
    artifacts_.Close(forget.attempt);
    jobs_.Remove(forget.attempt);
  }

  const WorkerOptions options_;
  const WorkerPorts ports_;
  const std::size_t share_;
  const std::shared_ptr<Mailbox> mail_ = std::make_shared<Mailbox>();
  Jobs jobs_;
  LogShipper lines_;
  RemoteArtifacts artifacts_;
  LeaseGuard guard_;
  std::unique_ptr<executor_process::ProcessExecutor> commands_;
  std::unique_ptr<executor::Executor> functions_;

  // Run's own.
  Conversation conversation_;

  mutable std::mutex figures_mutex_;
  WorkerFigures figures_;  // guarded by figures_mutex_
};

Result<std::unique_ptr<Worker>> Worker::Open(WorkerOptions options, const WorkerPorts& ports) {
  HEADWORKS_TRY(CheckOptions(options));
  auto impl = std::make_unique<Impl>(std::move(options), ports);
  HEADWORKS_TRY(impl->Open());
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() = default;
Status Worker::Run() { return impl_->Run(); }
void Worker::Drain() { impl_->Drain(); }
WorkerFigures Worker::Figures() const { return impl_->Figures(); }

}  // namespace headworks::worker
