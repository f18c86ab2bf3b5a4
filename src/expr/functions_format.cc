#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "evaluator.h"
#include "functions.h"
#include "scalar_text.h"

namespace headworks::expr::internal {
namespace {

using Kind = Value::Kind;

/// One `%...` of a format.
struct Clause {
  std::optional<int> precision;
  char verb = 0;
};

/// Writes "text".format([...]), one clause after the other.
class Formatter {
 public:
  Formatter(Evaluator& evaluator, const Node& node, const Value& list)
      : evaluator_(evaluator), node_(node), list_(list) {}

  Value Run(std::string_view format) {
    while (!format.empty()) {
      const std::size_t literal = std::min(format.find('%'), format.size());
      text_ += format.substr(0, literal);
      format.remove_prefix(literal);
      if (format.empty()) break;
      if (format.starts_with("%%")) {
        text_ += '%';
        format.remove_prefix(2);
        continue;
      }
      Clause clause;
      if (!TakeClause(&format, &clause)) return failed_;
      if (!Write(clause)) return failed_;
      if (!evaluator_.ChargeText(text_.size() - charged_)) return evaluator_.Exhausted();
      charged_ = text_.size();
    }
    if (next_ < list_.count()) {
      Fail("the list has " + std::to_string(list_.count()) + " values, but the format uses " +
           std::to_string(next_));
      return failed_;
    }
    return evaluator_.MakeString(text_);
  }

 private:
  bool Fail(const std::string& message) {
    failed_ = evaluator_.Fail(node_, message);
    return false;
  }

  bool TakeClause(std::string_view* format, Clause* clause) {
    constexpr int kMostDigits = 100;
    const std::string whole(format->substr(0, 8));
    format->remove_prefix(1);
    if (format->starts_with('.')) {
      int precision = 0;
      const char* begin = format->data() + 1;
      const auto [end, error] = std::from_chars(begin, format->data() + format->size(), precision);
      if (error != std::errc() || precision > kMostDigits) {
        return Fail("a precision in a format is a number up to 100, as in %.2f");
      }
      clause->precision = precision;
      format->remove_prefix(static_cast<std::size_t>(end - format->data()));
    }
    if (format->empty() ||
        std::string_view("sdfebxXo").find((*format)[0]) == std::string_view::npos) {
      return Fail("'" + Excerpt(whole) +
                  "' is no clause of a format; there are %s %d %f %e %b %o "
                  "%x %X, %.2f with digits, and %% for a percent sign");
    }
    clause->verb = (*format)[0];
    format->remove_prefix(1);
    return true;
  }

  bool Write(const Clause& clause) {
    if (next_ == list_.count()) {
      return Fail("the format uses more values than the " + std::to_string(list_.count()) +
                  " in the list");
    }
    const Value value = list_.at(next_++);
    switch (clause.verb) {
      case 's':
        return WriteAny(value, 0);
      case 'd':
        if (value.is(Kind::kInt) || value.is(Kind::kUint)) {
          text_ += ScalarText(value);
          return true;
        }
        [[fallthrough]];
      case 'f':
      case 'e':
        return WriteDouble(clause, value);
      default:
        return WriteBits(clause.verb, value);
    }
  }

  bool WriteDouble(const Clause& clause, const Value& value) {
    if (!value.is_number()) return Mismatch(clause.verb, "a number", value);
    double number = value.number;
    if (value.is(Kind::kInt)) number = static_cast<double>(value.integer);
    if (value.is(Kind::kUint)) number = static_cast<double>(value.uint);
    if (!std::isfinite(number)) {
      text_ += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    } else if (clause.verb == 'd') {
      text_ += DoubleText(number);
    } else if (clause.verb == 'f') {
      text_ += fmt::format("{:.{}f}", number, clause.precision.value_or(6));
    } else {
      text_ += fmt::format("{:.{}e}", number, clause.precision.value_or(6));
    }
    return true;
  }

  bool WriteBits(char verb, const Value& value) {
    if (value.is(Kind::kInt) || value.is(Kind::kUint)) {
      const bool negative = value.is(Kind::kInt) && value.integer < 0;
      const std::uint64_t bits = negative ? 0 - value.uint : value.uint;
      if (negative) text_ += '-';
      if (verb == 'b') text_ += fmt::format("{:b}", bits);
      if (verb == 'o') text_ += fmt::format("{:o}", bits);
      if (verb == 'x') text_ += fmt::format("{:x}", bits);
      if (verb == 'X') text_ += fmt::format("{:X}", bits);
      return true;
    }
    if (verb == 'b' && value.is(Kind::kBool)) {
      text_ += value.boolean ? '1' : '0';
      return true;
    }
    if ((verb == 'x' || verb == 'X') && value.is_text()) {
      for (const char c : value.view()) {
        const auto byte = static_cast<unsigned char>(c);
        text_ += verb == 'x' ? fmt::format("{:02x}", byte) : fmt::format("{:02X}", byte);
      }
      return true;
    }
    return Mismatch(verb,
                    verb == 'b'   ? "an int, uint or bool"
                    : verb == 'o' ? "an int or uint"
                                  : "an int, uint, string or bytes",
                    value);
  }

  bool Mismatch(char verb, std::string_view wanted, const Value& value) {
    return Fail("%" + std::string(1, verb) + " takes " + std::string(wanted) + ", not " +
                std::string(KindOf(value)));
  }

  /// As people read it: text in lists without quotes, maps sorted by key.
  bool WriteAny(const Value& value, int depth) {
    constexpr int kDeepest = 100;
    if (!evaluator_.Charge(1)) {
      failed_ = evaluator_.Exhausted();
      return false;
    }
    if (depth > kDeepest) return Fail("the value is nested too deep to be formatted");
    if (value.is_list()) {
      text_ += '[';
      for (std::size_t i = 0; i < value.count(); ++i) {
        if (i > 0) text_ += ", ";
        if (!WriteAny(value.at(i), depth + 1)) return false;
      }
      text_ += ']';
      return true;
    }
    if (value.is_map()) return WriteMap(value, depth);
    if (value.is(Kind::kNull)) {
      text_ += "null";
    } else if (value.is(Kind::kType)) {
      text_ += KindName(value.type);
    } else if (value.is(Kind::kBytes)) {
      text_ += value.view();
    } else {
      text_ += ScalarText(value);
    }
    if (!evaluator_.ChargeText(value.is_text() ? value.size : 0)) {
      failed_ = evaluator_.Exhausted();
      return false;
    }
    return true;
  }

  bool WriteMap(const Value& value, int depth) {
    std::vector<MapEntry> entries;
    entries.reserve(value.count());
    for (std::size_t i = 0; i < value.count(); ++i) entries.push_back(value.entry(i));
    if (!evaluator_.Charge(entries.size() * 10)) {
      failed_ = evaluator_.Exhausted();
      return false;
    }
    std::sort(entries.begin(), entries.end(), [](const MapEntry& a, const MapEntry& b) {
      return ScalarText(a.key) < ScalarText(b.key);
    });
    text_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) text_ += ", ";
      if (!WriteAny(entries[i].key, depth + 1)) return false;
      text_ += ": ";
      if (!WriteAny(entries[i].value, depth + 1)) return false;
    }
    text_ += '}';
    return true;
  }

  Evaluator& evaluator_;
  const Node& node_;
  const Value& list_;
  std::string text_;
  std::size_t charged_ = 0;
  std::size_t next_ = 0;
  Value failed_;
};

}  // namespace

Value CallFormat(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  return Formatter(evaluator, node, arguments[1]).Run(arguments[0].view());
}

}  // namespace headworks::expr::internal
