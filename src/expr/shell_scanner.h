#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/expr/shell_template.h"
#include "shell_command.h"

namespace headworks::expr::internal {

/// One expression found in a script.
struct ShellUse {
  /// `${{` and behind `}}`.
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Why it may not be bound there; empty = it may.
  std::string refused;
  /// Its value stands in the file, as the script does.
  bool fixed = false;
};

/// Follows the quoting of a script of sh or bash as the shell will, and finds its expressions; and
/// what is piped or redirected into commands that read a program.
///
/// It refuses rather than guesses: where the two shells, or their manuals and programs, differ, the
/// expressions from there on are refused.
class ShellScanner {
 public:
  /// Where an expression that opens at an offset ends; npos = nowhere (a fault was reported).
  using FindEnd = std::function<std::size_t(std::size_t open)>;
  /// What stands in the place of an expression.
  struct Bound {
    /// The text that refers to it, without quotes.
    std::string reference;
    /// Whether its value stands in the file, and that, if known.
    bool fixed = false;
    std::optional<std::string> value;
  };
  /// Of expression number `index`.
  using Refer = std::function<Bound(std::size_t index)>;

  /// Borrows `text`.
  ShellScanner(std::string_view text, Shell shell, FindEnd find_end, Refer refer);

  /// The script with its expressions replaced; once.
  std::string Run();
  const std::vector<ShellUse>& uses() const { return uses_; }
  bool depends_on_matrix() const { return commands_.depends_on_matrix(); }

 private:
  enum class Ends : std::uint8_t { kAtEnd, kAtParenthesis };
  struct Heredoc {
    std::string delimiter;
    bool quoted = false;
    bool strip_tabs = false;
    std::size_t input = 0;  // in inputs_
  };
  /// Expressions that come to a command by its standard input.
  struct Input {
    std::size_t first_expression = 0;
    std::size_t end_expression = 0;
    /// They name a file of it.
    bool file = false;
    /// Who reads it takes it as a program.
    bool code = false;
  };
  /// The innermost group, loop or the like, and the pipeline in it.
  struct Frame {
    /// What it prints so far: from here in printed_...
    std::size_t pipeline = 0;
    /// ...to here it goes into the command that is being read.
    std::size_t piped = 0;
    /// A command in the frame reads its standard input as a program.
    bool reads_program = false;
  };
  /// `case` in a list of commands.
  enum class Case : std::uint8_t { kBeforeIn, kPattern, kBody };
  /// A list of commands up to its end, and where it stands.
  struct List {
    std::vector<ShellWord> words;
    ShellWord word;
    bool in_word = false;
    bool redirected = false;
    /// By >& or <&.
    bool duplicates = false;
    /// By one that reads.
    bool reads = false;
    /// Its word is the name of a file.
    bool names_file = false;
    /// What comes to the command, in inputs_; by redirections, not by a pipe.
    std::vector<std::size_t> inputs;
    bool has_input = false;
    /// The command is a group or the like, one that reads a program.
    bool group_reads_program = false;
    /// What it prints goes into such a command, by >( ).
    bool prints_program = false;
    /// There is a command, not just a line break.
    bool has_command = false;
    /// How many frames there are around the list.
    std::size_t frames = 0;
    /// Between [[ and ]].
    bool testing = false;
    /// The elements of an array.
    bool array = false;
    std::vector<Case> cases;
  };

  bool done() const { return at_ >= limit_ || stop_; }
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < limit_ ? text_[at_ + ahead] : '\0';
  }
  bool StartsWith(std::string_view what) const {
    return text_.substr(at_, limit_ - at_).starts_with(what);
  }
  void Copy(std::size_t count);
  /// From `offset` on quoting cannot be followed.
  void Lose(std::size_t offset);
  /// Handles an expression or its escape if one is here; true if so.
  bool Template(bool in_quotes, std::string_view refused, ShellWord* word);

  /// Whether one of them reads its standard input as a program.
  bool Commands(Ends ends, bool array);
  void CommandCharacter(List* list);
  /// Operators and blanks; false = the character belongs to a word.
  bool Operator(List* list);
  bool OpenParenthesis(List* list);
  bool FunctionParentheses(List* list);
  void BeginWord(List* list);
  void Redirection(List* list);
  void EndWord(List* list);
  void EndCommand(List* list);
  /// The command ends by an operator; a pipe goes on with what it prints.
  void EndCommandBy(List* list, bool pipe);
  void OpenFrame();
  bool CloseFrames(std::size_t count);
  void CloseGroup(List* list);
  void ReadProgram();
  std::size_t AddInput(const ShellWord& word, bool file);
  void ReadHeredocName(Heredoc* heredoc);
  void HeredocBodies();
  void Comment();

  void Dollar(bool in_quotes, ShellWord* word);
  void SingleQuotes(ShellWord* word);
  void DollarSingleQuotes(ShellWord* word);
  /// Up to a closing quote, or to the limit in a here-document.
  void DoubleQuotes(bool heredoc, ShellWord* word);
  void Backticks(ShellWord* word);
  void Brace(bool in_quotes, ShellWord* word);
  void Arithmetic(ShellWord* word);
  void Nested(ShellWord* word, const std::function<void()>& scan);

  std::string_view text_;
  Shell shell_;
  FindEnd find_end_;
  Refer refer_;
  std::size_t at_ = 0;
  std::size_t limit_;
  std::size_t lost_ = std::string_view::npos;
  /// Nothing more is followed: a fault was found, or...
  bool stop_ = false;
  /// ...the script nests deeper than this follows it.
  bool too_deep_ = false;
  int depth_ = 0;
  /// Why no expression may stand in what is around this place; empty = it may.
  std::string_view around_;
  std::string out_;
  std::vector<ShellUse> uses_;
  std::vector<Heredoc> heredocs_;
  std::vector<Input> inputs_;
  /// What commands print, in the order of the script; positions in inputs_.
  std::vector<std::size_t> printed_;
  std::vector<Frame> frames_;
  ShellCommands commands_;
  std::vector<ShellDanger> dangers_;
};

}  // namespace headworks::expr::internal
