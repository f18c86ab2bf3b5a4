// Gather: what happened since the last round, in the order in which it is to be applied.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "headworks/engine/engine.h"

namespace headworks::engine {
namespace {

constexpr std::size_t kInboxBatch = 1'000;
/// What a burst leaves of the mailbox's memory.
constexpr std::size_t kKeptMail = 16'384;
constexpr Duration kWatchedPoll = std::chrono::seconds(1);

}  // namespace

void Engine::Post(Mail mail) {
  {
    const std::scoped_lock lock(mutex_);
    if (!closed_) {
      mail_.push_back(std::move(mail));
      if (mail_.size() == 1) mail_arrived_.notify_one();
      return;
    }
  }
  if (auto* work = std::get_if<Work>(&mail)) {
    std::vector<Work> works;
    works.push_back(std::move(*work));
    Refuse(std::move(works));
  }
}

void Engine::Gather() {
  std::vector<Mail>& mail = taken_mail_;
  mail.clear();
  if (mail.capacity() > kKeptMail) mail = {};
  {
    const std::scoped_lock lock(mutex_);
    mail.swap(mail_);
    if (queueing_stopped_) start_tasks_ = false;
    if (std::exchange(appended_, false)) next_inbox_ = Duration(0);
  }
  if (!later_.empty() && later_at_ <= clock_.Monotonic())
    for (auto& work : std::exchange(later_, {})) Enqueue(std::move(work));
  for (auto& item : mail) {
    if (auto* work = std::get_if<Work>(&item))
      Enqueue(std::move(*work));
    else if (auto* started = std::get_if<StartedNote>(&item))
      started_.push_back(std::move(*started));
    else if (auto* late = std::get_if<LateAnswer>(&item))
      late_.push_back(std::move(*late));
    else
      AskLater(std::get<Unanswered>(item));
  }
  std::erase_if(late_, [this](const LateAnswer& late) { return ApplyLate(late); });
  GatherInbox();
  GatherTimers();
  GatherStarted();
  LoadHolders();
  RefreshLimits();
  OfferDuePlaces();
  Admit();
}

void Engine::GatherInbox() {
  const Duration mono = clock_.Monotonic();
  if (mono < next_inbox_ || backlog_.size() > kInboxBatch) return;
  next_inbox_ = mono + options_.inbox_poll;
  const Duration rest = watch_ ? std::max(options_.inbox_poll, kWatchedPoll) : options_.inbox_poll;
  const auto version = database_.inbox().DataVersion();
  if (version && *version == data_version_) {
    next_inbox_ = mono + rest;
    return;
  }
  bool complete = true;
  for (std::int64_t after = 0;;) {
    const auto rows = database_.runs().ReadInbox(shards_, after, kInboxBatch);
    if (!rows) {
      logger_.Warning("inbox cannot be read", {{"error", rows.error().message}});
      return;
    }
    for (const auto& row : *rows)
      if (inbox_held_.insert(row.id).second) Enqueue(DecodeInbox(row));
    if (rows->size() < kInboxBatch) break;
    after = rows->back().id;
    if (inbox_held_.size() > 4 * kInboxBatch) {
      complete = false;  // the rest is read when these are consumed
      break;
    }
  }
  if (!version || !complete) return;
  data_version_ = *version;
  next_inbox_ = mono + rest;
}

Engine::Work Engine::DecodeInbox(const store::InboxRow& row) {
  Work work{.tenant = row.tenant, .run = row.run, .inbox_id = row.id, .dedupe_key = row.dedupe_key};
  if (row.kind == "start") {
    StartWork start;
    if (auto request = control::DecodeStart(row.payload))
      start.request = std::move(*request);
    else
      start.result = Error(request.error());
    work.what = std::move(start);
  } else {
    CommandWork command;
    if (auto decoded = control::DecodeCommand(row.payload))
      command.command = std::move(*decoded);
    else
      command.result = Error(decoded.error());
    work.run = command.command.run;
    work.what = std::move(command);
  }
  return work;
}

Engine::Work Engine::EventOf(const Slot& slot, model::Event event) const {
  return {
      .tenant = slot.run.header.tenant, .run = slot.run.header.run_no, .what = std::move(event)};
}

void Engine::GatherTimers() {
  const Duration mono = clock_.Monotonic();
  while (!timers_.empty() && timers_.front().due <= mono) {
    std::ranges::pop_heap(timers_, std::greater<>{});
    const Timer timer = std::move(timers_.back());
    timers_.pop_back();
    const LiveRef& ref = timer.ref;
    const auto slot = slots_.find(ref.run);
    switch (timer.kind) {
      case Timer::Kind::kRun:
      case Timer::Kind::kTask: {
        model::TimerDue due{.when = timer.when, .task = std::nullopt};
        if (timer.kind == Timer::Kind::kTask) due.task = ref.task;
        // A run that was evicted derives its timers when it comes back.
        if (slot != slots_.end()) backlog_.push_back(EventOf(*slot->second, due));
        break;
      }
      case Timer::Kind::kWake:
        WakeRun(timer);
        break;
      case Timer::Kind::kReoffer:
        if (slot != slots_.end() && IsWanted(timer))
          Offer(MakeAttempt(*slot->second, ref.task, ref.epoch));
        break;
      case Timer::Kind::kInspect:
        if (slot != slots_.end() && IsWanted(timer))
          Doubt(MakeAttempt(*slot->second, ref.task, ref.epoch));
        break;
      case Timer::Kind::kAsk:  // a run that was evicted asks again when it comes back
        if (slot != slots_.end()) Ask(*slot->second, {ref.task, timer.when});
        break;
    }
  }
}

void Engine::AddTimer(Timer timer) {
  timers_.push_back(std::move(timer));
  std::ranges::push_heap(timers_, std::greater<>{});
  if (timers_.size() < tidy_timers_at_) return;
  std::erase_if(timers_, [this](const Timer& old) { return !IsWanted(old); });
  // A run that comes and goes arms the same ones again.
  const auto what = [](const Timer& t) { return std::tuple(t.ref, t.kind, t.when); };
  std::ranges::sort(timers_, [&](const Timer& a, const Timer& b) {
    return std::tuple(what(a), a.due) < std::tuple(what(b), b.due);
  });
  const auto repeated = std::ranges::unique(timers_, {}, what);
  timers_.erase(repeated.begin(), repeated.end());
  std::ranges::make_heap(timers_, std::greater<>{});
  tidy_timers_at_ = std::max(kFewTimers, 2 * timers_.size());
}

bool Engine::IsWanted(const Timer& timer) const {
  const auto slot = slots_.find(timer.ref.run);
  switch (timer.kind) {
    case Timer::Kind::kRun:
    case Timer::Kind::kAsk:
      return slot != slots_.end();
    case Timer::Kind::kTask:
      return slot != slots_.end() &&
             !model::IsTerminal(slot->second->run.tasks[timer.ref.task.value].state);
    case Timer::Kind::kWake:
      return slot == slots_.end();
    case Timer::Kind::kReoffer:
    case Timer::Kind::kInspect: {
      const auto soft = soft_failures_.find(timer.ref);
      return soft != soft_failures_.end() && soft->second.due == timer.due &&
             (soft->second.answers == kInDoubt) == (timer.kind == Timer::Kind::kInspect);
    }
  }
  return true;
}

void Engine::GatherStarted() {
  const Duration mono = clock_.Monotonic();
  while (!started_.empty() && started_.front().at + options_.started_delay <= mono) {
    const model::AttemptKey key = std::move(started_.front().key);
    started_.pop_front();
    const auto slot = slots_.find(key.run);
    if (slot == slots_.end()) continue;
    const model::TaskRun& task = slot->second->run.tasks[key.task.value];
    if (key.epoch >= slot->second->run.header.next_epoch) continue;  // of a later owner
    if (task.epoch != key.epoch || !model::IsLive(task.state))
      dispatcher_.Cancel(MakeAttempt(*slot->second, key.task, key.epoch));  // a stale speaker (I3)
    else if (task.state == model::TaskState::kQueued)
      backlog_.push_back(EventOf(*slot->second, model::AttemptStarted{key.task, key.epoch}));
  }
}

bool Engine::ApplyLate(const LateAnswer& late) {
  const LiveRef ref{late.key.run, late.key.task, late.key.epoch};
  const bool dropped = !slots_.contains(ref.run);  // by a round that failed
  const auto loaded = Load(late.key.tenant, ref.run, clock_.Now());
  if (!loaded) {
    // Set aside as stuck: its attempt is offered once more when it comes back.
    if (loaded.error().code == Code::kConflict) soft_failures_.try_emplace(ref);
    return loaded.error().code != Code::kUnavailable;
  }
  Slot& slot = **loaded;
  if (dropped) Continue(slot, model::ContinueRun{});
  if (late.result.disposition == model::Disposition::kDispatched)
    Took(LaneOf(slot, ref.task), late.key.tenant, *slot.run.workflow, ref.task);
  else
    ApplyLateFailure(slot, ref, late);
  return true;
}

void Engine::ApplyLateFailure(Slot& slot, const LiveRef& ref, const LateAnswer& late) {
  const model::TaskRun& task = slot.run.tasks[ref.task.value];
  const auto soft = soft_failures_.find(ref);
  const int doubt = soft == soft_failures_.end() ? 0 : std::min(soft->second.answers, 0);
  // Given up as a zombie meanwhile: whether it is over, its executor says.
  if (task.epoch == ref.epoch && task.zombie && doubt == 0)
    return Doubt(MakeAttempt(slot, ref.task, ref.epoch));
  // It started, or is over, or the platform had said so before (I5).
  if (task.epoch != ref.epoch || task.state != model::TaskState::kQueued || doubt == kAnsweredNo) {
    ++stats_.superseded;
    return;
  }
  const executor::Attempt attempt = MakeAttempt(slot, ref.task, ref.epoch);
  if (late.fails_task) {
    soft_failures_[ref] = {.answers = kAnsweredNo};
    dispatcher_.Cancel(attempt);  // an executor may have it nevertheless
    backlog_.push_back(EventOf(slot, model::AttemptEnded{ref.task,
                                                         ref.epoch,
                                                         {.verdict = model::Verdict::kFailed,
                                                          .reason = model::Reason::kDispatchFailed,
                                                          .error = late.result.cause,
                                                          .ended_at = clock_.Now()}}));
    return;
  }
  const bool no = late.result.disposition == model::Disposition::kRejected ||
                  late.result.disposition == model::Disposition::kRefused;
  if (!no && doubt == kInDoubt) return;                // its executor is being asked
  if (!no && task.cancel_sent) return Doubt(attempt);  // it is to be asked
  if (auto overcome = overcome_failures_.extract(ref)) soft_failures_.insert(std::move(overcome));
  LogOffer("offer answered late", attempt, late.result);
  Answered(slot, attempt, late.result);
}

void Engine::Enqueue(Work work) {
  const auto* command = std::get_if<CommandWork>(&work.what);
  const bool cancel = command && command->command.kind == control::CommandKind::kCancel;
  (cancel ? cancels_ : backlog_).push_back(std::move(work));
}

Duration Engine::NextDue() const {
  if (!cancels_.empty() || !backlog_.empty() || !isolated_.empty() || grant_more_ ||
      (!to_inspect_.empty() && OwnsShards()))
    return Duration(0);
  Duration next = std::min({next_inbox_, lease_due_, next_scan_});
  if (!soft_failures_.empty() && OwnsShards()) next = std::min(next, held_up_at_);
  if (!unstarted_.empty() && OwnsShards()) next = std::min(next, unstarted_.front().due);
  if (MayAdmit()) next = std::min(next, admit_at_);
  if (!later_.empty()) next = std::min(next, later_at_);
  if (!late_.empty()) next = std::min(next, clock_.Monotonic() + kScanAgain);
  if (!holders_.empty()) next = std::min(next, holders_at_);
  if (!to_mark_.empty()) next = std::min(next, mark_at_);
  if (!timers_.empty()) next = std::min(next, timers_.front().due);
  next = std::min(next, active_runs_.due());
  if (pools_.waiting() > 0) next = std::min(next, limits_at_);
  if (pools_.waiting() > 0 && start_tasks_) next = std::min(next, pools_.due());
  if (!started_.empty()) next = std::min(next, started_.front().at + options_.started_delay);
  return next;
}

void Engine::KeepLease() {
  const Duration mono = clock_.Monotonic();
  if (mono < lease_due_) return;
  lease_due_ = mono + options_.lease_ttl / 3;
  const auto renewed = database_.runs().Renew(guards_, options_.lease_ttl);
  renewal_failed_ = !renewed;
  if (renewed) {
    lease_end_ = mono + options_.lease_ttl;
    return;
  }
  if (renewed.error().code == Code::kLeaseLost) return Lose(renewed.error());
  stats_.trouble = renewed.error().message;
  logger_.Warning("lease cannot be renewed", {{"error", stats_.trouble}});
}

}  // namespace headworks::engine
