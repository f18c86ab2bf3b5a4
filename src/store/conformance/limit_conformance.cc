#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

/// "tenant pool run/epoch of task: weight", in the order of the store.
std::vector<std::string> Held(const Result<std::vector<Permit>>& permits) {
  std::vector<std::string> texts;
  for (const Permit& permit : permits.value()) texts.push_back(Text(permit));
  return texts;
}

RunWrite With(RunWrite write, std::vector<RunWrite::Grant> grants, std::vector<Epoch> freed = {}) {
  write.grants = std::move(grants);
  write.freed = std::move(freed);
  return write;
}

RunWrite::Grant GrantOf(std::string pool, std::int64_t epoch, int weight = 1) {
  return {std::move(pool), Epoch(epoch), TaskNo(2), weight, kT0};
}

TEST_P(Conformance, PoolIsSetChangedAndDeleted) {
  EXPECT_OK(limits().SetPool(kTenant, "gpu", 2, kT0));
  EXPECT_OK(limits().SetPool(kTenant, "Db-1_x", LimitStore::kMaxLimit, kT0));
  EXPECT_OK(limits().SetPool(kOtherTenant, "gpu", 7, kT0));
  EXPECT_OK(limits().SetPool(kTenant, "gpu", 0, kT0 + std::chrono::seconds(1)));
  const auto pools = limits().ListPools(kTenant);
  ASSERT_TRUE(pools);
  ASSERT_EQ(pools->size(), 2U);
  EXPECT_EQ((*pools)[0].name, "Db-1_x");
  EXPECT_EQ((*pools)[0].limit, LimitStore::kMaxLimit);
  EXPECT_EQ((*pools)[1].limit, 0);
  EXPECT_EQ((*pools)[1].set_at, kT0 + std::chrono::seconds(1));
  EXPECT_FALSE((*pools)[1].declared);
  EXPECT_OK(limits().DeletePool(kTenant, "gpu"));
  EXPECT_CODE(limits().DeletePool(kTenant, "gpu"), Code::kNotFound);
  EXPECT_EQ(limits().ListPools(kOtherTenant)->size(), 1U);
}

TEST_P(Conformance, PoolIsCheckedBeforeItIsSet) {
  EXPECT_CODE(limits().SetPool(TenantId(), "gpu", 2, kT0), Code::kInvalidArgument);
  EXPECT_CODE(limits().SetPool(kTenant, "", 2, kT0), Code::kInvalidArgument);
  EXPECT_CODE(limits().SetPool(kTenant, "g p", 2, kT0), Code::kInvalidArgument);
  EXPECT_OK(limits().SetPool(kTenant, std::string(64, 'g'), 2, kT0));
  EXPECT_CODE(limits().SetPool(kTenant, std::string(65, 'g'), 2, kT0), Code::kInvalidArgument);
  EXPECT_CODE(limits().SetPool(kTenant, "gpu", -1, kT0), Code::kInvalidArgument);
  EXPECT_CODE(limits().SetPool(kTenant, "gpu", LimitStore::kMaxLimit + 1, kT0),
              Code::kInvalidArgument);
  EXPECT_CODE(limits().DeclarePools(kTenant, {{"gpu", 1}, {"!", 1}}, kT0), Code::kInvalidArgument);
  EXPECT_EQ(limits().ListPools(kTenant)->size(), 1U);
}

TEST_P(Conformance, DeclaredPoolsAreTheConfigurations) {
  EXPECT_OK(limits().SetPool(kTenant, "by_hand", 1, kT0));
  EXPECT_OK(limits().SetPool(kTenant, "gpu", 1, kT0));
  EXPECT_OK(limits().DeclarePools(kTenant, {{"gpu", 4}, {"db", 2}}, kT0));
  EXPECT_CODE(limits().SetPool(kTenant, "gpu", 9, kT0), Code::kConflict);
  EXPECT_CODE(limits().DeletePool(kTenant, "gpu"), Code::kConflict);
  EXPECT_OK(limits().SetPool(kTenant, "by_hand", 3, kT0));
  EXPECT_OK(limits().DeclarePools(kTenant, {{"gpu", 5}}, kT0 + std::chrono::seconds(9)));
  const auto pools = limits().ListPools(kTenant);
  ASSERT_EQ(pools->size(), 3U);
  EXPECT_EQ((*pools)[0].name, "by_hand");
  EXPECT_EQ((*pools)[2].limit, 5);
  EXPECT_TRUE((*pools)[2].declared);
  EXPECT_OK(limits().DeclarePools(kTenant, {{"gpu", 5}}, kT0 + std::chrono::seconds(10)));
  EXPECT_EQ(limits().ListPools(kTenant)->at(2).set_at, kT0 + std::chrono::seconds(9));
}

TEST_P(Conformance, PoolThatIsDeclaredNoMoreStaysAsOneSetByHand) {
  EXPECT_OK(limits().DeclarePools(kTenant, {{"gpu", 4}, {"db", 2}}, kT0));
  EXPECT_OK(limits().DeclarePools(kOtherTenant, {{"gpu", 1}}, kT0));
  EXPECT_OK(limits().DeclarePools(kTenant, {{"db", 2}}, kT0 + std::chrono::seconds(1)));
  const auto pools = limits().ListPools(kTenant);
  ASSERT_EQ(pools->size(), 2U);
  EXPECT_TRUE((*pools)[0].declared);
  EXPECT_EQ(Text((*pools)[1]), Text(PoolRecord{"gpu", 4, false, kT0}));
  EXPECT_TRUE(limits().ListPools(kOtherTenant)->at(0).declared);
  EXPECT_OK(limits().SetPool(kTenant, "gpu", 3, kT0));
  EXPECT_OK(limits().DeclarePools(kTenant, {}, kT0 + std::chrono::seconds(2)));
  EXPECT_EQ(limits().ListPools(kTenant)->at(1).limit, 3);
  EXPECT_OK(limits().DeletePool(kTenant, "gpu"));
  EXPECT_OK(limits().DeletePool(kTenant, "db"));
}

TEST_P(Conformance, PermitsAreGrantedAndFreedByRounds) {
  Own();
  Round round = NextRound();
  round.runs = {With(NewRun(PlainHeader(RunNo(1))), {GrantOf("gpu", 1), GrantOf("gpu", 2, 3)}),
                With(NewRun(PlainHeader(RunNo(2), kOtherTenant)), {GrantOf("gpu", 1)})};
  EXPECT_OK(Commit(round));
  EXPECT_EQ(Held(limits().ListAllPermits()).size(), 3U);
  EXPECT_EQ(Held(limits().ListPermits(kOtherTenant)).size(), 1U);

  round = NextRound();
  round.runs = {With(UpdateRun(PlainHeader(RunNo(1))), {GrantOf("db", 1)}, {Epoch(1), Epoch(77)})};
  EXPECT_OK(Commit(round));
  const auto held = limits().ListPermits(kTenant);
  ASSERT_EQ(held->size(), 2U);
  EXPECT_EQ(held->at(0), (Permit{kTenant, "db", RunNo(1), Epoch(1), TaskNo(2), 1, kT0}));
  EXPECT_EQ(held->at(1), (Permit{kTenant, "gpu", RunNo(1), Epoch(2), TaskNo(2), 3, kT0}));
  harness_->CrashAndReopen();
  EXPECT_EQ(*limits().ListPermits(kTenant), *held);
}

TEST_P(Conformance, PermitIsHeldOnce) {
  Own();
  Round round = NextRound();
  round.runs = {With(NewRun(PlainHeader(RunNo(1))), {GrantOf("gpu", 1)})};
  EXPECT_OK(Commit(round));
  round = NextRound();
  round.runs = {With(UpdateRun(PlainHeader(RunNo(1))), {GrantOf("gpu", 2), GrantOf("db", 1)})};
  EXPECT_CODE(Commit(round), Code::kConflict);
  EXPECT_EQ(limits().ListPermits(kTenant)->size(), 1U);  // all of it or nothing
  round.runs = {With(UpdateRun(PlainHeader(RunNo(1))), {GrantOf("g pu", 2)})};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
  round.runs = {With(UpdateRun(PlainHeader(RunNo(1))), {GrantOf("gpu", 2, 0)})};
  EXPECT_CODE(Commit(round), Code::kInvalidArgument);
}

TEST_P(Conformance, HeldPoolIsNotDeletedAndDeletedRunHoldsNothing) {
  Own();
  EXPECT_OK(limits().SetPool(kTenant, "gpu", 2, kT0));
  model::RunHeader header = PlainHeader(RunNo(1));
  SetState(header, model::RunState::kFailed);
  Round round = NextRound();
  round.runs = {With(NewRun(header), {GrantOf("gpu", 1, 2)})};
  EXPECT_OK(Commit(round));
  const auto refused = limits().DeletePool(kTenant, "gpu");
  EXPECT_CODE(refused, Code::kConflict);
  EXPECT_NE(refused.error().message.find("2 permits"), std::string::npos);
  round = NextRound();
  round.deleted_runs = {{kTenant, RunNo(1)}};
  EXPECT_OK(Commit(round));
  EXPECT_TRUE(limits().ListAllPermits()->empty());
  EXPECT_OK(limits().DeletePool(kTenant, "gpu"));
}

std::vector<std::int64_t> Numbers(const Result<std::vector<RunRecord>>& runs) {
  std::vector<std::int64_t> numbers;
  for (const RunRecord& run : runs.value()) numbers.push_back(run.header.run_no.value);
  return numbers;
}

TEST_P(Conformance, RunsThatTakeAPlaceAreFoundByWorkflowAndKey) {
  Own();
  const auto run = [](std::int64_t no, model::RunState state, std::optional<std::string> key) {
    model::RunHeader header = PlainHeader(RunNo(no));
    SetState(header, state);
    header.concurrency_key = std::move(key);
    if (state == model::RunState::kFailed) header.wake_at = kNever;
    return header;
  };
  model::RunHeader zombie = run(5, model::RunState::kFailed, "a");
  zombie.wake_at = Instant{};
  Round round = NextRound();
  round.runs = {NewRun(run(1, model::RunState::kRunning, "a")),
                NewRun(run(2, model::RunState::kRunning, "")),
                NewRun(run(3, model::RunState::kPending, "a")),
                NewRun(run(4, model::RunState::kFailed, "a")),
                NewRun(zombie),
                NewRun(run(6, model::RunState::kRunning, std::nullopt))};
  EXPECT_OK(Commit(round));
  const model::Namespace name = PlainHeader(RunNo(1)).name;
  using Found = std::vector<std::int64_t>;
  const auto active = [&](std::optional<std::string> key, bool pending, std::size_t limit = 50) {
    const RunQuery::ActiveFilter filter{
        .name = name, .key = std::move(key), .pending = pending, .limit = limit};
    Found found = Numbers(query().ListActive(kTenant, filter));
    EXPECT_EQ(*query().CountActive(kTenant, filter), found.size());
    return found;
  };
  EXPECT_EQ(active("a", false), (Found{1, 5}));
  EXPECT_EQ(active("a", true), (Found{1, 3, 5}));
  EXPECT_EQ(active("a", true, 2), (Found{1, 3}));
  EXPECT_EQ(active("", false), (Found{2}));
  EXPECT_EQ(active(std::nullopt, false), (Found{1, 2, 5, 6}));
  EXPECT_EQ(active(std::nullopt, true, 3), (Found{1, 2, 3}));
  EXPECT_TRUE(query().ListActive(kOtherTenant, {.name = name})->empty());
  EXPECT_EQ(*query().CountActive(kOtherTenant, {.name = name}), 0U);
  EXPECT_CODE(query().CountActive(TenantId(""), {.name = name}), Code::kInvalidArgument);

  model::RunHeader over = zombie;  // its last attempt is provably over
  over.wake_at = kNever;
  EXPECT_OK(Commit(UpdateRun(over)));
  EXPECT_EQ(active("a", false), (Found{1}));

  // One that starts is in no other list than before, whether or not an attempt has ended by then.
  EXPECT_OK(Commit(NewRun(run(7, model::RunState::kPending, std::nullopt))));
  RunWrite started = UpdateRun(run(3, model::RunState::kRunning, "a"));
  started.relist = false;
  EXPECT_OK(Commit(started));
  started = UpdateRun(run(7, model::RunState::kRunning, std::nullopt));
  started.relist = false;
  started.attempts = {AttemptAt(0, 1)};
  EXPECT_OK(Commit(started));
  EXPECT_EQ(active(std::nullopt, false), (Found{1, 2, 3, 6, 7}));
}

TEST_P(Conformance, StartsAreFoundByKeyAndTime) {
  Own();
  const auto at = [](std::int64_t seconds) { return kT0 + std::chrono::seconds(seconds); };
  const auto started = [&](std::int64_t no, std::int64_t when, std::string key) {
    model::RunHeader header = PlainHeader(RunNo(no));
    header.concurrency_key = std::move(key);
    RunWrite write = NewRun(header);
    write.start = {at(when), at(when + 60)};
    return write;
  };
  Round round = NextRound();
  round.runs = {started(1, 9, "a"), started(2, 3, "a"), started(3, 5, "b"), started(4, 1, "a"),
                NewRun(PlainHeader(RunNo(5)))};
  EXPECT_OK(Commit(round));
  const model::Namespace name = PlainHeader(RunNo(1)).name;
  EXPECT_EQ(*query().ListStarts(name, "a", at(1)), (std::vector<Instant>{at(3), at(9)}));
  EXPECT_TRUE(
      query().ListStarts({kOtherTenant.value, name.package, name.workflow}, "a", at(0))->empty());

  // What counts no more goes when the next one comes; a deleted run has started all the same.
  model::RunHeader ended = round.runs[1].header;
  SetState(ended, model::RunState::kFailed);
  EXPECT_OK(Commit(UpdateRun(ended)));
  round = NextRound();
  round.runs = {started(6, 61, "a")};
  round.deleted_runs = {{kTenant, RunNo(2)}};
  EXPECT_OK(Commit(round));
  EXPECT_EQ(*query().ListStarts(name, "a", Instant{}),
            (std::vector<Instant>{at(3), at(9), at(61)}));
  harness_->CrashAndReopen();
  EXPECT_EQ(query().ListStarts(name, "a", at(3))->size(), 2U);

  // Of whichever key: one that never comes back leaves nothing.
  EXPECT_EQ(*query().ListStarts(name, "b", Instant{}), (std::vector<Instant>{at(5)}));
  EXPECT_OK(Commit(started(7, 65, "c")));
  EXPECT_TRUE(query().ListStarts(name, "b", Instant{})->empty());
  EXPECT_EQ(*query().ListStarts(name, "a", Instant{}), (std::vector<Instant>{at(9), at(61)}));

  RunWrite wrong = UpdateRun(PlainHeader(RunNo(5)));
  wrong.start = {at(1), at(2)};
  EXPECT_CODE(Commit(wrong), Code::kInvalidArgument);
}

}  // namespace
}  // namespace headworks::store::conformance
