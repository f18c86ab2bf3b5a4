#include <algorithm>
#include <string>
#include <vector>

#include "headworks/alert/alert.h"
#include "tests/rig.h"

namespace headworks::engine {
namespace {

using control::CommandKind;
using model::Verdict;

/// An engine that writes alerts, on a store of its own.
class AlertsTest : public EngineTest {
 protected:
  AlertsTest() {
    EXPECT_TRUE(alerting_.Open());
    TickHere();
  }

  void TickHere(int times = 1) {
    for (; times > 0; --times) {
      alerting_.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  }
  void Run(model::WorkflowDefinition definition) {
    const auto workflow = model::Workflow::Create(std::move(definition));
    ASSERT_TRUE(workflow) << workflow.error().message;
    ASSERT_TRUE(other_.workflows().PutVersion(tenant_, (*workflow)->version(),
                                              (*workflow)->canonical_json(), clock_.Now()));
    alerting_.Start({.tenant = tenant_,
                     .name = (*workflow)->name(),
                     .version = (*workflow)->version(),
                     .input = "{}"},
                    [](const Result<control::Started>& started) { EXPECT_TRUE(started); });
    TickHere(2);
  }
  void End(Verdict verdict) {
    ASSERT_FALSE(taken_.taken.empty());
    const Instant now = clock_.Now();
    alerting_.Ended(taken_.taken.front().key, {.verdict = verdict,
                                               .reason = model::Reason::kError,
                                               .error = "no",
                                               .started_at = now,
                                               .ended_at = now});
    taken_.taken.pop_front();
    TickHere(2);
  }
  /// Ids of the alerts of all rounds that were sent, by queue.
  std::vector<std::string> Sent(const std::string& queue) const {
    std::vector<std::string> ids;
    for (const store::Round& round : other_.sent)
      for (const store::QueuedItem& item : round.items)
        if (item.queue == queue) ids.push_back(item.id);
    return ids;
  }

  WatchedStore other_{clock_};
  ManualDispatcher taken_;
  Engine alerting_{{.owner = "engine", .alert_queues = {"headworks-alerts", "ops"}},
                   other_,
                   taken_,
                   evaluator_,
                   clock_,
                   random_,
                   logger_,
                   nullptr};
};

TEST_F(AlertsTest, TaskThatFailsForGoodIsToldInTheRoundThatSaysSo) {
  auto definition = Tasks("w", 3);
  definition.tasks[0].retry = {.max_attempts = 2, .initial = std::chrono::milliseconds(1)};
  definition.tasks[1].allow_failure = true;
  definition.tasks[2].needs = {"t0"};
  Run(std::move(definition));
  End(Verdict::kRetry);   // t0 has another try
  End(Verdict::kFailed);  // t1 may fail
  EXPECT_EQ(Sent("ops"), std::vector<std::string>{});
  TickHere(5);
  End(Verdict::kRetry);
  EXPECT_EQ(Sent("ops"), std::vector<std::string>{"task_failed:1:0.0.3"});
  EXPECT_EQ(Sent("headworks-alerts"), Sent("ops"));
  const store::Round& round = *std::ranges::find_if(
      other_.sent, [](const store::Round& sent) { return !sent.items.empty(); });
  EXPECT_EQ(round.items[0].tenant, tenant_);
  EXPECT_EQ(round.items[0].max_attempts, alert::kCommandAttempts);
  EXPECT_NE(round.items[0].payload.find(R"("task":"t0")"), std::string::npos);
  ASSERT_EQ(round.runs.size(), 1U);
  EXPECT_EQ(round.runs[0].attempts.size(), 1U);
  EXPECT_EQ(alerting_.stats().alerts_of_tasks, 1U);
}

TEST_F(AlertsTest, RoundWhoseAnswerIsLostIsSentAgainWithTheSameAlerts) {
  Run(Tasks("w", 1));
  other_.replies_to_lose = 1;
  other_.before = [lost = false](const store::Round& round) mutable -> Status {
    if (round.items.empty() || std::exchange(lost, true)) return {};
    return Error{Code::kUnavailable, "the disk is slow"};
  };
  End(Verdict::kFailed);
  clock_.Advance(std::chrono::seconds(2));
  TickHere(5);
  const auto sent = Sent("ops");
  ASSERT_GE(sent.size(), 2U);
  EXPECT_EQ(sent.front(), sent.back());
  EXPECT_EQ(alerting_.stats().alerts_of_tasks, 1U);
}

TEST_F(AlertsTest, MarkedAndCancelledTasksAreNotTold) {
  Run(Tasks("w", 2));
  End(Verdict::kSucceeded);
  alerting_.Execute({.tenant = tenant_, .kind = CommandKind::kCancel, .run = RunNo(1)},
                    [](const Status&) {});
  TickHere(2);
  End(Verdict::kCancelled);
  alerting_.Execute({.tenant = tenant_,
                     .kind = CommandKind::kMark,
                     .run = RunNo(1),
                     .task = "t0",
                     .mark = model::TaskState::kFailed},
                    [](const Status& done) { EXPECT_TRUE(done); });
  TickHere(2);
  EXPECT_EQ(Sent("ops"), std::vector<std::string>{});
}

TEST_F(AlertsTest, StuckRunIsToldWithItsReason) {
  other_.before = [](const store::Round& round) -> Status {
    for (const auto& write : round.runs)
      if (!write.attempts.empty()) return Error{Code::kConflict, "constraint failed"};
    return {};
  };
  Run(Tasks("w", 1));
  End(Verdict::kSucceeded);
  TickHere(3);
  const auto sent = Sent("ops");
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].starts_with("run_stuck:1:")) << sent[0];
  EXPECT_EQ(alerting_.stats().alerts_of_runs, 1U);
}

TEST_F(AlertsTest, AlertsCountTowardsTheRowsOfARound) {
  constexpr std::size_t kMostRows = 60;
  Engine bounded{{.owner = "bounded",
                  .max_round_rows = kMostRows,
                  .alert_queues = {"headworks-alerts", "ops"}},
                 other_,
                 taken_,
                 evaluator_,
                 clock_,
                 random_,
                 logger_,
                 nullptr};
  ASSERT_TRUE(alerting_.Close());
  ASSERT_TRUE(bounded.Open());
  const auto workflow = *model::Workflow::Create(Tasks("w", 1));
  ASSERT_TRUE(other_.workflows().PutVersion(tenant_, workflow->version(),
                                            workflow->canonical_json(), clock_.Now()));
  const auto tick = [&](int times) {
    for (; times > 0; --times) {
      bounded.Tick();
      clock_.Advance(std::chrono::milliseconds(10));
    }
  };
  constexpr std::size_t kRuns = 40;
  for (std::size_t i = 0; i < kRuns; ++i)
    bounded.Start({.tenant = tenant_,
                   .name = workflow->name(),
                   .version = workflow->version(),
                   .input = "{}"},
                  [](const auto& started) { EXPECT_TRUE(started); });
  tick(20);
  ASSERT_EQ(taken_.taken.size(), kRuns);
  other_.sent.clear();
  for (const auto& attempt : taken_.taken)
    bounded.Ended(attempt.key, {.verdict = Verdict::kFailed, .error = "no"});
  tick(20);
  EXPECT_EQ(Sent("ops").size(), kRuns);
  // The last step may go past the bound: run, task, attempt, and two items of two rows each.
  for (const store::Round& round : other_.sent)
    EXPECT_LT(Rows(round) + 2 * round.items.size(), kMostRows + 7);
  EXPECT_TRUE(bounded.Close());
}

TEST_F(AlertsTest, WhoConfiguresNoneWritesNone) {
  const auto answer = Start(*Put(Tasks("w", 1)));
  Tick(2);
  engine_.Ended(dispatcher_.taken.front().key, {.verdict = Verdict::kFailed});
  Tick(2);
  ASSERT_FALSE(store_.sent.empty());
  for (const store::Round& round : store_.sent) EXPECT_TRUE(round.items.empty());
}

}  // namespace
}  // namespace headworks::engine
