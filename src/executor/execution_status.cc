#include "headworks/executor/execution_status.h"

#include <tuple>
#include <utility>

namespace headworks::executor {
namespace {

using model::Reason;
using model::Verdict;

std::pair<Verdict, Reason> VerdictOf(ExecutionStatus status) {
  switch (status) {
    case ExecutionStatus::kCompleted:
      return {Verdict::kSucceeded, Reason::kNone};
    case ExecutionStatus::kFailed:
      return {Verdict::kFailed, Reason::kError};
    case ExecutionStatus::kRetry:
      return {Verdict::kRetry, Reason::kError};
    case ExecutionStatus::kSkipped:
      return {Verdict::kSkipped, Reason::kNone};
    case ExecutionStatus::kTimedOut:
      return {Verdict::kRetry, Reason::kTimeout};
    case ExecutionStatus::kSnoozed:
      return {Verdict::kSnoozed, Reason::kSnooze};
    case ExecutionStatus::kCancelled:
      return {Verdict::kCancelled, Reason::kCancelRequested};
    case ExecutionStatus::kInterrupted:
      return {Verdict::kInterrupted, Reason::kNone};
    case ExecutionStatus::kLost:
      break;
  }
  return {Verdict::kLost, Reason::kLost};
}

}  // namespace

model::Outcome OutcomeOf(ExecutionStatus status, std::string error) {
  model::Outcome outcome;
  std::tie(outcome.verdict, outcome.reason) = VerdictOf(status);
  outcome.error = std::move(error);
  return outcome;
}

}  // namespace headworks::executor
