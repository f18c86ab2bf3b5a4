#include <array>
#include <string>

#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

constexpr std::array kShards{kShard};

TEST_P(Conformance, AppendedRowsComeBackInOrderWithEveryField) {
  const std::array rows{Message("start", "k1"), Message("cancel", "k2", RunNo(5))};
  EXPECT_OK(inbox().Append(rows));
  harness_->CrashAndReopen();
  EXPECT_EQ(
      Text(runs().ReadInbox(kShards, 0, 10)),
      "[1: acme shard 7 start key 'k1' run 0 payload '{\"who\":\"me\"}' at 1700000005000000\n "
      "2: acme shard 7 cancel key 'k2' run 5 payload '{\"who\":\"me\"}' at 1700000005000000\n "
      "]");
  EXPECT_EQ(runs().ReadInbox(kShards, 1, 10)->size(), 1U);
  EXPECT_EQ(runs().ReadInbox(kShards, 2, 10)->size(), 0U);
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 1)->front().id, 1);
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 0)->size(), 0U);
  EXPECT_EQ(runs().ReadInbox(std::array{kOtherShard}, 0, 10)->size(), 0U);
  EXPECT_EQ(runs().ReadInbox(std::array{kOtherShard, kShard}, 0, 10)->size(), 2U);
}

TEST_P(Conformance, KnownKeyIsASuccessThatChangesNothing) {
  InboxRow row = Message("start", "k");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  row.payload = "other";
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  const std::array twice{Message("start", "m"), Message("cancel", "m")};
  EXPECT_OK(inbox().Append(twice));
  const auto rows = runs().ReadInbox(kShards, 0, 10);
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].payload, R"({"who":"me"})");
  EXPECT_EQ((*rows)[1].kind, "start");
}

TEST_P(Conformance, KeysOfTwoTenantsAreTwo) {
  const std::array rows{Message("start", "k"), Message("start", "k", {}, kOtherTenant)};
  EXPECT_OK(inbox().Append(rows));
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->size(), 2U);
  Own();
  Round round = NextRound();
  round.consumed = {1};
  EXPECT_OK(Commit(round));
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "k")), "acme key 'k' ok run 0 id ''");
  EXPECT_EQ(Text(inbox().GetAnswer(kOtherTenant, "k")), "none");
}

TEST_P(Conformance, ConsumedRowIsGoneAnsweredAndItsKeyRemembered) {
  Own();
  const std::array rows{Message("start", "s"), Message("cancel", "c", RunNo(4)),
                        Message("pause", "p", RunNo(4))};
  EXPECT_OK(inbox().Append(rows));
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "s")), "none");
  Round round = NextRound();
  round.consumed = {1, 2};
  round.answers = {
      {kTenant, "s", Error{Code::kNotFound, "no workflow x"}, RunNo(9), RunId("id-9")}};
  EXPECT_OK(Commit(round));
  harness_->CrashAndReopen();
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "s")),
            "acme key 's' not_found: no workflow x run 9 id 'id-9'");
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "c")), "acme key 'c' ok run 4 id ''");
  EXPECT_OK(inbox().Append(rows));
  const auto left = runs().ReadInbox(kShards, 0, 10);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ((*left)[0].kind, "pause");
}

TEST_P(Conformance, IdsAreNeverUsedTwice) {
  Own();
  InboxRow row = Message("start", "a");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  Round round = NextRound();
  round.consumed = {1};
  EXPECT_OK(Commit(round));
  harness_->CrashAndReopen();
  row = Message("start", "b");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->front().id, 2);
}

TEST_P(Conformance, RowIsConsumedOnce) {
  Own();
  const std::array rows{Message("start", "a"), Message("start", "b")};
  EXPECT_OK(inbox().Append(rows));
  Round round = NextRound();
  round.consumed = {1, 1};
  EXPECT_CODE(Commit(round), Code::kConflict);
  round.consumed = {1, 77};
  EXPECT_CODE(Commit(round), Code::kConflict);
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->size(), 2U);
  round.consumed = {1};
  EXPECT_OK(Commit(round));
  round = NextRound();
  round.consumed = {1};
  EXPECT_CODE(Commit(round), Code::kConflict);
}

TEST_P(Conformance, AnswerConsumesARowThatWaitsAndTheLatestStands) {
  Own();
  InboxRow row = Message("start", "a");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  Round round = NextRound();
  round.answers = {{kTenant, "a", {}, RunNo(1), RunId("x")},
                   {kTenant, "never appended", {}, RunNo(2), RunId("y")}};
  EXPECT_OK(Commit(round));
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->size(), 0U);
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "never appended")),
            "acme key 'never appended' ok run 2 id 'y'");
  round = NextRound();
  round.answers = {{kTenant, "a", Error{Code::kConflict, "no"}, RunNo(3), RunId()}};
  EXPECT_OK(Commit(round));
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "a")), "acme key 'a' conflict: no run 3 id ''");
}

TEST_P(Conformance, AnswersAreForgottenAfterADayAndNotBefore) {
  Own();
  InboxRow row = Message("start", "a");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  Round round = NextRound();
  round.consumed = {1};
  EXPECT_OK(Commit(round));
  round = NextRound();
  round.now = kT0 + Inbox::kAnswerTtl;
  EXPECT_OK(Commit(round));
  EXPECT_NE(Text(inbox().GetAnswer(kTenant, "a")), "none");
  // A store forgets now and then: give it some rounds.
  for (int i = 1; i <= 5; ++i) {
    round = NextRound();
    round.now = kT0 + Inbox::kAnswerTtl + i * std::chrono::minutes(2);
    EXPECT_OK(Commit(round));
  }
  EXPECT_EQ(Text(inbox().GetAnswer(kTenant, "a")), "none");
  EXPECT_OK(inbox().Append(std::span(&row, 1)));
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->size(), 1U);
}

TEST_P(Conformance, StartsAreRefusedAtTheBoundAndNothingElseIs) {
  constexpr std::int64_t kBatch = 10'000;
  std::vector<InboxRow> rows(kBatch, Message("start", ""));
  std::int64_t key = 0;
  for (std::int64_t n = 0; n < Inbox::kMaxStarts; n += kBatch) {
    for (InboxRow& row : rows) row.dedupe_key = std::to_string(++key);
    ASSERT_TRUE(inbox().Append(rows));
  }
  const std::array mixed{Message("cancel", "c1"), Message("start", "one too many")};
  EXPECT_CODE(inbox().Append(mixed), Code::kAtCapacity);
  EXPECT_EQ(runs().ReadInbox(kShards, key, 10)->size(), 0U);  // all or none
  EXPECT_OK(inbox().Append(std::array{Message("cancel", "c1")}));
  EXPECT_OK(inbox().Append(std::array{Message("start", "1")}));  // known

  Own();
  Round round = NextRound();
  round.consumed = {1, 2};
  EXPECT_OK(Commit(round));
  harness_->CrashAndReopen();
  const std::array three{Message("start", "x"), Message("start", "y"), Message("start", "z")};
  EXPECT_CODE(inbox().Append(three), Code::kAtCapacity);
  EXPECT_OK(inbox().Append(std::span(three).first(2)));
  EXPECT_CODE(inbox().Append(std::span(three).last(1)), Code::kAtCapacity);
}

TEST_P(Conformance, BadRowsAreRefused) {
  const auto append = [&](auto change) {
    std::array rows{Message("start", "fine"), Message("start", "k")};
    change(rows[1]);
    return inbox().Append(rows);
  };
  EXPECT_CODE(append([](InboxRow& r) { r.tenant = TenantId(); }), Code::kInvalidArgument);
  EXPECT_CODE(append([](InboxRow& r) { r.dedupe_key.clear(); }), Code::kInvalidArgument);
  EXPECT_CODE(append([](InboxRow& r) { r.kind.clear(); }), Code::kInvalidArgument);
  EXPECT_CODE(append([](InboxRow& r) { r.shard = Shard(kShardCount); }), Code::kInvalidArgument);
  EXPECT_CODE(inbox().GetAnswer(TenantId(), "k"), Code::kInvalidArgument);
  EXPECT_EQ(runs().ReadInbox(kShards, 0, 10)->size(), 0U);
  EXPECT_OK(inbox().Append({}));
}

TEST_P(Conformance, DataVersionChangesWithEveryCommitAndOnlyThen) {
  Own();
  const auto before = inbox().DataVersion();
  ASSERT_TRUE(before);
  EXPECT_EQ(*inbox().DataVersion(), *before);
  (void)runs().ReadInbox(kShards, 0, 10);
  EXPECT_EQ(*inbox().DataVersion(), *before);
  EXPECT_OK(inbox().Append(std::array{Message("start", "a")}));
  const auto appended = inbox().DataVersion();
  EXPECT_NE(*appended, *before);
  EXPECT_OK(Commit(NextRound()));
  EXPECT_NE(*inbox().DataVersion(), *appended);
}

}  // namespace
}  // namespace headworks::store::conformance
