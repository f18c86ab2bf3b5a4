#pragma once

#include <string_view>

/// What is known about programs whose arguments may be code: where their options end, and which of
/// their words are a command or a program text.
namespace headworks::expr::internal {

/// What an option says about the words behind it, as written behind its name in a table.
enum class OptionKind : char {
  /// Takes no value, or is not known.
  kFlag = '\0',
  /// Its value is data.
  kData = ' ',
  /// So are the next two words.
  kTwoData = '2',
  /// Its value is code, or names a file of it.
  kCode = '!',
  /// Its value is the program, so that no operand is.
  kProgram = '*',
  /// So, and all words behind it are the program's.
  kLast = '.',
  /// No value; the program comes from standard input.
  kInput = '<',
};

struct ShellGrammar {
  enum class Reads : char {
    /// The words behind the options and `data` operands as a command to run.
    kCommand,
    /// One operand behind them as a program, or the name of one; what follows is the program's.
    kProgram,
    /// The same, but options are read up to `--`, wherever they stand.
    kProgramAmongOptions,
    /// All operands behind them as code.
    kCode,
  };
  enum class Input : char { kData, kProgramIfNoneGiven, kProgram };

  /// Between blanks, without version.
  std::string_view names;
  Reads reads = Reads::kProgram;
  Input input = Input::kData;
  /// Between blanks: `-x` or `--long`, then its kind; kData is the blank.
  std::string_view options = " ";
  /// How many operands come before the command or program.
  int data = 0;
};

/// Of the program that the word of a command names, by its path and version or not (`python3.11`);
/// nullptr = nothing is known.
const ShellGrammar* FindGrammar(std::string_view word);
/// The last part of a path.
inline std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }
/// The same, without the digits of a version.
std::string_view ProgramName(std::string_view word);
/// Of `option`, as `-x` or `--long`, which may be cut short.
OptionKind KindOf(const ShellGrammar& grammar, std::string_view option);
/// Whether the value of the variable `name` is code, or says where the shell, the loader or an
/// interpreter finds it.
bool IsSpecialVariable(std::string_view name);

}  // namespace headworks::expr::internal
