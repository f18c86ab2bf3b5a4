#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ast.h"
#include "headworks/base/result.h"
#include "headworks/expr/limits.h"
#include "value.h"

namespace headworks::expr::internal {

/// Why there is no value.
struct Failure {
  std::string_view message;
  const Node* node;
};

/// One evaluation of one expression.
///
/// Values are trivially copyable and borrow; what is made on the way is in an arena that starts on
/// the stack, so that most evaluations do not allocate.  An error is a value too, because && and ||
/// absorb it; reaching a limit is not absorbed by anything.
class Evaluator {
 public:
  /// Borrows all three.
  Evaluator(const Ast& ast, const boost::json::object& variables, const Limits& limits);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Value Run() { return Evaluate(ast_.root); }

  // For what is made of the result.

  /// The error of a value that is one, told with the part of the expression that failed.
  Error ErrorOf(const Value& value) const;
  Result<boost::json::value> ToJson(const Value& value);
  /// A scalar as text.
  Result<std::string> ToText(const Value& value);

  // For operators and functions.

  const Ast& ast() const { return ast_; }
  /// An error value; `node` is the part that failed.
  Value Fail(const Node& node, std::string_view message);
  Value Fail(const Node& node, const Error& error) { return Fail(node, error.message); }
  /// `result`, or an error value at `node`.
  Value Or(const Node& node, const Result<Value>& result) {
    return result ? *result : Fail(node, result.error());
  }
  /// Counts steps; false = no more are left, and the caller returns Exhausted().
  bool Charge(std::uint64_t steps) {
    cost_ += steps;
    return cost_ <= limits_.max_cost || !Exceed("steps");
  }
  /// Counts looking at `bytes` of text.
  bool ChargeText(std::size_t bytes) { return Charge(1 + bytes / 16); }
  Value Exhausted() const;
  bool exhausted() const { return exceeded_ != nullptr; }

  /// Memory until the end of the evaluation; nullptr = no more is left, Exhausted().
  template <typename T>
  T* Allocate(std::size_t count) {
    return static_cast<T*>(AllocateBytes(count * sizeof(T), alignof(T)));
  }
  /// `text`, copied; an error value if there is no memory left.
  Value MakeText(Value::Kind kind, std::string_view text);
  Value MakeString(std::string_view text) { return MakeText(Value::Kind::kString, text); }

  /// Equality of any two values.  Check exhausted() behind it.
  bool Equal(const Value& a, const Value& b, int depth = 0);
  /// The value of `key` in a map.  Check exhausted() behind it.
  std::optional<Value> Find(const Value& map, const Value& key);

 private:
  // evaluator.cc
  Value Evaluate(NodeId id);
  Value Child(const Node& node, std::size_t index) { return Evaluate(ast_.ChildId(node, index)); }
  Value Variable(const Node& node);
  Value Logic(const Node& node);
  Value Conditional(const Node& node);
  Value MakeList(const Node& node);
  Value MakeMap(const Node& node);
  Value CallFunction(const Node& node);
  Value NotBool(const Node& node, const Value& value);
  /// Element or key number `index` of what a macro goes over.
  static Value Element(const Value& over, std::size_t index) {
    return over.is_map() ? over.entry(index).key : over.at(index);
  }
  Value Quantifier(const Node& node);
  Value ExistsOne(const Node& node, const Value& over);
  Value Transform(const Node& node);

  // operators.cc
  Value Binary(const Node& node);
  Value Compare(const Node& node, const Value& a, const Value& b);
  Value In(const Node& node, const Value& a, const Value& b);
  Value Arithmetic(const Node& node, const Value& a, const Value& b);
  Value TimeArithmetic(const Node& node, const Value& a, const Value& b);
  Value Concatenate(const Node& node, const Value& a, const Value& b);
  Value Negate(const Node& node, const Value& value);
  /// target.name; `has` asks only whether there is one.
  Value Select(const Node& node, const Value& target);
  Value Has(const Node& node, const Value& target);
  Value Index(const Node& node, const Value& target, const Value& key);
  Value NoSuchKey(const Node& node, const Value& map, std::string_view key);
  bool EqualMaps(const Value& a, const Value& b, int depth);

  // result.cc
  std::optional<Error> AppendJson(const Value& value, boost::json::value* to, int depth);
  std::optional<Error> AppendCopy(const boost::json::value& from, boost::json::value* to,
                                  int depth);
  std::optional<Error> AppendMap(const Value& value, boost::json::value* to, int depth);
  bool ChargeResult(std::size_t bytes);

  void* AllocateBytes(std::size_t bytes, std::size_t alignment);
  /// Records the limit that was reached; true.
  bool Exceed(const char* what) {
    if (exceeded_ == nullptr) exceeded_ = what;
    return true;
  }

  const Ast& ast_;
  const boost::json::object& variables_;
  const Limits& limits_;
  std::uint64_t cost_ = 0;
  std::size_t bytes_ = 0;
  const char* exceeded_ = nullptr;
  std::span<Value> slots_;
  std::array<Value, 4> first_slots_;
  alignas(std::max_align_t) std::array<std::byte, 1024> first_bytes_;
  std::pmr::monotonic_buffer_resource arena_;
};

}  // namespace headworks::expr::internal
