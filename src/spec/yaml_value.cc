#include "yaml_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "headworks/base/json.h"

namespace headworks::spec {
namespace {

bool IsOneOf(std::string_view text, std::string_view lower) {
  // The core schema takes three spellings: true, True, TRUE.
  if (text.size() != lower.size()) return false;
  bool same = true, upper = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char capital = static_cast<char>(lower[i] - 'a' + 'A');
    same = same && (text[i] == lower[i] || (i == 0 && text[i] == capital));
    upper = upper && text[i] == capital;
  }
  return same || upper;
}

/// The whole of `digits` in `base`; nullopt if it is not that or beyond 64 bits.
std::optional<std::uint64_t> Digits(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, ec] = std::from_chars(digits.data(), end, value, base);
  if (digits.empty() || ec != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Whether the core schema makes a number of it, of whatever size.
bool LooksLikeNumber(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  if (text.starts_with("0x") || text.starts_with("0o"))
    return text.size() > 2 &&
           text.find_first_not_of(text[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567", 2) ==
               std::string_view::npos;
  const auto skip_sign = [&] {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  };
  const auto skip_digits = [&] {
    const std::size_t count = std::min(text.find_first_not_of(kDigits), text.size());
    text.remove_prefix(count);
    return count;
  };
  skip_sign();
  for (const std::string_view name : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})
    if (text == name) return true;
  std::size_t digits = skip_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits += skip_digits();
  }
  if (digits == 0 || text.empty()) return digits > 0;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  skip_sign();
  return skip_digits() > 0 && text.empty();
}

void AppendJson(const YamlTree& tree, YamlTree::NodeNo no, Source& source, std::string& out) {
  const YamlTree::Node& node = tree[no];
  switch (node.kind) {
    case YamlTree::Kind::kNull:
      out += "null";
      return;
    case YamlTree::Kind::kList:
      out += '[';
      for (std::uint32_t i = 0; i < node.size; ++i) {
        if (i > 0) out += ',';
        AppendJson(tree, tree.Element(no, i), source, out);
      }
      out += ']';
      return;
    case YamlTree::Kind::kMap:
      out += '{';
      for (std::uint32_t i = 0; i < node.size; ++i) {
        if (i > 0) out += ',';
        out += QuoteJson(tree.Text(tree.Key(no, i)));
        out += ':';
        AppendJson(tree, tree.Value(no, i), source, out);
      }
      out += '}';
      return;
    case YamlTree::Kind::kScalar:
      break;
  }
  const std::string_view text = tree.Text(no);
  if (!node.plain) {
    out += QuoteJson(text);
  } else if (const auto boolean = BoolOf(text)) {
    out += *boolean ? "true" : "false";
  } else if (const auto number = NumberOf(text)) {
    out += *number;
  } else if (LooksLikeNumber(text)) {
    source.Add("HW1010", node.place,
               fmt::format("{} is a number that JSON cannot hold; write one that it can, or put it "
                           "in quotes for the text",
                           text));
    out += "null";
  } else {
    out += QuoteJson(text);
  }
}

/// Whether it is a 3.10, not a 1.0.
bool FractionEndsInZero(std::string_view plain) {
  const std::string_view mantissa = plain.substr(0, plain.find_first_of("eE"));
  const std::size_t point = mantissa.find('.');
  return point != std::string_view::npos && mantissa.ends_with('0') &&
         mantissa.find_first_not_of('0', point + 1) != std::string_view::npos;
}

}  // namespace

std::optional<bool> BoolOf(std::string_view plain) {
  if (IsOneOf(plain, "true")) return true;
  if (IsOneOf(plain, "false")) return false;
  return std::nullopt;
}

std::optional<std::string> NumberOf(std::string_view plain) {
  if (plain.starts_with("0o") || plain.starts_with("0x")) {
    const auto value = Digits(plain.substr(2), plain[1] == 'o' ? 8 : 16);
    return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
  }
  std::string_view body = plain;
  const bool negative = body.starts_with('-');
  if (negative || body.starts_with('+')) body.remove_prefix(1);
  if (body.empty() || body.find_first_not_of("0123456789.eE+-") != std::string_view::npos ||
      body.front() == '+' || body.front() == '-' || body.front() == 'e' || body.front() == 'E')
    return std::nullopt;
  if (body.find_first_not_of("0123456789") == std::string_view::npos) {
    const auto value = Digits(body, 10);
    if (!value || (negative && *value > std::uint64_t{1} << 63)) return std::nullopt;
    return fmt::format("{}{}", negative && *value != 0 ? "-" : "", *value);
  }
  double value = 0;
  const char* end = body.data() + body.size();
  const auto [stop, ec] = std::from_chars(body.data(), end, value);
  if (ec != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return fmt::format("{}", negative ? -value : value);
}

std::string TrapOf(std::string_view plain) {
  for (const std::string_view word : {"yes", "no", "on", "off"})
    if (IsOneOf(plain, word))
      return fmt::format(
          "{} is text here, but a boolean in older YAML; write {}, or \"{}\" for the text", plain,
          word == "yes" || word == "on", plain);
  std::string_view digits = plain;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return "";
  const auto only = [&](std::string_view allowed) {
    return digits.find_first_not_of(allowed) == std::string_view::npos;
  };
  if (only("0123456789")) {
    if (digits.front() != '0' || digits.size() == 1) return "";
    const std::string_view number =
        digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
    const bool octal = only("01234567");
    return fmt::format(
        "{} is decimal here, but {} in older YAML; write {}{}, or \"{}\" for the text", plain,
        octal ? "octal" : "text", number, octal ? fmt::format(" or 0o{}", number) : "", plain);
  }
  if (digits.starts_with("0b") && digits.size() > 2 &&
      digits.find_first_not_of("01_", 2) == std::string_view::npos)
    return fmt::format(
        "{0} is text here, but a binary number in older YAML; write the number in decimal or with "
        "0x, or \"{0}\" for the text",
        plain);
  if (only("0123456789_"))
    return fmt::format(
        "{0} is text here, but a number in older YAML; leave out the _, or write "
        "\"{0}\" for the text",
        plain);
  if (only("0123456789:"))
    return fmt::format("{0} is text here, but a number in older YAML; write \"{0}\" for the text",
                       plain);
  constexpr std::string_view kDate = "dddd-dd-dd";
  const auto fits = [](char shape, char c) {
    return shape == 'd' ? c >= '0' && c <= '9' : c == shape;
  };
  if (digits.size() == plain.size() && plain.size() >= kDate.size() &&
      std::ranges::equal(kDate, plain.substr(0, kDate.size()), fits) &&
      (plain.size() == kDate.size() || plain[kDate.size()] == 'T' || plain[kDate.size()] == ' '))
    return fmt::format("{0} is text here, but a date in older YAML; write \"{0}\" for the text",
                       plain);
  return "";
}

std::string LossOf(std::string_view plain) {
  const auto number = NumberOf(plain);
  if (!number) return "";
  const std::string_view mantissa = plain.substr(0, plain.find_first_of("eE"));
  const bool has_point = mantissa.find('.') != std::string_view::npos;
  const bool is_hex_or_octal = plain.size() > 1 && (plain[1] == 'x' || plain[1] == 'o');
  constexpr std::size_t kExactDigits = 15;  // a double holds as many
  const auto digits = static_cast<std::size_t>(
      std::ranges::count_if(mantissa, [](char c) { return c >= '0' && c <= '9'; }));
  const bool loses = is_hex_or_octal || plain.starts_with('+') || plain == "-0" ||
                     (has_point && (mantissa.ends_with('0') || mantissa.ends_with('.'))) ||
                     (has_point && digits > kExactDigits && *number != plain);
  if (!loses) return "";
  return fmt::format("{0} is the number {1}; write \"{0}\" for the text, or {1} for the number",
                     plain, *number);
}

void CheckTraps(const YamlTree& tree, YamlTree::NodeNo no, Source& source) {
  const YamlTree::Node& node = tree[no];
  for (std::uint32_t i = 0; i < node.size; ++i) {
    if (node.kind == YamlTree::Kind::kList) CheckTraps(tree, tree.Element(no, i), source);
    if (node.kind == YamlTree::Kind::kMap) CheckTraps(tree, tree.Value(no, i), source);
    if (node.kind == YamlTree::Kind::kScalar) break;
  }
  if (node.kind != YamlTree::Kind::kScalar || !node.plain) return;
  const std::string_view text = tree.Text(no);
  std::string trap = TrapOf(text);
  // 1.0 is how programs write a 1 that may be a fraction.
  if (trap.empty() && FractionEndsInZero(text)) trap = LossOf(text);
  if (!trap.empty()) source.Add("HW1013", node.place, std::move(trap));
}

std::string Describe(const YamlTree& tree, YamlTree::NodeNo no) {
  switch (tree[no].kind) {
    case YamlTree::Kind::kNull:
      return "nothing";
    case YamlTree::Kind::kList:
      return "a list";
    case YamlTree::Kind::kMap:
      return "a map";
    case YamlTree::Kind::kScalar:
      break;
  }
  constexpr std::size_t kShown = 40;
  const std::string_view text = tree.Text(no);
  return QuoteJson(text.size() <= kShown ? std::string(text)
                                         : std::string(text.substr(0, kShown)) + "...");
}

std::string ToJson(const YamlTree& tree, YamlTree::NodeNo no, Source& source) {
  std::string out;
  AppendJson(tree, no, source, out);
  return out;
}

}  // namespace headworks::spec
