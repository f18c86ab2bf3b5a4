#include "headworks/base/time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>

namespace headworks {
namespace {

Duration Read(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::chrono::duration_cast<Duration>(std::chrono::seconds(t.tv_sec) +
                                              std::chrono::nanoseconds(t.tv_nsec));
}

/// No earlier one can be told in whole seconds and a rest.
constexpr Instant kFirstWholeSecond =
    Instant(std::chrono::duration_cast<std::chrono::seconds>(Duration::min()));

constexpr Duration kLongest = std::chrono::hours(24 * 3653);

/// The unit at the front of `text` (empty if none): its length in characters and its worth.
std::pair<std::size_t, Duration> UnitAt(std::string_view text) {
  if (text.starts_with("ms")) return {2, std::chrono::milliseconds(1)};
  if (text.starts_with("us")) return {2, Duration(1)};
  if (text.starts_with("s")) return {1, std::chrono::seconds(1)};
  if (text.starts_with("m")) return {1, std::chrono::minutes(1)};
  if (text.starts_with("h")) return {1, std::chrono::hours(1)};
  if (text.starts_with("d")) return {1, std::chrono::hours(24)};
  return {0, Duration(0)};
}

}  // namespace

Instant SystemClock::Now() { return Instant(Read(CLOCK_REALTIME)); }
Duration SystemClock::Monotonic() { return Read(CLOCK_BOOTTIME); }

std::string FormatInstant(Instant instant) {
  instant = std::max(instant, kFirstWholeSecond);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(instant);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(static_cast<std::time_t>(seconds.time_since_epoch().count())),
                     (instant - seconds).count());
}

std::string FormatDuration(Duration duration) {
  const auto us = duration.count();
  if (us < 0) return "-" + FormatDuration(-duration);
  if (us == 0) return "0s";
  if (us < 1'000) return fmt::format("{}us", us);
  if (us < 1'000'000) return fmt::format("{}ms", us / 1'000);
  if (us < 60'000'000) {
    const auto tenths = us / 100'000;
    return fmt::format("{:.1f}s", static_cast<double>(tenths) / 10);
  }
  const auto s = us / 1'000'000;
  if (s < 3'600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3'600, s / 60 % 60);
}

Result<Duration> ParseDuration(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is not a duration: {}; write e.g. 250ms, 30s, 10m, 1h30m or 2d",
                             text, why)};
  };
  if (text.empty()) return bad("it is empty");
  if (text.find(' ') != std::string_view::npos) return bad("it has a blank in it");
  if (text.starts_with('-')) return bad("it is negative");
  if (text.find('.') != std::string_view::npos)
    return bad("a fraction takes a smaller unit, 1s500ms for one and a half seconds");
  Duration sum(0);
  for (std::string_view rest = text; !rest.empty();) {
    std::int64_t number = 0;
    const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (ec == std::errc::result_out_of_range) return bad("the number is too large");
    if (ec != std::errc() || number < 0) return bad("a number must come before each unit");
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const auto [length, unit] = UnitAt(rest);
    if (length == 0)
      return bad(rest.empty() ? "the unit is missing" : "the units are us, ms, s, m, h and d");
    if (number > kLongest / unit) return bad("it is longer than 10 years");
    sum += number * unit;
    if (sum > kLongest) return bad("it is longer than 10 years");
    rest.remove_prefix(length);
  }
  return sum;
}

}  // namespace headworks
