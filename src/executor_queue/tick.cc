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
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kResolveAgain = std::chrono::seconds(1);
constexpr std::size_t kMostStoredBytes = std::size_t{4} << 20;  // in one go, unless one is larger

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
      no_loss_before_ = now + options_.lease;
    last_tick_ = now;
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
    Entry& entry = entries_.at(due_.begin()->second);
    const Duration until =
        std::max(entry.stage == Stage::kRunning ? entry.heard_at + options_.lease : now,
                 entry.stage == Stage::kWithdrawn ? now : no_loss_before_);
    if (until > now) {
      SetDueLocked(entry, until);
    } else if (entry.stage == Stage::kRunning) {
      LoseLocked(entry,
                 fmt::format("worker {} has said nothing for {}", entry.who.worker,
                             FormatDuration(options_.lease)),
                 calls);
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
  for (auto at = workers_.begin(); at != workers_.end();) {
    const auto worker = at++;
    if (now < std::max(worker->second.heard + options_.lease, no_loss_before_)) continue;
    ports_.log.Warning("a worker is no longer heard",
                       {{"tenant", worker->first.tenant.value},
                        {"worker", worker->first.worker},
                        {"incarnation", worker->first.incarnation},
                        {"since", FormatInstant(worker->second.heard_at)}});
    ForgetWorkerLocked(worker, calls);
  }
  std::vector<std::uint64_t> again;
  for (const auto& [no, beating] : beats_)
    if (beating.ask_again_at <= now) again.push_back(no);
  for (const std::uint64_t no : again) AskPulsesLocked(no, calls);
}

Duration Impl::NextDueLocked() const {
  Duration next = next_tidy_;
  if (!due_.empty()) next = std::min(next, due_.begin()->first);
  if (!polls_due_.empty()) next = std::min(next, polls_due_.begin()->first);
  if (!beats_due_.empty()) next = std::min(next, beats_due_.begin()->first);
  return next;
}

bool Impl::RunNext() {
  {
    Lock lock(mutex_);
    if (!starts_.empty()) {
      StartJob job = std::move(starts_.front());
      starts_.pop_front();
      lock.unlock();
      Resolve(std::move(job));
      return true;
    }
  }
  return StoreLogs();
}

/// What a task's attempt needs, or the end of it.
void Impl::Resolve(StartJob job) {
  auto resolved = ports_.resolver.Resolve(job.attempt);
  model::Outcome failure;
  if (resolved) {
    std::string why = resolved->rendered ? WhyNotElsewhere(*resolved->rendered) : "";
    auto made = MakeJob(job.attempt, *std::move(resolved));
    if (made && why.empty())
      return job.done(Started{Reply::kGoOn, std::move(job.work_token), *std::move(made)});
    failure = {.verdict = model::Verdict::kFailed,
               .reason = model::Reason::kDispatchFailed,
               .error = why.empty() ? made.error().message : std::move(why)};
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
  SayVerdict(job.work_token, std::move(failure),
             [done = std::move(job.done)](const Result<Reply>& reply) {
               if (!reply) return done(Error(reply.error()));
               // It is over before it began, unless that could not be said.
               const bool again = *reply == Reply::kAskAgain;
               done(Started{.reply = again ? Reply::kAskAgain : Reply::kStop});
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
  std::vector<log_store::Batch> batches;
  std::map<Id, LogState> states;
  Status stored;
  for (const LogJob& job : jobs)
    if (stored) stored = Gather(job, states, batches);
  if (stored && !batches.empty()) stored = ports_.logs.Append(batches);
  {
    const Lock lock(mutex_);
    storing_ = false;
    waiting_log_bytes_ -= bytes;
    for (const auto& [id, state] : states)
      if (const auto known = entries_.find(id); stored && known != entries_.end())
        known->second.log = state;
    for (const auto& [id, state] : states)
      if (stored) lines_dropped_ += state.dropped;
    if (!logs_.empty()) work_.notify_one();
  }
  if (!stored)
    ports_.log.Warning("lines of tasks cannot be stored; their workers say them again",
                       {{"error", stored.error().message}});
  for (LogJob& job : jobs) job.done(stored ? job.reply : Reply::kAskAgain);
  return true;
}

/// What of these lines is to be stored: what is there already is not stored again.
Status Impl::Gather(const LogJob& job, std::map<Id, LogState>& states,
                    std::vector<log_store::Batch>& batches) {
  const auto [at, added] = states.try_emplace(IdOf(job.key));
  LogState& state = at->second;
  if (added) {
    {
      const Lock lock(mutex_);
      if (const auto known = entries_.find(at->first); known != entries_.end())
        state = known->second.log;
    }
    state.dropped = 0;
    if (!state.known) {
      HEADWORKS_ASSIGN(const auto page, ports_.logs.Tail({.tenant = job.key.tenant,
                                                          .run = job.key.run,
                                                          .task = job.key.task,
                                                          .map_index = job.key.map_index,
                                                          .epoch = job.key.epoch,
                                                          .max_lines = 1}));
      state.last = page.entries.empty() ? 0 : page.entries.back().line.number;
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
    state.bytes += line.bytes.size() + 16;
    if (state.bytes <= options_.max_log_bytes) {
      batch.lines.push_back(line);
      continue;
    }
    state.full = true;
    batch.lines.push_back(
        {.number = line.number,
         .stream = log_store::Stream::kNote,
         .at = line.at,
         .bytes = fmt::format("cut here: more than {} bytes of output", options_.max_log_bytes)});
    ++state.dropped;
  }
  if (!batch.lines.empty()) batches.push_back(std::move(batch));
  return {};
}

}  // namespace headworks::executor_queue
