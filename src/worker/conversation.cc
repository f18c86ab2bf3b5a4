#include "conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace headworks::worker {
namespace {

using executor::Reply;
using model::Verdict;

constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kMaxRetry = std::chrono::seconds(5);
/// Between two heartbeats, whatever is answered; of a short lease an eighth.
constexpr Duration kBeatGap = std::chrono::milliseconds(100);
/// One beside the other that shows only what the other does not, so that whatever has just begun
/// can be told to stop; tasks that are over within the gap need none.
constexpr Duration kExtraBeatGap = std::chrono::milliseconds(200);
constexpr Duration kExtraBeatWait = std::chrono::milliseconds(500);
/// Polls beside the first of each queue.
constexpr std::size_t kMaxPolls = 4;
/// Heartbeats under way, most of which are late.
constexpr std::size_t kMaxBeats = 8;
static_assert(kMaxPolls <= worker_api::kMaxPolls && kMaxBeats <= worker_api::kMaxBeats);
/// Tokens of one word; more are shown by several.
constexpr std::size_t kMaxShownBytes = std::size_t{2} << 20;
/// A worker that is cordoned asks again, at the latest.
constexpr Duration kCordoned = std::chrono::seconds(5);
/// Before the next poll of one whose host had no room for an attempt, and then twice as long.
constexpr Duration kFirstNoRoom = std::chrono::seconds(1);
constexpr Duration kMaxNoRoom = std::chrono::seconds(30);

/// How much of one word is taken by the tokens that it shows.
class Portion {
 public:
  /// False: this one is for the next word, which it begins.
  bool Take(const std::string& token) {
    const bool fits =
        count_ == 0 || (count_ < worker_api::kMaxSlots && bytes_ + token.size() <= kMaxShownBytes);
    if (!fits) *this = {};
    ++count_;
    bytes_ += token.size();
    return fits;
  }

 private:
  std::size_t count_ = 0, bytes_ = 0;
};

bool IsRefusal(Code code) {
  return code == Code::kPermissionDenied || code == Code::kConflict ||
         code == Code::kInvalidArgument;
}

}  // namespace

Conversation::Conversation(const WorkerOptions& options, std::string incarnation, Random& random,
                           Tell tell)
    : registration_{.who = {.tenant = options.tenant,
                            .worker = options.name,
                            .incarnation = std::move(incarnation)},
                    .slots = options.slots,
                    .labels = options.labels,
                    .version = options.version,
                    .host = options.host},
      poll_wait_(options.poll_wait),
      drain_timeout_(options.drain_timeout),
      report_patience_(options.report_patience),
      random_(random),
      tell_(std::move(tell)) {}

// ---- What to say next.

std::vector<Conversation::Action> Conversation::Next(Duration now) {
  due_ = Duration::max();
  if (refusal_ && !end_) GiveUpRefused(now);
  std::vector<Action> actions(std::make_move_iterator(pending_.begin()),
                              std::make_move_iterator(pending_.end()));
  pending_.clear();
  if (end_) return actions;
  NextDrain(now, actions);
  if (refusal_ && attempts_.empty() && !registering_ && !leaving_ && !end_) end_ = *refusal_;
  if (end_) return actions;
  if ((!registered_ || refusal_) && !registering_ && !leaving_) {
    if (now >= register_retry_.at) {
      registering_ = true;
      actions.emplace_back(SayRegister{registration_});
    } else {
      Due(register_retry_.at);
    }
  }
  NextForAttempts(now, actions);
  NextBeats(now, actions);
  NextPolls(now, actions);
  // What was found out on the way.
  if (!pending_.empty()) due_ = now;
  return actions;
}

void Conversation::Due(Duration at) { due_ = std::min(due_, at); }

void Conversation::Again(Retry& retry, Duration now) {
  retry.delay = std::clamp(retry.delay * 2, kFirstRetry, kMaxRetry);
  // Between half of it and all of it, so that many workers do not come at once.
  const auto half = retry.delay.count() / 2;
  retry.at =
      now +
      Duration(half + static_cast<std::int64_t>(random_.Next() % static_cast<std::uint64_t>(half)));
}

void Conversation::NextForAttempts(Duration now, std::vector<Action>& actions) {
  for (auto& [key, held] : attempts_) {
    if (held.stage == Stage::kAssigned) {
      if (held.asking || !registered_ || (draining_ && !held.maybe_started)) continue;
      if (now < held.retry.at) {
        Due(held.retry.at);
        continue;
      }
      held.asking = held.maybe_started = true;
      held.asked_at = now;
      actions.emplace_back(SayStart{key, held.start_token});
      continue;
    }
    if (held.stage == Stage::kRunning) NextForRunning(key, held, now, actions);
    if (held.fenced) continue;
    if (held.lines && !held.logging) {
      if (now < held.log_retry.at) {
        Due(held.log_retry.at);
      } else {
        held.logging = true;
        held.lines = false;
        actions.emplace_back(SayLog{key, held.work_token});
      }
    }
    if (held.stage == Stage::kEnded && !held.asking && !held.lines && !held.logging) {
      if (now < held.retry.at) {
        Due(held.retry.at);
      } else {
        held.asking = held.end_said = true;
        actions.emplace_back(SayComplete{key, held.work_token, held.outcome});
      }
    }
  }
}

void Conversation::NextForRunning(const model::AttemptKey& key, Held& held, Duration now,
                                  std::vector<Action>& actions) {
  if (!held.fenced && held.stopped == Stopped::kNot && now >= SoftEnd(held)) {
    ++stopped_for_lease_;
    tell_(fmt::format("{} is stopped: the server has not answered for almost a lease of {}",
                      held.name, FormatDuration(held.lease)));
    held.stopped = Stopped::kLease;
    held.stopped_at = now;
    actions.emplace_back(Cancel{key});
  }
  if (const Duration at = DropAt(held); !held.dropping && now >= at) {
    held.dropping = true;
    actions.emplace_back(DropRest{key});
  } else if (!held.dropping) {
    Due(at);
  }
  if (!held.overdue && now >= HardEnd(held)) {
    held.overdue = true;
    actions.emplace_back(Overdue{key});
  }
  if (!held.fenced && held.stopped == Stopped::kNot) Due(SoftEnd(held));
  if (!held.overdue) Due(HardEnd(held));
}

/// Duration::max() = its lines wait for the engine, for as long as it takes.
Duration Conversation::DropAt(const Held& held) const {
  if (held.fenced || held.stopped == Stopped::kNot) return Duration::max();
  Duration at = HardEnd(held);
  if (held.stopped == Stopped::kLease) at = std::min(at, held.stopped_at + held.grace);
  if (draining_) at = std::min(at, std::max(held.stopped_at, stop_at_) + held.grace);
  return at;
}

std::uint32_t Conversation::FreeSlots(const std::string& queue, std::uint32_t slots) const {
  std::uint32_t used = 0;
  for (const auto& [key, held] : attempts_)
    used += held.queue == queue && held.stage != Stage::kEnded ? 1 : 0;
  for (const auto& [id, free] : polls_)
    if (const auto asked = free.find(queue); asked != free.end()) used += asked->second;
  return slots > used ? slots - used : 0;
}

bool Conversation::HasTrial(const std::string& queue) const {
  return std::ranges::any_of(polls_,
                             [&](const auto& each) { return each.second.contains(queue); }) ||
         std::ranges::any_of(attempts_, [&](const auto& each) {
           return each.second.queue == queue && each.second.stage == Stage::kAssigned;
         });
}

/// Silence is not to pass for its end: polls are all that a worker without attempts says.
Duration Conversation::Pause(Duration most) const { return std::min(most, heartbeat_every_ / 2); }

void Conversation::NextPolls(Duration now, std::vector<Action>& actions) {
  if (!registered_ || draining_ || refusal_) return;
  if (now < poll_retry_.at) return Due(poll_retry_.at);
  // What had been asked for by then comes all the same, and says nothing new.
  if (std::exchange(found_no_room_, false) && now >= room_retry_.at) {
    room_retry_.delay = std::clamp(room_retry_.delay * 2, kFirstNoRoom, kMaxNoRoom);
    room_retry_.at = now + Pause(room_retry_.delay);
  }
  if (const Duration at = std::max(room_retry_.at, next_trial_); now < at) return Due(at);
  worker_api::Poll poll{.who = registration_.who, .free = {}, .wait = poll_wait_};
  bool first = false;  // of a queue
  std::uint64_t slots = 0;
  for (const auto& [queue, most] : registration_.slots) {
    slots += most;
    std::uint32_t free = FreeSlots(queue, most);
    if (!no_room_.empty()) free = HasTrial(queue) ? 0 : std::min(free, 1U);
    if (free == 0) continue;
    poll.free[queue] = free;
    first |=
        std::ranges::none_of(polls_, [&](const auto& each) { return each.second.contains(queue); });
  }
  // Ends that nobody takes are not to pile up.
  const auto ended = std::ranges::count_if(
      attempts_, [](const auto& each) { return each.second.stage == Stage::kEnded; });
  if (poll.free.empty() || static_cast<std::uint64_t>(ended) > slots) return;
  if (!first && polls_.size() >= kMaxPolls) return;
  polls_.emplace(++last_id_, poll.free);
  actions.emplace_back(SayPoll{last_id_, std::move(poll)});
}

void Conversation::NextBeats(Duration now, std::vector<Action>& actions) {
  if (!registered_) return;
  bool any = false, uncovered = false;
  for (const auto& [key, held] : attempts_) {
    if (held.work_token.empty() || held.fenced) continue;
    any = true;
    uncovered |= held.beats == 0;
  }
  if (!any) return;
  // One that is late says nothing of the next: it may be on a connection that is dead.
  bool full = false;
  for (const auto& [id, each] : beats_) {
    if (!each.full) continue;
    const Duration late_at = each.sent_at + each.wait + lease_ / 8;
    if (now < late_at) Due(late_at);
    full |= now < late_at;
  }
  if (!full && beats_.size() < kMaxBeats) {
    const Duration at = std::max(beat_retry_.at, beat_not_before_);
    if (now < at) return Due(at);
    return SayBeats(true, std::min(heartbeat_every_, worker_api::kMaxWait), now, actions);
  }
  if (!uncovered || beats_.size() > 1) return;
  if (now < extra_beat_not_before_) return Due(extra_beat_not_before_);
  SayBeats(false, std::min(heartbeat_every_, kExtraBeatWait), now, actions);
}

void Conversation::SayBeats(bool full, Duration wait, Duration now, std::vector<Action>& actions) {
  beat_not_before_ = now + std::min(kBeatGap, lease_ / 8);
  extra_beat_not_before_ = now + kExtraBeatGap;
  Beating beating{.attempts = {}, .sent_at = now, .wait = wait, .full = full};
  worker_api::Heartbeat heartbeat{.who = registration_.who, .work_tokens = {}, .wait = wait};
  Portion portion;
  const auto say = [&] {
    if (beating.attempts.empty()) return;
    beats_.emplace(++last_id_, beating);
    actions.emplace_back(SayBeat{last_id_, heartbeat});
    beating.attempts.clear();
    heartbeat.work_tokens.clear();
  };
  for (auto& [key, held] : attempts_) {
    if (held.work_token.empty() || held.fenced || (!full && held.beats > 0)) continue;
    if (!portion.Take(held.work_token)) say();
    ++held.beats;
    beating.attempts.push_back(key);
    heartbeat.work_tokens.push_back(held.work_token);
  }
  say();
}

void Conversation::GiveBack(std::vector<std::string> start_tokens) {
  Portion portion;
  SayHandBack back;
  for (std::string& token : start_tokens) {
    if (!portion.Take(token)) pending_.emplace_back(std::exchange(back, {}));
    back.start_tokens.push_back(std::move(token));
  }
  if (!back.start_tokens.empty()) pending_.emplace_back(std::move(back));
}

void Conversation::NextDrain(Duration now, std::vector<Action>& actions) {
  if (!draining_) return;
  bool code = false;
  Duration grace{};
  for (auto& [key, held] : attempts_) {
    if (held.stage != Stage::kRunning) continue;
    code = true;
    grace = std::max(grace, held.grace);
    if (now >= stop_at_) Stop(key, held, Stopped::kDrain, now);
  }
  if (code && now < stop_at_) Due(stop_at_);
  if (code) {
    // While code ends, but for no longer than it may take.
    give_up_at_ = std::clamp(now, stop_at_, stop_at_ + grace) + report_patience_;
    const Duration most = stop_at_ + grace + report_patience_;
    if (now < most) return Due(give_up_at_ > now ? std::min(give_up_at_, most) : most);
    // Not left: whatever still runs would be begun by another at once (I4).
    for (const auto& [key, held] : attempts_)
      if (held.stage == Stage::kRunning) actions.emplace_back(Overdue{key});
    return OnLeft();
  }
  if (attempts_.empty() || now >= give_up_at_) {
    if (leaving_) {
      if (now >= give_up_at_) OnLeft();
      return Due(give_up_at_);
    }
    leaving_ = true;
    give_up_at_ = now + std::min<Duration>(report_patience_, std::chrono::seconds(5));
    Due(give_up_at_);
    actions.emplace_back(SayLeave{});
  } else {
    Due(give_up_at_);
  }
}

/// An end that a server which refuses this worker does not take is lost by its lease, and so is an
/// attempt whose gate may be open.
void Conversation::GiveUpRefused(Duration now) {
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    const Held& held = here->second;
    if (held.stage == Stage::kRunning) continue;
    const Duration give_up_at = std::max(held.heard_at, held.asked_at) + lease_ + report_patience_;
    if (held.stage == Stage::kAssigned && !held.maybe_started && registered_) continue;
    if (now < give_up_at) {
      Due(give_up_at);
      continue;
    }
    if (held.stage == Stage::kEnded)
      tell_(fmt::format("the end of {} could not be said and is lost", held.name));
    Drop(here);
  }
}

// ---- What was answered.

bool Conversation::Unknown(const Error& error) {
  if (error.code != Code::kNotFound) return false;
  registered_ = false;
  return true;
}

void Conversation::NoteAnswer(const Status& status) {
  const bool silent =
      !status && status.error().code != Code::kNotFound && !IsRefusal(status.error().code);
  if (silent == std::exchange(silent_, silent)) return;
  tell_(silent ? fmt::format("no good answer from the server: {}", status.error().message)
               : std::string("the server answers again"));
}

void Conversation::Refused(const Error& error, Duration now) {
  if (!refusal_) tell_(fmt::format("the server refuses this worker: {}", error.message));
  // What it holds goes on: heartbeats and ends may be taken all the same.
  refusal_ = error;
  Again(register_retry_, now);
}

void Conversation::OnRegistered(const Result<worker_api::Welcome>& welcome, Duration now) {
  registering_ = false;
  NoteAnswer(welcome ? Status() : Status(welcome.error()));
  if (!welcome) {
    if (IsRefusal(welcome.error().code)) return Refused(welcome.error(), now);
    return Again(register_retry_, now);
  }
  // Until another word is answered: who registers without effect does so later and later.
  Again(register_retry_, now);
  if (welcome->lease <= Duration(0) || welcome->heartbeat_every <= Duration(0) ||
      welcome->heartbeat_every >= welcome->lease || welcome->lease > worker_api::kMaxLease)
    return tell_(
        fmt::format("the server speaks of leases of {}us and heartbeats each {}us, which "
                    "cannot be kept; registering again",
                    welcome->lease.count(), welcome->heartbeat_every.count()));
  registered_ = true;
  refusal_.reset();
  poll_retry_ = beat_retry_ = {};
  beat_not_before_ = {};
  lease_ = welcome->lease;
  heartbeat_every_ = welcome->heartbeat_every;
  tell_(fmt::format("registered as {}; leases of {}", registration_.who.worker,
                    FormatDuration(lease_)));
  for (auto& [key, held] : attempts_) held.retry = held.log_retry = {};
}

void Conversation::OnPolled(std::uint64_t id, const Result<worker_api::Polled>& polled,
                            Duration now) {
  polls_.erase(id);
  NoteAnswer(polled ? Status() : Status(polled.error()));
  if (!polled) {
    if (Unknown(polled.error())) return;
    if (IsRefusal(polled.error().code)) return Refused(polled.error(), now);
    return Again(poll_retry_, now);
  }
  register_retry_ = {};
  if (polled->leave) OnToldToLeave(now);
  bool news = polled->assignments.empty();
  std::vector<std::string> back;
  for (const worker_api::Assignment& each : polled->assignments) {
    if (draining_ || leaving_) {
      back.push_back(each.start_token);
      continue;
    }
    const auto [at, fresh] = attempts_.try_emplace(each.attempt);
    Held& held = at->second;
    news |= fresh;
    if (held.stage != Stage::kAssigned) continue;  // it was assigned once more while it runs here
    held.queue = each.queue;
    held.start_token = each.start_token;
    held.name = fmt::format("run {} epoch {}", each.attempt.run.value, each.attempt.epoch.value);
  }
  // Whoever is given what he has already would be at once again.
  if (news || !back.empty())
    poll_retry_ = {};
  else
    Again(poll_retry_, now);
  if (polled->drain) poll_retry_.at = now + Pause(kCordoned);
  GiveBack(std::move(back));
}

void Conversation::OnStarted(const model::AttemptKey& attempt, Result<worker_api::Started> started,
                             Duration now) {
  const auto at = attempts_.find(attempt);
  if (at == attempts_.end() || at->second.stage != Stage::kAssigned) return;
  Held& held = at->second;
  held.asking = false;
  NoteAnswer(started ? Status() : Status(started.error()));
  if (!started) {
    if (Unknown(started.error())) return;
    if (!IsRefusal(started.error().code)) return Again(held.retry, now);
    tell_(fmt::format("{} is not started: {}", held.name, started.error().message));
    return Drop(at);
  }
  if (started->reply == Reply::kAskAgain) return Again(held.retry, now);
  if (started->reply == Reply::kStop || started->work_token.empty()) return Drop(at);
  held.retry = register_retry_ = {};
  held.work_token = std::move(started->work_token);
  Heard(attempt, held, held.asked_at);
  if (started->reply == Reply::kCancel || draining_ || now >= SoftEnd(held))
    return NeverRuns(held, started->reply == Reply::kCancel);
  held.stage = Stage::kRunning;
  held.name = fmt::format("{}/{} of run {}, try {}", started->job.workflow, started->job.task,
                          attempt.run.value, started->job.try_no);
  ++started_;
  tell_(fmt::format("{} started", held.name));
  // It may be over in a moment, for want of room.
  if (!no_room_.empty()) next_trial_ = now + Pause(room_retry_.delay);
  pending_.emplace_back(Launch{attempt, std::move(started->job), HardEnd(held), held.work_token});
}

void Conversation::NeverRuns(Held& held, bool cancelled) const {
  held.stage = Stage::kEnded;
  held.outcome.verdict = cancelled ? Verdict::kCancelled : Verdict::kInterrupted;
  held.outcome.error =
      cancelled   ? "cancelled before it started"
      : draining_ ? "its worker drained before it started"
                  : "its worker heard that it may start only when the lease was almost over";
  if (cancelled) held.outcome.reason = model::Reason::kCancelRequested;
}

void Conversation::OnGrace(const model::AttemptKey& attempt, Duration grace) {
  if (const auto at = attempts_.find(attempt); at != attempts_.end()) at->second.grace = grace;
}

void Conversation::OnBeaten(std::uint64_t id, const Result<worker_api::Beaten>& beaten,
                            Duration now) {
  const auto found = beats_.find(id);
  if (found == beats_.end()) return;
  const Beating beating = std::move(found->second);
  beats_.erase(found);
  for (const model::AttemptKey& key : beating.attempts)
    if (const auto at = attempts_.find(key); at != attempts_.end()) --at->second.beats;
  NoteAnswer(beaten ? Status() : Status(beaten.error()));
  if (!beaten || beaten->pulses.size() != beating.attempts.size()) {
    if (!beaten && Unknown(beaten.error())) return;
    return Again(beat_retry_, now);
  }
  beat_retry_ = register_retry_ = {};
  bool news = beaten->leave;
  if (beaten->leave) OnToldToLeave(now);
  for (std::size_t i = 0; i < beaten->pulses.size(); ++i) {
    const worker_api::Pulse& pulse = beaten->pulses[i];
    news |=
        pulse.reply == Reply::kCancel || pulse.reply == Reply::kStop || !pulse.work_token.empty();
    const auto at = attempts_.find(beating.attempts[i]);
    if (at == attempts_.end() || at->second.fenced) continue;
    Held& held = at->second;
    if (!pulse.work_token.empty()) {
      held.work_token = pulse.work_token;
      if (held.stage == Stage::kRunning) pending_.emplace_back(Renew{at->first, held.work_token});
    }
    if (pulse.reply == Reply::kStop) {
      // It may be over by its verdict, whose answer says more.
      if (!held.end_said) Fence(at->first, held);
    } else if (pulse.reply == Reply::kGoOn || pulse.reply == Reply::kCancel) {
      Heard(at->first, held, beating.sent_at);
      if (pulse.reply == Reply::kCancel) Stop(at->first, held, Stopped::kCancel, now);
    }
  }
  // Its engine has no room for waits: asked again at once it would have less.
  if (beating.full && !news && now - beating.sent_at < beating.wait / 2)
    beat_not_before_ = std::max(beat_not_before_, beating.sent_at + heartbeat_every_ / 2);
  std::erase_if(attempts_, [this](const auto& each) {
    const bool over = each.second.fenced && each.second.stage == Stage::kEnded;
    if (over) pending_.emplace_back(Forget{each.first});
    return over;
  });
}

void Conversation::OnLines(const model::AttemptKey& attempt) {
  if (const auto at = attempts_.find(attempt); at != attempts_.end()) at->second.lines = true;
}

void Conversation::OnLogged(const model::AttemptKey& attempt, const Result<Reply>& reply, bool more,
                            Duration now) {
  const auto at = attempts_.find(attempt);
  if (at == attempts_.end()) return;
  Held& held = at->second;
  held.logging = false;
  held.lines |= more;
  Due(now);  // whoever says so while he does what Next returned is to call it again
  NoteAnswer(reply ? Status() : Status(reply.error()));
  const bool denied = !reply && reply.error().code == Code::kPermissionDenied;
  if (denied || (reply && *reply == Reply::kStop)) {
    if (denied) tell_(fmt::format("{} is no longer heard: {}", held.name, reply.error().message));
    Fence(attempt, held);
    if (held.stage == Stage::kEnded) Drop(at);
    return;
  }
  if (!reply || *reply == Reply::kAskAgain) return Again(held.log_retry, now);
  held.log_retry = {};
  if (*reply == Reply::kCancel) Stop(attempt, held, Stopped::kCancel, now);
}

void Conversation::OnEnded(const model::AttemptKey& attempt, model::Outcome outcome) {
  const auto at = attempts_.find(attempt);
  if (at == attempts_.end() || at->second.stage == Stage::kEnded) return;
  Held& held = at->second;
  held.stage = Stage::kEnded;
  NoteRoom(outcome);
  tell_(fmt::format("{} {}{}", held.name, model::VerdictName(outcome.verdict),
                    outcome.error.empty() ? "" : ": " + outcome.error));
  if (held.fenced) return Drop(at);
  // It was not asked to end by whoever decides (I7).
  const bool ours = held.stopped == Stopped::kLease || held.stopped == Stopped::kDrain;
  if (ours && outcome.verdict == Verdict::kCancelled) {
    interrupted_ += held.stopped == Stopped::kDrain ? 1 : 0;
    outcome.verdict = Verdict::kInterrupted;
    outcome.reason = model::Reason::kNone;
    outcome.error = held.stopped == Stopped::kLease
                        ? "its worker stopped it, because the engine did not answer for almost a "
                          "lease"
                        : "its worker drained";
  }
  held.outcome = std::move(outcome);
}

void Conversation::NoteRoom(const model::Outcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::kInterrupted:
    case Verdict::kCancelled:
    case Verdict::kLost:
      return;  // these say nothing of this host
    case Verdict::kSnoozed:
      if (outcome.reason == model::Reason::kSnooze) break;  // the task's own word
      if (no_room_.empty())
        tell_(
            fmt::format("tasks cannot run here: {}; it asks for one at a time, less and less "
                        "often, until one runs",
                        outcome.error));
      no_room_ = outcome.error.empty() ? "no room" : outcome.error;
      found_no_room_ = true;
      return;
    default:
      break;
  }
  if (!no_room_.empty()) tell_("tasks run here again");
  no_room_.clear();
  found_no_room_ = false;
  room_retry_ = {};
  next_trial_ = {};
}

void Conversation::OnCompleted(const model::AttemptKey& attempt, const Result<Reply>& reply,
                               Duration now) {
  const auto at = attempts_.find(attempt);
  if (at == attempts_.end()) return;
  Held& held = at->second;
  held.asking = false;
  NoteAnswer(reply ? Status() : Status(reply.error()));
  if (reply && *reply != Reply::kAskAgain) {
    const bool fenced = *reply == Reply::kStop;
    if (fenced) tell_(fmt::format("{} was somebody else's by then", held.name));
    ++(fenced ? fenced_ : reported_);
    return Drop(at);
  }
  if (!reply && IsRefusal(reply.error().code)) {
    tell_(fmt::format("the end of {} is refused: {}", held.name, reply.error().message));
    if (reply.error().code != Code::kInvalidArgument || std::exchange(held.refused_once, true))
      return Drop(at);
    // What the engine does not take is no success; the attempt ends all the same.
    held.outcome.verdict = Verdict::kFailed;
    held.outcome.reason = model::Reason::kOutput;
    held.outcome.output.clear();
    held.outcome.error = reply.error().message;
    return;
  }
  Again(held.retry, now);
}

void Conversation::OnLeft() {
  if (end_) return;
  if (attempts_.empty()) {
    end_ = Status();
    return;
  }
  std::vector<std::string> names;
  for (const auto& [key, held] : attempts_) names.push_back(held.name);
  end_ = Error{Code::kDrainTimeout,
               fmt::format("the ends of {} attempts could not be said and are lost: {}",
                           names.size(), fmt::join(names, "; "))};
}

void Conversation::OnToldToLeave(Duration now) {
  if (draining_) return;
  tell_(
      fmt::format("an operator drains this worker, for up to {}", FormatDuration(drain_timeout_)));
  OnDrain(now);
  told_to_leave_ = true;
}

void Conversation::OnDrain(Duration now) {
  if (std::exchange(draining_, true)) {
    // Whoever stops this program is not to be taken for somebody in a hurry.
    if (std::exchange(told_to_leave_, false)) return;
    stop_at_ = std::min(stop_at_, now);
    give_up_at_ = std::min(give_up_at_, now + report_patience_);
    return;
  }
  stop_at_ = now + drain_timeout_;
  give_up_at_ = stop_at_ + report_patience_;
  std::vector<std::string> back;
  for (auto at = attempts_.begin(); at != attempts_.end();) {
    const auto here = at++;
    if (here->second.stage != Stage::kAssigned || here->second.maybe_started) continue;
    back.push_back(here->second.start_token);
    Drop(here);
  }
  GiveBack(std::move(back));
  // Nobody knows of it, nor is about to.
  if (!registered_ && !registering_ && polls_.empty() && attempts_.empty()) end_ = Status();
}

// ---- Attempts.

void Conversation::Heard(const model::AttemptKey& key, Held& held, Duration at) {
  if (at <= held.heard_at) return;
  held.heard_at = at;
  held.lease = lease_;
  if (held.stage == Stage::kRunning && !held.overdue)
    pending_.emplace_back(KillAt{key, HardEnd(held)});
}

void Conversation::Stop(const model::AttemptKey& key, Held& held, Stopped why, Duration now) {
  if (held.stage != Stage::kRunning || held.stopped != Stopped::kNot || held.fenced) return;
  held.stopped = why;
  held.stopped_at = now;
  pending_.emplace_back(Cancel{key});
}

void Conversation::Fence(const model::AttemptKey& key, Held& held) {
  if (std::exchange(held.fenced, true)) return;
  ++fenced_;
  const bool runs = held.stage == Stage::kRunning;
  tell_(fmt::format("{} is somebody else's now{}", held.name, runs ? "; stopping it" : ""));
  pending_.emplace_back(Mute{key});
  if (!runs) return;
  pending_.emplace_back(Cancel{key});
  pending_.emplace_back(KillAt{key, Duration(0)});
}

void Conversation::Drop(Attempts::iterator at) {
  pending_.emplace_back(Forget{at->first});
  attempts_.erase(at);
}

WorkerFigures Conversation::figures() const {
  WorkerFigures figures{.connected = registered_ && !silent_,
                        .no_room = no_room_,
                        .started = started_,
                        .reported = reported_,
                        .stopped_for_lease = stopped_for_lease_,
                        .fenced = fenced_,
                        .interrupted = interrupted_};
  for (const auto& [queue, slots] : registration_.slots) figures.slots += slots;
  for (const auto& [key, held] : attempts_) {
    figures.running += held.stage == Stage::kRunning ? 1 : 0;
    figures.unreported += held.stage == Stage::kEnded ? 1 : 0;
  }
  return figures;
}

}  // namespace headworks::worker
