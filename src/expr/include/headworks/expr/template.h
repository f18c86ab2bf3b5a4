#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/expr/environment.h"
#include "headworks/expr/fault.h"
#include "headworks/expr/program.h"

namespace headworks::expr {

/// Text with expressions in it: `${{ expr }}`.  `$${{` stands for a literal `${{`.
///
/// Threads.  Immutable, as `Program`.
class Template {
 public:
  /// Literal text, or an expression.
  struct Part {
    std::string literal;
    /// Set iff this part is an expression.
    std::optional<Program> program;
    /// Of the part, in bytes from the start of the template.
    std::size_t offset = 0;
  };

  /// On failure kInvalidArgument, and all faults appended to `faults` (may be nullptr).  Offsets
  /// count from the start of `text`.
  static Result<Template> Parse(std::string_view text, const Environment& environment,
                                std::vector<Fault>* faults);
  /// As `Parse`, for `RenderArgument`: a whole expression that is null, a list or a map is a fault.
  static Result<Template> ParseArgument(std::string_view text, const Environment& environment,
                                        std::vector<Fault>* faults);

  bool has_expressions() const;
  /// Whether all of it is one expression, which keeps its type.
  bool is_whole() const;
  /// Of `Render`: that of the expression if it is whole, else string.
  Type type() const;
  /// Of all expressions; offsets count from the start of the template.
  std::vector<Reference> references() const;
  const std::vector<Part>& parts() const { return parts_; }

  /// The value of a whole expression, else text in which every expression is a scalar.
  Result<boost::json::value> Render(const boost::json::object& variables,
                                    const Limits& limits) const;
  /// One argument of a command: always text, also when whole, and without NUL.  Null, lists and
  /// maps are errors that say what to write instead.
  Result<std::string> RenderArgument(const boost::json::object& variables,
                                     const Limits& limits) const;

 private:
  /// Appends a fault for each expression whose value is known to be no text.
  void CheckText(std::vector<Fault>* faults) const;
  Result<std::string> RenderText(const boost::json::object& variables, const Limits& limits) const;

  std::vector<Part> parts_;
};

}  // namespace headworks::expr
