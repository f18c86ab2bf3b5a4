#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace headworks::expr {

/// What sort of thing is wrong, so that a caller can give each its own stable code.
enum class FaultKind : std::uint8_t {
  /// The text is not an expression, or `${{` never ends.
  kSyntax,
  /// A variable, field or function that does not exist.
  kUnknownName,
  /// Operands or arguments that never fit.
  kType,
  /// Longer, deeper or larger than allowed.
  kLimit,
  /// An expression where a shell would not see its value as one word.
  kShell,
};

/// One thing that is wrong in an expression or template.
struct Fault {
  FaultKind kind = FaultKind::kSyntax;
  /// Bytes from the start of the text that was compiled; at most its size.
  std::size_t offset = 0;
  /// Bytes that are at fault; 0 = a place between two.
  std::size_t length = 0;
  /// What is wrong and what to do.
  std::string message;

  bool operator==(const Fault&) const = default;
};

}  // namespace headworks::expr
