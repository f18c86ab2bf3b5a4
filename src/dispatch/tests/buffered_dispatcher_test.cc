#include "headworks/dispatch/buffered_dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "headworks/dispatch/default_dispatcher.h"
#include "headworks/dispatch/dispatch_metrics.h"
#include "headworks/dispatcher_conformance/harness.h"

namespace headworks::dispatch {
namespace {

using dispatcher::conformance::AttemptOf;
using dispatcher::conformance::kCommand;
using dispatcher::conformance::kFunction;
using dispatcher::conformance::ScriptedExecutor;
using dispatcher::conformance::Sink;
using executor::Attempt;
using executor::DispatchError;
using executor::OfferResult;
using model::Disposition;
using namespace std::chrono_literals;

class ManualClock final : public Clock {
 public:
  Instant Now() override { return Instant(mono_.load()); }
  Duration Monotonic() override { return mono_; }
  void Advance(Duration by) { mono_ = mono_.load() + by; }

 private:
  std::atomic<Duration> mono_{1h};
};

class CountingLogger final : public Logger {
 public:
  void Write(LogLevel level, std::string_view, Fields fields) override {
    if (level != LogLevel::kError) return;
    const std::scoped_lock lock(mutex_);
    fields_.clear();
    for (const auto& [name, value] : fields) fields_.emplace(name, value);
    ++errors;
  }
  /// Of the last error.
  std::string Field(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return fields_[name];
  }
  std::atomic<int> errors{0};

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> fields_;
};

class BufferedDispatcherTest : public testing::Test {
 protected:
  BufferedDispatcherTest() {
    EXPECT_TRUE(inner_.RegisterExecutor("functions", functions_));
    EXPECT_TRUE(inner_.RegisterExecutor("commands", commands_));
    EXPECT_TRUE(inner_.Start(sink_));
  }
  ~BufferedDispatcherTest() override { Open(); }

  void Make(const BufferConfig& config) {
    config_ = config;
    buffer_.emplace(config, BufferPorts{inner_, metrics_, clock_, log_});
  }
  void Start(const BufferConfig& config) {
    Make(config);
    ASSERT_TRUE(buffer_->Start(sink_, sink_));
  }
  void StartWithoutThreads(std::size_t size) {
    Make({.buffer_size = size});
    ASSERT_TRUE(buffer_->StartWithoutThreads(sink_, sink_));
  }
  Attempt Next(TaskNo task = kFunction) { return AttemptOf(task, ++epochs_); }
  Attempt Put(TaskNo task = kFunction) {
    Attempt attempt = Next(task);
    EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
    return attempt;
  }
  executor::Inspection Inspect(const Attempt& attempt) {
    auto answers = buffer_->Inspect({&attempt, 1});
    EXPECT_TRUE(answers);
    return answers->front();
  }
  bool IsPending(const Attempt& attempt) {
    return std::holds_alternative<executor::Pending>(Inspect(attempt));
  }

  /// From now on offers of functions wait until Open; returns when `workers` of them do.
  void Shut() {
    functions_.answer = [this](const Attempt&) {
      functions_.signal.Do([&] { ++in_offer_; });
      open_.get_future_shared().wait();
      return OfferResult{};
    };
  }
  void AwaitInOffer(int count) {
    functions_.signal.Await([&] { return in_offer_ >= count; });
  }
  void Open() { open_.Set(); }

  class Gate {
   public:
    std::shared_future<void> get_future_shared() { return future_; }
    void Set() {
      if (!std::exchange(set_, true)) promise_.set_value();
    }

   private:
    std::promise<void> promise_;
    std::shared_future<void> future_ = promise_.get_future().share();
    bool set_ = false;
  };

  Sink sink_;
  ScriptedExecutor functions_{"functions"}, commands_{"commands"};
  DefaultDispatcher inner_{{.functions = "functions", .commands = "commands"}};
  DispatchMetrics metrics_;
  ManualClock clock_;
  CountingLogger log_;
  Gate open_;
  int in_offer_ = 0;
  BufferConfig config_;
  std::int64_t epochs_ = 0;
  std::optional<BufferedDispatcher> buffer_;  // last: its threads use the above
};

TEST_F(BufferedDispatcherTest, WithoutABufferTheCallersThreadDispatches) {
  Start({.buffer_size = 0, .workers = 16});
  std::thread::id by;
  functions_.answer = [&](const Attempt&) {
    by = std::this_thread::get_id();
    return OfferResult{};
  };
  const OfferResult result = buffer_->Dispatch(Next());
  EXPECT_EQ(result.disposition, Disposition::kDispatched);
  EXPECT_TRUE(result.answered);
  EXPECT_EQ(by, std::this_thread::get_id());
  functions_.answer = [](const Attempt&) -> OfferResult { throw std::runtime_error("broken"); };
  EXPECT_EQ(buffer_->Dispatch(Next()).error, DispatchError::kExecutionFailed);
  EXPECT_EQ(metrics_.Read().answered, 2U);
  EXPECT_EQ(metrics_.Read().NotTaken(Disposition::kRejected), 1U);
  EXPECT_EQ(metrics_.Read().max_depth, 0U);
  EXPECT_TRUE(sink_.late.empty());
}

TEST_F(BufferedDispatcherTest, WithABufferItsOwnThreadsDo) {
  Start({.buffer_size = 1, .workers = 0});
  std::promise<std::thread::id> by;
  functions_.answer = [&](const Attempt&) {
    by.set_value(std::this_thread::get_id());
    return OfferResult{};
  };
  const Attempt attempt = Next();
  EXPECT_FALSE(buffer_->Dispatch(attempt).answered);
  EXPECT_NE(by.get_future().get(), std::this_thread::get_id());
}

TEST_F(BufferedDispatcherTest, AsManyOffersAreUnderWayAsThereAreWorkersAndTheEngineWaitsForNone) {
  Shut();
  Start({.buffer_size = 10, .workers = 3});
  for (int i = 0; i < 3; ++i) Put();
  AwaitInOffer(3);
  for (int i = 0; i < 10; ++i) Put();
  EXPECT_EQ(metrics_.Read().depth, 10U);
  EXPECT_EQ(in_offer_, 3);
  Open();
  functions_.signal.Await([&] { return functions_.offered.size() == 13; });
}

TEST_F(BufferedDispatcherTest, AnExecutorThatHangsHoldsUpNoOther) {
  Shut();
  Start({.buffer_size = 1, .workers = 1});
  Put();
  AwaitInOffer(1);
  Put();
  EXPECT_EQ(buffer_->Dispatch(Next()).disposition, Disposition::kDeferred);
  const Attempt command = Put(kCommand);
  commands_.signal.Await([&] { return commands_.offered == std::vector{command.key}; });
}

TEST_F(BufferedDispatcherTest, AFullBufferDefersAndSaysWhenThereIsRoom) {
  StartWithoutThreads(2);
  const Attempt first = Put();
  Put();
  const Attempt third = Next();
  const OfferResult full = buffer_->Dispatch(third);
  EXPECT_EQ(full.disposition, Disposition::kDeferred);
  EXPECT_EQ(executor::CodeOf(*full.error), Code::kAtCapacity);
  EXPECT_EQ(full.cause, "the dispatch buffer is full");
  EXPECT_EQ(metrics_.Read().at_capacity, 1U);
  EXPECT_EQ(metrics_.Read().depth, 2U);
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(third)));
  EXPECT_EQ(buffer_->Dispatch(first).disposition, Disposition::kDispatched) << "it is here";
  EXPECT_EQ(sink_.capacity_changes, 0);
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(sink_.capacity_changes, 1);
  EXPECT_EQ(buffer_->Dispatch(third).disposition, Disposition::kDispatched);
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(sink_.capacity_changes, 1) << "nobody saw it full since";
  EXPECT_EQ(functions_.offered.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(functions_.offered)) << "in the order of Dispatch";
}

TEST_F(BufferedDispatcherTest, CreditIsWhatTheExecutorHasLessWhatIsPromised) {
  StartWithoutThreads(3);
  functions_.max = 2;
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 2U);
  Put();
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 1U);
  EXPECT_EQ(buffer_->GetCapacity(1).free(), 3U) << "as many as the buffer has";
  for (int i = 0; i < 3; ++i) Put(kCommand);
  EXPECT_EQ(buffer_->GetCapacity(1).free(), 0U) << "the buffer is full";
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 1U) << "but not that of another lane";
  EXPECT_EQ(buffer_->GetCapacity(0).max, 2U);
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 1U) << "one is with the executor";
  EXPECT_GT(sink_.capacity_changes, 0);
}

TEST_F(BufferedDispatcherTest, CreditOfALineIsLessByWhatIsPromisedToAny) {
  StartWithoutThreads(3);
  functions_.credit = [](const TenantId&, const std::string& line) {
    return executor::Credit{
        .all = 9, .tenant = 2, .line = line == "dead" ? 0U : 1U, .others = line == "dead"};
  };
  const auto credit = [&](const std::string& line) {
    const auto now = buffer_->GetCredit(0, TenantId("acme"), line);
    return std::vector{now.all, now.tenant, now.line};
  };
  EXPECT_EQ(credit("live"), (std::vector{3U, 2U, 1U})) << "as many as the buffer has";
  EXPECT_EQ(credit("dead"), (std::vector{3U, 2U, 0U}));
  EXPECT_TRUE(buffer_->GetCredit(0, TenantId("acme"), "dead").others);
  EXPECT_FALSE(buffer_->GetCredit(0, TenantId("acme"), "live").others);
  Put();
  EXPECT_EQ(credit("live"), (std::vector{2U, 1U, 0U}));
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(sink_.capacity_changes, 1) << "who saw none is told";
  EXPECT_EQ(credit("live"), (std::vector{3U, 2U, 1U}));
  EXPECT_TRUE(buffer_->Close(0s));
  EXPECT_EQ(credit("live"), (std::vector{0U, 0U, 0U}));
}

TEST_F(BufferedDispatcherTest, WhatWaitsOrIsBeingSentIsPending) {
  Shut();
  Start({.buffer_size = 4, .workers = 1});
  const Attempt sent = Put();
  AwaitInOffer(1);
  const Attempt waiting = Put();
  EXPECT_TRUE(IsPending(sent));
  EXPECT_TRUE(IsPending(waiting));
  functions_.inspect = [](const Attempt&) -> Result<executor::Inspection> {
    return Error{Code::kUnavailable, "no answer"};
  };
  EXPECT_TRUE(IsPending(waiting)) << "that is known whatever the executor knows";
  EXPECT_TRUE(std::holds_alternative<executor::Unknown>(Inspect(Next())));
  // An earlier offer of the epoch had arrived: its answer was lost.
  functions_.inspect = [](const Attempt&) { return executor::Inspection(executor::Running{}); };
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(waiting)));
}

TEST_F(BufferedDispatcherTest, ACancelWithdrawsWhatWaitsAndFollowsWhatIsBeingSent) {
  Shut();
  Start({.buffer_size = 4, .workers = 1});
  const Attempt sent = Put();
  AwaitInOffer(1);
  const Attempt waiting = Put();
  buffer_->Cancel(waiting);
  buffer_->Cancel(sent);
  ASSERT_EQ(sink_.LateFor(waiting.key).size(), 1U);
  EXPECT_EQ(sink_.LateFor(waiting.key)[0].disposition, Disposition::kDeferred)
      << "not ended: an earlier offer of the epoch may have arrived (I4)";
  functions_.signal.Await(
      [&] { return functions_.cancelled == std::vector{waiting.key, sent.key}; });
  Open();
  functions_.signal.Await([&] { return functions_.cancelled.size() == 3; });
  EXPECT_EQ(functions_.cancelled[2], sent.key) << "once more, now that the executor has it";
  EXPECT_EQ(functions_.offered, std::vector{sent.key});
  EXPECT_EQ(metrics_.Read().depth, 0U);
}

TEST_F(BufferedDispatcherTest, WhatIsOverIsNotSent) {
  StartWithoutThreads(1);
  const Attempt over = Put();
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
  buffer_->Settled({&over, 1});
  EXPECT_EQ(sink_.capacity_changes, 1);
  EXPECT_EQ(metrics_.Read().depth, 0U);
  EXPECT_FALSE(buffer_->SendNext());
  EXPECT_EQ(functions_.settled, std::vector{over.key});
  EXPECT_TRUE(sink_.late.empty());
}

TEST_F(BufferedDispatcherTest, WhatThrowsFailsOnlyItself) {
  StartWithoutThreads(8);
  functions_.answer = [](const Attempt& attempt) -> OfferResult {
    if (attempt.key.epoch == Epoch(2)) throw std::runtime_error("broken");
    if (attempt.key.epoch == Epoch(3)) throw 3;
    return {};
  };
  for (int i = 0; i < 4; ++i) Put();
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(functions_.taken.size(), 2U);
  ASSERT_EQ(sink_.late.size(), 2U);
  EXPECT_EQ(sink_.late[0].second.error, DispatchError::kExecutionFailed);
  EXPECT_EQ(sink_.late[0].second.disposition, Disposition::kRejected);
  EXPECT_EQ(sink_.late[0].second.cause, "its executor threw: broken");
  EXPECT_EQ(sink_.late[1].first.epoch, Epoch(3));
  EXPECT_EQ(log_.errors, 2);
}

TEST_F(BufferedDispatcherTest, AnOfferThatThrewAfterItHadHappenedIsNoFailure) {
  StartWithoutThreads(8);
  functions_.answer = [](const Attempt&) -> OfferResult { throw std::runtime_error("broken"); };
  functions_.inspect = [](const Attempt&) { return executor::Inspection(executor::Running{}); };
  Put();
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_TRUE(sink_.late.empty());
  functions_.inspect = [](const Attempt&) {
    return executor::Inspection(executor::Unknown{"no answer"});
  };
  Put();
  EXPECT_TRUE(buffer_->SendNext());
  ASSERT_EQ(sink_.late.size(), 1U);
  EXPECT_EQ(sink_.late[0].second.disposition, Disposition::kTransient)
      << "a new epoch needs a definite no (I4)";
  functions_.inspect = [](const Attempt&) -> Result<executor::Inspection> {
    throw std::runtime_error("broken too");
  };
  Put();
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(sink_.late[1].second.disposition, Disposition::kTransient);
}

TEST_F(BufferedDispatcherTest, ASinkThatThrowsIsToldLaterAndKeepsNobodyElseWaiting) {
  StartWithoutThreads(8);
  functions_.answer = [](const Attempt&) {
    return executor::NotTaken(DispatchError::kContext, "no secret");
  };
  int throws = 2;
  sink_.before_late = [&](const model::AttemptKey& key) {
    if (key.epoch == Epoch(1) && throws-- > 0) throw std::runtime_error("out of memory");
  };
  const Attempt first = Put();
  const Attempt second = Put();
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_TRUE(IsPending(first));
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(sink_.LateFor(second.key).size(), 1U);
  EXPECT_TRUE(sink_.LateFor(first.key).empty());
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(sink_.LateFor(first.key).size(), 1U);
  EXPECT_EQ(log_.errors, 2);
}

TEST_F(BufferedDispatcherTest, ASinkThatThrowsEndsNoThread) {
  Make({.buffer_size = 8, .workers = 1});
  functions_.answer = [](const Attempt&) {
    return executor::NotTaken(DispatchError::kContext, "no secret");
  };
  std::atomic<bool> throws = true;
  sink_.before_late = [&](const model::AttemptKey&) {
    if (throws.exchange(false)) throw std::runtime_error("out of memory");
  };
  ASSERT_TRUE(buffer_->Start(sink_, sink_));
  const Attempt first = Put();
  const Attempt second = Put();
  sink_.signal.Await([&] { return sink_.late.size() == 2; });
  EXPECT_EQ(sink_.LateFor(first.key).size(), 1U);
  EXPECT_EQ(sink_.LateFor(second.key).size(), 1U);
  EXPECT_EQ(functions_.offered.size(), 3U) << "it was sent again";
}

TEST_F(BufferedDispatcherTest, AWithdrawalThatCannotBeToldIsSentAndCancelled) {
  StartWithoutThreads(8);
  const Attempt attempt = Put();
  sink_.before_late = [](const model::AttemptKey&) { throw std::runtime_error("broken"); };
  buffer_->Cancel(attempt);
  EXPECT_TRUE(IsPending(attempt));
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(functions_.cancelled, (std::vector{attempt.key, attempt.key}));
  EXPECT_FALSE(buffer_->SendNext());
}

TEST_F(BufferedDispatcherTest, ACancelThatThrowsEndsNoThreadAndFailsNothingElse) {
  Shut();
  Start({.buffer_size = 4, .workers = 1});
  functions_.after_cancel = [] { throw 7; };
  const Attempt sent = Put();
  AwaitInOffer(1);
  const Attempt waiting = Put();
  buffer_->Cancel(waiting);
  EXPECT_EQ(sink_.LateFor(waiting.key).size(), 1U) << "it was withdrawn all the same";
  buffer_->Cancel(sent);
  functions_.signal.Await([&] { return functions_.cancelled.size() == 2; });
  Open();
  functions_.signal.Await([&] { return functions_.cancelled.size() == 3; });
  const Attempt next = Put();
  functions_.signal.Await([&] { return functions_.offered.size() == 2; });
  EXPECT_EQ(functions_.offered, (std::vector{sent.key, next.key}));
  EXPECT_TRUE(buffer_->Close(5s));  // a thread logs what was thrown after the call was seen
  EXPECT_EQ(log_.errors, 3);
}

TEST_F(BufferedDispatcherTest, ACancelThatHangsHoldsUpNeitherTheEngineNorOtherExecutors) {
  Start({.buffer_size = 4, .workers = 1});
  std::atomic<bool> held_up = false;
  functions_.after_cancel = [&] {
    if (open_.get_future_shared().wait_for(5s) == std::future_status::timeout) held_up = true;
  };
  const Attempt attempt = Put();
  const Attempt command = Put(kCommand);
  functions_.signal.Await([&] { return functions_.taken.size() == 1; });
  commands_.signal.Await([&] { return commands_.taken.size() == 1; });
  for (int i = 0; i < 3; ++i) buffer_->Cancel(attempt);
  functions_.signal.Await([&] { return functions_.cancelled.size() == 1; });
  buffer_->Cancel(command);
  commands_.signal.Await([&] { return commands_.cancelled == std::vector{command.key}; });
  EXPECT_TRUE(std::holds_alternative<executor::Unknown>(Inspect(attempt)));
  EXPECT_TRUE(std::holds_alternative<executor::Running>(Inspect(command)));
  const Attempt next = Put();
  functions_.signal.Await([&] { return functions_.taken.contains(next.key); });
  Open();
  EXPECT_TRUE(buffer_->Close(0s)) << "waits for them";
  EXPECT_FALSE(held_up);
  EXPECT_LE(functions_.cancelled.size(), 2U) << "one under way, and one more";
}

TEST_F(BufferedDispatcherTest, CloseNamesTheCancellationsThatHang) {
  Start({.buffer_size = 4, .workers = 1, .drain_timeout = 20ms});
  functions_.after_cancel = [&] { open_.get_future_shared().wait_for(5s); };
  const Attempt attempt = Put();
  functions_.signal.Await([&] { return functions_.taken.size() == 1; });
  buffer_->Cancel(attempt);
  functions_.signal.Await([&] { return functions_.cancelled.size() == 1; });
  const Status closed = buffer_->Close(0s);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kDrainTimeout);
  EXPECT_EQ(closed.error().message,
            "1 attempts are still on their way to an executor: the cancellation of function of run "
            "run-1 (epoch 1)");
  Open();
}

TEST_F(BufferedDispatcherTest, AnInspectionThatHangsIsAnsweredTheNextTime) {
  Start({.buffer_size = 4, .workers = 1});
  std::atomic<bool> held_up = false;
  std::atomic<int> asked = 0;
  functions_.inspect = [&](const Attempt&) {
    functions_.signal.Do([&] { ++asked; });
    if (open_.get_future_shared().wait_for(5s) == std::future_status::timeout) held_up = true;
    return executor::Inspection(executor::Running{});
  };
  const Attempt attempt = Next();
  const auto first = Inspect(attempt);
  ASSERT_TRUE(std::holds_alternative<executor::Unknown>(first));
  EXPECT_EQ(std::get<executor::Unknown>(first).why, "executor functions has not answered yet");
  EXPECT_TRUE(std::holds_alternative<executor::Unknown>(Inspect(Next())));
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(Next(kCommand))));
  EXPECT_EQ(asked, 1) << "one question at a time";
  Open();
  // Answered late, by what it was asked then; or by a new question.
  while (std::holds_alternative<executor::Unknown>(Inspect(attempt))) {
  }
  EXPECT_FALSE(held_up);
}

TEST_F(BufferedDispatcherTest, AnAbsenceThatIsToldTooLateSaysNothingOfWhatWasOfferedSince) {
  Start({.buffer_size = 4, .workers = 1});
  std::atomic<int> asked = 0;
  functions_.inspect = [&](const Attempt&) {
    functions_.signal.Do([&] { ++asked; });
    if (asked == 1) open_.get_future_shared().wait_for(5s);
    return asked == 1 ? executor::Inspection(executor::Absent{})
                      : executor::Inspection(executor::Running{});
  };
  const Attempt attempt = Next();
  EXPECT_TRUE(std::holds_alternative<executor::Unknown>(Inspect(attempt)));
  EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
  functions_.signal.Await([&] { return functions_.taken.contains(attempt.key); });
  Open();
  auto answer = Inspect(attempt);
  while (std::holds_alternative<executor::Unknown>(answer) ||
         std::holds_alternative<executor::Pending>(answer))
    answer = Inspect(attempt);
  EXPECT_TRUE(std::holds_alternative<executor::Running>(answer));
  EXPECT_EQ(asked, 2);
}

class ThrowingCallsTest : public BufferedDispatcherTest,
                          public testing::WithParamInterface<std::size_t> {};

TEST_P(ThrowingCallsTest, AnInspectionThatThrowsConcernsItsExecutorAlone) {
  Start({.buffer_size = GetParam()});
  functions_.inspect = [](const Attempt&) -> Result<executor::Inspection> {
    throw std::runtime_error("broken");
  };
  const std::array asked{Next(), Next(kCommand)};
  for (int i = 0; i < 3; ++i) {
    const auto answers = buffer_->Inspect(asked);
    ASSERT_TRUE(answers);
    ASSERT_TRUE(std::holds_alternative<executor::Unknown>((*answers)[0]));
    EXPECT_EQ(std::get<executor::Unknown>((*answers)[0]).why, "executor functions threw: broken");
    EXPECT_TRUE(std::holds_alternative<executor::Absent>((*answers)[1]));
  }
  EXPECT_EQ(log_.errors, 1) << "said once, while it lasts";
  EXPECT_EQ(log_.Field("executor"), "functions");
  EXPECT_EQ(log_.Field("error"), "broken");
  functions_.inspect = nullptr;
  EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(asked[0])));
  functions_.inspect = [](const Attempt&) -> Result<executor::Inspection> { throw 7; };
  EXPECT_TRUE(std::holds_alternative<executor::Unknown>(Inspect(asked[0])));
  EXPECT_EQ(log_.errors, 2);
}

TEST_P(ThrowingCallsTest, ASettlementThatThrowsConcernsItsExecutorAlone) {
  Start({.buffer_size = GetParam()});
  functions_.before_settled = [] { throw std::runtime_error("broken"); };
  const std::array over{Next(), Next(kCommand)};
  buffer_->Settled(over);
  buffer_->Settled(over);
  EXPECT_EQ(commands_.settled.front(), over[1].key);
  EXPECT_EQ(log_.errors, 1);
  EXPECT_EQ(log_.Field("executor"), "functions");
}

TEST_P(ThrowingCallsTest, WhatSaysItsCapacityByAThrowHasNone) {
  Start({.buffer_size = GetParam()});
  functions_.before_capacity = [] { throw std::runtime_error("broken"); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
    EXPECT_EQ(buffer_->GetCredit(0, TenantId("acme"), "").least(), 0U);
  }
  EXPECT_GT(buffer_->GetCapacity(1).free(), 0U);
  EXPECT_EQ(log_.errors, 2) << "once for each of the two calls";
  EXPECT_EQ(log_.Field("executor"), "functions");
  functions_.before_capacity = [] {};
  EXPECT_GT(buffer_->GetCapacity(0).free(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThrowingCallsTest, testing::Values(0U, 4U));

TEST_F(BufferedDispatcherTest, WordOfRoomThatThrowsReachesNoCaller) {
  StartWithoutThreads(1);
  sink_.before_word = [] { throw 7; };
  const Attempt over = Put();
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
  buffer_->Settled({&over, 1});
  const Attempt cancelled = Put();
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
  buffer_->Cancel(cancelled);
  EXPECT_EQ(log_.errors, 2);
}

TEST_F(BufferedDispatcherTest, LinesOfAnAttemptNameIt) {
  StartWithoutThreads(1);
  functions_.answer = [](const Attempt&) -> OfferResult { throw std::runtime_error("broken"); };
  const Attempt attempt = Put();
  const auto expect = [&](const char* error) {
    EXPECT_EQ(log_.Field("tenant"), "public");
    EXPECT_EQ(log_.Field("run"), "1");
    EXPECT_EQ(log_.Field("task"), "function");
    EXPECT_EQ(log_.Field("try"), "1");
    EXPECT_EQ(log_.Field("epoch"), "1");
    EXPECT_EQ(log_.Field("error"), error);
  };
  sink_.before_late = [](const model::AttemptKey&) { throw std::runtime_error("no memory"); };
  EXPECT_TRUE(buffer_->SendNext());
  expect("no memory");
  sink_.before_late = [](const model::AttemptKey&) {};
  EXPECT_TRUE(buffer_->SendNext());
  expect("broken");
  functions_.after_cancel = [] { throw std::runtime_error("gone"); };
  buffer_->Cancel(attempt);
  expect("gone");
}

TEST_F(BufferedDispatcherTest, WordOfRoomOrRecoveryThatThrowsEndsNoThread) {
  int words = 0;
  sink_.before_word = [&] {
    sink_.signal.Do([&] { ++words; });
    throw 7;
  };
  std::atomic<bool> out = true;
  functions_.answer = [&](const Attempt&) {
    functions_.signal.Do([&] { ++in_offer_; });
    open_.get_future_shared().wait();
    return out ? executor::NotTaken(DispatchError::kStore, "timeout") : OfferResult{};
  };
  Start({.buffer_size = 1, .workers = 1});
  Put();
  AwaitInOffer(1);
  Put();
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
  Open();
  sink_.signal.Await([&] { return words == 1; });
  EXPECT_EQ(sink_.late.size(), 2U);
  out = false;
  Put();
  sink_.signal.Await([&] { return words == 2; });
  Put();
  functions_.signal.Await([&] { return functions_.offered.size() == 4; });
  EXPECT_TRUE(sink_.recovered.empty());
  EXPECT_EQ(sink_.capacity_changes, 0);
  EXPECT_EQ(log_.errors, 2);
  sink_.before_word = [] {};
}

TEST_F(BufferedDispatcherTest, CloseAwaitsWhatWasSentAndHandsBackWhatWasNot) {
  Shut();
  Start({.buffer_size = 8, .workers = 2});
  std::vector<Attempt> put;
  put.reserve(5);
  for (int i = 0; i < 2; ++i) put.push_back(Put());
  AwaitInOffer(2);
  for (int i = 0; i < 3; ++i) put.push_back(Put());
  auto closed = std::async(std::launch::async, [&] { return buffer_->Close(0ms); });
  sink_.signal.Await([&] { return sink_.late.size() == 3; });
  EXPECT_EQ(closed.wait_for(0ms), std::future_status::timeout);
  const OfferResult late = buffer_->Dispatch(Next());
  EXPECT_EQ(late.disposition, Disposition::kDeferred);
  EXPECT_EQ(late.error, DispatchError::kNoCapacity);
  EXPECT_EQ(buffer_->GetCapacity(0).free(), 0U);
  Open();
  const Status done = closed.get();
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(functions_.offered.size(), 2U);
  for (std::size_t i = 2; i < 5; ++i) {
    ASSERT_EQ(sink_.LateFor(put[i].key).size(), 1U);
    EXPECT_EQ(sink_.LateFor(put[i].key)[0].disposition, Disposition::kDeferred);
    EXPECT_TRUE(std::holds_alternative<executor::Absent>(Inspect(put[i])));
  }
  EXPECT_EQ(functions_.drains, 1);
  EXPECT_EQ(metrics_.Read().depth, 0U);
}

TEST_F(BufferedDispatcherTest, CloseNamesWhatItHadToAbandon) {
  Shut();
  Start({.buffer_size = 1, .workers = 1, .drain_timeout = 20ms});
  Put();
  AwaitInOffer(1);
  const Status closed = buffer_->Close(0ms);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kDrainTimeout);
  EXPECT_EQ(closed.error().message,
            "1 attempts are still on their way to an executor: function of run run-1 (epoch 1)");
  EXPECT_EQ(functions_.drains, 1) << "the executors are drained all the same";
  Open();
  functions_.signal.Await([&] { return functions_.offered.size() == 1; });
}

TEST_F(BufferedDispatcherTest, CloseNamesWhatItCouldNotHandBack) {
  StartWithoutThreads(4);
  sink_.before_late = [](const model::AttemptKey&) { throw std::runtime_error("broken"); };
  Put();
  const Status closed = buffer_->Close(0ms);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kDrainTimeout);
  EXPECT_NE(closed.error().message.find("epoch 1"), std::string::npos) << closed.error().message;
}

TEST_F(BufferedDispatcherTest, UnderLoadTwoClosesLoseNothing) {
  for (int round = 0; round < 20; ++round) {
    Sink sink;
    ScriptedExecutor executor("functions");
    DefaultDispatcher inner({.functions = "functions", .commands = "functions"});
    ASSERT_TRUE(inner.RegisterExecutor("functions", executor));
    ASSERT_TRUE(inner.Start(sink));
    BufferedDispatcher buffer({.buffer_size = 16, .workers = 4}, {inner, metrics_, clock_, log_});
    ASSERT_TRUE(buffer.Start(sink, sink));
    std::vector<model::AttemptKey> accepted;
    std::atomic<bool> stop = false;
    std::jthread engine([&] {
      for (std::int64_t epoch = 1; !stop; ++epoch) {
        const Attempt attempt = AttemptOf(kFunction, epoch);
        if (buffer.Dispatch(attempt).disposition == Disposition::kDispatched)
          accepted.push_back(attempt.key);
      }
    });
    executor.signal.Await([&] { return executor.offered.size() > 50; });
    {
      std::jthread other([&] { EXPECT_TRUE(buffer.Close(0ms)); });
      EXPECT_TRUE(buffer.Close(0ms));
    }
    stop = true;
    engine.join();
    for (const auto& key : accepted)
      ASSERT_EQ(executor.taken.contains(key), sink.LateFor(key).empty())
          << "each is with its executor, or was handed back";
    ASSERT_EQ(executor.offered.size() + sink.late.size(), accepted.size()) << "and none twice";
  }
}

TEST_F(BufferedDispatcherTest, FiguresSayHowLongAndHowDeep) {
  StartWithoutThreads(4);
  functions_.answer = [](const Attempt& attempt) {
    return attempt.key.epoch == Epoch(2) ? OfferResult{Disposition::kBackpressure, "429", {}}
                                         : OfferResult{};
  };
  Put();
  Put();
  clock_.Advance(4ms);
  EXPECT_TRUE(buffer_->SendNext());
  clock_.Advance(2ms);
  EXPECT_TRUE(buffer_->SendNext());
  const auto figures = metrics_.Read();
  EXPECT_EQ(figures.depth, 0U);
  EXPECT_EQ(figures.max_depth, 2U);
  EXPECT_EQ(figures.answered, 2U);
  EXPECT_EQ(figures.mean_latency, 5ms);
  EXPECT_EQ(figures.max_latency, 6ms);
  EXPECT_EQ(figures.NotTaken(Disposition::kBackpressure), 1U);
  EXPECT_EQ(figures.dispatched, 1U);
}

TEST(DispatchMetrics, WhatWasDispatchedNeverFalls) {
  DispatchMetrics metrics;
  metrics.InnerError({Disposition::kTransient, "timeout", {}});
  EXPECT_EQ(metrics.Read().dispatched, 0U) << "its Latency is still to come";
  metrics.Latency(1ms);
  metrics.Latency(1ms);
  EXPECT_EQ(metrics.Read().dispatched, 1U);
  metrics.InnerError({Disposition::kTransient, "timeout", {}});
  EXPECT_EQ(metrics.Read().dispatched, 1U);
  metrics.Latency(1ms);
  EXPECT_EQ(metrics.Read().dispatched, 1U);
  metrics.Latency(1ms);
  EXPECT_EQ(metrics.Read().dispatched, 2U);
}

TEST_F(BufferedDispatcherTest, WhatIsOfferedAgainWhileItsAnswerIsToldIsSentAgain) {
  StartWithoutThreads(8);
  bool full = true;
  functions_.answer = [&](const Attempt&) {
    return std::exchange(full, false) ? executor::NotTaken(DispatchError::kNoCapacity, "full")
                                      : OfferResult{};
  };
  const Attempt attempt = Next();
  sink_.before_late = [&](const model::AttemptKey&) {
    EXPECT_TRUE(IsPending(attempt)) << "its answer is on its way";
    EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
    EXPECT_TRUE(IsPending(attempt));
  };
  EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(sink_.LateFor(attempt.key).size(), 1U);
  EXPECT_TRUE(buffer_->SendNext()) << "it waits once more";
  EXPECT_TRUE(functions_.taken.contains(attempt.key));
  EXPECT_EQ(functions_.offered.size(), 2U);
  EXPECT_EQ(metrics_.Read().depth, 0U);
}

TEST_F(BufferedDispatcherTest, WhatIsOfferedAgainWhileItsAnswerCannotBeToldIsSentOnce) {
  StartWithoutThreads(8);
  functions_.answer = [](const Attempt&) {
    return executor::NotTaken(DispatchError::kNoCapacity, "full");
  };
  const Attempt attempt = Next();
  bool throws = true;
  sink_.before_late = [&](const model::AttemptKey&) {
    if (!std::exchange(throws, false)) return;
    EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
    throw std::runtime_error("out of memory");
  };
  EXPECT_EQ(buffer_->Dispatch(attempt).disposition, Disposition::kDispatched);
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_EQ(metrics_.Read().depth, 1U);
  EXPECT_TRUE(buffer_->SendNext());
  EXPECT_FALSE(buffer_->SendNext());
  EXPECT_EQ(sink_.LateFor(attempt.key).size(), 1U);
}

TEST_F(BufferedDispatcherTest, UnderLoadWhatIsDeferredAndOfferedAgainIsNeverLost) {
  constexpr std::size_t kAttempts = 2'000;
  std::mutex mutex;
  std::condition_variable heard;
  std::deque<model::AttemptKey> mail;
  std::set<std::int64_t> seen;
  functions_.max = 1'000'000;
  functions_.answer = [&](const Attempt& attempt) {
    const std::scoped_lock lock(mutex);
    return seen.insert(attempt.key.epoch.value).second
               ? executor::NotTaken(DispatchError::kNoCapacity, "not yet")
               : OfferResult{};
  };
  sink_.before_late = [&](const model::AttemptKey& key) {
    const std::scoped_lock lock(mutex);
    mail.push_back(key);
    heard.notify_one();
  };
  Start({.buffer_size = 2 * kAttempts, .workers = 4});
  std::jthread engine([&] {
    for (std::size_t i = 0; i < kAttempts; ++i) {
      std::unique_lock lock(mutex);
      if (!heard.wait_for(lock, 30s, [&] { return !mail.empty(); })) return;
      const model::AttemptKey key = mail.front();
      mail.pop_front();
      lock.unlock();
      EXPECT_EQ(buffer_->Dispatch(AttemptOf(kFunction, key.epoch.value)).disposition,
                Disposition::kDispatched);
    }
  });
  for (std::size_t i = 0; i < kAttempts; ++i) Put();
  functions_.signal.Await([&] { return functions_.taken.size() == kAttempts; });
}

TEST_F(BufferedDispatcherTest, TheFirstAnswerAfterAnOutageIsTold) {
  StartWithoutThreads(8);
  bool out = true;
  functions_.answer = [&](const Attempt&) {
    return out ? executor::NotTaken(DispatchError::kStore, "timeout") : OfferResult{};
  };
  Put();
  Put(kCommand);
  while (buffer_->SendNext()) {
  }
  EXPECT_TRUE(sink_.recovered.empty()) << "commands never had an outage";
  out = false;
  const Attempt first = Put();
  Put();
  while (buffer_->SendNext()) {
  }
  EXPECT_EQ(sink_.recovered, std::vector{first.key});
}

TEST_F(BufferedDispatcherTest, BoundsAreChecked) {
  for (const auto& [config, good] : {std::pair{BufferConfig{.buffer_size = 1'000'000}, true},
                                     {BufferConfig{.buffer_size = 1'000'001}, false},
                                     {BufferConfig{.workers = 1'024}, true},
                                     {BufferConfig{.workers = 1'025}, false}}) {
    Make(config);
    const Status started = buffer_->StartWithoutThreads(sink_, sink_);
    EXPECT_EQ(started.has_value(), good);
    if (!good) EXPECT_EQ(started.error().code, Code::kInvalidArgument);
  }
  Make({.buffer_size = 1});
  EXPECT_EQ(buffer_->Dispatch(Next()).disposition, Disposition::kDeferred) << "not started";
  EXPECT_TRUE(buffer_->StartWithoutThreads(sink_, sink_));
  EXPECT_EQ(buffer_->StartWithoutThreads(sink_, sink_).error().code, Code::kConflict);
}

TEST_F(BufferedDispatcherTest, APlainSinkFailsTheTaskUnlessNothingWasAttempted) {
  FailEveryTask late(sink_, sink_);
  const Attempt attempt = Next();
  late.HandleDispatchFailure(attempt.key, {Disposition::kTransient, "timeout", {}});
  ASSERT_EQ(sink_.failed.size(), 1U);
  EXPECT_EQ(sink_.failed[0].second, "transient: timeout");
  EXPECT_TRUE(sink_.ended.empty());
  const Attempt other = Next();
  late.HandleDispatchFailure(other.key, {Disposition::kDeferred, "closing", {}});
  EXPECT_EQ(sink_.failed.size(), 1U);
  EXPECT_EQ(sink_.ended.at(other.key).verdict, model::Verdict::kInterrupted);
}

TEST(DefaultDispatcher, AKeyIsTakenOnceAndAnUnknownOneFailsStartWithTheKnown) {
  Sink sink;
  ScriptedExecutor executor("one");
  DefaultDispatcher dispatcher({.functions = "one", .commands = "tow"});
  EXPECT_FALSE(dispatcher.HasExecutor("one"));
  EXPECT_TRUE(dispatcher.RegisterExecutor("one", executor));
  EXPECT_TRUE(dispatcher.HasExecutor("one"));
  EXPECT_EQ(dispatcher.RegisterExecutor("one", executor).error().code, Code::kConflict);
  EXPECT_TRUE(dispatcher.RegisterExecutor("two", executor));
  const Status started = dispatcher.Start(sink);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kInvalidArgument);
  EXPECT_EQ(started.error().message, "no executor is called 'tow'; known: one, two");
}

}  // namespace
}  // namespace headworks::dispatch
