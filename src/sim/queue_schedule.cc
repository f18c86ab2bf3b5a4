#include "headworks/sim/queue_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "headworks/sim/dice.h"
#include "headworks/sim/journal.h"
#include "headworks/store_memory/memory_store.h"
#include "headworks/task_queue/rules.h"

namespace headworks::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using task_queue::Claim;
using task_queue::ClaimedItem;
using task_queue::Enqueued;
using task_queue::ItemNo;
using task_queue::ItemState;
using task_queue::NewItem;
using task_queue::QueueRecord;
using task_queue::RateLimit;
using task_queue::Settlement;

/// Two tenants that call everything alike (I13).
constexpr std::array kTenants{"acme", "other"};
constexpr char kQueue[] = "q";

/// What was answered, and whether it may have been.
class QueueOracle {
 public:
  explicit QueueOracle(Journal& journal) : journal_(journal) {}

  /// A poll that happened, whether its answer arrived or not.  `most_attempts`: of the settings
  /// that the queue ever had.
  void Polled(const std::vector<ClaimedItem>& items, Duration now,
              const std::optional<RateLimit>& rate, int most_attempts) {
    int priority = task_queue::kMaxPriority;
    for (const ClaimedItem& item : items) {
      const std::string name =
          fmt::format("item '{}' in claim {}", item.id, FormatClaim(item.claim));
      if (item.priority > priority) journal_.Violated(name + " came behind one of lower priority");
      priority = item.priority;
      if (item.claim.number.value <= last_claim_)
        journal_.Violated(name + ": numbers of claims do not rise");
      last_claim_ = item.claim.number.value;
      // A bound that is lowered holds from the next failure on.
      if (item.attempt < 1 || item.attempt > std::max(item.max_attempts, most_attempts))
        journal_.Violated(
            fmt::format("{}: attempt {} of {}", name, item.attempt, item.max_attempts));
      if (completed_.contains(item.claim.item)) journal_.Violated(name + " had been acknowledged");
      if (rejected_.contains(item.claim.item)) journal_.Violated(name + " had been rejected");
      if (item.payload != payloads_[item.id])
        journal_.Violated(fmt::format("{} has payload {}, and was pushed with {}", name,
                                      item.payload, payloads_[item.id]));
      Held& held = held_[item.claim.item];
      if (held.until > now) journal_.Violated(name + " is held by another claim");
      held = {item.claim.number.value, now + item.lease};
    }
    CheckRate(items.size(), now, rate);
  }
  void Settled(const Settlement& settlement, const Result<ItemState>& answer, Duration now,
               const std::optional<RateLimit>& rate) {
    const auto held = held_.find(settlement.claim.item);
    const std::int64_t number = settlement.claim.number.value;
    const bool holds =
        held != held_.end() && held->second.claim == number && held->second.until > now;
    const std::string name = fmt::format("claim {}", FormatClaim(settlement.claim));
    if (!answer) {
      if (holds) journal_.Violated(name + " holds, and was refused: " + answer.error().message);
      return;
    }
    const bool again = settlement.kind == Settlement::Kind::kAck &&
                       completed_.contains(settlement.claim.item) &&
                       completed_[settlement.claim.item] == number;
    if (!holds && !again) journal_.Violated(name + " was settled, and does not hold");
    if (*answer == ItemState::kCompleted) {
      if (!again && completed_.contains(settlement.claim.item))
        journal_.Violated(name + " completed an item for the second time");
      completed_[settlement.claim.item] = number;
    }
    if (settlement.kind == Settlement::Kind::kReject) {
      // One that was to be cancelled meanwhile is.
      if (*answer != ItemState::kDead && *answer != ItemState::kCancelled)
        journal_.Violated(fmt::format("{} was rejected, and is {}", name, StateName(*answer)));
      if (*answer == ItemState::kDead) rejected_[settlement.claim.item] = settlement.reason;
    }
    if (rate && settlement.kind == Settlement::Kind::kHandBack) starts_.push_back({now, -1});
    held_.erase(settlement.claim.item);
  }
  /// An operator may have made it pending again, or taken it away.
  void MayHaveLeft(const task_queue::ItemRecord& item) {
    if (item.state != ItemState::kDead) rejected_.erase(item.no);
  }
  /// Until then it is dead, with its reason.
  void CheckRejected(const std::vector<task_queue::ItemRecord>& items) {
    for (const auto& [no, reason] : rejected_) {
      const auto item = std::ranges::find(items, no, &task_queue::ItemRecord::no);
      if (item == items.end())
        journal_.Violated(fmt::format("item {} was rejected, and is gone", no.value));
      else if (item->state != ItemState::kDead || item->reason != reason)
        journal_.Violated(fmt::format("item '{}' was rejected as '{}', and is {} as '{}'", item->id,
                                      reason, StateName(item->state), item->reason));
    }
  }
  void Extended(Claim claim, const Status& answer, Duration now, Duration by) {
    const auto held = held_.find(claim.item);
    const bool holds =
        held != held_.end() && held->second.claim == claim.number.value && held->second.until > now;
    const bool extended = answer || answer.error().code == Code::kCancelled;
    if (holds != extended)
      journal_.Violated(fmt::format("claim {} {}, and was {}", FormatClaim(claim),
                                    holds ? "holds" : "does not hold",
                                    extended ? "extended" : "refused"));
    if (holds) held->second.until = now + by;
  }
  void Pushed(const NewItem& item, Enqueued answer, Duration now) {
    if (answer != Enqueued::kInserted) {
      if ((item.payload != payloads_[item.id]) != (answer == Enqueued::kDuplicateDiffers))
        journal_.Violated(fmt::format(
            "id '{}' was pushed with {} and then with {}, which is {}", item.id, payloads_[item.id],
            item.payload,
            answer == Enqueued::kDuplicateDiffers ? "said to differ" : "not said to differ"));
      return;
    }
    const auto known = ids_.find(item.id);
    if (known != ids_.end() && known->second > now)
      journal_.Violated(fmt::format("id '{}' was taken twice", item.id));
    ids_[item.id] = Duration::max();
    payloads_[item.id] = item.payload;
  }
  /// Its item is over: the id may be forgotten at `until`.
  void Over(const std::string& id, Duration until) { ids_[id] = std::min(ids_[id], until); }
  void RateChanged() { starts_.clear(); }

  std::size_t completed() const { return completed_.size(); }
  /// At some time.
  bool IsHeld(Claim claim) const {
    const auto held = held_.find(claim.item);
    return held != held_.end() && held->second.claim == claim.number.value;
  }
  bool IsCompleted(ItemNo item) const { return completed_.contains(item); }

 private:
  struct Held {
    std::int64_t claim = 0;
    Duration until{};
  };
  /// No window has more than a bucket, what flows in and what is handed back meanwhile.
  void CheckRate(std::size_t items, Duration now, const std::optional<RateLimit>& rate) {
    if (!rate) return;
    for (std::size_t i = 0; i < items; ++i) starts_.push_back({now, 1});
    std::int64_t claimed = 0;
    for (const auto& [start, claims] : starts_ | std::views::reverse) {
      const std::int64_t flowed = (now - start).count() * rate->count / rate->per.count();
      claimed += claims;
      if (claimed > rate->count + flowed + 1)
        return journal_.Violated(fmt::format("{} claims within {} at {} per {}", claimed,
                                             FormatDuration(now - start), rate->count,
                                             FormatDuration(rate->per)));
    }
    while (!starts_.empty() && now - starts_.front().first > 2 * rate->per) starts_.pop_front();
  }

  Journal& journal_;
  std::map<ItemNo, Held> held_;
  std::map<ItemNo, std::int64_t> completed_;
  std::map<ItemNo, std::string> rejected_;
  std::map<std::string, Duration> ids_;          // until when each is known at least
  std::map<std::string, std::string> payloads_;  // as first pushed
  std::deque<std::pair<Duration, int>> starts_;  // claims, and those that were handed back
  std::int64_t last_claim_ = 0;
};

class QueueSchedule {
 public:
  explicit QueueSchedule(const ScheduleOptions& options)
      : dice_(options.seed), journal_(options.trace) {}

  ScheduleResult Run() {
    Open();
    for (Tenant& each : tenants_) {
      at_ = &each;
      Configure();
    }
    const std::uint32_t steps = 50 + dice_.Below(400);
    for (std::uint32_t step = 0; step < steps && !journal_.failed(); ++step) {
      at_ = &tenants_[dice_.Below(kTenants.size())];
      Step();
    }
    for (Tenant& each : tenants_) {
      at_ = &each;
      if (!journal_.failed()) Finish();
    }
    ScheduleResult result;
    result.violation = journal_.violation();
    result.trace = journal_.TakeLines();
    result.last_draw = dice_.Next();
    result.rounds = calls_;
    result.crashes = crashes_;
    for (const Tenant& each : tenants_) result.runs += each.oracle.completed();
    return result;
  }

 private:
  static constexpr std::size_t kConsumers = 5;
  static constexpr std::uint32_t kIds = 60;

  struct Held {
    Claim claim;
    std::string id;
  };
  struct Tenant {
    Tenant(const char* name, Journal& journal) : tenant(name), oracle(journal) {}
    const TenantId tenant;
    QueueOracle oracle;
    task_queue::QueueSettings settings;
    int most_attempts = 0;  // of all settings so far
    std::array<std::vector<Held>, kConsumers> consumers;
  };

  task_queue::TaskQueue& tasks() { return database_->queues().tasks(); }
  task_queue::QueueAdmin& admin() { return database_->queues().admin(); }
  Duration now() { return clock_.Monotonic(); }
  void Open() { database_ = store_memory::Open(storage_, clock_); }
  void Note(const auto& make) {
    ++calls_;
    if (journal_.keeps())
      journal_.Note(fmt::format("{} {} {}", FormatDuration(now()), at_->tenant.value, make()));
  }

  void Step() {
    struct Choice {
      std::uint32_t weight;
      void (QueueSchedule::*act)();
    };
    static constexpr std::array kChoices{
        Choice{20, &QueueSchedule::Push},     Choice{25, &QueueSchedule::Poll},
        Choice{30, &QueueSchedule::Settle},   Choice{8, &QueueSchedule::Extend},
        Choice{2, &QueueSchedule::Die},       Choice{12, &QueueSchedule::Wait},
        Choice{2, &QueueSchedule::Cancel},    Choice{2, &QueueSchedule::Redrive},
        Choice{1, &QueueSchedule::Purge},     Choice{1, &QueueSchedule::Pause},
        Choice{1, &QueueSchedule::Configure}, Choice{3, &QueueSchedule::Sweep},
        Choice{1, &QueueSchedule::Crash},     Choice{2, &QueueSchedule::Count}};
    std::uint32_t total = 0;
    for (const Choice& choice : kChoices) total += choice.weight;
    std::uint32_t drawn = dice_.Below(total);
    for (const Choice& choice : kChoices) {
      if (drawn < choice.weight) return (this->*choice.act)();
      drawn -= choice.weight;
    }
  }

  std::string AnyId() { return fmt::format("id-{}", dice_.Below(kIds)); }
  std::vector<Held>& AnyConsumer() { return at_->consumers[dice_.Below(kConsumers)]; }

  void Push() {
    std::vector<NewItem> items;
    for (std::uint32_t i = 0; i <= dice_.Below(3); ++i)
      items.push_back({.id = AnyId(),
                       .payload = dice_.Chance(100) ? "2" : "1",
                       .priority = static_cast<int>(dice_.Below(3)) - 1,
                       .delay = dice_.Chance(300) ? dice_.Between({}, seconds(30)) : Duration(),
                       .max_attempts = dice_.Chance(200) ? 1 : 0});
    // A reply that is lost is followed by the same again.
    for (bool lost = true; lost;) {
      lost = dice_.Chance(100);
      const auto answers = tasks().Enqueue(at_->tenant, kQueue, items);
      Note([&] { return fmt::format("push {}", answers ? "" : answers.error().message); });
      if (!answers) {
        if (answers.error().code != Code::kAtCapacity) journal_.Violated(answers.error().message);
        return;
      }
      for (std::size_t i = 0; i < items.size(); ++i)
        at_->oracle.Pushed(items[i], (*answers)[i], now());
      const auto queue = admin().GetQueue(at_->tenant, kQueue);
      if (std::ranges::count(*answers, Enqueued::kInserted) > 0 &&
          queue->pending + queue->processing > at_->settings.max_depth)
        journal_.Violated("the queue grew beyond its depth");
    }
  }

  void Poll() {
    const std::size_t most = 1 + dice_.Below(4);
    const auto polled =
        tasks().Poll({.tenant = at_->tenant,
                      .queue = kQueue,
                      .max_items = most,
                      .visibility = dice_.Chance(300) ? dice_.Between(milliseconds(1), seconds(90))
                                                      : Duration()});
    Note([&] { return fmt::format("poll: {}", polled ? polled->items.size() : 0); });
    if (!polled) return journal_.Violated(polled.error().message);
    if (polled->items.size() > most) journal_.Violated("more items than asked for");
    at_->oracle.Polled(polled->items, now(), at_->settings.rate, at_->most_attempts);
    if (dice_.Chance(50)) return;  // the reply is lost: nobody knows of these claims
    std::vector<Held>& consumer = AnyConsumer();
    for (const ClaimedItem& item : polled->items) consumer.push_back({item.claim, item.id});
  }

  void Settle() {
    std::vector<Held>& consumer = AnyConsumer();
    if (consumer.empty()) return;
    const std::size_t at = dice_.Below(static_cast<std::uint32_t>(consumer.size()));
    const Held held = consumer[at];
    Settlement settlement{.claim = held.claim};
    const std::uint32_t kind = dice_.Below(11);
    if (kind >= 6)
      settlement.kind = kind < 9    ? Settlement::Kind::kNack
                        : kind == 9 ? Settlement::Kind::kHandBack
                                    : Settlement::Kind::kReject;
    if (kind == 10) settlement.reason = fmt::format("bad {}", dice_.Below(100));
    if (kind == 6) settlement.delay = dice_.Between({}, seconds(20));
    if (dice_.Chance(50)) SettleOfAnother(settlement);
    for (bool lost = true; lost && !journal_.failed();) {
      lost = dice_.Chance(100);
      Report(settlement, held.id);
    }
    // Sometimes it is said of once more, much later.
    if (dice_.Chance(900)) consumer.erase(consumer.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// A claim is worth nothing to another tenant, which may have one of the same number (I13).
  void SettleOfAnother(const Settlement& settlement) {
    Tenant& other = at_ == &tenants_[0] ? tenants_[1] : tenants_[0];
    if (other.oracle.IsHeld(settlement.claim)) return;
    const auto answers = tasks().Settle(other.tenant, kQueue, std::span(&settlement, 1));
    if (!answers) return journal_.Violated(answers.error().message);
    if (answers->front() && !other.oracle.IsCompleted(settlement.claim.item))
      journal_.Violated(fmt::format("claim {} of {} was settled by {}",
                                    FormatClaim(settlement.claim), at_->tenant.value,
                                    other.tenant.value));
  }

  void Report(const Settlement& settlement, const std::string& id) {
    const auto answers = tasks().Settle(at_->tenant, kQueue, std::span(&settlement, 1));
    if (!answers) return journal_.Violated(answers.error().message);
    const auto& answer = answers->front();
    Note([&] {
      return fmt::format("settle {} {}: {}", FormatClaim(settlement.claim), id,
                         answer ? std::string(StateName(*answer)) : answer.error().message);
    });
    at_->oracle.Settled(settlement, answer, now(), at_->settings.rate);
    NoteIfOver(id);
  }

  void Extend() {
    const std::vector<Held>& consumer = AnyConsumer();
    if (consumer.empty()) return;
    const Claim claim = consumer[dice_.Below(static_cast<std::uint32_t>(consumer.size()))].claim;
    const Duration by = dice_.Between(seconds(1), seconds(60));
    const auto answers = tasks().Extend(at_->tenant, kQueue, std::span(&claim, 1), by);
    Note([&] { return fmt::format("extend {}", FormatClaim(claim)); });
    if (!answers) return journal_.Violated(answers.error().message);
    at_->oracle.Extended(claim, answers->front(), now(), by);
  }

  void Die() { AnyConsumer().clear(); }

  void Wait() {
    clock_.Advance(dice_.Chance(50) ? dice_.Between({}, minutes(10))
                                    : dice_.Between({}, seconds(5)));
    if (dice_.Chance(50)) clock_.JumpWall(dice_.Between(hours(-1), hours(1)));
  }

  void Cancel() {
    const std::string id = AnyId();
    const auto answer = tasks().Cancel(at_->tenant, kQueue, id);
    Note([&] { return "cancel " + id; });
    if (!answer) return;
    NoteIfOver(id);
    NoteMoved();
  }

  void Redrive() {
    const auto moved = admin().Redrive(at_->tenant, kQueue, {.limit = 1 + dice_.Below(5)});
    Note([&] { return fmt::format("redrive: {}", moved ? moved->count : -1); });
    if (!moved) return journal_.Violated(moved.error().message);
    NoteMoved();
  }

  /// Of a call that may have moved dead items.
  void NoteMoved() {
    const auto items = admin().ListItems(at_->tenant, kQueue, {.limit = task_queue::kMaxBatch});
    if (!items) return journal_.Violated("the queue cannot be read");
    for (const auto& item : *items) at_->oracle.MayHaveLeft(item);
  }

  void Purge() {
    const std::string id = AnyId();
    const auto moved = admin().Purge(at_->tenant, kQueue, {.ids = {id}});
    Note([&] { return "purge " + id; });
    if (!moved) return journal_.Violated(moved.error().message);
    if (moved->count == 0) return;
    NoteIfOver(id);
    NoteMoved();
  }

  void Pause() {
    const bool paused = dice_.Chance(500);
    Note([&] { return paused ? "pause" : "resume"; });
    if (const Status done = admin().SetPaused(at_->tenant, kQueue, paused); !done)
      journal_.Violated(done.error().message);
  }

  void Configure() {
    task_queue::SettingsChange change;
    change.visibility = dice_.Between(seconds(1), seconds(60));
    change.max_attempts = 1 + static_cast<int>(dice_.Below(4));
    change.backoff = dice_.Between({}, seconds(5));
    change.rate = RateLimit{dice_.Chance(300) ? 1 + dice_.Below(5) : 0,
                            dice_.Between(seconds(1), seconds(30))};
    change.max_depth = 5 + dice_.Below(100);
    // Ids that were over keep what they were told; so the window never shrinks.
    change.dedup_window = at_->settings.dedup_window + dice_.Between({}, seconds(5));
    if (at_->most_attempts == 0) change.dedup_window = dice_.Between({}, minutes(2));
    change.dead_retention = hours(24 * 365);
    const auto set = admin().Configure(at_->tenant, kQueue, change);
    Note([&] { return std::string("configure"); });
    if (!set) return journal_.Violated(set.error().message);
    at_->settings = *set;
    at_->most_attempts = std::max(at_->most_attempts, at_->settings.max_attempts);
    at_->oracle.RateChanged();
  }

  void Sweep() {
    Note([&] { return std::string("sweep"); });
    if (const auto swept = admin().Sweep(1 + dice_.Below(10)); !swept)
      journal_.Violated(swept.error().message);
  }

  void Crash() {
    Note([&] { return std::string("the store is opened anew"); });
    ++crashes_;
    Open();
  }

  /// If it is over, its id need be known for a while only.
  void NoteIfOver(const std::string& id) {
    const auto item = admin().GetItem(at_->tenant, kQueue, id);
    if (!item) return;
    switch (item->item.state) {
      case ItemState::kCompleted:
      case ItemState::kCancelled:
      case ItemState::kPurged:
        return at_->oracle.Over(id, now() + at_->settings.dedup_window);
      case ItemState::kProcessing:
        // At the end of its lease, which nobody reports, it will be.
        if (item->item.cancel_requested) at_->oracle.Over(id, now() + at_->settings.dedup_window);
        return;
      case ItemState::kPending:
      case ItemState::kDead:
        return;
    }
  }

  /// The figures of the queue are those of its items.
  void Count() {
    const auto queue = admin().GetQueue(at_->tenant, kQueue);
    const auto items = admin().ListItems(at_->tenant, kQueue, {.limit = task_queue::kMaxBatch});
    if (!queue || !items) return journal_.Violated("the queue cannot be read");
    const auto count = [&](ItemState state) {
      return std::ranges::count(*items, state, &task_queue::ItemRecord::state);
    };
    if (queue->pending != count(ItemState::kPending) ||
        queue->processing != count(ItemState::kProcessing) ||
        queue->dead != count(ItemState::kDead))
      journal_.Violated("the queue's figures are not those of its items");
    at_->oracle.CheckRejected(*items);
    if (queue->completed != static_cast<std::int64_t>(at_->oracle.completed()))
      journal_.Violated(fmt::format("{} items completed, {} were acknowledged", queue->completed,
                                    at_->oracle.completed()));
    for (const auto& item : *items)
      if ((item.state == ItemState::kCompleted) != at_->oracle.IsCompleted(item.no))
        journal_.Violated(fmt::format("item '{}' is {}", item.id, StateName(item.state)));
  }

  /// When nothing goes wrong any more, all that is there gets done.
  void Finish() {
    for (auto& consumer : at_->consumers) consumer.clear();
    static_cast<void>(admin().SetPaused(at_->tenant, kQueue, false));
    for (int round = 0; round < 2'000 && !journal_.failed(); ++round) {
      static_cast<void>(admin().Redrive(at_->tenant, kQueue, {.limit = task_queue::kMaxBatch}));
      NoteMoved();
      const auto polled = tasks().Poll({.tenant = at_->tenant, .queue = kQueue, .max_items = 10});
      if (!polled) return journal_.Violated(polled.error().message);
      at_->oracle.Polled(polled->items, now(), at_->settings.rate, at_->most_attempts);
      for (const ClaimedItem& item : polled->items) Report({.claim = item.claim}, item.id);
      Count();
      const auto queue = admin().GetQueue(at_->tenant, kQueue);
      if (queue && !task_queue::HasItems(*queue)) return;
      // As a long poll would: not before something may be there.
      if (polled->items.empty()) clock_.Advance(polled->next.value_or(milliseconds(1)));
      if (polled->items.empty() && !polled->next && queue->pending + queue->processing > 0)
        return journal_.Violated("items are left, and a poll says that none will come");
    }
    journal_.Violated("items are left after 2,000 polls");
  }

  Dice dice_;
  Journal journal_;
  SimClock clock_;
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> database_;
  std::array<Tenant, kTenants.size()> tenants_{Tenant{kTenants[0], journal_},
                                               Tenant{kTenants[1], journal_}};
  Tenant* at_ = tenants_.data();  // whose turn it is
  std::uint64_t calls_ = 0;
  std::uint64_t crashes_ = 0;
};

}  // namespace

ScheduleResult RunQueueSchedule(const ScheduleOptions& options) {
  return QueueSchedule(options).Run();
}

}  // namespace headworks::sim
