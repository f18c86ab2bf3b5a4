#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rig.h"

// Runs whose stored version cannot be read are set aside, visibly, and are in nobody's way.
namespace headworks::engine {
namespace {

using control::CommandKind;
using model::RunState;

class UnreadableTest : public testing::Test {
 protected:
  UnreadableTest() : store_(clock_) {
    good_ = Version("good");
    missing_ = Version("missing");
    for (const auto* workflow : {&good_, &missing_}) EXPECT_TRUE(*workflow);
    EXPECT_TRUE(PutVersion(good_->version(), good_->canonical_json()));
    EXPECT_TRUE(PutVersion("damaged", "{\"format\":"));
    EXPECT_TRUE(PutVersion("newer", R"({"format":1000})"));
    const auto first = store_.runs().ReserveRunNos(10);
    EXPECT_TRUE(first);
  }

  static std::shared_ptr<const model::Workflow> Version(std::string name) {
    model::WorkflowDefinition definition;
    definition.name.workflow = std::move(name);
    definition.tasks.push_back({.id = "t", .action = model::FunctionAction{"f"}});
    return *model::Workflow::Create(std::move(definition));
  }
  Status PutVersion(const std::string& version, const std::string& text) {
    return store_.workflows().PutVersion(tenant_, version, text, clock_.Now());
  }
  /// As an earlier engine left it.
  void Store(RunNo run, const std::string& version, RunState state) {
    model::RunHeader header;
    header.run_no = run;
    header.run_id = RunId("0000000" + std::to_string(run.value));
    header.tenant = tenant_;
    header.name.workflow = "w" + std::to_string(run.value);
    header.version = version;
    header.shard = model::ShardOf(header.name);
    header.state = state;
    header.created_at = clock_.Now();
    if (state == RunState::kRunning) header.started_at = clock_.Now();
    header.wake_at = Instant{};
    header.counts[0] = 1;
    const Shard shard = header.shard;
    const auto guards = store_.runs().Acquire({&shard, 1}, "earlier", std::chrono::seconds(1));
    ASSERT_TRUE(guards) << guards.error().message;
    store::Round round{
        .guards = {{shard, guards->front().term, RoundNo(guards->front().round.value + 1)}},
        .lease_ttl = std::chrono::seconds(1),
        .now = clock_.Now()};
    round.runs.push_back({.header = std::move(header), .insert_input = "{}"});
    const Status committed = store_.runs().Commit(round);
    ASSERT_TRUE(committed) << committed.error().message;
    ASSERT_TRUE(store_.runs().Release({&round.guards.front(), 1}));
  }
  void Open() {
    ASSERT_TRUE(engine_.Open());
    Tick(10);
  }
  void Tick(int times) {
    for (; times > 0; --times) {
      engine_.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  Status Unstick(RunNo run) {
    Status answer = Error{Code::kInternal, "no answer"};
    engine_.Execute({.tenant = tenant_, .kind = CommandKind::kUnstick, .run = run},
                    [&answer](Status done) { answer = std::move(done); });
    Tick(5);
    return answer;
  }
  model::RunHeader Stored(RunNo run) {
    const auto record = store_.query().GetRun(tenant_, std::to_string(run.value));
    EXPECT_TRUE(record);
    return record ? record->header : model::RunHeader{};
  }
  std::ptrdiff_t TimesParked(RunNo run) {
    const auto events = store_.query().ListEvents(tenant_, run, 100);
    EXPECT_TRUE(events);
    return std::ranges::count(*events, "stuck", &model::RunEventRecord::kind);
  }

  const TenantId tenant_{"public"};
  ManualClock clock_;
  SeededRandom random_{1};
  NullLogger logger_;
  WatchedStore store_;
  ManualDispatcher dispatcher_;
  ManualEvaluator evaluator_;
  std::shared_ptr<const model::Workflow> good_, missing_;
  Engine engine_{
      {.owner = "engine"}, store_, dispatcher_, evaluator_, clock_, random_, logger_, nullptr};
};

TEST_F(UnreadableTest, VersionsThatCannotBeReadParkTheirRunsAndOthersGoOn) {
  Store(RunNo(1), "damaged", RunState::kRunning);
  Store(RunNo(2), "damaged", RunState::kPending);
  Store(RunNo(3), "newer", RunState::kRunning);
  Store(RunNo(4), missing_->version(), RunState::kRunning);
  Store(RunNo(5), good_->version(), RunState::kRunning);
  Store(RunNo(6), good_->version(), RunState::kPending);
  Open();
  for (const RunNo run : {RunNo(1), RunNo(2), RunNo(3), RunNo(4)}) {
    const model::RunHeader header = Stored(run);
    EXPECT_TRUE(header.stuck_reason.starts_with("it cannot be read: ")) << header.stuck_reason;
    EXPECT_NE(header.stuck_since, Instant{});
    EXPECT_EQ(TimesParked(run), 1);
  }
  EXPECT_NE(Stored(RunNo(3)).stuck_reason.find("update"), std::string::npos);
  EXPECT_EQ(engine_.stats().runs_stuck, 4U);
  ASSERT_EQ(dispatcher_.taken.size(), 2U);
  for (const auto& attempt : dispatcher_.taken)
    engine_.Ended(attempt.key, {.verdict = model::Verdict::kSucceeded});
  Tick(5);
  EXPECT_EQ(Stored(RunNo(5)).state, RunState::kSucceeded);
  EXPECT_EQ(Stored(RunNo(6)).state, RunState::kSucceeded);
}

TEST_F(UnreadableTest, UnstickTriesAgainAndParksAgainWhatIsStillUnreadable) {
  Store(RunNo(1), missing_->version(), RunState::kRunning);
  Open();
  ASSERT_FALSE(Stored(RunNo(1)).stuck_reason.empty());
  const Status still = Unstick(RunNo(1));
  ASSERT_FALSE(still);
  EXPECT_EQ(still.error().code, Code::kConflict);
  EXPECT_FALSE(Stored(RunNo(1)).stuck_reason.empty());
  EXPECT_EQ(TimesParked(RunNo(1)), 2) << "each try leaves its mark";

  ASSERT_TRUE(PutVersion(missing_->version(), missing_->canonical_json()));
  const Status unstuck = Unstick(RunNo(1));
  EXPECT_TRUE(unstuck) << unstuck.error().message;
  EXPECT_TRUE(Stored(RunNo(1)).stuck_reason.empty());
  EXPECT_EQ(engine_.stats().runs_stuck, 0U);
  ASSERT_EQ(dispatcher_.taken.size(), 1U);
  engine_.Ended(dispatcher_.taken[0].key, {.verdict = model::Verdict::kSucceeded});
  Tick(5);
  EXPECT_EQ(Stored(RunNo(1)).state, RunState::kSucceeded);
}

TEST_F(UnreadableTest, CommandsToAParkedRunAreRefusedAndSayWhatToDo) {
  Store(RunNo(1), "damaged", RunState::kRunning);
  Open();
  Status answer;
  engine_.Execute({.tenant = tenant_, .kind = CommandKind::kCancel, .run = RunNo(1)},
                  [&answer](Status done) { answer = std::move(done); });
  Tick(3);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kConflict);
  EXPECT_NE(answer.error().message.find("runs unstick"), std::string::npos);
}

}  // namespace
}  // namespace headworks::engine
