#include <array>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

constexpr std::array kBoth{kShard, kOtherShard};

TEST_P(Conformance, ShardNobodyOwnedHasTermAndRoundZero) {
  EXPECT_EQ(Text(runs().ReadGuard(kShard)), "shard 7 term 0 round 0");
}

TEST_P(Conformance, AcquireRaisesTermsAndKeepsRounds) {
  Own();
  EXPECT_EQ(Text(guard_), "shard 7 term 1 round 0");
  EXPECT_OK(Commit(NextRound()));
  Own();
  EXPECT_EQ(Text(guard_), "shard 7 term 2 round 1");
  EXPECT_EQ(Text(runs().ReadGuard(kShard)), "shard 7 term 2 round 1");
}

TEST_P(Conformance, AcquireAnswersInTheOrderAsked) {
  const std::array reversed{kOtherShard, kShard};
  EXPECT_EQ(Text(runs().Acquire(reversed, "a", kTtl)),
            "[shard 8 term 1 round 0\n shard 7 term 1 round 0\n ]");
}

TEST_P(Conformance, AcquireRefusesAHeldShardAndTakesNone) {
  Own();
  const auto refused = runs().Acquire(kBoth, "engine-2", kTtl);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_NE(refused.error().message.find("engine-1"), std::string::npos) << refused.error().message;
  EXPECT_EQ(Text(runs().ReadGuard(kOtherShard)), "shard 8 term 0 round 0");
}

TEST_P(Conformance, LeaseEndsExactlyAtItsTtl) {
  Own();
  harness_->clock.Advance(kTtl - Duration(1));
  EXPECT_CODE(runs().Acquire(kBoth, "engine-2", kTtl), Code::kConflict);
  harness_->clock.Advance(Duration(1));
  EXPECT_OK(runs().Acquire(kBoth, "engine-2", kTtl));
  EXPECT_CODE(Commit(NextRound()), Code::kLeaseLost);
}

TEST_P(Conformance, CommitAndRenewExtendTheLease) {
  Own();
  harness_->clock.Advance(kTtl - Duration(1));
  EXPECT_OK(Commit(NextRound()));
  harness_->clock.Advance(kTtl - Duration(1));
  EXPECT_OK(runs().Renew(std::span(&guard_, 1), kTtl));
  harness_->clock.Advance(kTtl - Duration(1));
  EXPECT_CODE(runs().Acquire(kBoth, "engine-2", kTtl), Code::kConflict);
}

TEST_P(Conformance, EndedLeaseThatNobodyTookIsStillGood) {
  Own();
  harness_->clock.Advance(2 * kTtl);
  EXPECT_OK(Commit(NextRound()));
  harness_->clock.Advance(2 * kTtl);
  EXPECT_OK(runs().Renew(std::span(&guard_, 1), kTtl));
  EXPECT_CODE(runs().Acquire(kBoth, "engine-2", kTtl), Code::kConflict);
}

TEST_P(Conformance, ReleasedShardIsFreeAtOnceAndFencesItsOldOwner) {
  Own();
  EXPECT_OK(runs().Release(std::span(&guard_, 1)));
  EXPECT_CODE(Commit(NextRound()), Code::kLeaseLost);
  EXPECT_CODE(runs().Renew(std::span(&guard_, 1), kTtl), Code::kLeaseLost);
  EXPECT_OK(runs().Acquire(kBoth, "engine-2", kTtl));
}

TEST_P(Conformance, ReleaseOfAnOldTermLeavesTheNewOwnerAlone) {
  Own();
  const Guard old = guard_;
  Own();
  EXPECT_OK(runs().Release(std::span(&old, 1)));
  EXPECT_OK(Commit(NextRound()));
}

TEST_P(Conformance, RenewIsAllOrNothing) {
  Own();
  harness_->clock.Advance(kTtl - Duration(1));
  const std::array guards{guard_, Guard{kOtherShard, Term(1), RoundNo(0)}};
  EXPECT_CODE(runs().Renew(guards, kTtl), Code::kLeaseLost);
  harness_->clock.Advance(Duration(1));
  EXPECT_OK(runs().Acquire(kBoth, "engine-2", kTtl));
}

TEST_P(Conformance, WrongTermWrongRoundAndRepeatedRoundChangeNothing) {
  Own();
  Round first = NextRound();
  first.runs.push_back(NewRun(PlainHeader(RunNo(1))));
  EXPECT_OK(Commit(first));
  EXPECT_CODE(runs().Commit(first), Code::kLeaseLost);  // the very same bytes again

  Round next = NextRound();
  next.runs.push_back(NewRun(PlainHeader(RunNo(2))));
  Round wrong = next;
  wrong.guards[0].term = Term(2);
  EXPECT_CODE(runs().Commit(wrong), Code::kLeaseLost);
  wrong = next;
  wrong.guards[0].round = RoundNo(3);
  EXPECT_CODE(runs().Commit(wrong), Code::kLeaseLost);
  wrong = next;
  wrong.guards.push_back({kOtherShard, Term(1), RoundNo(1)});
  EXPECT_CODE(runs().Commit(wrong), Code::kLeaseLost);

  EXPECT_EQ(Text(runs().ReadGuard(kShard)), "shard 7 term 1 round 1");
  EXPECT_CODE(runs().LoadRun(kTenant, RunNo(2)), Code::kNotFound);
  EXPECT_OK(Commit(next));
}

TEST_P(Conformance, GuardsSurviveACrashAndTermsRise) {
  Own();
  EXPECT_OK(Commit(NextRound()));
  harness_->CrashAndReopen();
  harness_->clock.Advance(kTtl);
  const Guard old = guard_;
  Own();
  EXPECT_EQ(Text(guard_), "shard 7 term 2 round 1");
  Round stale = NextRound();
  stale.guards[0].term = old.term;
  EXPECT_CODE(runs().Commit(stale), Code::kLeaseLost);
}

TEST_P(Conformance, BadLeaseArgumentsAreRefused) {
  const std::array out_of_range{Shard(kShardCount)};
  const std::array negative{Shard(-1)};
  const std::array twice{kShard, kShard};
  EXPECT_CODE(runs().Acquire(out_of_range, "a", kTtl), Code::kInvalidArgument);
  EXPECT_CODE(runs().Acquire(negative, "a", kTtl), Code::kInvalidArgument);
  EXPECT_CODE(runs().Acquire(twice, "a", kTtl), Code::kInvalidArgument);
  EXPECT_CODE(runs().Acquire({}, "a", kTtl), Code::kInvalidArgument);
  EXPECT_CODE(runs().Acquire(kBoth, "a", Duration(0)), Code::kInvalidArgument);
  EXPECT_CODE(runs().Acquire(kBoth, "", kTtl), Code::kInvalidArgument);
  EXPECT_CODE(runs().ReadGuard(Shard(kShardCount)), Code::kInvalidArgument);
  EXPECT_OK(runs().Acquire(std::array{Shard(0), Shard(kShardCount - 1)}, "a", kTtl));
}

TEST_P(Conformance, RunNumbersRiseOverTheStoresWholeLife) {
  EXPECT_EQ(Text(runs().ReserveRunNos(10)), "1");
  EXPECT_EQ(Text(runs().ReserveRunNos(1)), "11");
  harness_->CrashAndReopen();
  EXPECT_EQ(Text(runs().ReserveRunNos(5)), "12");
  EXPECT_CODE(runs().ReserveRunNos(0), Code::kInvalidArgument);
  EXPECT_CODE(runs().ReserveRunNos(-1), Code::kInvalidArgument);
}

}  // namespace
}  // namespace headworks::store::conformance
