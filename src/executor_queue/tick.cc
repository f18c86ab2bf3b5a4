// Tick: what happens because time passes, and what may block.

#include <fmt/format.h>

#include <algorithm>

#include "border.h"
#include "headworks/executor/execution_status.h"
#include "impl.h"
#include "job.h"

namespace headworks::executor_queue {

using executor::Reply;
using worker_api::Started;

namespace {

constexpr Duration kTidyInterval = std::chrono::seconds(1);
constexpr Duration kTwinsAgain = std::chrono::minutes(1);
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kResolveAgain = std::chrono::seconds(1);
constexpr std::size_t kMostStoredBytes = std::size_t{4} << 20;  // in one go, unless one is larger
constexpr std::string_view kCut = "cut here: more than ";

/// It may be said again.
bool IsPassing(const Error& error) {
  return error.code != Code::kCorrupt && error.code != Code::kInvalidArgument;
}

}  // namespace

void Impl::WakeLocked(Duration due) {
  if (due >= next_tick_) return;
  next_tick_ = due;
  ticks_.notify_all();
}

Duration Impl::Tick() {
  Calls calls;
  Duration next{};
  {
    const Lock lock(mutex_);
    if (sink_ == nullptr) return next_tick_ = Duration::max();
    const Duration now = ports_.clock.Monotonic();
    // This process slept, and with it whatever was said to it meanwhile (I7).
    if (now - last_tick_ >
        std::min(options_.lease / 2, std::max(options_.lease / 4, 2 * kTidyInterval)))
      no_loss_before_ = std::max(no_loss_before_, now + options_.lease);
    last_tick_ = now;
    if (now >= earlier_over_at_) {
      earlier_over_at_ = Duration::max();
      calls.emplace_back([this] { ForgetEarlierLease(); });
    }
    while (!polls_due_.empty() && polls_due_.begin()->first <= now)
      AnswerPollLocked(polls_due_.begin()->second, {}, calls);
    while (!beats_due_.empty() && beats_due_.begin()->first <= now)
      BeatDueLocked(beats_due_.begin()->second, now, calls);
    ExpireLocked(now, calls);
    if (now >= next_tidy_) TidyLocked(now, calls);
    next = next_tick_ = NextDueLocked();
  }
  Make(calls);
  return next;
}

/// Its words are judged in a moment, unless the engine cannot.
void Impl::BeatDueLocked(std::uint64_t no, Duration now, Calls& calls) {
  Beating& beating = beats_.at(no);
  if (beating.open == 0 || beating.timer > beating.due) return AnswerBeatLocked(no, calls);
  beats_due_.erase({beating.timer, no});
  beating.timer = now + std::min<Duration>(options_.heartbeat_every, kPatience);
  beats_due_.insert({beating.timer, no});
}

void Impl::ExpireLocked(Duration now, Calls& calls) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const Id id = due_.begin()->second;
    Entry& entry = entries_.at(id);
    Duration until = entry.stage == Stage::kWithdrawn ? now : std::max(now, no_loss_before_);
    if (entry.stage == Stage::kRunning) {
      // Before it has its job, its holder can say nothing (I7).
      const Duration heard_at = starting_.contains(id) ? now : entry.heard_at;
      until = std::max(until, heard_at + options_.lease);
      // What was not begun has the start gate to guard it (I5).
      if (!entry.let_in_here) until = std::max(until, no_earlier_loss_before_);
    }
    if (until > now) {
      SetDueLocked(entry, until);
    } else if (entry.stage == Stage::kRunning) {
      EndLocked(entry, SilenceOf(entry), calls);
    } else if (entry.stage == Stage::kAssigned) {
      ReturnLocked(entry, "its worker did not begin it within a lease", calls);
    } else {
      SetDueLocked(entry, now + kTidyInterval);
      calls.push_back([this, key = entry.attempt.key] { SayWithdrawn(key); });
    }
  }
}

void Impl::TidyLocked(Duration now, Calls& calls) {
  next_tidy_ = now + std::min<Duration>(kTidyInterval, options_.lease / 4);
  transfers_.CloseIdle();
  for (auto at = workers_.begin(); at != workers_.end();) {
    const auto worker = at++;
    if (now < std::max(worker->second.heard + options_.lease, no_loss_before_)) continue;
    ports_.log.Warning("a worker is no longer heard",
                       {{"tenant", worker->first.tenant.value},
                        {"worker", worker->first.worker},
                        {"incarnation", worker->first.incarnation},
                        {"since", FormatInstant(worker->second.heard_at)}});
    ForgetWorkerLocked(worker, Departure::kSilent, calls);
  }
  std::erase_if(twins_, [&](const auto& each) { return now >= each.second + kTwinsAgain; });
  std::vector<std::uint64_t> again;
  for (const auto& [no, beating] : beats_)
    if (beating.ask_again_at <= now)
      again.push_back(no);
    else
      next_tidy_ = std::min(next_tidy_, beating.ask_again_at);
  for (const std::uint64_t no : again) AskPulsesLocked(no, calls);
}

void Impl::ForgetEarlierLease() {
  if (const Status said = ports_.leases->SetLongest(options_.lease); !said)
    ports_.log.Warning("the next start will wait for a longer lease than is in use",
                       {{"error", said.error().message}});
}

Duration Impl::NextDueLocked() const {
  Duration next = std::min(next_tidy_, earlier_over_at_);
  if (!due_.empty()) next = std::min(next, due_.begin()->first);
  if (!polls_due_.empty()) next = std::min(next, polls_due_.begin()->first);
  if (!beats_due_.empty()) next = std::min(next, beats_due_.begin()->first);
  return next;
}

bool Impl::StartIsDueLocked() const {
  return !starts_.empty() && resolving_ < std::max<std::size_t>(options_.threads, 1);
}

bool Impl::RunNext() {
  {
    Lock lock(mutex_);
    if (StartIsDueLocked()) {
      StartJob job = std::move(starts_.front());
      starts_.pop_front();
      ++resolving_;
      lock.unlock();
      Resolve(std::move(job));
      lock.lock();
      --resolving_;
      work_.notify_one();
      return true;
    }
  }
  return StoreLogs() || (options_.threads == 0 && transfers_.RunNext());
}

void Impl::AnswerStarting(const Id& id, const Result<Started>& answer) {
  Lock lock(mutex_);
  const auto waiting = starting_.extract(id);
  if (const auto known = entries_.find(id);
      known != entries_.end() && known->second.stage == Stage::kRunning) {
    // Its code begins with this answer: whoever asks again has not had an earlier one.
    if (answer && answer->reply == Reply::kGoOn) known->second.begun_at = ports_.clock.Monotonic();
    HeardLocked(known->second);
  }
  lock.unlock();
  if (waiting.empty()) return;
  for (const auto& done : waiting.mapped()) done(answer);
}

/// What a task's attempt needs, or the end of it.
void Impl::Resolve(StartJob job) {
  const Id id = IdOf(job.attempt.key);
  auto resolved = ports_.resolver.Resolve(job.attempt);
  model::Outcome failure;
  if (resolved) {
    NoteNeeded(id, resolved->artifacts);
    std::string why = resolved->rendered ? WhyNotElsewhere(*resolved->rendered) : "";
    std::string much = WhyTooMuch(resolved->artifacts);
    auto made = MakeJob(job.attempt, *std::move(resolved));
    if (made && why.empty() && much.empty())
      return AnswerStarting(id, Started{Reply::kGoOn, std::move(job.work_token), *std::move(made)});
    failure = {.verdict = model::Verdict::kFailed, .reason = model::Reason::kDispatchFailed};
    if (!much.empty()) {
      failure.reason = model::Reason::kArtifact;
      failure.error = std::move(much);
    } else {
      failure.error = why.empty() ? made.error().message : std::move(why);
    }
  } else if (resolved.error().code == Code::kUnavailable) {
    failure = {.verdict = model::Verdict::kSnoozed,
               .error = resolved.error().message,
               .not_before = ports_.clock.Now() + kResolveAgain};
  } else {
    const bool expression = resolved.error().code == Code::kInvalidArgument ||
                            resolved.error().code == Code::kAtCapacity;
    failure = {.verdict = model::Verdict::kFailed,
               .reason = expression ? model::Reason::kExpression : model::Reason::kDispatchFailed,
               .error = resolved.error().message};
  }
  SayVerdict(job.work_token, std::move(failure), [this, id](const Result<Reply>& reply) {
    if (!reply) return AnswerStarting(id, Error(reply.error()));
    // It is over before it began, unless that could not be said.
    const bool again = *reply == Reply::kAskAgain;
    AnswerStarting(id, Started{.reply = again ? Reply::kAskAgain : Reply::kStop});
  });
}

bool Impl::StoreLogs() {
  std::vector<LogJob> jobs;
  std::size_t bytes = 0;
  {
    const Lock lock(mutex_);
    if (storing_ || logs_.empty()) return false;
    storing_ = true;
    while (!logs_.empty() && (jobs.empty() || bytes + logs_.front().bytes <= kMostStoredBytes)) {
      bytes += logs_.front().bytes;
      jobs.push_back(std::move(logs_.front()));
      logs_.pop_front();
    }
  }
  StoreTogether(jobs);
  {
    const Lock lock(mutex_);
    storing_ = false;
    waiting_log_bytes_ -= bytes;
    if (!logs_.empty()) work_.notify_one();
  }
  for (LogJob& job : jobs) {
    if (!job.stored)
      ports_.log.Warning("lines of a task cannot be stored",
                         {{"run", std::to_string(job.key.run.value)},
                          {"epoch", std::to_string(job.key.epoch.value)},
                          {"error", job.stored.error().message}});
    if (job.stored || IsPassing(job.stored.error()))
      job.done(job.stored ? job.reply : Reply::kAskAgain);
    else
      job.done(Error{Code::kInvalidArgument, job.stored.error().message});
  }
  return true;
}

/// What one attempt's lines meet with is nothing to others (I11).
void Impl::StoreTogether(std::vector<LogJob>& jobs) {
  std::vector<log_store::Batch> batches;
  std::map<Id, LogState> states;
  for (LogJob& job : jobs) {
    job.stored = Gather(job, states, batches);
    if (job.stored) continue;
    const Lock lock(mutex_);
    RememberLocked(job, job.stored, {});
  }
  const Status stored = batches.empty() ? Status() : ports_.logs.Append(batches);
  if (!stored && !IsPassing(stored.error())) {
    {
      const Lock lock(mutex_);
      for (const LogJob& job : jobs)
        if (job.stored) RememberLocked(job, stored, {});
    }
    for (LogJob& job : jobs)
      if (job.stored) job.stored = StoreAlone(job);
    return;
  }
  const Lock lock(mutex_);
  for (LogJob& job : jobs) {
    if (!job.stored) continue;
    job.stored = stored;
    RememberLocked(job, stored, states.at(IdOf(job.key)));
  }
  for (const auto& [id, state] : states)
    if (stored) lines_dropped_ += state.dropped;
}

Status Impl::StoreAlone(const LogJob& job) {
  std::vector<log_store::Batch> batches;
  std::map<Id, LogState> states;
  Status stored = Gather(job, states, batches);
  if (stored && !batches.empty()) stored = ports_.logs.Append(batches);
  const Lock lock(mutex_);
  RememberLocked(job, stored, states[IdOf(job.key)]);
  if (stored) lines_dropped_ += states[IdOf(job.key)].dropped;
  return stored;
}

void Impl::RememberLocked(const LogJob& job, const Status& stored, const LogState& state) {
  const auto known = entries_.find(IdOf(job.key));
  if (known == entries_.end()) return;
  LogState& log = known->second.log;
  if (stored) {
    log = state;
    return;
  }
  log.known = false;  // some of them may be there
  const std::int64_t first = job.lines.front().number;
  if (IsPassing(stored.error())) log.gap = log.gap == 0 ? first : std::min(log.gap, first);
}

/// What of these lines is to be stored: what is there already is not stored again.
Status Impl::Gather(const LogJob& job, std::map<Id, LogState>& states,
                    std::vector<log_store::Batch>& batches) {
  const Id id = IdOf(job.key);
  LogState state;
  const std::int64_t first = job.lines.front().number;
  if (const auto at = states.find(id); at != states.end()) {
    state = at->second;
  } else {
    {
      const Lock lock(mutex_);
      if (const auto known = entries_.find(id); known != entries_.end()) state = known->second.log;
    }
    state.dropped = 0;
    if (state.gap != 0 && first > state.gap)
      return Error{Code::kUnavailable, fmt::format("line {} is to come first", state.gap)};
    state.gap = 0;
    if (!state.known) {
      HEADWORKS_ASSIGN(const auto page, ports_.logs.Tail({.tenant = job.key.tenant,
                                                          .run = job.key.run,
                                                          .task = job.key.task,
                                                          .map_index = job.key.map_index,
                                                          .epoch = job.key.epoch,
                                                          .max_lines = 1}));
      if (!page.entries.empty()) {
        const log_store::Line& last = page.entries.back().line;
        state.last = last.number;
        // An earlier process may have cut it.
        state.full |= last.stream == log_store::Stream::kNote && last.bytes.starts_with(kCut);
      }
      state.known = true;
    }
  }
  log_store::Batch batch{job.key, {}};
  for (const log_store::Line& line : job.lines) {
    if (line.number <= state.last) continue;
    state.last = line.number;
    if (state.full) {
      ++state.dropped;
      continue;
    }
    state.bytes += worker_api::BytesOf(line);
    if (state.bytes <= options_.max_log_bytes) {
      batch.lines.push_back(line);
      continue;
    }
    state.full = true;
    batch.lines.push_back(
        {.number = line.number,
         .stream = log_store::Stream::kNote,
         .at = line.at,
         .bytes = fmt::format("{}{} bytes of output", kCut, options_.max_log_bytes)});
    ++state.dropped;
  }
  if (!batch.lines.empty()) batches.push_back(std::move(batch));
  states[id] = state;
  return {};
}

}  // namespace headworks::executor_queue
