#include "headworks/alert/alerter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <deque>

#include "headworks/alert/alert.h"
#include "headworks/store_memory/memory_store.h"

namespace headworks::alert {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using task_queue::ItemState;
using task_queue::Settlement;

const TenantId kTenant{"acme"};

class ManualClock final : public Clock {
 public:
  Instant Now() override { return Instant(Duration(1'700'000'000'000'000)) + elapsed_; }
  Duration Monotonic() override { return 1h + elapsed_; }
  void Advance(Duration by) { elapsed_ += by; }

 private:
  Duration elapsed_{};
};

/// A command that ends when, and as, the test says.
class HandCommands final : public Commands {
 public:
  Status Start(const Call& call, std::function<void(CommandEnd)> done) override {
    calls.push_back(call);
    if (broken) return Error{Code::kUnavailable, "no process"};
    done_ = std::move(done);
    return {};
  }
  void Stop() override {
    ++stops;
    if (done_) End({CommandEnd::How::kStopped});
  }
  void End(CommandEnd end = {}) { std::exchange(done_, nullptr)(std::move(end)); }
  bool running() const { return done_ != nullptr; }
  json::object Told() const { return json::parse(calls.back().input).as_object(); }

  std::deque<Call> calls;
  bool broken = false;
  int stops = 0;

 private:
  std::function<void(CommandEnd)> done_;
};

class Lines final : public Logger {
 public:
  void Write(LogLevel level, std::string_view message, Fields) override {
    if (level >= LogLevel::kWarning) lines.emplace_back(message);
  }
  std::vector<std::string> lines;
};

class AlerterTest : public testing::Test {
 protected:
  task_queue::Queues& queues() { return db_->queues(); }

  void Push(const std::string& queue, const std::string& id, std::string payload = "{}",
            int max_attempts = 1, const TenantId& tenant = kTenant) {
    const task_queue::NewItem item{
        .id = id, .payload = std::move(payload), .max_attempts = max_attempts};
    const auto pushed = queues().tasks().Enqueue(tenant, queue, {&item, 1});
    ASSERT_TRUE(pushed) << pushed.error().message;
  }
  /// `count` items that use up their attempt.
  void Kill(const std::string& queue, int count, const TenantId& tenant = kTenant) {
    for (int i = 0; i < count; ++i) Push(queue, fmt::format("i{}", ++pushed_), "{}", 1, tenant);
    while (true) {
      const auto polled =
          queues().tasks().Poll({.tenant = tenant, .queue = queue, .max_items = 1'000});
      std::vector<Settlement> said;
      for (const auto& item : polled->items)
        said.push_back({item.claim, Settlement::Kind::kNack, "bad", Duration()});
      if (said.empty()) return;
      ASSERT_TRUE(queues().tasks().Settle(tenant, queue, said));
    }
  }
  std::int64_t Count(const std::string& queue, ItemState state, const TenantId& tenant = kTenant) {
    std::int64_t count = 0;
    for (task_queue::ItemFilter filter{.states = {state}, .limit = 1'000};;) {
      const auto page = queues().admin().ListItems(tenant, queue, filter);
      if (!page) return 0;
      count += static_cast<std::int64_t>(page->size());
      if (page->size() < 1'000) return count;
      filter.after = page->back().no;
    }
  }
  void Run(Alerter& alerter, int ticks = 5) {
    for (int i = 0; i < ticks; ++i) static_cast<void>(alerter.Tick());
  }

  ManualClock clock_;
  Lines log_;
  HandCommands commands_;
  std::shared_ptr<store_memory::Storage> storage_ = store_memory::NewStorage();
  std::unique_ptr<store_memory::Database> db_ = store_memory::Open(storage_, clock_);
  int pushed_ = 0;
};

TEST_F(AlerterTest, DeadItemsOfAllTenantsBecomeAlertsOfTheirsAndOnlyOnce) {
  const TenantId other("zeta");
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  Kill("mail", 2);
  Kill("mail", 1, other);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 2);
  EXPECT_EQ(Count("ops", ItemState::kPending, other), 1);
  Kill("mail", 1);
  Kill("sms", 1);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 4);
  EXPECT_EQ(alerter.figures().dead_letters, 5U);
  // The next engine knows what was told, also when it is all done.
  while (true) {
    const auto polled = queues().tasks().Poll({.tenant = kTenant, .queue = "ops", .max_items = 10});
    if (polled->items.empty()) break;
    for (const auto& item : polled->items) {
      const Settlement ack{item.claim};
      ASSERT_TRUE(queues().tasks().Settle(kTenant, "ops", {&ack, 1}));
    }
  }
  clock_.Advance(29 * 24h);
  Alerter next({"ops"}, queues(), nullptr, clock_, log_);
  Run(next);
  EXPECT_EQ(Count("ops", ItemState::kPending), 0);
  EXPECT_EQ(next.figures().dead_letters, 0U);
  EXPECT_EQ(queues().admin().GetQueue(kTenant, "ops")->duplicates, 0);
  EXPECT_TRUE(log_.lines.empty()) << log_.lines[0];
}

TEST_F(AlerterTest, ItemThatDiesAgainIsToldAgain) {
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  Kill("mail", 1);
  Run(alerter);
  ASSERT_EQ(queues().admin().Redrive(kTenant, "mail", {})->count, 1);
  Kill("mail", 0);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 2);
}

TEST_F(AlerterTest, ItemsThatDieAtOneTimeAreAllToldWhateverTheirNumber) {
  // The lower number dies after a look, at the same microsecond.
  Push("mail", "first");
  Push("mail", "second");
  const auto polled = queues().tasks().Poll({.tenant = kTenant, .queue = "mail", .max_items = 2});
  const auto kill = [&](std::size_t i) {
    const Settlement nack{polled->items[i].claim, Settlement::Kind::kNack, "bad", Duration()};
    ASSERT_TRUE(queues().tasks().Settle(kTenant, "mail", {&nack, 1}));
  };
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  kill(1);
  Run(alerter);
  kill(0);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 2);
  EXPECT_EQ(queues().admin().GetQueue(kTenant, "ops")->duplicates, 0);
}

TEST_F(AlerterTest, ALookGoesOverABoundedNumberAndTheNextGoesOn) {
  Kill("mail", 10'001);
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  EXPECT_EQ(alerter.Tick(), 0s);
  EXPECT_EQ(Count("ops", ItemState::kPending), 10'000);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 10'001);
}

TEST_F(AlerterTest, FullQueueOfAlertsWaitsForRoomAndSaysSo) {
  ASSERT_TRUE(queues().admin().Configure(kTenant, "ops", {.max_depth = 2}));
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  Kill("mail", 3);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 0);
  EXPECT_NE(alerter.trouble().find("ops"), std::string::npos) << alerter.trouble();
  EXPECT_EQ(log_.lines.size(), 1U);  // once
  ASSERT_TRUE(queues().admin().Configure(kTenant, "ops", {.max_depth = 3}));
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 3);
  EXPECT_EQ(alerter.trouble(), "");
}

TEST_F(AlerterTest, FullQueueOfAlertsHoldsUpNoOtherWay) {
  ASSERT_TRUE(queues().admin().Configure(kTenant, "ops", {.max_depth = 1}));
  Alerter alerter({kCommandQueue, "ops"}, queues(), nullptr, clock_, log_);
  Kill("mail", 2'500);
  Run(alerter);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kPending), 2'500);
  EXPECT_EQ(alerter.figures().dead_letters, 2'500U);
  EXPECT_NE(alerter.trouble(), "");
  Kill("mail", 1);
  Run(alerter);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kPending), 2'501);
  ASSERT_TRUE(queues().admin().Configure(kTenant, "ops", {.max_depth = 10'000}));
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 2'501);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kPending), 2'501);
  EXPECT_EQ(alerter.figures().dead_letters, 2'501U);
  EXPECT_EQ(alerter.trouble(), "");
}

TEST_F(AlerterTest, FullQueueOfAlertsOfOneTenantHidesNoOtherFromTheFigures) {
  const TenantId other("zeta");
  ASSERT_TRUE(queues().admin().Configure(kTenant, "ops", {.max_depth = 1}));
  Kill("mail", 2);
  Kill("mail", 3, other);
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  Run(alerter);
  EXPECT_NE(alerter.trouble(), "");
  EXPECT_EQ(Count("ops", ItemState::kPending, other), 3);
  EXPECT_EQ(alerter.figures().dead_letters, 3U);
}

TEST_F(AlerterTest, QueueOfAlertsThatWasDeletedIsMadeAgainAndRemembersAsLong) {
  Alerter alerter({"ops"}, queues(), nullptr, clock_, log_);
  Kill("mail", 1);
  Run(alerter);
  const auto before = queues().admin().GetQueue(kTenant, "ops");
  ASSERT_EQ(queues().admin().Purge(kTenant, "ops", {})->count, 1);
  ASSERT_TRUE(queues().admin().Delete(kTenant, "ops"));
  Kill("sms", 1);
  Run(alerter);
  EXPECT_EQ(alerter.trouble(), "");
  EXPECT_EQ(Count("ops", ItemState::kPending), 1);
  const auto after = queues().admin().GetQueue(kTenant, "ops");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->settings.dedup_window, before->settings.dedup_window);
}

TEST_F(AlerterTest, AlertsThatDieAreNotToldOfThemselves) {
  Alerter alerter({kCommandQueue, "ops"}, queues(), nullptr, clock_, log_);
  Kill("ops", 1);
  Kill(kCommandQueue, 1);
  Run(alerter);
  EXPECT_EQ(Count("ops", ItemState::kPending), 0);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kPending), 0);
}

TEST_F(AlerterTest, CommandIsToldOfOneAlertAndTheNextWaitsForItsEnd) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  Kill("mail", 2);
  Run(alerter);
  ASSERT_EQ(commands_.calls.size(), 1U);
  EXPECT_EQ(commands_.calls[0].tenant, kTenant);
  EXPECT_EQ(commands_.Told()["alert"], "dead_letter");
  EXPECT_EQ(commands_.calls[0].env.at("ALERT_KIND"), "dead_letter");
  EXPECT_EQ(commands_.calls[0].env.at("ALERT_QUEUE"), "mail");
  EXPECT_EQ(commands_.calls[0].env.at("ALERT_ITEM"), "i1");
  EXPECT_EQ(commands_.calls[0].env.at("ALERT_REASON"), "bad");
  commands_.End();
  Run(alerter);
  ASSERT_EQ(commands_.calls.size(), 2U);
  EXPECT_EQ(commands_.calls[1].env.at("ALERT_ITEM"), "i2");
  commands_.End();
  Run(alerter);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted), 2);
  EXPECT_EQ(alerter.figures().succeeded, 2U);
}

TEST_F(AlerterTest, LongCommandKeepsItsLease) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  Kill("mail", 1);
  Run(alerter);
  for (int i = 0; i < 30; ++i) {
    clock_.Advance(1s);
    Run(alerter, 1);
    ASSERT_TRUE(queues().admin().Sweep(1'000));
    ASSERT_EQ(Count(kCommandQueue, ItemState::kProcessing), 1) << i;
  }
  commands_.End();
  Run(alerter);
  EXPECT_EQ(commands_.calls.size(), 1U);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted), 1);
}

TEST_F(AlerterTest, FailingCommandIsTriedLaterWhileOthersGoFirstAndIsGivenUpVisibly) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  Kill("mail", 1);
  Run(alerter);
  commands_.End({CommandEnd::How::kFailed, "exit code 1"});
  Run(alerter);
  EXPECT_EQ(commands_.calls.size(), 1U);
  Kill("mail", 1);
  Run(alerter);  // the second is not held up by the first
  ASSERT_EQ(commands_.calls.size(), 2U);
  EXPECT_EQ(commands_.calls[1].env.at("ALERT_ITEM"), "i2");
  commands_.End();
  Run(alerter);
  std::vector<Duration> pauses;
  Duration waited{};
  for (int attempt = 2; attempt <= kCommandAttempts; ++attempt) {
    Duration pause{};
    for (; !commands_.running() && pause < 1h; pause += 1s) {
      clock_.Advance(1s);
      Run(alerter, 2);
    }
    ASSERT_TRUE(commands_.running()) << attempt;
    pauses.push_back(pause);
    waited += pause;
    ASSERT_EQ(alerter.figures().given_up, 0U);
    commands_.End({CommandEnd::How::kFailed, "exit code 1"});
    Run(alerter, 2);
  }
  pauses.resize(12);
  EXPECT_EQ(pauses,
            (std::vector<Duration>{1s, 2s, 4s, 8s, 16s, 32s, 64s, 128s, 256s, 300s, 300s, 300s}));
  EXPECT_GE(waited, 24h);
  EXPECT_LT(waited, 24h + 5min);
  clock_.Advance(1h);
  Run(alerter);
  EXPECT_FALSE(commands_.running());
  EXPECT_EQ(Count(kCommandQueue, ItemState::kDead), 1);
  const auto figures = alerter.figures();
  EXPECT_EQ(figures.failed, static_cast<std::uint64_t>(kCommandAttempts));
  EXPECT_EQ(figures.given_up, 1U);
  EXPECT_NE(log_.lines.back().find("given up"), std::string::npos);
  // By hand it is told once more.
  ASSERT_EQ(queues().admin().Redrive(kTenant, kCommandQueue, {})->count, 1);
  Run(alerter);
  EXPECT_TRUE(commands_.running());
}

TEST_F(AlerterTest, CommandThatCannotBeStartedForAnHourIsRunOnceItCan) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  commands_.broken = true;
  Kill("mail", 1);
  for (Duration waited{}; waited < 1h; waited += 1s) {
    Run(alerter, 1);
    clock_.Advance(1s);
  }
  EXPECT_GT(commands_.calls.size(), 10U);
  EXPECT_EQ(alerter.figures().given_up, 0U);
  commands_.broken = false;
  for (Duration waited{}; waited < kLongestRetry && !commands_.running(); waited += 1s) {
    clock_.Advance(1s);
    Run(alerter, 1);
  }
  ASSERT_TRUE(commands_.running());
  commands_.End();
  Run(alerter);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted), 1);
}

TEST_F(AlerterTest, CommandThatCannotBeStartedHasFailed) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  commands_.broken = true;
  Kill("mail", 1);
  Run(alerter);
  EXPECT_EQ(alerter.figures().failed, 1U);
  EXPECT_EQ(queues().admin().ListItems(kTenant, kCommandQueue, {})->at(0).reason, "no process");
}

TEST_F(AlerterTest, StormIsToldInSums) {
  const TenantId other("zeta");
  Kill("mail", 2'500);
  for (int i = 0; i < 10; ++i)
    Push(kCommandQueue, fmt::format("task_failed:{}", i), R"({"alert": "task_failed"})", 6);
  Kill("mail", 1, other);
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  std::int64_t told = 0;
  std::size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    Run(alerter, 2);
    if (!commands_.running()) continue;
    const json::object said = commands_.Told();
    if (said.at("alert") == "summary") {
      EXPECT_EQ(said.at("tenant"), "acme");
      EXPECT_EQ(said.at("alerts").as_array().size(), 10U);
      EXPECT_EQ(commands_.calls.back().env.at("ALERT_COUNT"),
                std::to_string(said.at("count").as_int64()));
      std::int64_t sum = 0;
      for (const auto& kind : said.at("kinds").as_object()) sum += kind.value().as_int64();
      EXPECT_EQ(sum, said.at("count").as_int64());
      told += sum;
    } else {
      ++told;
    }
    most = std::max(most, commands_.calls.back().input.size());
    commands_.End();
  }
  EXPECT_EQ(told, 2'511);
  EXPECT_LE(commands_.calls.size(), 15U);
  EXPECT_LE(most, 10'000U);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted), 2'510);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted, other), 1);
}

TEST_F(AlerterTest, FewAreToldOneByOneAndOneMoreInASum) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  Kill("mail", 10);
  Run(alerter);
  EXPECT_EQ(commands_.Told()["alert"], "dead_letter");
  commands_.End();
  Run(alerter);
  commands_.End();  // eight wait
  Kill("mail", 3);
  Run(alerter);
  EXPECT_EQ(commands_.Told()["count"], 11);
}

TEST_F(AlerterTest, CloseDeliversWhatWaitsStopsWhatHangsAndUsesNoAttempt) {
  Alerter alerter({kCommandQueue}, queues(), &commands_, clock_, log_);
  Kill("mail", 1);
  Run(alerter);
  ASSERT_TRUE(commands_.running());
  alerter.Close(0s);
  EXPECT_EQ(commands_.stops, 1);
  const auto item = queues().admin().ListItems(kTenant, kCommandQueue, {})->at(0);
  EXPECT_EQ(item.state, ItemState::kPending);
  EXPECT_EQ(item.attempts, 0);
  EXPECT_EQ(alerter.figures().failed, 0U);
  // The next engine tells of it at once.
  Alerter next({kCommandQueue}, queues(), &commands_, clock_, log_);
  Run(next);
  EXPECT_TRUE(commands_.running());
  commands_.End();
  Run(next);
  next.Close(1s);
  EXPECT_EQ(Count(kCommandQueue, ItemState::kCompleted), 1);
}

TEST_F(AlerterTest, WhatADeadEngineTookComesAgainSoon) {
  Push(kCommandQueue, "test:1", R"({"alert": "test"})", kCommandAttempts);
  // As it takes one, and then is killed.
  ASSERT_EQ(queues()
                .tasks()
                .Poll({.tenant = kTenant, .queue = kCommandQueue, .visibility = 10s})
                ->items.size(),
            1U);
  Alerter next({kCommandQueue}, queues(), &commands_, clock_, log_);
  Run(next);
  EXPECT_FALSE(commands_.running());
  clock_.Advance(10s);
  ASSERT_TRUE(queues().admin().Sweep(1'000));
  clock_.Advance(2s);  // the queue's backoff
  Run(next);
  EXPECT_TRUE(commands_.running());
}

}  // namespace
}  // namespace headworks::alert
