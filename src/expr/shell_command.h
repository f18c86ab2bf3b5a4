#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// What a shell does with the words of one command, as far as it decides whether a value may stand
/// in them: some commands read their arguments as code.
namespace headworks::expr::internal {

/// One word as the shell will see it, quotes removed.
struct ShellWord {
  /// What does not come from an expression or a substitution; kValue stands for each of those
  /// whose value is not known.
  std::string text;
  /// Whether it had quotes, so that it is no keyword.
  bool quoted = false;
  /// The expressions in it, by number, also those inside of `$(...)`.
  std::size_t first_expression = 0;
  std::size_t end_expression = 0;

  bool has_expression() const { return first_expression < end_expression; }
};
inline constexpr char kValue = '\x01';

/// An expression that the shell would read as code, and why.
struct ShellDanger {
  std::size_t expression;
  std::string reason;
  /// Only because its value is the command's name.
  bool names_command = false;
};

/// Looks at commands in the order of the script.
class ShellCommands {
 public:
  /// Appends the dangers of one simple command, or of one `[[ ... ]]`.
  void Check(const std::vector<ShellWord>& words, std::vector<ShellDanger>* dangers);
  /// The same for the elements of an array, `name=(...)`.
  void CheckArray(const std::vector<ShellWord>& words, std::vector<ShellDanger>* dangers) const;

 private:
  void CheckAssignment(const ShellWord& word, std::vector<ShellDanger>* dangers) const;

  /// `declare -i` makes later assignments arithmetic.
  bool has_integers_ = false;
};

/// Whether the command may read its standard input as a program: a shell, another interpreter, or
/// one that hands lines to a shell; sudo, env and `docker exec` if what they run is.  Rather too
/// often than not.
bool ReadsProgram(const std::vector<ShellWord>& words);
/// How many words from the start of a command are keywords (`then`, `!`).
std::size_t SkipKeywords(const std::vector<ShellWord>& words);
/// Whether `text` starts with `NAME=` or `NAME+=`.
bool IsAssignment(std::string_view text);

}  // namespace headworks::expr::internal
