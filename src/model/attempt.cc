#include "headworks/model/attempt.h"

namespace headworks::model {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSucceeded:
      return "succeeded";
    case Verdict::kRetry:
      return "retry";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kSkipped:
      return "skipped";
    case Verdict::kSnoozed:
      return "snoozed";
    case Verdict::kInterrupted:
      return "interrupted";
    case Verdict::kCancelled:
      return "cancelled";
    case Verdict::kLost:
      return "lost";
  }
  return "unknown";
}

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kError:
      return "error";
    case Reason::kExitCode:
      return "exit_code";
    case Reason::kSignal:
      return "signal";
    case Reason::kTimeout:
      return "timeout";
    case Reason::kLost:
      return "lost";
    case Reason::kDispatchFailed:
      return "dispatch_failed";
    case Reason::kRefused:
      return "refused";
    case Reason::kOutput:
      return "output";
    case Reason::kCancelRequested:
      return "cancel_requested";
    case Reason::kCancelRest:
      return "cancel_rest";
    case Reason::kRunTimeout:
      return "run_timeout";
    case Reason::kFinallyTimeout:
      return "finally_timeout";
    case Reason::kCancelTimeout:
      return "cancel_timeout";
    case Reason::kMarked:
      return "marked";
    case Reason::kBackoff:
      return "backoff";
    case Reason::kSnooze:
      return "snooze";
    case Reason::kTriggerRule:
      return "trigger_rule";
    case Reason::kNotCancelled:
      return "not_cancelled";
    case Reason::kSpawn:
      return "spawn";
    case Reason::kExpression:
      return "expression";
    case Reason::kWhen:
      return "when";
    case Reason::kDeadline:
      return "deadline";
    case Reason::kPermit:
      return "permit";
    case Reason::kPending:
      return "pending";
    case Reason::kPendingTimeout:
      return "pending_timeout";
    case Reason::kUnknown:
      return "unknown";
    case Reason::kCredentialCeiling:
      return "credential_ceiling";
    case Reason::kArtifact:
      return "artifact";
  }
  return "unknown";
}

std::string_view DispositionName(Disposition disposition) {
  switch (disposition) {
    case Disposition::kDispatched:
      return "dispatched";
    case Disposition::kDeferred:
      return "deferred";
    case Disposition::kBackpressure:
      return "backpressure";
    case Disposition::kTransient:
      return "transient";
    case Disposition::kRejected:
      return "rejected";
    case Disposition::kRefused:
      return "refused";
  }
  return "unknown";
}

}  // namespace headworks::model
