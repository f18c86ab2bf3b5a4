#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "evaluator.h"
#include "headworks/base/text.h"
#include "messages.h"
#include "time_value.h"

namespace headworks::expr::internal {
namespace {

using Kind = Value::Kind;

/// The value of a number as an index of a list, if it is whole.
std::optional<std::int64_t> WholeNumber(const Value& value) {
  if (value.is(Kind::kInt)) return value.integer;
  if (value.is(Kind::kUint)) {
    return value.uint <= INT64_MAX ? std::optional(static_cast<std::int64_t>(value.uint))
                                   : std::nullopt;
  }
  if (value.is(Kind::kDouble) && std::floor(value.number) == value.number &&
      std::abs(value.number) < 0x1p53) {
    return static_cast<std::int64_t>(value.number);
  }
  return std::nullopt;
}

template <typename T>
bool Overflows(Op op, T a, T b, T* result) {
  if (op == Op::kAdd) return __builtin_add_overflow(a, b, result);
  if (op == Op::kSubtract) return __builtin_sub_overflow(a, b, result);
  return __builtin_mul_overflow(a, b, result);
}

/// a op b in the integers `T`; an empty message = `result` has it.
template <typename T>
std::string_view IntegerArithmetic(Op op, T a, T b, T* result) {
  if (op == Op::kDivide || op == Op::kModulo) {
    if (b == 0) return op == Op::kDivide ? "division by zero" : "remainder of a division by zero";
    // The one quotient that does not fit: least / -1.
    if constexpr (std::is_signed_v<T>) {
      if (b == -1 && a == std::numeric_limits<T>::min()) return "the result is out of range";
    }
    *result = op == Op::kDivide ? a / b : a % b;
    return {};
  }
  return Overflows(op, a, b, result) ? "the result is out of range" : std::string_view();
}

double DoubleArithmetic(Op op, double a, double b) {
  if (op == Op::kAdd) return a + b;
  if (op == Op::kSubtract) return a - b;
  if (op == Op::kMultiply) return a * b;
  if (b != 0) return a / b;
  // As IEEE 754 has it, spelt out because C++ leaves it undefined.
  if (a == 0 || std::isnan(a)) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(std::numeric_limits<double>::infinity(), std::copysign(a, a * b));
}

template <typename T>
Order OrderOf(const T& a, const T& b) {
  if (a == b) return Order::kEqual;
  return a < b ? Order::kLess : Order::kGreater;
}

}  // namespace

Value Evaluator::Binary(const Node& node) {
  const Value a = Child(node, 0);
  if (a.is_error()) return a;
  const Value b = Child(node, 1);
  if (b.is_error()) return b;
  switch (node.op) {
    case Op::kEqual:
    case Op::kNotEqual: {
      const bool equal = Equal(a, b);
      if (exhausted()) return Exhausted();
      return Value::Bool(equal == (node.op == Op::kEqual));
    }
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
      return Compare(node, a, b);
    case Op::kIn:
      return In(node, a, b);
    default:
      return Arithmetic(node, a, b);
  }
}

Value Evaluator::Compare(const Node& node, const Value& a, const Value& b) {
  Order order = Order::kUnordered;
  if (a.is_number() && b.is_number()) {
    order = CompareNumbers(a, b);
  } else if (a.kind != b.kind) {
    return Fail(node, NoOperator(ast_, node, a.TypeKind(), b.TypeKind()));
  } else if (a.is_text()) {
    if (!ChargeText(std::min(a.size, b.size))) return Exhausted();
    order = OrderOf(a.view(), b.view());
  } else if (a.is(Kind::kBool)) {
    order = OrderOf(a.boolean, b.boolean);
  } else if (a.is(Kind::kTimestamp) || a.is(Kind::kDuration)) {
    order = OrderOf(std::pair(a.integer, a.size), std::pair(b.integer, b.size));
  } else {
    return Fail(node, NoOperator(ast_, node, a.TypeKind(), b.TypeKind()));
  }
  switch (node.op) {
    case Op::kLess:
      return Value::Bool(order == Order::kLess);
    case Op::kLessEqual:
      return Value::Bool(order == Order::kLess || order == Order::kEqual);
    case Op::kGreater:
      return Value::Bool(order == Order::kGreater);
    default:
      return Value::Bool(order == Order::kGreater || order == Order::kEqual);
  }
}

bool Evaluator::Equal(const Value& a, const Value& b, int depth) {
  // Input is as deep as its parser allows; this is far above that.
  constexpr int kDeepest = 1000;
  if (!Charge(1)) return false;
  if (depth > kDeepest) {
    Charge(limits_.max_cost);
    return false;
  }
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == Order::kEqual;
  if (a.is_list() && b.is_list()) {
    const std::size_t count = a.count();
    if (count != b.count()) return false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!Equal(a.at(i), b.at(i), depth + 1)) return false;
    }
    return true;
  }
  if (a.is_map() && b.is_map()) return EqualMaps(a, b, depth);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return a.boolean == b.boolean;
    case Kind::kString:
    case Kind::kBytes:
      return a.size == b.size && ChargeText(a.size) && a.view() == b.view();
    case Kind::kTimestamp:
    case Kind::kDuration:
      return a.integer == b.integer && a.size == b.size;
    case Kind::kType:
      return a.type == b.type;
    default:
      return false;
  }
}

bool Evaluator::EqualMaps(const Value& a, const Value& b, int depth) {
  const std::size_t count = a.count();
  if (count != b.count()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const MapEntry entry = a.entry(i);
    const auto other = Find(b, entry.key);
    if (!other || !Equal(entry.value, *other, depth + 1)) return false;
  }
  return true;
}

std::optional<Value> Evaluator::Find(const Value& map, const Value& key) {
  if (map.is(Kind::kJsonMap)) {
    if (!key.is(Kind::kString) || !ChargeText(key.size)) return std::nullopt;
    const auto* found = map.json_map->find(key.view());
    if (found == map.json_map->end()) return std::nullopt;
    return Value::FromJson(found->value());
  }
  for (std::size_t i = 0; i < map.size; ++i) {
    if (Equal(map.map[i].key, key)) return map.map[i].value;
    if (exhausted()) break;
  }
  return std::nullopt;
}

Value Evaluator::In(const Node& node, const Value& a, const Value& b) {
  if (b.is_map()) {
    const bool found = Find(b, a).has_value();
    return exhausted() ? Exhausted() : Value::Bool(found);
  }
  if (!b.is_list()) return Fail(node, NoOperator(ast_, node, a.TypeKind(), b.TypeKind()));
  const std::size_t count = b.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (Equal(a, b.at(i))) return Value::Bool(true);
    if (exhausted()) return Exhausted();
  }
  return Value::Bool(false);
}

Value Evaluator::Arithmetic(const Node& node, const Value& a, const Value& b) {
  if (a.kind == b.kind && a.is(Kind::kInt)) {
    std::int64_t result = 0;
    const auto fault = IntegerArithmetic(node.op, a.integer, b.integer, &result);
    return fault.empty() ? Value::Int(result) : Fail(node, fault);
  }
  if (a.kind == b.kind && a.is(Kind::kUint)) {
    std::uint64_t result = 0;
    const auto fault = IntegerArithmetic(node.op, a.uint, b.uint, &result);
    return fault.empty() ? Value::Uint(result) : Fail(node, fault);
  }
  if (a.kind == b.kind && a.is(Kind::kDouble) && node.op != Op::kModulo) {
    return Value::Double(DoubleArithmetic(node.op, a.number, b.number));
  }
  if (node.op == Op::kAdd && ((a.kind == b.kind && a.is_text()) || (a.is_list() && b.is_list()))) {
    return Concatenate(node, a, b);
  }
  return TimeArithmetic(node, a, b);
}

Value Evaluator::TimeArithmetic(const Node& node, const Value& a, const Value& b) {
  const int sign = node.op == Op::kAdd ? 1 : -1;
  if (node.op == Op::kAdd || node.op == Op::kSubtract) {
    if (a.is(Kind::kDuration) && b.is(Kind::kDuration)) return Or(node, AddDurations(a, b, sign));
    if (a.is(Kind::kTimestamp) && b.is(Kind::kDuration)) {
      return Or(node, AddToTimestamp(a, b, sign));
    }
    if (a.is(Kind::kDuration) && b.is(Kind::kTimestamp) && node.op == Op::kAdd) {
      return Or(node, AddToTimestamp(b, a, 1));
    }
    if (a.is(Kind::kTimestamp) && b.is(Kind::kTimestamp) && node.op == Op::kSubtract) {
      return Or(node, SubtractTimestamps(a, b));
    }
  }
  return Fail(node, NoOperator(ast_, node, a.TypeKind(), b.TypeKind()));
}

Value Evaluator::Concatenate(const Node&, const Value& a, const Value& b) {
  if (a.is_text()) {
    const std::size_t size = std::size_t{a.size} + b.size;
    if (!ChargeText(size)) return Exhausted();
    char* text = Allocate<char>(size);
    if (text == nullptr) return Exhausted();
    std::copy_n(a.text, a.size, text);
    std::copy_n(b.text, b.size, text + a.size);
    return Value::Text(a.kind, {text, size});
  }
  const std::size_t count = a.count() + b.count();
  if (!Charge(count)) return Exhausted();
  auto* values = Allocate<Value>(count);
  if (values == nullptr) return Exhausted();
  for (std::size_t i = 0; i < count; ++i) {
    std::construct_at(values + i, i < a.count() ? a.at(i) : b.at(i - a.count()));
  }
  return Value::List(values, count);
}

Value Evaluator::Negate(const Node& node, const Value& value) {
  if (value.is(Kind::kDouble)) return Value::Double(-value.number);
  if (!value.is(Kind::kInt)) {
    return Fail(node, "'-' does not take " + std::string(KindOf(value)));
  }
  if (value.integer == INT64_MIN) return Fail(node, "the result is out of range");
  return Value::Int(-value.integer);
}

Value Evaluator::Select(const Node& node, const Value& target) {
  if (target.is(Kind::kJsonMap)) {
    const auto* found = target.json_map->find(node.name);
    if (found != target.json_map->end()) return Value::FromJson(found->value());
    return NoSuchKey(node, target, node.name);
  }
  if (target.is(Kind::kMap)) {
    const auto found = Find(target, Value::String(node.name));
    if (exhausted()) return Exhausted();
    return found ? *found : NoSuchKey(node, target, node.name);
  }
  if (target.is(Kind::kNull)) {
    return Fail(node, "'" + Excerpt(ast_.TextOf(ast_.Child(node, 0))) +
                          "' is null, so it has no field '" + std::string(node.name) + "'" +
                          NullHint(ast_, ast_.Child(node, 0)));
  }
  return Fail(node, "'" + Excerpt(ast_.TextOf(ast_.Child(node, 0))) + "' is " +
                        std::string(KindOf(target)) + " and has no field '" +
                        std::string(node.name) + "'");
}

Value Evaluator::Has(const Node& node, const Value& target) {
  if (!target.is_map()) return Select(node, target);
  const bool found = Find(target, Value::String(node.name)).has_value();
  return exhausted() ? Exhausted() : Value::Bool(found);
}

Value Evaluator::Index(const Node& node, const Value& target, const Value& key) {
  if (target.is_map()) {
    const auto found = Find(target, key);
    if (exhausted()) return Exhausted();
    if (found) return *found;
    if (key.is(Kind::kString)) return NoSuchKey(node, target, key.view());
    const bool json = target.is(Kind::kJsonMap);
    return Fail(node, json ? "keys of JSON objects are strings, not " + std::string(KindOf(key)) +
                                 "; write string(...)"
                           : "there is no such key; test with 'key in map' first");
  }
  if (!target.is_list()) {
    return Fail(node, "a list or a map is needed before '[', but this is " +
                          std::string(KindOf(target)) +
                          (target.is(Kind::kNull) ? NullHint(ast_, ast_.Child(node, 0)) : ""));
  }
  const auto index = WholeNumber(key);
  if (!index) {
    return Fail(node, "a list is indexed by a whole number, not by " + std::string(KindOf(key)));
  }
  if (*index < 0 || static_cast<std::uint64_t>(*index) >= target.count()) {
    return Fail(node, "index " + std::to_string(*index) + " is out of range: the list has " +
                          std::to_string(target.count()) + " elements, counted from 0");
  }
  return target.at(static_cast<std::size_t>(*index));
}

Value Evaluator::NoSuchKey(const Node& node, const Value& map, std::string_view key) {
  constexpr std::size_t kMostLookedAt = 50;
  std::vector<std::string_view> known;
  known.reserve(kMostLookedAt);
  for (std::size_t i = 0; i < map.count() && i < kMostLookedAt; ++i) {
    const Value have = map.entry(i).key;
    if (have.is(Kind::kString)) known.push_back(have.view());
  }
  if (!Charge(known.size())) return Exhausted();
  const Node& target = ast_.Child(node, 0);
  const std::string hint = DidYouMean(key, known);
  return Fail(node, "'" + Excerpt(ast_.TextOf(target)) + "' has no key '" + Excerpt(key) + "'" +
                        (hint.empty() ? "; ask with has() or 'in' first" : hint));
}

}  // namespace headworks::expr::internal
