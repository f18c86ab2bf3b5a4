#include "headworks/model/run.h"

#include <algorithm>
#include <cmath>

#include "headworks/base/check.h"
#include "headworks/base/random.h"

namespace headworks::model {
namespace {

constexpr std::array<std::string_view, 6> kRunStateNames = {"",          "pending", "running",
                                                            "succeeded", "failed",  "cancelled"};
constexpr std::array<std::string_view, kTaskStateCount> kTaskStateNames = {
    "waiting",   "ready",  "queued",  "running",         "parked",
    "succeeded", "failed", "skipped", "upstream_failed", "cancelled"};

template <std::size_t N>
std::string_view NameIn(const std::array<std::string_view, N>& names, std::size_t index) {
  return index < N && !names[index].empty() ? names[index] : "unknown";
}

/// The first match from the left, once `wait` no longer holds.
TriggerDecision Settle(bool upstream_failed, bool skipped) {
  if (upstream_failed) return TriggerDecision::kUpstreamFailed;
  return skipped ? TriggerDecision::kSkip : TriggerDecision::kRun;
}

}  // namespace

std::string_view RunStateName(RunState state) {
  return NameIn(kRunStateNames, static_cast<std::size_t>(state));
}

std::string_view TaskStateName(TaskState state) {
  return NameIn(kTaskStateNames, static_cast<std::size_t>(state));
}

std::optional<RunState> RunStateFromName(std::string_view name) {
  const auto found = std::ranges::find(kRunStateNames, name);
  if (name.empty() || found == kRunStateNames.end()) return std::nullopt;
  return static_cast<RunState>(found - kRunStateNames.begin());
}

TriggerDecision Decide(TriggerRule rule, const UpstreamCounts& counts, std::uint32_t total) {
  const std::uint32_t s = counts.succeeded;
  const std::uint32_t f = counts.failed;
  const std::uint32_t uf = counts.upstream_failed;
  const std::uint32_t k = counts.skipped;
  HEADWORKS_CHECK(std::uint64_t{s} + f + uf + k <= total);
  if (total == 0 || rule == TriggerRule::kAlways) return TriggerDecision::kRun;
  // Only "run" may come early: the other two would depend on the order of arrival.
  if ((rule == TriggerRule::kOneSuccess && s > 0) ||
      (rule == TriggerRule::kOneFailed && f + uf > 0) ||
      (rule == TriggerRule::kOneDone && s + f > 0))
    return TriggerDecision::kRun;
  if (s + f + uf + k < total) return TriggerDecision::kWait;
  switch (rule) {
    case TriggerRule::kAllSuccess:
      return Settle(f + uf > 0, k > 0);
    case TriggerRule::kAllFailed:
      return Settle(false, s + k > 0);
    case TriggerRule::kAllDone:
    case TriggerRule::kAlways:
      return TriggerDecision::kRun;
    case TriggerRule::kAllSkipped:
      return Settle(false, s + f + uf > 0);
    case TriggerRule::kOneSuccess:
      return Settle(k < total, true);
    case TriggerRule::kOneFailed:
    case TriggerRule::kOneDone:
      return TriggerDecision::kSkip;
    case TriggerRule::kNoneFailed:
      return Settle(f + uf > 0, false);
    case TriggerRule::kNoneFailedMinOneSuccess:
      return Settle(f + uf > 0, k == total);
    case TriggerRule::kNoneSkipped:
      return Settle(false, k > 0);
  }
  HEADWORKS_CHECK(false && "trigger rule");
}

Duration RetryPolicy::DelayAfter(int tries, std::uint64_t seed) const {
  const std::int64_t n = std::max(tries, 1);
  const std::int64_t first = initial.count();
  const std::int64_t limit = max.count();
  std::int64_t delay = first;
  // Each compares before it multiplies, so that nothing overflows.
  if (backoff == Backoff::kLinear) {
    delay = first > limit / n ? limit : first * n;
  } else if (backoff == Backoff::kExponential) {
    delay = n > 62 || first > (limit >> (n - 1)) ? limit : first << (n - 1);
    if (first == 0) delay = 0;
  }
  delay = std::min(delay, limit);
  // 53 bits make a double in [0, 1).
  const double draw = std::ldexp(static_cast<double>(Mix64(seed + 0x9e3779b97f4a7c15U) >> 11), -53);
  const double factor = 1 - jitter + 2 * jitter * draw;
  return Duration(std::llround(static_cast<double>(delay) * factor));
}

}  // namespace headworks::model
