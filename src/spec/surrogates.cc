#include "surrogates.h"

#include <charconv>
#include <cstdint>

namespace headworks::spec {
namespace {

constexpr std::size_t kEscape = 6;  // \uXXXX

/// The digit behind the D of a surrogate, in its case, and what stands for both: U+E0xx to U+E7xx,
/// and U+EAxx to U+EFxx for capitals.
constexpr std::string_view kShown = "89abcdefABCDEF";
constexpr std::string_view kHidden = "01234567ABCDEF";

/// Of one escape `\uXXXX` that `text` begins with; nullopt = it does not.
std::optional<std::uint32_t> Unit(std::string_view text) {
  if (text.size() < kEscape || !text.starts_with("\\u")) return std::nullopt;
  std::uint32_t value = 0;
  const char* end = text.data() + kEscape;
  const auto [stop, ec] = std::from_chars(text.data() + 2, end, value, 16);
  return stop == end && ec == std::errc() ? std::optional(value) : std::nullopt;
}

bool IsPair(std::string_view text) {
  const auto high = Unit(text);
  if (!high || *high < 0xD800 || *high > 0xDBFF) return false;
  const auto low = Unit(text.substr(kEscape));
  return low && *low >= 0xDC00 && *low <= 0xDFFF;
}

/// The surrogate that a character stands for, which is the low 12 bits of it; nullopt = none.
std::optional<std::uint32_t> SurrogateOf(std::uint32_t character) {
  const std::uint32_t digit = (character >> 8) & 0xF;
  if ((character & 0xF000) != 0xE000 || digit == 8 || digit == 9) return std::nullopt;
  const std::uint32_t shown = digit < 8 ? digit + 8 : digit;
  return 0xD000 | (shown << 8) | (character & 0xFF);
}

/// Of three bytes of UTF-8.
std::optional<std::uint32_t> HiddenAt(std::string_view text) {
  if (text.size() < 3 || (text[0] & 0xFF) < 0xEE || (text[0] & 0xFF) > 0xEF) return std::nullopt;
  const std::uint32_t character = (static_cast<std::uint32_t>(text[0] & 0xF) << 12) |
                                  (static_cast<std::uint32_t>(text[1] & 0x3F) << 6) |
                                  static_cast<std::uint32_t>(text[2] & 0x3F);
  return SurrogateOf(character);
}

void AppendUtf8(std::uint32_t character, std::string& out) {
  out += static_cast<char>(0xF0 | (character >> 18));
  for (const int shift : {12, 6, 0}) out += static_cast<char>(0x80 | ((character >> shift) & 0x3F));
}

}  // namespace

bool IsSurrogatePair(std::string_view escape) {
  return IsPair("\\" + std::string(escape.substr(0, 2 * kEscape - 1)));
}

std::optional<std::string> HideSurrogates(std::string_view text) {
  std::optional<std::string> hidden;
  for (std::size_t at = text.find("\\u"); at != std::string_view::npos;
       at = text.find("\\u", at + 2)) {
    const auto unit = Unit(text.substr(at));
    if (unit && SurrogateOf(*unit)) return std::nullopt;
    std::size_t backslashes = 0;
    while (backslashes < at && text[at - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 1 || !IsPair(text.substr(at))) continue;
    if (!hidden) hidden = text;
    for (const std::size_t escape : {at, at + kEscape}) {
      char* digits = hidden->data() + escape + 2;
      digits[0] = digits[0] == 'd' ? 'e' : 'E';
      digits[1] = kHidden[kShown.find(digits[1])];
    }
    at += kEscape;
  }
  if (!hidden) return std::nullopt;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (HiddenAt(text.substr(at))) return std::nullopt;
  return hidden;
}

std::string ShowSurrogates(std::string_view value, bool double_quoted) {
  std::string shown;
  for (std::size_t at = 0; at < value.size();) {
    const std::string_view rest = value.substr(at);
    const auto high = double_quoted ? HiddenAt(rest) : std::nullopt;
    const auto low = high ? HiddenAt(rest.substr(3)) : std::nullopt;
    const auto unit = double_quoted ? std::nullopt : Unit(rest);
    if (low) {
      AppendUtf8(0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00), shown);
      at += 6;
    } else if (unit && SurrogateOf(*unit)) {
      shown += "\\u";
      shown += rest[2] == 'e' ? 'd' : 'D';
      shown += kShown[kHidden.find(rest[3])];
      shown += rest.substr(4, 2);
      at += kEscape;
    } else {
      shown += value[at++];
    }
  }
  return shown;
}

}  // namespace headworks::spec
