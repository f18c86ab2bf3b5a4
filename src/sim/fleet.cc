#include "headworks/sim/fleet.h"

#include <fmt/format.h>

#include <algorithm>

#include "headworks/base/random.h"
#include "headworks/base/steady_clock.h"
#include "headworks/log_store/memory_log_store.h"
#include "headworks/token/jwt_issuer.h"

namespace headworks::sim {

using executor::Reply;
using model::Reason;
using model::Verdict;
using worker_api::Identity;
using worker_api::Started;

namespace {

constexpr std::size_t kMostMessages = 64;
constexpr std::uint32_t kSlots = 3;

/// A worker whose polls and heartbeats get no answer says them again.
constexpr Duration kPatience = std::chrono::seconds(20);

std::string HolderOf(const Identity& who) { return who.worker + "/" + who.incarnation; }

}  // namespace

class Fleet::Resolver final : public executor::Resolver {
 public:
  Result<executor::Resolved> Resolve(const executor::Attempt&) override {
    return executor::Resolved{.context_json = "{}"};
  }
};

class Fleet::Port final : public executor::Executor {
 public:
  Port(Fleet& fleet, Incarnation& incarnation, Logger& logger)
      : fleet_(fleet),
        incarnation_(incarnation),
        queue_(*executor_queue::NewQueueExecutor(
            fleet.options_, {*fleet.resolver_, *fleet.logs_, *fleet.tokens_, *fleet.steady_,
                             fleet.clock_, logger})) {}
  ~Port() override { fleet_.ports_.erase(incarnation_.number); }

  std::string_view Name() const override { return queue_->Name(); }
  Status Start(executor::AttemptSink& sink) override {
    fleet_.ports_[incarnation_.number] = this;
    return queue_->Start(sink);
  }
  executor::OfferResult Offer(const executor::Attempt& attempt) override {
    if (incarnation_.crashed || !fleet_.hooks_.offered(attempt, incarnation_))
      return NotTaken(executor::DispatchError::kStore, "the term is over");
    fleet_.truths_.try_emplace({attempt.key.run, attempt.key.epoch},
                               Site::Truth{.attempt = attempt});
    return queue_->Offer(attempt);
  }
  void Cancel(const model::AttemptKey& key) override {
    if (!incarnation_.crashed) queue_->Cancel(key);
  }
  executor::Capacity GetCapacity() const override { return queue_->GetCapacity(); }
  bool HasLines() const override { return queue_->HasLines(); }
  std::string LineOf(const model::Workflow& workflow, TaskNo task) const override {
    return queue_->LineOf(workflow, task);
  }
  executor::Credit GetCredit(const TenantId& tenant, const std::string& line) const override {
    return queue_->GetCredit(tenant, line);
  }
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    if (incarnation_.crashed) return Error{Code::kUnavailable, "it is gone"};
    return queue_->Inspect(attempts);
  }
  std::vector<model::AttemptKey> List() const override { return queue_->List(); }
  executor::Metrics GetMetrics() const override { return queue_->GetMetrics(); }
  void Settled(std::span<const model::AttemptKey> keys) override {
    if (!incarnation_.crashed) queue_->Settled(keys);
  }
  Status Drain(Duration timeout) override { return queue_->Drain(timeout); }

  bool alive() const { return !incarnation_.crashed; }
  executor_queue::QueueExecutor& queue() { return *queue_; }

 private:
  Fleet& fleet_;
  Incarnation& incarnation_;
  const std::unique_ptr<executor_queue::QueueExecutor> queue_;
};

Fleet::Fleet(std::string name, Dice dice, SimClock& clock, Journal& journal, Site::Hooks hooks)
    : name_(std::move(name)),
      dice_(std::move(dice)),
      clock_(clock),
      journal_(journal),
      hooks_(std::move(hooks)),
      steady_(std::make_unique<SteadyClock>(clock)),
      logs_(log_store::NewMemoryLogStore()),
      resolver_(std::make_unique<Resolver>()) {
  SeededRandom keys(dice_.Next());
  tokens_ = *token::JwtIssuer::Create({}, token::TokenKeys::Generate(keys), *steady_);
  options_.threads = 0;
  options_.lease = dice_.Between(std::chrono::seconds(2), std::chrono::seconds(60));
  options_.heartbeat_every = options_.lease / 4;
  options_.max_waiting = 2 + dice_.Below(8);
  lost_ = dice_.Chance(600) ? dice_.Below(300) : 0;
  doubled_ = dice_.Chance(600) ? dice_.Below(300) : 0;
  for (std::uint32_t n = 1 + dice_.Below(3); n > 0; --n) {
    Worker worker;
    worker.who = {TenantId("public"), fmt::format("worker-{}", n), "0"};
    worker.labelled = dice_.Chance(300);
    workers_.push_back(std::move(worker));
  }
}

Fleet::~Fleet() = default;

std::unique_ptr<executor::Executor> Fleet::NewPort(Incarnation& incarnation, Logger& logger) {
  return std::make_unique<Port>(*this, incarnation, logger);
}

const Site::Truth* Fleet::Find(RunNo run, Epoch epoch) {
  StopLapsed();
  const auto found = truths_.find({run, epoch});
  return found == truths_.end() ? nullptr : &found->second;
}

std::string Fleet::Describe(const Site::Truth& truth) const {
  return fmt::format("{}: run {} {} epoch {}", name_, truth.attempt.key.run.value,
                     truth.attempt.task().id, truth.attempt.key.epoch.value);
}

void Fleet::CalmDown() {
  calm_ = true;
  lost_ = doubled_ = 0;
}

void Fleet::ServeAll() {
  if (std::exchange(serves_all_, true)) return;
  if (journal_.keeps()) journal_.Note("the workers serve the other queue and have the label, too");
  for (Worker& worker : workers_) worker.registered = false;
}

void Fleet::Elapse(Duration by) {
  if (calm_ || dice_.Chance(700))
    for (int n = 0; n < 200 && by > Duration(0); ++n) {
      const Duration step = std::min<Duration>(by, std::chrono::seconds(1));
      by -= step;
      clock_.Advance(step);
      for (const auto& [number, port] : ports_)
        if (port->alive()) port->queue().Tick();
    }
  clock_.Advance(by);
}

// ---- Messages.

void Fleet::Post(std::function<void()> deliver, bool may_double) {
  if (messages_.size() >= kMostMessages || dice_.Chance(lost_)) return;
  if (may_double && dice_.Chance(doubled_)) messages_.push_back(deliver);
  messages_.push_back(std::move(deliver));
}

bool Fleet::Deliver() {
  if (messages_.empty()) return false;
  std::swap(messages_[dice_.Below(static_cast<std::uint32_t>(messages_.size()))], messages_.back());
  const auto deliver = std::move(messages_.back());
  messages_.pop_back();
  deliver();
  return true;
}

template <typename T>
void Fleet::Send(std::function<void(Service&, Service::Done<T>)> call,
                 std::function<void(const Result<T>&)> answered) {
  Post(
      [this, call = std::move(call), answered = std::move(answered)] {
        if (ports_.empty()) return;
        auto at = ports_.begin();
        std::advance(at, dice_.Below(static_cast<std::uint32_t>(ports_.size())));
        Port* const port = at->second;
        if (!port->alive()) return;
        call(port->queue(), [this, number = at->first, answered](const Result<T>& answer) {
          // What a process says after its death is not heard.
          const auto speaker = ports_.find(number);
          if (speaker == ports_.end() || !speaker->second->alive()) return;
          Post([answered, answer] { answered(answer); }, false);
        });
      },
      true);
}

Fleet::Worker* Fleet::Find(const Identity& who) {
  const auto found = std::ranges::find(workers_, who, &Worker::who);
  return found == workers_.end() ? nullptr : &*found;
}

Fleet::Held* Fleet::FindHeld(const Identity& who, const Id& id) {
  Worker* const worker = Find(who);
  if (worker == nullptr) return nullptr;
  const auto found = worker->held.find(id);
  return found == worker->held.end() ? nullptr : &found->second;
}

// ---- Workers.

bool Fleet::Progress() {
  StopLapsed();
  const std::uint32_t draw = dice_.Below(100);
  moved_ = false;
  if (draw < 40) Deliver();
  for (const auto& [number, port] : ports_) {
    if (!port->alive() || dice_.Chance(300)) continue;
    port->queue().Tick();
    while (port->queue().RunNext()) moved_ = true;
  }
  if (draw >= 40) Act(workers_[dice_.Below(static_cast<std::uint32_t>(workers_.size()))]);
  return moved_;
}

void Fleet::Act(Worker& worker) {
  if (!calm_ && dice_.Chance(15)) return Die(worker);
  if (!calm_ && dice_.Chance(3)) ServeAll();
  if (!worker.registered) return Register(worker);
  if (worker.held.size() < kSlots && (!worker.polls || clock_.Monotonic() >= worker.polls_until) &&
      dice_.Chance(500))
    return Poll(worker);
  if (worker.held.empty() || dice_.Chance(300)) return Beat(worker);
  auto at = worker.held.begin();
  std::advance(at, dice_.Below(static_cast<std::uint32_t>(worker.held.size())));
  Held& held = at->second;
  Site::Truth& truth = truths_.at(held.id);
  if (held.work_token.empty()) {
    if (calm_ || !dice_.Chance(60)) return Begin(worker, held);
    Send<bool>([who = worker.who, token = held.assignment.start_token](
                   Service& s, auto done) { s.HandBack(who, {token}, std::move(done)); },
               [](const Result<bool>&) {});
    worker.held.erase(at);
    return;
  }
  if (truth.outcome && truth.holder == HolderOf(worker.who)) return Complete(worker, held);
  if (held.running && dice_.Chance(calm_ ? 900 : 400)) {
    if (!calm_ && (held.cancel ? truth.stubborn : truth.hangs)) return;
    return End(truth, held);
  }
  Say(worker, held);
}

void Fleet::Die(Worker& worker) {
  const bool leaves = dice_.Chance(500);
  if (journal_.keeps())
    journal_.Note(fmt::format("{} {}", worker.who.worker, leaves ? "leaves" : "dies"));
  for (auto& [id, held] : worker.held) {
    Site::Truth& truth = truths_.at(id);
    if (held.running && truth.stage == Site::Stage::kBegun) truth.stage = Site::Stage::kVanished;
    // What it ended in, nobody may hear any more.
    if (!held.work_token.empty()) truth.lapsed = true;
  }
  if (leaves)
    Send<bool>([who = worker.who](Service& s, auto done) { s.Leave(who, std::move(done)); },
               [](const Result<bool>&) {});
  worker = Worker{.who = {worker.who.tenant, worker.who.worker, fmt::format("{}", ++incarnations_)},
                  .labelled = worker.labelled};
}

void Fleet::Register(Worker& worker) {
  std::map<std::string, std::uint32_t> slots{{"default", kSlots}};
  if (serves_all_) slots[std::string(kOtherQueue)] = kSlots;
  std::vector<std::string> labels;
  if (worker.labelled || serves_all_) labels.emplace_back(kLabel);
  Send<worker_api::Welcome>(
      [who = worker.who, slots, labels](Service& s, auto done) {
        s.Register({.who = who, .slots = slots, .labels = labels}, std::move(done));
      },
      [this, who = worker.who, slots](const Result<worker_api::Welcome>& answer) {
        Worker* const known = Find(who);
        if (known == nullptr || !answer) return;
        // What it said before it served more may have come, and be answered, after that.
        known->registered = slots.contains(std::string(kOtherQueue)) == serves_all_;
        known->slots = slots;
      });
}

void Fleet::Poll(Worker& worker) {
  worker.polls = true;
  worker.polls_until = clock_.Monotonic() + kPatience;
  auto free = worker.slots;
  for (auto& [queue, slots] : free) slots -= static_cast<std::uint32_t>(worker.held.size());
  const Duration wait = dice_.Chance(500) ? Duration(0) : Duration(std::chrono::seconds(10));
  Send<worker_api::Polled>(
      [who = worker.who, free, wait](Service& s, auto done) {
        s.PollFor({.who = who, .free = free, .wait = wait}, std::move(done));
      },
      [this, who = worker.who](const Result<worker_api::Polled>& answer) {
        Worker* const known = Find(who);
        if (known == nullptr) return;
        if (journal_.keeps() && !answer)
          journal_.Note(HolderOf(who) + " polled: " + answer.error().message);
        known->polls = false;
        if (!answer) {  // not known, or registered with other queues meanwhile
          known->registered &= answer.error().code == Code::kUnavailable;
          return;
        }
        for (const auto& assignment : answer->assignments) {
          const Id id{assignment.attempt.run, assignment.attempt.epoch};
          if (!truths_.at(id).attempt.task().required.empty() && !known->labelled && !serves_all_)
            journal_.Violated(HolderOf(who) + " lacks the label of " + Describe(truths_.at(id)));
          if (const auto [at, added] = known->held.try_emplace(id); added) {
            if (journal_.keeps())
              journal_.Note(HolderOf(who) + " gets " + Describe(truths_.at(id)));
            at->second.assignment = assignment;
            at->second.id = id;
            at->second.number = ++assignments_;
            at->second.answered_from = clock_.Monotonic();
          }
        }
      });
}

void Fleet::Begin(Worker& worker, Held& held) {
  if (journal_.keeps())
    journal_.Note(HolderOf(worker.who) + " would begin " + Describe(truths_.at(held.id)));
  Send<Started>(
      [this, who = worker.who, id = held.id, token = held.assignment.start_token](Service& s,
                                                                                  auto done) {
        truths_.at(id).dropped = true;  // from now on it may be let in, and never hear of it
        s.Start(who, token, std::move(done));
      },
      [this, who = worker.who, id = held.id, number = held.number, said = clock_.Monotonic()](
          const Result<Started>& answer) { Begun(who, id, number, said, answer); });
}

void Fleet::Begun(const Identity& who, const Id& id, std::uint64_t number, Duration said,
                  const Result<Started>& answer) {
  Held* const held = FindHeld(who, id);
  if (held == nullptr || held->number != number) return;
  if (!answer) {
    if (answer.error().code == Code::kNotFound) Find(who)->registered = false;
    if (answer.error().code == Code::kPermissionDenied && held->work_token.empty())
      Find(who)->held.erase(id);
    return;
  }
  if (answer->reply == Reply::kStop) return Stopped(who, id);
  if (answer->reply == Reply::kAskAgain) return;
  const bool first = held->work_token.empty();
  held->answered_from = first ? said : std::max(held->answered_from, said);
  Site::Truth& truth = truths_.at(id);
  if (first) {
    held->work_token = answer->work_token;
    truth.holder = HolderOf(who);
  }
  if (answer->reply == Reply::kCancel) held->cancel = true;
  if (!first) return;
  // It says how it ended without having begun: too late, or not at all.
  if (answer->reply == Reply::kCancel || Lapsed(*held)) {
    truth.lapsed |= Lapsed(*held);
    truth.outcome = model::Outcome{
        .verdict = answer->reply == Reply::kCancel ? Verdict::kCancelled : Verdict::kInterrupted};
    return;
  }
  held->running = true;
  if (++truth.begins > 1)
    journal_.Violated("I4 user code of one epoch began twice: " + Describe(truth));
  for (auto other = truths_.lower_bound({id.first, Epoch(0)});
       other != truths_.end() && other->first.first == id.first; ++other)
    if (other->second.attempt.key.task == truth.attempt.key.task &&
        other->second.stage == Site::Stage::kBegun)
      journal_.Violated("I4 two epochs of one task run at once: " + Describe(truth));
  if (hooks_.gate(truth.attempt.key) && !hooks_.holds(truth.attempt.key, truth.holder))
    journal_.Violated("I5 let in, but no stored row says so: " + Describe(truth));
  truth.stage = Site::Stage::kBegun;
  truth.hangs = !calm_ && dice_.Chance(40);
  truth.stubborn = !calm_ && dice_.Chance(60);
  if (journal_.keeps()) journal_.Note(who.worker + " begins " + Describe(truth));
}

void Fleet::Beat(Worker& worker) {
  std::vector<std::string> tokens;
  std::vector<Id> ids;
  for (const auto& [id, held] : worker.held)
    if (!held.work_token.empty()) {
      tokens.push_back(held.work_token);
      ids.push_back(id);
    }
  const Duration wait = dice_.Chance(500) ? Duration(0) : Duration(std::chrono::seconds(5));
  Send<worker_api::Beaten>(
      [who = worker.who, tokens, wait](Service& s, auto done) {
        s.Beat({.who = who, .work_tokens = tokens, .wait = wait}, std::move(done));
      },
      [this, who = worker.who, ids,
       said = clock_.Monotonic()](const Result<worker_api::Beaten>& answer) {
        Worker* const known = Find(who);
        if (known == nullptr) return;
        if (!answer) {
          known->registered &= answer.error().code != Code::kNotFound;
          return;
        }
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (Held* const held = FindHeld(who, ids[i]);
              held != nullptr && !answer->pulses[i].work_token.empty())
            held->work_token = answer->pulses[i].work_token;
          Heard(who, ids[i], said, answer->pulses[i].reply);
        }
      });
}

void Fleet::Say(Worker& worker, Held& held) {
  Send<Reply>(
      [token = held.work_token, at = clock_.Now()](Service& s, auto done) {
        s.Log(token, {{.number = 1, .at = at, .bytes = "line"}}, std::move(done));
      },
      [this, who = worker.who, id = held.id,
       said = clock_.Monotonic()](const Result<Reply>& answer) {
        if (answer) Heard(who, id, said, *answer);
      });
}

void Fleet::Heard(const Identity& who, const Id& id, Duration said, Reply reply) {
  Held* const held = FindHeld(who, id);
  if (held == nullptr) return;
  if (reply == Reply::kStop) return Stopped(who, id);
  if (reply == Reply::kAskAgain) return;
  held->answered_from = std::max(held->answered_from, said);
  held->cancel |= reply == Reply::kCancel;
}

void Fleet::Stopped(const Identity& who, const Id& id) {
  Held* const held = FindHeld(who, id);
  Site::Truth& truth = truths_.at(id);
  const bool holds = held->running && truth.stage == Site::Stage::kBegun;
  if (holds && !Lapsed(*held) && hooks_.gate(truth.attempt.key))
    journal_.Violated("I3 the holder was told to stop, but its epoch is live: " + Describe(truth));
  if (holds) truth.stage = Site::Stage::kVanished;
  Find(who)->held.erase(id);
}

void Fleet::End(Site::Truth& truth, Held& held) {
  const std::uint32_t draw = dice_.Below(1'000);
  model::Outcome outcome;
  if (held.cancel && dice_.Chance(850))
    outcome.verdict = Verdict::kCancelled;
  else if (draw < 700)
    outcome.verdict = Verdict::kSucceeded;
  else if (draw < 800)
    outcome = {.verdict = Verdict::kRetry, .reason = Reason::kExitCode};
  else if (draw < 870 || calm_)
    outcome = {.verdict = Verdict::kFailed, .reason = Reason::kError};
  else if (draw < 910)
    outcome.verdict = Verdict::kSkipped;
  else if (draw < 950)
    outcome = {.verdict = Verdict::kSnoozed,
               .not_before =
                   clock_.Now() + dice_.Between(-std::chrono::seconds(5), std::chrono::minutes(2))};
  else
    outcome.verdict = Verdict::kInterrupted;
  truth.outcome = outcome;
  truth.stage = Site::Stage::kEnded;
  held.running = false;
  moved_ = true;
  if (journal_.keeps())
    journal_.Note(fmt::format("ended {} {}", Describe(truth), model::VerdictName(outcome.verdict)));
}

void Fleet::Complete(Worker& worker, Held& held) {
  Send<Reply>([token = held.work_token, outcome = *truths_.at(held.id).outcome](
                  Service& s, auto done) { s.Complete(token, outcome, std::move(done)); },
              [this, who = worker.who, id = held.id](const Result<Reply>& answer) {
                if (FindHeld(who, id) == nullptr) return;
                const bool refused = !answer && answer.error().code != Code::kUnavailable;
                if (!refused && (!answer || *answer == Reply::kAskAgain)) return;
                Find(who)->held.erase(id);
                moved_ = true;
              });
}

void Fleet::StopLapsed() {
  for (Worker& worker : workers_)
    for (auto& [id, held] : worker.held) {
      if (held.work_token.empty() || !Lapsed(held)) continue;
      Site::Truth& truth = truths_.at(id);
      if (truth.holder != HolderOf(worker.who)) continue;
      truth.lapsed = true;  // it may be lost by now
      if (!held.running) continue;
      held.running = false;
      truth.outcome = model::Outcome{.verdict = Verdict::kInterrupted};
      truth.stage = Site::Stage::kEnded;
      if (journal_.keeps()) journal_.Note("its lease is over, stopped " + Describe(truth));
    }
}

}  // namespace headworks::sim
