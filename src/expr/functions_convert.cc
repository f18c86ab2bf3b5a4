#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include <boost/json/serialize.hpp>

#include "evaluator.h"
#include "functions.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "scalar_text.h"
#include "time_value.h"

namespace headworks::expr::internal {
namespace {

using Kind = Value::Kind;

/// All of `text` as a number.
template <typename T>
std::optional<T> ReadNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Value NotA(Evaluator& evaluator, const Node& node, std::string_view what, std::string_view text) {
  return evaluator.Fail(node, "'" + Excerpt(text) + "' is not " + std::string(what));
}

Value OutOfRange(Evaluator& evaluator, const Node& node, std::string_view type) {
  return evaluator.Fail(node, "the number is out of the range of " + std::string(type));
}

}  // namespace

Value CallDyn(Evaluator&, const Node&, std::span<const Value> arguments) { return arguments[0]; }

Value CallType(Evaluator&, const Node&, std::span<const Value> arguments) {
  return Value::OfType(arguments[0].TypeKind());
}

Value CallBool(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  if (from.is(Kind::kBool)) return from;
  const std::string_view text = from.view();
  for (const std::string_view yes : {"1", "t", "true", "TRUE", "True"}) {
    if (text == yes) return Value::Bool(true);
  }
  for (const std::string_view no : {"0", "f", "false", "FALSE", "False"}) {
    if (text == no) return Value::Bool(false);
  }
  return NotA(evaluator, node, "a bool; write true or false", text);
}

Value CallBytes(Evaluator&, const Node&, std::span<const Value> arguments) {
  return Value::Bytes(arguments[0].view());
}

Value CallInt(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  switch (from.kind) {
    case Kind::kUint:
      if (from.uint > INT64_MAX) return OutOfRange(evaluator, node, "int");
      return Value::Int(static_cast<std::int64_t>(from.uint));
    case Kind::kDouble:
      // Both ends are doubles themselves and excluded, because they stand for their neighbours too.
      if (!(from.number > -0x1p63 && from.number < 0x1p63)) {
        return OutOfRange(evaluator, node, "int");
      }
      return Value::Int(static_cast<std::int64_t>(from.number));
    case Kind::kString:
      if (const auto value = ReadNumber<std::int64_t>(from.view())) return Value::Int(*value);
      return NotA(evaluator, node, "an int", from.view());
    case Kind::kTimestamp:
      return Value::Int(from.integer);
    default:
      return from;
  }
}

Value CallUint(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  switch (from.kind) {
    case Kind::kInt:
      if (from.integer < 0) return OutOfRange(evaluator, node, "uint");
      return Value::Uint(static_cast<std::uint64_t>(from.integer));
    case Kind::kDouble:
      if (!(from.number > -1 && from.number < 0x1p64)) return OutOfRange(evaluator, node, "uint");
      return Value::Uint(static_cast<std::uint64_t>(from.number));
    case Kind::kString:
      if (const auto value = ReadNumber<std::uint64_t>(from.view())) return Value::Uint(*value);
      return NotA(evaluator, node, "an uint", from.view());
    default:
      return from;
  }
}

Value CallDouble(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  switch (from.kind) {
    case Kind::kInt:
      return Value::Double(static_cast<double>(from.integer));
    case Kind::kUint:
      return Value::Double(static_cast<double>(from.uint));
    case Kind::kString:
      if (const auto value = ReadNumber<double>(from.view())) return Value::Double(*value);
      return NotA(evaluator, node, "a number", from.view());
    default:
      return from;
  }
}

Value CallExtreme(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const bool of_list = arguments.size() == 1;
  const std::size_t count = of_list ? arguments[0].count() : arguments.size();
  if (count == 0)
    return evaluator.Fail(node, "an empty list has no " + std::string(node.name.substr(5)));
  const Order wanted = node.name == "math.least" ? Order::kLess : Order::kGreater;
  Value best;
  for (std::size_t i = 0; i < count; ++i) {
    if (!evaluator.Charge(1)) return evaluator.Exhausted();
    const Value value = of_list ? arguments[0].at(i) : arguments[i];
    if (!value.is_number())
      return evaluator.Fail(node, std::string(node.name) + "() takes numbers, and element " +
                                      std::to_string(i) + " is " + std::string(KindOf(value)));
    if (i == 0 || CompareNumbers(value, best) == wanted) best = value;
  }
  return best;
}

Value CallString(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  if (from.is(Kind::kString)) return from;
  if (from.is(Kind::kBytes)) {
    if (!evaluator.ChargeText(from.size)) return evaluator.Exhausted();
    if (ValidUtf8Prefix(from.view()) != from.size) {
      return evaluator.Fail(node, "the bytes are not UTF-8 text");
    }
    return Value::String(from.view());
  }
  if (from.is(Kind::kNull)) return Value::String("null");
  if (from.is_list() || from.is_map()) {
    const auto json = evaluator.ToJson(from);
    if (evaluator.exhausted()) return evaluator.Exhausted();
    return json ? evaluator.MakeString(CanonicalJson(*json)) : evaluator.Fail(node, json.error());
  }
  return evaluator.MakeString(ScalarText(from));
}

Value CallTimestamp(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  if (from.is(Kind::kString)) return evaluator.Or(node, ReadTimestamp(from.view()));
  if (from.is(Kind::kInt)) return evaluator.Or(node, TimestampFromSeconds(from.integer));
  return from;
}

Value CallDuration(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  const Value& from = arguments[0];
  if (from.is(Kind::kString)) return evaluator.Or(node, ReadDuration(from.view()));
  return from;
}

Value CallTimeField(Evaluator& evaluator, const Node& node, std::span<const Value> arguments) {
  if (arguments[0].is(Kind::kDuration)) return Value::Int(DurationField(node.name, arguments[0]));
  Zone zone;
  if (arguments.size() > 1) {
    // A named zone is looked up among hundreds, and the first one reads the database.
    if (!evaluator.Charge(10)) return evaluator.Exhausted();
    const auto found = FindZone(arguments[1].view());
    if (!found) return evaluator.Fail(node, found.error());
    zone = *found;
  }
  return Value::Int(TimestampField(node.name, arguments[0], zone));
}

}  // namespace headworks::expr::internal
