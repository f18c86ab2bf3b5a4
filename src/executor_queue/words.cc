// Words: what workers say of the attempts that they hold, on its way to the engine and back.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "border.h"
#include "headworks/executor/execution_status.h"
#include "headworks/log_store/chunk.h"
#include "impl.h"
#include "job.h"

namespace headworks::executor_queue {

using executor::AttemptGate;
using executor::Reply;
using executor::TokenClaims;
using executor::TokenFault;
using executor::TokenUse;
using executor::Word;
using model::Verdict;
using worker_api::Identity;
using worker_api::Started;

namespace {

constexpr std::size_t kMostStarts = 16;  // of one attempt
/// Between two pieces of what a worker passes on.
constexpr Duration kTransferRests = std::chrono::minutes(5);
constexpr Duration kAskAgain = std::chrono::milliseconds(500);

std::size_t BytesOf(const std::vector<log_store::Line>& lines) {
  return std::accumulate(
      lines.begin(), lines.end(), std::size_t{0},
      [](std::size_t sum, const log_store::Line& line) { return sum + worker_api::BytesOf(line); });
}

}  // namespace

void Impl::NoteReply(Reply reply) {
  if (reply != Reply::kStop) return;
  const Lock lock(mutex_);
  ++stale_words_;
}

Duration Impl::OverdueAt(const Entry& entry) const {
  if (!entry.attempt.workflow) return Duration::max();
  const Duration late = entry.attempt.task().grace + options_.lease;
  Duration at = Duration::max();
  if (entry.transfer == Transfer::kPassingOn)
    at = entry.moved_at + std::max(kTransferRests, options_.lease);
  else if (entry.attempt.timeout > Duration(0))
    at = std::max(entry.begun_at, entry.moved_at) + entry.attempt.timeout + late;
  if (entry.cancel) at = std::min(at, entry.cancelled_at + late + options_.lease);
  return at;
}

model::Outcome Impl::SilenceOf(const Entry& entry) const {
  using executor::ExecutionStatus;
  if (entry.heard_at < OverdueAt(entry))
    return OutcomeOf(ExecutionStatus::kLost,
                     fmt::format("worker {} has said nothing for {}", entry.who.worker,
                                 FormatDuration(options_.lease)));
  if (!entry.cancel && entry.transfer != Transfer::kNone)
    return OutcomeOf(
        ExecutionStatus::kLost,
        fmt::format("worker {} is heard, and does not go on {} artifacts", entry.who.worker,
                    entry.transfer == Transfer::kFetching ? "fetching" : "passing on"));
  return OutcomeOf(
      entry.cancel ? ExecutionStatus::kCancelled : ExecutionStatus::kTimedOut,
      fmt::format("worker {} has not ended it long after its {} and grace ({})", entry.who.worker,
                  entry.cancel ? "cancel"
                               : fmt::format("timeout ({})", FormatDuration(entry.attempt.timeout)),
                  FormatDuration(entry.attempt.task().grace)));
}

void Impl::HeardLocked(Entry& entry) {
  entry.heard_at = std::max(entry.heard_at, std::min(ports_.clock.Monotonic(), OverdueAt(entry)));
}

void Impl::CancelLocked(Entry& entry) {
  if (!std::exchange(entry.cancel, true)) entry.cancelled_at = ports_.clock.Monotonic();
}

void Impl::TouchLocked(const TokenClaims& work) {
  const auto known = entries_.find(IdOf(work.attempt));
  if (known == entries_.end()) return;
  if (known->second.stage == Stage::kRunning && known->second.holder == work.holder)
    HeardLocked(known->second);
  if (const auto worker = workers_.find(IdentityOf(work.attempt.tenant, work.holder));
      worker != workers_.end()) {
    worker->second.heard = ports_.clock.Monotonic();
    worker->second.heard_at = ports_.clock.Now();
  }
}

void Impl::AdoptLocked(const TokenClaims& work, Calls& calls) {
  const auto known = entries_.find(IdOf(work.attempt));
  if (sink_ == nullptr || (known != entries_.end() && known->second.stage >= Stage::kRunning))
    return;
  Entry& entry = known != entries_.end() ? known->second : NewLocked(work.attempt);
  RunLocked(entry, IdentityOf(work.attempt.tenant, work.holder), work.holder, calls);
  entry.began_at = work.opened_at;
}

void Impl::Start(const Identity& who, std::string start_token, Done<Started> done) {
  if (const Status good = CheckIdentity(who); !good) return done(good.error());
  const auto start = ports_.tokens.Verify(start_token, TokenUse::kStart);
  if (!start) return done(executor::ToError(start.error()));
  if (start->attempt.tenant != who.tenant) return done(executor::ToError(TokenFault::kWrongUse));
  const auto sink = [&]() -> Result<executor::AttemptSink*> {
    const Lock lock(mutex_);
    HEADWORKS_ASSIGN(const Worker* const worker, FindLocked(who));
    // Its token is good for the queues that it registered for, and for nothing else.
    if (const auto known = entries_.find(IdOf(start->attempt));
        known != entries_.end() && known->second.place.order != 0 &&
        !worker->registration->slots.contains(known->second.place.queue))
      return Error{Code::kPermissionDenied,
                   fmt::format("the attempt is of queue '{}', which this worker does not serve",
                               known->second.place.queue)};
    if (const auto known = entries_.find(IdOf(start->attempt));
        known != entries_.end() && known->second.attempt.workflow &&
        worker->registration->artifact_dir.empty() && HasArtifacts(known->second.attempt))
      return Error{Code::kPermissionDenied,
                   "the attempt leaves or needs artifacts, which this worker does not pass on"};
    HEADWORKS_ASSIGN(auto* const open, SpeakLocked());
    AskedLocked(start->attempt, who, true);
    return open;
  }();
  if (!sink) return done(Error(sink.error()));
  gate_.Open(**sink, start_token, HolderOf(who),
             [this, who, start = *start,
              done = std::move(done)](const Result<AttemptGate::Answer>& answer) {
               if (answer) return Opened(who, start, *answer, done);
               {
                 const Lock lock(mutex_);
                 AskedLocked(start.attempt, who, false);  // it may give it up
               }
               done(Error(answer.error()));
             });
  Spoken();
}

void Impl::AskedLocked(const model::AttemptKey& key, const Identity& who, bool asked) {
  const auto known = entries_.find(IdOf(key));
  if (known != entries_.end() && known->second.stage == Stage::kAssigned &&
      known->second.who == who)
    known->second.asked = asked;
}

void Impl::Opened(const Identity& who, const TokenClaims& start, const AttemptGate::Answer& answer,
                  Done<Started> done) {
  NoteReply(answer.reply);
  Calls calls;
  if (answer.reply == Reply::kStop) {
    const Lock lock(mutex_);
    if (const auto known = entries_.find(IdOf(start.attempt));
        known != entries_.end() && known->second.stage == Stage::kAssigned &&
        known->second.who == who)
      FreeSlotLocked(known->second, calls);  // it is nothing to this worker any more
  }
  Make(calls);
  if (!Heard(answer.reply)) return done(Started{.reply = answer.reply});
  {
    const Lock lock(mutex_);
    const auto known = entries_.find(IdOf(start.attempt));
    Entry& entry = known != entries_.end() ? known->second : NewLocked(start.attempt);
    if (entry.stage == Stage::kEnded) {
      Answer<Started>(calls, std::move(done), Started{.reply = Reply::kStop});
    } else {
      // In the second case it came too late to be withdrawn.
      if (answer.reply == Reply::kCancel || entry.stage == Stage::kWithdrawn) CancelLocked(entry);
      // Whoever has said so before may have begun it under an earlier engine.
      const bool known_to_run = entry.stage == Stage::kRunning;
      RunLocked(entry, who, HolderOf(who), calls);
      if (!known_to_run) entry.let_in_here = true;
      if (ports_.clock.Monotonic() >= OverdueAt(entry)) {
        // It counts a lease from here, and this one ends with the last that was heard in time.
        FreeSlotLocked(entry, calls);
        Answer<Started>(calls, std::move(done), Started{.reply = Reply::kStop});
      } else if (entry.cancel) {
        entry.cancel_told = true;
        Answer<Started>(calls, std::move(done),
                        Started{.reply = Reply::kCancel, .work_token = answer.token});
      } else if (!entry.attempt.workflow) {
        // The engine is about to ask after it, and says more then.
        Answer<Started>(calls, std::move(done), Started{});
      } else if (HasArtifacts(entry.attempt) && ArtifactDirLocked(entry).empty()) {
        // Forgotten meanwhile: once it has registered again, it is known where its files are to be.
        Answer<Started>(calls, std::move(done), Started{});
      } else {
        auto& waiting = starting_[IdOf(start.attempt)];
        if (waiting.empty()) {
          starts_.push_back({entry.attempt, answer.token});
          starts_.back().attempt.artifact_dir = ArtifactDirLocked(entry);
        }
        if (waiting.size() < kMostStarts)
          waiting.push_back(std::move(done));
        else
          Answer<Started>(calls, std::move(done), Started{});
        work_.notify_one();
      }
    }
  }
  Make(calls);
}

Result<Identity> Impl::SpeakerOf(std::string_view work_token) {
  const auto work = ports_.tokens.Verify(work_token, TokenUse::kWork);
  if (!work) return executor::ToError(work.error());
  return IdentityOf(work->attempt.tenant, work->holder);
}

void Impl::Complete(std::string work_token, model::Outcome outcome, Done<Reply> done) {
  SayVerdict(work_token, std::move(outcome), std::move(done));
}

void Impl::SayVerdict(const std::string& work_token, model::Outcome outcome, Done<Reply> done) {
  const auto work = ports_.tokens.Verify(work_token, TokenUse::kWork);
  if (!work) return done(executor::ToError(work.error()));
  std::shared_ptr<const model::Workflow> workflow;
  RunId run_id;
  Instant began = work->opened_at;
  const auto sink = [&]() -> Result<executor::AttemptSink*> {
    const Lock lock(mutex_);
    TouchLocked(*work);
    if (const auto known = entries_.find(IdOf(work->attempt)); known != entries_.end()) {
      workflow = known->second.attempt.workflow;
      run_id = known->second.attempt.run_id;
      if (known->second.began_at != Instant{}) began = known->second.began_at;
    }
    return SpeakLocked();
  }();
  if (!sink) return done(Error(sink.error()));
  if (!workflow) {
    AskWhatItIs(**sink, work_token, *work, std::move(done));
    return Spoken();
  }
  auto checked = AcceptOutcome(workflow->task(work->attempt.task), std::move(outcome), began,
                               ports_.clock.Now());
  if (!checked)
    done(Error(checked.error()));
  else if (checked->verdict == Verdict::kSucceeded &&
           !workflow->task(work->attempt.task).artifacts.empty())
    CheckArtifacts(work_token, {work->attempt.tenant, run_id}, IdOf(work->attempt), *checked,
                   std::move(done));
  else
    PassVerdict(**sink, work_token, IdOf(work->attempt), *checked, std::move(done));
  Spoken();
}

void Impl::PassVerdict(executor::AttemptSink& sink, const std::string& work_token, const Id& id,
                       const model::Outcome& outcome, Done<Reply> done) {
  gate_.Say(sink, work_token, Word::Kind::kVerdict, outcome,
            [this, id, outcome, done = std::move(done)](const Result<AttemptGate::Answer>& answer) {
              if (!answer) return done(Error(answer.error()));
              NoteReply(answer->reply);
              Calls calls;
              if (Heard(answer->reply)) {
                const Lock lock(mutex_);
                CountLocked(outcome);
                // Before its worker hears so, and asks for another, or leaves.
                if (const auto known = entries_.find(id);
                    known != entries_.end() && known->second.stage == Stage::kRunning) {
                  LeaveStageLocked(known->second, calls);
                  known->second.stage = Stage::kEnded;
                  known->second.outcome = outcome;
                }
              }
              Make(calls);
              done(answer->reply);
            });
}

/// Of which task it is, the engine says once it has the run at hand, which a word brings about.
void Impl::AskWhatItIs(executor::AttemptSink& sink, const std::string& work_token,
                       const TokenClaims& work, Done<Reply> done) {
  gate_.Say(sink, work_token, Word::Kind::kHeartbeat, {},
            [this, work, done = std::move(done)](const Result<AttemptGate::Answer>& answer) {
              if (!answer) return done(Error(answer.error()));
              NoteReply(answer->reply);
              Calls calls;
              if (Heard(answer->reply)) {
                const Lock lock(mutex_);
                AdoptLocked(work, calls);
              }
              Make(calls);
              done(answer->reply == Reply::kStop ? Reply::kStop : Reply::kAskAgain);
            });
}

void Impl::CountLocked(const model::Outcome& outcome) {
  ++executed_;
  if (outcome.verdict == Verdict::kRetry || outcome.verdict == Verdict::kFailed ||
      outcome.verdict == Verdict::kLost)
    ++failed_;
  if (outcome.started_at != Instant{})
    durations_.Add(std::max(outcome.ended_at - outcome.started_at, Duration(0)));
}

void Impl::Log(std::string work_token, std::vector<log_store::Line> lines, Done<Reply> done) {
  const auto work = ports_.tokens.Verify(work_token, TokenUse::kWork);
  if (!work) return done(executor::ToError(work.error()));
  log_store::Batch batch{work->attempt, std::move(lines)};
  if (const Status good = AcceptLines(batch.lines); !good) return done(good.error());
  if (const Status good = log_store::CheckAppend({&batch, 1}); !good) return done(good.error());
  const std::size_t bytes = BytesOf(batch.lines);
  const auto sink = [&]() -> Result<executor::AttemptSink*> {
    const Lock lock(mutex_);
    TouchLocked(*work);
    // What is too large by itself is taken when nothing else waits.
    if (waiting_log_bytes_ > 0 && waiting_log_bytes_ + bytes > options_.max_waiting_log_bytes)
      return Error{Code::kUnavailable, "too many lines wait to be stored; say them again"};
    HEADWORKS_ASSIGN(auto* const open, SpeakLocked());
    waiting_log_bytes_ += bytes;
    return open;
  }();
  if (!sink) return done(Error(sink.error()));
  gate_.Say(**sink, work_token, Word::Kind::kLog, {},
            [this, work = *work, bytes, lines = std::move(batch.lines),
             done = std::move(done)](const Result<AttemptGate::Answer>& answer) mutable {
              const bool heard = answer && Heard(answer->reply);
              const bool stores = heard && !lines.empty();
              Calls calls;
              {
                const Lock lock(mutex_);
                if (heard) AdoptLocked(work, calls);
                if (stores) {
                  logs_.push_back({work.attempt, std::move(lines), bytes, answer->reply, done});
                  work_.notify_one();
                } else {
                  waiting_log_bytes_ -= bytes;
                }
              }
              Make(calls);
              if (!answer) return done(Error(answer.error()));
              NoteReply(answer->reply);
              if (!stores) done(answer->reply);
            });
  Spoken();
}

void Impl::Beat(worker_api::Heartbeat heartbeat, Done<worker_api::Beaten> done) {
  if (const Status good = CheckIdentity(heartbeat.who); !good) return done(good.error());
  if (heartbeat.work_tokens.size() > worker_api::kMaxSlots)
    return done(Error{Code::kInvalidArgument,
                      fmt::format("{} attempts at once; at most {}", heartbeat.work_tokens.size(),
                                  worker_api::kMaxSlots)});
  if (heartbeat.wait < Duration(0) || heartbeat.wait > worker_api::kMaxWait)
    return done(Error{Code::kInvalidArgument,
                      fmt::format("a heartbeat that waits {}us; 0 to {}", heartbeat.wait.count(),
                                  FormatDuration(worker_api::kMaxWait))});
  Beating beating{.who = heartbeat.who, .done = std::move(done)};
  const std::string holder = HolderOf(heartbeat.who);
  for (std::string& token : heartbeat.work_tokens) {
    const auto work = ports_.tokens.Verify(token, TokenUse::kWork);
    Beating::One one{.token = std::move(token)};
    one.good = work && work->holder == holder && work->attempt.tenant == heartbeat.who.tenant;
    if (one.good) {
      one.id = IdOf(work->attempt);
      one.work = *work;
    }
    if (!one.good) one.pulse.reply = Reply::kStop;  // whoever has no good token is not heard
    beating.ones.push_back(std::move(one));
  }
  Calls calls;
  Lock lock(mutex_);
  const Result<Worker*> worker = FindLocked(heartbeat.who);
  if (!worker) {
    lock.unlock();
    return beating.done(Error(worker.error()));
  }
  if ((*worker)->beats.size() >= worker_api::kMaxBeats)
    AnswerBeatLocked(*(*worker)->beats.begin(), calls);
  const std::uint64_t no = ++next_beat_;
  (*worker)->beats.insert(no);
  // Not so long that the next one would come late.
  beating.due = ports_.clock.Monotonic() + std::min(heartbeat.wait, options_.heartbeat_every);
  for (const Beating::One& one : beating.ones)
    if (const auto known = entries_.find(one.id); one.good && known != entries_.end() &&
                                                  known->second.stage == Stage::kRunning &&
                                                  known->second.holder == holder)
      HeardLocked(known->second);
  for (const Beating::One& one : beating.ones)
    beating.news |= !one.good && !KnowsOfStopLocked(heartbeat.who, one.token);
  beating.news |= IsLeaving(heartbeat.who) && !std::exchange((*worker)->told_to_leave, true);
  WakeLocked(beating.due);
  beating.timer = beating.due;
  beats_due_.insert({beating.timer, no});
  for (Beating::One& one : beating.ones) one.ask = one.good;
  beats_.emplace(no, std::move(beating));
  AskPulsesLocked(no, calls);
  lock.unlock();
  Make(calls);
}

void Impl::AskPulsesLocked(std::uint64_t no, Calls& calls) {
  Beating& beating = beats_.at(no);
  beating.ask_again_at = Duration::max();
  for (std::size_t i = 0; i < beating.ones.size(); ++i) {
    Beating::One& one = beating.ones[i];
    if (!std::exchange(one.ask, false)) continue;
    auto sink = SpeakLocked();
    if (!sink) continue;
    ++beating.open;
    calls.push_back([this, no, i, token = one.token, work = one.work, sink = *sink] {
      gate_.Say(*sink, token, Word::Kind::kHeartbeat, {},
                [this, no, i, work](const Result<AttemptGate::Answer>& answer) {
                  Pulsed(no, i, work, answer);
                });
      Spoken();
    });
  }
  if (beating.open == 0 && (beating.news || beating.due <= ports_.clock.Monotonic()))
    AnswerBeatLocked(no, calls);
}

void Impl::Pulsed(std::uint64_t no, std::size_t index, const TokenClaims& work,
                  const Result<AttemptGate::Answer>& answer) {
  const Reply reply = answer ? answer->reply : Reply::kStop;
  NoteReply(reply);
  Calls calls;
  {
    const Lock lock(mutex_);
    if (Heard(reply)) AdoptLocked(work, calls);
    // It may have been answered without it.
    if (beats_.contains(no)) NotePulseLocked(no, index, answer, calls);
  }
  Make(calls);
}

bool Impl::KnowsOfStopLocked(const Identity& who, const std::string& token) const {
  const auto worker = workers_.find(who);
  return worker != workers_.end() &&
         worker->second.stopped.contains(std::hash<std::string>{}(token));
}

void Impl::NotePulseLocked(std::uint64_t no, std::size_t index,
                           const Result<AttemptGate::Answer>& answer, Calls& calls) {
  Reply reply = answer ? answer->reply : Reply::kStop;
  Beating& beating = beats_.at(no);
  Beating::One& one = beating.ones[index];
  --beating.open;
  const auto known = entries_.find(one.id);
  const bool running = known != entries_.end() && known->second.stage == Stage::kRunning;
  if (running && reply == Reply::kCancel) CancelLocked(known->second);
  if (running && ports_.clock.Monotonic() >= OverdueAt(known->second)) reply = Reply::kStop;
  // It is nothing to this worker any more.
  if (running && reply == Reply::kStop && known->second.holder == one.work.holder)
    FreeSlotLocked(known->second, calls);
  one.pulse.reply = reply;
  if (answer) one.pulse.work_token = answer->token;
  if (reply == Reply::kGoOn && running && known->second.cancel) one.pulse.reply = Reply::kCancel;
  if (one.pulse.reply == Reply::kCancel && !(running && known->second.cancel_told))
    beating.news = true;
  beating.news |= reply == Reply::kStop && !KnowsOfStopLocked(beating.who, one.token);
  if (reply == Reply::kAskAgain) {
    one.ask = true;
    beating.ask_again_at = ports_.clock.Monotonic() + kAskAgain;
    next_tidy_ = std::min(next_tidy_, beating.ask_again_at);
    WakeLocked(next_tidy_);
  }
  if (beating.open == 0 && (beating.news || beating.due <= ports_.clock.Monotonic()))
    AnswerBeatLocked(no, calls);
}

void Impl::AnswerBeatLocked(std::uint64_t no, Calls& calls) {
  const auto found = beats_.find(no);
  Beating& beating = found->second;
  const auto worker = workers_.find(beating.who);
  worker_api::Beaten beaten{.pulses = {}, .leave = IsLeaving(beating.who)};
  beaten.pulses.reserve(beating.ones.size());
  for (Beating::One& one : beating.ones) {
    if (one.pulse.reply == Reply::kCancel)
      if (const auto known = entries_.find(one.id); known != entries_.end())
        known->second.cancel_told = true;
    if (one.pulse.reply == Reply::kStop && worker != workers_.end()) {
      auto& stopped = worker->second.stopped;
      if (stopped.size() >= worker_api::kMaxSlots) stopped.clear();
      stopped.insert(std::hash<std::string>{}(one.token));
    }
    beaten.pulses.push_back(std::move(one.pulse));
  }
  beats_due_.erase({beating.timer, no});
  if (worker != workers_.end()) worker->second.beats.erase(no);
  Answer<worker_api::Beaten>(calls, std::move(beating.done), std::move(beaten));
  beats_.erase(found);
}

}  // namespace headworks::executor_queue
