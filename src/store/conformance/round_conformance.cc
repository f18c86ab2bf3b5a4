#include <array>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

using model::RunState;
using model::TaskState;

TEST_P(Conformance, RunComesBackWithEveryField) {
  Own();
  RunWrite write = NewRun(FullHeader(RunNo(1)));
  write.tasks = {TaskAt(0, TaskState::kSucceeded, "{}"), TaskAt(1, TaskState::kQueued),
                 TaskAt(9, TaskState::kParked)};
  EXPECT_OK(Commit(write));
  harness_->CrashAndReopen();
  const auto image = runs().LoadRun(kTenant, RunNo(1));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(Text(image->header), Text(write.header));
  ASSERT_EQ(image->tasks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Text(image->tasks[i]), Text(write.tasks[i].row));
    EXPECT_EQ(image->executors[i], write.tasks[i].executor);
    EXPECT_EQ(image->holders[i], write.tasks[i].holder);
  }
}

TEST_P(Conformance, StuckRunComesBackWithItsReason) {
  Own();
  model::RunHeader h = PlainHeader(RunNo(1));
  h.stuck_reason = "task 3: \"no such state\"";
  h.stuck_since = kT0;
  EXPECT_OK(Commit(NewRun(h)));
  EXPECT_EQ(Text(runs().LoadRun(kTenant, RunNo(1))->header), Text(h));
}

TEST_P(Conformance, UpdateChangesAllButWhatIsFixed) {
  Own();
  const model::RunHeader first = PlainHeader(RunNo(1));
  EXPECT_OK(Commit(NewRun(first)));
  const model::RunHeader update = FullHeader(RunNo(1));
  EXPECT_OK(Commit(UpdateRun(update)));
  model::RunHeader expected = update;
  expected.run_id = first.run_id;
  expected.name = first.name;
  expected.version = first.version;
  expected.shard = first.shard;
  expected.created_at = first.created_at;
  expected.start_key = first.start_key;
  expected.concurrency_key = first.concurrency_key;
  expected.trace_context = first.trace_context;
  expected.rerun_of = first.rerun_of;
  expected.root_run = first.root_run;
  EXPECT_EQ(Text(runs().LoadRun(kTenant, RunNo(1))->header), Text(expected));
}

TEST_P(Conformance, RunsOfARoundMustRiseAndStandOnItsShards) {
  Own();
  Round round = NextRound();
  round.runs = {NewRun(PlainHeader(RunNo(2))), NewRun(PlainHeader(RunNo(1)))};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {NewRun(PlainHeader(RunNo(1))), NewRun(PlainHeader(RunNo(1)))};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {NewRun(PlainHeader(RunNo(0)))};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {NewRun(PlainHeader(RunNo(1)))};
  round.runs[0].header.shard = kOtherShard;
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {NewRun(PlainHeader(RunNo(1), TenantId()))};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {NewRun(PlainHeader(RunNo(1)))};
  round.runs[0].header.name.tenant = kOtherTenant.value;
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs.clear();
  round.lease_ttl = Duration(0);
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.lease_ttl = kTtl;
  round.guards.clear();
  EXPECT_CODE(runs().Commit(round), Code::kInvalidArgument);
  EXPECT_EQ(Text(runs().ReadGuard(kShard)), "shard 7 term 1 round 0");
}

std::vector<std::string> ItemsOf(task_queue::Queues& queues, const TenantId& tenant,
                                 std::string_view queue) {
  std::vector<std::string> ids;
  const auto items = queues.admin().ListItems(tenant, queue, {});
  if (items)
    for (const auto& item : *items) ids.push_back(item.id);
  return ids;
}

TEST_P(Conformance, ItemsOfARoundAreEnqueuedWithItOrNotAtAll) {
  Own();
  Round round = NextRound();
  round.runs = {NewRun(PlainHeader(RunNo(1)))};
  round.items = {{kTenant, "news", "a", R"({"n": 1})", 7},
                 {kTenant, "news", "b", "2"},
                 {TenantId("t2"), "news", "a", "3"},
                 {kTenant, "news", "a", R"({"n": 1})"}};
  EXPECT_OK(Commit(round));
  EXPECT_CODE(runs().Commit(round), Code::kLeaseLost);  // it is committed: not a second time
  Round other = NextRound();
  other.runs = {NewRun(PlainHeader(RunNo(1)))};
  other.items = {{kTenant, "news", "c", "4"}};
  EXPECT_CODE(runs().Commit(other), Code::kConflict);
  harness_->CrashAndReopen();
  EXPECT_EQ(ItemsOf(queues(), kTenant, "news"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(ItemsOf(queues(), TenantId("t2"), "news"), std::vector<std::string>{"a"});
  const auto first = queues().admin().GetItem(kTenant, "news", "a");
  EXPECT_EQ(first->payload, R"({"n": 1})");
  EXPECT_EQ(first->item.max_attempts, 7);
  for (const QueuedItem& bad :
       {QueuedItem{TenantId(""), "news", "x", "1"}, QueuedItem{kTenant, "a queue", "x", "1"},
        QueuedItem{kTenant, "news", "", "1"}, QueuedItem{kTenant, "news", "x", "{"}}) {
    Round refused = NextRound();
    refused.items = {bad};
    EXPECT_CODE(runs().Commit(refused), Code::kInvalidArgument);
  }
}

TEST_P(Conformance, ItemsThatFindTheirQueueFullAreLeftOutOfARoundThatIsCommitted) {
  Own();
  EXPECT_OK(queues().admin().Configure(kTenant, "news", {.max_depth = 2}));
  Round round = NextRound();
  round.runs = {NewRun(PlainHeader(RunNo(1)))};
  for (const char* const id : {"a", "b", "c"}) round.items.push_back({kTenant, "news", id, "1"});
  EXPECT_OK(Commit(round));
  EXPECT_EQ(ItemsOf(queues(), kTenant, "news"), (std::vector<std::string>{"a", "b"}));
  EXPECT_OK(runs().LoadRun(kTenant, RunNo(1)));

  const TenantId crowded("crowded");
  for (std::int64_t i = 0; i < task_queue::kMaxQueues; ++i)
    EXPECT_OK(queues().admin().Configure(crowded, "q" + std::to_string(i), {}));
  Round next = NextRound();
  next.runs = {NewRun(PlainHeader(RunNo(2)))};
  next.items = {{crowded, "news", "a", "1"}, {crowded, "q0", "a", "1"}};
  EXPECT_OK(Commit(next));
  EXPECT_EQ(ItemsOf(queues(), crowded, "q0"), std::vector<std::string>{"a"});
  EXPECT_OK(runs().LoadRun(kTenant, RunNo(2)));
}

TEST_P(Conformance, UpdateOfARunThatIsNotThereChangesNothing) {
  Own();
  Round round = NextRound();
  round.runs = {NewRun(PlainHeader(RunNo(1))), UpdateRun(PlainHeader(RunNo(2)))};
  EXPECT_CODE(Commit(round), Code::kNotFound);
  EXPECT_CODE(runs().LoadRun(kTenant, RunNo(1)), Code::kNotFound);
  EXPECT_EQ(Text(runs().ReadGuard(kShard)), "shard 7 term 1 round 0");
}

TEST_P(Conformance, RunOfAnotherTenantCannotBeUpdated) {
  Own();
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(1)))));
  model::RunHeader stranger = PlainHeader(RunNo(1), kOtherTenant);
  stranger.priority = 9;
  EXPECT_CODE(Commit(UpdateRun(stranger)), Code::kNotFound);
  EXPECT_EQ(runs().LoadRun(kTenant, RunNo(1))->header.priority, 0);
}

TEST_P(Conformance, NumberIdAndStartKeyMakeOneRun) {
  Own();
  EXPECT_OK(Commit(NewRun(FullHeader(RunNo(1)))));
  EXPECT_CODE(Commit(NewRun(PlainHeader(RunNo(1)))), Code::kConflict);

  model::RunHeader same_id = FullHeader(RunNo(2));
  same_id.run_id = FullHeader(RunNo(1)).run_id;
  EXPECT_CODE(Commit(NewRun(same_id)), Code::kConflict);

  model::RunHeader same_key = FullHeader(RunNo(3));
  same_key.start_key = "key-1";
  EXPECT_CODE(Commit(NewRun(same_key)), Code::kConflict);
  same_key.name.workflow = "other";
  EXPECT_OK(Commit(NewRun(same_key)));

  Round twice = NextRound();
  twice.runs = {NewRun(FullHeader(RunNo(4))), NewRun(FullHeader(RunNo(5)))};
  twice.runs[1].header.start_key = "key-4";
  EXPECT_CODE(Commit(twice), Code::kConflict);
  EXPECT_CODE(runs().LoadRun(kTenant, RunNo(4)), Code::kNotFound);
}

TEST_P(Conformance, RunsWithoutStartKeyDoNotCollide) {
  Own();
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(1)))));
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(2)))));
  EXPECT_EQ(Text(runs().FindStartKey(kTenant, PlainHeader(RunNo(1)).name, "")), "none");
}

TEST_P(Conformance, StartKeyFindsItsRunInItsTenantAndWorkflowOnly) {
  Own();
  const model::RunHeader h = FullHeader(RunNo(1));
  EXPECT_OK(Commit(NewRun(h)));
  EXPECT_EQ(Text(runs().FindStartKey(kTenant, h.name, "key-1")), Text(h));
  EXPECT_EQ(Text(runs().FindStartKey(kTenant, h.name, "key-2")), "none");
  EXPECT_EQ(Text(runs().FindStartKey(kTenant, {"acme", "data", "other"}, "key-1")), "none");
  EXPECT_EQ(Text(runs().FindStartKey(kOtherTenant, {"zeta", "data", "etl"}, "key-1")), "none");
  EXPECT_EQ(Text(runs().FindStartKey(kOtherTenant, h.name, "key-1")), "none");
  EXPECT_CODE(runs().FindStartKey(TenantId(), h.name, "key-1"), Code::kInvalidArgument);
}

TEST_P(Conformance, RunsWithoutAnEndHaveNotEndedAndPendingOnesHaveNothing) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.header.state = RunState::kSucceeded;
  EXPECT_CODE(Commit(write), Code::kInvalidArgument);
  write.header.finished_at = kT0;
  write.header.state = RunState::kRunning;
  EXPECT_CODE(Commit(write), Code::kInvalidArgument);
  SetState(write.header, RunState::kPending);
  write.tasks = {TaskAt(0, TaskState::kQueued)};
  EXPECT_CODE(Commit(write), Code::kInvalidArgument);
  write.tasks.clear();
  write.header.wake_at = kT0;
  EXPECT_CODE(Commit(write), Code::kInvalidArgument);
  write.header.wake_at = Instant{};
  EXPECT_OK(Commit(write));
}

TEST_P(Conformance, AKnownTaskRowMustBeThere) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.tasks = {TaskAt(0, TaskState::kQueued)};
  EXPECT_OK(Commit(write));
  write.insert_input.reset();
  write.tasks = {TaskAt(0, TaskState::kSucceeded, "{}"), TaskAt(1, TaskState::kQueued)};
  write.tasks[0].known = write.tasks[1].known = true;
  EXPECT_CODE(Commit(write), Code::kNotFound);
  write.tasks[1].known = false;
  EXPECT_OK(Commit(write));
  EXPECT_EQ(Text(query().ReadEnds(kTenant, RunNo(1), std::array{TaskNo(0), TaskNo(1)})),
            "[succeeded '{}'\n queued ''\n ]");
}

TEST_P(Conformance, OutputIsKeptClearedOrReplacedAsTold) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.tasks = {TaskAt(0, TaskState::kSucceeded, R"({"a":1})"),
                 TaskAt(1, TaskState::kSucceeded, R"({"b":1})"),
                 TaskAt(2, TaskState::kSucceeded, R"({"c":1})"), TaskAt(3, TaskState::kFailed)};
  EXPECT_OK(Commit(write));
  write.insert_input.reset();
  write.tasks = {TaskAt(0, TaskState::kQueued), TaskAt(1, TaskState::kQueued, ""),
                 TaskAt(2, TaskState::kSucceeded, R"({"c":2})")};
  EXPECT_OK(Commit(write));
  const std::array asked{TaskNo(2), TaskNo(0), TaskNo(99), TaskNo(1), TaskNo(3), TaskNo(2)};
  EXPECT_EQ(Text(query().ReadEnds(kTenant, RunNo(1), asked)),
            "[succeeded '{\"c\":2}'\n queued '{\"a\":1}'\n waiting ''\n queued ''\n "
            "failed ''\n succeeded '{\"c\":2}'\n ]");
}

TEST_P(Conformance, PayloadsAreOpaqueBytes) {
  Own();
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  bytes += std::string(100'000, '\0');
  RunWrite write = NewRun(PlainHeader(RunNo(1)), bytes);
  write.tasks = {TaskAt(0, TaskState::kSucceeded, bytes)};
  EXPECT_OK(Commit(write));
  const std::array asked{TaskNo(0)};
  EXPECT_EQ(*query().ReadInput(kTenant, RunNo(1)), bytes);
  EXPECT_EQ(query().ReadEnds(kTenant, RunNo(1), asked)->front().output, bytes);
  InboxRow row = Message("mark", "k", RunNo(1));
  row.payload = bytes;
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  EXPECT_EQ(runs().ReadInbox(std::array{kShard}, 0, 1)->front().payload, bytes);
  EXPECT_OK(workflows().PutVersion(kTenant, "v", bytes, kT0));
  EXPECT_EQ(*workflows().GetVersion(kTenant, "v"), bytes);
}

TEST_P(Conformance, EmptyInputIsAnInput) {
  Own();
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(1)), "")));
  EXPECT_EQ(Text(query().ReadInput(kTenant, RunNo(1))), "''");
}

TEST_P(Conformance, AttemptEndsOnce) {
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  write.attempts = {AttemptAt(0, 1)};
  EXPECT_OK(Commit(write));
  write.insert_input.reset();
  EXPECT_CODE(Commit(write), Code::kConflict);
  write.attempts = {AttemptAt(0, 2), AttemptAt(1, 2)};
  EXPECT_CODE(Commit(write), Code::kConflict);
  EXPECT_EQ(query().ListAttempts(kTenant, RunNo(1), {}, {}, 10)->size(), 1U);
}

TEST_P(Conformance, DeletedRunLeavesNothing) {
  Own();
  RunWrite write = NewRun(FullHeader(RunNo(1)));
  SetState(write.header, RunState::kSucceeded);
  write.tasks = {TaskAt(0, TaskState::kSucceeded, "{}")};
  write.attempts = {AttemptAt(0, 1)};
  write.events = {{kT0, "finished", "", ""}};
  EXPECT_OK(Commit(write));
  Round round = NextRound();
  round.deleted_runs = {{kTenant, RunNo(1)}, {kTenant, RunNo(77)}};
  EXPECT_OK(Commit(round));
  EXPECT_CODE(runs().LoadRun(kTenant, RunNo(1)), Code::kNotFound);
  EXPECT_CODE(query().GetRun(kTenant, "1"), Code::kNotFound);
  EXPECT_CODE(query().ReadInput(kTenant, RunNo(1)), Code::kNotFound);
  EXPECT_CODE(query().ListTasks(kTenant, RunNo(1), {}, 10), Code::kNotFound);
  EXPECT_CODE(query().ListAttempts(kTenant, RunNo(1), {}, {}, 10), Code::kNotFound);
  EXPECT_CODE(query().ListEvents(kTenant, RunNo(1), 10), Code::kNotFound);
  EXPECT_CODE(query().ReadEnds(kTenant, RunNo(1), {}), Code::kNotFound);
  EXPECT_EQ(Text(runs().FindStartKey(kTenant, write.header.name, "key-1")), "none");
  // Its id and key are free again; its rows do not come back with them.
  write.header.run_no = RunNo(2);
  write.tasks.clear();
  EXPECT_OK(Commit(write));
  EXPECT_EQ(Text(query().ListTasks(kTenant, RunNo(2), {}, 10)), "[]");
}

TEST_P(Conformance, LargeRunIsDeletedForGoodWhateverComesAfter) {
  constexpr std::uint32_t kTasks = 5'000;
  Own();
  RunWrite write = NewRun(PlainHeader(RunNo(1)));
  SetState(write.header, RunState::kFailed);
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    write.tasks.push_back(TaskAt(i, TaskState::kFailed, "{}"));
    write.attempts.push_back(AttemptAt(i, i + 1));
  }
  EXPECT_OK(Commit(write));
  Round round = NextRound();
  round.deleted_runs = {{kTenant, RunNo(1)}};
  EXPECT_OK(Commit(round));
  EXPECT_CODE(runs().LoadRun(kTenant, RunNo(1)), Code::kNotFound);
  harness_->CrashAndReopen();
  harness_->clock.Advance(kTtl);
  Own();
  EXPECT_OK(Commit(NextRound()));
  EXPECT_CODE(query().ListTasks(kTenant, RunNo(1), {}, 10), Code::kNotFound);
}

TEST_P(Conformance, OnlyFinishedRunsOfTheTenantAndTheRoundsShardsAreDeleted) {
  Own();
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(1)))));
  Round round = NextRound();
  round.deleted_runs = {{kTenant, RunNo(1)}};
  EXPECT_CODE(Commit(round), Code::kConflict);
  round.deleted_runs = {{kOtherTenant, RunNo(1)}};
  EXPECT_OK(Commit(round));  // there is none
  EXPECT_OK(runs().LoadRun(kTenant, RunNo(1)));

  round = NextRound();
  round.runs = {UpdateRun(PlainHeader(RunNo(1)))};
  round.deleted_runs = {{kTenant, RunNo(1)}};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);

  const auto other = runs().Acquire(std::array{kOtherShard}, "engine-1", kTtl);
  ASSERT_TRUE(other);
  round = NextRound();
  round.guards = {{kOtherShard, other->front().term, RoundNo(1)}};
  round.deleted_runs = {{kTenant, RunNo(1)}};
  EXPECT_CODE(runs().Commit(round), Code::kInvalidArgument);
}

TEST_P(Conformance, RoundOfSeveralShardsMovesAllOrNone) {
  const std::array both{kShard, kOtherShard};
  auto guards = runs().Acquire(both, "engine-1", kTtl);
  ASSERT_TRUE(guards);
  Round round;
  round.guards = *guards;
  for (Guard& guard : round.guards) guard.round = RoundNo(1);
  round.lease_ttl = kTtl;
  EXPECT_OK(runs().Commit(round));
  round.guards[0].round = RoundNo(2);  // the second one is stale
  EXPECT_CODE(runs().Commit(round), Code::kLeaseLost);
  EXPECT_EQ(runs().ReadGuard(kShard)->round, RoundNo(1));
  EXPECT_EQ(runs().ReadGuard(kOtherShard)->round, RoundNo(1));
}

TEST_P(Conformance, CommittedRoundsSurviveACrash) {
  Own();
  for (int i = 1; i <= 20; ++i) {
    EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(i)))));
    harness_->CrashAndReopen();
    harness_->clock.Advance(kTtl);
    for (int j = 1; j <= i; ++j) EXPECT_OK(runs().LoadRun(kTenant, RunNo(j)));
    Own();
    EXPECT_EQ(guard_.round, RoundNo(i));
  }
}

TEST_P(Conformance, LoadNeedsTheRightTenant) {
  Own();
  EXPECT_OK(Commit(NewRun(PlainHeader(RunNo(1)))));
  EXPECT_CODE(runs().LoadRun(kOtherTenant, RunNo(1)), Code::kNotFound);
  EXPECT_CODE(runs().LoadRun(TenantId(), RunNo(1)), Code::kInvalidArgument);
}

// ---- ListDue

class DueRow {
 public:
  DueRow(std::int64_t run, RunState state, int priority) : h_(PlainHeader(RunNo(run))) {
    h_.priority = priority;
    h_.wake_at = model::IsTerminal(state) ? kNever : kT0;
    SetState(h_, state);
  }
  DueRow& WakeAt(Instant at) { return h_.wake_at = at, *this; }
  DueRow& Stuck() { return h_.stuck_reason = "poison", *this; }
  DueRow& On(Shard shard) { return h_.shard = shard, *this; }
  DueRow& Of(const TenantId& tenant) {
    h_.tenant = tenant;
    h_.name.tenant = tenant.value;
    return *this;
  }
  RunWrite operator*() const { return NewRun(h_); }

 private:
  model::RunHeader h_;
};

std::vector<std::int64_t> Numbers(const Result<std::vector<model::RunHeader>>& due) {
  std::vector<std::int64_t> numbers;
  for (const auto& run : due.value()) numbers.push_back(run.run_no.value);
  return numbers;
}

using Numbered = std::vector<std::int64_t>;

TEST_P(Conformance, DueRunsComeByTimeThenPriorityThenNumber) {
  Own();
  Round round = NextRound();
  round.runs = {*DueRow(1, RunState::kPending, 0),
                *DueRow(2, RunState::kRunning, 5),
                *DueRow(3, RunState::kRunning, 0).WakeAt(kT0 + Duration(1)),
                *DueRow(4, RunState::kRunning, 9).Stuck(),
                *DueRow(5, RunState::kSucceeded, 9),
                *DueRow(6, RunState::kPending, 5).Of(kOtherTenant),
                *DueRow(7, RunState::kRunning, 0).WakeAt(kNever),
                *DueRow(8, RunState::kPending, -7),
                *DueRow(9, RunState::kPending, 9).Stuck(),
                *DueRow(10, RunState::kRunning, 0),
                *DueRow(11, RunState::kFailed, 1).WakeAt(kT0),  // has a zombie
                *DueRow(12, RunState::kPending, 3)};
  EXPECT_OK(Commit(round));
  const std::array shards{kShard};
  const auto due = [&](Instant until, const RunStore::DueAfter& after = {},
                       std::size_t limit = 100) {
    return Numbers(runs().ListDue(kTenant, shards, until, after, limit));
  };
  EXPECT_EQ(due(kT0), (Numbered{12, 1, 8, 2, 11, 10}));
  EXPECT_EQ(due(kT0 + Duration(1)), (Numbered{12, 1, 8, 2, 11, 10, 3}));
  EXPECT_EQ(due(kT0 - Duration(1)), (Numbered{12, 1, 8}));
  EXPECT_EQ(due(Instant{}), (Numbered{12, 1, 8}));
  EXPECT_EQ(due(Instant{} - Duration(1)), Numbered{});
  EXPECT_EQ(Text(runs().ListDue(kTenant, shards, kT0, {}, 1)),
            Text(std::vector{round.runs[11].header}));
  EXPECT_EQ(due(kT0, {}, 0), Numbered{});
  EXPECT_EQ(Numbers(runs().ListDue(kOtherTenant, shards, kT0, {}, 9)), (Numbered{6}));
  EXPECT_CODE(runs().ListDue(TenantId(), shards, kT0, {}, 9), Code::kInvalidArgument);
  // Behind what no run is: the time, the priority, the number.
  EXPECT_EQ(due(kT0, {Instant{}, 2, RunNo(99)}), (Numbered{1, 8, 2, 11, 10}));
  EXPECT_EQ(due(kT0, {Instant{}, -99, RunNo(0)}), (Numbered{2, 11, 10}));
  EXPECT_EQ(due(kT0, {kT0, 1, RunNo(10)}), (Numbered{11, 10}));
  EXPECT_EQ(due(kT0, {kT0 + Duration(1), 9, RunNo(0)}), Numbered{});

  for (const std::size_t limit : {1U, 2U, 4U}) {
    Numbered paged;
    RunStore::DueAfter after;
    for (;;) {
      const auto page = runs().ListDue(kTenant, shards, kT0, after, limit);
      ASSERT_TRUE(page);
      if (page->empty()) break;
      for (const auto& run : *page) paged.push_back(run.run_no.value);
      after = {page->back().wake_at, page->back().priority, page->back().run_no};
    }
    EXPECT_EQ(paged, (Numbered{12, 1, 8, 2, 11, 10})) << limit;
  }
}

TEST_P(Conformance, TenantsWithDueRunsAreEachListedOnce) {
  Own();
  const TenantId parked("parked"), stuck("stuck"), over("over");
  Round round = NextRound();
  round.runs = {*DueRow(1, RunState::kPending, 0).Of(kOtherTenant),
                *DueRow(2, RunState::kPending, 0),
                *DueRow(3, RunState::kRunning, 0).WakeAt(kT0),
                *DueRow(4, RunState::kRunning, 0).WakeAt(kT0 + Duration(1)).Of(parked),
                *DueRow(5, RunState::kPending, 0).Stuck().Of(stuck),
                *DueRow(6, RunState::kSucceeded, 0).Of(over),
                *DueRow(7, RunState::kRunning, 0).WakeAt(kNever).Of(over)};
  for (auto& write : round.runs) {
    if (write.header.state == RunState::kSucceeded) write.header.wake_at = kNever;
  }
  EXPECT_OK(Commit(round));
  const std::array shards{kShard};
  const auto tenants = [&](Instant until, const TenantId& after = {}, std::size_t limit = 9) {
    std::string names;
    for (const TenantId& tenant : runs().ListDueTenants(shards, until, after, limit).value())
      names += tenant.value + " ";
    return names;
  };
  EXPECT_EQ(tenants(kT0), "acme zeta ");
  EXPECT_EQ(tenants(Instant{}), "acme zeta ");
  EXPECT_EQ(tenants(kT0 + Duration(1)), "acme parked zeta ");
  EXPECT_EQ(tenants(kT0, {}, 1), "acme ");
  EXPECT_EQ(tenants(kT0, kTenant), "zeta ");
  EXPECT_EQ(tenants(kT0, TenantId("b")), "zeta ");
  EXPECT_EQ(tenants(kT0, kOtherTenant), "");
  EXPECT_EQ(tenants(kT0, {}, 0), "");
  EXPECT_EQ(runs().ListDueTenants(std::array{kOtherShard}, kT0, {}, 9)->size(), 0U);
  EXPECT_CODE(runs().ListDueTenants({}, kT0, {}, 9), Code::kInvalidArgument);
}

TEST_P(Conformance, DueRunsAreOfTheShardsAsked) {
  const std::array both{kShard, kOtherShard};
  auto guards = runs().Acquire(both, "engine-1", kTtl);
  ASSERT_TRUE(guards);
  Round round;
  round.guards = *guards;
  for (Guard& guard : round.guards) guard.round = RoundNo(1);
  round.lease_ttl = kTtl;
  round.runs = {*DueRow(1, RunState::kPending, 0),
                *DueRow(2, RunState::kRunning, 0).On(kOtherShard),
                *DueRow(3, RunState::kPending, 0).On(kOtherShard)};
  EXPECT_OK(runs().Commit(round));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, std::array{kShard}, kT0, {}, 9)), (Numbered{1}));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, std::array{kOtherShard}, kT0, {}, 9)),
            (Numbered{3, 2}));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, both, kT0, {}, 9)), (Numbered{1, 3, 2}));
  EXPECT_CODE(runs().ListDue(kTenant, {}, kT0, {}, 9), Code::kInvalidArgument);
}

TEST_P(Conformance, WhatExecutorsHoldIsCountedByRunAndAttempt) {
  const std::array both{kShard, kOtherShard};
  auto guards = runs().Acquire(both, "engine-1", kTtl);
  ASSERT_TRUE(guards);
  Round round;
  round.guards = *guards;
  for (Guard& guard : round.guards) guard.round = RoundNo(1);
  round.lease_ttl = kTtl;
  const auto hold = [](RunWrite& run, std::uint32_t task, model::TaskState state,
                       std::string executor, bool zombie = false) {
    RunWrite::TaskWrite write;
    write.row.task = TaskNo(task);
    write.row.state = state;
    write.row.epoch = Epoch(task + 1);
    write.row.zombie = zombie;
    write.executor = std::move(executor);
    write.holder = "engine-1";
    run.tasks.push_back(std::move(write));
  };
  using enum model::TaskState;
  round.runs = {*DueRow(1, RunState::kRunning, 0).WakeAt({}),
                *DueRow(2, RunState::kRunning, 0).WakeAt({}),
                *DueRow(3, RunState::kRunning, 0).WakeAt({}).On(kOtherShard),
                *DueRow(4, RunState::kPending, 0), *DueRow(5, RunState::kRunning, 0).Stuck()};
  hold(round.runs[0], 0, kQueued, "near");
  hold(round.runs[0], 1, kRunning, "far");
  hold(round.runs[0], 2, kRunning, "far");
  hold(round.runs[0], 3, kSucceeded, "");
  hold(round.runs[1], 0, kFailed, "far", true);
  hold(round.runs[2], 0, kRunning, "other");
  hold(round.runs[4], 0, kRunning, "stuck");
  EXPECT_OK(runs().Commit(round));
  using Held = std::vector<RunStore::Held>;
  EXPECT_EQ(*runs().ListHeld(std::array{kShard}),
            (Held{{"far", 2, 3}, {"near", 1, 1}, {"stuck", 1, 1}}));
  EXPECT_EQ(*runs().ListHeld(std::array{kOtherShard}), (Held{{"other", 1, 1}}));
  EXPECT_EQ(runs().ListHeld(both)->size(), 4U);
  EXPECT_CODE(runs().ListHeld({}), Code::kInvalidArgument);
}

TEST_P(Conformance, RunLeavesAndEntersTheDueListAsItChanges) {
  Own();
  const std::array shards{kShard};
  model::RunHeader h = PlainHeader(RunNo(1));
  SetState(h, RunState::kPending);
  EXPECT_OK(Commit(NewRun(h)));
  h.state = RunState::kRunning;
  RunWrite started = UpdateRun(h);
  started.relist = false;
  EXPECT_OK(Commit(started));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), (Numbered{1}));
  h.wake_at = kNever;
  EXPECT_OK(Commit(UpdateRun(h)));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), Numbered{});
  h.wake_at = Instant{};
  h.priority = 3;
  EXPECT_OK(Commit(UpdateRun(h)));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), (Numbered{1}));
  h.stuck_reason = "poison";
  EXPECT_OK(Commit(UpdateRun(h)));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), Numbered{});
  h.stuck_reason.clear();
  EXPECT_OK(Commit(UpdateRun(h)));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), (Numbered{1}));
  SetState(h, RunState::kSucceeded);
  h.wake_at = kNever;
  EXPECT_OK(Commit(UpdateRun(h)));
  EXPECT_EQ(Numbers(runs().ListDue(kTenant, shards, kT0, {}, 9)), Numbered{});
}

}  // namespace
}  // namespace headworks::store::conformance
