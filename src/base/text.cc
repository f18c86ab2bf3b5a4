#include "headworks/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace headworks {
namespace {

constexpr std::size_t kLongestWord = 100;

struct ByteUnit {
  std::string_view suffix;
  int shift;
};
constexpr ByteUnit kByteUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};

/// Length of the UTF-8 sequence at the front of `text`; 0 = invalid.
std::size_t Utf8SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool too_large = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Optimal string alignment distance of two words of at most kLongestWord bytes, or any number
/// above `limit` if it is larger than that.
std::size_t Distance(std::string_view a, std::string_view b, std::size_t limit) {
  std::array<std::array<std::size_t, kLongestWord + 1>, 3> rows;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const auto& two_above = rows[(i + 1) % 3];
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
          Lower(a[i - 2]) == Lower(b[j - 1]))
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > limit) return least;
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::size_t ValidUtf8Prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t length = Utf8SequenceLength(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    const std::size_t valid = ValidUtf8Prefix(bytes);
    text += bytes.substr(0, valid);
    if (valid == bytes.size()) return text;
    text += "\uFFFD";
    bytes.remove_prefix(valid + 1);
  }
}

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kLongestWord) return {};
  std::size_t limit = std::clamp<std::size_t>(word.size() / 3, 1, 3);
  std::string_view nearest;
  for (const std::string_view candidate : known) {
    const std::size_t longer = std::max(candidate.size(), word.size());
    if (longer > kLongestWord || longer - std::min(candidate.size(), word.size()) > limit) continue;
    const std::size_t distance = Distance(word, candidate, limit);
    if (distance > limit || distance >= longer) continue;
    nearest = candidate;
    if (distance == 0) break;
    limit = distance - 1;  // only a nearer one may replace it
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view nearest = NearestWord(word, known);
  return nearest.empty() ? std::string() : fmt::format(", did you mean '{}'?", nearest);
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const auto unit =
      std::ranges::find_if(kByteUnits, [&](const ByteUnit& u) { return text.ends_with(u.suffix); });
  const int shift = unit == std::end(kByteUnits) ? 0 : unit->shift;
  const std::string_view digits = text.substr(0, text.size() - (shift == 0 ? 0 : 3));
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (ec != std::errc() || end != digits.data() + digits.size() || number == 0 ||
      number > kMost >> shift)
    return Error{
        Code::kInvalidArgument,
        fmt::format("'{}' is not a size from 1 byte to 1024 TiB; write a number of bytes, or of "
                    "KiB, MiB, GiB or TiB, e.g. 64MiB",
                    text)};
  return number << shift;
}

std::string FormatBytes(std::uint64_t bytes) {
  for (const auto& [suffix, shift] : kByteUnits)
    if (bytes >> shift != 0 && bytes % (std::uint64_t{1} << shift) == 0)
      return fmt::format("{}{}", bytes >> shift, suffix);
  return fmt::format("{}", bytes);
}

std::string FormatExactly(Duration duration) {
  using std::chrono::days, std::chrono::hours, std::chrono::minutes, std::chrono::seconds,
      std::chrono::milliseconds, std::chrono::microseconds;
  static constexpr std::array<std::pair<Duration, std::string_view>, 6> kUnits{
      {{days(1), "d"},
       {hours(1), "h"},
       {minutes(1), "m"},
       {seconds(1), "s"},
       {milliseconds(1), "ms"},
       {microseconds(1), "us"}}};
  std::string text;
  for (const auto& [unit, name] : kUnits) {
    if (duration / unit != 0) text += fmt::format("{}{}", duration / unit, name);
    duration %= unit;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace headworks
