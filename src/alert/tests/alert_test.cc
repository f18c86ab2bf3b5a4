#include "headworks/alert/alert.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>

#include "headworks/task_queue/checks.h"

namespace headworks::alert {
namespace {

namespace json = boost::json;
using model::Reason;
using model::TaskState;
using model::Verdict;

constexpr Instant kNow{Duration(1'700'000'000'000'000)};

model::RunHeader Etl() {
  model::RunHeader run;
  run.run_no = RunNo(7);
  run.run_id = RunId("0190-run");
  run.tenant = TenantId("acme");
  run.name = {.tenant = "acme", .package = "embedded", .workflow = "etl"};
  return run;
}

model::StoredTask Failed(Reason reason) {
  model::StoredTask row;
  row.task = TaskNo(2);
  row.state = TaskState::kFailed;
  row.reason = reason;
  row.epoch = Epoch(5);
  row.tries = 3;
  row.since = kNow;
  return row;
}

model::AttemptRecord Last(Verdict verdict, std::string error) {
  model::AttemptRecord last{.task = TaskNo(2), .epoch = Epoch(5), .try_no = 3, .queued_at = kNow};
  last.outcome.verdict = verdict;
  last.outcome.error = std::move(error);
  return last;
}

model::Task Load() {
  model::Task task;
  task.id = "load";
  return task;
}

json::object Told(const std::optional<Alert>& alert) {
  return alert ? json::parse(alert->payload).as_object() : json::object();
}

TEST(Alert, FailedTaskIsToldWithItsRunAndTheBudgetThatItUsedUp) {
  const auto last = Last(Verdict::kRetry, "exit code 3");
  const auto alert = OfTask(Etl(), Load(), Failed(Reason::kExitCode), &last);
  ASSERT_TRUE(alert);
  EXPECT_EQ(alert->tenant, TenantId("acme"));
  EXPECT_EQ(alert->id, "task_failed:7:2.0.5");
  EXPECT_EQ(KindOf(alert->id), kTaskFailed);
  const json::object expected{{"alert", "task_failed"},
                              {"id", "task_failed:7:2.0.5"},
                              {"tenant", "acme"},
                              {"at", "2023-11-14T22:13:20.000000Z"},
                              {"package", "embedded"},
                              {"workflow", "etl"},
                              {"run", 7},
                              {"run_id", "0190-run"},
                              {"task", "load"},
                              {"map_index", -1},
                              {"try", 3},
                              {"budget", "tries"},
                              {"reason", "exit_code"},
                              {"error", "exit code 3"}};
  EXPECT_EQ(Told(alert), expected) << alert->payload;
}

TEST(Alert, EachBudgetHasItsName) {
  const auto lost = Last(Verdict::kLost, "gone");
  EXPECT_EQ(Told(OfTask(Etl(), Load(), Failed(Reason::kLost), &lost))["budget"], "losses");
  auto row = Failed(Reason::kDispatchFailed);
  row.dispatch_failures = 6;
  const auto rejected = Last(Verdict::kFailed, "no such image");
  EXPECT_EQ(Told(OfTask(Etl(), Load(), row, &rejected))["budget"], "dispatch_failures");
  const auto no_use = Last(Verdict::kFailed, "bad input");
  EXPECT_EQ(Told(OfTask(Etl(), Load(), Failed(Reason::kError), &no_use))["budget"], nullptr);
  // Nobody knows of an attempt's end: its task was given up.
  const auto told = Told(OfTask(Etl(), Load(), Failed(Reason::kDeadline), nullptr));
  EXPECT_EQ(told.at("budget"), nullptr);
  EXPECT_EQ(told.at("error"), nullptr);
  EXPECT_EQ(told.at("reason"), "deadline");
}

TEST(Alert, OnlyWhatFailedByItselfAndMayNotIsTold) {
  const auto last = Last(Verdict::kRetry, "x");
  for (const TaskState state :
       {TaskState::kSucceeded, TaskState::kSkipped, TaskState::kUpstreamFailed,
        TaskState::kCancelled, TaskState::kParked, TaskState::kQueued}) {
    auto row = Failed(Reason::kError);
    row.state = state;
    EXPECT_FALSE(OfTask(Etl(), Load(), row, &last)) << static_cast<int>(state);
  }
  model::Task may_fail = Load();
  may_fail.allow_failure = true;
  EXPECT_FALSE(OfTask(Etl(), may_fail, Failed(Reason::kError), &last));
  EXPECT_FALSE(OfTask(Etl(), Load(), Failed(Reason::kMarked), nullptr));
}

TEST(Alert, ErrorIsRedactedAndCutBetweenCharacters) {
  auto last = Last(Verdict::kRetry, "password=hunter2 " + std::string(kMaxErrorBytes, 'x'));
  std::string error(
      Told(OfTask(Etl(), Load(), Failed(Reason::kError), &last))["error"].as_string());
  EXPECT_EQ(error.size(), kMaxErrorBytes);
  EXPECT_TRUE(error.starts_with("password=*** xx")) << error;
  last.outcome.error = std::string(kMaxErrorBytes - 1, 'x') + "\xc3\xa4" + "\xff";
  error =
      std::string(Told(OfTask(Etl(), Load(), Failed(Reason::kError), &last))["error"].as_string());
  EXPECT_EQ(error, std::string(kMaxErrorBytes - 1, 'x'));
}

TEST(Alert, DeadItemIsAnotherEachTimeItDies) {
  task_queue::ItemRecord item{
      .no = task_queue::ItemNo(17), .id = "m1", .attempts = 3, .redrives = 1, .ended_at = kNow};
  item.claim = task_queue::ClaimNo(42);
  item.holder = "h";
  item.reason = "smtp password=*** refused";
  const Alert alert = OfDeadItem(TenantId("acme"), "mail", item);
  EXPECT_EQ(alert.id, "dead_letter:mail:17-42");
  const json::object expected{{"alert", "dead_letter"}, {"id", "dead_letter:mail:17-42"},
                              {"tenant", "acme"},       {"at", "2023-11-14T22:13:20.000000Z"},
                              {"queue", "mail"},        {"item", "m1"},
                              {"attempts", 3},          {"redrives", 1},
                              {"holder", "h"},          {"reason", "smtp password=*** refused"}};
  EXPECT_EQ(Told(alert), expected) << alert.payload;
  item.claim = task_queue::ClaimNo(43);
  EXPECT_NE(OfDeadItem(TenantId("acme"), "mail", item).id, alert.id);
}

TEST(Alert, StuckRunAndTestAreTold) {
  model::RunHeader run = Etl();
  run.stuck_reason = "token: abc is bad";
  run.stuck_since = kNow;
  const Alert stuck = OfStuckRun(run);
  EXPECT_EQ(stuck.id, "run_stuck:7:1700000000000000");
  EXPECT_EQ(Told(stuck)["reason"], "token: *** is bad");
  EXPECT_EQ(Told(stuck)["run_id"], "0190-run");
  run.stuck_reason = "constraint \xE2\x82";  // a store's message, cut
  EXPECT_TRUE(task_queue::CheckEnqueue(
      run.tenant, "ops", std::array{task_queue::NewItem{"id", OfStuckRun(run).payload}}));
  const Alert test = OfTest(TenantId("acme"), "1", "ann@host", kNow);
  EXPECT_EQ(test.id, "test:1");
  EXPECT_EQ(Told(test)["by"], "ann@host");
}

TEST(Alert, QueueOfTheCommandIsNobodyElses) {
  EXPECT_TRUE(CheckQueue(""));
  EXPECT_TRUE(CheckQueue("ops"));
  EXPECT_FALSE(CheckQueue("ops alerts"));
  EXPECT_FALSE(CheckQueue(kCommandQueue));
  EXPECT_EQ(QueuesOf(false, ""), std::vector<std::string>{});
  EXPECT_EQ(QueuesOf(true, "ops"), (std::vector<std::string>{kCommandQueue, "ops"}));
  std::vector<store::QueuedItem> items;
  AddItems(std::array{Alert{TenantId("acme"), "a", "{}"}}, QueuesOf(true, "ops"), items);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].max_attempts, kCommandAttempts);
  EXPECT_EQ(items[1].max_attempts, 0);
}

}  // namespace
}  // namespace headworks::alert
