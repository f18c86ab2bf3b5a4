#pragma once

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/expr/environment.h"
#include "headworks/expr/fault.h"
#include "headworks/expr/program.h"

namespace headworks::expr {

/// Who runs a script.
enum class Shell : std::uint8_t {
  kSh,
  kBash,
  /// Any other interpreter: expressions in its scripts are faults.
  kOther,
};

/// By the name of the program, with or without its folder.  Whoever checks a script and whoever
/// binds it must agree, so both ask here.
Shell ShellOf(std::string_view program);

/// A shell script with `${{ expr }}` in it, bound so that no value can be read as shell code.
///
/// Each expression becomes a reference to a variable of the environment, `"${HEADWORKS_V1}"`, or
/// without the quotes where it already stands between double quotes or in a here-document: always
/// one word, byte for byte.  An expression is a fault, which says to put it into `env`, where
/// - the shell would not expand it (single quotes, quoted here-documents) or its quoting cannot be
///   followed for sure;
/// - its value would name a program, also behind programs that run another (`timeout`, `xargs`);
/// - a known interpreter would read it as its program, as the name of one, or as an option, or from
///   what is redirected or piped into it (`sh -c`, `awk`, `psql`, `echo ... | sh`);
/// - the shell would evaluate it (arithmetic, indexes, `eval`, `PATH=`, `[ -v ]`).
/// What reads the variable `matrix` alone counts as text of the script, because its values are.  In
/// comments expressions stay as they are.  `$${{` stands for a literal `${{`.
///
/// Threads.  Immutable, as `Program`.
class ShellTemplate {
 public:
  /// On failure kInvalidArgument, and all faults appended to `faults` (may be nullptr).  With the
  /// value of `matrix` (borrowed during the call) what reads nothing else is judged as if its value
  /// stood there; without, commands that depend on it are not judged.
  static Result<ShellTemplate> Parse(std::string_view text, Shell shell,
                                     const Environment& environment, std::vector<Fault>* faults,
                                     const boost::json::object* matrix = nullptr);

  /// The script to run; the same whatever the values.
  const std::string& script() const { return script_; }
  bool has_expressions() const { return !bindings_.empty(); }
  /// Whether a command can be judged only with the value of `matrix`.
  bool depends_on_matrix() const { return depends_on_matrix_; }
  /// Of all expressions; offsets count from the start of the template.
  std::vector<Reference> references() const;

  /// Name and value of each variable that `script()` needs in its environment.  kInvalidArgument
  /// for null, lists, maps, and values with NUL; kAtCapacity for one that Linux cannot pass
  /// (128 KiB with its name).
  Result<std::vector<std::pair<std::string, std::string>>> Bind(
      const boost::json::object& variables, const Limits& limits) const;

 private:
  struct Binding {
    std::string name;
    Program program;
    std::size_t offset = 0;
  };
  std::string script_;
  std::vector<Binding> bindings_;
  bool depends_on_matrix_ = false;
};

}  // namespace headworks::expr
