#include "outcome.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "headworks/base/check.h"
#include "headworks/executor/execution_status.h"

namespace headworks::executor_process {
namespace {

using executor::ExecutionStatus;
using model::Outcome;
using model::Reason;
using model::Verdict;
using supervisor::Cause;
using supervisor::SpawnStep;

constexpr Duration kAgainAfter = std::chrono::seconds(1);

constexpr char kKilledInTime[] = "killed, because its lease was about to end";

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("SIG{} ({})", name, signal);
}

std::string ExitText(int code) {
  switch (code) {
    case 126:
      return "exit code 126: a command was found but is not executable (see the task's log)";
    case 127:
      return "exit code 127: a command was not found (see the task's log, and PATH in its env)";
    default:
      return fmt::format("exit code {}", code);
  }
}

std::string ExecText(int error, const std::string& command) {
  switch (error) {
    case ENOENT:
      return fmt::format(
          "command not found: {}; check its name, the PATH of the task, and the "
          "interpreter in its first line",
          command);
    case EACCES:
      return fmt::format("{} is not executable; chmod +x it, or name its interpreter", command);
    case ENOEXEC:
      return fmt::format("{} is no program and has no #! line; name its interpreter", command);
    case E2BIG:
      return fmt::format(
          "arguments and environment of {} are longer than the system takes; put "
          "large data into files",
          command);
    default:
      return fmt::format("cannot execute {}: {}", command, std::strerror(error));
  }
}

}  // namespace

Outcome OutcomeOf(const supervisor::SpawnFailed& failed, const std::string& command,
                  const std::string& cwd, Instant now) {
  Outcome outcome = Failure(Verdict::kRetry, Reason::kSpawn, {});
  if (failed.error == ESHUTDOWN) return NotStarted(StopCause::kDrain);
  switch (failed.step) {
    case SpawnStep::kExec:
      outcome.error = ExecText(failed.error, command);
      break;
    case SpawnStep::kWorkingDirectory:
      outcome.error = fmt::format("cannot enter the task's folder {}: {}; make it, or set cwd", cwd,
                                  std::strerror(failed.error));
      break;
    default:
      return NotNow(Reason::kSpawn,
                    fmt::format("cannot start a process: {}", std::strerror(failed.error)), now);
  }
  return outcome;
}

Outcome OutcomeOf(const supervisor::Ended& ended, StopCause stop, Duration timeout) {
  Outcome outcome;
  if (ended.signal != 0) {
    outcome.signal = ended.signal;
  } else {
    outcome.exit_code = ended.exit_code;
  }
  const auto with_exit = [&](ExecutionStatus status, std::string error) {
    Outcome stopped = executor::OutcomeOf(status, std::move(error));
    stopped.exit_code = outcome.exit_code;
    stopped.signal = outcome.signal;
    return stopped;
  };
  const char* force = ended.killed != 0 ? "; it ignored SIGTERM and was killed" : "";
  switch (ended.cause) {
    case Cause::kTimeout:
      return with_exit(ExecutionStatus::kTimedOut,
                       fmt::format("timed out after {}{}", FormatDuration(timeout), force));
    case Cause::kCancel:
    case Cause::kShutdown: {
      const bool drain = stop == StopCause::kDrain || ended.cause == Cause::kShutdown;
      return with_exit(drain ? ExecutionStatus::kInterrupted : ExecutionStatus::kCancelled,
                       fmt::format("{}{}", drain ? "stopped by a shutdown" : "cancelled", force));
    }
    case Cause::kKillAt:
      return with_exit(ExecutionStatus::kInterrupted, kKilledInTime);
    case Cause::kNone:
      break;
  }
  if (ended.signal != 0) {
    outcome.verdict = Verdict::kRetry;
    outcome.reason = Reason::kSignal;
    outcome.error = fmt::format("killed by {}{}", SignalText(ended.signal),
                                ended.signal == SIGKILL ? ", maybe for want of memory" : "");
  } else if (ended.exit_code != 0) {
    outcome.verdict = Verdict::kRetry;
    outcome.reason = Reason::kExitCode;
    outcome.error = ExitText(ended.exit_code);
  }
  return outcome;
}

Outcome NotStarted(StopCause stop) {
  if (stop == StopCause::kDrain) {
    return executor::OutcomeOf(ExecutionStatus::kInterrupted,
                               "stopped by a shutdown before it started");
  }
  return executor::OutcomeOf(ExecutionStatus::kCancelled, "cancelled before it started");
}

Outcome KilledInTime() { return executor::OutcomeOf(ExecutionStatus::kInterrupted, kKilledInTime); }

Outcome NotNow(Reason reason, std::string error, Instant now) {
  Outcome outcome = Failure(Verdict::kSnoozed, reason, std::move(error));
  outcome.not_before = now + kAgainAfter;
  return outcome;
}

Outcome Failure(Verdict verdict, Reason reason, std::string error) {
  Outcome outcome;
  outcome.verdict = verdict;
  outcome.reason = reason;
  outcome.error = std::move(error);
  return outcome;
}

Outcome NotMarked(const Error& refusal, Instant now) {
  // Its capacity was checked by Open: either the start was claimed before, or the disk is full.
  HEADWORKS_CHECK(refusal.code == Code::kConflict || refusal.code == Code::kUnavailable);
  return refusal.code == Code::kConflict ? Lost(refusal.message)
                                         : NotNow(Reason::kSpawn, refusal.message, now);
}

Outcome Lost(std::string why) {
  return executor::OutcomeOf(ExecutionStatus::kLost, std::move(why));
}

}  // namespace headworks::executor_process
