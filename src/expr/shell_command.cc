#include "shell_command.h"

#include <algorithm>
#include <span>

#include "lexer.h"

namespace headworks::expr::internal {
namespace {

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kKeywords[] = {"if",    "then",  "elif", "else", "do",
                                          "while", "until", "{",    "!",    "coproc"};
/// They run the command behind them.
constexpr std::string_view kPrefixes[] = {"command", "builtin", "exec", "env",
                                          "sudo",    "nohup",   "time"};
/// They read their arguments as code, or as names and indexes that they evaluate.
constexpr std::string_view kReaders[] = {"eval",     "trap",    "alias",     "let",     "read",
                                         "unset",    "mapfile", "readarray", "getopts", "compgen",
                                         "complete", "wait",    "ssh",       "watch",   "parallel"};
constexpr std::string_view kDeclarations[] = {"export", "readonly", "declare", "typeset", "local"};
/// With -c or -e the next argument is a program.
constexpr std::string_view kInterpreters[] = {
    "sh",     "bash",  "dash",   "ash",     "ksh",  "zsh",  "fish", "su",  "runuser",
    "script", "flock", "python", "python3", "perl", "ruby", "node", "php", "sed"};
/// They read programs, or lines for a shell, from standard input.
constexpr std::string_view kFedPrograms[] = {"ssh",   "psql",  "mysql", "sqlite3", "at",
                                             "batch", "xargs", "awk",   "make",    "source",
                                             ".",     "eval",  "bc",    "crontab"};
/// They run the command that they are given, and their options that take a word of their own.
struct Runner {
  std::string_view name;
  std::string_view valued;
};
constexpr Runner kRunners[] = {
    {"sudo",
     " -u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T "
     "--command-timeout -D --chdir -R --chroot -U --other-user -a --auth-type -c "},
    {"doas", " -u -C -a "},
    {"env", " -u --unset -C --chdir -a --argv0 "}};
/// Within a container, after `exec`.  What else they do with their input is theirs to know: they
/// build images from it, apply what it describes, or hand it to an image's own program.
constexpr Runner kContainers[] = {
    {"docker", " -e --env --env-file -u --user -w --workdir --detach-keys "},
    {"podman", " -e --env --env-file -u --user -w --workdir --detach-keys "},
    {"nerdctl", " -e --env --env-file -u --user -w --workdir "},
    {"kubectl", " -c --container -n --namespace --context --kubeconfig "}};
constexpr std::string_view kArithmeticTests[] = {"-eq", "-ne", "-lt", "-le",
                                                 "-gt", "-ge", "-v",  "-R"};

/// The shell itself runs what is assigned to them, or evaluates it as arithmetic.
constexpr std::string_view kSpecial[] = {
    "PS0",    "PS1",     "PS2",     "PS3",      "PS4",     "ENV",           "OPTIND",
    "RANDOM", "SRANDOM", "HISTCMD", "BASH_ENV", "SECONDS", "PROMPT_COMMAND"};

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void Refuse(const ShellWord& word, const std::string& reason, std::vector<ShellDanger>* dangers) {
  for (std::size_t i = word.first_expression; i < word.end_expression; ++i) {
    dangers->push_back({i, reason});
  }
}

void RefuseAll(std::span<const ShellWord> words, const std::string& reason,
               std::vector<ShellDanger>* dangers) {
  for (const ShellWord& word : words) Refuse(word, reason, dangers);
}

bool Has(std::span<const ShellWord> words, std::string_view text) {
  return std::any_of(words.begin(), words.end(),
                     [&](const ShellWord& word) { return word.text == text; });
}

/// Whether a word is an option that ends in c or e, as in `bash -ec`.
bool TakesProgram(std::string_view option) {
  return option.size() > 1 && option[0] == '-' && option[1] != '-' &&
         (option.back() == 'c' || option.back() == 'e');
}

void CheckInterpreters(std::span<const ShellWord> words, std::vector<ShellDanger>* dangers) {
  bool interpreter = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (interpreter && TakesProgram(words[i].text) && i + 1 < words.size()) {
      const bool dashes = words[i + 1].text == "--" && i + 2 < words.size();
      Refuse(words[i + (dashes ? 2 : 1)],
             "is part of a program that another interpreter will read; pass it as an argument "
             "behind the program (sh -c '... \"$1\"' sh VALUE), or",
             dangers);
    }
    interpreter = interpreter || IsOneOf(BaseName(words[i].text), kInterpreters);
  }
}

template <std::size_t N>
const Runner* FindRunner(const Runner (&runners)[N], std::string_view name) {
  const auto found = std::find_if(std::begin(runners), std::end(runners),
                                  [&](const Runner& runner) { return runner.name == name; });
  return found == std::end(runners) ? nullptr : found;
}

/// Where a value begins that stands in the option itself, or would: behind its first short letter
/// that takes one, or at '='.  npos = it takes none.
std::size_t ValueOf(const Runner& runner, std::string_view option) {
  if (option.starts_with("--")) return option.find('=');
  for (std::size_t i = 1; i < option.size(); ++i) {
    const char letter[] = {' ', '-', option[i], ' '};
    if (runner.valued.find(std::string_view(letter, 4)) != std::string_view::npos) return i + 1;
  }
  return std::string_view::npos;
}

/// Whether the word behind an option belongs to it: `--user root`, which may be cut to `--us`, and
/// `-u root`, also in a group as `-Eu root`, but not `-uroot`.
bool TakesNextWord(const Runner& runner, const std::string& option) {
  if (!option.starts_with("--")) return ValueOf(runner, option) == option.size();
  return option.size() > 2 && runner.valued.find(' ' + option) != std::string_view::npos;
}

/// The word of `words` behind the options at their front, or their end.
std::size_t SkipOptions(const Runner& runner, std::span<const ShellWord> words) {
  std::size_t i = 0;
  for (; i < words.size() && words[i].text.starts_with('-'); ++i) {
    if (TakesNextWord(runner, words[i].text)) ++i;
  }
  return std::min(i, words.size());
}

/// Whether what stands behind sudo or env asks for a shell without naming it: `sudo -s`, `env -S
/// TEXT`, or a command that is known only when the script runs.
bool RunsUnnamedShell(const Runner& runner, std::span<const ShellWord> words) {
  const bool is_env = runner.name == "env";
  std::size_t command = SkipOptions(runner, words);
  for (const ShellWord& option : words.first(command)) {
    const std::string_view text = option.text;
    // Which option it is, is known only when the script runs.
    if (text.starts_with('-') && text.find(kValue) < ValueOf(runner, text)) return true;
    const bool is_long = text.starts_with("--");
    const bool is_short = !is_long && text.starts_with('-');
    if (is_short && text.find_first_of(is_env ? "S" : "si") != std::string_view::npos) return true;
    if (is_long && (is_env ? text.starts_with("--split") : text == "--shell" || text == "--login"))
      return true;
  }
  while (command < words.size() && IsAssignment(words[command].text)) ++command;
  if (command == words.size()) return !is_env;
  return words[command].text.find(kValue) != std::string::npos;
}

/// Whether `words` behind docker and the like are `exec CONTAINER COMMAND`, the command a constant.
bool RunsNamedCommand(const Runner& container, std::span<const ShellWord> words) {
  const auto exec = std::find_if(words.begin(), words.end(),
                                 [](const ShellWord& word) { return word.text == "exec"; });
  if (exec == words.end()) return false;
  words = words.subspan(static_cast<std::size_t>(exec - words.begin()) + 1);
  const std::size_t name = SkipOptions(container, words);
  if (name == words.size()) return false;
  words = words.subspan(name + 1);
  words = words.subspan(SkipOptions(container, words));
  return !words.empty() && words.front().text.find(kValue) == std::string::npos;
}

}  // namespace

bool ReadsProgram(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = BaseName(words[i].text);
    const std::span<const ShellWord> rest = std::span(words).subspan(i + 1);
    if (IsOneOf(name, kInterpreters) || IsOneOf(name, kFedPrograms)) return true;
    if (const Runner* runner = FindRunner(kRunners, name)) {
      if (RunsUnnamedShell(*runner, rest)) return true;
    } else if (const Runner* container = FindRunner(kContainers, name)) {
      if (!RunsNamedCommand(*container, rest)) return true;
    }
  }
  return false;
}

std::size_t SkipKeywords(const std::vector<ShellWord>& words) {
  std::size_t i = 0;
  for (; i < words.size() && !words[i].quoted; ++i) {
    if (words[i].text == "function" && i + 1 < words.size()) {
      ++i;  // Its name.
    } else if (!IsOneOf(words[i].text, kKeywords)) {
      break;
    }
  }
  return i;
}

bool IsAssignment(std::string_view text) {
  std::size_t i = 0;
  if (text.empty() || !IsIdentifierStart(text[0])) return false;
  while (i < text.size() && IsIdentifierPart(text[i])) ++i;
  if (i < text.size() && text[i] == '+') ++i;
  return i < text.size() && text[i] == '=';
}

void ShellCommands::Check(const std::vector<ShellWord>& words, std::vector<ShellDanger>* dangers) {
  std::size_t i = SkipKeywords(words);
  const auto is_prefix = [&](const ShellWord& word) {
    return IsOneOf(BaseName(word.text), kPrefixes) || (i > 0 && word.text.starts_with('-'));
  };
  bool prefixed = false;
  for (; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    if (IsAssignment(word.text)) {
      CheckAssignment(word, dangers);
      continue;
    }
    // NAME[index]=value: the index is arithmetic.
    const std::size_t bracket = word.text.find('[');
    if (bracket != std::string::npos && bracket > 0 && IsIdentifierStart(word.text[0]) &&
        word.text.find(kValue) != std::string::npos) {
      Refuse(word, "stands in or behind an index, which is arithmetic;", dangers);
      continue;
    }
    if (!is_prefix(word) || (!prefixed && word.text.starts_with('-'))) break;
    prefixed = true;
  }
  if (i == words.size()) return;
  const ShellWord& name = words[i];
  if (name.text.find(kValue) != std::string::npos && name.text.find('/') == std::string::npos) {
    for (std::size_t e = name.first_expression; e < name.end_expression; ++e)
      dangers->push_back({e, "names the command to run, which could be eval;", true});
  }
  const std::span<const ShellWord> rest = std::span(words).subspan(i + 1);
  const std::string_view command = BaseName(name.text);
  CheckInterpreters(std::span(words).subspan(i), dangers);
  if (command == "for" && !rest.empty() && IsOneOf(rest[0].text, kSpecial)) {
    RefuseAll(rest, "is assigned to " + rest[0].text + ", which the shell evaluates;", dangers);
  } else if (IsOneOf(command, kReaders)) {
    RefuseAll(rest, "is an argument of " + std::string(command) + ", which reads it as code;",
              dangers);
  } else if (command == "[[") {
    const bool arithmetic = std::any_of(rest.begin(), rest.end(), [](const ShellWord& word) {
      return IsOneOf(word.text, kArithmeticTests);
    });
    if (arithmetic)
      RefuseAll(rest, "stands in [[ ]] with an arithmetic test; use [ ], or", dangers);
  } else if (command == "test" || command == "[") {
    if (Has(rest, "-v") || Has(rest, "-R")) {
      RefuseAll(rest, "is an argument of test -v, which evaluates indexes;", dangers);
    }
  } else if (command == "printf") {
    if (!rest.empty() && rest[0].text.starts_with("-v")) {
      RefuseAll(rest, "is an argument of printf -v, which evaluates indexes;", dangers);
    }
  } else if (IsOneOf(command, kDeclarations)) {
    bool evaluates = false;
    for (const ShellWord& word : rest) {
      const bool option = word.text.starts_with('-');
      evaluates |= option && word.text.find_first_of("inaAf") != std::string::npos;
      has_integers_ |= option && word.text.find('i') != std::string::npos;
      if (evaluates || !IsAssignment(word.text)) {
        Refuse(word, "is an argument of " + std::string(command) + ", which may evaluate it;",
               dangers);
      } else {
        CheckAssignment(word, dangers);
      }
    }
  }
}

void ShellCommands::CheckAssignment(const ShellWord& word,
                                    std::vector<ShellDanger>* dangers) const {
  const std::string_view name =
      std::string_view(word.text).substr(0, word.text.find_first_of("+="));
  if (IsOneOf(name, kSpecial)) {
    Refuse(word, "is assigned to " + std::string(name) + ", which the shell evaluates;", dangers);
  } else if (has_integers_) {
    Refuse(word, "may become arithmetic, because of declare -i;", dangers);
  }
}

void ShellCommands::CheckArray(const std::vector<ShellWord>& words,
                               std::vector<ShellDanger>* dangers) const {
  for (const ShellWord& word : words) {
    if (word.text.starts_with('[') && !word.quoted) {
      Refuse(word, "stands in or behind an index, which is arithmetic;", dangers);
    } else if (has_integers_) {
      Refuse(word, "may become arithmetic, because of declare -i;", dangers);
    }
  }
}

}  // namespace headworks::expr::internal
