#include <algorithm>
#include <array>
#include <thread>

#include "headworks/dispatcher_conformance/harness.h"

namespace headworks::dispatcher::conformance {
namespace {

using executor::Attempt;
using executor::DispatchError;
using executor::OfferResult;
using model::AttemptKey;
using model::Disposition;

TEST_P(Conformance, EachTaskGoesToItsLaneAndToNoOther) {
  const Attempt function = Next(kFunction);
  const Attempt command = Next(kCommand);
  EXPECT_EQ(Answer(function).disposition, Disposition::kDispatched);
  EXPECT_EQ(Answer(command).disposition, Disposition::kDispatched);
  EXPECT_EQ(functions_.offered, std::vector{function.key});
  EXPECT_EQ(commands_.offered, std::vector{command.key});
  ASSERT_EQ(dispatcher().lanes(), 2U);
  EXPECT_EQ(dispatcher().LaneName(dispatcher().LaneOf(function.key.tenant, function.task())),
            "functions");
  EXPECT_EQ(dispatcher().LaneName(dispatcher().LaneOf(command.key.tenant, command.task())),
            "commands");
}

TEST_P(Conformance, EachAnswerArrivesWithItsCause) {
  for (const auto& [disposition, error] :
       {std::pair{Disposition::kDeferred, std::optional(DispatchError::kNoCapacity)},
        {Disposition::kBackpressure, std::nullopt},
        {Disposition::kTransient, std::optional(DispatchError::kStore)},
        {Disposition::kRejected, std::optional(DispatchError::kContext)},
        {Disposition::kRefused, std::optional(DispatchError::kValidation)}}) {
    functions_.answer = [&](const Attempt&) { return OfferResult{disposition, "because", error}; };
    const OfferResult answer = Answer(Next(kFunction));
    EXPECT_EQ(answer.disposition, disposition);
    EXPECT_EQ(answer.error, error);
    EXPECT_EQ(answer.cause, "because");
  }
}

TEST_P(Conformance, TheSameEpochIsOneAttempt) {
  const Attempt attempt = Next(kFunction);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Answer(attempt).disposition, Disposition::kDispatched);
  EXPECT_EQ(functions_.offered.size(), 1U);
}

TEST_P(Conformance, AFullExecutorHoldsUpNoOther) {
  functions_.max = 2;
  const std::size_t functions =
      dispatcher().LaneOf(TenantId("acme"), AttemptOf(kFunction, 1).task());
  const std::size_t commands = dispatcher().LaneOf(TenantId("acme"), AttemptOf(kCommand, 1).task());
  EXPECT_EQ(dispatcher().GetCapacity(functions).max, 2U);
  for (int i = 0; i < 2; ++i) Answer(Next(kFunction));
  EXPECT_EQ(dispatcher().GetCapacity(functions).free(), 0U);
  EXPECT_GT(dispatcher().GetCapacity(commands).free(), 0U);
  EXPECT_EQ(Answer(Next(kCommand)).disposition, Disposition::kDispatched);
}

TEST_P(Conformance, ALineWithoutCreditHoldsUpNoOther) {
  commands_.credit = [](const TenantId& tenant, const std::string& line) {
    EXPECT_EQ(tenant, TenantId("acme"));
    return executor::Credit{.all = 9, .tenant = 5, .line = line == "dead" ? 0U : 3U};
  };
  const Attempt command = Next(kCommand);
  const std::size_t functions =
      dispatcher().LaneOf(TenantId("acme"), AttemptOf(kFunction, 1).task());
  const std::size_t commands = dispatcher().LaneOf(TenantId("acme"), command.task());
  EXPECT_FALSE(dispatcher().HasLines(functions));
  EXPECT_EQ(dispatcher().GetCredit(functions, TenantId("acme"), "").least(),
            dispatcher().GetCapacity(functions).free());
  ASSERT_TRUE(dispatcher().HasLines(commands));
  EXPECT_EQ(dispatcher().LineOf(commands, *command.workflow, command.key.task), command.task().id);
  const auto dead = dispatcher().GetCredit(commands, TenantId("acme"), "dead");
  EXPECT_EQ(dead.line, 0U);
  EXPECT_GT(std::min(dead.tenant, dead.all), 0U);
  EXPECT_GT(dispatcher().GetCredit(commands, TenantId("acme"), command.task().id).least(), 0U);
  EXPECT_EQ(Answer(command).disposition, Disposition::kDispatched);
}

TEST_P(Conformance, WhatIsAskedAboutIsAnsweredInThatOrderOverAllLanes) {
  const Attempt function = Next(kFunction);
  const Attempt command = Next(kCommand);
  Answer(function);
  Answer(command);
  const std::array asked{Next(kCommand), function, Next(kFunction), command};
  const auto answers = dispatcher().Inspect(asked);
  ASSERT_TRUE(answers) << answers.error().message;
  ASSERT_EQ(answers->size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::holds_alternative<executor::Running>((*answers)[i]), i % 2 == 1) << i;
}

TEST_P(Conformance, CancelsAndSettlementsReachTheExecutorThatHasIt) {
  const Attempt function = Next(kFunction);
  const Attempt command = Next(kCommand);
  Answer(function);
  Answer(command);
  dispatcher().Cancel(command);
  // Once more, if it came while the offer was being answered.
  commands_.signal.Await([&] {
    return std::ranges::find(commands_.cancelled, command.key) != commands_.cancelled.end();
  });
  EXPECT_TRUE(functions_.cancelled.empty());
  dispatcher().Settled(std::array{command, function});
  EXPECT_EQ(functions_.settled, std::vector{function.key});
  EXPECT_EQ(commands_.settled, std::vector{command.key});
}

TEST_P(Conformance, CloseDrainsEachExecutorHoweverOftenAndFromHoweverManyThreads) {
  Answer(Next(kFunction));
  functions_.drained = Error{Code::kDrainTimeout, "task t does not stop"};
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        const Status closed = dispatcher().Close(Duration(0));
        ASSERT_FALSE(closed);
        EXPECT_EQ(closed.error().code, Code::kDrainTimeout);
        EXPECT_EQ(closed.error().message, "task t does not stop");
      });
  }
  EXPECT_GT(functions_.drains, 0);
  EXPECT_GT(commands_.drains, 0) << "one that does not stop keeps no other from being drained";
}

}  // namespace
}  // namespace headworks::dispatcher::conformance
