#include "retry_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::executor_process {
namespace {

/// A shell's way of telling of a signal.
constexpr int kSignalBase = 128;

std::optional<int> CodeOf(const model::Outcome& outcome) {
  if (outcome.exit_code) return outcome.exit_code;
  if (outcome.signal) return kSignalBase + *outcome.signal;
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<RetryWatch>> RetryWatch::For(const model::RetryPolicy& policy) {
  if (!policy.when && !policy.unless) return std::unique_ptr<RetryWatch>();
  std::unique_ptr<RetryWatch> watch(new RetryWatch);
  HEADWORKS_TRY(Fill(watch->when_, policy.when, "retry.when"));
  HEADWORKS_TRY(Fill(watch->unless_, policy.unless, "retry.unless"));
  return watch;
}

Status RetryWatch::Fill(Side& side, const std::optional<model::RetryCondition>& condition,
                        std::string_view name) {
  if (!condition) return {};
  side.condition = &*condition;
  if (condition->output_matches.empty()) return {};
  RE2::Options options;
  options.set_log_errors(false);
  side.pattern = std::make_unique<RE2>(condition->output_matches, options);
  if (side.pattern->ok()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}.output_matches is no RE2 pattern: {}", name, side.pattern->error())};
}

void RetryWatch::See(std::string_view line) {
  for (Side* side : {&when_, &unless_}) {
    if (side->pattern == nullptr || side->seen) continue;
    side->seen = RE2::PartialMatch({line.data(), line.size()}, *side->pattern);
  }
}

bool RetryWatch::HasCode(const Side& side, const model::Outcome& outcome) {
  const std::optional<int> code = CodeOf(outcome);
  return side.condition != nullptr && code && outcome.reason != model::Reason::kTimeout &&
         std::ranges::find(side.condition->exit_codes, *code) != side.condition->exit_codes.end();
}

void RetryWatch::Judge(model::Outcome& outcome) const {
  if (outcome.verdict != model::Verdict::kRetry) return;
  const auto final = [&](std::string_view why) {
    outcome.verdict = model::Verdict::kFailed;
    outcome.error += fmt::format("; not tried again: {}", why);
  };
  if (HasCode(unless_, outcome)) return final("retry.unless lists it");
  if (unless_.seen) return final("its output matches retry.unless");
  if (when_.condition == nullptr || when_.seen || HasCode(when_, outcome)) return;
  if (outcome.reason != model::Reason::kTimeout) final("it is nothing that retry.when lists");
}

}  // namespace headworks::executor_process
