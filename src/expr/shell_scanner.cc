#include "shell_scanner.h"

#include <algorithm>
#include <utility>

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
constexpr std::string_view kEscaped = "has a backslash before it; leave it out, or";
constexpr std::string_view kInDelimiter = "is the delimiter of a here-document;";
constexpr std::string_view kLost =
    "stands where the quoting of the script before it cannot be followed for sure;";

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

ShellScanner::ShellScanner(std::string_view text, Shell shell, FindEnd find_end, Refer refer)
    : text_(text),
      shell_(shell),
      find_end_(std::move(find_end)),
      refer_(std::move(refer)),
      limit_(text.size()) {}

std::string ShellScanner::Run() {
  Commands(Ends::kAtEnd, false);
  if (too_deep_) {
    stop_ = false;
    ShellWord word;
    while (!done()) {
      if (!Template(true, kLost, &word)) Copy(1);
    }
  }
  for (const ShellDanger& danger : dangers_) {
    ShellUse& use = uses_[danger.expression];
    if (!use.refused.empty() && !use.names_command) continue;
    use.refused = danger.reason;
    use.names_command = danger.names_command;
  }
  for (ShellUse& use : uses_) {
    if ((!use.refused.empty() && !use.names_command) || use.begin <= lost_) continue;
    use.refused = kLost;
    use.names_command = false;
  }
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
    uses_.push_back({at_, end, std::string(kLost)});
    stop_ = true;
    return true;
  }
  if (!around_.empty()) refused = around_;
  const Bound bound = refer_(uses_.size());
  out_ += in_quotes ? bound.reference : '"' + bound.reference + '"';
  uses_.push_back({at_, end, std::string(refused)});
  word->text += bound.value ? *bound.value : std::string(1, kValue);
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
  scan();
  --depth_;
  word->text += kValue;
  word->end_expression = uses_.size();
}

void ShellScanner::Commands(Ends ends, bool array) {
  const std::size_t begin = at_;
  List list;
  list.array = array;
  list.word.first_expression = list.word.end_expression = uses_.size();
  while (!done()) {
    if (Peek() == ')') EndWord(&list);  // It may be `esac`.
    const bool pattern = !list.cases.empty() && list.cases.back() == Case::kPattern;
    if (Peek() == ')' && !pattern && !list.testing) {
      EndCommand(&list);
      if (!list.cases.empty() || ends == Ends::kAtEnd) Lose(at_);
      Copy(1);
      if (ends == Ends::kAtParenthesis) return;
      continue;
    }
    CommandCharacter(&list);
  }
  EndWord(&list);
  EndCommand(&list);
  if (ends == Ends::kAtParenthesis) Lose(begin);
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
    if (!list->array && !list->testing) EndCommand(list);
    Copy(1);
    HeredocBodies();
    return true;
  }
  if (c == '<' || c == '>') {
    if (Peek(1) == '(') {
      EndWord(list);
      BeginWord(list);
      Copy(2);
      Nested(&list->word, [&] { Commands(Ends::kAtParenthesis, false); });
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
  if (!list->testing) EndCommand(list);
  const bool ends_clause = c == ';' && (Peek(1) == ';' || Peek(1) == '&');
  if (ends_clause && !list->cases.empty()) list->cases.back() = Case::kPattern;
  Copy(ends_clause ? 2 : 1);
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
      Nested(&list->word, [&] { Commands(Ends::kAtParenthesis, true); });
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
  Nested(&list->word, [&] { Commands(Ends::kAtParenthesis, false); });
  list->word = {};
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
  // A number right before it is part of it.
  if (list->in_word && list->word.text.find_first_not_of("0123456789") == std::string::npos) {
    list->in_word = false;
  }
  EndWord(list);
  if (list->testing) {
    Copy(1);
    return;
  }
  if (StartsWith("<<") && !StartsWith("<<<")) {
    Copy(2);
    Heredoc heredoc;
    if (Peek() == '-') {
      heredoc.strip_tabs = true;
      Copy(1);
    }
    while (IsBlank(Peek())) Copy(1);
    ReadHeredocName(&heredoc);
    heredocs_.push_back(std::move(heredoc));
    return;
  }
  for (const std::string_view op : {"<<<", ">>", "<&", ">&", "<>", ">|", "<", ">"}) {
    if (!StartsWith(op)) continue;
    list->duplicates = op.back() == '&';
    list->here_string = op == "<<<";
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
    ShellWord word;
    if (heredoc.quoted || heredoc.code) {
      while (!done()) {
        if (!Template(true, heredoc.quoted ? kInHeredoc : kFed, &word)) Copy(1);
      }
    } else {
      DoubleQuotes(true, &word);
    }
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
      return;
    }
  }
  if (redirected) {
    if (std::exchange(list->here_string, false)) {
      for (std::size_t i = word.first_expression; i < word.end_expression; ++i)
        list->here_strings.push_back(i);
    }
    if (list->duplicates) {
      for (std::size_t i = word.first_expression; i < word.end_expression; ++i) {
        dangers_.push_back({i, "stands behind >& or <&, where bash expands it twice;"});
      }
    }
    return;
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
  list->words.push_back(std::move(word));
}

void ShellScanner::EndCommand(List* list) {
  if (list->array) {
    commands_.CheckArray(list->words, &dangers_);
  } else if (list->cases.empty() || list->cases.back() == Case::kBody) {
    commands_.Check(list->words, &dangers_);
    if (ReadsProgram(list->words)) {
      for (Heredoc& heredoc : heredocs_) heredoc.code = true;
      for (const std::size_t i : list->here_strings) dangers_.push_back({i, std::string(kFed)});
    }
  }
  list->here_strings.clear();
  list->words.clear();
  list->redirected = false;
}

void ShellScanner::Dollar(bool in_quotes, ShellWord* word) {
  if (StartsWith("$((")) {
    Copy(3);
    Arithmetic(word);
  } else if (StartsWith("$(")) {
    Copy(2);
    Nested(word, [&] { Commands(Ends::kAtParenthesis, false); });
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
    word->text += kValue;
    Copy(1);
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
    word->text += kValue;
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
  word->text += kValue;
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
