#include "headworks/store_conformance/trace.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "headworks/base/random.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

// Small domains, so that calls meet.
constexpr std::int64_t kRuns = 24;
constexpr std::int64_t kTasks = 5;
constexpr std::int64_t kKeys = 12;
constexpr std::array kShards{Shard(3), Shard(4), Shard(5)};

class Trace {
 public:
  Trace(Harness& reference, Harness& subject, std::uint64_t seed)
      : reference_(reference), subject_(subject), random_(seed) {}

  /// One random call; false = the stores differ.
  bool Call() {
    using Member = bool (Trace::*)();
    struct Choice {
      int weight;
      Member call;
    };
    static constexpr std::array kChoices{
        Choice{40, &Trace::Commit},   Choice{12, &Trace::Append},      Choice{6, &Trace::Acquire},
        Choice{2, &Trace::Release},   Choice{2, &Trace::Renew},        Choice{4, &Trace::Advance},
        Choice{1, &Trace::Crash},     Choice{3, &Trace::Reserve},      Choice{8, &Trace::ListDue},
        Choice{8, &Trace::ReadInbox}, Choice{6, &Trace::GetRun},       Choice{6, &Trace::ListRuns},
        Choice{6, &Trace::ReadRun},   Choice{3, &Trace::FindStartKey}, Choice{4, &Trace::GetAnswer},
        Choice{6, &Trace::Workflows}, Choice{5, &Trace::Pools}};
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
    for (std::int64_t run = 1; run <= kRuns; ++run) {
      for (const TenantId& tenant : {kTenant, kOtherTenant})
        equal &= CompareRun(tenant, RunNo(run));
    }
    for (const Shard shard : kShards) {
      equal &= Both([&](Database& db) { return db.runs().ReadGuard(shard); });
    }
    for (const TenantId& tenant : {kTenant, kOtherTenant}) {
      equal &= Both([&](Database& db) { return db.query().ListRuns(tenant, {}); });
      equal &= Both([&](Database& db) { return db.workflows().List(tenant); });
      equal &= Both([&](Database& db) { return db.limits().ListPools(tenant); });
      for (std::int64_t key = 0; key < kKeys; ++key) {
        equal &= Both([&](Database& db) { return db.inbox().GetAnswer(tenant, Key(key)); });
      }
    }
    equal &= Both([&](Database& db) { return db.runs().ReadInbox(kShards, 0, 1000); });
    equal &= Both([&](Database& db) { return db.limits().ListAllPermits(); });
    for (const TenantId& tenant : {kTenant, kOtherTenant}) {
      equal &=
          Both([&](Database& db) { return db.runs().ListDue(tenant, kShards, kNever, {}, 1000); });
    }
    return equal &&
           Both([&](Database& db) { return db.runs().ListDueTenants(kShards, kNever, {}, 1000); });
  }

 private:
  std::int64_t Below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_.Next() % static_cast<std::uint64_t>(bound));
  }
  bool Chance(int percent) { return Below(100) < percent; }
  TenantId Tenant() { return Chance(70) ? kTenant : kOtherTenant; }
  Shard AnyShard() { return kShards[static_cast<std::size_t>(Below(kShards.size()))]; }
  RunNo AnyRun() { return RunNo(1 + Below(kRuns)); }
  static std::string Key(std::int64_t n) { return fmt::format("key-{}", n); }
  std::string AnyPool() { return fmt::format("pool-{}", Below(3)); }
  std::string AnyKey() { return Key(Below(kKeys)); }
  Instant AnyTime() { return kT0 + std::chrono::seconds(Below(60)); }

  template <typename Call>
  bool Both(Call call) {
    const std::string expected = Text(call(reference_.db()));
    const std::string actual = Text(call(subject_.db()));
    EXPECT_EQ(actual, expected);
    return actual == expected;
  }

  bool Acquire() {
    std::vector<Shard> shards;
    for (const Shard shard : kShards) {
      if (Chance(60)) shards.push_back(shard);
    }
    const std::string owner = Chance(80) ? "a" : "b";
    const auto acquire = [&](Database& db) { return db.runs().Acquire(shards, owner, kTtl); };
    const auto guards = acquire(reference_.db());
    const auto actual = acquire(subject_.db());
    EXPECT_EQ(Text(actual), Text(guards));
    if (guards) {
      for (const Guard& guard : *guards) guards_[guard.shard] = guard;
    }
    return Text(actual) == Text(guards);
  }

  std::vector<Guard> SomeGuards(int offset) {
    std::vector<Guard> guards;
    for (auto& [shard, guard] : guards_) {
      if (Chance(70)) guards.push_back({shard, guard.term, RoundNo(guard.round.value + offset)});
    }
    if (!guards.empty() && Chance(4)) guards[0].term.value -= 1;
    if (!guards.empty() && Chance(4)) guards[0].round.value += Below(3) - 1;
    return guards;
  }

  bool Release() {
    const auto guards = SomeGuards(0);
    return Both([&](Database& db) { return db.runs().Release(guards); });
  }

  bool Renew() {
    const auto guards = SomeGuards(0);
    return Both([&](Database& db) { return db.runs().Renew(guards, kTtl); });
  }

  bool Advance() {
    const Duration by = std::chrono::seconds(Below(6));
    reference_.clock.Advance(by);
    subject_.clock.Advance(by);
    return true;
  }

  /// Whether a crashed owner's lease runs on differs between stores: wait until it is over.  What
  /// the owner knew is gone with it.
  bool Crash() {
    guards_.clear();
    for (Harness* harness : {&reference_, &subject_}) {
      harness->CrashAndReopen();
      harness->clock.Advance(kTtl);
    }
    return true;
  }

  bool Reserve() {
    const std::int64_t count = Below(4);
    return Both([&](Database& db) { return db.runs().ReserveRunNos(count); });
  }

  model::RunHeader AnyHeader(RunNo run) {
    const TenantId tenant = run.value % 3 == 0 ? kOtherTenant : kTenant;
    model::RunHeader h = Chance(50) ? FullHeader(run, tenant) : PlainHeader(run, tenant);
    h.shard = kShards[static_cast<std::size_t>(run.value) % kShards.size()];
    h.priority = static_cast<int>(Below(3));
    h.wake_at = Chance(30) ? kNever : Chance(30) ? Instant{} : AnyTime();
    SetState(h, static_cast<model::RunState>(1 + Below(5)));
    if (Chance(10)) h.stuck_reason = "poison";
    if (Chance(30)) h.start_key = AnyKey();
    if (Chance(50)) h.concurrency_key = Chance(70) ? fmt::format("customer-{}", Below(2)) : "";
    h.counts[2] = static_cast<std::uint32_t>(Below(9));
    return h;
  }

  RunWrite AnyWrite(RunNo run) {
    const model::RunHeader header = AnyHeader(run);
    const auto stored = reference_.db().runs().LoadRun(header.tenant, run);
    RunWrite write = stored.has_value() != Chance(3)
                         ? UpdateRun(header)
                         : NewRun(header, fmt::format("in{}", Below(9)));
    if (stored && Chance(40)) {
      const model::RunHeader& as = stored->header;
      if (model::IsTerminal(as.state) == model::IsTerminal(header.state) &&
          (header.state != model::RunState::kPending || as.wake_at == Instant{})) {
        write.header.priority = as.priority;
        write.header.wake_at = as.wake_at;
        write.header.finished_at = as.finished_at;
        write.header.stuck_reason = as.stuck_reason;
        write.relist = false;
      }
    }
    for (std::int64_t task = 0; task < kTasks; ++task) {
      if (!Chance(40) || header.state == model::RunState::kPending) continue;
      std::optional<std::string> output;
      if (Chance(50))
        output = Chance(30) ? "" : std::string(static_cast<std::size_t>(Below(9000)), 'o');
      write.tasks.push_back(TaskAt(static_cast<std::uint32_t>(task),
                                   static_cast<model::TaskState>(Below(model::kTaskStateCount)),
                                   output));
      const auto has = [&](const model::StoredTask& row) { return row.task.value == task; };
      write.tasks.back().known =
          (stored && std::ranges::any_of(stored->tasks, has) && Chance(60)) || Chance(1);
    }
    if (Chance(40)) {
      write.attempts.push_back(AttemptAt(static_cast<std::uint32_t>(Below(kTasks)),
                                         Chance(90) ? ++epoch_ : 1 + Below(20)));
    }
    if (Chance(40))
      write.events.push_back({AnyTime(), "mark", "ada", fmt::format("{}", Below(99))});
    // Those of one key count equally long, and the query asks for none that may be forgotten.
    if (Chance(30) && stored && stored->header.concurrency_key == header.concurrency_key)
      if (header.concurrency_key || Chance(3))
        write.start = {kT0 + std::chrono::seconds(60 + ++starts_), kNever};
    if (Chance(20)) write.freed.emplace_back(1 + Below(6));
    if (Chance(20))
      write.grants.push_back({Chance(98) ? AnyPool() : "", Epoch(1 + Below(6)), TaskNo(1),
                              static_cast<int>(Below(3)), AnyTime()});
    return write;
  }

  bool Commit() {
    Round round;
    round.guards = SomeGuards(1);
    round.lease_ttl = kTtl;
    round.now = AnyTime();
    for (std::int64_t run = 1; run <= kRuns; ++run) {
      if (Chance(9)) round.runs.push_back(AnyWrite(RunNo(run)));
    }
    if (Chance(12)) round.deleted_runs.push_back({Tenant(), AnyRun()});
    const auto waiting = reference_.db().runs().ReadInbox(kShards, 0, 100);
    for (const InboxRow& row : waiting.value()) {
      if (Chance(20)) round.consumed.push_back(row.id);
      if (Chance(10))
        round.answers.push_back({row.tenant, row.dedupe_key, {}, AnyRun(), RunId("r")});
    }
    if (Chance(3)) round.consumed.push_back(1 + Below(40));
    if (Chance(10)) {
      round.answers.push_back({Tenant(), AnyKey(), Error{Code::kConflict, "busy"}, AnyRun(), {}});
    }
    const auto committed = reference_.db().runs().Commit(round);
    const auto actual = subject_.db().runs().Commit(round);
    EXPECT_EQ(Text(actual), Text(committed))
        << (actual ? "" : actual.error().message) << (committed ? "" : committed.error().message);
    if (committed) {
      for (const Guard& guard : round.guards) guards_[guard.shard] = guard;
    }
    bool equal = Text(actual) == Text(committed);
    for (const RunWrite& write : round.runs) {
      equal &= CompareRun(write.header.tenant, write.header.run_no);
    }
    return equal;
  }

  bool CompareRun(const TenantId& tenant, RunNo run) {
    std::vector<TaskNo> tasks;
    for (std::int64_t task = 0; task <= kTasks; ++task) {
      tasks.emplace_back(static_cast<std::uint32_t>(task));
    }
    return Both([&](Database& db) { return db.runs().LoadRun(tenant, run); }) &&
           Both([&](Database& db) { return db.query().ListTasks(tenant, run, {}, 100); }) &&
           Both([&](Database& db) { return db.query().ListAttempts(tenant, run, {}, {}, 1000); }) &&
           Both([&](Database& db) { return db.query().ListEvents(tenant, run, 1000); }) &&
           Both([&](Database& db) { return db.query().ReadInput(tenant, run); }) &&
           Both([&](Database& db) { return db.query().ReadEnds(tenant, run, tasks); });
  }

  bool Append() {
    std::vector<InboxRow> rows;
    for (std::int64_t n = Below(4); n > 0; --n) {
      rows.push_back(Message(Chance(70) ? "start" : "cancel", AnyKey(), AnyRun(), Tenant()));
      rows.back().shard = AnyShard();
      rows.back().payload = fmt::format("payload {}", Below(9));
    }
    return Both([&](Database& db) { return db.inbox().Append(rows); });
  }

  bool ListDue() {
    const std::array one{AnyShard()};
    const auto shards = Chance(50) ? std::span<const Shard>(one) : std::span<const Shard>(kShards);
    const Instant until = AnyTime();
    RunStore::DueAfter after;
    if (Chance(50))
      after = {Chance(50) ? Instant{} : AnyTime(), static_cast<int>(Below(3)), AnyRun()};
    const auto limit = static_cast<std::size_t>(Below(6));
    const TenantId tenant = Tenant(), behind = Chance(50) ? TenantId() : Tenant();
    return Both([&](Database& db) {
             return db.runs().ListDue(tenant, shards, until, after, limit);
           }) &&
           Both([&](Database& db) {
             return db.runs().ListDueTenants(shards, until, behind, limit);
           });
  }

  bool ReadInbox() {
    const std::array one{AnyShard()};
    const std::int64_t after = Below(30);
    const auto limit = static_cast<std::size_t>(Below(6));
    return Both([&](Database& db) { return db.runs().ReadInbox(one, after, limit); }) &&
           Both([&](Database& db) { return db.runs().ReadInbox(kShards, after, limit); });
  }

  bool GetRun() {
    const TenantId tenant = Tenant();
    std::string reference = Chance(30) ? "@last" : fmt::format("{}", Below(kRuns));
    if (Chance(50)) {
      reference = PlainHeader(AnyRun()).run_id.value;
      reference.resize(static_cast<std::size_t>(Below(37)));
    }
    return Both([&](Database& db) { return db.query().GetRun(tenant, reference); });
  }

  bool ListRuns() {
    const TenantId tenant = Tenant();
    RunQuery::RunFilter filter;
    if (Chance(40)) filter.workflow = Chance(50) ? "etl" : "report";
    for (int state = 1; state <= 5; ++state) {
      if (Chance(25)) filter.states.push_back(static_cast<model::RunState>(state));
    }
    filter.stuck_only = Chance(20);
    if (Chance(40)) filter.before = AnyRun();
    filter.limit = static_cast<std::size_t>(Below(8));
    RunQuery::ActiveFilter active{
        .name = {tenant.value, Chance(50) ? "data" : "embedded", Chance(50) ? "etl" : "report"}};
    if (Chance(50)) active.key = Chance(70) ? fmt::format("customer-{}", Below(2)) : "";
    active.pending = Chance(50);
    active.limit = static_cast<std::size_t>(Below(8));
    const Instant after = kT0 + std::chrono::seconds(60 + Below(20));
    return Both([&](Database& db) { return db.query().ListRuns(tenant, filter); }) &&
           Both([&](Database& db) { return db.query().ListActive(tenant, active); }) &&
           Both([&](Database& db) { return db.query().CountActive(tenant, active); }) &&
           Both([&](Database& db) {
             return db.query().ListStarts(active.name, active.key.value_or("customer-0"), after);
           });
  }

  bool ReadRun() {
    const TenantId tenant = Tenant();
    const RunNo run = AnyRun();
    const TaskNo task(static_cast<std::uint32_t>(Below(kTasks)));
    const Epoch after(Below(30));
    const auto limit = static_cast<std::size_t>(Below(4));
    return Both([&](Database& db) { return db.query().ListTasks(tenant, run, task, limit); }) &&
           Both([&](Database& db) {
             return db.query().ListAttempts(tenant, run, task, after, limit);
           }) &&
           Both([&](Database& db) { return db.query().ListEvents(tenant, run, limit); });
  }

  bool FindStartKey() {
    const TenantId tenant = Tenant();
    const model::Namespace name{tenant.value, Chance(50) ? "data" : "embedded",
                                Chance(50) ? "etl" : "report"};
    const std::string key = Chance(50) ? AnyKey() : fmt::format("key-{}", Below(kRuns));
    return Both([&](Database& db) { return db.runs().FindStartKey(tenant, name, key); });
  }

  bool GetAnswer() {
    const TenantId tenant = Tenant();
    const std::string key = AnyKey();
    return Both([&](Database& db) { return db.inbox().GetAnswer(tenant, key); });
  }

  bool Workflows() {
    const TenantId tenant = Tenant();
    const model::Namespace name{tenant.value, "data", fmt::format("w{}", Below(3))};
    const std::string version = fmt::format("v{}", Below(3));
    const std::string json = fmt::format("{{{}}}", Below(9));
    const bool enabled = Chance(50);
    switch (Below(6)) {
      case 0:
        return Both(
            [&](Database& db) { return db.workflows().PutVersion(tenant, version, json, kT0); });
      case 1:
        return Both([&](Database& db) {
          return db.workflows().Register({name, version, json, enabled, kT0});
        });
      case 2:
        return Both([&](Database& db) { return db.workflows().Remove(name); });
      case 3:
        return Both([&](Database& db) { return db.workflows().SetEnabled(name, enabled); });
      case 4:
        return Both([&](Database& db) { return db.workflows().GetVersion(tenant, version); });
      default:
        return Both([&](Database& db) { return db.workflows().Get(name); }) &&
               Both([&](Database& db) { return db.workflows().List(tenant); });
    }
  }

  bool Pools() {
    const TenantId tenant = Tenant();
    const std::string pool = AnyPool();
    const auto limit = static_cast<int>(Below(5)) - 1;
    switch (Below(5)) {
      case 0:
        return Both([&](Database& db) { return db.limits().SetPool(tenant, pool, limit, kT0); });
      case 1:
        return Both([&](Database& db) { return db.limits().DeletePool(tenant, pool); });
      case 2: {
        model::PoolLimits pools;
        for (std::int64_t n = Below(3); n > 0; --n) pools[AnyPool()] = static_cast<int>(Below(4));
        const Instant now = AnyTime();
        return Both([&](Database& db) { return db.limits().DeclarePools(tenant, pools, now); });
      }
      case 3:
        return Both([&](Database& db) { return db.limits().ListPermits(tenant); });
      default:
        return Both([&](Database& db) { return db.limits().ListPools(tenant); });
    }
  }

  Harness& reference_;
  Harness& subject_;
  SeededRandom random_;
  std::map<Shard, Guard> guards_;
  std::int64_t epoch_ = 20;
  std::int64_t starts_ = 0;
};

}  // namespace

void CompareTraces(Harness& reference, Harness& subject, std::uint64_t seed, int calls) {
  Trace trace(reference, subject, seed);
  for (int call = 0; call < calls; ++call) {
    ASSERT_TRUE(trace.Call()) << "seed " << seed << ", call " << call;
  }
  ASSERT_TRUE(trace.CompareAll()) << "seed " << seed << ", after " << calls << " calls";
}

}  // namespace headworks::store::conformance
