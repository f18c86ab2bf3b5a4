#pragma once

#include <cstddef>
#include <cstdint>

namespace headworks::expr {

/// Bounds of text, whatever the caller wants.
inline constexpr std::size_t kMaxExpressionBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxTemplateExpressions = 1000;
/// Nesting of an expression, and the height of its tree.
inline constexpr std::size_t kMaxExpressionDepth = 200;
/// Faults that are told of one expression.
inline constexpr std::size_t kMaxExpressionFaults = 100;

/// Bounds of one evaluation; reaching one is kAtCapacity.
struct Limits {
  /// Steps: one per operator, function call, element looked at, and 16 bytes of text looked at.
  std::uint64_t max_cost = 1'000'000;
  /// Memory of what is made on the way, and size of the result.
  std::size_t max_bytes = std::size_t{8} << 20;
};

}  // namespace headworks::expr
