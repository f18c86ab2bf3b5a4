// Service: who is there, and who gets what.

#include <fmt/format.h>

#include <algorithm>

#include "border.h"
#include "headworks/executor/execution_status.h"
#include "impl.h"

namespace headworks::executor_queue {

using worker_api::Polled;

namespace {

/// Registered at a time: whoever ends again and again, or means ill, leaves room for others.
constexpr std::size_t kMostOfOneName = 1'000;

Error Closed() { return {Code::kUnavailable, "the engine is not running; say it again later"}; }

}  // namespace

Result<executor::AttemptSink*> Impl::SpeakLocked() {
  if (sink_ == nullptr) return Closed();
  ++speaking_;
  return sink_;
}

void Impl::Spoken() {
  const Lock lock(mutex_);
  if (--speaking_ == 0) quiet_.notify_all();
}

Result<Impl::Worker*> Impl::FindLocked(const Identity& who) {
  if (sink_ == nullptr) return Closed();
  const auto found = workers_.find(who);
  if (found == workers_.end())
    return Error{Code::kNotFound,
                 fmt::format("worker '{}' is not registered here; register, and go on with what it "
                             "holds",
                             HolderOf(who))};
  found->second.heard = ports_.clock.Monotonic();
  found->second.heard_at = ports_.clock.Now();
  return &found->second;
}

void Impl::Register(worker_api::Registration registration, Done<worker_api::Welcome> done) {
  if (const Status good = CheckRegistration(registration); !good) return done(good.error());
  Labels labels(registration.labels);
  std::ranges::sort(labels);
  labels.erase(std::ranges::unique(labels).begin(), labels.end());
  if (!registration.artifact_dir.empty()) labels.emplace_back(kPassesArtifacts);
  Calls calls;
  const auto welcome = [&]() -> Result<worker_api::Welcome> {
    const Lock lock(mutex_);
    const Identity who = registration.who;
    const Result<Worker*> known = FindLocked(who);
    if (!known && known.error().code != Code::kNotFound) return known.error();
    if (!known) HEADWORKS_TRY(MakeRoomLocked(who, calls));
    const auto next = workers_.lower_bound({who.tenant, who.worker, ""});
    if (!known && next != workers_.end() && next->first.tenant == who.tenant &&
        next->first.worker == who.worker)
      WarnOfTwinLocked(who, next->first);
    departures_.erase(who);
    Worker& worker = workers_[who];
    // They ask for what it served before.
    for (const PollNo no : std::set(worker.polls)) AnswerPollLocked(no, {}, calls);
    worker.registration = std::make_shared<const worker_api::Registration>(std::move(registration));
    worker.labels = std::move(labels);
    worker.heard = ports_.clock.Monotonic();
    worker.heard_at = ports_.clock.Now();
    if (!known) worker.registered_at = worker.heard_at;
    WakeLocked(worker.heard + options_.lease);
    return worker_api::Welcome{options_.lease, options_.heartbeat_every};
  }();
  Make(calls);
  done(welcome);
}

Status Impl::MakeRoomLocked(const Identity& who, Calls& calls) {
  const auto full = [](std::size_t count, std::string_view of, std::string_view name) {
    return Error{Code::kUnavailable,
                 fmt::format("{} workers{}{} are registered already; try again later", count, of,
                             name.empty() ? "" : fmt::format(" '{}'", name))};
  };
  const auto first = workers_.lower_bound({who.tenant, who.worker, ""});
  auto end = first, oldest = workers_.end();
  std::size_t alike = 0, own = 0;
  for (;
       end != workers_.end() && end->first.tenant == who.tenant && end->first.worker == who.worker;
       ++end, ++alike)
    if (!held_.contains(end->first) &&
        (oldest == workers_.end() || end->second.heard < oldest->second.heard))
      oldest = end;
  const std::size_t share = options_.max_workers - options_.max_workers / 4;
  if (workers_.size() >= share)
    own = static_cast<std::size_t>(std::ranges::count(
        workers_, who.tenant, [](const auto& each) { return each.first.tenant; }));
  std::optional<Error> none;
  if (own >= share) none = full(own, " of tenant", who.tenant.value);
  if (workers_.size() >= options_.max_workers) none = full(workers_.size(), "", "");
  if (alike >= kMostOfOneName) none = full(alike, " of the name", who.worker);
  if (!none) return {};
  if (oldest == workers_.end()) return *none;
  ForgetWorkerLocked(oldest, Departure::kDisplaced, calls);
  return {};
}

void Impl::WarnOfTwinLocked(const Identity& who, const Identity& other) {
  if (!twins_.try_emplace({who.tenant, who.worker}, ports_.clock.Monotonic()).second) return;
  ports_.log.Warning("two workers have the same name; each is known by its incarnation",
                     {{"tenant", who.tenant.value},
                      {"worker", who.worker},
                      {"incarnation", who.incarnation},
                      {"other", other.incarnation}});
}

void Impl::PollFor(worker_api::Poll poll, Done<Polled> done) {
  if (const Status good = CheckIdentity(poll.who); !good) return done(good.error());
  Calls calls;
  {
    Lock lock(mutex_);
    const Result<Worker*> worker = FindLocked(poll.who);
    const Status good =
        worker ? CheckPoll(poll, *(*worker)->registration) : Status(Error(worker.error()));
    if (!good) {
      lock.unlock();
      return done(good.error());
    }
    const Labels labels = (*worker)->labels;
    const bool barred = IsBarred(poll.who);
    Polled polled{.assignments = {}, .drain = barred, .leave = IsLeaving(poll.who)};
    for (const auto& [queue, free] : poll.free)
      if (barred)
        TakeBackLocked(**worker, queue, free, calls);
      else
        GiveLocked(**worker, queue, free, polled.assignments, calls);
    if (!polled.assignments.empty() || poll.wait == Duration(0) || polled.leave) {
      Answer<Polled>(calls, std::move(done), std::move(polled));
    } else {
      if ((*worker)->polls.size() >= worker_api::kMaxPolls)
        AnswerPollLocked(*(*worker)->polls.begin(), {}, calls);
      const PollNo no = ++next_poll_;
      (*worker)->polls.insert(no);
      for (const auto& [queue, free] : poll.free)
        if (!barred && free > 0 &&
            UsedLocked(poll.who, queue) < (*worker)->registration->slots.at(queue))
          lines_.AddPoll(no, poll.who.tenant.value, queue, labels);
      // The next one is a word, too: whoever polls is there.  What it holds needs heartbeats.
      const Duration due = ports_.clock.Monotonic() + std::min(poll.wait, options_.heartbeat_every);
      polls_due_.insert({due, no});
      polls_.emplace(
          no, WaitingPoll{std::move(poll.who), std::move(poll.free), labels, due, std::move(done)});
      WakeLocked(due);
      TellOfRoomLocked(calls);  // for whom it waits, there is some
    }
  }
  Make(calls);
}

void Impl::AnswerPollLocked(PollNo no, Polled polled, Calls& calls) {
  const auto found = polls_.find(no);
  WaitingPoll& poll = found->second;
  for (const auto& [queue, free] : poll.free)
    lines_.RemovePoll(no, poll.who.tenant.value, queue, poll.labels);
  polls_due_.erase({poll.due, no});
  if (const auto worker = workers_.find(poll.who); worker != workers_.end())
    worker->second.polls.erase(no);
  polled.drain = IsBarred(poll.who);
  polled.leave = IsLeaving(poll.who);
  Answer<Polled>(calls, std::move(poll.done), std::move(polled));
  polls_.erase(found);
}

void Impl::HoldLocked(Entry& entry, const Identity& who) {
  entry.who = who;
  held_[who].ids.insert(IdOf(entry.attempt.key));
  if (entry.attempt.workflow) TakeSlotLocked(entry);
}

void Impl::TakeSlotLocked(Entry& entry) {
  entry.slot = model::QueueOf(entry.attempt.task());
  WorkerStatus::Load& load = held_.at(entry.who).used[entry.slot];
  ++load.held;
  load.running += entry.stage == Stage::kRunning ? 1 : 0;
}

void Impl::LearnLocked(Entry& entry, const executor::Attempt& attempt) {
  if (entry.attempt.workflow) return;
  entry.attempt = attempt;
  if (entry.stage == Stage::kAssigned || entry.stage == Stage::kRunning) TakeSlotLocked(entry);
}

void Impl::LetGoLocked(Entry& entry, Calls& calls) {
  FreeSlotLocked(entry, calls);
  const auto held = held_.find(entry.who);
  held->second.ids.erase(IdOf(entry.attempt.key));
  if (held->second.ids.empty()) held_.erase(held);
}

void Impl::FreeSlotLocked(Entry& entry, Calls& calls) {
  if (entry.slot.empty()) return;
  const std::string queue = std::exchange(entry.slot, "");
  auto& used = held_.at(entry.who).used;
  const auto count = used.find(queue);
  const std::uint32_t before = count->second.held--;
  count->second.running -= entry.stage == Stage::kRunning ? 1 : 0;
  if (count->second.held == 0) used.erase(count);
  // A poll that came while all of its slots were taken gets nothing: it is to come again.
  const auto worker = workers_.find(entry.who);
  if (worker == workers_.end()) return;
  const auto& slots = worker->second.registration->slots;
  if (const auto own = slots.find(queue); own != slots.end() && before >= own->second)
    AnswerPollsLocked(entry.who, queue, calls);
}

std::uint32_t Impl::UsedLocked(const Identity& who, const std::string& queue) const {
  const auto held = held_.find(who);
  if (held == held_.end()) return 0;
  const auto used = held->second.used.find(queue);
  return used == held->second.used.end() ? 0 : used->second.held;
}

void Impl::GiveLocked(const Worker& worker, const std::string& queue, std::uint32_t free,
                      std::vector<worker_api::Assignment>& given, Calls& calls) {
  const Identity& who = worker.registration->who;
  const std::uint32_t slots = worker.registration->slots.at(queue);
  const std::uint32_t used = UsedLocked(who, queue);
  const auto unknown = UnknownLocked(who, queue, free, slots);
  free -= static_cast<std::uint32_t>(unknown.size());
  for (const Entry* const entry : unknown)
    if (auto token = gate_.Admit(entry->attempt))
      given.push_back({entry->attempt.key, queue, *std::move(token)});
  free = std::min(free, slots - std::min(slots, used));
  for (const Id& id : lines_.Take(who.tenant.value, queue, worker.labels, free))
    if (auto assignment = AssignLocked(entries_.at(id), who, calls))
      given.push_back(*std::move(assignment));
}

std::vector<Impl::Entry*> Impl::UnknownLocked(const Identity& who, const std::string& queue,
                                              std::uint32_t free, std::uint32_t slots) {
  std::vector<Entry*> unbegun;
  const std::uint32_t used = UsedLocked(who, queue);
  if (free + used <= slots) return unbegun;
  for (const Id& id : held_.at(who).ids)
    if (Entry& entry = entries_.at(id);
        entry.stage == Stage::kAssigned && !entry.asked && entry.slot == queue)
      unbegun.push_back(&entry);
  // Whoever was answered before has begun to begin it: the last ones are those it did not hear of.
  std::ranges::sort(unbegun, {}, [](const Entry* entry) {
    return std::pair(-entry->due, IdOf(entry->attempt.key));
  });
  unbegun.resize(std::min<std::size_t>(unbegun.size(), std::min(free, free + used - slots)));
  return unbegun;
}

void Impl::AnswerPollsLocked(const Identity& who, const std::string& queue, Calls& calls) {
  const auto worker = workers_.find(who);
  if (worker == workers_.end()) return;
  for (const PollNo no : std::set(worker->second.polls))
    if (polls_.at(no).free.contains(queue)) AnswerPollLocked(no, {}, calls);
}

void Impl::HandBack(const Identity& who, std::vector<std::string> start_tokens, Done<bool> done) {
  if (const Status good = CheckIdentity(who); !good) return done(good.error());
  if (start_tokens.size() > worker_api::kMaxSlots)
    return done(
        Error{Code::kInvalidArgument, fmt::format("{} attempts at once; at most {}",
                                                  start_tokens.size(), worker_api::kMaxSlots)});
  std::vector<Id> given;
  for (const std::string& token : start_tokens) {
    const auto start = ports_.tokens.Verify(token, executor::TokenUse::kStart);
    // One whose token has ended went back by itself.
    if (start) given.push_back(IdOf(start->attempt));
    if (!start && start.error() != executor::TokenFault::kExpired)
      return done(executor::ToError(start.error()));
  }
  Calls calls;
  {
    Lock lock(mutex_);
    if (const Result<Worker*> worker = FindLocked(who); !worker) {
      lock.unlock();
      return done(Error(worker.error()));
    }
    for (const Id& id : given)
      if (const auto known = entries_.find(id); known != entries_.end() &&
                                                known->second.stage == Stage::kAssigned &&
                                                known->second.who == who)
        ReturnLocked(known->second, "its worker handed it back", calls);
  }
  Make(calls);
  done(true);
}

void Impl::Leave(const Identity& who, Done<bool> done) {
  if (const Status good = CheckIdentity(who); !good) return done(good.error());
  Calls calls;
  {
    Lock lock(mutex_);
    if (sink_ == nullptr) {
      lock.unlock();
      return done(Closed());
    }
    if (const auto worker = workers_.find(who); worker != workers_.end())
      ForgetWorkerLocked(worker, Departure::kLeft, calls);
    if (const auto held = held_.find(who); held != held_.end())
      for (const Id& id : std::set(held->second.ids)) {
        Entry& entry = entries_.at(id);
        if (entry.stage == Stage::kAssigned)
          ReturnLocked(entry, "its worker left", calls);
        else
          EndLocked(entry,
                    OutcomeOf(executor::ExecutionStatus::kLost,
                              fmt::format("worker {} left without a verdict on it", who.worker)),
                    calls);
      }
  }
  Make(calls);
  done(true);
}

void Impl::ForgetWorkerLocked(Workers_::iterator at, Departure why, Calls& calls) {
  if (departures_.size() < options_.max_workers) departures_.insert_or_assign(at->first, why);
  const Worker worker = std::move(at->second);
  workers_.erase(at);
  for (const PollNo poll : worker.polls) AnswerPollLocked(poll, {}, calls);
  for (const std::uint64_t beat : worker.beats) AnswerBeatLocked(beat, calls);
}

}  // namespace headworks::executor_queue
