#include "time_value.h"

#include <date/tz.h>

#include <array>
#include <charconv>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "ast.h"

namespace headworks::expr::internal {
namespace {

using std::chrono::sys_days;
using std::chrono::sys_seconds;

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
constexpr std::int64_t kFirstSecond = -62135596800;
constexpr std::int64_t kLastSecond = 253402300799;

Error TimestampRange() {
  return {Code::kInvalidArgument, "the timestamp is out of range: years 0001 to 9999 exist"};
}
Error DurationRange() {
  return {Code::kInvalidArgument, "the duration is out of range: at most 292 years"};
}

Result<Value> MakeTimestamp(std::int64_t seconds, std::int64_t nanos) {
  if (seconds < kFirstSecond || seconds > kLastSecond) return TimestampRange();
  return Value::Timestamp(seconds, static_cast<std::uint32_t>(nanos));
}

/// Takes exactly `count` digits off `text`.
std::optional<int> TakeDigits(std::string_view* text, std::size_t count) {
  if (text->size() < count) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char c = (*text)[i];
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text->remove_prefix(count);
  return value;
}

bool Take(std::string_view* text, std::string_view what) {
  if (!text->starts_with(what)) return false;
  text->remove_prefix(what.size());
  return true;
}

/// ".123" in nanoseconds, at most nine digits; 0 if there is no dot.
std::optional<std::int64_t> TakeFraction(std::string_view* text) {
  if (!Take(text, ".")) return 0;
  std::int64_t nanos = 0;
  std::int64_t unit = kNanosPerSecond;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9') {
    unit /= 10;
    if (unit == 0) return std::nullopt;
    nanos += (text->front() - '0') * unit;
    text->remove_prefix(1);
  }
  return unit == kNanosPerSecond ? std::nullopt : std::optional(nanos);
}

/// "+02:00", "-02:30" or, where `sign_optional`, "02:00".
std::optional<std::chrono::seconds> TakeOffset(std::string_view* text, bool sign_optional) {
  const bool negative = Take(text, "-");
  if (!negative && !Take(text, "+") && !sign_optional) return std::nullopt;
  const auto hours = TakeDigits(text, 2);
  if (!hours || !Take(text, ":")) return std::nullopt;
  const auto minutes = TakeDigits(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::chrono::seconds offset{*hours * 3600 + *minutes * 60};
  return negative ? -offset : offset;
}

/// Date, time and offset; nullopt = not RFC 3339.
std::optional<std::pair<std::int64_t, std::int64_t>> TakeTimestamp(std::string_view text) {
  const auto year = TakeDigits(&text, 4);
  if (!year || !Take(&text, "-")) return std::nullopt;
  const auto month = TakeDigits(&text, 2);
  if (!month || !Take(&text, "-")) return std::nullopt;
  const auto day = TakeDigits(&text, 2);
  if (!day || (!Take(&text, "T") && !Take(&text, "t"))) return std::nullopt;
  const auto hour = TakeDigits(&text, 2);
  if (!hour || !Take(&text, ":")) return std::nullopt;
  const auto minute = TakeDigits(&text, 2);
  if (!minute || !Take(&text, ":")) return std::nullopt;
  const auto second = TakeDigits(&text, 2);
  if (!second) return std::nullopt;
  const auto nanos = TakeFraction(&text);
  if (!nanos || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  std::chrono::seconds offset{0};
  if (!Take(&text, "Z") && !Take(&text, "z")) {
    const auto taken = TakeOffset(&text, false);
    if (!taken) return std::nullopt;
    offset = *taken;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!text.empty() || !date.ok()) return std::nullopt;
  const sys_seconds time = sys_days(date) + std::chrono::hours(*hour) +
                           std::chrono::minutes(*minute) + std::chrono::seconds(*second) - offset;
  return std::pair(time.time_since_epoch().count(), *nanos);
}

struct Unit {
  std::string_view name;
  std::int64_t nanos;
};
// Longer names first, so that "ms" is not read as minutes.
constexpr std::array<Unit, 9> kUnits = {{
    {"ns", 1},
    {"us", 1'000},
    {"\xC2\xB5s", 1'000},  // micro sign
    {"\xCE\xBCs", 1'000},  // Greek mu
    {"ms", 1'000'000},
    {"s", kNanosPerSecond},
    {"m", 60 * kNanosPerSecond},
    {"h", 3600 * kNanosPerSecond},
    {"d", 86400 * kNanosPerSecond},
}};

/// One number with its unit, in nanoseconds; nullopt = none.  Wide, so that nothing overflows.
std::optional<__int128> TakePart(std::string_view* text) {
  __int128 whole = 0;
  std::size_t digits = 0;
  while (digits < text->size() && (*text)[digits] >= '0' && (*text)[digits] <= '9') {
    if (digits >= 19) return std::nullopt;
    whole = whole * 10 + ((*text)[digits++] - '0');
  }
  if (digits == 0) return std::nullopt;
  text->remove_prefix(digits);
  const auto fraction = TakeFraction(text);  // In 10^-9 of the unit.
  if (!fraction) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (Take(text, unit.name)) {
      return whole * unit.nanos + static_cast<__int128>(*fraction) * unit.nanos / kNanosPerSecond;
    }
  }
  return std::nullopt;
}

Result<Value> MakeDuration(__int128 nanos) {
  if (nanos > std::numeric_limits<std::int64_t>::max() ||
      nanos < std::numeric_limits<std::int64_t>::min()) {
    return DurationRange();
  }
  return Value::Duration(static_cast<std::int64_t>(nanos));
}

/// ".5" without trailing zeros; empty for 0.
std::string WriteFraction(std::int64_t nanos) {
  if (nanos == 0) return {};
  std::string digits = std::to_string(kNanosPerSecond + nanos).substr(1);
  digits.erase(digits.find_last_not_of('0') + 1);
  return '.' + digits;
}

std::string Padded(std::int64_t value, std::size_t width) {
  const std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

__int128 NanosOf(const Value& timestamp) {
  return static_cast<__int128>(timestamp.integer) * kNanosPerSecond + timestamp.size;
}

/// Local time of `timestamp` in `zone`, as if it were UTC.
sys_seconds LocalSeconds(const Value& timestamp, const Zone& zone) {
  const sys_seconds utc{std::chrono::seconds(timestamp.integer)};
  if (zone.named == nullptr) return utc + zone.offset;
  return utc + zone.named->get_info(utc).offset;
}

}  // namespace

Result<Zone> FindZone(std::string_view name) {
  std::string_view rest = name;
  const auto offset = TakeOffset(&rest, true);
  if (offset && rest.empty()) return Zone{.offset = *offset};
  try {
    const date::time_zone* zone = date::locate_zone(std::string(name));
    static_cast<void>(zone->get_info(sys_seconds()));  // Reads its file now, where it may fail.
    return Zone{.named = zone};
  } catch (const std::exception&) {
    return Error{Code::kInvalidArgument, "there is no time zone '" + Excerpt(name) +
                                             "'; write a name like \"Europe/Berlin\" or a "
                                             "distance like \"+02:00\""};
  }
}

Result<Value> ReadTimestamp(std::string_view text) {
  const auto read = TakeTimestamp(text);
  if (!read) {
    return Error{Code::kInvalidArgument,
                 "'" + Excerpt(text) +
                     "' is out of range or not a timestamp; write it like "
                     "\"2026-01-31T13:45:00Z\" or \"2026-01-31T13:45:00.5+02:00\""};
  }
  return MakeTimestamp(read->first, read->second);
}

std::string WriteTimestamp(const Value& timestamp) {
  const sys_seconds time{std::chrono::seconds(timestamp.integer)};
  const sys_days day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::int64_t second = (time - day).count();
  return Padded(static_cast<int>(date.year()), 4) + '-' +
         Padded(static_cast<unsigned>(date.month()), 2) + '-' +
         Padded(static_cast<unsigned>(date.day()), 2) + 'T' + Padded(second / 3600, 2) + ':' +
         Padded(second / 60 % 60, 2) + ':' + Padded(second % 60, 2) +
         WriteFraction(timestamp.size) + 'Z';
}

Result<Value> ReadDuration(std::string_view text) {
  std::string_view rest = text;
  const bool negative = Take(&rest, "-");
  if (!negative) Take(&rest, "+");
  if (rest == "0") return Value::Duration(0);
  constexpr std::size_t kMostParts = 32;
  __int128 sum = 0;
  std::size_t parts = 0;
  while (!rest.empty() && parts < kMostParts) {
    const auto part = TakePart(&rest);
    if (!part) break;
    sum += *part;
    ++parts;
  }
  if (parts == 0 || !rest.empty()) {
    return Error{Code::kInvalidArgument,
                 "'" + Excerpt(text) +
                     "' is not a duration; write numbers with units (d, h, m, s, ms, us, ns) like "
                     "\"1h30m\" or \"-1.5s\""};
  }
  return MakeDuration(negative ? -sum : sum);
}

std::string WriteDuration(const Value& duration) {
  const std::int64_t seconds = duration.integer / kNanosPerSecond;
  const std::int64_t rest = duration.integer % kNanosPerSecond;
  const std::string sign = seconds == 0 && rest < 0 ? "-" : "";
  return sign + std::to_string(seconds) + WriteFraction(rest < 0 ? -rest : rest) + 's';
}

Result<Value> TimestampFromSeconds(std::int64_t seconds) { return MakeTimestamp(seconds, 0); }

Result<Value> AddToTimestamp(const Value& timestamp, const Value& duration, int sign) {
  const __int128 nanos = NanosOf(timestamp) + static_cast<__int128>(duration.integer) * sign;
  auto seconds = static_cast<std::int64_t>(nanos / kNanosPerSecond);
  auto rest = static_cast<std::int64_t>(nanos % kNanosPerSecond);
  if (rest < 0) {
    rest += kNanosPerSecond;
    --seconds;
  }
  return MakeTimestamp(seconds, rest);
}

Result<Value> AddDurations(const Value& a, const Value& b, int sign) {
  return MakeDuration(static_cast<__int128>(a.integer) + static_cast<__int128>(b.integer) * sign);
}

Result<Value> SubtractTimestamps(const Value& a, const Value& b) {
  return MakeDuration(NanosOf(a) - NanosOf(b));
}

std::int64_t TimestampField(std::string_view name, const Value& timestamp, const Zone& zone) {
  const sys_seconds local = LocalSeconds(timestamp, zone);
  const sys_days day = std::chrono::floor<std::chrono::days>(local);
  const std::chrono::year_month_day date(day);
  const std::int64_t second = (local - day).count();
  if (name == "getDate") return static_cast<unsigned>(date.day());
  if (name == "getDayOfMonth")
    return static_cast<std::int64_t>(static_cast<unsigned>(date.day())) - 1;
  if (name == "getDayOfWeek") return std::chrono::weekday(day).c_encoding();
  if (name == "getDayOfYear") {
    return (day - sys_days(date.year() / std::chrono::January / 1)).count();
  }
  if (name == "getFullYear") return static_cast<int>(date.year());
  if (name == "getHours") return second / 3600;
  if (name == "getMilliseconds") return timestamp.size / 1'000'000;
  if (name == "getMinutes") return second / 60 % 60;
  if (name == "getMonth") return static_cast<std::int64_t>(static_cast<unsigned>(date.month())) - 1;
  return second % 60;
}

std::int64_t DurationField(std::string_view name, const Value& duration) {
  const std::int64_t seconds = duration.integer / kNanosPerSecond;
  if (name == "getHours") return seconds / 3600;
  if (name == "getMinutes") return seconds / 60;
  if (name == "getMilliseconds") return duration.integer % kNanosPerSecond / 1'000'000;
  return seconds;
}

}  // namespace headworks::expr::internal
