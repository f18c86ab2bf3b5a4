#include "headworks/executor_queue/queue_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "border.h"
#include "headworks/executor/attempt_log.h"
#include "headworks/executor/execution_status.h"
#include "headworks/model/artifact_flow.h"
#include "impl.h"
#include "job.h"

namespace headworks::executor_queue {

using executor::Attempt;
using executor::DispatchError;
using executor::NotTaken;
using executor::OfferResult;
using executor::Word;

namespace {

constexpr Duration kShortestLease = std::chrono::milliseconds(100);
constexpr Duration kLongestWait = std::chrono::hours(1);
constexpr std::uint32_t kMostWaiting = 1'000'000;
constexpr std::uint32_t kMostThreads = 1'024;
/// Of an engine, whose holders have then something to say yet.
constexpr Duration kLongestOutage = std::chrono::hours(24);
constexpr Duration kRenewBefore = executor::AttemptGateOptions{}.renew_before;
constexpr Duration kStopBeforeCeiling = executor::AttemptGateOptions{}.stop_before_ceiling;
/// The engine could not judge: it is asked again.
constexpr Duration kWithdrawAgain = std::chrono::seconds(1);

std::string WithLabels(const Place& place) {
  std::span<const std::string> labels = place.required;
  const bool artifacts = !labels.empty() && labels.back() == kPassesArtifacts;
  if (artifacts) labels = labels.first(labels.size() - 1);
  return fmt::format("{}{}{}", labels.empty() ? "" : " with ", fmt::join(labels, ", "),
                     artifacts ? " that passes artifacts on" : "");
}

Place PlaceOf(std::string tenant, const model::Task& task, bool artifacts) {
  Place place{.tenant = std::move(tenant),
              .queue = std::string(model::QueueOf(task)),
              .required = task.required};
  std::ranges::sort(place.required);
  place.required.erase(std::ranges::unique(place.required).begin(), place.required.end());
  if (artifacts) place.required.emplace_back(kPassesArtifacts);  // it is behind all labels
  return place;
}

Status CheckOptions(const QueueOptions& options) {
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("queue executor: {}", what)};
  };
  if (options.lease < kShortestLease || options.lease > worker_api::kMaxLease)
    return bad(fmt::format("lease is {}us; give {} to {}", options.lease.count(),
                           FormatDuration(kShortestLease), FormatDuration(worker_api::kMaxLease)));
  if (options.heartbeat_every <= Duration(0) || options.heartbeat_every > options.lease / 3)
    return bad(
        fmt::format("heartbeat_every is {}us; give more than none, and at most a third of "
                    "the lease, {}",
                    options.heartbeat_every.count(), FormatDuration(options.lease / 3)));
  if (options.max_waiting < 2 || options.max_waiting > kMostWaiting)
    return bad(fmt::format("max_waiting is {}; give 2 to {}", options.max_waiting, kMostWaiting));
  if (options.max_workers == 0) return bad("max_workers is 0; give 1 or more");
  if (options.max_open_artifacts < 2)
    return bad(fmt::format("max_open_artifacts is {}; give 2 or more", options.max_open_artifacts));
  if (options.threads > kMostThreads)
    return bad(fmt::format("threads is {}; at most {}", options.threads, kMostThreads));
  return {};
}

}  // namespace

Duration WorkTokenValid(Duration lease) {
  return std::chrono::ceil<std::chrono::seconds>(
      std::max<Duration>(kLongestOutage, 2 * lease + kRenewBefore));
}

Result<std::unique_ptr<QueueExecutor>> NewQueueExecutor(const QueueOptions& options,
                                                        const QueuePorts& ports) {
  HEADWORKS_TRY(CheckOptions(options));
  return std::unique_ptr<QueueExecutor>(std::make_unique<Impl>(options, ports));
}

Impl::Impl(const QueueOptions& options, const QueuePorts& ports)
    : options_(options),
      ports_(ports),
      gate_({.pending_timeout = options.pending_timeout,
             .renew_before = std::max(kRenewBefore, options.lease),
             .stop_before_ceiling = std::max(kStopBeforeCeiling, 2 * options.heartbeat_every)},
            ports.tokens, ports.token_clock),
      artifacts_(ports.artifacts == nullptr
                     ? std::nullopt
                     : std::optional<DiscreetStore>(std::in_place, *ports.artifacts, ports.log)),
      transfers_({.max_open = options.max_open_artifacts,
                  .max_artifact_bytes = options.max_artifact_bytes,
                  .idle = std::max(TransferOptions{}.idle, options.lease)},
                 artifacts_ ? &*artifacts_ : nullptr, ports.clock) {}

Impl::~Impl() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  const Error closed{Code::kUnavailable, "the engine is gone; say it again later"};
  for (const auto& [id, waiting] : starting_)
    for (const auto& done : waiting) done(closed);
  for (LogJob& job : logs_) job.done(closed);
}

Status Impl::Start(executor::AttemptSink& sink) {
  Duration earlier{0};
  if (ports_.leases != nullptr) {
    HEADWORKS_ASSIGN(earlier, ports_.leases->Longest());
    if (options_.lease > earlier) HEADWORKS_TRY(ports_.leases->SetLongest(options_.lease));
  }
  const std::scoped_lock lock(mutex_);
  sink_ = &sink;
  last_tick_ = ports_.clock.Monotonic();
  no_loss_before_ = last_tick_ + options_.lease;
  no_earlier_loss_before_ = last_tick_ + std::max(earlier, options_.lease);
  if (earlier > options_.lease) earlier_over_at_ = no_earlier_loss_before_;
  next_tidy_ = last_tick_;
  if (options_.threads == 0) return {};
  threads_.emplace_back([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Duration next = Tick();
      Lock tick_lock(mutex_);
      const Duration now = ports_.clock.Monotonic();
      if (next > now)
        ticks_.wait_for(tick_lock, stop, std::min(next - now, kLongestWait),
                        [&] { return next_tick_ < next; });
    }
  });
  for (std::uint32_t i = 0; i <= options_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) {
      for (;;) {
        {
          Lock work_lock(mutex_);
          const auto work = [this] { return StartIsDueLocked() || (!logs_.empty() && !storing_); };
          if (!work_.wait(work_lock, stop, work)) return;
        }
        static_cast<void>(RunNext());
      }
    });
  for (std::uint32_t i = 0; ports_.artifacts != nullptr && i < options_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { transfers_.Run(stop); });
  return {};
}

Impl::Entry& Impl::NewLocked(const model::AttemptKey& key) {
  Entry& entry = entries_[IdOf(key)];
  entry.attempt.key = key;
  return entry;
}

ScopedLogger Impl::LogOf(const Entry& entry) const {
  const model::AttemptKey& key = entry.attempt.key;
  if (entry.attempt.workflow) return executor::ForAttempt(ports_.log, entry.attempt);
  return ScopedLogger(ports_.log, {{"tenant", key.tenant.value},
                                   {"run", std::to_string(key.run.value)},
                                   {"epoch", std::to_string(key.epoch.value)}});
}

void Impl::SetDueLocked(Entry& entry, Duration due) {
  const Id id = IdOf(entry.attempt.key);
  if (entry.due != Duration(0)) due_.erase({entry.due, id});
  entry.due = due;
  if (due == Duration(0)) return;
  due_.insert({due, id});
  WakeLocked(due);
}

void Impl::LeaveStageLocked(Entry& entry, Calls& calls) {
  const bool unbegun = entry.stage < Stage::kRunning;
  if (entry.stage == Stage::kWaiting && entry.place.order != 0) lines_.Remove(entry.place);
  if (entry.stage == Stage::kAssigned || entry.stage == Stage::kRunning) LetGoLocked(entry, calls);
  if (entry.stage == Stage::kRunning) {
    --running_;
    transfers_.End(IdOf(entry.attempt.key));
  }
  SetDueLocked(entry, Duration(0));
  if (!unbegun || entry.place.order == 0) return;
  const auto tenant = waiting_.find(entry.place.tenant);
  const auto line = tenant->second.lines.find(entry.place.line);
  if (--line->second == 0) tenant->second.lines.erase(line);
  if (--tenant->second.all == 0) waiting_.erase(tenant);
  --unbegun_;
  entry.place.order = 0;
  TellOfRoomLocked(calls);
}

void Impl::TellOfRoomLocked(Calls& calls) {
  if (!room_wanted_ || sink_ == nullptr) return;
  room_wanted_ = false;
  ++speaking_;
  calls.push_back([this, sink = sink_] {
    sink->CapacityChanged();
    Spoken();
  });
}

void Impl::EraseLocked(Entries::iterator at, Calls& calls) {
  LeaveStageLocked(at->second, calls);
  entries_.erase(at);
}

std::string Impl::LineOf(const model::Workflow& workflow, TaskNo task) const {
  return NameOf(PlaceOf({}, workflow.task(task), model::PassesArtifacts(workflow, task)));
}

executor::Credit Impl::RoomLocked(const std::string& tenant, const std::string& line) const {
  const auto left = [](std::uint32_t most, std::uint32_t taken) {
    return most - std::min(most, taken);
  };
  const std::uint32_t all = options_.max_waiting;
  const auto own = waiting_.find(tenant);
  if (own == waiting_.end())
    return {.all = left(all, unbegun_), .tenant = all - all / 4, .line = all / 2};
  const auto here = own->second.lines.find(line);
  return {.all = left(all, unbegun_),
          .tenant = left(all - all / 4, own->second.all),
          .line = left(all / 2, here == own->second.lines.end() ? 0 : here->second)};
}

executor::Credit Impl::GetCredit(const TenantId& tenant, const std::string& line) const {
  const Lock lock(mutex_);
  if (sink_ == nullptr) return {.others = false};
  executor::Credit credit = RoomLocked(tenant.value, line);
  const auto polls = static_cast<std::uint32_t>(lines_.PollsFor(PlaceOfLine(tenant.value, line)));
  credit = {.all = std::max(credit.all, polls),
            .tenant = std::max(credit.tenant, polls),
            .line = std::max(credit.line, polls),
            .others = lines_.HasPolls(tenant.value)};
  if (credit.least() == 0) room_wanted_ = true;
  return credit;
}

std::optional<OfferResult> Impl::FullLocked(const Place& place) const {
  const executor::Credit room = RoomLocked(place.tenant, place.line);
  // For whom a poll waits, none of it is needed.
  if (room.least() > 0 || lines_.PollFor(place)) return std::nullopt;
  room_wanted_ = true;
  if (room.all == 0)
    return NotTaken(DispatchError::kNoCapacity,
                    fmt::format("{} attempts wait for workers already", unbegun_));
  const Waiting& own = waiting_.at(place.tenant);
  if (room.line > 0)
    return NotTaken(
        DispatchError::kNoCapacity,
        fmt::format("{} attempts wait for workers of tenant '{}' already", own.all, place.tenant));
  return NotTaken(DispatchError::kNoCapacity,
                  fmt::format("{} attempts wait for workers of queue '{}'{} already",
                              own.lines.at(place.line), place.queue, WithLabels(place)));
}

OfferResult Impl::Offer(const Attempt& attempt) {
  const Id id = IdOf(attempt.key);
  const bool artifacts = HasArtifacts(attempt);
  if (artifacts && ports_.artifacts == nullptr)
    return NotTaken(DispatchError::kValidation,
                    fmt::format("task {} leaves or needs artifacts, and there is nowhere to keep "
                                "them; pass files by a place that all tasks reach",
                                attempt.task().id));
  Place place = PlaceOf(attempt.key.tenant.value, attempt.task(), artifacts);
  place.line = NameOf(place);
  Calls calls;
  bool checked = false;
  for (;;) {
    Lock lock(mutex_);
    if (sink_ == nullptr) return NotTaken(DispatchError::kNoCapacity, "the queue is closed");
    if (const auto known = entries_.find(id); known != entries_.end()) {
      OfferedAgainLocked(known->second, attempt, calls);
      break;
    }
    if (auto full = FullLocked(place)) return *std::move(full);
    if (checked) {
      TakeLocked(attempt, std::move(place), calls);
      break;
    }
    lock.unlock();
    if (std::string why = WhyNotElsewhere(attempt); !why.empty())
      return NotTaken(DispatchError::kValidation, std::move(why));
    // Its start token is made for whoever gets it.
    if (const Status good = gate_.CheckAdmission(attempt); !good)
      return NotTaken(DispatchError::kContext, good.error().message);
    checked = true;
  }
  Make(calls);
  return {};
}

void Impl::OfferedAgainLocked(Entry& entry, const Attempt& attempt, Calls& calls) {
  LearnLocked(entry, attempt);
  if (entry.stage != Stage::kEnded) return;
  ++speaking_;
  calls.push_back([this, sink = sink_, key = attempt.key, outcome = *entry.outcome] {
    sink->Ended(key, outcome);  // it was not heard
    Spoken();
  });
}

void Impl::TakeLocked(const Attempt& attempt, Place place, Calls& calls) {
  Entry& entry = NewLocked(attempt.key);
  entry.attempt = attempt;
  entry.place = std::move(place);
  entry.place.priority = attempt.priority;
  entry.place.order = ++next_order_;
  entry.waits_since = ports_.clock.Now();
  Waiting& own = waiting_[entry.place.tenant];
  ++own.lines[entry.place.line];
  ++own.all;
  ++unbegun_;
  WaitLocked(entry, calls);
}

void Impl::WaitLocked(Entry& entry, Calls& calls) {
  const Place& place = entry.place;
  entry.stage = Stage::kWaiting;
  lines_.Add(IdOf(entry.attempt.key), place);
  const auto poll = lines_.PollFor(place);
  if (!poll) return;
  const Identity who = polls_.at(*poll).who;
  auto assignment = AssignLocked(entry, who, calls);
  if (!assignment) return;
  AnswerPollLocked(*poll, {.assignments = {*std::move(assignment)}}, calls);
  // More than it has slots for is nobody's to ask for.
  if (UsedLocked(who, place.queue) >= workers_.at(who).registration->slots.at(place.queue))
    AnswerPollsLocked(who, place.queue, calls);
}

std::optional<worker_api::Assignment> Impl::AssignLocked(Entry& entry, const Identity& who,
                                                         Calls& calls) {
  auto token = gate_.Admit(entry.attempt);
  if (!token) {  // Offer saw to that; the engine asks after it, and ends it as lost
    LogOf(entry).Error("no start token can be made for an attempt",
                       {{"error", token.error().message}});
    EraseLocked(entries_.find(IdOf(entry.attempt.key)), calls);
    return std::nullopt;
  }
  lines_.Remove(entry.place);
  entry.stage = Stage::kAssigned;
  entry.asked = false;
  HoldLocked(entry, who);
  SetDueLocked(entry, ports_.clock.Monotonic() + options_.lease);
  return worker_api::Assignment{entry.attempt.key, entry.place.queue, *std::move(token)};
}

void Impl::ReturnLocked(Entry& entry, std::string_view why, Calls& calls) {
  LogOf(entry).Info("an attempt goes back to its place",
                    {{"worker", HolderOf(entry.who)}, {"why", std::string(why)}});
  ++returned_;
  AnswerPollsLocked(entry.who, entry.place.queue, calls);  // for another, if one waits
  LetGoLocked(entry, calls);
  SetDueLocked(entry, Duration(0));
  entry.who = {};
  WaitLocked(entry, calls);
}

void Impl::RunLocked(Entry& entry, const Identity& who, std::string holder, Calls& calls) {
  if (entry.stage == Stage::kRunning && entry.holder == holder) return HeardLocked(entry);
  LeaveStageLocked(entry, calls);
  entry.stage = Stage::kRunning;
  ++running_;
  entry.holder = std::move(holder);
  entry.heard_at = entry.begun_at = ports_.clock.Monotonic();
  entry.began_at = ports_.clock.Now();
  HoldLocked(entry, who);
  SetDueLocked(entry, entry.heard_at + options_.lease);
}

void Impl::EndLocked(Entry& entry, model::Outcome outcome, Calls& calls) {
  LogOf(entry).Warning("an attempt is over without a word of its worker's",
                       {{"holder", entry.holder}, {"why", outcome.error}});
  lost_ += outcome.verdict == model::Verdict::kLost ? 1 : 0;
  LeaveStageLocked(entry, calls);
  entry.stage = Stage::kEnded;
  entry.outcome = std::move(outcome);
  entry.outcome->started_at = entry.began_at;
  entry.outcome->ended_at = ports_.clock.Now();
  CountLocked(*entry.outcome);
  if (sink_ == nullptr) return;
  ++speaking_;
  calls.push_back([this, sink = sink_, key = entry.attempt.key, outcome = *entry.outcome] {
    sink->Ended(key, outcome);
    Spoken();
  });
}

void Impl::Cancel(const model::AttemptKey& key) {
  Calls calls;
  {
    const Lock lock(mutex_);
    const auto known = entries_.find(IdOf(key));
    if (sink_ == nullptr || known == entries_.end()) return;
    Entry& entry = known->second;
    switch (entry.stage) {
      case Stage::kWaiting:
      case Stage::kAssigned:
        WithdrawLocked(entry, calls);
        break;
      case Stage::kRunning: {
        if (entry.cancel) break;
        CancelLocked(entry);
        const auto worker = workers_.find(entry.who);
        if (worker == workers_.end()) break;
        for (const std::uint64_t beat : std::set(worker->second.beats)) {
          Beating& beating = beats_.at(beat);
          for (Beating::One& one : beating.ones)
            if (one.good && one.id == known->first) {
              one.pulse.reply = executor::Reply::kCancel;
              beating.news = true;
            }
          if (beating.news && beating.open == 0) AnswerBeatLocked(beat, calls);
        }
        break;
      }
      case Stage::kWithdrawn:
      case Stage::kEnded:
        break;
    }
  }
  Make(calls);
}

void Impl::WithdrawLocked(Entry& entry, Calls& calls) {
  if (entry.stage == Stage::kWaiting && entry.place.order != 0) lines_.Remove(entry.place);
  if (entry.stage == Stage::kAssigned) {
    LetGoLocked(entry, calls);
    entry.who = {};
  }
  entry.stage = Stage::kWithdrawn;
  SetDueLocked(entry, ports_.clock.Monotonic() + kWithdrawAgain);
  calls.push_back([this, key = entry.attempt.key] { SayWithdrawn(key); });
}

/// Claims the start, so that nobody else can: the engine ends what is to stop and has not begun.
/// Where somebody has begun it, nothing changes (I5).
void Impl::SayWithdrawn(const model::AttemptKey& key) {
  Lock lock(mutex_);
  const auto known = entries_.find(IdOf(key));
  if (known == entries_.end() || known->second.stage != Stage::kWithdrawn || sink_ == nullptr)
    return;
  Word word{key, std::string(kWithdrawer), Word::Kind::kStarted, {}};
  if (known->second.gate_is_ours) {
    word.kind = Word::Kind::kVerdict;
    word.outcome =
        executor::OutcomeOf(executor::ExecutionStatus::kCancelled, "cancelled before it started");
    word.outcome.ended_at = ports_.clock.Now();
  }
  executor::AttemptSink* const sink = sink_;
  ++speaking_;
  lock.unlock();
  const bool opens = word.kind == Word::Kind::kStarted;
  sink->Hear(std::move(word), [this, key, opens](const executor::Heard& heard) {
    if (!opens ||
        (heard.reply != executor::Reply::kGoOn && heard.reply != executor::Reply::kCancel))
      return;
    {
      const Lock again(mutex_);
      const auto at = entries_.find(IdOf(key));
      if (at == entries_.end() || at->second.stage != Stage::kWithdrawn) return;
      at->second.gate_is_ours = true;
    }
    SayWithdrawn(key);
  });
  Spoken();
}

executor::Capacity Impl::GetCapacity() const {
  const Lock lock(mutex_);
  const auto used = static_cast<std::uint32_t>(entries_.size());
  const std::uint32_t begun = used - std::min(used, unbegun_);
  const executor::Capacity capacity{.max = sink_ == nullptr ? used : options_.max_waiting + begun,
                                    .used = used};
  if (capacity.free() == 0) room_wanted_ = true;
  return capacity;
}

std::string Impl::WaitsForLocked(
    const Entry& entry, std::map<std::pair<std::string, Labels>, std::size_t>& serving) const {
  const Place& place = entry.place;
  const auto [count, added] =
      serving.try_emplace({place.tenant + "/" + place.queue, place.required});
  if (added)
    count->second = static_cast<std::size_t>(std::ranges::count_if(workers_, [&](const auto& each) {
      return each.first.tenant.value == place.tenant && !IsBarred(each.first) &&
             each.second.registration->slots.contains(place.queue) &&
             std::ranges::includes(each.second.labels, place.required);
    }));
  return fmt::format("waits for a worker of queue '{}'{} since {}; {} such workers are there",
                     place.queue, WithLabels(place), FormatInstant(entry.waits_since),
                     count->second);
}

executor::Inspection Impl::InspectLocked(
    const Attempt& attempt, std::map<std::pair<std::string, Labels>, std::size_t>& serving,
    Calls& calls) {
  const auto known = entries_.find(IdOf(attempt.key));
  if (known == entries_.end()) {
    // That of an attempt that nobody has begun is the engine's.
    if (attempt.holder.find('/') == std::string::npos) return executor::Absent{};
    Entry& entry = NewLocked(attempt.key);
    entry.attempt = attempt;
    if (attempt.holder == kWithdrawer) {  // an earlier process was about to end it
      entry.gate_is_ours = true;
      WithdrawLocked(entry, calls);
      return executor::Pending{"is being withdrawn"};
    }
    // It was let in through another engine's gate; from now on it has a lease here.
    RunLocked(entry, IdentityOf(attempt.key.tenant, attempt.holder), attempt.holder, calls);
    entry.began_at = {};  // its token knows
    return executor::Running{};
  }
  Entry& entry = known->second;
  LearnLocked(entry, attempt);
  if (entry.stage < Stage::kRunning && attempt.holder.find('/') != std::string::npos &&
      attempt.holder != kWithdrawer) {
    // The gate let it in, and how that was answered did not come here.
    RunLocked(entry, IdentityOf(attempt.key.tenant, attempt.holder), attempt.holder, calls);
    entry.began_at = {};
  }
  switch (entry.stage) {
    case Stage::kWaiting:
      return executor::Pending{WaitsForLocked(entry, serving), true};
    case Stage::kAssigned:
      return executor::Pending{fmt::format("worker {} has it and has not begun", entry.who.worker)};
    case Stage::kWithdrawn:
      return executor::Pending{"is being withdrawn"};
    case Stage::kRunning:
      return executor::Running{};
    case Stage::kEnded:
      break;
  }
  return executor::Ended{*entry.outcome};
}

Result<std::vector<executor::Inspection>> Impl::Inspect(std::span<const Attempt> attempts) {
  Calls calls;
  std::vector<executor::Inspection> answers;
  answers.reserve(attempts.size());
  {
    const Lock lock(mutex_);
    std::map<std::pair<std::string, Labels>, std::size_t> serving;
    for (const Attempt& attempt : attempts)
      answers.push_back(InspectLocked(attempt, serving, calls));
  }
  Make(calls);
  return answers;
}

std::vector<model::AttemptKey> Impl::List() const {
  const Lock lock(mutex_);
  std::vector<model::AttemptKey> keys;
  keys.reserve(entries_.size());
  for (const auto& [id, entry] : entries_)
    if (entry.stage != Stage::kEnded) keys.push_back(entry.attempt.key);
  return keys;
}

executor::Metrics Impl::GetMetrics() const {
  const Lock lock(mutex_);
  std::uint64_t slots = 0;
  for (const auto& [who, worker] : workers_)
    for (const auto& [queue, count] : worker.registration->slots) slots += count;
  return {.active = running_,
          .max = std::max<std::uint64_t>(slots, running_),
          .executed = executed_,
          .failed = failed_,
          .mean_duration = durations_.Mean(),
          .p99_duration = durations_.Quantile(0.99),
          .lines_dropped = lines_dropped_};
}

QueueFigures Impl::Figures() const {
  const Lock lock(mutex_);
  std::map<std::string, std::uint64_t> waiting;
  for (const auto& [tenant, own] : waiting_)
    for (const auto& [line, count] : own.lines) waiting[PlaceOfLine(tenant, line).queue] += count;
  return {.waiting = std::move(waiting),
          .workers = workers_.size(),
          .returned = returned_,
          .lost = lost_,
          .stale_words = stale_words_};
}

void Impl::Settled(std::span<const model::AttemptKey> keys) {
  Calls calls;
  {
    const Lock lock(mutex_);
    for (const model::AttemptKey& key : keys)
      if (const auto known = entries_.find(IdOf(key)); known != entries_.end())
        EraseLocked(known, calls);
  }
  Make(calls);
}

/// What runs elsewhere goes on without an engine, and what waits is offered again by the next.
Status Impl::Drain(Duration) {
  Calls calls;
  Lock lock(mutex_);
  sink_ = nullptr;
  while (!polls_.empty()) AnswerPollLocked(polls_.begin()->first, {}, calls);
  while (!beats_.empty()) AnswerBeatLocked(beats_.begin()->first, calls);
  lock.unlock();
  Make(calls);
  lock.lock();
  quiet_.wait(lock, [this] { return speaking_ == 0; });
  return {};
}

std::vector<WorkerStatus> Impl::Roster() const {
  const Lock lock(mutex_);
  const Duration now = ports_.clock.Monotonic();
  std::vector<WorkerStatus> roster;
  roster.reserve(workers_.size());
  for (const auto& [who, worker] : workers_) {
    const auto held = held_.find(who);
    roster.push_back({.registration = worker.registration,
                      .registered_at = worker.registered_at,
                      .heard_at = worker.heard_at,
                      .silence = now - worker.heard,
                      .loads = held == held_.end() ? decltype(Hold::used){} : held->second.used});
  }
  return roster;
}

std::map<worker_api::Identity, Departure> Impl::TakeDepartures() {
  const Lock lock(mutex_);
  return std::exchange(departures_, {});
}

}  // namespace headworks::executor_queue
