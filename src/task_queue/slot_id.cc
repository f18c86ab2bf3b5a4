#include "headworks/task_queue/slot_id.h"

#include <fmt/format.h>

#include <charconv>

#include "headworks/base/json.h"

namespace headworks::task_queue {
namespace {

using std::chrono::seconds;

constexpr seconds kDay = std::chrono::hours(24);

Error Unreadable(std::string_view text) {
  return {Code::kInvalidArgument,
          fmt::format("'{}' is not a planned time; write e.g. 2026-05-06T12:00:00+00:00, with six "
                      "digits if there are microseconds, and without Z",
                      text.substr(0, 64))};
}

/// Takes fixed parts off the front of a text; `ok` is false from the first that does not fit.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  int Digits(std::size_t count) {
    int value = 0;
    ok = ok && rest_.size() >= count && rest_[0] != '-';
    if (!ok) return 0;
    const auto [end, ec] = std::from_chars(rest_.data(), rest_.data() + count, value);
    ok = ec == std::errc() && end == rest_.data() + count;
    rest_.remove_prefix(count);
    return value;
  }
  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Need(char c) { ok = Take(c) && ok; }
  bool at_end() const { return rest_.empty(); }

  bool ok = true;

 private:
  std::string_view rest_;
};

}  // namespace

Result<std::string> FormatPlannedTime(const PlannedTime& time) {
  const auto day = std::chrono::floor<std::chrono::days>(time.local);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time.local - day);
  const int year = static_cast<int>(date.year());
  if (year < 1 || year > 9999) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a planned time in the year {}; give 1 to 9999", year)};
  }
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", year, static_cast<unsigned>(date.month()),
                  static_cast<unsigned>(date.day()), clock.hours().count(), clock.minutes().count(),
                  clock.seconds().count());
  if (const auto micros = clock.subseconds().count(); micros != 0) {
    text += fmt::format(".{:06}", micros);
  }
  if (!time.utc_offset) return text;
  if (*time.utc_offset <= -kDay || *time.utc_offset >= kDay) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a planned time {} s from UTC; give less than 24 h either way",
                             time.utc_offset->count())};
  }
  const std::chrono::hh_mm_ss offset(std::chrono::abs(*time.utc_offset));
  text += fmt::format("{}{:02}:{:02}", *time.utc_offset < seconds(0) ? '-' : '+',
                      offset.hours().count(), offset.minutes().count());
  if (offset.seconds().count() != 0) text += fmt::format(":{:02}", offset.seconds().count());
  return text;
}

Result<PlannedTime> ParsePlannedTime(std::string_view text) {
  Reader in(text);
  const int year = in.Digits(4);
  in.Need('-');
  const int month = in.Digits(2);
  in.Need('-');
  const int day = in.Digits(2);
  in.Need('T');
  Duration clock = std::chrono::hours(in.Digits(2));
  in.Need(':');
  clock += std::chrono::minutes(in.Digits(2));
  in.Need(':');
  clock += seconds(in.Digits(2));
  if (in.Take('.')) clock += Duration(in.Digits(6));
  PlannedTime time;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!in.ok || !date.ok()) return Unreadable(text);
  time.local = std::chrono::local_days(date) + clock;
  const bool minus = in.Take('-');
  if (minus || in.Take('+')) {
    seconds offset = std::chrono::hours(in.Digits(2));
    in.Need(':');
    offset += std::chrono::minutes(in.Digits(2));
    if (in.Take(':')) offset += seconds(in.Digits(2));
    time.utc_offset = minus ? -offset : offset;
  }
  // What is written back otherwise is out of range somewhere, or says the same in another way.
  const auto again = FormatPlannedTime(time);
  if (!in.ok || !in.at_end() || !again || *again != text) return Unreadable(text);
  return time;
}

Result<std::string> SlotTaskId(std::string_view schedule_id, const PlannedTime& time) {
  HEADWORKS_ASSIGN(const std::string text, FormatPlannedTime(time));
  return Sha256Hex(fmt::format("{}|{}", schedule_id, text)).substr(0, 32);
}

}  // namespace headworks::task_queue
