// Service: who is there, and who gets what.

#include <fmt/format.h>

#include <algorithm>

#include "border.h"
#include "impl.h"

namespace headworks::executor_queue {

using worker_api::Polled;

namespace {

constexpr std::size_t kMostPolls = 64;  // of one worker

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
  const auto welcome = [&]() -> Result<worker_api::Welcome> {
    const Lock lock(mutex_);
    const Identity who = registration.who;
    const Result<Worker*> known = FindLocked(who);
    if (!known && known.error().code != Code::kNotFound) return known.error();
    if (!known && workers_.size() >= options_.max_workers)
      return Error{Code::kUnavailable, fmt::format("{} workers are registered already; try again "
                                                   "later",
                                                   workers_.size())};
    const auto next = workers_.lower_bound({who.tenant, who.worker, ""});
    if (!known && next != workers_.end() && next->first.tenant == who.tenant &&
        next->first.worker == who.worker)
      ports_.log.Warning("two workers have the same name; each is known by its incarnation",
                         {{"tenant", who.tenant.value},
                          {"worker", who.worker},
                          {"incarnation", who.incarnation},
                          {"other", next->first.incarnation}});
    Worker& worker = workers_[who];
    worker.registration = std::move(registration);
    worker.labels = std::move(labels);
    worker.heard = ports_.clock.Monotonic();
    worker.heard_at = ports_.clock.Now();
    if (!known) worker.registered_at = worker.heard_at;
    WakeLocked(worker.heard + options_.lease);
    return worker_api::Welcome{options_.lease, options_.heartbeat_every};
  }();
  done(welcome);
}

void Impl::PollFor(worker_api::Poll poll, Done<Polled> done) {
  if (const Status good = CheckIdentity(poll.who); !good) return done(good.error());
  Calls calls;
  {
    Lock lock(mutex_);
    const Result<Worker*> worker = FindLocked(poll.who);
    const Status good =
        worker ? CheckPoll(poll, (*worker)->registration) : Status(Error(worker.error()));
    if (!good) {
      lock.unlock();
      return done(good.error());
    }
    const Labels labels = (*worker)->labels;
    Polled polled;
    for (const auto& [queue, free] : poll.free)
      for (const Id& id : lines_.Take(poll.who.tenant.value, queue, labels, free))
        if (auto assignment = AssignLocked(entries_.at(id), poll.who, calls))
          polled.assignments.push_back(*std::move(assignment));
    if (!polled.assignments.empty() || poll.wait == Duration(0)) {
      Answer<Polled>(calls, std::move(done), std::move(polled));
    } else {
      if ((*worker)->polls.size() >= kMostPolls)
        AnswerPollLocked(*(*worker)->polls.begin(), {}, calls);
      const PollNo no = ++next_poll_;
      (*worker)->polls.insert(no);
      for (const auto& [queue, free] : poll.free)
        if (free > 0) lines_.AddPoll(no, poll.who.tenant.value, queue, labels);
      // The next one is a word, too: whoever polls need not say otherwise that it lives.
      const Duration due = ports_.clock.Monotonic() + std::min(poll.wait, options_.heartbeat_every);
      polls_due_.insert({due, no});
      polls_.emplace(
          no, WaitingPoll{std::move(poll.who), std::move(poll.free), labels, due, std::move(done)});
      WakeLocked(due);
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
  Answer<Polled>(calls, std::move(poll.done), std::move(polled));
  polls_.erase(found);
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
      ForgetWorkerLocked(worker, calls);
    if (const auto held = held_.find(who); held != held_.end())
      for (const Id& id : std::set(held->second)) {
        Entry& entry = entries_.at(id);
        if (entry.stage == Stage::kAssigned)
          ReturnLocked(entry, "its worker left", calls);
        else
          LoseLocked(entry, fmt::format("worker {} left without a verdict on it", who.worker),
                     calls);
      }
  }
  Make(calls);
  done(true);
}

void Impl::ForgetWorkerLocked(Workers_::iterator at, Calls& calls) {
  const Worker worker = std::move(at->second);
  workers_.erase(at);
  for (const PollNo poll : worker.polls) AnswerPollLocked(poll, {}, calls);
  for (const std::uint64_t beat : worker.beats) AnswerBeatLocked(beat, calls);
}

}  // namespace headworks::executor_queue
