// Perform: what a committed round justifies.  Every effect is repeatable; what a crash loses is
// derived again from the state (I1).

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "headworks/alert/alert.h"
#include "headworks/engine/engine.h"
#include "headworks/executor/attempt_log.h"

namespace headworks::engine {
namespace {

constexpr Duration kFirstSoftDelay = std::chrono::seconds(1);
constexpr Duration kLongestSoftDelay = std::chrono::seconds(60);
/// What waited for an executor is spread over this once it answers.
constexpr Duration kRecoverWithin = std::chrono::seconds(2);
constexpr Duration kInspectAgain = std::chrono::seconds(5);
constexpr Duration kHeldInspectAgain = std::chrono::minutes(1);
constexpr Duration kAskAgain = std::chrono::seconds(1);
constexpr std::size_t kRefusedInARow = 64;

bool MayYetStart(const model::TaskRun& task) {
  return task.state == model::TaskState::kQueued && !task.cancel_sent;
}

}  // namespace

void Engine::Perform(const store::Round& round, std::vector<Work>& works) {
  for (const std::int64_t id : round.consumed) inbox_held_.erase(id);
  pools_.Committed();
  for (const auto& guard : round.guards)
    guards_[static_cast<std::size_t>(guard.shard.value)].round = guard.round;
  lease_due_ = clock_.Monotonic() + options_.lease_ttl / 3;
  lease_end_ = clock_.Monotonic() + options_.lease_ttl;
  renewal_failed_ = false;
  ++stats_.rounds;
  stats_.rows += round_rows_;
  stats_.round_rows.Observe(static_cast<double>(round_rows_));
  stats_.inbox_messages += round.consumed.size();
  for (const store::QueuedItem& item : round.items)
    if (item.queue == options_.alert_queues.front())
      ++(alert::KindOf(item.id) == alert::kRunStuck ? stats_.alerts_of_runs
                                                    : stats_.alerts_of_tasks);
  PerformEffects(works);
}

void Engine::PerformEffects(std::vector<Work>& works) {
  Effects effects;
  for (const RunNo run : visited_)
    if (const auto slot = slots_.find(run); slot != slots_.end() && slot->second->touched)
      PerformSlot(*slot->second, effects);
  if (!effects.told.empty()) observer_->Committed(effects.told);
  if (observer_)
    for (const RunNo run : visited_)
      if (const auto slot = slots_.find(run); slot != slots_.end() && slot->second->deleted)
        observer_->Deleted(slot->second->run.header.tenant, run, slot->second->run.header.run_id);
  // An executor that hears that a holder lives, and only then that it is over, keeps nothing of it.
  Answer(works);
  if (!effects.settled.empty()) dispatcher_.Settled(effects.settled);
  for (const auto& attempt : effects.offers) Offer(attempt);
  stats_.attempts += effects.offers.size();
  std::ranges::move(std::exchange(after_commit_, {}), std::back_inserter(backlog_));
  EvictVisited();
}

void Engine::PerformSlot(Slot& slot, Effects& effects) {
  const model::Changes& changes = slot.changes;
  model::MarkCommitted(slot.run, changes);
  Measure(slot);
  slot.listed.emplace(slot.run.header);
  slot.touched = false;
  slot.insert_input.reset();
  // Whoever says again what is known by now may stop saying it.
  for (const auto& late : std::exchange(slot.superseded, {}))
    effects.settled.push_back(OverAttempt(slot, late.task, late.epoch));
  for (const auto& record : changes.attempts) {
    effects.settled.push_back(OverAttempt(slot, record.task, record.epoch));
    const LiveRef over{slot.run.header.run_no, record.task, record.epoch};
    soft_failures_.erase(over);
    overcome_failures_.erase(over);
    DropOverdue(over);
    if (ClaimOf(slot, record.task, record.epoch) != nullptr) slot.claims.erase(record.task);
  }
  if (!overdue_.empty())
    for (const TaskNo task : changes.tasks)
      if (const LiveRef ref{slot.run.header.run_no, task, slot.run.tasks[task.value].epoch};
          !IsUnstarted(ref))
        DropOverdue(ref);
  for (const auto& offer : changes.offers)
    if (slot.run.tasks[offer.task.value].epoch == offer.epoch &&
        model::IsLive(slot.run.tasks[offer.task.value].state))
      effects.offers.push_back(MakeAttempt(slot, offer.task, offer.epoch));
  for (const auto& cancel : changes.cancels) CancelAttempt(slot, cancel.task, cancel.epoch);
  for (const auto& timer : changes.timers) PushTimer(slot, timer, clock_.Now());
  for (const auto& asked : changes.evaluate) Ask(slot, asked);
  if (!changes.attempts.empty()) grant_more_ |= ReleaseHeld(slot);
  if (changes.more) Continue(slot, model::ContinueRun{});
  CountActive(slot);
  if (observer_) Tell(slot, effects.told);
  slot.changes = {};
}

void Engine::CountActive(Slot& slot) {
  const model::RunHeader& header = slot.run.header;
  if (active_runs_.empty()) {
    slot.active = TakesPlace(slot.run);
    return;
  }
  if (model::IsTerminal(header.state) && active_runs_.IsWaiting(header.run_no)) {
    // It may have had the turn of one group and waited for the other.
    active_runs_.Forget(header.run_no);
    OfferPlaces(header);
  }
  if (header.state == model::RunState::kPending && active_runs_.IsWaiting(header.run_no)) {
    const bool paused = header.paused_at != Instant{};
    const bool aside = active_runs_.StandsAside(header.run_no);
    if (aside && !paused) Continue(slot, model::StartRun{});
    if (paused && !aside) {
      active_runs_.StandAside(header, {header.name});
      OfferPlaces(header);
    }
  }
  const bool active = TakesPlace(slot.run);
  const bool started = slot.changes.started;
  if (active == slot.active && !started) return;
  for (const RunGroup& group : GroupsOf(header)) {
    if (started) active_runs_.Begun(group, clock_.Monotonic());
    if (active != slot.active) active_runs_.Changed(group, active);
  }
  slot.active = active;
  // Where it is over already, others may have found no place meanwhile; one that a rate held up may
  // find that it lets more than one start.
  if (!active || slot.run.workflow->definition().concurrency) OfferPlaces(header);
}

void Engine::Tell(const Slot& slot, std::vector<Change>& told) {
  const model::RunHeader& header = slot.run.header;
  for (const TaskNo task : slot.changes.tasks) {
    const model::TaskRun& state = slot.run.tasks[task.value];
    told.push_back({header.run_no, header.run_id, task, slot.run.workflow->task(task).id,
                    header.state, state.state, state.reason});
  }
  const bool event =
      std::ranges::any_of(slot.changes.events, [](const auto& e) { return e.kind != "mark"; });
  if (event || slot.changes.started || slot.changes.finished)
    told.push_back({header.run_no,
                    header.run_id,
                    std::nullopt,
                    {},
                    header.state,
                    model::TaskState::kWaiting,
                    header.reason});
}

executor::Attempt Engine::MakeAttempt(const Slot& slot, TaskNo task, Epoch epoch) const {
  const model::RunHeader& header = slot.run.header;
  const model::TaskRun& state = slot.run.tasks[task.value];
  executor::Attempt attempt;
  attempt.key = {header.tenant, header.run_no, task, -1, epoch};
  attempt.run_id = header.run_id;
  attempt.try_no = state.tries + 1;
  attempt.generation = state.generation;
  attempt.priority = header.priority + slot.run.workflow->task(task).priority;
  attempt.timeout = slot.run.workflow->task(task).timeout;
  attempt.workflow = slot.run.workflow;
  if (const auto claim = slot.claims.find(task);
      claim != slot.claims.end() && claim->second.epoch == epoch)
    attempt.holder = claim->second.holder;
  return attempt;
}

executor::Attempt Engine::OverAttempt(const Slot& slot, TaskNo task, Epoch epoch) {
  executor::Attempt attempt;
  attempt.key = {slot.run.header.tenant, slot.run.header.run_no, task, -1, epoch};
  attempt.workflow = slot.run.workflow;
  return attempt;
}

void Engine::Offer(const executor::Attempt& attempt) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const auto slot = slots_.find(ref.run);
  if (slot == slots_.end()) return;
  if (const auto soft = soft_failures_.find(ref);
      soft != soft_failures_.end() && soft->second.answers < 0)
    return;
  const model::TaskRun& task = slot->second->run.tasks[ref.task.value];
  if (task.epoch != ref.epoch || !model::IsLive(task.state)) {
    soft_failures_.erase(ref);
    return;
  }
  if (task.cancel_sent) return Doubt(attempt);  // an executor may have it nevertheless
  DropOverdue(ref);
  if (task.reason == model::Reason::kPending || task.reason == model::Reason::kUnknown) {
    backlog_.push_back(EventOf(*slot->second, model::AttemptOverdue{ref.task, ref.epoch}));
  }
  const executor::OfferResult result = dispatcher_.Dispatch(attempt);
  LogOffer("attempt offered", attempt, result);
  Answered(*slot->second, attempt, result);
}

void Engine::Answered(const Slot& slot, const executor::Attempt& attempt,
                      const executor::OfferResult& result) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const std::size_t lane = dispatcher_.LaneOf(attempt.key.tenant, attempt.task());
  switch (result.disposition) {
    case model::Disposition::kDispatched:
      if (auto overcome = soft_failures_.extract(ref))
        overcome_failures_.insert_or_assign(ref, overcome.mapped());
      if (result.answered) Took(lane, attempt.key.tenant, *attempt.workflow, ref.task);
      WatchStart(slot, ref);
      return;
    case model::Disposition::kDeferred:
      soft_failures_[ref].due = Duration(0);
      CountHeldUp(soft_failures_[ref], result);
      Defer(attempt.key.tenant, *attempt.workflow, ref);
      return;
    case model::Disposition::kBackpressure:
    case model::Disposition::kTransient: {
      Soft& soft = soft_failures_[ref];
      const int failures = soft.answers++;
      CountHeldUp(soft, result);
      if (result.disposition == model::Disposition::kTransient) lanes_[lane].troubled = true;
      const Duration base = result.disposition == model::Disposition::kTransient
                                ? std::min<Duration>(kFirstSoftDelay * (1 << std::min(failures, 6)),
                                                     kLongestSoftDelay)
                                : kFirstSoftDelay;
      // Half of it jitters, by a hash, so that many do not come back at once.
      const auto share =
          static_cast<double>(Mix64(static_cast<std::uint64_t>(ref.run.value * 1'000'003 +
                                                               ref.epoch.value + failures)) %
                              1'000) /
          1'000;
      ArmSoft(ref, soft, Timer::Kind::kReoffer,
              std::chrono::duration_cast<Duration>(base * (0.75 + share / 2)));
      if (lanes_[lane].has_lines) {
        Duration& until =
            lanes_[lane].later[LineOf(lane, attempt.key.tenant, *attempt.workflow, ref.task)];
        until = std::max(until, soft.due);
      }
      return;
    }
    case model::Disposition::kRejected:
    case model::Disposition::kRefused:
      soft_failures_[ref] = {.answers = kAnsweredNo};
      backlog_.push_back(EventOf(
          slot, model::OfferAnswered{ref.task, ref.epoch, result.disposition, result.cause}));
      return;
  }
}

void Engine::Took(std::size_t lane, const TenantId& tenant, const model::Workflow& workflow,
                  TaskNo task) {
  if (!lanes_[lane].later.empty()) lanes_[lane].later.erase(LineOf(lane, tenant, workflow, task));
  Recovered(lane);
}

void Engine::Recovered(std::size_t lane) {
  const Duration mono = clock_.Monotonic();
  // Not again and again where answers come and go.
  if (!lanes_[lane].troubled || mono < lanes_[lane].recovered_at + kRecoverWithin) return;
  lanes_[lane].troubled = false;
  lanes_[lane].recovered_at = mono;
  for (auto& [ref, soft] : soft_failures_) {
    const auto slot = slots_.find(ref.run);
    // One that could not be taken even so keeps its backoff, whatever others meet with: at most
    // every second offer is a hurried one.
    const bool hurried = soft.last_hurried >= 0 && soft.answers <= soft.last_hurried + 1;
    if (soft.answers <= 0 || hurried || slot == slots_.end() ||
        LaneOf(*slot->second, ref.task) != lane)
      continue;
    const Duration delay(static_cast<Duration::rep>(
        Mix64(static_cast<std::uint64_t>(ref.run.value * 1'000'003 + ref.epoch.value)) %
        static_cast<std::uint64_t>(kRecoverWithin.count())));
    if (soft.due <= mono + delay) continue;  // none, or sooner
    soft.last_hurried = soft.answers;
    ArmSoft(ref, soft, Timer::Kind::kReoffer, delay);
  }
}

void Engine::ArmSoft(const LiveRef& ref, Soft& soft, Timer::Kind kind, Duration delay) {
  soft.due = clock_.Monotonic() + delay;
  AddTimer(Timer{.due = soft.due, .kind = kind, .when = clock_.Now() + delay, .ref = ref});
}

void Engine::Defer(const TenantId& tenant, const model::Workflow& workflow, const LiveRef& ref) {
  const std::size_t lane = dispatcher_.LaneOf(tenant, workflow.task(ref.task));
  lanes_[lane].deferred[LineOf(lane, tenant, workflow, ref.task)].push_back(ref);
}

void Engine::OfferAgain(std::size_t lane) {
  if (!start_tasks_) return HandBack();
  auto& lines = lanes_[lane].deferred;
  for (auto line = lines.begin(); line != lines.end();) {
    OfferLineAgain(lane, line->first, line->second);
    line = line->second.empty() ? lines.erase(line) : std::next(line);
  }
}

void Engine::OfferLineAgain(std::size_t lane, const LineKey& line, std::deque<LiveRef>& deferred) {
  std::deque<LiveRef> waiting = std::exchange(deferred, {});
  // An executor may have room for some and not for others: those do not keep the engine busy.
  std::size_t refused = 0;
  while (!waiting.empty() && refused < kRefusedInARow && TakesMore(lane, line)) {
    const LiveRef ref = waiting.front();
    waiting.pop_front();
    const std::size_t before = deferred.size();
    const auto slot = slots_.find(ref.run);
    if (slot != slots_.end() && soft_failures_.contains(ref))
      Offer(MakeAttempt(*slot->second, ref.task, ref.epoch));
    refused = deferred.size() > before ? refused + 1 : 0;
  }
  deferred.insert(deferred.begin(), waiting.begin(), waiting.end());  // they are next
}

bool Engine::TakesMore(std::size_t lane, const LineKey& line) const {
  if (!lanes_[lane].has_lines) return dispatcher_.GetCapacity(lane).free() > 0;
  return dispatcher_.GetCredit(lane, TenantId(line.first), line.second).least() > 0;
}

void Engine::HandBack() {
  for (const auto& [ref, soft] : soft_failures_)
    if (const auto slot = slots_.find(ref.run); soft.answers >= 0 && slot != slots_.end())
      Doubt(MakeAttempt(*slot->second, ref.task, ref.epoch));
  for (Lane& lane : lanes_) lane.deferred.clear();
}

void Engine::CancelAttempt(Slot& slot, TaskNo task, Epoch epoch) {
  const executor::Attempt attempt = MakeAttempt(slot, task, epoch);
  dispatcher_.Cancel(attempt);
  // No executor said that it has it; but the answer of one that does may have been lost.
  const auto soft = soft_failures_.find({slot.run.header.run_no, task, epoch});
  if (soft != soft_failures_.end() && soft->second.answers != kInDoubt) Doubt(attempt);
}

void Engine::Doubt(const executor::Attempt& attempt) {
  soft_failures_[{attempt.key.run, attempt.key.task, attempt.key.epoch}] = {.answers = kInDoubt};
  to_inspect_.push_back(attempt);
}

void Engine::Ask(const Slot& slot, const model::Changes::Evaluation& asked) {
  const model::RunHeader& header = slot.run.header;
  evaluator_.Evaluate(
      {header.tenant, header.run_no, header.run_id, asked.task, slot.run.workflow},
      [this, tenant = header.tenant, run = header.run_no, asked](const Result<bool>& answer) {
        if (!answer && answer.error().code == Code::kUnavailable)
          return Post(Unanswered{run, asked});
        model::WhenEvaluated event{.task = asked.task, .since = asked.since};
        if (answer)
          event.holds = *answer;
        else
          event.error = answer.error().message;
        Post(Work{.tenant = tenant, .run = run, .what = model::Event(std::move(event))});
      });
}

void Engine::AskLater(const Unanswered& unanswered) {
  AddTimer(Timer{.due = clock_.Monotonic() + kAskAgain,
                 .kind = Timer::Kind::kAsk,
                 .when = unanswered.asked.since,
                 .ref = {unanswered.run, unanswered.asked.task, Epoch(0)}});
}

void Engine::EndUnstarted(const LiveRef& ref, model::Verdict verdict, std::string_view why) {
  const auto slot = slots_.find(ref.run);
  if (slot == slots_.end()) return;
  const bool unstarted =
      slot->second->run.tasks[ref.task.value].state != model::TaskState::kRunning;
  model::Outcome outcome{.verdict = verdict};
  if (verdict == model::Verdict::kCancelled) outcome.reason = model::Reason::kCancelRequested;
  if (verdict == model::Verdict::kLost) {
    outcome.reason = model::Reason::kLost;
    outcome.error = why;
    outcome.ended_at = clock_.Now();
  }
  backlog_.push_back(EventOf(
      *slot->second, model::AttemptEnded{ref.task, ref.epoch, std::move(outcome), unstarted}));
}

void Engine::InspectRecovered() {
  if (to_inspect_.empty()) return;
  const std::vector<executor::Attempt> asked(std::make_move_iterator(to_inspect_.begin()),
                                             std::make_move_iterator(to_inspect_.end()));
  to_inspect_.clear();
  auto answers = dispatcher_.Inspect(asked);
  // The answer to one question may be another offer, which a second question came before.
  std::set<model::AttemptKey> answered;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (answered.insert(asked[i].key).second)
      ApplyInspection(asked[i], answers ? std::move((*answers)[i])
                                        : executor::Unknown{answers.error().message});
}

void Engine::ApplyInspection(const executor::Attempt& attempt, executor::Inspection answer) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const auto slot = slots_.find(ref.run);
  if (slot == slots_.end()) return;
  const model::TaskRun& task = slot->second->run.tasks[ref.task.value];
  if (task.epoch != ref.epoch || !(model::IsLive(task.state) || task.zombie)) {  // over by now
    soft_failures_.erase(ref);
    return;
  }
  const bool absent = std::holds_alternative<executor::Absent>(answer);
  // Of one that is to stop, and whose holder is not known to live, its executor's word is enough.
  if (const Claim* claim = ClaimOf(*slot->second, ref.task, ref.epoch);
      claim != nullptr && absent && (claim->heard || !task.cancel_sent))
    return ApplyHeldAbsence(attempt, *claim);
  if (absent) return ApplyAbsence(attempt, task);
  if (const auto* unknown = std::get_if<executor::Unknown>(&answer))
    return ApplyUnknown(*slot->second, attempt, unknown->why);
  soft_failures_.erase(ref);
  if (const auto* pending = std::get_if<executor::Pending>(&answer))
    return ApplyPending(*slot->second, attempt, *pending);
  DropOverdue(ref);
  if (auto* ended = std::get_if<executor::Ended>(&answer))
    backlog_.push_back(EventOf(
        *slot->second, model::AttemptEnded{ref.task, ref.epoch, std::move(ended->outcome)}));
  else
    backlog_.push_back(EventOf(*slot->second, model::AttemptStarted{ref.task, ref.epoch}));
}

void Engine::ApplyUnknown(const Slot& slot, const executor::Attempt& attempt,
                          const std::string& why) {
  executor::ForAttempt(logger_, attempt)
      .Warning("it is not known what became of an attempt; asking again", {{"why", why}});
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  if (MayYetStart(slot.run.tasks[ref.task.value]))
    NoteOverdue(slot, attempt, model::Reason::kUnknown,
                "its executor cannot say what became of it: " + why, false);
  else
    AskAboutStart(attempt, {});
  // Asked about twice in one go, it may have been offered in between: that has its own timer.
  if (const auto soft = soft_failures_.find(ref);
      soft != soft_failures_.end() && soft->second.answers == kInDoubt)
    ArmSoft(ref, soft->second, Timer::Kind::kInspect, kInspectAgain);
}

void Engine::ApplyPending(const Slot& slot, const executor::Attempt& attempt,
                          const executor::Pending& pending) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const bool unstarted = MayYetStart(slot.run.tasks[ref.task.value]);
  if (unstarted && overdue_.contains(ref))
    NoteOverdue(slot, attempt, model::Reason::kPending, "its executor has it: " + pending.reason,
                pending.in_line);
  else if (unstarted)
    WatchStart(slot, ref);
  else
    AskAboutStart(attempt, {});
}

void Engine::ApplyHeldAbsence(const executor::Attempt& attempt, const Claim& claim) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  const Duration patience = attempt.task().start_timeout;
  // Its gate is taken, so that offering it again would start nothing; whoever is not answered for
  // so long has stopped.
  if (clock_.Monotonic() - claim.heard_at >= patience) {
    soft_failures_.erase(ref);
    return EndUnstarted(ref, model::Verdict::kLost,
                        fmt::format("its executor does not have it, and {}, which began it, has "
                                    "said nothing for {}",
                                    claim.holder, FormatDuration(patience)));
  }
  executor::ForAttempt(logger_, attempt)
      .Warning("its executor does not have an attempt that somebody began; asking again",
               {{"holder", claim.holder}});
  Soft& soft = soft_failures_[ref];
  soft.answers = kInDoubt;
  ArmSoft(ref, soft, Timer::Kind::kInspect, std::min<Duration>(patience, kHeldInspectAgain));
}

void Engine::ApplyAbsence(const executor::Attempt& attempt, const model::TaskRun& task) {
  const LiveRef ref{attempt.key.run, attempt.key.task, attempt.key.epoch};
  if (task.cancel_sent) return EndUnstarted(ref, model::Verdict::kCancelled);
  if (!start_tasks_) return EndUnstarted(ref, model::Verdict::kInterrupted);
  const auto soft = soft_failures_.find(ref);
  const bool doubted = soft != soft_failures_.end() && soft->second.answers == kInDoubt;
  if (doubted) soft_failures_.erase(soft);
  if (const auto overdue = overdue_.find(ref); overdue != overdue_.end()) {
    if (!doubted) return ApplyOverdueAbsence(attempt, overdue->second);
    overdue->second.absent = false;
  }
  Offer(attempt);  // the same epoch again (I4)
}

}  // namespace headworks::engine
