#include "impl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "shell.h"

namespace headworks::executor_process {
namespace {

/// Durations remembered for the 99th percentile.
constexpr std::size_t kRecent = 512;
/// After the graces, while processes are killed.
constexpr Duration kDrainMargin = std::chrono::seconds(5);
/// Threads that copy artifacts; one of them is for what is soon done.
constexpr std::size_t kCarriers = 4;

std::vector<supervisor::CgroupPlace> PlacesOf(const ProcessExecutorOptions& options) {
  if (!options.control_groups) return {};
  if (options.control_group_parent.empty()) return supervisor::CgroupPlaces();
  return {{.folder = options.control_group_parent}};
}

bool IsFailure(model::Verdict v) {
  return v == model::Verdict::kRetry || v == model::Verdict::kFailed || v == model::Verdict::kLost;
}

}  // namespace

ProcessExecutor::Impl::Impl(ProcessExecutorOptions options, std::unique_ptr<StateFolder> folder,
                            const ProcessPorts& ports)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      ports_(ports),
      own_environment_(OwnEnvironment()),
      main_({.program = options_.supervisor_path,
             .lock_file = folder_->LockFile(),
             .store_id = options_.store_id,
             .lock_wait = options_.lock_wait,
             .become_subreaper = options_.become_subreaper,
             .places = PlacesOf(options_)},
            ports.log),
      buffer_(std::size_t{256} << 10) {
  std::error_code deleted;
  own_folder_ = std::filesystem::current_path(deleted).string();
}

ProcessExecutor::Impl::~Impl() {
  preparer_ = {};
  for (std::jthread& carrier : carriers_) carrier.request_stop();
  carriers_.clear();
  if (loop_.joinable()) {
    loop_.request_stop();
    Wake();
  }
  loop_ = {};
  // Inputs are not left lying about; while somebody may still read them, they are the next Open's.
  if (!running_.empty()) return;
  if (const Status status = folder_->Clear(); !status)
    ports_.log.Warning("the files of attempts are left", {{"error", status.error().message}});
}

Status ProcessExecutor::Impl::Open() {
  HEADWORKS_TRY(main_.client.Start());
  HEADWORKS_TRY(BuryEarlier());
  return folder_->Clear();
}

/// With names of its own, so that a sweep after one supervisor ends nothing of another.
SupervisorClient::Options ProcessExecutor::Impl::OptionsOfAlone(std::uint32_t slot) const {
  return {.program = options_.supervisor_path,
          .lock_file = folder_->LockFile() + fmt::format("-alone-{}", slot),
          .store_id = fmt::format("{}+{}", options_.store_id, slot),
          .lock_wait = options_.lock_wait,
          .become_subreaper = options_.become_subreaper,
          .places = PlacesOf(options_)};
}

/// The lowest free slot is taken first, so those that ever were have no gaps.
Status ProcessExecutor::Impl::BuryEarlier() {
  for (std::uint32_t slot = 0;; ++slot) {
    const SupervisorClient::Options options = OptionsOfAlone(slot);
    if (access(options.lock_file.c_str(), F_OK) != 0) return {};
    std::vector<supervisor::AttemptKey> none;
    HEADWORKS_TRY(SupervisorClient(options, ports_.log).Bury(none));
  }
}

executor::OfferResult ProcessExecutor::Impl::Offer(const executor::Attempt& attempt,
                                                   std::optional<Duration> kill_at) {
  using executor::DispatchError;
  if (std::holds_alternative<model::FunctionAction>(attempt.task().action)) {
    return executor::NotTaken(
        DispatchError::kValidation,
        fmt::format("task {} is a function; the process executor runs `run` and `exec` tasks",
                    attempt.task().id));
  }
  if (!HasStore() && !attempt.task().artifacts.empty()) {
    return executor::NotTaken(
        DispatchError::kValidation,
        fmt::format("task {} leaves artifacts, and there is nowhere to keep them; remove "
                    "`artifacts`, and pass files by a place that all tasks reach",
                    attempt.task().id));
  }
  std::unique_lock lock(mutex_);
  if (live_.contains(attempt.key)) return {};
  if (ended_.contains(attempt.key)) {
    messages_.push_back(Repeat{attempt.key});
    Wake();
    return {};
  }
  if (closing_ || sink_ == nullptr) {
    return executor::NotTaken(DispatchError::kNoCapacity, "the process executor is closed");
  }
  if (live_.size() >= options_.max_concurrent) {
    return executor::NotTaken(
        DispatchError::kNoCapacity,
        fmt::format("all {} process slots are in use", options_.max_concurrent));
  }
  if (ended_.size() >= options_.max_unsettled) {
    return executor::NotTaken(DispatchError::kNoCapacity,
                              fmt::format("{} ended attempts wait to be settled", ended_.size()));
  }
  live_.emplace(attempt.key,
                Live{.offer = attempt, .kill_at = kill_at ? kill_at : options_.kill_all_at});
  jobs_.emplace_back(attempt);
  lock.unlock();
  work_.notify_one();
  return {};
}

void ProcessExecutor::Impl::Cancel(const model::AttemptKey& key) {
  const std::scoped_lock lock(mutex_);
  const auto live = live_.find(key);
  if (live == live_.end()) return;
  live->second.stop = StopCause::kCancel;
  TakeOffLocked(key, StopCause::kCancel);
  // Before that, whoever handles it next sees the mark.
  if (!live->second.sent) return;
  messages_.push_back(Stop{key});
  Wake();
}

void ProcessExecutor::Impl::KillAt(const model::AttemptKey& key, Duration at) {
  const std::scoped_lock lock(mutex_);
  if (const auto live = live_.find(key); live != live_.end()) KillLocked(live->second, at);
}

void ProcessExecutor::Impl::KillAllAt(Duration at) {
  const std::scoped_lock lock(mutex_);
  options_.kill_all_at = at;
  for (auto& [key, live] : live_) KillLocked(live, at);
}

void ProcessExecutor::Impl::KillLocked(Live& live, Duration at) {
  live.kill_at = at;
  // Before that, whoever starts it sees the mark.
  if (!live.sent) return;
  messages_.push_back(KillLater{live.offer.key, at});
  Wake();
}

executor::Capacity ProcessExecutor::Impl::GetCapacity() const {
  const std::scoped_lock lock(mutex_);
  const auto used = static_cast<std::uint32_t>(live_.size());
  const bool full = closing_ || ended_.size() >= options_.max_unsettled;
  return {.max = full ? used : options_.max_concurrent, .used = used};
}

Result<std::vector<executor::Inspection>> ProcessExecutor::Impl::Inspect(
    std::span<const executor::Attempt> attempts) {
  std::vector<executor::Inspection> answers;
  answers.reserve(attempts.size());
  for (const executor::Attempt& attempt : attempts) {
    std::unique_lock lock(mutex_);
    if (const auto live = live_.find(attempt.key); live != live_.end()) {
      if (live->second.sent) {
        answers.emplace_back(executor::Running{});
      } else {
        answers.emplace_back(executor::Pending{.reason = "its input is being loaded"});
      }
    } else if (const auto ended = ended_.find(attempt.key); ended != ended_.end()) {
      answers.emplace_back(executor::Ended{.outcome = ended->second});
    } else if (ports_.ledger != nullptr && ports_.ledger->WasStarted(attempt.key)) {
      // Open has killed all that an earlier engine left: the kernel is the evidence (I4).
      lock.unlock();
      answers.emplace_back(executor::Ended{.outcome = LostWithItsEngine(attempt.key)});
    } else {
      answers.emplace_back(executor::Absent{});
    }
  }
  return answers;
}

/// What printed had started, even if its engine died before it could say so.
model::Outcome ProcessExecutor::Impl::LostWithItsEngine(const model::AttemptKey& key) const {
  model::Outcome outcome = Lost("the engine that ran it died; no process of it is left");
  const auto printed = ports_.log_store.Read({.tenant = key.tenant,
                                              .run = key.run,
                                              .task = key.task,
                                              .map_index = key.map_index,
                                              .epoch = key.epoch,
                                              .max_lines = 1});
  if (!printed)
    ports_.log.Warning("whether a lost attempt printed anything cannot be read",
                       {{"error", printed.error().message}});
  else if (!printed->entries.empty())
    outcome.started_at = printed->entries.front().line.at;
  return outcome;
}

std::vector<model::AttemptKey> ProcessExecutor::Impl::List() const {
  const std::scoped_lock lock(mutex_);
  std::vector<model::AttemptKey> keys;
  keys.reserve(live_.size());
  for (const auto& [key, live] : live_) keys.push_back(key);
  return keys;
}

executor::Metrics ProcessExecutor::Impl::GetMetrics() const {
  const std::scoped_lock lock(mutex_);
  executor::Metrics metrics{.active = live_.size(),
                            .max = options_.max_concurrent,
                            .executed = executed_,
                            .failed = failed_,
                            .mean_duration = {},
                            .p99_duration = {},
                            .lines_dropped = dropped_lines_};
  if (executed_ > 0) {
    metrics.mean_duration = total_duration_ / static_cast<std::int64_t>(executed_);
    std::vector<Duration> sorted = recent_durations_;
    const auto p99 = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 99 / 100);
    std::ranges::nth_element(sorted, p99);
    metrics.p99_duration = *p99;
  }
  return metrics;
}

void ProcessExecutor::Impl::Settled(std::span<const model::AttemptKey> keys) {
  if (ports_.ledger != nullptr) ports_.ledger->Clear(keys);
  const std::scoped_lock lock(mutex_);
  const bool was_full = ended_.size() >= options_.max_unsettled;
  for (const model::AttemptKey& key : keys) ended_.erase(key);
  if (!was_full || ended_.size() >= options_.max_unsettled) return;
  messages_.push_back(RoomAgain{});
  Wake();
}

Status ProcessExecutor::Impl::Start(executor::AttemptSink& sink) {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) {
    return Error{Code::kUnavailable, fmt::format("cannot start: {}", std::strerror(errno))};
  }
  {
    const std::scoped_lock lock(mutex_);
    sink_ = &sink;
  }
  for (std::size_t i = 0; HasStore() && i < kCarriers; ++i)
    carriers_.emplace_back([this, i](const std::stop_token& stop) { CarryLoop(stop, i == 0); });
  preparer_ = std::jthread([this](const std::stop_token& stop) { PrepareLoop(stop); });
  loop_ = std::jthread([this](const std::stop_token& stop) { RunLoop(stop); });
  return {};
}

Status ProcessExecutor::Impl::Drain(Duration timeout) {
  std::unique_lock lock(mutex_);
  closing_ = true;
  const auto idle = [&] { return live_.empty(); };
  if (!idle_.wait_for(lock, timeout, idle)) {
    Duration grace{};
    for (auto& [key, live] : live_) {
      if (live.stop == StopCause::kNone) live.stop = StopCause::kDrain;
      TakeOffLocked(key, live.stop);
      grace = std::max(grace, live.offer.task().grace);
      if (live.sent) messages_.push_back(Stop{key});
    }
    Wake();
    idle_.wait_for(lock, grace + kDrainMargin, idle);
  }
  if (live_.empty()) return {};
  std::string names;
  for (const auto& [key, live] : live_) {
    names += fmt::format("{}{} of run {}", names.empty() ? "" : ", ", live.offer.task().id,
                         live.offer.run_id.value);
  }
  return Error{Code::kDrainTimeout, fmt::format("processes could not be ended: {}", names)};
}

// ---- Preparer.

void ProcessExecutor::Impl::PrepareLoop(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!work_.wait(lock, stop, [&] { return !jobs_.empty(); })) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (const auto* offer = std::get_if<executor::Attempt>(&job)) {
      Prepared prepared = Prepare(*offer);
      if (prepared.needed.empty() && !prepared.failure) FillEnvironment(prepared);
      if (prepared.needed.empty() || prepared.failure) {
        Post(std::move(prepared));
      } else {
        Carry(std::move(prepared));
      }
    } else {
      folder_->ReleaseTree(std::get<AttemptFiles>(job));
    }
  }
}

ProcessExecutor::Impl::Prepared ProcessExecutor::Impl::Prepare(const executor::Attempt& attempt) {
  Prepared prepared;
  prepared.offer = attempt;
  if (const StopCause stop = StopOf(attempt.key); stop != StopCause::kNone) {
    prepared.failure = NotStarted(stop);
  } else {
    prepared.failure = Fill(attempt, prepared);
    if (prepared.failure && prepared.watch) prepared.watch->Judge(*prepared.failure);
  }
  return prepared;
}

namespace {

/// The texts of a task without expressions.
executor::Rendered AsWritten(const executor::Attempt& attempt) {
  const model::Task& task = attempt.task();
  return {.action = task.action,
          .bound = {},
          .workflow_env = attempt.workflow->definition().env,
          .env = task.env,
          .env_file = task.env_file,
          .cwd = task.cwd,
          .artifacts = task.artifacts,
          .idempotency_key = task.idempotency_key};
}

}  // namespace

/// Loads and writes all that the start needs.  A verdict if it cannot be had.
std::optional<model::Outcome> ProcessExecutor::Impl::Fill(const executor::Attempt& attempt,
                                                          Prepared& prepared) {
  const model::Task& task = attempt.task();
  auto taken = folder_->Take(attempt.run_id);
  if (!taken) return NotNow(model::Reason::kSpawn, taken.error().message, ports_.clock.Now());
  AttemptFiles& files = prepared.files = *std::move(taken);
  if (!attempt.artifact_dir.empty()) files.artifacts = attempt.artifact_dir;
  executor::Attempt placed = attempt;
  if (HasStore()) placed.artifact_dir = files.artifacts;
  auto resolved = ports_.resolver.Resolve(placed);
  if (!resolved && resolved.error().code == Code::kUnavailable) {
    return NotNow(model::Reason::kDispatchFailed, resolved.error().message, ports_.clock.Now());
  }
  if (!resolved) {
    const bool expression = resolved.error().code == Code::kInvalidArgument ||
                            resolved.error().code == Code::kAtCapacity;
    return Failure(model::Verdict::kFailed,
                   expression ? model::Reason::kExpression : model::Reason::kDispatchFailed,
                   resolved.error().message);
  }
  executor::Rendered texts =
      resolved->rendered ? *std::move(resolved->rendered) : AsWritten(attempt);
  const std::string& base_dir = attempt.workflow->definition().base_dir;
  const std::filesystem::path base = base_dir.empty() ? own_folder_ : base_dir;
  texts.cwd = (base / texts.cwd).string();
  for (std::string& file : texts.env_file) file = (base / file).string();
  prepared.artifacts = texts.artifacts;
  prepared.needed = std::move(resolved->artifacts);
  files.placed = !prepared.needed.empty();
  auto watch = RetryWatch::For(task.retry);
  if (!watch) {
    return Failure(model::Verdict::kFailed, model::Reason::kSpawn, watch.error().message);
  }
  prepared.watch = *std::move(watch);
  const std::string script = FillCommand(attempt, texts, prepared);
  prepared.texts = std::move(texts);
  Status status = StateFolder::Write(files, resolved->context_json, script);
  if (status) status = OpenPipes(prepared);
  if (status) return std::nullopt;
  return NotNow(model::Reason::kSpawn, status.error().message, ports_.clock.Now());
}

/// Reads files, and perhaps artifacts that it needs.  A failure in `prepared` if it cannot be had:
/// the task's own, for the next try reads them anew.
void ProcessExecutor::Impl::FillEnvironment(Prepared& prepared) {
  const auto environment =
      TaskEnvironment(prepared.offer, prepared.texts, prepared.files, own_environment_);
  if (environment) {
    prepared.request.env = ToStrings(*environment);
    return;
  }
  prepared.failure =
      Failure(model::Verdict::kRetry, model::Reason::kSpawn, environment.error().message);
  if (prepared.watch) prepared.watch->Judge(*prepared.failure);
}

/// The request without its environment.  Returns the script that has to be written; empty = none.
std::string ProcessExecutor::Impl::FillCommand(const executor::Attempt& attempt,
                                               const executor::Rendered& texts,
                                               Prepared& prepared) {
  SpawnRequest& request = prepared.request;
  request.cwd = texts.cwd;
  request.attempt = {.run = attempt.key.run.value, .epoch = attempt.key.epoch.value};
  request.timeout = attempt.timeout;
  request.grace = attempt.task().grace;
  if (const auto* shell = std::get_if<model::ShellAction>(&texts.action)) {
    ShellCommand command = CommandOf(*shell, prepared.files.script);
    request.argv = std::move(command.argv);
    return std::move(command.script);
  }
  request.argv = std::get<model::ExecAction>(texts.action).argv;
  return {};
}

Status ProcessExecutor::Impl::OpenPipes(Prepared& prepared) {
  for (auto [mine, theirs] : {std::pair(&prepared.out, &prepared.request.stdout_fd),
                              std::pair(&prepared.err, &prepared.request.stderr_fd)}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return Error{Code::kUnavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
    }
    *mine = Fd(ends[0]);
    *theirs = Fd(ends[1]);
    // Only the reading end: for the task it is an ordinary, blocking pipe.
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  return {};
}

void ProcessExecutor::Impl::Post(Message message) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = messages_.empty();
    messages_.push_back(std::move(message));
  }
  // Whoever posted before has woken the loop, or is about to.
  if (first) Wake();
}

void ProcessExecutor::Impl::Wake() const {
  const std::uint64_t one = 1;
  // Full means that a wake-up is already on its way.
  if (wake_) [[maybe_unused]]
    const ssize_t written = write(wake_.get(), &one, sizeof one);
}

StopCause ProcessExecutor::Impl::StopOf(const model::AttemptKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto live = live_.find(key);
  return live == live_.end() ? StopCause::kNone : live->second.stop;
}

/// Gives the verdict and frees the slot.  The loop's last word on an attempt.
void ProcessExecutor::Impl::Report(const executor::Attempt& offer, const AttemptFiles& files,
                                   model::Outcome outcome) {
  outcome.ended_at = ports_.clock.Now();
  bool last = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto live = live_.find(offer.key);
    if (live == live_.end()) return;
    outcome.started_at = live->second.started_at;
    const Duration took =
        outcome.started_at == Instant{} ? Duration{} : outcome.ended_at - outcome.started_at;
    live_.erase(live);
    ended_.insert_or_assign(offer.key, outcome);
    failed_ += IsFailure(outcome.verdict) ? 1 : 0;
    total_duration_ += took;
    if (recent_durations_.size() < kRecent) {
      recent_durations_.push_back(took);
    } else {
      recent_durations_[executed_ % kRecent] = took;
    }
    ++executed_;
    last = closing_ && live_.empty();
  }
  // Before the verdict: who starts the next task upon it finds the slot free.
  const bool released = folder_->Release(files);
  sink_->Ended(offer.key, std::move(outcome));
  if (last) idle_.notify_all();
  if (released) return;
  {
    const std::scoped_lock lock(mutex_);
    jobs_.emplace_back(files);
  }
  work_.notify_one();
}

}  // namespace headworks::executor_process
