#pragma once

#include <string_view>

/// What holds for any bytes; a broken property ends the process.
namespace headworks::expr {

/// As an expression: faults that point into it, or a program whose value has the type that was
/// found, the same each time, or an error.
void CheckExpression(std::string_view text);

/// As a template, an argument, and a script of each shell.
void CheckTemplate(std::string_view text);

}  // namespace headworks::expr
