#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shell_grammar.h"

/// What a shell does with the words of one command, as far as it decides whether a value may stand
/// in them: some commands read their arguments as code.
namespace headworks::expr::internal {

/// What stands in the text of a word for parts that are not known...
/// ...of a variable of the script,
inline constexpr char kVariable = '\x01';
/// ...of an expression, or of a substitution with one in it,
inline constexpr char kExpression = '\x02';
/// ...of an expression over the matrix, as long as its value is not given.
inline constexpr char kMatrix = '\x03';

/// One word as the shell will see it, quotes removed.
struct ShellWord {
  std::string text;
  /// Whether it had quotes, so that it is no keyword.
  bool quoted = false;
  /// The expressions in it, by number, also those inside of `$(...)`.
  std::size_t first_expression = 0;
  std::size_t end_expression = 0;

  bool has_expression() const { return first_expression < end_expression; }
  bool has(char part) const { return text.find(part) != std::string::npos; }
};

/// An expression that the shell, or a program that it runs, would read as code, and why.
struct ShellDanger {
  std::size_t expression;
  std::string reason;
};

/// What a command does beside.
struct ShellReading {
  /// Its standard input is a program, or becomes words that are.
  bool reads_program = false;
  /// It prints its arguments.
  bool prints = false;
  /// Words added at its end would be data.
  bool takes_data = false;
  /// Words of later commands may mean something else.
  bool renames = false;
};

/// Looks at commands in the order of the script.
///
/// Three rules.  No expression names a program, also behind those that run another (`timeout`,
/// `find -exec`).  None stands where a program of the table in shell_grammar.cc reads code or
/// options.  None stands in words that a builtin evaluates.
class ShellCommands {
 public:
  /// Appends the dangers of one simple command, or of one `[[ ... ]]`.
  ShellReading Check(const std::vector<ShellWord>& words, std::vector<ShellDanger>* dangers);
  /// The same for the elements of an array, `name=(...)`.
  void CheckArray(const std::vector<ShellWord>& words, std::vector<ShellDanger>* dangers);
  /// Whether a command was left alone because it depends on values of the matrix.
  bool depends_on_matrix() const { return depends_on_matrix_; }

 private:
  using Words = std::span<const ShellWord>;
  /// What an option's word says about the rest.
  struct OptionWord {
    OptionKind kind = OptionKind::kFlag;
    /// How many of the words behind it are its own.
    std::size_t values = 0;
  };

  ShellReading Command(Words words);
  /// Of what a grammar says; `words` stand behind the name.
  ShellReading Read(const ShellGrammar& grammar, std::string_view name, Words words);
  OptionWord Option(const ShellGrammar& grammar, std::string_view name, Words words,
                    ShellReading* reading);
  void Run(const ShellGrammar& grammar, std::string_view name, Words words, std::size_t first,
           ShellReading* reading);
  void Assign(std::string_view name, Words words, ShellReading* reading);
  ShellReading Find(Words words);
  /// Of git; `words` are its own command and what follows.
  ShellReading Git(Words words);
  ShellReading Runner(std::string_view name, Words words);
  ShellReading Tar(const ShellGrammar& grammar, std::string_view name, Words words);
  ShellReading Container(std::string_view name, Words words);
  ShellReading Unknown(Words words);
  void Test(Words words);
  void Declare(std::string_view name, Words words);
  void CheckAssignment(const ShellWord& word);
  void Refuse(const ShellWord& word, const std::string& reason);
  void RefuseAll(Words words, const std::string& reason);

  std::vector<ShellDanger>* dangers_ = nullptr;
  bool depends_on_matrix_ = false;
  /// `declare -i` makes later assignments arithmetic, `declare -n` indexes.
  bool has_integers_ = false;
};

/// How many words from the start of a command are keywords (`then`, `!`).
std::size_t SkipKeywords(const std::vector<ShellWord>& words);
/// Whether `text` starts with `NAME=` or `NAME+=`.
bool IsAssignment(std::string_view text);

}  // namespace headworks::expr::internal
