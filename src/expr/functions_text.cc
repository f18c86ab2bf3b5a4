#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "evaluator.h"
#include "functions.h"
#include "scalar_text.h"

/// Functions on text.  Positions and lengths count characters (code points), not bytes.
namespace headworks::expr::internal {
namespace {

using Kind = Value::Kind;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

/// Byte offset of character `index`, 0 <= index <= count; npos = there are fewer.
std::size_t OffsetOf(std::string_view text, std::int64_t index) {
  std::size_t offset = 0;
  for (; index > 0; --index) {
    if (offset == text.size()) return std::string_view::npos;
    do {
      ++offset;
    } while (offset < text.size() && IsContinuation(text[offset]));
  }
  return offset;
}

Value BadIndex(Evaluator& evaluator, const Node& node, std::int64_t index, std::string_view text) {
  return evaluator.Fail(node, "index " + std::to_string(index) + " is out of range: the text has " +
                                  std::to_string(CountCharacters(text)) +
                                  " characters, counted from 0");
}

/// Offset of the character that argument `at` says, or npos.
std::size_t OffsetOf(std::string_view text, const Value& at) {
  return at.integer < 0 ? std::string_view::npos : OffsetOf(text, at.integer);
}

}  // namespace

Value CallSize(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  const Value& of = arguments[0];
  if (of.is(Kind::kString)) {
    if (!evaluator.ChargeText(of.size)) return evaluator.Exhausted();
    return Value::Int(static_cast<std::int64_t>(CountCharacters(of.view())));
  }
  return Value::Int(static_cast<std::int64_t>(of.count()));
}

Value CallContains(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  // The search may look at the part again for each byte.
  const std::uint64_t work = std::uint64_t{arguments[0].size} * (1 + arguments[1].size / 64);
  if (!evaluator.Charge(1 + work / 16)) return evaluator.Exhausted();
  return Value::Bool(arguments[0].view().find(arguments[1].view()) != std::string_view::npos);
}

Value CallStartsWith(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  if (!evaluator.ChargeText(arguments[1].size)) return evaluator.Exhausted();
  return Value::Bool(arguments[0].view().starts_with(arguments[1].view()));
}

Value CallEndsWith(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  if (!evaluator.ChargeText(arguments[1].size)) return evaluator.Exhausted();
  return Value::Bool(arguments[0].view().ends_with(arguments[1].view()));
}

Result<std::unique_ptr<RE2>> CompilePattern(std::string_view pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(1 << 20);
  auto compiled = std::make_unique<RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!compiled->ok()) {
    return Error{
        Code::kInvalidArgument,
        "'" + Excerpt(pattern) + "' is not a regular expression of RE2: " + compiled->error()};
  }
  return compiled;
}

Value CallMatches(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  const re2::StringPiece piece(text.data(), text.size());
  if (node.pattern != nullptr) {
    const auto size = static_cast<std::uint64_t>(node.pattern->ProgramSize());
    if (!evaluator.Charge(1 + text.size() * (1 + size / 64) / 16)) return evaluator.Exhausted();
    return Value::Bool(RE2::PartialMatch(piece, *node.pattern));
  }
  // To compile a pattern costs some microseconds a byte, and counted repeats make it larger.
  if (!evaluator.Charge(100 + std::uint64_t{arguments[1].size} * 20)) return evaluator.Exhausted();
  const auto pattern = CompilePattern(arguments[1].view());
  if (!pattern) return evaluator.Fail(node, pattern.error());
  const auto size = static_cast<std::uint64_t>((*pattern)->ProgramSize());
  if (!evaluator.Charge(size + text.size() * (1 + size / 64) / 16)) return evaluator.Exhausted();
  return Value::Bool(RE2::PartialMatch(piece, **pattern));
}

Value CallCharAt(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  if (!evaluator.ChargeText(text.size())) return evaluator.Exhausted();
  const std::size_t begin = OffsetOf(text, arguments[1]);
  if (begin == std::string_view::npos) {
    return BadIndex(evaluator, node, arguments[1].integer, text);
  }
  const std::string_view rest = text.substr(begin);
  const std::size_t end = OffsetOf(rest, 1);
  return Value::String(rest.substr(0, end == std::string_view::npos ? 0 : end));
}

Value CallIndexOf(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  const std::string_view part = arguments[1].view();
  const std::uint64_t work = std::uint64_t{text.size()} * (1 + part.size() / 64);
  if (!evaluator.Charge(1 + work / 16)) return evaluator.Exhausted();
  const std::size_t begin = arguments.size() > 2 ? OffsetOf(text, arguments[2]) : 0;
  if (begin == std::string_view::npos) {
    return BadIndex(evaluator, node, arguments[2].integer, text);
  }
  const std::size_t found = text.find(part, begin);
  if (found == std::string_view::npos) return Value::Int(-1);
  return Value::Int(static_cast<std::int64_t>(CountCharacters(text.substr(0, found))));
}

Value CallLastIndexOf(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  const std::string_view part = arguments[1].view();
  const std::uint64_t work = std::uint64_t{text.size()} * (1 + part.size() / 64);
  if (!evaluator.Charge(1 + work / 16)) return evaluator.Exhausted();
  const std::size_t last = arguments.size() > 2 ? OffsetOf(text, arguments[2]) : text.size();
  if (last == std::string_view::npos) {
    return BadIndex(evaluator, node, arguments[2].integer, text);
  }
  const std::size_t found = text.rfind(part, last);
  if (found == std::string_view::npos) return Value::Int(-1);
  return Value::Int(static_cast<std::int64_t>(CountCharacters(text.substr(0, found))));
}

Value CallSubstring(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  if (!evaluator.ChargeText(text.size())) return evaluator.Exhausted();
  const std::size_t begin = OffsetOf(text, arguments[1]);
  const std::size_t end = arguments.size() > 2 ? OffsetOf(text, arguments[2]) : text.size();
  if (begin == std::string_view::npos) {
    return BadIndex(evaluator, node, arguments[1].integer, text);
  }
  if (end == std::string_view::npos) return BadIndex(evaluator, node, arguments[2].integer, text);
  if (begin > end) {
    return evaluator.Fail(node, "the end " + std::to_string(arguments[2].integer) +
                                    " is before the start " + std::to_string(arguments[1].integer));
  }
  return Value::String(text.substr(begin, end - begin));
}

namespace {

Value MapBytes(Evaluator& evaluator, std::string_view text, char (*change)(char)) {
  const Value copy = evaluator.MakeString(text);
  if (copy.is_error()) return copy;
  std::transform(copy.text, copy.text + copy.size, const_cast<char*>(copy.text), change);
  return copy;
}

/// What Unicode calls white space, where text may be trimmed.
bool IsSpace(std::string_view c) {
  constexpr std::string_view kSpaces[] = {
      "\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00A0", "\u1680",
      "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
      "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  return std::find(std::begin(kSpaces), std::end(kSpaces), c) != std::end(kSpaces);
}

}  // namespace

Value CallLowerAscii(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  return MapBytes(evaluator, arguments[0].view(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
}

Value CallUpperAscii(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  return MapBytes(evaluator, arguments[0].view(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
}

Value CallTrim(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  std::string_view text = arguments[0].view();
  if (!evaluator.ChargeText(text.size())) return evaluator.Exhausted();
  while (!text.empty()) {
    const std::size_t length = OffsetOf(text, 1);
    if (!IsSpace(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && IsContinuation(text[begin])) --begin;
    if (!IsSpace(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return Value::String(text);
}

Value CallReverse(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  std::string reversed(text.rbegin(), text.rend());
  // Each character's bytes came out backwards: its first byte is last.
  for (std::size_t begin = 0; begin < reversed.size();) {
    std::size_t end = begin;
    while (end + 1 < reversed.size() && IsContinuation(reversed[end])) ++end;
    std::reverse(reversed.begin() + static_cast<std::ptrdiff_t>(begin),
                 reversed.begin() + static_cast<std::ptrdiff_t>(end) + 1);
    begin = end + 1;
  }
  return evaluator.MakeString(reversed);
}

Value CallReplace(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  const std::string_view text = arguments[0].view();
  const std::string_view old = arguments[1].view();
  const std::string_view with = arguments[2].view();
  const std::int64_t most = arguments.size() > 3 ? arguments[3].integer : -1;
  const std::uint64_t work = std::uint64_t{text.size()} * (1 + old.size() / 64);
  if (!evaluator.Charge(1 + work / 16)) return evaluator.Exhausted();
  // Counted first, so that the result is known to fit before it is made.
  std::vector<std::size_t> found;
  std::size_t at = 0;
  while (most < 0 || found.size() < static_cast<std::uint64_t>(most)) {
    at = text.find(old, at);
    if (at == std::string_view::npos) break;
    if (!evaluator.Charge(1)) return evaluator.Exhausted();
    found.push_back(at);
    if (!old.empty()) {
      at += old.size();
    } else if (at == text.size()) {
      break;
    } else {
      at += OffsetOf(text.substr(at), 1);
    }
  }
  const std::uint64_t size =
      text.size() - found.size() * old.size() + std::uint64_t{found.size()} * with.size();
  if (!evaluator.ChargeText(size)) return evaluator.Exhausted();
  char* made = evaluator.Allocate<char>(size);
  if (made == nullptr) return evaluator.Exhausted();
  char* to = made;
  std::size_t from = 0;
  for (const std::size_t place : found) {
    to = std::copy_n(text.data() + from, place - from, to);
    to = std::copy_n(with.data(), with.size(), to);
    from = place + old.size();
  }
  std::copy_n(text.data() + from, text.size() - from, to);
  return Value::String({made, size});
}

Value CallSplit(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  std::string_view text = arguments[0].view();
  const std::string_view by = arguments[1].view();
  const std::int64_t most = arguments.size() > 2 ? arguments[2].integer : -1;
  const std::uint64_t work = std::uint64_t{text.size()} * (1 + by.size() / 64);
  if (!evaluator.Charge(1 + work / 16)) return evaluator.Exhausted();
  if (most == 0 || (by.empty() && text.empty())) return Value::List(nullptr, 0);
  std::vector<Value> parts;
  while (most < 0 || parts.size() + 1 < static_cast<std::uint64_t>(most)) {
    if (!evaluator.Charge(1)) return evaluator.Exhausted();
    const std::size_t next = by.empty() ? OffsetOf(text, 1) : text.find(by);
    if (next == std::string_view::npos || (by.empty() && next == text.size())) break;
    parts.push_back(Value::String(text.substr(0, next)));
    text.remove_prefix(next + by.size());
  }
  parts.push_back(Value::String(text));
  auto* values = evaluator.Allocate<Value>(parts.size());
  if (values == nullptr) return evaluator.Exhausted();
  std::uninitialized_copy(parts.begin(), parts.end(), values);
  return Value::List(values, parts.size());
}

Value CallJoin(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& list = arguments[0];
  const std::string_view between = arguments.size() > 1 ? arguments[1].view() : "";
  const std::size_t count = list.count();
  std::uint64_t size = count > 1 ? std::uint64_t{between.size()} * (count - 1) : 0;
  auto* texts = evaluator.Allocate<Value>(count);
  if (texts == nullptr) return evaluator.Exhausted();
  for (std::size_t i = 0; i < count; ++i) {
    const Value element = list.at(i);
    if (!evaluator.Charge(1)) return evaluator.Exhausted();
    if (element.is(Kind::kNull) || element.is_list() || element.is_map())
      return evaluator.Fail(node,
                            "join() takes a list of texts, numbers and booleans, but element " +
                                std::to_string(i) + " is " + std::string(KindOf(element)) +
                                "; write list.map(x, string(x)).join(...)");
    std::construct_at(&texts[i], CallString(evaluator, node, {&element, 1}));
    if (!texts[i].is(Kind::kString)) return texts[i];  // what went wrong
    size += texts[i].size;
  }
  if (!evaluator.ChargeText(size)) return evaluator.Exhausted();
  char* made = evaluator.Allocate<char>(size);
  if (made == nullptr) return evaluator.Exhausted();
  char* to = made;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) to = std::copy_n(between.data(), between.size(), to);
    to = std::copy_n(texts[i].text, texts[i].size, to);
  }
  return Value::String({made, size});
}

Value CallQuote(Evaluator& evaluator, const Node&, std::span<const Value> arguments) {
  constexpr std::string_view kEscaped = "\a\b\f\n\r\t\v\\\"";
  constexpr std::string_view kLetters = "abfnrtv\\\"";
  std::string quoted = "\"";
  for (const char c : arguments[0].view()) {
    const std::size_t at = kEscaped.find(c);
    if (at != std::string_view::npos) quoted += '\\';
    quoted += at != std::string_view::npos ? kLetters[at] : c;
  }
  return evaluator.MakeString(quoted + '"');
}

}  // namespace headworks::expr::internal
