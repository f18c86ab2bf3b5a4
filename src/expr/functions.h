#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ast.h"
#include "headworks/base/result.h"
#include "headworks/expr/type.h"
#include "value.h"

namespace headworks::expr::internal {

class Evaluator;

/// One way to call a function.  As a parameter dyn takes anything; a list as result has strings.
struct Overload {
  /// `target.f(...)`, the target being the first parameter; else `f(...)`.
  bool member;
  std::uint8_t count;
  std::array<Type::Kind, 4> parameters;
  Type::Kind result;
};

/// Called with arguments that fit one of `overloads`.
using Call = Value (*)(Evaluator& evaluator, const Node& node, std::span<const Value> arguments);

struct Function {
  std::string_view name;
  Call call;
  std::span<const Overload> overloads;
};

/// nullptr = there is none.
const Function* FindFunction(std::string_view name);
std::span<const Function> Functions();

/// Whether a value of `given` may be passed for `wanted`, as far as is known.
bool Fits(const Type& given, Type::Kind wanted);
/// The overload that takes `arguments`; nullptr = none.
const Overload* FindOverload(const Function& function, bool member,
                             std::span<const Value> arguments);
/// "text.charAt(int)": how a function is called, one form after the other.
std::string Usage(const Function& function);

// The functions, by file.  The table in functions.cc says what each one takes.
Value CallBool(Evaluator&, const Node&, std::span<const Value>);
Value CallBytes(Evaluator&, const Node&, std::span<const Value>);
Value CallDouble(Evaluator&, const Node&, std::span<const Value>);
Value CallDyn(Evaluator&, const Node&, std::span<const Value>);
Value CallExtreme(Evaluator&, const Node&, std::span<const Value>);
Value CallInt(Evaluator&, const Node&, std::span<const Value>);
Value CallString(Evaluator&, const Node&, std::span<const Value>);
Value CallType(Evaluator&, const Node&, std::span<const Value>);
Value CallUint(Evaluator&, const Node&, std::span<const Value>);

Value CallDuration(Evaluator&, const Node&, std::span<const Value>);
Value CallTimestamp(Evaluator&, const Node&, std::span<const Value>);
Value CallTimeField(Evaluator&, const Node&, std::span<const Value>);

Value CallCharAt(Evaluator&, const Node&, std::span<const Value>);
Value CallContains(Evaluator&, const Node&, std::span<const Value>);
Value CallEndsWith(Evaluator&, const Node&, std::span<const Value>);
Value CallFormat(Evaluator&, const Node&, std::span<const Value>);
Value CallIndexOf(Evaluator&, const Node&, std::span<const Value>);
Value CallJoin(Evaluator&, const Node&, std::span<const Value>);
Value CallLastIndexOf(Evaluator&, const Node&, std::span<const Value>);
Value CallLowerAscii(Evaluator&, const Node&, std::span<const Value>);
Value CallMatches(Evaluator&, const Node&, std::span<const Value>);
Value CallQuote(Evaluator&, const Node&, std::span<const Value>);
Value CallReplace(Evaluator&, const Node&, std::span<const Value>);
Value CallReverse(Evaluator&, const Node&, std::span<const Value>);
Value CallSize(Evaluator&, const Node&, std::span<const Value>);
Value CallSplit(Evaluator&, const Node&, std::span<const Value>);
Value CallStartsWith(Evaluator&, const Node&, std::span<const Value>);
Value CallSubstring(Evaluator&, const Node&, std::span<const Value>);
Value CallTrim(Evaluator&, const Node&, std::span<const Value>);
Value CallUpperAscii(Evaluator&, const Node&, std::span<const Value>);

/// Compiles a pattern of `matches`, bounded in memory; its error says what is wrong with it.
Result<std::unique_ptr<RE2>> CompilePattern(std::string_view pattern);

}  // namespace headworks::expr::internal
