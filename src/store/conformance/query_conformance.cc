#include <array>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

using model::RunState;
using model::TaskState;

std::vector<std::int64_t> Numbers(const Result<std::vector<RunRecord>>& runs) {
  std::vector<std::int64_t> numbers;
  for (const RunRecord& run : runs.value()) numbers.push_back(run.header.run_no.value);
  return numbers;
}
using Numbered = std::vector<std::int64_t>;

model::RunHeader WithId(std::int64_t run, std::string id, const TenantId& tenant = kTenant) {
  model::RunHeader h = PlainHeader(RunNo(run), tenant);
  h.run_id = RunId(std::move(id));
  return h;
}

TEST_P(Conformance, RunIsFoundByIdPrefixNumberAndLast) {
  Own();
  EXPECT_CODE(query().GetRun(kTenant, "@last"), Code::kNotFound);
  Round round = NextRound();
  round.runs = {NewRun(WithId(1, "0191aaaa-0000")),
                NewRun(WithId(2, "0191aaab-0000")),
                NewRun(WithId(3, "0192bbbb-0000", kOtherTenant)),
                NewRun(WithId(4, "0191aaaa-0000", kOtherTenant)),
                NewRun(WithId(191, "9999-0000")),
                NewRun(WithId(192, "0191aaaa"))};
  EXPECT_OK(Commit(round));
  const auto number = [&](const TenantId& tenant, std::string_view reference) {
    const auto run = query().GetRun(tenant, reference);
    return run ? run->header.run_no.value : -1;
  };
  EXPECT_EQ(number(kTenant, "0191aaaa-0000"), 1);
  EXPECT_EQ(number(kTenant, "0191aaab"), 2);
  EXPECT_EQ(number(kTenant, "0191AAAB-0"), 2);
  EXPECT_EQ(number(kTenant, "2"), 2);
  EXPECT_EQ(number(kTenant, "0191"), 191);      // a number wins
  EXPECT_EQ(number(kTenant, "9999"), 191);      // no such number: a prefix
  EXPECT_EQ(number(kTenant, "0191aaaa"), 192);  // a whole id wins
  EXPECT_EQ(number(kTenant, "@last"), 192);
  EXPECT_EQ(number(kOtherTenant, "@last"), 4);
  EXPECT_EQ(number(kOtherTenant, "0191aaaa"), 4);
  EXPECT_CODE(query().GetRun(kTenant, "3"), Code::kNotFound);
  EXPECT_CODE(query().GetRun(kTenant, "0192b"), Code::kNotFound);
  EXPECT_CODE(query().GetRun(kTenant, "0192bbbb-0000"), Code::kNotFound);
  EXPECT_CODE(query().GetRun(kTenant, "019"), Code::kNotFound);  // digits: a number
  EXPECT_CODE(query().GetRun(kTenant, "99f"), Code::kInvalidArgument);
  EXPECT_CODE(query().GetRun(kTenant, ""), Code::kInvalidArgument);
  EXPECT_CODE(query().GetRun(TenantId(), "2"), Code::kInvalidArgument);
  EXPECT_CODE(query().GetRun(TenantId("nobody"), "@last"), Code::kNotFound);
}

TEST_P(Conformance, PrefixWithWildcardsIsTakenLiterally) {
  Own();
  EXPECT_OK(Commit(NewRun(WithId(1, "abcdef"))));
  for (const char* reference : {"ab*d", "ab?d", "ab%d", "ab_d", "[a]bcd", "abc'"}) {
    EXPECT_CODE(query().GetRun(kTenant, reference), Code::kNotFound) << reference;
  }
}

TEST_P(Conformance, AmbiguousPrefixListsTheRuns) {
  Own();
  Round round = NextRound();
  for (int i = 1; i <= 7; ++i) {
    round.runs.push_back(NewRun(WithId(i, "abcd-" + std::to_string(i))));
  }
  EXPECT_OK(Commit(round));
  const auto run = query().GetRun(kTenant, "abcd");
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kConflict);
  for (const char* part : {"abcd-1", "abcd-5", "..."}) {
    EXPECT_NE(run.error().message.find(part), std::string::npos) << run.error().message;
  }
  EXPECT_EQ(run.error().message.find("abcd-6"), std::string::npos) << run.error().message;
}

TEST_P(Conformance, RunsAreListedNewestFirstAndFiltered) {
  Own();
  Round round = NextRound();
  const auto add = [&](std::int64_t no, RunState state, std::string workflow, bool stuck,
                       const TenantId& tenant) {
    model::RunHeader h = PlainHeader(RunNo(no), tenant);
    SetState(h, state);
    h.name.workflow = std::move(workflow);
    if (stuck) h.stuck_reason = "poison";
    round.runs.push_back(NewRun(h));
  };
  add(1, RunState::kSucceeded, "a", false, kTenant);
  add(2, RunState::kFailed, "b", false, kTenant);
  add(3, RunState::kRunning, "a", true, kTenant);
  add(4, RunState::kPending, "b", false, kTenant);
  add(5, RunState::kCancelled, "a", false, kOtherTenant);
  add(6, RunState::kCancelled, "a", false, kTenant);
  EXPECT_OK(Commit(round));

  const auto list = [&](const RunQuery::RunFilter& filter) {
    return Numbers(query().ListRuns(kTenant, filter));
  };
  EXPECT_EQ(list({}), (Numbered{6, 4, 3, 2, 1}));
  EXPECT_EQ(list({.limit = 2}), (Numbered{6, 4}));
  EXPECT_EQ(list({.before = RunNo(4), .limit = 2}), (Numbered{3, 2}));
  EXPECT_EQ(list({.before = RunNo(1)}), Numbered{});
  EXPECT_EQ(list({.workflow = "a"}), (Numbered{6, 3, 1}));
  EXPECT_EQ(list({.workflow = "a", .before = RunNo(6)}), (Numbered{3, 1}));
  EXPECT_EQ(list({.states = {RunState::kFailed}}), (Numbered{2}));
  EXPECT_EQ(list({.states = {RunState::kFailed, RunState::kCancelled}}), (Numbered{6, 2}));
  EXPECT_EQ(list({.states = {RunState::kPending, RunState::kRunning}}), (Numbered{4, 3}));
  EXPECT_EQ(list({.states = {RunState::kSucceeded, RunState::kRunning}}), (Numbered{3, 1}));
  EXPECT_EQ(list({.workflow = "a", .states = {RunState::kCancelled}}), (Numbered{6}));
  EXPECT_EQ(list({.stuck_only = true}), (Numbered{3}));
  EXPECT_EQ(list({.limit = 0}), Numbered{});
  EXPECT_EQ(Numbers(query().ListRuns(kOtherTenant, {})), (Numbered{5}));
  EXPECT_EQ(Numbers(query().ListRuns(TenantId("nobody"), {})), Numbered{});
  EXPECT_CODE(query().ListRuns(TenantId(), {}), Code::kInvalidArgument);
  EXPECT_EQ(Text(query().ListRuns(kTenant, {.limit = 1})->front()), Text(round.runs[5].header));
}

TEST_P(Conformance, TasksArePagedByNumber) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.tasks = {TaskAt(4, TaskState::kRunning), TaskAt(0, TaskState::kSucceeded, "{}"),
                 TaskAt(2, TaskState::kParked)};
  EXPECT_OK(Commit(write));
  EXPECT_EQ(Text(query().ListTasks(kTenant, RunNo(1), {}, 10)),
            "[" + Text(write.tasks[1].row) + " executor '' holder '' has_output true\n " +
                Text(write.tasks[2].row) + " executor '' holder '' has_output false\n " +
                Text(write.tasks[0].row) +
                " executor 'process' holder 'holder-4' has_output false\n ]");
  EXPECT_EQ(query().ListTasks(kTenant, RunNo(1), {}, 2)->back().row.task, TaskNo(2));
  EXPECT_EQ(query().ListTasks(kTenant, RunNo(1), TaskNo(0), 1)->front().row.task, TaskNo(2));
  EXPECT_EQ(query().ListTasks(kTenant, RunNo(1), TaskNo(4), 10)->size(), 0U);
  EXPECT_CODE(query().ListTasks(kOtherTenant, RunNo(1), {}, 10), Code::kNotFound);
  EXPECT_CODE(query().ListTasks(TenantId(), RunNo(1), {}, 10), Code::kInvalidArgument);
}

TEST_P(Conformance, AttemptsArePagedByEpochForOneTaskOrAll) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.attempts = {AttemptAt(0, 2), AttemptAt(1, 1), AttemptAt(0, 3), AttemptAt(1, 5)};
  write.attempts[0].outcome.output = "{\"moved\":1}";
  EXPECT_OK(Commit(write));
  const auto all = query().ListAttempts(kTenant, RunNo(1), {}, {}, 10);
  ASSERT_TRUE(all);
  EXPECT_EQ(Text(*all),
            Text(std::vector{AttemptAt(1, 1), AttemptAt(0, 2), AttemptAt(0, 3), AttemptAt(1, 5)}));
  EXPECT_EQ(Text(query().ListAttempts(kTenant, RunNo(1), TaskNo(1), {}, 10)),
            Text(std::vector{AttemptAt(1, 1), AttemptAt(1, 5)}));
  EXPECT_EQ(Text(query().ListAttempts(kTenant, RunNo(1), {}, Epoch(1), 2)),
            Text(std::vector{AttemptAt(0, 2), AttemptAt(0, 3)}));
  EXPECT_EQ(Text(query().ListAttempts(kTenant, RunNo(1), TaskNo(1), Epoch(1), 1)),
            Text(std::vector{AttemptAt(1, 5)}));
  EXPECT_EQ(query().ListAttempts(kTenant, RunNo(1), TaskNo(7), {}, 10)->size(), 0U);
  EXPECT_CODE(query().ListAttempts(kOtherTenant, RunNo(1), {}, {}, 10), Code::kNotFound);
}

TEST_P(Conformance, EventsComeInTheOrderWrittenTheLastOnesFirstToStay) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.events = {{kT0, "started", "", ""}, {kT0 - Duration(5), "pause", "ada", "why 'not'"}};
  EXPECT_OK(Commit(write));
  write.insert_input.reset();
  write.events = {{kT0, "resume", "bob", ""}};
  EXPECT_OK(Commit(write));
  EXPECT_EQ(Text(query().ListEvents(kTenant, RunNo(1), 10)),
            "[at 1700000000000000 started by '': ''\n at 1699999999999995 pause by 'ada': 'why "
            "'not''\n at 1700000000000000 resume by 'bob': ''\n ]");
  const auto last = query().ListEvents(kTenant, RunNo(1), 2);
  ASSERT_EQ(last->size(), 2U);
  EXPECT_EQ(last->front().kind, "pause");
  EXPECT_CODE(query().ListEvents(kOtherTenant, RunNo(1), 10), Code::kNotFound);
}

TEST_P(Conformance, InputAndOutputsAreOfTheTenantOnly) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)), "{\"x\":2}");
  write.tasks = {TaskAt(0, TaskState::kSucceeded, "{}")};
  EXPECT_OK(Commit(write));
  EXPECT_EQ(Text(query().ReadInput(kTenant, RunNo(1))), "'{\"x\":2}'");
  EXPECT_CODE(query().ReadInput(kOtherTenant, RunNo(1)), Code::kNotFound);
  EXPECT_CODE(query().ReadInput(TenantId(), RunNo(1)), Code::kInvalidArgument);
  const std::array asked{TaskNo(0)};
  EXPECT_CODE(query().ReadEnds(kOtherTenant, RunNo(1), asked), Code::kNotFound);
  EXPECT_CODE(query().ReadEnds(TenantId(), RunNo(1), asked), Code::kInvalidArgument);
}

}  // namespace
}  // namespace headworks::store::conformance
