#include "evaluator.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "functions.h"
#include "headworks/base/check.h"
#include "messages.h"

namespace headworks::expr::internal {

Evaluator::Evaluator(const Ast& ast, const boost::json::object& variables, const Limits& limits)
    : ast_(ast),
      variables_(variables),
      limits_(limits),
      arena_(first_bytes_.data(), first_bytes_.size()) {
  slots_ = first_slots_;
  if (ast.slots > slots_.size()) {
    // Bounded by the depth of expressions, so it is not counted.
    auto* more = static_cast<Value*>(arena_.allocate(ast.slots * sizeof(Value), alignof(Value)));
    std::uninitialized_fill_n(more, ast.slots, Value());
    slots_ = {more, ast.slots};
  }
}

void* Evaluator::AllocateBytes(std::size_t bytes, std::size_t alignment) {
  // Text is at most 4 GiB, whatever the limits say: values count it with 32 bits.
  bytes_ += bytes;
  if (bytes > UINT32_MAX || bytes_ > limits_.max_bytes) {
    Exceed("bytes");
    return nullptr;
  }
  return arena_.allocate(std::max<std::size_t>(bytes, 1), alignment);
}

Value Evaluator::MakeText(Value::Kind kind, std::string_view text) {
  if (!ChargeText(text.size())) return Exhausted();
  char* copy = Allocate<char>(text.size());
  if (copy == nullptr) return Exhausted();
  std::copy(text.begin(), text.end(), copy);
  return Value::Text(kind, {copy, text.size()});
}

Value Evaluator::Fail(const Node& node, std::string_view message) {
  if (exhausted()) return Exhausted();
  auto* failure = Allocate<Failure>(1);
  char* copy = Allocate<char>(message.size());
  if (failure == nullptr || copy == nullptr) return Exhausted();
  std::copy(message.begin(), message.end(), copy);
  Value v;
  v.kind = Value::Kind::kError;
  v.failure = std::construct_at(failure, Failure{{copy, message.size()}, &node});
  return v;
}

Value Evaluator::Exhausted() const {
  Value v;
  v.kind = Value::Kind::kError;
  v.failure = nullptr;
  return v;
}

Error Evaluator::ErrorOf(const Value& value) const {
  if (exhausted()) {
    const bool steps = std::string_view(exceeded_) == "steps";
    return {Code::kAtCapacity, "'" + Excerpt(ast_.text) + "' needs more than " +
                                   (steps ? std::to_string(limits_.max_cost) + " steps"
                                          : std::to_string(limits_.max_bytes) + " bytes") +
                                   "; let a task compute it instead"};
  }
  HEADWORKS_CHECK(value.is_error());
  const std::string_view part = ast_.TextOf(*value.failure->node);
  std::string message(value.failure->message);
  if (part.size() < ast_.text.size()) message += ", in '" + Excerpt(part) + "'";
  return {Code::kInvalidArgument, "'" + Excerpt(ast_.text) + "': " + message};
}

Value Evaluator::Evaluate(NodeId id) {
  const Node& node = ast_.node(id);
  if (!Charge(1)) return Exhausted();
  switch (node.op) {
    case Op::kConstant:
      return node.constant;
    case Op::kVariable:
      return Variable(node);
    case Op::kLocal:
      return slots_[node.slot];
    case Op::kSelect: {
      const Value target = Child(node, 0);
      return target.is_error() ? target : Select(node, target);
    }
    case Op::kHas: {
      const Value target = Child(node, 0);
      return target.is_error() ? target : Has(node, target);
    }
    case Op::kIndex: {
      const Value target = Child(node, 0);
      if (target.is_error()) return target;
      const Value key = Child(node, 1);
      return key.is_error() ? key : Index(node, target, key);
    }
    case Op::kList:
      return MakeList(node);
    case Op::kMap:
      return MakeMap(node);
    case Op::kAnd:
    case Op::kOr:
      return Logic(node);
    case Op::kNot: {
      const Value value = Child(node, 0);
      if (value.is(Value::Kind::kBool)) return Value::Bool(!value.boolean);
      return value.is_error() ? value : NotBool(ast_.Child(node, 0), value);
    }
    case Op::kNegate: {
      const Value value = Child(node, 0);
      return value.is_error() ? value : Negate(node, value);
    }
    case Op::kConditional:
      return Conditional(node);
    case Op::kCall:
      return CallFunction(node);
    case Op::kAll:
    case Op::kExists:
    case Op::kExistsOne:
      return Quantifier(node);
    case Op::kMapEach:
    case Op::kMapSome:
    case Op::kFilter:
      return Transform(node);
    case Op::kBind: {
      const Value value = Child(node, 0);
      if (value.is_error()) return value;
      slots_[node.slot] = value;
      return Child(node, 1);
    }
    default:
      return Binary(node);
  }
}

Value Evaluator::Variable(const Node& node) {
  const auto* found = variables_.find(node.name);
  if (found != variables_.end()) return Value::FromJson(found->value());
  return Fail(node, "there is no variable '" + std::string(node.name) + "' here");
}

Value Evaluator::NotBool(const Node& node, const Value& value) {
  return Fail(node, "a bool is needed, but this is " + std::string(KindOf(value)) +
                        (value.is(Value::Kind::kNull) ? "; compare it: x != null" : ""));
}

/// An error counts only if no other operand decides.
Value Evaluator::Logic(const Node& node) {
  const bool decides = node.op == Op::kOr;
  Value error;
  for (const NodeId id : ast_.ChildrenOf(node)) {
    Value value = Evaluate(id);
    if (value.is(Value::Kind::kBool)) {
      if (value.boolean == decides) return value;
      continue;
    }
    if (!value.is_error()) value = NotBool(ast_.node(id), value);
    if (exhausted()) return Exhausted();
    if (!error.is_error()) error = value;
  }
  return error.is_error() ? error : Value::Bool(!decides);
}

Value Evaluator::Conditional(const Node& node) {
  const Value condition = Child(node, 0);
  if (condition.is(Value::Kind::kBool)) return Child(node, condition.boolean ? 1 : 2);
  return condition.is_error() ? condition : NotBool(ast_.Child(node, 0), condition);
}

Value Evaluator::MakeList(const Node& node) {
  auto* values = Allocate<Value>(node.child_count);
  if (values == nullptr) return Exhausted();
  for (std::size_t i = 0; i < node.child_count; ++i) {
    const Value value = Child(node, i);
    if (value.is_error()) return value;
    std::construct_at(values + i, value);
  }
  return Value::List(values, node.child_count);
}

Value Evaluator::MakeMap(const Node& node) {
  const std::size_t count = node.child_count / 2;
  auto* entries = Allocate<MapEntry>(count);
  if (entries == nullptr) return Exhausted();
  for (std::size_t i = 0; i < count; ++i) {
    const Value key = Child(node, 2 * i);
    if (key.is_error()) return key;
    const Node& key_node = ast_.Child(node, 2 * i);
    using Kind = Value::Kind;
    if (!key.is(Kind::kString) && !key.is(Kind::kBool) && !key.is(Kind::kInt) &&
        !key.is(Kind::kUint)) {
      return Fail(key_node, "a key of a map is a string, int, uint or bool, but this is " +
                                std::string(KindOf(key)));
    }
    const bool twice = Find(Value::Map(entries, i), key).has_value();
    if (exhausted()) return Exhausted();
    if (twice) return Fail(key_node, "the key is in the map twice");
    const Value value = Child(node, 2 * i + 1);
    if (value.is_error()) return value;
    std::construct_at(entries + i, MapEntry{key, value});
  }
  return Value::Map(entries, count);
}

Value Evaluator::CallFunction(const Node& node) {
  constexpr std::size_t kMost = 4;
  if (node.function == nullptr) {
    return Fail(node, "there is no function '" + std::string(node.name) + "'");
  }
  std::array<Value, kMost> values;
  if (node.child_count > kMost) {
    return Fail(node, "too many arguments; it is called " + Usage(*node.function));
  }
  for (std::size_t i = 0; i < node.child_count; ++i) {
    values[i] = Child(node, i);
    if (values[i].is_error()) return values[i];
  }
  const std::span<const Value> arguments(values.data(), node.child_count);
  if (FindOverload(*node.function, node.member, arguments) == nullptr) {
    for (std::size_t i = 0; i < node.child_count; ++i) {
      if (!values[i].is(Value::Kind::kNull)) continue;
      return Fail(node, std::string(node.name) + "() does not take null" +
                            NullHint(ast_, ast_.Child(node, i)));
    }
    std::string given;
    for (const Value& argument : arguments) {
      given += (given.empty() ? "" : ", ") + std::string(KindOf(argument));
    }
    return Fail(node, std::string(node.name) + "() does not take (" + given + "); it is called " +
                          Usage(*node.function));
  }
  return node.function->call(*this, node, arguments);
}

Value Evaluator::Quantifier(const Node& node) {
  const Value over = Child(node, 0);
  if (over.is_error()) return over;
  if (!over.is_list() && !over.is_map()) {
    const Node& what = ast_.Child(node, 0);
    return Fail(what, std::string(node.name) + "() goes over a list or a map, not " +
                          std::string(KindOf(over)) +
                          (over.is(Value::Kind::kNull) ? NullHint(ast_, what) : ""));
  }
  if (node.op == Op::kExistsOne) return ExistsOne(node, over);
  const bool decides = node.op == Op::kExists;
  Value error;
  const std::size_t count = over.count();
  for (std::size_t i = 0; i < count; ++i) {
    slots_[node.slot] = Element(over, i);
    Value value = Child(node, 1);
    if (value.is(Value::Kind::kBool)) {
      if (value.boolean == decides) return value;
      continue;
    }
    if (!value.is_error()) value = NotBool(ast_.Child(node, 1), value);
    if (exhausted()) return Exhausted();
    if (!error.is_error()) error = value;
  }
  return error.is_error() ? error : Value::Bool(!decides);
}

/// All elements are looked at, and an error is never absorbed.
Value Evaluator::ExistsOne(const Node& node, const Value& over) {
  std::size_t found = 0;
  const std::size_t count = over.count();
  for (std::size_t i = 0; i < count; ++i) {
    slots_[node.slot] = Element(over, i);
    const Value value = Child(node, 1);
    if (value.is_error()) return value;
    if (!value.is(Value::Kind::kBool)) return NotBool(ast_.Child(node, 1), value);
    found += value.boolean ? 1 : 0;
  }
  return Value::Bool(found == 1);
}

Value Evaluator::Transform(const Node& node) {
  const Value over = Child(node, 0);
  if (over.is_error()) return over;
  if (!over.is_list() && !over.is_map()) {
    const Node& what = ast_.Child(node, 0);
    return Fail(what, std::string(node.name) + "() goes over a list or a map, not " +
                          std::string(KindOf(over)) +
                          (over.is(Value::Kind::kNull) ? NullHint(ast_, what) : ""));
  }
  const std::size_t count = over.count();
  auto* values = Allocate<Value>(count);
  if (values == nullptr) return Exhausted();
  std::size_t made = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Value value = Element(over, i);
    slots_[node.slot] = value;
    if (node.op != Op::kMapEach) {
      const Value wanted = Child(node, 1);
      if (wanted.is_error()) return wanted;
      if (!wanted.is(Value::Kind::kBool)) return NotBool(ast_.Child(node, 1), wanted);
      if (!wanted.boolean) continue;
    }
    if (node.op != Op::kFilter) value = Child(node, node.op == Op::kMapEach ? 1 : 2);
    if (value.is_error()) return value;
    std::construct_at(values + made++, value);
  }
  return Value::List(values, made);
}

}  // namespace headworks::expr::internal
