#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "headworks/expr/environment.h"
#include "headworks/expr/fault.h"
#include "headworks/expr/program.h"

namespace headworks::expr::internal {

inline constexpr std::string_view kOpen = "${{";
/// A literal `${{`.
inline constexpr std::string_view kEscapedOpen = "$${{";

/// Whether no template may be as `text` is (too long, not UTF-8); appends the fault.
bool RefusedTemplate(std::string_view text, std::vector<Fault>* faults);

/// The place behind the `}}` of the expression that opens at `open` in `text`.  Braces and quotes
/// inside it are those of the language.  nullopt = it has no end; a fault was appended.
std::optional<std::size_t> FindEnd(std::string_view text, std::size_t open,
                                   std::vector<Fault>* faults);

/// Compiles `text[open, end)`, `${{` and `}}` included; fault offsets count from the start of
/// `text`.
std::optional<Program> CompilePart(std::string_view text, std::size_t open, std::size_t end,
                                   const Environment& environment, std::vector<Fault>* faults);

/// Of `program`, whose text starts at `offset`; appends to `to`.
void AppendReferences(const Program& program, std::size_t offset, std::vector<Reference>* to);

/// The offset of the expression's text behind `${{` and blanks at `open`.
std::size_t ExpressionOffset(std::string_view text, std::size_t open);

/// Appends a fault if the value of `program`, whose text starts at `offset`, is known to be no
/// text.
void CheckIsText(const Program& program, std::size_t offset, std::vector<Fault>* faults);

/// The error that a parse which appended faults from `first` on returns.
Error FirstFault(const std::vector<Fault>& faults, std::size_t first);

}  // namespace headworks::expr::internal
