#include "headworks/task_queue_conformance/trace.h"

#include <fmt/format.h>

#include <array>

#include "headworks/base/random.h"
#include "headworks/task_queue/rules.h"

namespace headworks::task_queue::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kIds = 40;

std::string Text(const std::vector<Enqueued>& answers) {
  std::string text;
  for (const Enqueued answer : answers) text += fmt::format("{} ", EnqueuedName(answer));
  return text;
}
std::string Text(ItemState state) { return std::string(StateName(state)); }
std::string Text(const Moved& m) { return fmt::format("{} {} {}", m.count, m.more, m.after.value); }
std::string Text(const Swept& s) {
  return fmt::format("{} {} {}", s.leases_ended, s.forgotten, s.more);
}
std::string Text(const QueueAdmin::ItemWithPayload& i) {
  return conformance::Text(i.item) + " " + i.payload;
}
using conformance::Text;
template <typename T>
std::string Text(const Result<T>& result);
template <typename T>
std::string Text(const std::vector<T>& all) {
  std::string text = "[";
  for (const T& one : all) text += Text(one) + "\n ";
  return text + "]";
}
template <typename T>
std::string Text(const Result<T>& result) {
  if (!result) {
    return fmt::format("error {}: {}", CodeName(result.error().code), result.error().message);
  }
  if constexpr (std::is_void_v<T>) {
    return "ok";
  } else {
    return Text(*result);
  }
}

class Trace {
 public:
  Trace(Harness& reference, Harness& subject, std::uint64_t seed)
      : reference_(reference), subject_(subject), random_(seed) {}

  bool Step() {
    struct Choice {
      int weight;
      bool (Trace::*call)();
    };
    static constexpr std::array kChoices{
        Choice{25, &Trace::Enqueue},  Choice{20, &Trace::Poll},   Choice{22, &Trace::Settle},
        Choice{6, &Trace::Extend},    Choice{5, &Trace::Cancel},  Choice{4, &Trace::Configure},
        Choice{2, &Trace::SetPaused}, Choice{3, &Trace::Redrive}, Choice{2, &Trace::Purge},
        Choice{3, &Trace::Sweep},     Choice{6, &Trace::List},    Choice{4, &Trace::Get},
        Choice{10, &Trace::Advance},  Choice{1, &Trace::Crash},   Choice{1, &Trace::Delete}};
    int total = 0;
    for (const auto& choice : kChoices) total += choice.weight;
    auto left = static_cast<int>(Below(total));
    for (const auto& choice : kChoices) {
      left -= choice.weight;
      if (left < 0) return (this->*choice.call)();
    }
    return false;
  }

  bool CompareAll() {
    bool equal = true;
    for (const TenantId& tenant : {kTenant, kOtherTenant}) {
      equal &= Both([&](Queues& q) { return q.admin().ListQueues(tenant); });
      for (const char* const queue : {"q", "p"}) {
        equal &=
            Both([&](Queues& q) { return q.admin().ListItems(tenant, queue, {.limit = 1'000}); });
      }
    }
    return equal;
  }

 private:
  std::int64_t Below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_.Next() % static_cast<std::uint64_t>(bound));
  }
  bool Chance(int percent) { return Below(100) < percent; }
  TenantId Tenant() { return Chance(85) ? kTenant : kOtherTenant; }
  std::string AnyQueue() { return Chance(80) ? "q" : "p"; }
  std::string AnyId() { return fmt::format("id-{}", Below(kIds)); }
  Duration AnyTime() { return seconds(Below(40)); }

  template <typename Call>
  bool Both(Call call) {
    const std::string expected = Text(call(reference_.queues()));
    const std::string actual = Text(call(subject_.queues()));
    EXPECT_EQ(actual, expected);
    return actual == expected;
  }

  bool Enqueue() {
    std::vector<NewItem> items;
    for (std::int64_t i = Below(4); i >= 0; --i) {
      items.push_back({.id = AnyId(),
                       .payload = fmt::format("{}", Below(2)),
                       .priority = static_cast<int>(Below(3)),
                       .delay = Chance(30) ? AnyTime() : Duration(),
                       .max_attempts = Chance(20) ? 1 : 0});
    }
    const auto tenant = Tenant();
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.tasks().Enqueue(tenant, queue, items); });
  }

  bool Poll() {
    const PollRequest request{
        .tenant = Tenant(),
        .queue = AnyQueue(),
        .max_items = static_cast<std::size_t>(1 + Below(4)),
        .visibility = Chance(40) ? Duration(seconds(1) + AnyTime()) : Duration(),
        .holder = Chance(50) ? "h" : ""};
    const auto expected = reference_.queues().tasks().Poll(request);
    const auto actual = subject_.queues().tasks().Poll(request);
    EXPECT_EQ(Text(actual), Text(expected));
    if (expected) {
      for (const ClaimedItem& item : expected->items) claims_.push_back(item.claim);
    }
    return Text(actual) == Text(expected);
  }

  /// Mostly a late one, so that most of them hold.
  Claim AnyClaim() {
    if (claims_.empty() || Chance(5)) return {ItemNo(Below(50)), ClaimNo(Below(50))};
    const auto size = static_cast<std::int64_t>(claims_.size());
    return claims_[static_cast<std::size_t>(size - 1 - Below(std::min<std::int64_t>(size, 8)))];
  }

  bool Settle() {
    std::vector<Settlement> all;
    for (std::int64_t i = Below(3); i >= 0; --i) {
      all.push_back({.claim = AnyClaim(),
                     .kind = static_cast<Settlement::Kind>(Below(4)),
                     .reason = fmt::format("reason {}", Below(3))});
      if (Chance(60)) all.back().delay = AnyTime();
    }
    const auto tenant = Tenant();
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.tasks().Settle(tenant, queue, all); });
  }

  bool Extend() {
    const std::vector<Claim> claims{AnyClaim(), AnyClaim()};
    const Duration by = Chance(50) ? Duration(seconds(1) + AnyTime()) : Duration();
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.tasks().Extend(kTenant, queue, claims, by); });
  }

  bool Cancel() {
    const auto queue = AnyQueue();
    const auto id = AnyId();
    return Both([&](Queues& q) { return q.tasks().Cancel(kTenant, queue, id); });
  }

  bool Configure() {
    SettingsChange change;
    if (Chance(40)) change.visibility = seconds(5) + AnyTime();
    if (Chance(40)) change.max_attempts = static_cast<int>(1 + Below(4));
    if (Chance(40)) change.backoff = milliseconds(Below(5'000));
    if (Chance(40)) change.rate = RateLimit{Below(4), seconds(1 + Below(20))};
    if (Chance(40)) change.max_depth = 1 + Below(30);
    if (Chance(40)) change.dedup_window = AnyTime();
    if (Chance(40)) change.dead_retention = minutes(Below(3));
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.admin().Configure(kTenant, queue, change); });
  }

  bool SetPaused() {
    const bool paused = Chance(30);
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.admin().SetPaused(kTenant, queue, paused); });
  }

  ItemFilter AnyFilter() {
    ItemFilter filter;
    if (Chance(30)) filter.ids = {AnyId(), AnyId(), AnyId()};
    if (Chance(30)) filter.reason = fmt::format("{}", Below(3));
    if (Chance(30)) filter.older_than = AnyTime();
    if (Chance(30)) filter.after = ItemNo(Below(100));
    filter.limit = static_cast<std::size_t>(1 + Below(10));
    return filter;
  }

  bool Redrive() {
    const auto queue = AnyQueue();
    const ItemFilter filter = AnyFilter();
    return Both([&](Queues& q) { return q.admin().Redrive(kTenant, queue, filter); });
  }

  bool Purge() {
    ItemFilter filter = AnyFilter();
    filter.limit = 2;
    if (Chance(60)) filter.states = {Chance(50) ? ItemState::kDead : ItemState::kPending};
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.admin().Purge(kTenant, queue, filter); });
  }

  bool Delete() {
    const auto queue = AnyQueue();
    if (Chance(50) && !Both([&](Queues& q) { return q.admin().Purge(kTenant, queue, {}); }))
      return false;
    return Both([&](Queues& q) { return q.admin().Delete(kTenant, queue); });
  }

  bool Sweep() {
    const auto limit = static_cast<std::size_t>(1 + Below(5));
    return Both([&](Queues& q) { return q.admin().Sweep(limit); });
  }

  bool List() {
    ItemFilter filter = AnyFilter();
    if (Chance(60))
      filter.states = {kAllStates[static_cast<std::size_t>(Below(kAllStates.size()))]};
    const auto tenant = Tenant();
    const auto queue = AnyQueue();
    return Both([&](Queues& q) { return q.admin().ListItems(tenant, queue, filter); });
  }

  bool Get() {
    const auto queue = AnyQueue();
    const auto id = AnyId();
    return Both([&](Queues& q) { return q.admin().GetItem(kTenant, queue, id); }) &&
           Both([&](Queues& q) { return q.admin().GetQueue(kTenant, queue); });
  }

  bool Advance() {
    const Duration by = Duration(Below(8'000'000));
    const Duration jump = Chance(10) ? Duration(seconds(Below(60) - 30)) : Duration();
    for (Harness* const harness : {&reference_, &subject_}) {
      harness->clock.Advance(by);
      harness->clock.JumpWall(jump);
    }
    return true;
  }

  bool Crash() {
    reference_.CrashAndReopen();
    subject_.CrashAndReopen();
    return true;
  }

  Harness& reference_;
  Harness& subject_;
  SeededRandom random_;
  std::vector<Claim> claims_;
};

}  // namespace

void CompareTraces(Harness& reference, Harness& subject, std::uint64_t seed, int calls) {
  Trace trace(reference, subject, seed);
  for (int call = 0; call < calls; ++call) {
    if (!trace.Step()) {
      ADD_FAILURE() << "seed " << seed << ", call " << call;
      return;
    }
  }
  EXPECT_TRUE(trace.CompareAll()) << "seed " << seed;
}

}  // namespace headworks::task_queue::conformance
