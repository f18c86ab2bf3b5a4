#include "shell_scanner.h"

#include <algorithm>
#include <utility>

#include "lexer.h"
#include "template_scan.h"

namespace headworks::expr::internal {
namespace {

constexpr std::string_view kInSingle =
    "stands inside single quotes, where the shell expands nothing;";
constexpr std::string_view kInHeredoc =
    "stands in a here-document with a quoted delimiter, where the shell expands nothing;";
constexpr std::string_view kFed =
    "is fed to a command that reads its input as a program; pass it as an argument, or";
constexpr std::string_view kInBackticks = "stands inside backticks; use $(...) instead, or";
constexpr std::string_view kInBrace = "stands inside ${...};";
constexpr std::string_view kInArithmetic =
    "stands in arithmetic, where the shell evaluates a value as an expression;";
constexpr std::string_view kInIndex = "stands in an index, which is arithmetic;";
constexpr std::string_view kEscaped = "has a backslash before it; leave it out, or";
constexpr std::string_view kInDelimiter = "is the delimiter of a here-document;";
constexpr std::string_view kLost =
    "stands where the quoting of the script before it cannot be followed for sure;";

/// Keywords that begin a command of commands, and that end it.
constexpr std::string_view kOpening[] = {"{", "if", "while", "until", "for", "select", "case"};
constexpr std::string_view kClosing[] = {"}", "fi", "done"};

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

ShellScanner::ShellScanner(std::string_view text, Shell shell, FindEnd find_end, Refer refer)
    : text_(text),
      shell_(shell),
      find_end_(std::move(find_end)),
      refer_(std::move(refer)),
      limit_(text.size()) {}

std::string ShellScanner::Run() {
  static_cast<void>(Commands(Ends::kAtEnd, false));
  if (too_deep_) {
    stop_ = false;
    ShellWord word;
    while (!done()) {
      if (!Template(true, kLost, &word)) Copy(1);
    }
  }
  const auto refuse = [&](std::size_t use, std::string_view reason) {
    if (uses_[use].refused.empty() && !uses_[use].fixed) uses_[use].refused = reason;
  };
  for (const ShellDanger& danger : dangers_) refuse(danger.expression, danger.reason);
  for (const Input& input : inputs_)
    for (std::size_t i = input.first_expression; input.code && i < input.end_expression; ++i)
      refuse(i, kFed);
  for (ShellUse& use : uses_)
    if (use.refused.empty() && use.begin > lost_) use.refused = kLost;
  return std::move(out_);
}

void ShellScanner::Copy(std::size_t count) {
  count = std::min(count, limit_ - at_);
  out_ += text_.substr(at_, count);
  at_ += count;
}

void ShellScanner::Lose(std::size_t offset) { lost_ = std::min(lost_, offset); }

bool ShellScanner::Template(bool in_quotes, std::string_view refused, ShellWord* word) {
  if (StartsWith(kEscapedOpen)) {
    // What the shell makes of `${{` unquoted is an error of its own; its end is still found.
    out_ += kOpen;
    at_ += kEscapedOpen.size();
    if (refused.empty()) Brace(in_quotes, word);
    return true;
  }
  if (!StartsWith(kOpen)) return false;
  const std::size_t end = find_end_(at_);
  if (end == std::string_view::npos) {
    stop_ = true;
    return true;
  }
  if (end > limit_) {  // It runs out of the here-document that it starts in.
    uses_.push_back({at_, end, std::string(kLost), false});
    stop_ = true;
    return true;
  }
  if (!around_.empty()) refused = around_;
  const Bound bound = refer_(uses_.size());
  out_ += in_quotes ? bound.reference : '"' + bound.reference + '"';
  uses_.push_back({at_, end, std::string(refused), bound.fixed});
  word->text += bound.value ? *bound.value : std::string(1, bound.fixed ? kMatrix : kExpression);
  word->quoted = word->quoted || bound.value;
  word->end_expression = uses_.size();
  at_ = end;
  return true;
}

/// Scans something inside of a word, whose expressions are the word's too.
void ShellScanner::Nested(ShellWord* word, const std::function<void()>& scan) {
  constexpr int kDeepest = 50;
  if (depth_ >= kDeepest) {
    too_deep_ = stop_ = true;
    return;
  }
  ++depth_;
  const std::size_t before = uses_.size();
  scan();
  --depth_;
  const bool of_values = std::any_of(uses_.begin() + static_cast<std::ptrdiff_t>(before),
                                     uses_.end(), [](const ShellUse& use) { return !use.fixed; });
  word->text += of_values ? kExpression : kVariable;
  word->end_expression = uses_.size();
}

bool ShellScanner::Commands(Ends ends, bool array) {
  const std::size_t begin = at_;
  OpenFrame();
  List list;
  list.array = array;
  list.frames = frames_.size();
  list.word.first_expression = list.word.end_expression = uses_.size();
  while (!done()) {
    if (Peek() == ')') EndWord(&list);  // It may be `esac`.
    const bool pattern = !list.cases.empty() && list.cases.back() == Case::kPattern;
    if (Peek() == ')' && !pattern && !list.testing) {
      EndCommand(&list);
      if (!list.cases.empty() || ends == Ends::kAtEnd) Lose(at_);
      Copy(1);
      if (ends == Ends::kAtParenthesis) return CloseFrames(list.frames - 1);
      continue;
    }
    CommandCharacter(&list);
  }
  EndWord(&list);
  EndCommand(&list);
  if (ends == Ends::kAtParenthesis) Lose(begin);
  return CloseFrames(list.frames - 1);
}

void ShellScanner::CommandCharacter(List* list) {
  if (Operator(list)) return;
  if (!list->in_word) BeginWord(list);
  ShellWord* word = &list->word;
  if (Template(false, "", word)) return;
  switch (Peek()) {
    case '\\':
      if (text_.substr(at_ + 1).starts_with(kOpen)) {
        Copy(1);
        Template(false, kEscaped, word);
        return;
      }
      word->quoted = true;
      if (Peek(1) != '\n' && Peek(1) != '\0') word->text += Peek(1);
      Copy(2);
      return;
    case '\'':
      SingleQuotes(word);
      return;
    case '"':
      Copy(1);
      word->quoted = true;
      DoubleQuotes(false, word);
      return;
    case '`':
      Backticks(word);
      return;
    case '$':
      Dollar(false, word);
      return;
    default:
      word->text += Peek();
      Copy(1);
  }
}

void ShellScanner::BeginWord(List* list) {
  list->in_word = true;
  list->word = {};
  list->word.first_expression = list->word.end_expression = uses_.size();
}

bool ShellScanner::Operator(List* list) {
  const char c = Peek();
  if (IsBlank(c)) {
    EndWord(list);
    Copy(1);
    return true;
  }
  if (c == '\\' && Peek(1) == '\n' && !list->in_word) {
    Copy(2);
    return true;
  }
  if (c == '#' && !list->in_word) {
    Comment();
    return true;
  }
  if (c == '\n') {
    EndWord(list);
    if (!list->array && !list->testing) EndCommandBy(list, false);
    Copy(1);
    HeredocBodies();
    return true;
  }
  if (c == '<' || c == '>') {
    if (Peek(1) == '(') {
      EndWord(list);
      BeginWord(list);
      Copy(2);
      Nested(&list->word, [&] {
        const bool reads_program = Commands(Ends::kAtParenthesis, false);
        list->prints_program |= c == '>' && reads_program;
      });
    } else {
      Redirection(list);
    }
    return true;
  }
  if (c == '(') return OpenParenthesis(list);
  if (c == ')') {  // Of a pattern, or in [[ ]].
    EndWord(list);
    if (!list->testing) {
      list->words.clear();
      list->cases.back() = Case::kBody;
    }
    Copy(1);
    return true;
  }
  if (c != ';' && c != '&' && c != '|') return false;
  // Both streams to bash; to sh a command in the background, and then a redirection.
  if (StartsWith("&>") && shell_ == Shell::kBash) {
    EndWord(list);
    Copy(1);
    Redirection(list);
    return true;
  }
  EndWord(list);
  const bool twice = Peek(1) == c;
  if (!list->testing) EndCommandBy(list, c == '|' && !twice);
  const bool ends_clause = c == ';' && (twice || Peek(1) == '&');
  if (ends_clause && !list->cases.empty()) list->cases.back() = Case::kPattern;
  Copy(ends_clause || twice || StartsWith("|&") ? 2 : 1);
  if (ends_clause && Peek() == '&') Copy(1);
  return true;
}

bool ShellScanner::OpenParenthesis(List* list) {
  if (list->testing) {
    EndWord(list);
    Copy(1);
    return true;
  }
  if (!list->cases.empty() && list->cases.back() == Case::kPattern && !list->in_word) {
    Copy(1);  // The optional one before a pattern.
    return true;
  }
  if (list->in_word) {
    const std::string& text = list->word.text;
    if (IsAssignment(text) && text.back() == '=') {
      Copy(1);
      Nested(&list->word, [&] { static_cast<void>(Commands(Ends::kAtParenthesis, true)); });
      list->word.text.pop_back();
      return true;
    }
    EndWord(list);
    if (FunctionParentheses(list)) return true;
    Lose(at_);  // A pattern of bash's extglob, or an error.
    Copy(1);
    return true;
  }
  if (FunctionParentheses(list)) return true;
  const bool loop = list->words.size() == 1 && list->words[0].text == "for";
  const bool starts = SkipKeywords(list->words) == list->words.size();
  if (!starts && !loop) Lose(at_);
  if ((starts || loop) && Peek(1) == '(') {
    Copy(2);
    Arithmetic(&list->word);
    return true;
  }
  Copy(1);
  Nested(&list->word, [&] { list->group_reads_program |= Commands(Ends::kAtParenthesis, false); });
  list->word = {};
  list->has_command = true;
  return true;
}

/// `name()`: what follows is a command of its own.
bool ShellScanner::FunctionParentheses(List* list) {
  std::size_t close = at_ + 1;
  while (close < limit_ && IsBlank(text_[close])) ++close;
  if (close >= limit_ || text_[close] != ')' || list->words.empty()) return false;
  if (list->words.back().has_expression() || list->array) return false;
  Copy(close + 1 - at_);
  list->words.clear();
  return true;
}

void ShellScanner::Redirection(List* list) {
  bool standard = true;
  if (const ShellWord& word = list->word; list->in_word) {
    // A number right before it is part of it.
    if (!word.quoted && word.text.find_first_not_of("0123456789") == std::string::npos) {
      list->in_word = false;
      standard = word.text == "0";
    } else if (word.text.starts_with('{')) {  // {a[...]}>
      for (std::size_t i = word.first_expression; i < word.end_expression; ++i)
        dangers_.push_back({i, std::string(kInIndex)});
    }
  }
  EndWord(list);
  if (list->testing) {
    Copy(1);
    return;
  }
  list->reads = standard && Peek() == '<';
  list->has_input |= list->reads;
  list->has_command = true;
  if (StartsWith("<<") && !StartsWith("<<<")) {
    Copy(2);
    Heredoc heredoc;
    if (Peek() == '-') {
      heredoc.strip_tabs = true;
      Copy(1);
    }
    while (IsBlank(Peek())) Copy(1);
    ReadHeredocName(&heredoc);
    heredoc.input = AddInput({}, false);
    list->inputs.push_back(heredoc.input);
    heredocs_.push_back(std::move(heredoc));
    return;
  }
  for (const std::string_view op : {"<<<", ">>", "<&", ">&", "<>", ">|", "<", ">"}) {
    if (!StartsWith(op)) continue;
    list->duplicates = op.back() == '&';
    list->names_file = op != "<<<";
    Copy(op.size());
    break;
  }
  list->redirected = true;
}

void ShellScanner::ReadHeredocName(Heredoc* heredoc) {
  constexpr std::string_view kEnds = " \t\n;&|<>()";
  ShellWord word;
  while (!done() && kEnds.find(Peek()) == std::string_view::npos) {
    const char c = Peek();
    if (Template(true, kInDelimiter, &word)) continue;
    if (c == '\\') {
      heredoc->quoted = true;
      heredoc->delimiter += Peek(1);
      Copy(2);
    } else if (c == '\'' || c == '"') {
      heredoc->quoted = true;
      const std::size_t close = text_.find(c, at_ + 1);
      if (close >= limit_) {
        Lose(at_);
        Copy(limit_ - at_);
        return;
      }
      const std::string_view inner = text_.substr(at_ + 1, close - at_ - 1);
      // Escapes in such a name, and expressions, are beyond reason.
      if (inner.find_first_of("\\$`\n") != std::string_view::npos) Lose(at_);
      heredoc->delimiter += inner;
      Copy(close + 1 - at_);
    } else {
      if (c == '$' || c == '`') Lose(at_);
      heredoc->delimiter += c;
      Copy(1);
    }
  }
}

/// The bodies that start behind this line break.
void ShellScanner::HeredocBodies() {
  const std::vector<Heredoc> heredocs = std::exchange(heredocs_, {});
  for (const Heredoc& heredoc : heredocs) {
    std::size_t end = at_;
    std::size_t next = limit_;
    while (end < limit_) {
      const std::size_t line_end = std::min(text_.find('\n', end), limit_);
      std::string_view line = text_.substr(end, line_end - end);
      if (heredoc.strip_tabs)
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == heredoc.delimiter) {
        next = std::min(line_end + 1, limit_);
        break;
      }
      end = std::min(line_end + 1, limit_);
    }
    const std::size_t limit = std::exchange(limit_, end);
    const std::size_t first = uses_.size();
    ShellWord word;
    if (heredoc.quoted) {
      while (!done()) {
        if (!Template(true, kInHeredoc, &word)) Copy(1);
      }
    } else {
      DoubleQuotes(true, &word);
    }
    inputs_[heredoc.input].first_expression = first;
    inputs_[heredoc.input].end_expression = uses_.size();
    limit_ = limit;
    if (stop_) return;
    Copy(next - at_);
  }
}

void ShellScanner::Comment() {
  // Expressions too: what is never executed needs no value.
  Copy(std::min(text_.find('\n', at_), limit_) - at_);
}

void ShellScanner::EndWord(List* list) {
  if (!list->in_word) return;
  list->in_word = false;
  const bool redirected = std::exchange(list->redirected, false);
  ShellWord& word = list->word;
  const bool first = SkipKeywords(list->words) == list->words.size() && !list->array;
  const bool plain = !word.quoted && !word.has_expression();
  if (!list->cases.empty() && plain) {
    Case& now = list->cases.back();
    if (now == Case::kBeforeIn && word.text == "in") {
      now = Case::kPattern;
      list->words.clear();
      return;
    }
    if (first && word.text == "esac" && now != Case::kBeforeIn) {
      list->cases.pop_back();
      CloseGroup(list);
      return;
    }
  }
  if (redirected) {
    if (list->reads) list->inputs.push_back(AddInput(word, list->names_file));
    if (list->duplicates) {
      for (std::size_t i = word.first_expression; i < word.end_expression; ++i) {
        dangers_.push_back({i, "stands behind >& or <&, where bash expands it twice;"});
      }
    }
    return;
  }
  const bool in_pattern = !list->cases.empty() && list->cases.back() == Case::kPattern;
  if (first && plain && !in_pattern) {
    if (IsOneOf(word.text, kOpening)) OpenFrame();
    if (IsOneOf(word.text, kClosing)) CloseGroup(list);
    if (word.text == "coproc") Lose(at_);  // A name may follow, or not.
  }
  if (first && plain && word.text == "case") list->cases.push_back(Case::kBeforeIn);
  if (first && plain && word.text == "[[") list->testing = shell_ == Shell::kBash;
  if (plain && word.text == "do" && list->words.size() == 2 && list->words[0].text == "for") {
    list->words.clear();  // for x do ...
  }
  if (list->testing && plain && word.text == "]]") {
    list->testing = false;
    EndCommand(list);
    return;
  }
  list->has_command = true;
  list->words.push_back(std::move(word));
}

void ShellScanner::EndCommand(List* list) {
  ShellReading reading;
  if (list->array) {
    commands_.CheckArray(list->words, &dangers_);
  } else if (list->cases.empty() || list->cases.back() == Case::kBody) {
    reading = commands_.Check(list->words, &dangers_);
    if (reading.renames) Lose(at_);
    if (reading.reads_program && !list->has_input) ReadProgram();
  }
  for (const std::size_t input : list->inputs) {
    if (reading.reads_program || list->group_reads_program)
      inputs_[input].code = true;
    else if (!inputs_[input].file)
      printed_.push_back(input);
  }
  if (reading.prints)
    for (const ShellWord& word : list->words)
      if (word.has_expression()) printed_.push_back(AddInput(word, false));
  for (std::size_t i = frames_.back().pipeline; list->prints_program && i < printed_.size(); ++i)
    inputs_[printed_[i]].code = true;
  list->prints_program = false;
  list->inputs.clear();
  list->has_input = list->group_reads_program = list->has_command = false;
  list->words.clear();
  list->redirected = false;
}

void ShellScanner::EndCommandBy(List* list, bool pipe) {
  const bool has_command = list->has_command;
  EndCommand(list);
  Frame& frame = frames_.back();
  if (has_command) frame.piped = printed_.size();
  if (has_command && !pipe) frame.pipeline = printed_.size();
}

void ShellScanner::OpenFrame() { frames_.push_back({printed_.size(), printed_.size(), false}); }

/// Down to `count` of them; whether one read a program.
bool ShellScanner::CloseFrames(std::size_t count) {
  bool reads_program = false;
  for (; frames_.size() > count; frames_.pop_back()) reads_program |= frames_.back().reads_program;
  return reads_program;
}

void ShellScanner::CloseGroup(List* list) {
  if (frames_.size() > list->frames) list->group_reads_program |= CloseFrames(frames_.size() - 1);
  list->has_command = true;
}

/// A command takes its standard input, which is that of everything around it, as a program.
void ShellScanner::ReadProgram() {
  for (Frame& frame : frames_) {
    frame.reads_program = true;
    for (std::size_t i = frame.pipeline; i < frame.piped; ++i) inputs_[printed_[i]].code = true;
  }
}

std::size_t ShellScanner::AddInput(const ShellWord& word, bool file) {
  inputs_.push_back({word.first_expression, word.end_expression, file, false});
  return inputs_.size() - 1;
}

void ShellScanner::Dollar(bool in_quotes, ShellWord* word) {
  if (StartsWith("$((")) {
    Copy(3);
    Arithmetic(word);
  } else if (StartsWith("$(")) {
    Copy(2);
    const std::size_t printed = printed_.size();
    Nested(word, [&] { static_cast<void>(Commands(Ends::kAtParenthesis, false)); });
    printed_.resize(printed);  // It goes into the word.
  } else if (StartsWith("${")) {
    Copy(2);
    Brace(in_quotes, word);
  } else if (!in_quotes && StartsWith("$'")) {
    DollarSingleQuotes(word);
  } else if (!in_quotes && StartsWith("$\"")) {
    Copy(2);
    word->quoted = true;
    DoubleQuotes(false, word);
  } else {
    if (StartsWith("$[")) Lose(at_);  // Arithmetic to bash, text to sh.
    word->text += kVariable;
    Copy(1);
    if (IsIdentifierStart(Peek())) {
      while (!done() && IsIdentifierPart(Peek())) Copy(1);
    } else if (Peek() != '\0' && std::string_view("?#@*!-0123456789").contains(Peek())) {
      Copy(1);
    }
  }
}

void ShellScanner::SingleQuotes(ShellWord* word) {
  const std::size_t begin = at_;
  Copy(1);
  word->quoted = true;
  while (!done() && Peek() != '\'') {
    if (Template(true, kInSingle, word)) continue;
    word->text += Peek();
    Copy(1);
  }
  if (at_ >= limit_) Lose(begin);
  Copy(1);
}

void ShellScanner::DollarSingleQuotes(ShellWord* word) {
  const std::size_t begin = at_;
  Copy(2);
  word->quoted = true;
  while (!done() && Peek() != '\'') {
    if (Template(true, kInSingle, word)) continue;
    const bool escape = Peek() == '\\';
    // dash knows no escapes here, so the two shells find another end.
    if (escape && shell_ == Shell::kSh) Lose(begin);
    word->text += kVariable;
    Copy(escape ? 2 : 1);
  }
  if (at_ >= limit_) Lose(begin);
  Copy(1);
}

void ShellScanner::DoubleQuotes(bool heredoc, ShellWord* word) {
  const std::size_t begin = at_;
  while (!done()) {
    const char c = Peek();
    if (Template(true, "", word)) continue;
    if (c == '"' && !heredoc) {
      Copy(1);
      return;
    }
    if (c == '\\') {
      if (text_.substr(at_ + 1).starts_with(kOpen)) {
        Copy(1);
        Template(true, kEscaped, word);
      } else {
        word->text += Peek(1);
        Copy(2);
      }
    } else if (c == '`') {
      Backticks(word);
    } else if (c == '$') {
      Dollar(true, word);
    } else {
      // The body of a here-document would begin inside of the quotes.
      if (c == '\n' && !heredocs_.empty()) Lose(at_);
      word->text += c;
      Copy(1);
    }
  }
  if (!heredoc) Lose(begin);
}

void ShellScanner::Backticks(ShellWord* word) {
  const std::size_t begin = at_;
  const std::string_view outer = std::exchange(around_, kInBackticks);
  Copy(1);
  while (!done() && Peek() != '`') {
    if (Template(true, kInBackticks, word)) continue;
    Copy(Peek() == '\\' ? 2 : 1);
  }
  if (at_ >= limit_) Lose(begin);
  Copy(1);
  around_ = outer;
  word->text += kVariable;
}

void ShellScanner::Brace(bool in_quotes, ShellWord* word) {
  const std::size_t begin = at_;
  const std::string_view outer = std::exchange(around_, kInBrace);
  Nested(word, [&] {
    while (!done() && Peek() != '}') {
      const char c = Peek();
      if (Template(true, kInBrace, word)) continue;
      if (c == '\'') {
        // Whether quotes count between quotes depends on the operator and on the shell.
        if (in_quotes) {
          Lose(at_);
          Copy(1);
        } else {
          SingleQuotes(word);
        }
      } else if (c == '"') {
        Copy(1);
        DoubleQuotes(false, word);
      } else if (c == '`') {
        Backticks(word);
      } else if (c == '$') {
        Dollar(in_quotes, word);
      } else {
        Copy(c == '\\' ? 2 : 1);
      }
    }
  });
  if (at_ >= limit_) Lose(begin);
  Copy(1);
  around_ = outer;
}

void ShellScanner::Arithmetic(ShellWord* word) {
  const std::size_t begin = at_;
  const std::string_view outer = std::exchange(around_, kInArithmetic);
  int parentheses = 0;
  bool closed = false;
  Nested(word, [&] {
    while (!done() && !closed) {
      const char c = Peek();
      if (Template(true, kInArithmetic, word)) continue;
      if (c == ')' && parentheses == 0) {
        // `$((a) b)` is a command after all.
        if (Peek(1) != ')') Lose(begin);
        Copy(2);
        closed = true;
      } else if (c == '"') {
        Copy(1);
        DoubleQuotes(false, word);
      } else if (c == '`') {
        Backticks(word);
      } else if (c == '$') {
        Dollar(true, word);
      } else {
        if (c == '\'' || c == '#') Lose(at_);  // A quote, a comment or a base (16#ff).
        if (c == '(') ++parentheses;
        if (c == ')') --parentheses;
        Copy(c == '\\' ? 2 : 1);
      }
    }
  });
  if (!closed) Lose(begin);
  around_ = outer;
}

}  // namespace headworks::expr::internal
