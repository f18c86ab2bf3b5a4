#include <gtest/gtest.h>

#include <tuple>

#include "headworks/executor/execution_status.h"
#include "headworks/executor/executor.h"

// What executors say, and what the engine takes it for.
namespace headworks::executor {
namespace {

using model::Disposition;
using model::Reason;
using model::Verdict;

TEST(ExecutionStatus, EachHasOneVerdictAndReason) {
  const std::tuple<ExecutionStatus, Verdict, Reason> rows[] = {
      {ExecutionStatus::kCompleted, Verdict::kSucceeded, Reason::kNone},
      {ExecutionStatus::kFailed, Verdict::kFailed, Reason::kError},
      {ExecutionStatus::kRetry, Verdict::kRetry, Reason::kError},
      {ExecutionStatus::kSkipped, Verdict::kSkipped, Reason::kNone},
      {ExecutionStatus::kTimedOut, Verdict::kRetry, Reason::kTimeout},
      {ExecutionStatus::kSnoozed, Verdict::kSnoozed, Reason::kSnooze},
      {ExecutionStatus::kCancelled, Verdict::kCancelled, Reason::kCancelRequested},
      {ExecutionStatus::kInterrupted, Verdict::kInterrupted, Reason::kNone},
      {ExecutionStatus::kLost, Verdict::kLost, Reason::kLost}};
  for (const auto& [status, verdict, reason] : rows) {
    const model::Outcome outcome = OutcomeOf(status, "why");
    EXPECT_EQ(outcome.verdict, verdict);
    EXPECT_EQ(outcome.reason, reason);
    EXPECT_EQ(outcome.error, "why");
  }
}

TEST(DispatchError, EachHasOneDispositionAndCode) {
  const std::tuple<DispatchError, Disposition, Code, std::string_view> rows[] = {
      {DispatchError::kExecutorNotFound, Disposition::kRejected, Code::kNotFound,
       "executor_not_found"},
      {DispatchError::kNoCapacity, Disposition::kDeferred, Code::kAtCapacity, "no_capacity"},
      {DispatchError::kTaskNotFound, Disposition::kRejected, Code::kNotFound, "task_not_found"},
      {DispatchError::kContext, Disposition::kRejected, Code::kInvalidArgument, "context"},
      {DispatchError::kValidation, Disposition::kRefused, Code::kPermissionDenied, "validation"},
      {DispatchError::kStore, Disposition::kTransient, Code::kUnavailable, "store"},
      {DispatchError::kExecutionFailed, Disposition::kRejected, Code::kInternal,
       "execution_failed"}};
  for (const auto& [error, disposition, code, name] : rows) {
    const OfferResult result = NotTaken(error, "why");
    EXPECT_EQ(result.disposition, disposition) << name;
    EXPECT_EQ(result.error, error);
    EXPECT_EQ(result.cause, "why");
    EXPECT_EQ(CodeOf(error), code) << name;
    EXPECT_EQ(DispatchErrorName(error), name);
  }
}

TEST(Metrics, WhatIsNotActiveIsAvailable) {
  EXPECT_EQ((Metrics{.active = 3, .max = 8}).available(), 5U);
  EXPECT_EQ((Metrics{.active = 9, .max = 8}).available(), 0U) << "lowered while it was full";
}

}  // namespace
}  // namespace headworks::executor
