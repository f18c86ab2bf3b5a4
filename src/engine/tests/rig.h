#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headworks/base/random.h"
#include "headworks/engine/engine.h"
#include "headworks/model/workflow.h"
#include "headworks/store_memory/memory_store.h"

namespace headworks::engine {

class ManualClock final : public Clock {
 public:
  Instant Now() override { return wall_ + mono_; }
  Duration Monotonic() override { return mono_; }
  void Advance(Duration by) { mono_ += by; }
  void JumpWall(Duration by) { wall_ += by; }

 private:
  Instant wall_{std::chrono::hours(24)};
  Duration mono_{std::chrono::hours(1)};
};

/// One lane that takes everything up to its capacity; tests end the attempts.
class ManualDispatcher final : public dispatcher::Dispatcher {
 public:
  std::uint32_t max = 1'000'000;
  std::string name = "manual";
  std::deque<executor::Attempt> taken;
  std::vector<model::AttemptKey> cancelled;
  std::vector<model::AttemptKey> settled;

  std::size_t lanes() const override { return 1; }
  std::size_t LaneOf(const TenantId&, const model::Task&) const override { return 0; }
  std::string_view LaneName(std::size_t) const override { return name; }
  executor::Capacity GetCapacity(std::size_t) const override {
    return {max, static_cast<std::uint32_t>(taken.size())};
  }
  executor::OfferResult Dispatch(const executor::Attempt& attempt) override {
    taken.push_back(attempt);
    return {};
  }
  void Cancel(const executor::Attempt& attempt) override { cancelled.push_back(attempt.key); }
  Result<std::vector<executor::Inspection>> Inspect(
      std::span<const executor::Attempt> attempts) override {
    return std::vector<executor::Inspection>(attempts.size(), executor::Absent{});
  }
  void Settled(std::span<const executor::Attempt> attempts) override {
    for (const auto& attempt : attempts) settled.push_back(attempt.key);
  }
  Status Close(Duration) override { return {}; }
};

/// Keeps questions until a test answers them.
class ManualEvaluator final : public Evaluator {
 public:
  std::deque<std::pair<Question, Answer>> asked;

  void Evaluate(Question question, Answer answer) override {
    asked.emplace_back(std::move(question), std::move(answer));
  }
  void Answer1(const Result<bool>& answer) {
    const Answer done = std::move(asked.front().second);
    asked.pop_front();
    done(answer);
  }
};

/// A memory store whose commits a test can watch and let fail.
class WatchedStore final : public store::Database,
                           private store::RunStore,
                           private store::LimitStore {
 public:
  explicit WatchedStore(Clock& clock)
      : inner_(store_memory::Open(store_memory::NewStorage(), clock)) {}

  /// Asked before each commit: an error is the answer, and nothing is written.
  std::function<Status(const store::Round&)> before = [](const auto&) { return Status(); };
  /// Commits, and then says that nobody knows.
  int replies_to_lose = 0;
  int loads = 0;
  bool refuse_renewal = false;
  int pool_lists = 0;
  bool hide_permits = false;
  bool refuse_pools = false;
  bool refuse_loads = false;
  bool refuse_permits = false;
  std::optional<store::Permit> extra_permit;
  std::vector<store::Round> sent;

  store::RunStore& runs() override { return *this; }
  store::Inbox& inbox() override { return inner_->inbox(); }
  store::RunQuery& query() override { return inner_->query(); }
  store::WorkflowStore& workflows() override { return inner_->workflows(); }
  store::LimitStore& limits() override { return *this; }

 private:
  Status Commit(const store::Round& round) override {
    sent.push_back(round);
    HEADWORKS_TRY(before(round));
    Status done = inner_->runs().Commit(round);
    if (!done || replies_to_lose == 0) return done;
    --replies_to_lose;
    return Error{Code::kUnavailable, "the reply was lost"};
  }
  Result<std::vector<store::Guard>> Acquire(std::span<const Shard> shards, std::string_view owner,
                                            Duration ttl) override {
    return inner_->runs().Acquire(shards, owner, ttl);
  }
  Status Release(std::span<const store::Guard> guards) override {
    return inner_->runs().Release(guards);
  }
  Result<store::Guard> ReadGuard(Shard shard) override { return inner_->runs().ReadGuard(shard); }
  Status Renew(std::span<const store::Guard> guards, Duration ttl) override {
    if (refuse_renewal) return Error{Code::kUnavailable, "the disk is gone"};
    return inner_->runs().Renew(guards, ttl);
  }
  Result<store::RunImage> LoadRun(const TenantId& tenant, RunNo run) override {
    ++loads;
    if (refuse_loads) return Error{Code::kUnavailable, "the disk is gone"};
    return inner_->runs().LoadRun(tenant, run);
  }
  Result<std::vector<model::RunHeader>> ListDue(std::span<const Shard> shards, Instant until,
                                                std::optional<DueAfter> after,
                                                std::size_t limit) override {
    return inner_->runs().ListDue(shards, until, after, limit);
  }
  Result<std::vector<Held>> ListHeld(std::span<const Shard> shards) override {
    return inner_->runs().ListHeld(shards);
  }
  Result<std::optional<model::RunHeader>> FindStartKey(const TenantId& tenant,
                                                       const model::Namespace& name,
                                                       std::string_view start_key) override {
    return inner_->runs().FindStartKey(tenant, name, start_key);
  }
  Result<RunNo> ReserveRunNos(std::int64_t count) override {
    return inner_->runs().ReserveRunNos(count);
  }
  Result<std::vector<store::InboxRow>> ReadInbox(std::span<const Shard> shards, std::int64_t after,
                                                 std::size_t limit) override {
    return inner_->runs().ReadInbox(shards, after, limit);
  }

  Status SetPool(const TenantId& tenant, std::string_view name, int limit, Instant now) override {
    return inner_->limits().SetPool(tenant, name, limit, now);
  }
  Status DeletePool(const TenantId& tenant, std::string_view name) override {
    return inner_->limits().DeletePool(tenant, name);
  }
  Status DeclarePools(const TenantId& tenant, const model::PoolLimits& pools,
                      Instant now) override {
    return inner_->limits().DeclarePools(tenant, pools, now);
  }
  Result<std::vector<store::PoolRecord>> ListPools(const TenantId& tenant) override {
    ++pool_lists;
    if (refuse_pools) return Error{Code::kUnavailable, "the disk is gone"};
    return inner_->limits().ListPools(tenant);
  }
  Result<std::vector<store::Permit>> ListPermits(const TenantId& tenant) override {
    return inner_->limits().ListPermits(tenant);
  }
  Result<std::vector<store::Permit>> ListAllPermits() override {
    if (refuse_permits) return Error{Code::kUnavailable, "the disk is gone"};
    if (hide_permits) return std::vector<store::Permit>{};
    HEADWORKS_ASSIGN(auto permits, inner_->limits().ListAllPermits());
    if (extra_permit) permits.push_back(*extra_permit);
    return permits;
  }

  const std::unique_ptr<store::Database> inner_;
};

/// A memory store that says when something is appended, and counts who looks.
class BellStore final : public store::Database, private store::Inbox {
 public:
  explicit BellStore(Clock& clock)
      : inner_(store_memory::Open(store_memory::NewStorage(), clock)) {}

  int looks = 0;

  store::RunStore& runs() override { return inner_->runs(); }
  store::Inbox& inbox() override { return *this; }
  store::RunQuery& query() override { return inner_->query(); }
  store::WorkflowStore& workflows() override { return inner_->workflows(); }
  store::LimitStore& limits() override { return inner_->limits(); }

 private:
  Status Append(std::span<const store::InboxRow> rows) override {
    HEADWORKS_TRY(inner_->inbox().Append(rows));
    if (appended_) appended_();
    return {};
  }
  Result<std::optional<store::Answer>> GetAnswer(const TenantId& tenant,
                                                 std::string_view dedupe_key) override {
    return inner_->inbox().GetAnswer(tenant, dedupe_key);
  }
  Result<std::int64_t> DataVersion() override {
    ++looks;
    return inner_->inbox().DataVersion();
  }
  std::unique_ptr<Watch> WatchAppends(std::function<void()> appended) override {
    appended_ = std::move(appended);
    return std::make_unique<Watch>();
  }

  const std::unique_ptr<store::Database> inner_;
  std::function<void()> appended_;
};

/// What one round writes.
inline std::size_t Rows(const store::Round& round) {
  std::size_t rows = round.deleted_runs.size();
  for (const auto& write : round.runs)
    rows += 1 + write.tasks.size() + write.attempts.size() + write.events.size();
  return rows;
}

/// An engine on a watched store, ticked by hand.
class EngineTest : public testing::Test {
 protected:
  EngineTest() : store_(clock_) {
    EXPECT_TRUE(engine_.Open());
    Tick();
  }

  static model::WorkflowDefinition Tasks(std::string name, std::uint32_t count) {
    model::WorkflowDefinition definition;
    definition.name.workflow = std::move(name);
    for (std::uint32_t t = 0; t < count; ++t)
      definition.tasks.push_back(
          {.id = "t" + std::to_string(t), .action = model::FunctionAction{"f"}});
    return definition;
  }
  std::shared_ptr<const model::Workflow> Put(model::WorkflowDefinition definition) {
    auto workflow = model::Workflow::Create(std::move(definition));
    EXPECT_TRUE(workflow) << workflow.error().message;
    EXPECT_TRUE(store_.workflows().PutVersion(tenant_, (*workflow)->version(),
                                              (*workflow)->canonical_json(), clock_.Now()));
    return *workflow;
  }
  /// The answer arrives with a later Tick.
  std::shared_ptr<Result<control::Started>> Start(const model::Workflow& workflow,
                                                  std::string key = "") {
    auto answer = std::make_shared<Result<control::Started>>(Error{Code::kInternal, "no answer"});
    engine_.Start({.tenant = tenant_,
                   .name = workflow.name(),
                   .version = workflow.version(),
                   .input = "{}",
                   .start_key = std::move(key)},
                  [answer](Result<control::Started> started) { *answer = std::move(started); });
    return answer;
  }
  std::shared_ptr<Status> Execute(control::CommandKind kind, RunNo run) {
    auto answer = std::make_shared<Status>(Error{Code::kInternal, "no answer"});
    engine_.Execute({.tenant = tenant_, .kind = kind, .run = run},
                    [answer](Status done) { *answer = std::move(done); });
    return answer;
  }
  void Tick(int times = 1) {
    for (; times > 0; --times) {
      engine_.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  /// Ends `count` attempts that were taken.
  void Succeed(std::size_t count) {
    for (; count > 0 && !dispatcher_.taken.empty(); --count) {
      engine_.Ended(dispatcher_.taken.front().key, {.verdict = model::Verdict::kSucceeded});
      dispatcher_.taken.pop_front();
    }
  }
  model::RunHeader Stored(RunNo run) {
    const auto image = store_.runs().LoadRun(tenant_, run);
    EXPECT_TRUE(image);
    return image ? image->header : model::RunHeader{};
  }

  const TenantId tenant_{"public"};
  ManualClock clock_;
  SeededRandom random_{1};
  NullLogger logger_;
  WatchedStore store_;
  ManualDispatcher dispatcher_;
  ManualEvaluator evaluator_;
  Engine engine_{
      {.owner = "engine"}, store_, dispatcher_, evaluator_, clock_, random_, logger_, nullptr};
};

}  // namespace headworks::engine
