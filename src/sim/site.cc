#include "headworks/sim/site.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::sim {

using executor::DispatchError;
using executor::NotTaken;
using executor::Reply;
using executor::Word;

namespace {

constexpr std::size_t kOldNews = 8;

}  // namespace

class Site::Port final : public executor::Executor {
 public:
  Port(Site& site, Incarnation& incarnation) : site_(site), incarnation_(incarnation) {}
  ~Port() override { site_.ports_.erase(incarnation_.number); }

  std::string_view Name() const override { return site_.name_; }
  Status Start(executor::AttemptSink& sink) override {
    sink_ = &sink;
    site_.ports_[incarnation_.number] = this;
    return {};
  }
  executor::OfferResult Offer(const executor::Attempt& attempt) override {
    if (incarnation_.crashed || closed_) return NotTaken(DispatchError::kNoCapacity, "closing");
    return site_.Offer(*this, attempt);
  }
  void Cancel(const model::AttemptKey& key) override {
    if (!incarnation_.crashed) site_.Cancel(key);
  }
  executor::Capacity GetCapacity() const override { return {site_.max_, site_.Used()}; }
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    if (incarnation_.crashed || site_.dice_.Chance(site_.faults_.unknown))
      return Error{Code::kUnavailable, "the site does not answer"};
    std::vector<executor::Inspection> answers;
    for (const auto& attempt : attempts) answers.push_back(site_.Inspect(*this, attempt));
    return answers;
  }
  std::vector<model::AttemptKey> List() const override {
    std::vector<model::AttemptKey> keys;
    keys.reserve(site_.active_.size());
    for (const auto& id : site_.active_) keys.push_back(site_.truths_.at(id).attempt.key);
    return keys;
  }
  executor::Metrics GetMetrics() const override {
    return {.active = site_.Used(), .max = site_.max_};
  }
  void Settled(std::span<const model::AttemptKey> keys) override {
    if (incarnation_.crashed) return;
    for (const auto& key : keys) site_.Settle(key);
  }
  Status Drain(Duration) override {
    closed_ = true;
    return {};
  }

  Incarnation& incarnation() const { return incarnation_; }
  executor::AttemptSink* sink() const { return incarnation_.crashed ? nullptr : sink_; }

 private:
  Site& site_;
  Incarnation& incarnation_;
  executor::AttemptSink* sink_ = nullptr;
  bool closed_ = false;
};

Site::Site(std::string name, Kind kind, std::uint32_t max, Dice& dice, Clock& clock,
           Journal& journal, Hooks hooks)
    : name_(std::move(name)),
      kind_(kind),
      max_(max),
      dice_(dice),
      clock_(clock),
      journal_(journal),
      hooks_(std::move(hooks)) {}

std::unique_ptr<executor::Executor> Site::NewPort(Incarnation& incarnation) {
  return std::make_unique<Port>(*this, incarnation);
}

const Site::Truth* Site::Find(RunNo run, Epoch epoch) const {
  const auto found = truths_.find({run, epoch});
  return found == truths_.end() ? nullptr : &found->second;
}

std::string Site::Describe(const Truth& truth) const {
  const auto& key = truth.attempt.key;
  return fmt::format("{}: run {} {} epoch {}", name_, key.run.value, truth.attempt.task().id,
                     key.epoch.value);
}

std::uint32_t Site::Used() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      active_, [this](const Id& id) { return truths_.at(id).stage != Stage::kEnded; }));
}

executor::OfferResult Site::Offer(Port& port, const executor::Attempt& attempt) {
  if (!hooks_.offered(attempt, port.incarnation()))
    return NotTaken(DispatchError::kStore, "the term is over");
  if (dice_.Chance(faults_.crash_in_offer)) {
    journal_.Note("crash within an offer");
    port.incarnation().crashed = true;
    if (dice_.Chance(500)) return NotTaken(DispatchError::kNoCapacity, "never answered");
  }
  const auto known = truths_.find({attempt.key.run, attempt.key.epoch});
  const bool gone = known != truths_.end() && known->second.dropped;
  if (known != truths_.end() && !gone) {
    if (kind_ == Kind::kLocal && known->second.begins > 0 &&
        known->second.incarnation != port.incarnation().number)
      journal_.Violated("I5 offered again, though it had begun: " + Describe(known->second));
    return {};
  }
  if (Used() >= max_ || dice_.Chance(faults_.deferred))
    return NotTaken(DispatchError::kNoCapacity, "full");
  if (dice_.Chance(faults_.backpressure))
    return {.disposition = model::Disposition::kBackpressure, .cause = "quota exceeded"};
  if (dice_.Chance(faults_.rejected)) return NotTaken(DispatchError::kContext, "bad spec");
  if (dice_.Chance(faults_.refused))
    return NotTaken(DispatchError::kValidation, "not allowed here");
  if (dice_.Chance(faults_.transient)) {
    // The worst of it: the answer was lost, but the attempt is there.
    if (kind_ != Kind::kLocal && dice_.Chance(300)) Accept(port, attempt);
    return NotTaken(DispatchError::kStore, "timeout");
  }
  return Accept(port, attempt);
}

executor::OfferResult Site::Accept(Port& port, const executor::Attempt& attempt) {
  const Id id{attempt.key.run, attempt.key.epoch};
  Truth truth{.attempt = attempt, .incarnation = port.incarnation().number};
  truth.hangs = !calm_ && dice_.Chance(40);
  truth.stubborn = !calm_ && dice_.Chance(60);
  if (journal_.keeps()) journal_.Note("accepted " + Describe(truth));
  truths_.insert_or_assign(id, std::move(truth));
  active_.push_back(id);
  return {};
}

executor::Inspection Site::Inspect(const Port& port, const executor::Attempt& attempt) {
  if (kind_ != Kind::kLocal && dice_.Chance(faults_.unknown)) return executor::Unknown{"no answer"};
  const Truth* truth = Find(attempt.key.run, attempt.key.epoch);
  if (truth == nullptr) return executor::Absent{};
  switch (truth->stage) {
    case Stage::kAccepted:
      return executor::Pending{"waits for a place"};
    case Stage::kBegun:
      return executor::Running{};
    case Stage::kEnded:
      if (kind_ != Kind::kLocal && truth->settled) return executor::Absent{};
      return executor::Ended{*truth->outcome};
    case Stage::kVanished:
      break;
  }
  if (truth->begins == 0) return executor::Absent{};
  static_cast<void>(port);
  if (truth->outcome) return executor::Ended{*truth->outcome};
  return executor::Ended{{.verdict = model::Verdict::kLost, .reason = model::Reason::kLost}};
}

void Site::Cancel(const model::AttemptKey& key) {
  const auto found = truths_.find({key.run, key.epoch});
  if (found == truths_.end()) return;
  Truth& truth = found->second;
  if (journal_.keeps()) journal_.Note("cancel " + Describe(truth));
  if (truth.stage == Stage::kBegun) truth.cancel = true;
  if (truth.stage != Stage::kAccepted) return;
  truth.outcome = model::Outcome{.verdict = model::Verdict::kCancelled,
                                 .reason = model::Reason::kCancelRequested};
  End(truth);
}

void Site::Forget(const Id& id) {
  if (const auto at = std::ranges::find(active_, id); at != active_.end()) active_.erase(at);
}

void Site::Settle(const model::AttemptKey& key) {
  const Id id{key.run, key.epoch};
  const auto found = truths_.find(id);
  if (found == truths_.end() || found->second.settled) return;
  Truth& truth = found->second;
  if (truth.stage == Stage::kBegun && kind_ == Kind::kLocal)
    return journal_.Violated("I4 settled, but it still runs: " + Describe(truth));
  truth.settled = true;
  Forget(id);
  if (!truth.outcome || kind_ == Kind::kLocal) return;
  if (kind_ == Kind::kFenced && truth.holder.empty()) return;
  old_news_.push_back({key, truth.holder, *truth.outcome});
  if (old_news_.size() > kOldNews) old_news_.pop_front();
}

void Site::ProcessDied(int incarnation, bool in_doubt) {
  if (kind_ != Kind::kLocal) return;
  std::erase_if(active_, [&](const Id& id) {
    Truth& truth = truths_.at(id);
    if (truth.incarnation != incarnation) return false;
    if (journal_.keeps()) journal_.Note("died with its process " + Describe(truth));
    // A round that may yet turn out to be stored may hold what this one said.
    if (truth.stage == Stage::kEnded && !dice_.Chance(500) && !in_doubt) truth.outcome.reset();
    truth.stage = Stage::kVanished;
    // Nothing remembers what had not begun: the same epoch may be offered again.
    if (truth.begins == 0) truths_.erase(id);
    return true;
  });
}

void Site::CalmDown() {
  calm_ = true;
  faults_ = {};
  for (auto& [id, truth] : truths_) truth.hangs = truth.stubborn = false;
}

executor::AttemptSink* Site::SinkFor(const Truth& truth) {
  if (kind_ == Kind::kLocal) {
    const auto port = ports_.find(truth.incarnation);
    return port == ports_.end() ? nullptr : port->second->sink();
  }
  if (ports_.empty()) return nullptr;
  auto port = ports_.begin();
  std::advance(port, dice_.Below(static_cast<std::uint32_t>(ports_.size())));
  return port->second->sink();
}

bool Site::Progress() {
  if (dice_.Chance(faults_.message_doubled) && RepeatOldNews()) return true;
  if (active_.empty()) return false;
  Truth& truth = truths_.at(active_[dice_.Below(static_cast<std::uint32_t>(active_.size()))]);
  if (kind_ == Kind::kFenced) return ProgressFenced(truth);
  switch (truth.stage) {
    case Stage::kAccepted:
      Begin(truth);
      return true;
    case Stage::kBegun:
      if (truth.owes_started && dice_.Chance(500)) return Speak(truth);
      if (truth.cancel ? truth.stubborn : truth.hangs) return false;
      truth.outcome = Script(truth);
      End(truth);
      return true;
    case Stage::kEnded:
      return kind_ == Kind::kRemote && Speak(truth);
    case Stage::kVanished:
      break;
  }
  return false;
}

void Site::Begin(Truth& truth) {
  const auto& key = truth.attempt.key;
  if (kind_ == Kind::kRemote && !hooks_.gate(key)) {
    if (journal_.keeps()) journal_.Note("start gate shut " + Describe(truth));
    truth.stage = Stage::kVanished;
    return Forget({key.run, key.epoch});
  }
  if (++truth.begins > 1)
    journal_.Violated("I4 user code of one epoch began twice: " + Describe(truth));
  for (auto other = truths_.lower_bound({key.run, Epoch(0)});
       other != truths_.end() && other->first.first == key.run; ++other)
    if (other->second.attempt.key.task == key.task && other->second.stage == Stage::kBegun)
      journal_.Violated("I4 two epochs of one task run at once: " + Describe(truth));
  if (journal_.keeps()) journal_.Note("begun " + Describe(truth));
  truth.stage = Stage::kBegun;
  truth.owes_started = kind_ != Kind::kFenced;
  if (kind_ == Kind::kLocal && dice_.Chance(700)) Speak(truth);
}

void Site::End(Truth& truth) {
  truth.stage = Stage::kEnded;
  truth.outcome->ended_at = clock_.Now();
  if (journal_.keeps())
    journal_.Note(
        fmt::format("ended {} {}", Describe(truth), model::VerdictName(truth.outcome->verdict)));
  for (const auto& [number, port] : ports_)
    if (auto* sink = port->sink()) sink->CapacityChanged();
  if (kind_ != Kind::kLocal) return;
  if (auto* sink = SinkFor(truth)) sink->Ended(truth.attempt.key, *truth.outcome);
}

bool Site::Speak(Truth& truth) {
  executor::AttemptSink* sink = SinkFor(truth);
  if (sink == nullptr) return false;
  if (dice_.Chance(faults_.message_lost)) return true;
  const bool started = truth.owes_started && (truth.stage == Stage::kBegun || dice_.Chance(300));
  if (journal_.keeps())
    journal_.Note(fmt::format("says {} {}", started ? "started" : "ended", Describe(truth)));
  if (started) {
    truth.owes_started = dice_.Chance(faults_.message_doubled);
    sink->Started(truth.attempt.key);
  } else {
    sink->Ended(truth.attempt.key, *truth.outcome);
    return !std::exchange(truth.told, true);
  }
  return true;
}

bool Site::RepeatOldNews() {
  if (old_news_.empty() || ports_.empty()) return false;
  const auto& [key, holder, outcome] =
      old_news_[dice_.Below(static_cast<std::uint32_t>(old_news_.size()))];
  auto port = ports_.begin();
  std::advance(port, dice_.Below(static_cast<std::uint32_t>(ports_.size())));
  executor::AttemptSink* sink = port->second->sink();
  if (sink == nullptr) return false;
  if (journal_.keeps())
    journal_.Note(
        fmt::format("{}: old news of run {} epoch {}", name_, key.run.value, key.epoch.value));
  if (kind_ == Kind::kFenced)
    sink->Hear({key, holder, executor::Word::Kind::kVerdict, outcome}, [this](Reply reply) {
      if (reply == Reply::kGoOn || reply == Reply::kCancel)
        journal_.Violated("I3 the verdict of an epoch that is over was heard");
    });
  else if (dice_.Chance(300))
    sink->Started(key);
  else
    sink->Ended(key, outcome);
  return true;
}

bool Site::ProgressFenced(Truth& truth) {
  switch (truth.stage) {
    case Stage::kAccepted:
      return ClaimStart(truth);
    case Stage::kBegun:
      if (dice_.Chance(500)) {
        SpeakInBetween(truth);
        return false;
      }
      if (truth.cancel ? truth.stubborn : truth.hangs) return false;
      truth.outcome = Script(truth);
      End(truth);
      return true;
    case Stage::kEnded: {
      const bool first = !std::exchange(truth.told, true);
      if (truth.begins > 0)
        Say(truth, truth.holder, Word::Kind::kVerdict, *truth.outcome);
      else if (auto* sink = SinkFor(truth))  // never begun, says whoever kept it
        sink->Ended(truth.attempt.key, *truth.outcome);
      return first;
    }
    case Stage::kVanished:
      break;
  }
  return false;
}

bool Site::ClaimStart(Truth& truth) {
  const auto& key = truth.attempt.key;
  if (truth.holders.empty() && dice_.Chance(faults_.dropped)) {
    if (journal_.keeps()) journal_.Note("dropped " + Describe(truth));
    truth.stage = Stage::kVanished;
    truth.dropped = true;
    Forget({key.run, key.epoch});
    return true;
  }
  if (truth.holders.empty() || (truth.holders.size() == 1 && dice_.Chance(faults_.message_doubled)))
    truth.holders.push_back({.name = fmt::format("{}-{}", name_, ++workers_)});
  Holder& holder = truth.holders[dice_.Below(static_cast<std::uint32_t>(truth.holders.size()))];
  const bool first = !std::exchange(holder.asked, true);
  Say(truth, std::string(holder.name), Word::Kind::kStarted);
  return first;
}

void Site::SpeakInBetween(Truth& truth) {
  constexpr Word::Kind kKinds[] = {Word::Kind::kStarted, Word::Kind::kHeartbeat, Word::Kind::kLog,
                                   Word::Kind::kOutput};
  const Holder& any = truth.holders[dice_.Below(static_cast<std::uint32_t>(truth.holders.size()))];
  if (any.name != truth.holder && dice_.Chance(500))
    Say(truth, std::string(any.name), Word::Kind::kVerdict,
        {.verdict = model::Verdict::kSkipped, .error = "an impostor's"});
  else
    Say(truth, std::string(any.name),
        truth.cancel ? Word::Kind::kCancelAck
                     : kKinds[dice_.Below(static_cast<std::uint32_t>(std::size(kKinds)))]);
}

void Site::Say(Truth& truth, const std::string& holder, Word::Kind kind,
               const model::Outcome& outcome) {
  executor::AttemptSink* sink = SinkFor(truth);
  if (sink == nullptr || dice_.Chance(faults_.message_lost)) return;
  const model::AttemptKey key = truth.attempt.key;
  if (journal_.keeps())
    journal_.Note(fmt::format("{} says {} {}", holder, static_cast<int>(kind), Describe(truth)));
  for (int copies = dice_.Chance(faults_.message_doubled) ? 2 : 1; copies > 0; --copies)
    sink->Hear({key, holder, kind, outcome},
               [this, id = Id{key.run, key.epoch}, holder, kind](Reply reply) {
                 if (!dice_.Chance(faults_.message_lost)) Heard(id, holder, kind, reply);
               });
}

void Site::Heard(const Id& id, const std::string& holder, Word::Kind kind, Reply reply) {
  Truth& truth = truths_.at(id);
  if (journal_.keeps())
    journal_.Note(
        fmt::format("{} is told {} {}", holder, static_cast<int>(reply), Describe(truth)));
  if (reply == Reply::kStop) return HeardStop(truth, holder);
  if (reply != Reply::kAskAgain) HeardYes(truth, holder, kind, reply);
}

void Site::HeardStop(Truth& truth, const std::string& holder) {
  for (Holder& known : truth.holders) known.out |= known.name == holder;
  const auto& key = truth.attempt.key;
  if (holder == truth.holder && truth.stage == Stage::kBegun) {
    if (hooks_.gate(key))
      journal_.Violated("I3 the holder was told to stop, but its epoch is live: " +
                        Describe(truth));
    truth.stage = Stage::kVanished;
    Forget({key.run, key.epoch});
  } else if (truth.stage == Stage::kAccepted &&
             std::ranges::all_of(truth.holders, [](const Holder& h) { return h.out; })) {
    truth.stage = Stage::kVanished;
    Forget({key.run, key.epoch});
  }
}

void Site::HeardYes(Truth& truth, const std::string& holder, Word::Kind kind, Reply reply) {
  if (kind != Word::Kind::kStarted || truth.stage != Stage::kAccepted) {
    if (!truth.holder.empty() && holder != truth.holder)
      journal_.Violated("I5 somebody who is not the holder was heard: " + Describe(truth));
    if (reply == Reply::kCancel && truth.stage == Stage::kBegun) truth.cancel = true;
    return;
  }
  if (!hooks_.holds(truth.attempt.key, holder))
    journal_.Violated("I5 let in, but no stored row says so: " + Describe(truth));
  truth.holder = holder;
  if (reply == Reply::kGoOn) return Begin(truth);
  truth.outcome = model::Outcome{.verdict = model::Verdict::kCancelled,
                                 .reason = model::Reason::kCancelRequested};
  End(truth);
}

model::Outcome Site::Script(const Truth& truth) {
  using model::Reason;
  using model::Verdict;
  model::Outcome outcome{.started_at = clock_.Now()};
  const auto end = [&](Verdict verdict, Reason reason) {
    outcome.verdict = verdict;
    outcome.reason = reason;
    if (verdict == Verdict::kFailed || verdict == Verdict::kRetry) outcome.error = "scripted";
    return outcome;
  };
  if (truth.cancel && dice_.Chance(850)) return end(Verdict::kCancelled, Reason::kCancelRequested);
  const std::uint32_t draw = dice_.Below(1'000);
  if (draw < 620 || (calm_ && draw < 900)) {
    if (dice_.Chance(200)) outcome.output = R"({"answer":42})";
    return end(Verdict::kSucceeded, Reason::kNone);
  }
  if (draw < 750) return end(Verdict::kRetry, Reason::kExitCode);
  if (draw < 820 || calm_) return end(Verdict::kFailed, Reason::kError);
  if (draw < 870) return end(Verdict::kSkipped, Reason::kNone);
  if (draw < 920) {
    outcome.not_before =
        clock_.Now() + dice_.Between(-std::chrono::seconds(5), std::chrono::minutes(2));
    return end(Verdict::kSnoozed, Reason::kSnooze);
  }
  if (draw < 960) return end(Verdict::kInterrupted, Reason::kNone);
  if (draw < 985) return end(Verdict::kLost, Reason::kLost);
  return end(Verdict::kCancelled, Reason::kCancelRequested);
}

}  // namespace headworks::sim
