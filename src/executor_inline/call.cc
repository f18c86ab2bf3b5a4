#include "call.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "headworks/base/json.h"
#include "headworks/executor/execution_status.h"
#include "headworks/model/declared_type.h"

namespace headworks::executor_inline {
namespace {

using executor::ExecutionStatus;
using model::Reason;
using model::Verdict;

constexpr std::size_t kMaxErrorBytes = 4096;
constexpr Duration kInputRetry = std::chrono::seconds(1);
constexpr Duration kMaxSnooze = std::chrono::hours(24 * 3650);

CallEnd End(Verdict verdict, Reason reason, std::string_view error) {
  CallEnd end;
  end.outcome.verdict = verdict;
  end.outcome.reason = reason;
  end.outcome.error = error.substr(0, kMaxErrorBytes);
  return end;
}

CallEnd BrokeOff(std::string_view error) {
  CallEnd end = End(Verdict::kRetry, Reason::kError, error);
  end.broke_off = true;
  return end;
}

CallEnd SnoozeEnd(const Snooze& snooze) {
  CallEnd end = End(Verdict::kSnoozed, Reason::kSnooze, snooze.why);
  end.snooze = std::clamp(snooze.delay, Duration{0}, kMaxSnooze);
  return end;
}

/// It never began: that costs no try (I7).
CallEnd InputEnd(const Error& error) {
  if (error.code == Code::kInvalidArgument)
    return End(Verdict::kFailed, Reason::kExpression, error.message);
  if (error.code != Code::kUnavailable)
    return End(Verdict::kFailed, Reason::kDispatchFailed, error.message);
  CallEnd end = End(Verdict::kSnoozed, Reason::kDispatchFailed, error.message);
  end.snooze = kInputRetry;
  return end;
}

CallEnd OutputEnd(Json json, const model::OutputSpec& spec) {
  CallEnd end;
  Result<boost::json::object> object = boost::json::object();
  if (!json.text.empty()) object = ParseJsonObject(json.text, "output", JsonLimits{});
  if (!object) return End(Verdict::kFailed, Reason::kOutput, object.error().message);
  if (const Status as_declared = model::CheckOutput(spec, *object); !as_declared)
    return End(Verdict::kFailed, Reason::kOutput, as_declared.error().message);
  end.outcome.output = std::move(json.text);
  return end;
}

}  // namespace

CallEnd Call(const TaskFunction& function, TaskContext& context, const model::OutputSpec& output) {
  try {
    TaskResult<Json> result = function(context);
    if (result.fail() != nullptr)
      return End(Verdict::kFailed, Reason::kError, result.fail()->what());
    if (result.skip() != nullptr) return End(Verdict::kSkipped, Reason::kNone, result.skip()->why);
    if (result.snooze() != nullptr) return SnoozeEnd(*result.snooze());
    return OutputEnd(std::move(*result.value()), output);
  } catch (const Fail& fail) {
    return End(Verdict::kFailed, Reason::kError, fail.what());
  } catch (const Skip& skip) {
    return End(Verdict::kSkipped, Reason::kNone, skip.why);
  } catch (const Snooze& snooze) {
    return SnoozeEnd(snooze);
  } catch (const InputMissing& missing) {
    return InputEnd(missing.error);
  } catch (const Cancelled&) {
    return BrokeOff("the task stopped itself");
  } catch (const std::exception& error) {
    return BrokeOff(error.what());
  } catch (...) {
    return BrokeOff("the task threw something that is no std::exception");
  }
}

model::Outcome Judge(CallEnd end, StopCause cause, Duration timeout, Instant now) {
  model::Outcome outcome = std::move(end.outcome);
  const bool failed = outcome.verdict == Verdict::kFailed;
  const bool open = end.broke_off || outcome.verdict == Verdict::kSnoozed;
  if (outcome.verdict == Verdict::kSnoozed) outcome.not_before = now + end.snooze;
  if (cause == StopCause::kTimeout && !failed) {
    outcome = executor::OutcomeOf(ExecutionStatus::kTimedOut,
                                  fmt::format("over its timeout of {}", FormatDuration(timeout)));
  } else if (cause == StopCause::kCancel && open) {
    outcome = executor::OutcomeOf(ExecutionStatus::kCancelled, std::move(outcome.error));
  } else if (cause == StopCause::kDrain && end.broke_off) {
    outcome = executor::OutcomeOf(ExecutionStatus::kInterrupted, std::move(outcome.error));
  }
  return outcome;
}

}  // namespace headworks::executor_inline
