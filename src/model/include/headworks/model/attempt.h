#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headworks/base/ids.h"
#include "headworks/base/time.h"

namespace headworks::model {

/// How one attempt ended: what the engine must do with the task next.
///
/// Not an error type: `Outcome::error` says what went wrong, this says what happens now.
/// "Consumes" means that the attempt counts towards `max_attempts`.
/// Stored and sent on the wire: append, never renumber.
enum class Verdict : std::uint8_t {
  /// The task's code returned a result.  Terminal.  Consumes.
  kSucceeded = 1,
  /// Failed, may work later.  Parked until `RetryPolicy::DelayAfter`, failed for good if this was
  /// the last try.  Consumes.
  kRetry = 2,
  /// Retrying cannot help (bad input).  Terminal, even with tries left.  Consumes.
  kFailed = 3,
  /// The task says that there is nothing to do.  Terminal.
  kSkipped = 4,
  /// Not yet (poll, signal).  Parked until `Outcome::not_before`.  Same try, new epoch.
  kSnoozed = 5,
  /// The worker shut down first.  Ready at once.  A deploy must never exhaust a budget.
  kInterrupted = 6,
  /// Stopped on request.  Terminal.
  kCancelled = 7,
  /// The attempt is provably over without a word of its own (I4).  Counts a loss, not a try.
  kLost = 8,
};

/// Why something ended or waits, for people and for rules.  Stored: append, never renumber.
enum class Reason : std::uint8_t {
  kNone = 0,
  /// The task's code failed (exception, error result).
  kError = 1,
  kExitCode = 2,
  kSignal = 3,
  kTimeout = 4,
  /// `max_losses` attempts ended without a word; of a parked task: fewer did, and the next waits.
  kLost = 5,
  kDispatchFailed = 6,
  kRefused = 7,
  /// The output was no JSON object, or too large.
  kOutput = 8,
  /// Somebody asked for it.
  kCancelRequested = 9,
  /// Another task failed and the workflow says `on_failure: cancel_rest`.
  kCancelRest = 10,
  kRunTimeout = 11,
  kFinallyTimeout = 12,
  /// `cancel_timeout` passed and the attempt is not provably over (zombie).
  kCancelTimeout = 13,
  /// Set by a person.
  kMarked = 14,
  kBackoff = 15,
  kSnooze = 16,
  /// The trigger rule decided.
  kTriggerRule = 17,
  /// An `on_cancel` task of a run that nobody cancelled.
  kNotCancelled = 18,
  kSpawn = 19,
  /// An expression of the task could not be evaluated.
  kExpression = 20,
  /// Its `when` is false.
  kWhen = 21,
  /// The task was not over within its `deadline`.
  kDeadline = 22,
  /// Ready, but its pool has too few free permits.
  kPermit = 23,
  /// Its executor has it and has not started it within its `start_timeout`.
  kPending = 24,
  /// ... nor for `pending_timeout` after that.
  kPendingTimeout = 25,
  /// Not started within its `start_timeout`, and its executor cannot say what became of it.
  kUnknown = 26,
  /// It ran elsewhere for as long as its token may be renewed, and was stopped.
  kCredentialCeiling = 27,
  /// A file that the task was to leave is not there or cannot be kept, or one that it needs cannot
  /// be had.
  kArtifact = 28,
};

/// One execution of a task run; `(run, epoch)` is unique.
struct AttemptKey {
  TenantId tenant;
  RunNo run;
  TaskNo task;
  /// -1 = the task is not mapped.
  std::int32_t map_index = -1;
  Epoch epoch;

  auto operator<=>(const AttemptKey&) const = default;
};

/// What an attempt says at its end.
struct Outcome {
  Verdict verdict = Verdict::kSucceeded;
  Reason reason = Reason::kNone;
  /// For people; at most 4 KiB are kept.
  std::string error;
  /// As WriteResult wrote it: the output, validated by the executor, and what stands for the files
  /// that were kept; empty = none.
  std::string output;
  std::optional<int> exit_code;
  std::optional<int> signal;
  /// kSnoozed: not before this.
  Instant not_before{};
  /// By the clock of the executor.
  Instant started_at{};
  Instant ended_at{};
};

/// What offering a task to its executor ended in (section 5 of the design).
enum class Disposition : std::uint8_t {
  kDispatched = 1,
  /// Nothing was attempted; the row stays queued, same epoch, until there is credit.
  kDeferred = 2,
  /// "Later", said the platform: same epoch after a jittered delay.  No budget.
  kBackpressure = 3,
  /// The platform could not answer: same epoch, exponential 1 s to 60 s.  No budget.
  kTransient = 4,
  /// The platform answered no: epoch over, dispatch failures + 1.
  kRejected = 5,
  /// Policy forbids it: ends at once, no retries of any kind.
  kRefused = 6,
};

std::string_view VerdictName(Verdict verdict);
std::string_view ReasonName(Reason reason);
std::string_view DispositionName(Disposition disposition);

}  // namespace headworks::model
