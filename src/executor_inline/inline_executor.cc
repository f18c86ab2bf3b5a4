#include "headworks/executor_inline/inline_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "call.h"
#include "headworks/base/check.h"
#include "headworks/base/random.h"
#include "headworks/executor/attempt_log.h"
#include "headworks/executor/duration_histogram.h"
#include "watchdog.h"

namespace headworks::executor_inline {
namespace {

using executor::Attempt;
using executor::DispatchError;
using model::AttemptKey;
using model::Outcome;
using model::Reason;
using model::Verdict;

constexpr std::size_t kMaxThreads = 1024;
constexpr std::size_t kMaxQueueDepth = 1'000'000;
constexpr std::size_t kMaxUnsettled = 10'000'000;
constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxLogBytes = std::size_t{64} << 20;
constexpr std::size_t kNamedInDrain = 20;
/// How often a thread looks for another offer before it sleeps; about 10 us in all.
constexpr int kLooks = 32;
/// How long a start waits where the ledger has no room to be noted in.
constexpr Duration kFullDiskPause = std::chrono::seconds(1);
constexpr Duration kLongestWait = std::chrono::hours(24 * 365);

/// (run, epoch) names an attempt within a store.
struct Id {
  std::int64_t run;
  std::int64_t epoch;
  bool operator==(const Id&) const = default;
};
Id IdOf(const AttemptKey& key) { return {key.run.value, key.epoch.value}; }
struct IdHash {
  std::size_t operator()(const Id& id) const {
    return Mix64(static_cast<std::uint64_t>(id.run) ^ Mix64(static_cast<std::uint64_t>(id.epoch)));
  }
};

/// The verdict on an attempt whose start the ledger refused.
Outcome NotMarked(const Error& refusal, Instant now) {
  // Its capacity was checked by Start: either the start was claimed before, or the disk is full.
  HEADWORKS_CHECK(refusal.code == Code::kConflict || refusal.code == Code::kUnavailable);
  Outcome outcome{.verdict = Verdict::kLost,
                  .reason = Reason::kLost,
                  .error = refusal.message,
                  .started_at = now,
                  .ended_at = now};
  if (refusal.code == Code::kUnavailable) {
    outcome.verdict = Verdict::kSnoozed;
    outcome.reason = Reason::kDispatchFailed;
    outcome.not_before = now + kFullDiskPause;
  }
  return outcome;
}

enum class Stage : unsigned char { kQueued, kRunning, kEnded };

/// One attempt, from its offer until its verdict is stored.
struct Entry {
  Entry(const Attempt& a, const TaskFunction& f) : attempt(a), function(f) {}

  const Attempt attempt;
  const TaskFunction& function;
  std::uint64_t serial = 0;  // names the entry to the watchdog
  // Guarded by the executor's mutex.
  Stage stage = Stage::kQueued;
  bool settled = false;  // while it runs: the engine gave it up
  Outcome outcome;       // once ended
  // Any thread.
  std::stop_source stop;
  std::atomic<StopCause> cause{StopCause::kNone};  // the first one stands
  std::atomic<Duration::rep> last_sign{0};         // start or heartbeat, monotonic
};

std::string NameOf(const Attempt& attempt) {
  return fmt::format("{} of run {} (epoch {})", attempt.task().id, attempt.run_id.value,
                     attempt.key.epoch.value);
}

/// What a running task says.
class Host final : public TaskHost {
 public:
  Host(Entry& entry, const InlinePorts& ports) : entry_(entry), ports_(ports) {}

  void Log(std::string_view line) override {
    const std::scoped_lock lock(mutex_);
    if (line.ends_with('\n')) line.remove_suffix(1);
    bool more = true;
    while (more) {
      const std::size_t end = std::min({line.find('\n'), line.size(), kMaxLineBytes});
      Append(line.substr(0, end));
      more = end < line.size();
      line.remove_prefix(end + (more && line[end] == '\n' ? 1 : 0));
    }
  }
  void Heartbeat() override {
    entry_.last_sign.store(ports_.clock.Monotonic().count(), std::memory_order_relaxed);
  }
  /// Why lines are missing; empty if none is.
  std::string LostLines() {
    const std::scoped_lock lock(mutex_);
    return lost_;
  }
  std::uint64_t lost_lines() const { return lost_lines_; }

 private:
  void Append(std::string_view line) {
    if (bytes_ > kMaxLogBytes) return;
    bytes_ += line.size() + 1;
    if (bytes_ > kMaxLogBytes) line = "[headworks: 64 MiB of log reached; the rest is not kept]";
    Status status = ports_.lines.Append(entry_.attempt.key, ++lines_, ports_.clock.Now(), line,
                                        entry_.stop.get_token());
    if (status) return;
    ++lost_lines_;
    lost_ = status.error().message;
  }

  Entry& entry_;
  const InlinePorts& ports_;
  std::mutex mutex_;
  std::int64_t lines_ = 0;
  std::size_t bytes_ = 0;
  std::atomic<std::uint64_t> lost_lines_ = 0;
  std::string lost_;
};

/// Loads what the attempt is given when its code first looks at it.
class LateInputs final : public TaskInputs {
 public:
  LateInputs(executor::Resolver& resolver, const Attempt& attempt)
      : resolver_(resolver), attempt_(attempt) {}

  std::string_view Input() override { return Load().merged_json; }
  std::string_view Context() override { return Load().context_json; }
  /// The one that the task gives.
  std::string IdempotencyKey() {
    const executor::Resolved& resolved = Load();
    return resolved.rendered ? resolved.rendered->idempotency_key : attempt_.task().idempotency_key;
  }

 private:
  const executor::Resolved& Load() {
    const std::scoped_lock lock(mutex_);
    if (!resolved_) {
      auto resolved = resolver_.Resolve(attempt_);
      if (!resolved) throw InputMissing{std::move(resolved).error()};
      resolved_ = *std::move(resolved);
    }
    return *resolved_;
  }

  executor::Resolver& resolver_;
  const Attempt& attempt_;
  std::mutex mutex_;
  std::optional<executor::Resolved> resolved_;
};

class InlineExecutor final : public executor::Executor {
 public:
  InlineExecutor(const InlineOptions& options, const InlinePorts& ports);
  ~InlineExecutor() override;

  std::string_view Name() const override { return "inline"; }
  Status Start(executor::AttemptSink& sink) override;
  executor::OfferResult Offer(const Attempt& attempt) override;
  void Cancel(const AttemptKey& key) override;
  executor::Capacity GetCapacity() const override;
  Result<std::vector<executor::Inspection>> Inspect(std::span<const Attempt> attempts) override;
  std::vector<AttemptKey> List() const override;
  executor::Metrics GetMetrics() const override;
  void Settled(std::span<const AttemptKey> keys) override;
  Status Drain(Duration timeout) override;

 private:
  using Entries = std::unordered_map<Id, std::unique_ptr<Entry>, IdHash>;

  void Work();
  void Linger(std::unique_lock<std::mutex>& lock);
  /// How the attempt ended, and how long its code ran, if it began.
  std::pair<Outcome, std::optional<Duration>> Run(Entry& entry);
  CallEnd CallGuarded(Entry& entry);
  void EndLocked(Entry& entry, Outcome outcome);
  void Tell(std::vector<std::pair<AttemptKey, Outcome>> ends);
  void TimedOut(Watchdog::Id serial);
  void StopRunning(Entry& entry, StopCause cause);
  Outcome Stopped(Entry& entry, std::string_view error) const;
  std::size_t FreeLocked() const;
  bool RoomWantedLocked();

  InlineOptions options_;
  const InlinePorts ports_;
  const std::size_t max_;
  std::atomic<std::uint64_t> lines_dropped_ = 0;
  executor::AttemptSink* sink_ = nullptr;  // set by Start, before any thread

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable quiet_;
  // Guarded by mutex_.
  Entries entries_;
  std::deque<Entry*> queue_;
  std::unordered_map<Watchdog::Id, Entry*> timed_;  // running, with a timeout
  bool started_ = false;
  bool draining_ = false;
  bool closing_ = false;
  mutable bool room_wanted_ = false;  // somebody saw no room since the last CapacityChanged
  std::size_t idle_ = 0;              // threads that sleep and nobody has woken
  std::size_t wakes_ = 0;             // woken, not yet up: each is notified once, not per offer
  std::size_t lingering_ = 0;         // threads that look for more before they sleep
  std::size_t running_ = 0;
  std::size_t reporting_ = 0;  // ended, the sink not yet told
  std::size_t unsettled_bytes_ = 0;
  std::uint64_t next_serial_ = 1;
  std::uint64_t failed_ = 0;
  executor::DurationHistogram durations_;
  std::atomic<std::size_t> offered_ = 0;  // so far; changed under mutex_, looked at without

  std::optional<Watchdog> watchdog_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

InlineOptions WithDefaults(InlineOptions options) {
  if (options.threads == 0) options.threads = std::max(1U, std::thread::hardware_concurrency());
  return options;
}

InlineExecutor::InlineExecutor(const InlineOptions& options, const InlinePorts& ports)
    : options_(WithDefaults(options)),
      ports_(ports),
      max_(options_.threads + options_.queue_depth) {}

InlineExecutor::~InlineExecutor() {
  // What cannot be stopped is waited for by the threads' destructors.
  static_cast<void>(Drain(Duration{0}).has_value());
  const std::scoped_lock lock(mutex_);
  closing_ = true;
  work_.notify_all();
}

Status InlineExecutor::Start(executor::AttemptSink& sink) {
  const auto check = [](std::string_view name, std::size_t value, std::size_t max) -> Status {
    if (value <= max) return {};
    return Error{Code::kInvalidArgument,
                 fmt::format("inline executor: {} is {}; at most {}", name, value, max)};
  };
  HEADWORKS_TRY(check("threads", options_.threads, kMaxThreads));
  HEADWORKS_TRY(check("queue_depth", options_.queue_depth, kMaxQueueDepth));
  HEADWORKS_TRY(check("max_unsettled", options_.max_unsettled, kMaxUnsettled));
  if (ports_.ledger != nullptr && ports_.ledger->capacity() < LedgerCapacity(options_))
    return Error{Code::kInvalidArgument,
                 fmt::format("inline executor: the start ledger has room for {} marks; open it "
                             "with at least {}",
                             ports_.ledger->capacity(), LedgerCapacity(options_))};
  const std::scoped_lock lock(mutex_);
  if (started_) return Error{Code::kConflict, "inline executor: started already"};
  started_ = true;
  sink_ = &sink;
  watchdog_.emplace(ports_.clock, [this](Watchdog::Id serial) { TimedOut(serial); });
  for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  return {};
}

executor::OfferResult InlineExecutor::Offer(const Attempt& attempt) {
  const auto* action = std::get_if<model::FunctionAction>(&attempt.task().action);
  if (action == nullptr)
    return executor::NotTaken(
        DispatchError::kValidation,
        fmt::format("task {} runs a command; the inline executor runs functions only",
                    attempt.task().id));
  const auto function = ports_.registry.Find(attempt.workflow->name(), action->function);
  if (!function) return executor::NotTaken(DispatchError::kTaskNotFound, function.error().message);
  auto entry = std::make_unique<Entry>(attempt, **function);

  std::unique_lock lock(mutex_);
  if (!started_ || draining_)
    return executor::NotTaken(
        DispatchError::kNoCapacity,
        started_ ? "the inline executor is closing" : "the inline executor is not started");
  if (entries_.contains(IdOf(attempt.key))) return {};
  if (FreeLocked() == 0) {
    room_wanted_ = true;
    return executor::NotTaken(DispatchError::kNoCapacity, "the inline executor is at capacity");
  }
  entry->serial = next_serial_++;
  queue_.push_back(entry.get());
  entries_.emplace(IdOf(attempt.key), std::move(entry));
  offered_.fetch_add(1, std::memory_order_relaxed);
  const bool wake = idle_ > 0 && queue_.size() > lingering_;
  if (wake) {
    --idle_;
    ++wakes_;
  }
  lock.unlock();
  if (wake) work_.notify_one();
  return {};
}

/// Offers come in bursts, closer to each other than a thread falls asleep and is woken.
void InlineExecutor::Linger(std::unique_lock<std::mutex>& lock) {
  const std::size_t seen = offered_.load(std::memory_order_relaxed);
  ++lingering_;
  lock.unlock();
  for (int look = 0; look < kLooks && offered_.load(std::memory_order_relaxed) == seen; ++look)
    std::this_thread::yield();
  lock.lock();
  --lingering_;
}

void InlineExecutor::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (queue_.empty() && !closing_) Linger(lock);
    while (queue_.empty() && !closing_) {
      ++idle_;
      work_.wait(lock, [this] { return wakes_ > 0 || closing_; });
      if (wakes_ > 0) --wakes_;
    }
    if (queue_.empty()) return;
    Entry& entry = *queue_.front();
    queue_.pop_front();
    entry.stage = Stage::kRunning;
    ++running_;
    lock.unlock();

    auto [outcome, ran] = Run(entry);
    const AttemptKey key = entry.attempt.key;
    Outcome kept = outcome;

    lock.lock();
    --running_;
    ++reporting_;
    if (ran) {
      durations_.Add(*ran);
      if (outcome.verdict == Verdict::kRetry || outcome.verdict == Verdict::kFailed) ++failed_;
    }
    EndLocked(entry, std::move(kept));  // the entry may be gone from here on
    const bool room = RoomWantedLocked();
    lock.unlock();
    sink_->Ended(key, std::move(outcome));
    if (room) sink_->CapacityChanged();
    lock.lock();
    --reporting_;
    if (draining_) quiet_.notify_all();
  }
}

std::pair<Outcome, std::optional<Duration>> InlineExecutor::Run(Entry& entry) {
  if (entry.cause != StopCause::kNone) return {Stopped(entry, "stopped before it began"), {}};
  if (ports_.ledger != nullptr) {
    const Status mark = ports_.ledger->MarkStarted(entry.attempt.key);
    if (!mark) return {NotMarked(mark.error(), ports_.clock.Now()), {}};
  }
  sink_->Started(entry.attempt.key);
  const Instant started_at = ports_.clock.Now();
  const Duration begin = ports_.clock.Monotonic();
  entry.last_sign.store(begin.count(), std::memory_order_relaxed);
  CallEnd end = CallGuarded(entry);
  const Duration ran = ports_.clock.Monotonic() - begin;
  const Instant ended_at = ports_.clock.Now();
  Outcome outcome = Judge(std::move(end), entry.cause, entry.attempt.timeout, ended_at);
  outcome.started_at = started_at;
  outcome.ended_at = ended_at;
  return {std::move(outcome), ran};
}

/// Calls the task's code under its timeout.
CallEnd InlineExecutor::CallGuarded(Entry& entry) {
  const Attempt& attempt = entry.attempt;
  TaskInfo info{.workflow = attempt.workflow->name(),
                .task = attempt.task().id,
                .run_id = attempt.run_id.value,
                .try_no = attempt.try_no,
                .epoch = attempt.key.epoch.value,
                .idempotency_key = attempt.IdempotencyKey()};
  Host host(entry, ports_);
  LateInputs inputs(ports_.resolver, attempt);
  TaskContext context(info, inputs, entry.stop.get_token(), host);
  const Duration timeout = attempt.timeout;
  const Duration deadline = ports_.clock.Monotonic() + timeout;
  if (timeout > Duration{0}) {
    const std::scoped_lock lock(mutex_);
    timed_.emplace(entry.serial, &entry);
    watchdog_->Arm(entry.serial, deadline);
  }
  const TaskFunction with_own_key = [&](TaskContext& given) {
    info.idempotency_key = inputs.IdempotencyKey();
    return entry.function(given);
  };
  CallEnd end = Call(attempt.task().idempotency_key.empty() ? entry.function : with_own_key,
                     context, attempt.task().output);
  if (timeout > Duration{0}) {
    const std::scoped_lock lock(mutex_);
    timed_.erase(entry.serial);
    watchdog_->Disarm(entry.serial, deadline);
  }
  if (const std::string lost = host.LostLines(); !lost.empty())
    executor::ForAttempt(ports_.log, attempt)
        .Error("task log lines could not be stored", {{"error", lost}});
  lines_dropped_.fetch_add(host.lost_lines(), std::memory_order_relaxed);
  return end;
}

void InlineExecutor::TimedOut(Watchdog::Id serial) {
  std::unique_lock lock(mutex_);
  const auto at = timed_.find(serial);
  if (at == timed_.end()) return;
  StopRunning(*at->second, StopCause::kTimeout);
}

/// Under mutex_.
void InlineExecutor::StopRunning(Entry& entry, StopCause cause) {
  StopCause none = StopCause::kNone;
  entry.cause.compare_exchange_strong(none, cause);
  watchdog_->Stop(entry.stop);
}

Outcome InlineExecutor::Stopped(Entry& entry, std::string_view error) const {
  CallEnd end;
  end.outcome.error = error;
  end.broke_off = true;
  const Instant now = ports_.clock.Now();
  Outcome outcome = Judge(std::move(end), entry.cause, entry.attempt.timeout, now);
  outcome.started_at = outcome.ended_at = now;
  return outcome;
}

/// Keeps the verdict until it is settled.
void InlineExecutor::EndLocked(Entry& entry, Outcome outcome) {
  if (entry.settled) {
    if (ports_.ledger != nullptr) ports_.ledger->Clear({&entry.attempt.key, 1});
    entries_.erase(IdOf(entry.attempt.key));
    return;
  }
  entry.stage = Stage::kEnded;
  entry.outcome = std::move(outcome);
  unsettled_bytes_ += entry.outcome.output.size() + entry.outcome.error.size();
}

std::size_t InlineExecutor::FreeLocked() const {
  const std::size_t used = queue_.size() + running_;
  const std::size_t ended = entries_.size() - used;
  if (ended >= options_.max_unsettled || unsettled_bytes_ >= options_.max_unsettled_bytes) return 0;
  return max_ - used;
}

bool InlineExecutor::RoomWantedLocked() {
  return room_wanted_ && !draining_ && FreeLocked() > 0 && std::exchange(room_wanted_, false);
}

void InlineExecutor::Tell(std::vector<std::pair<AttemptKey, Outcome>> ends) {
  const std::size_t told = ends.size();
  for (auto& [key, outcome] : ends) sink_->Ended(key, std::move(outcome));
  std::unique_lock lock(mutex_);
  reporting_ -= told;
  quiet_.notify_all();
  const bool room = RoomWantedLocked();
  lock.unlock();
  if (room) sink_->CapacityChanged();
}

void InlineExecutor::Cancel(const AttemptKey& key) {
  std::unique_lock lock(mutex_);
  const auto at = entries_.find(IdOf(key));
  if (at == entries_.end() || at->second->stage == Stage::kEnded) return;
  Entry& entry = *at->second;
  if (entry.stage == Stage::kRunning) {
    StopRunning(entry, StopCause::kCancel);
    return;
  }
  std::erase(queue_, &entry);
  entry.cause = StopCause::kCancel;
  Outcome outcome = Stopped(entry, "cancelled before it began");
  EndLocked(entry, outcome);
  ++reporting_;
  lock.unlock();
  Tell({{key, std::move(outcome)}});
}

executor::Capacity InlineExecutor::GetCapacity() const {
  const std::scoped_lock lock(mutex_);
  const std::size_t free = FreeLocked();
  if (free == 0) room_wanted_ = true;
  return {.max = static_cast<std::uint32_t>(max_), .used = static_cast<std::uint32_t>(max_ - free)};
}

Result<std::vector<executor::Inspection>> InlineExecutor::Inspect(
    std::span<const Attempt> attempts) {
  std::vector<executor::Inspection> answers;
  answers.reserve(attempts.size());
  const std::scoped_lock lock(mutex_);
  for (const Attempt& attempt : attempts) {
    const auto at = entries_.find(IdOf(attempt.key));
    if (at == entries_.end() && ports_.ledger != nullptr &&
        ports_.ledger->WasStarted(attempt.key)) {
      const Instant now = ports_.clock.Now();
      answers.emplace_back(executor::Ended{{.verdict = Verdict::kLost,
                                            .reason = Reason::kLost,
                                            .error = "the program ended while the task ran",
                                            .ended_at = now}});
    } else if (at == entries_.end()) {
      answers.emplace_back(executor::Absent{});
    } else if (at->second->stage == Stage::kQueued) {
      answers.emplace_back(executor::Pending{"waits for a thread of the inline executor"});
    } else if (at->second->stage == Stage::kRunning) {
      answers.emplace_back(executor::Running{});
    } else {
      answers.emplace_back(executor::Ended{at->second->outcome});
    }
  }
  return answers;
}

std::vector<AttemptKey> InlineExecutor::List() const {
  const std::scoped_lock lock(mutex_);
  std::vector<AttemptKey> keys;
  for (const auto& [id, entry] : entries_)
    if (entry->stage != Stage::kEnded) keys.push_back(entry->attempt.key);
  return keys;
}

executor::Metrics InlineExecutor::GetMetrics() const {
  const std::scoped_lock lock(mutex_);
  return {.active = running_,
          .max = options_.threads,
          .executed = durations_.count(),
          .failed = failed_,
          .mean_duration = durations_.Mean(),
          .p99_duration = durations_.Quantile(0.99),
          .lines_dropped = lines_dropped_.load(std::memory_order_relaxed)};
}

void InlineExecutor::Settled(std::span<const AttemptKey> keys) {
  if (ports_.ledger != nullptr) ports_.ledger->Clear(keys);
  std::vector<std::unique_ptr<Entry>> settled;  // freed outside the lock
  settled.reserve(keys.size());
  std::unique_lock lock(mutex_);
  for (const AttemptKey& key : keys) {
    const auto at = entries_.find(IdOf(key));
    if (at == entries_.end()) continue;
    Entry& entry = *at->second;
    if (entry.stage == Stage::kRunning) {
      entry.settled = true;
      continue;
    }
    if (entry.stage == Stage::kQueued) std::erase(queue_, &entry);
    unsettled_bytes_ -= entry.outcome.output.size() + entry.outcome.error.size();
    settled.push_back(std::move(at->second));
    entries_.erase(at);
  }
  const bool room = RoomWantedLocked();
  lock.unlock();
  if (room) sink_->CapacityChanged();
}

Status InlineExecutor::Drain(Duration timeout) {
  std::vector<std::pair<AttemptKey, Outcome>> ends;
  std::unique_lock lock(mutex_);
  draining_ = true;
  for (Entry* entry : std::exchange(queue_, {})) {
    entry->cause = StopCause::kDrain;
    ends.emplace_back(entry->attempt.key, Stopped(*entry, "shut down before it began"));
    EndLocked(*entry, ends.back().second);
  }
  reporting_ += ends.size();
  lock.unlock();
  if (!ends.empty()) Tell(std::move(ends));

  lock.lock();
  const auto quiet = [this] { return running_ == 0 && reporting_ == 0; };
  if (quiet_.wait_for(lock, std::min(timeout, kLongestWait), quiet)) return {};
  Duration grace{0};
  for (const auto& [id, entry] : entries_) {
    if (entry->stage != Stage::kRunning) continue;
    StopRunning(*entry, StopCause::kDrain);
    grace = std::max(grace, entry->attempt.task().grace);
  }
  if (quiet_.wait_for(lock, std::min(grace, kLongestWait), quiet)) return {};
  if (running_ == 0) {  // all have stopped; another thread is still telling so
    quiet_.wait(lock, quiet);
    return {};
  }
  std::vector<std::string> names;
  const Duration now = ports_.clock.Monotonic();
  for (const auto& [id, entry] : entries_)
    if (entry->stage == Stage::kRunning && names.size() < kNamedInDrain)
      names.push_back(fmt::format("{}, last sign of life {} ago", NameOf(entry->attempt),
                                  FormatDuration(now - Duration(entry->last_sign.load()))));
  return Error{Code::kDrainTimeout,
               fmt::format("{} tasks do not stop: {}", running_, fmt::join(names, "; "))};
}

}  // namespace

std::size_t LedgerCapacity(const InlineOptions& options) {
  return WithDefaults(options).threads + options.max_unsettled + options.queue_depth;
}

std::unique_ptr<executor::Executor> NewInlineExecutor(const InlineOptions& options,
                                                      const InlinePorts& ports) {
  return std::make_unique<InlineExecutor>(options, ports);
}

}  // namespace headworks::executor_inline
