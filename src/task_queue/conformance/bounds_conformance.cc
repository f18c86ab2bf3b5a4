#include <fmt/format.h>

#include "headworks/task_queue/checks.h"
#include "headworks/task_queue_conformance/harness.h"

namespace headworks::task_queue::conformance {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Ids = std::vector<std::string>;

/// A JSON string of `bytes` bytes, its quotes included.
std::string JsonOf(std::size_t bytes) { return '"' + std::string(bytes - 2, 'x') + '"'; }

TEST_P(QueueConformance, PayloadIsJsonOfAtMost8MiB) {
  const std::string largest = JsonOf(kMaxPayloadBytes);
  QUEUE_EXPECT_OK(Push({.id = "largest", .payload = largest}));
  QUEUE_EXPECT_CODE(Push({.id = "larger", .payload = JsonOf(kMaxPayloadBytes + 1)}),
                    kInvalidArgument);
  for (const char* const bad : {"", "{", "{} {}", "nul", R"({"a":1,"a":2})", "\"\xff\""}) {
    QUEUE_EXPECT_CODE(Push({.id = "bad", .payload = bad}), kInvalidArgument);
  }
  EXPECT_EQ(Poll(), Ids{"largest"});
  EXPECT_EQ(claimed_.at(0).payload, largest);
}

TEST_P(QueueConformance, BytesOfOneCallAreBounded) {
  const std::string large = JsonOf(kMaxPayloadBytes);
  std::vector<NewItem> items;
  items.reserve(8);
  for (int i = 0; i < 8; ++i) items.push_back({.id = fmt::format("{}", i), .payload = large});
  QUEUE_EXPECT_OK(tasks().Enqueue(kTenant, "q", items));  // 64 MiB
  QUEUE_EXPECT_OK(Push("one-more"));
  EXPECT_EQ(Poll().size(), 8U);
  EXPECT_EQ(Poll(), Ids{"one-more"});
  items.push_back({.id = "little", .payload = "1"});
  QUEUE_EXPECT_CODE(tasks().Enqueue(kTenant, "q", items), kInvalidArgument);
}

TEST_P(QueueConformance, APollTakesNoMoreBytesThanItsCallerHasRoomFor) {
  for (const char* const id : {"a", "b", "c", "d"})
    QUEUE_EXPECT_OK(Push({.id = id, .payload = JsonOf(10)}));
  const auto take = [&](std::size_t max_bytes) -> Result<std::size_t> {
    const auto polled =
        tasks().Poll({.tenant = kTenant, .queue = "q", .max_items = 10, .max_bytes = max_bytes});
    if (!polled) return polled.error();
    return polled->items.size();
  };
  QUEUE_EXPECT_CODE(take(0), kInvalidArgument);
  QUEUE_EXPECT_CODE(take(kMaxBatchBytes + 1), kInvalidArgument);
  EXPECT_EQ(take(1), 1U) << "the first one, whatever it has";
  EXPECT_EQ(take(19), 1U);
  EXPECT_EQ(take(20), 2U);
}

TEST_P(QueueConformance, ArgumentsAreCheckedAtTheirBounds) {
  const auto push = [&](NewItem item) {
    if (item.payload.empty()) item.payload = "1";
    return CodeOf(Push(std::move(item)));
  };
  EXPECT_EQ(push({.id = std::string(256, 'i')}), "ok");
  EXPECT_EQ(push({.id = "日報 1"}), "ok");
  for (const std::string& id : {std::string(), std::string(257, 'i'), std::string("a\nb"),
                                std::string("\xff"), std::string("a\0b", 3)}) {
    EXPECT_EQ(push({.id = id}), "invalid_argument");
  }
  EXPECT_EQ(push({.id = "p1", .priority = 1'000}), "ok");
  EXPECT_EQ(push({.id = "p2", .priority = -1'000}), "ok");
  EXPECT_EQ(push({.id = "p3", .priority = 1'001}), "invalid_argument");
  EXPECT_EQ(push({.id = "p4", .priority = -1'001}), "invalid_argument");
  EXPECT_EQ(push({.id = "d1", .delay = kLongestDelay}), "ok");
  EXPECT_EQ(push({.id = "d2", .delay = kLongestDelay + Duration(1)}), "invalid_argument");
  EXPECT_EQ(push({.id = "d3", .delay = Duration(-1)}), "invalid_argument");
  EXPECT_EQ(push({.id = "m1", .max_attempts = 1'000}), "ok");
  EXPECT_EQ(push({.id = "m2", .max_attempts = 1'001}), "invalid_argument");
  EXPECT_EQ(push({.id = "m3", .max_attempts = -1}), "invalid_argument");

  const auto name = [&](const std::string& queue, const TenantId& tenant = kTenant) {
    return CodeOf(Push({.id = "x", .payload = "1"}, queue, tenant));
  };
  EXPECT_EQ(name(std::string(64, 'q')), "ok");
  EXPECT_EQ(name("Aa-9_"), "ok");
  EXPECT_EQ(name(std::string(65, 'q')), "invalid_argument");
  EXPECT_EQ(name(""), "invalid_argument");
  EXPECT_EQ(name("a b"), "invalid_argument");
  EXPECT_EQ(name("q", TenantId()), "invalid_argument");

  const std::vector<NewItem> thousand_and_one(1'001, NewItem{.id = "x", .payload = "1"});
  QUEUE_EXPECT_CODE(tasks().Enqueue(kTenant, "q", {}), kInvalidArgument);
  QUEUE_EXPECT_CODE(tasks().Enqueue(kTenant, "q", thousand_and_one), kInvalidArgument);
  QUEUE_EXPECT_OK(tasks().Enqueue(kTenant, "q", std::span(thousand_and_one).first(1'000)));
}

TEST_P(QueueConformance, PollAndExtendAreCheckedAtTheirBounds) {
  const auto poll = [&](PollRequest request) {
    request.tenant = kTenant;
    return CodeOf(tasks().Poll(request));
  };
  EXPECT_EQ(poll({.max_items = 0}), "invalid_argument");
  EXPECT_EQ(poll({.max_items = 1'001}), "invalid_argument");
  EXPECT_EQ(poll({.max_items = 1'000}), "ok");
  EXPECT_EQ(poll({.visibility = hours(24)}), "ok");
  EXPECT_EQ(poll({.visibility = hours(24) + Duration(1)}), "invalid_argument");
  EXPECT_EQ(poll({.visibility = Duration(999)}), "invalid_argument");
  EXPECT_EQ(poll({.holder = std::string(256, 'h')}), "ok");
  EXPECT_EQ(poll({.holder = std::string(257, 'h')}), "invalid_argument");
  EXPECT_EQ(poll({.holder = "a\nb"}), "invalid_argument");
  const std::vector<Claim> claims(1'001);
  QUEUE_EXPECT_CODE(tasks().Extend(kTenant, "q", claims, {}), kInvalidArgument);
  QUEUE_EXPECT_CODE(tasks().Extend(kTenant, "q", {}, {}), kInvalidArgument);
  QUEUE_EXPECT_CODE(
      tasks().Extend(kTenant, "q", std::span(claims).first(1), hours(24) + Duration(1)),
      kInvalidArgument);
  const std::vector<Settlement> settlements(1'001);
  QUEUE_EXPECT_CODE(tasks().Settle(kTenant, "q", settlements), kInvalidArgument);
  const Settlement late{.delay = kLongestDelay + Duration(1)};
  QUEUE_EXPECT_CODE(tasks().Settle(kTenant, "q", std::span(&late, 1)), kInvalidArgument);
}

TEST_P(QueueConformance, DepthIsBoundedAndABatchIsAllOrNothing) {
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.max_depth = 2}));
  QUEUE_EXPECT_OK(Push("a"));
  const std::vector<NewItem> two{{.id = "b", .payload = "1"}, {.id = "c", .payload = "1"}};
  QUEUE_EXPECT_CODE(tasks().Enqueue(kTenant, "q", two), kAtCapacity);
  EXPECT_EQ(Queue().pending, 1);
  EXPECT_EQ(Queue().enqueued, 1);
  QUEUE_EXPECT_OK(Push("b"));
  QUEUE_EXPECT_CODE(Push("c"), kAtCapacity);
  EXPECT_EQ(*Push("a"), Enqueued::kDuplicate);  // that needs no room
  EXPECT_EQ(Poll(1), Ids{"a"});
  QUEUE_EXPECT_CODE(Push("c"), kAtCapacity);  // what is being processed takes room
  EXPECT_EQ(Ack("a"), "completed");
  QUEUE_EXPECT_OK(Push("c"));
}

TEST_P(QueueConformance, ReasonIsRedactedAndCutAt4KiB) {
  const auto stored = [&](const std::string& reason) {
    if (Poll() != Ids{"a"}) return std::string("not claimed");
    EXPECT_EQ(Nack("a", reason), "pending");
    return Item("a").reason;
  };
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1", .max_attempts = 1'000}));
  EXPECT_EQ(stored("login with password=hunter2 failed"), "login with password=*** failed");
  const std::string longest(kMaxReasonBytes, 'r');
  EXPECT_EQ(stored(longest), longest);
  const std::string cut = stored(longest + "r");
  EXPECT_EQ(cut.size(), kMaxReasonBytes);
  EXPECT_TRUE(cut.ends_with("r ... (cut)"));
  // Not in the middle of a character.
  std::string wide;
  while (wide.size() <= kMaxReasonBytes) wide += "é";
  EXPECT_LE(stored(std::string(std::size_t{1} << 24, '\xFF')).size(), kMaxReasonBytes);
  EXPECT_LE(stored(wide).size(), kMaxReasonBytes);
  EXPECT_TRUE(Item("a").reason.ends_with("é ... (cut)"));
  EXPECT_EQ(stored("\xff!"), "\uFFFD!");
  // What is cut off was redacted before: no half of a secret is left.
  EXPECT_TRUE(stored(std::string(kMaxReasonBytes - 20, 'x') + " token=abcdefghijklmnopq")
                  .ends_with("token=***"));
  // However much of it goes away: what is kept may come from far behind.
  EXPECT_EQ(stored("password=" + std::string(65'497, 'A') + " postgres://joe:hunter2@db/x"),
            "password=*** postgres://joe:***@db/x");
}

TEST_P(QueueConformance, IdsAreRememberedForAWindow) {
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.dedup_window = minutes(10)}));
  QUEUE_EXPECT_OK(Push("a"));
  EXPECT_EQ(Poll(), Ids{"a"});
  clock().Advance(minutes(1));
  EXPECT_EQ(Ack("a"), "completed");
  clock().Advance(minutes(10) - Duration(1));
  EXPECT_EQ(*Push("a"), Enqueued::kDuplicate);
  clock().Advance(Duration(1));
  EXPECT_EQ(*Push("a"), Enqueued::kInserted);
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(Ack("a"), "completed");
  // None, by setting: it is new as soon as it is over.
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.dedup_window = Duration()}));
  EXPECT_EQ(*Push("a"), Enqueued::kInserted);
  EXPECT_EQ(*Push("a"), Enqueued::kDuplicate);
}

TEST_P(QueueConformance, PushingForgetsWhatIsOver) {
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.dedup_window = minutes(10)}));
  for (int i = 0; i < 5; ++i) QUEUE_EXPECT_OK(Push(fmt::format("old-{}", i)));
  EXPECT_EQ(Poll().size(), 5U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ack(fmt::format("old-{}", i)), "completed");
  clock().Advance(minutes(10));
  for (int i = 0; i < 3; ++i) QUEUE_EXPECT_OK(Push(fmt::format("new-{}", i)));
  // Two for each new one, so that rows do not pile up where nobody sweeps.
  EXPECT_EQ(admin().ListItems(kTenant, "q", {})->size(), 3U);
}

TEST_P(QueueConformance, RateIsATokenBucket) {
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.rate = RateLimit{3, seconds(10)}}));
  for (int i = 0; i < 9; ++i) QUEUE_EXPECT_OK(Push(fmt::format("{}", i)));
  EXPECT_EQ(Poll(2).size(), 2U);
  EXPECT_EQ(Poll().size(), 1U);
  const auto polled = tasks().Poll({.tenant = kTenant, .queue = "q"});
  EXPECT_TRUE(polled->items.empty());
  ASSERT_TRUE(polled->next);
  EXPECT_EQ(*polled->next, Duration(3'333'334));
  clock().Advance(*polled->next - Duration(2));
  EXPECT_EQ(Poll().size(), 0U);
  clock().Advance(Duration(2));
  EXPECT_EQ(Poll().size(), 1U);
  clock().Advance(minutes(1));
  EXPECT_EQ(Poll().size(), 3U);
  QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.rate = RateLimit{}}));
  EXPECT_EQ(Poll().size(), 2U);
}

TEST_P(QueueConformance, HandBackGivesTheTokenOfItsRateBack) {
  const auto set = [&](RateLimit rate) {
    QUEUE_EXPECT_OK(admin().Configure(kTenant, "q", {.visibility = hours(2), .rate = rate}));
  };
  set({2, hours(1)});
  for (const char* id : {"a", "b", "c", "d"}) QUEUE_EXPECT_OK(Push(id));
  EXPECT_EQ(Poll(), (Ids{"a", "b"}));
  EXPECT_EQ(HandBack("a"), "pending");
  EXPECT_EQ(HandBack("a"), "conflict");  // once
  EXPECT_EQ(Ack("b"), "completed");      // it was begun
  EXPECT_EQ(Poll(), Ids{"a"});
  // The bucket does not overflow, also not by those that were claimed where there was no rate.
  clock().Advance(hours(1));
  EXPECT_EQ(HandBack("a"), "pending");
  EXPECT_EQ(Poll(), (Ids{"a", "c"}));
  set({});
  EXPECT_EQ(Poll(), Ids{"d"});
  set({1, hours(1)});
  for (const char* id : {"a", "c", "d"}) EXPECT_EQ(HandBack(id), "pending");
  EXPECT_EQ(Poll(), Ids{"a"});
  EXPECT_EQ(Poll(), Ids{});
}

TEST_P(QueueConformance, WhatIsRefusedSaysWhatToChange) {
  const auto refused = admin().Configure(kTenant, "q", {.backoff = minutes(10)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "backoff is 10m00s, above max_backoff, which is 5m00s; change both");
  const Settlement ack{.claim = {ItemNo(1), ClaimNo(1)}};
  const auto settled = tasks().Settle(kTenant, "none", {&ack, 1});
  const auto extended = tasks().Extend(kTenant, "none", {&ack.claim, 1}, seconds(1));
  ASSERT_TRUE(settled && extended);
  EXPECT_EQ(settled->front().error(), NoSuchQueue("none"));
  EXPECT_EQ(extended->front().error(), NoSuchQueue("none"));
}

TEST_P(QueueConformance, SettingsAreCheckedAndKept) {
  const auto set = [&](const SettingsChange& change) {
    return CodeOf(admin().Configure(kTenant, "q", change));
  };
  EXPECT_EQ(set({.visibility = Duration(1'000)}), "ok");
  EXPECT_EQ(set({.visibility = Duration(999)}), "invalid_argument");
  EXPECT_EQ(set({.visibility = hours(24)}), "ok");
  EXPECT_EQ(set({.visibility = hours(24) + Duration(1)}), "invalid_argument");
  EXPECT_EQ(set({.max_attempts = 0}), "invalid_argument");
  EXPECT_EQ(set({.max_attempts = 1'001}), "invalid_argument");
  EXPECT_EQ(set({.max_attempts = 1'000}), "ok");
  EXPECT_EQ(set({.backoff = Duration(-1)}), "invalid_argument");
  EXPECT_EQ(set({.backoff = minutes(6)}), "invalid_argument");  // above the longest
  EXPECT_EQ(set({.backoff = minutes(6), .max_backoff = minutes(6)}), "ok");
  EXPECT_EQ(set({.rate = RateLimit{1'000'001, seconds(1)}}), "invalid_argument");
  EXPECT_EQ(set({.rate = RateLimit{1, seconds(1) - Duration(1)}}), "invalid_argument");
  EXPECT_EQ(set({.rate = RateLimit{1, hours(24) + Duration(1)}}), "invalid_argument");
  EXPECT_EQ(set({.rate = RateLimit{1'000'000, hours(24)}}), "ok");
  EXPECT_EQ(set({.max_depth = 0}), "invalid_argument");
  EXPECT_EQ(set({.max_depth = 100'000'001}), "invalid_argument");
  EXPECT_EQ(set({.max_depth = 100'000'000}), "ok");
  EXPECT_EQ(set({.dedup_window = kLongestDelay + Duration(1)}), "invalid_argument");
  EXPECT_EQ(set({.dead_retention = Duration(-1)}), "invalid_argument");
  harness_->CrashAndReopen();
  const QueueSettings settings = Queue().settings;
  EXPECT_EQ(settings.visibility, hours(24));
  EXPECT_EQ(settings.max_attempts, 1'000);
  EXPECT_EQ(settings.backoff, minutes(6));
  EXPECT_EQ(settings.rate, (RateLimit{1'000'000, hours(24)}));
  EXPECT_EQ(settings.dedup_window, hours(24));  // never set
}

TEST_P(QueueConformance, TenantHasAtMost1000Queues) {
  for (std::int64_t i = 0; i < kMaxQueues; ++i) {
    ASSERT_TRUE(admin().Configure(kTenant, fmt::format("q{}", i), {}));
  }
  QUEUE_EXPECT_CODE(Push("a"), kAtCapacity);
  QUEUE_EXPECT_CODE(admin().Configure(kTenant, "q", {}), kAtCapacity);
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1"}, "q0"));
  QUEUE_EXPECT_OK(Push({.id = "a", .payload = "1"}, "q", kOtherTenant));
}

}  // namespace
}  // namespace headworks::task_queue::conformance
