#include "shell_command.h"

#include <algorithm>

#include "lexer.h"

namespace headworks::expr::internal {
namespace {

using Reads = ShellGrammar::Reads;
using Input = ShellGrammar::Input;

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kKeywords[] = {"if",    "then",  "elif", "else", "do",
                                          "while", "until", "{",    "!",    "coproc"};
constexpr std::string_view kDeclarations[] = {"export", "readonly", "declare", "typeset", "local"};
constexpr std::string_view kContainers[] = {"docker", "podman", "nerdctl", "kubectl", "oc"};
/// They run a program of a project by `run` or `exec`.
constexpr std::string_view kRunners[] = {"npm",    "pnpm",   "yarn",   "uv",
                                         "poetry", "pipenv", "bundle", "conda"};
constexpr std::string_view kArithmeticTests[] = {"-eq", "-ne", "-lt", "-le",
                                                 "-gt", "-ge", "-v",  "-R"};
/// They assign what they read or print to the variables that they are given.
constexpr std::string_view kAssigning[] = {"read", "mapfile", "readarray", "printf"};
constexpr std::string_view kFindRuns[] = {"-exec", "-execdir", "-ok", "-okdir"};

/// Of `uv run` and the like.
constexpr ShellGrammar kRun = {
    "", Reads::kCommand, Input::kProgramIfNoneGiven,
    " -p --package --with --from --python --project --directory --extra --group --env-file -w "
    "--workspace --filter -n --name "};
/// Keys of git's configuration whose values are code, or name it.
constexpr std::string_view kGitCode[] = {
    "alias.", "core.",    "filter.", "credential.", "include",   "diff.",     "merge.",    "gpg.",
    "pager.", "browser.", "url.",    "uploadpack.", "sequence.", "difftool.", "mergetool."};

/// Of `docker exec` and the like.
constexpr ShellGrammar kExec = {
    "", Reads::kCommand, Input::kProgramIfNoneGiven,
    " -e --env --env-file -u --user -w --workdir --detach-keys -c --container -n --namespace "
    "--context --kubeconfig --index ",
    1};

constexpr std::string_view kNamesProgram =
    "names the program to run; write its name into the script (case ... esac chooses between "
    "several), or";
constexpr std::string_view kArithmetic =
    "may become arithmetic or an index, because of declare -i or -n;";
constexpr std::string_view kIndex = "stands in or behind an index, which is arithmetic;";

/// Whether what the word begins with is known only when the script runs.
bool StartsWithExpression(const ShellWord& word) {
  const std::size_t first = word.text.find_first_not_of(kVariable);
  return first != std::string::npos && word.text[first] == kExpression;
}

/// Whether it is `$X` without quotes: several words, or none.
bool IsBareVariable(const ShellWord& word) {
  return !word.quoted && word.text.find_first_not_of(kVariable) == std::string::npos;
}

/// Why a value may not stand where `name` reads code.
std::string ReadAsCode(const ShellGrammar& grammar, std::string_view name) {
  if (name == "printf") return "is the format of printf; write printf '%s' VALUE, or";
  if (grammar.reads == Reads::kCode) return "is read by " + std::string(name) + " as code;";
  return "is read by " + std::string(name) +
         " as its program or the name of one; pass it as an argument (sh -c '... \"$1\"' sh VALUE, "
         "awk -v x=VALUE), or";
}

bool Any(std::span<const ShellWord> words, char part) {
  return std::ranges::any_of(words, [&](const ShellWord& word) { return word.has(part); });
}

/// Whether it names standard input, or a file that is open already.
bool NamesInput(std::string_view text) {
  return text == "-" || text == "/dev/stdin" || text.starts_with("/dev/fd/") ||
         text.starts_with("/proc/self/fd/");
}

/// Whether words behind it may be code.
bool IsKnown(std::string_view word) {
  constexpr std::string_view kOthers[] = {"find", "test", "[", "[[", "for", "select"};
  const std::string_view name = ProgramName(word);
  return FindGrammar(word) != nullptr || IsOneOf(name, kContainers) || IsOneOf(name, kRunners) ||
         IsOneOf(name, kOthers) || IsOneOf(name, kDeclarations);
}

}  // namespace

void ShellCommands::Refuse(const ShellWord& word, const std::string& reason) {
  for (std::size_t i = word.first_expression; i < word.end_expression; ++i)
    dangers_->push_back({i, reason});
}

void ShellCommands::RefuseAll(Words words, const std::string& reason) {
  for (const ShellWord& word : words) Refuse(word, reason);
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

ShellReading ShellCommands::Check(const std::vector<ShellWord>& words,
                                  std::vector<ShellDanger>* dangers) {
  dangers_ = dangers;
  const Words command = Words(words).subspan(SkipKeywords(words));
  if (command.empty()) return {};
  const ShellWord& name = command[0];
  if (Any(command, kMatrix) && !name.has(kExpression) &&
      (Any(command, kExpression) || name.has(kMatrix) || IsKnown(name.text))) {
    depends_on_matrix_ = true;
    return {};
  }
  return Command(command);
}

ShellReading ShellCommands::Command(Words words) {
  for (; !words.empty(); words = words.subspan(1)) {
    const ShellWord& word = words[0];
    const std::size_t bracket = word.text.find('[');
    if (IsAssignment(word.text)) {
      CheckAssignment(word);
    } else if (bracket != std::string::npos && bracket > 0 && IsIdentifierStart(word.text[0]) &&
               word.has(kExpression)) {
      Refuse(word, std::string(kIndex));  // NAME[index]=value
    } else {
      break;
    }
  }
  if (words.empty()) return {};
  const ShellWord& name = words[0];
  if (name.has(kExpression)) {
    Refuse(name, std::string(kNamesProgram));
    return {.reads_program = true};
  }
  const Words rest = words.subspan(1);
  const std::string_view program = ProgramName(name.text);
  if (program == "for" || program == "select") {
    if (!rest.empty() && IsSpecialVariable(rest[0].text))
      RefuseAll(rest, "is assigned to " + rest[0].text + ", which is code or names it;");
    if (has_integers_) RefuseAll(rest, std::string(kArithmetic));
  } else if (program == "[[") {
    const bool evaluates = std::ranges::any_of(
        rest, [](const ShellWord& word) { return IsOneOf(word.text, kArithmeticTests); });
    if (evaluates) RefuseAll(rest, "stands in [[ ]] with an arithmetic test; use [ ], or");
  } else if (program == "test" || program == "[") {
    Test(rest);
  } else if (IsOneOf(program, kDeclarations)) {
    Declare(program, rest);
  } else if (program == "find") {
    return Find(rest);
  } else if (program == "echo") {
    return {.prints = true, .takes_data = true};
  } else if (program == "command" && !rest.empty() &&
             (rest[0].text == "-v" || rest[0].text == "-V")) {
    return {};
  } else if (IsOneOf(program, kContainers)) {
    return Container(program, rest);
  } else if (IsOneOf(program, kRunners)) {
    return Runner(program, rest);
  } else if (program.ends_with("tar") && FindGrammar(name.text) != nullptr) {
    return Tar(*FindGrammar(name.text), program, rest);
  } else if (const ShellGrammar* grammar = FindGrammar(name.text)) {
    ShellReading reading = Read(*grammar, BaseName(name.text), rest);
    if (IsOneOf(program, kAssigning)) Assign(program, rest, &reading);
    reading.renames = program == "alias";
    return reading;
  } else {
    return Unknown(words);
  }
  return {};
}

ShellReading ShellCommands::Read(const ShellGrammar& grammar, std::string_view name, Words words) {
  const bool runs = grammar.reads == Reads::kCommand;
  const bool is_shell = grammar.options.find(" +o ") != std::string_view::npos;
  ShellReading reading;
  bool open = true;    // Options may follow.
  bool given = false;  // The program is known.
  int operands = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    if (open && (word.text == "--" || (is_shell && word.text == "-"))) {
      open = false;
      continue;
    }
    if (open && word.text.size() > 1 &&
        (word.text[0] == '-' || (is_shell && word.text[0] == '+'))) {
      const OptionWord option = Option(grammar, name, words.subspan(i), &reading);
      i += option.values;
      given |= option.kind == OptionKind::kProgram || option.kind == OptionKind::kInput;
      if (option.kind != OptionKind::kLast) continue;
      reading.takes_data = true;
      return reading;
    }
    if (runs && open && word.text == "-") continue;  // env -
    if (runs && operands == grammar.data) {
      Run(grammar, name, words, i, &reading);
      return reading;
    }
    if (!runs && open && IsBareVariable(word)) continue;  // Options, perhaps.
    const bool is_program = grammar.reads == Reads::kCode ? operands >= grammar.data
                                                          : operands == grammar.data && !given;
    if (!runs && is_program) {
      Refuse(word, ReadAsCode(grammar, name));
      given = true;
      reading.reads_program |= NamesInput(word.text);
    } else if (open && StartsWithExpression(word) && name != "timeout") {
      // An option in place of a duration would make the command one, which it is not.
      Refuse(word, "could be an option of " + std::string(name) + "; write -- or ./ before it, or");
    }
    ++operands;
    // kubectl takes options behind the name of the container, too.
    open = open && grammar.reads != Reads::kProgram && (!runs || &grammar == &kExec);
    if (grammar.reads == Reads::kProgram && operands > grammar.data) {
      reading.takes_data = true;
      if (name == "git") Git(words.subspan(i));
      break;
    }
  }
  reading.prints = name == "printf";
  reading.reads_program |=
      grammar.input == Input::kProgram || (grammar.input == Input::kProgramIfNoneGiven && !given);
  return reading;
}

/// The command of words[first...], which `name` runs.
void ShellCommands::Run(const ShellGrammar& grammar, std::string_view name, Words words,
                        std::size_t first, ShellReading* reading) {
  const ShellWord& word = words[first];
  if (word.text.starts_with('-') && KindOf(grammar, word.text) == OptionKind::kProgram) {
    RefuseAll(words.subspan(first + 1), ReadAsCode(grammar, name));
    return;
  }
  const ShellReading inner = Command(words.subspan(first));
  reading->prints = inner.prints;
  reading->takes_data = inner.takes_data;
  const auto program = std::ranges::find_if_not(
      words.subspan(first), [](const ShellWord& before) { return IsAssignment(before.text); });
  // A variable may name a shell.
  const bool is_unnamed =
      program != words.end() && program->text.find_first_not_of(kVariable) == std::string::npos;
  reading->reads_program |= inner.reads_program || is_unnamed;
  if (name != "xargs") return;
  const bool replaces = std::ranges::any_of(words.first(first), [](const ShellWord& option) {
    return option.text.starts_with("-I") || option.text.starts_with("-i") ||
           option.text.starts_with("--replace");
  });
  reading->reads_program |= IsKnown(word.text) && (replaces || !inner.takes_data);
}

ShellCommands::OptionWord ShellCommands::Option(const ShellGrammar& grammar, std::string_view name,
                                                Words words, ShellReading* reading) {
  const ShellWord& word = words[0];
  const std::string_view text = word.text;
  const bool is_long = text.starts_with("--") || KindOf(grammar, text) != OptionKind::kFlag;
  OptionWord option;
  std::size_t value = std::string_view::npos;
  if (is_long) {
    const std::size_t equals = text.find('=');
    option.kind = KindOf(grammar, text.substr(0, equals));
    value =
        equals == std::string_view::npos && option.kind != OptionKind::kFlag ? text.size() : equals;
  } else {
    for (std::size_t i = 1; i < text.size() && value == std::string_view::npos; ++i) {
      const OptionKind kind = KindOf(grammar, {"-" + std::string(1, text[i])});
      if (kind == OptionKind::kFlag) continue;
      option.kind = kind;
      if (kind != OptionKind::kInput) value = i + 1;
    }
  }
  const std::string_view letters = text.substr(0, value);
  if (letters.find(kExpression) != std::string_view::npos)
    Refuse(word, "chooses an option of " + std::string(name) + ";");
  if (letters.find(kVariable) != std::string_view::npos || option.kind == OptionKind::kInput ||
      (grammar.reads == Reads::kCommand && option.kind == OptionKind::kProgram))
    reading->reads_program = true;
  if (option.kind == OptionKind::kInput) return option;
  if (value == text.size())
    option.values =
        std::min<std::size_t>(option.kind == OptionKind::kTwoData ? 2 : 1, words.size() - 1);
  if (option.kind == OptionKind::kData || option.kind == OptionKind::kTwoData) return option;
  // The value of an unknown option, too.
  const Words values = words.first(1 + option.values);
  if (value != std::string_view::npos) {
    const bool is_program = option.kind == OptionKind::kProgram || option.kind == OptionKind::kLast;
    RefuseAll(values, is_program ? ReadAsCode(grammar, name)
                                 : "is read by " + std::string(name) +
                                       " as an option that is code or names it;");
    reading->reads_program |=
        NamesInput(option.values > 0 ? std::string_view(words[1].text) : text.substr(value));
  }
  return option;
}

ShellReading ShellCommands::Find(Words words) {
  ShellReading reading;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i + 1 < words.size() && StartsWithExpression(words[i]) &&
        (StartsWithExpression(words[i + 1]) || words[i + 1].text.starts_with(kVariable)))
      Refuse(words[i], "could be -exec of find, and the next word a program;");
    if (!IsOneOf(words[i].text, kFindRuns)) continue;
    const Words command = words.subspan(i + 1);
    const auto end = std::ranges::find_if(
        command, [](const ShellWord& word) { return word.text == ";" || word.text == "+"; });
    const ShellReading inner =
        Command(command.first(static_cast<std::size_t>(end - command.begin())));
    reading.reads_program |= inner.reads_program;
    reading.prints |= inner.prints;
  }
  return reading;
}

/// `docker exec` is followed into its command.  What else they do with their input is theirs to
/// know: they build images from it, apply what it describes, or hand it to an image's own program.
ShellReading ShellCommands::Container(std::string_view name, Words words) {
  const auto exec = std::ranges::find(words, "exec", &ShellWord::text);
  if (exec != words.end()) return Read(kExec, name, {exec + 1, words.end()});
  if (words.empty()) return {};
  if (StartsWithExpression(words[0]))
    Refuse(words[0], "chooses a command of " + std::string(name) + ";");
  ShellReading reading = Unknown(words);
  reading.reads_program = words[0].text != "login";
  return reading;
}

ShellReading ShellCommands::Git(Words words) {
  const std::string& command = words[0].text;
  const ShellGrammar* grammar = FindGrammar("git-" + command);
  if (grammar == nullptr) return {};
  const auto is_code = [](const ShellWord& word) {
    return std::ranges::any_of(kGitCode,
                               [&](std::string_view key) { return word.text.starts_with(key); });
  };
  if (command == "config" && std::ranges::any_of(words, is_code))
    RefuseAll(words, "is the value of a key of git that is code or names it;");
  return Read(*grammar, "git " + command, words.subspan(1));
}

/// `uv run PROGRAM`; what they install or publish is theirs to know.
ShellReading ShellCommands::Runner(std::string_view name, Words words) {
  if (!words.empty() && StartsWithExpression(words[0]))
    Refuse(words[0], "chooses a command of " + std::string(name) + ";");
  constexpr std::string_view kRuns[] = {"run", "run-script", "exec", "x", "dlx"};
  const auto command = std::ranges::find_if_not(
      words, [](const ShellWord& word) { return word.text.starts_with('-'); });
  if (command != words.end() && IsOneOf(command->text, kRuns))
    return Read(kRun, name, {command + 1, words.end()});
  return {};
}

/// `tar xzf FILE` means `tar -xzf FILE`; the letters whose values stand behind it come last.
ShellReading ShellCommands::Tar(const ShellGrammar& grammar, std::string_view name, Words words) {
  if (words.empty() || words[0].text.empty() || words[0].text.starts_with('-') ||
      words[0].has_expression())
    return Read(grammar, name, words);
  std::vector<ShellWord> with_dash(words.begin(), words.end());
  std::string& letters = with_dash[0].text;
  if (std::erase(letters, 'f') > 0) letters += 'f';
  letters.insert(0, "-");
  return Read(grammar, name, with_dash);
}

/// A program that may run another: `mine sh -c TEXT`.
ShellReading ShellCommands::Unknown(Words words) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const std::string_view option = words[i + 1].text;
    if (!option.starts_with('-') ||
        (!option.ends_with('c') && !option.ends_with('e') && option != "-" && option != "-s"))
      continue;
    const ShellGrammar* grammar = FindGrammar(words[i].text);
    if (grammar != nullptr && grammar->input == Input::kProgramIfNoneGiven &&
        grammar->reads != Reads::kCommand)
      return Read(*grammar, BaseName(words[i].text), words.subspan(i + 1));
  }
  return {};
}

/// Bash evaluates indexes in the name behind -v or -R, which a value before it could be.
void ShellCommands::Test(Words words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const ShellWord& next = words[i + 1];
    if (words[i].text == "-v" || words[i].text == "-R")
      Refuse(next, "is an argument of test -v, which evaluates indexes;");
    const bool next_is_value = StartsWithExpression(next) || next.text.starts_with(kVariable);
    if (StartsWithExpression(words[i]) && next_is_value)
      Refuse(words[i],
             "could be the -v of test, which evaluates an index in the next word; compare "
             "it (= or !=), or");
  }
}

void ShellCommands::Declare(std::string_view name, Words words) {
  bool evaluates = false;
  for (const ShellWord& word : words) {
    const bool option = word.text.starts_with('-');
    evaluates |= option && word.text.find_first_of("inaAf") != std::string::npos;
    has_integers_ |= option && (word.text.find('i') != std::string::npos ||
                                (name != "export" && word.text.find('n') != std::string::npos));
    if (evaluates || !IsAssignment(word.text)) {
      Refuse(word, "is an argument of " + std::string(name) + ", which may evaluate it;");
    } else {
      CheckAssignment(word);
    }
  }
}

void ShellCommands::Assign(std::string_view name, Words words, ShellReading* reading) {
  if (name == "printf" && (words.empty() || !words[0].text.starts_with("-v"))) return;
  const bool evaluated = has_integers_ || std::ranges::any_of(words, [](const ShellWord& word) {
                           const std::string_view text = word.text;
                           return IsSpecialVariable(text.starts_with("-v") ? text.substr(2) : text);
                         });
  if (!evaluated) return;
  reading->reads_program = true;
  RefuseAll(words, "is assigned to a variable that is code or names it;");
}

void ShellCommands::CheckAssignment(const ShellWord& word) {
  const std::string_view name =
      std::string_view(word.text).substr(0, word.text.find_first_of("+="));
  if (IsSpecialVariable(name)) {
    Refuse(word, "is assigned to " + std::string(name) + ", which is code or names it;");
  } else if (has_integers_) {
    Refuse(word, std::string(kArithmetic));
  }
}

void ShellCommands::CheckArray(const std::vector<ShellWord>& words,
                               std::vector<ShellDanger>* dangers) {
  dangers_ = dangers;
  for (const ShellWord& word : words) {
    if (word.text.starts_with('[') && !word.quoted) {
      Refuse(word, std::string(kIndex));
    } else if (has_integers_) {
      Refuse(word, std::string(kArithmetic));
    }
  }
}

}  // namespace headworks::expr::internal
