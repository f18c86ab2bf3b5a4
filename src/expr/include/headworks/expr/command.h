#pragma once

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "headworks/expr/fault.h"
#include "headworks/expr/template.h"

namespace headworks::expr {

/// What is wrong with a command that no shell reads.
struct CommandReading {
  /// Of which argument, counted from 0, and what; offsets count from the start of its template.
  std::vector<std::pair<std::size_t, Fault>> faults;
  /// Whether it can be judged only with the value of `matrix`.
  bool depends_on_matrix = false;
};

/// Judges a program and its arguments as ShellTemplate judges the command of a script: an
/// expression is a fault where its value would name a program, also behind programs that run
/// another
/// (`timeout`, `xargs`), or where a known interpreter would read it as its program, as the name of
/// one, or as an option (`sh -c`, `awk`).
///
/// With the value of `matrix` (borrowed during the call) what reads nothing else is judged as if
/// its value stood there; without, a command that depends on it is not judged.
CommandReading ReadCommand(std::span<const Template> arguments,
                           const boost::json::object* matrix = nullptr);

}  // namespace headworks::expr
