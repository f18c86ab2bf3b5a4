#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/expr/environment.h"
#include "headworks/expr/fault.h"
#include "headworks/expr/limits.h"
#include "headworks/expr/type.h"

namespace headworks::expr {

namespace internal {
struct Ast;
}

/// A place where an expression reads a variable, with the constant fields that follow it:
/// `needs["a-b"].output.n` is variable "needs", path {"a-b", "output", "n"}.
struct Reference {
  std::string variable;
  /// Empty = the whole variable, or a field that is known only when it is evaluated.
  std::vector<std::string> path;
  /// Of the variable's name, in bytes from the start of the expression.
  std::size_t offset = 0;
  /// Whether has() asks if there is such a field.
  bool tested = false;
};

/// One compiled and type-checked CEL expression.
///
/// Pure: no I/O but the system's time zone data, no clock, no randomness; the same variables give
/// the same value.
/// Threads.  Immutable: all methods may be called concurrently.  Copies share one expression.
/// Bounds.  `Limits`, and those of limits.h; regular expressions take time linear in the text.
/// Errors.  kInvalidArgument: it failed (no such key, division by zero, an operand of the wrong
///   type); the message quotes the part that did.  kAtCapacity: it reached a limit.
class Program {
 public:
  /// Compiles `text`.  On failure kInvalidArgument with the first fault as message, and all of them
  /// appended to `faults` (may be nullptr), by offset.  A `Fault::offset` counts from the start of
  /// `text`.
  static Result<Program> Compile(std::string_view text, const Environment& environment,
                                 std::vector<Fault>* faults);

  /// `variables` holds a member for each declared variable; one that is missing is an error only
  /// where it is used.  JSON integers within int64 are int, all other numbers double.
  /// The result: bytes become base64 text, timestamps and durations text as `string()` makes it,
  /// keys of maps text.  What JSON cannot say exactly (NaN, infinity, an uint over int64, a type)
  /// is an error.
  Result<boost::json::value> Evaluate(const boost::json::object& variables,
                                      const Limits& limits) const;
  /// As `Evaluate`, but requires a bool: null, numbers and text are not taken for one.
  Result<bool> EvaluateBool(const boost::json::object& variables, const Limits& limits) const;
  /// As `Evaluate`, but requires one scalar and gives it as text; null, lists and maps are errors
  /// that name `string()` and `join()`.
  Result<std::string> EvaluateText(const boost::json::object& variables,
                                   const Limits& limits) const;

  const std::string& text() const;
  /// Of the result; dyn = known only when it is evaluated.
  const Type& type() const;
  /// In the order of the text.
  const std::vector<Reference>& references() const;

 private:
  explicit Program(std::shared_ptr<const internal::Ast> ast) : ast_(std::move(ast)) {}

  /// Shared because programs are copied into every task that uses them, and never change.
  std::shared_ptr<const internal::Ast> ast_;
};

}  // namespace headworks::expr
