#include "completion.h"

#include <fmt/format.h>

#include <algorithm>

namespace headworks::cli {
namespace {

/// Every path below `node` ("runs list"), and the words that may follow it.
void AddPaths(const CommandNode& node, const std::string& path,
              const std::vector<std::string>& inherited, std::string& paths, std::string& words) {
  std::vector<std::string> next = inherited;
  for (const CommandNode& command : node.commands) next.push_back(command.name);
  next.insert(next.end(), node.options.begin(), node.options.end());
  words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(next, " "));
  for (const CommandNode& command : node.commands) {
    const std::string below = path + " " + command.name;
    paths += fmt::format("{}\"{}\"", paths.empty() ? "" : " | ", below);
    AddPaths(command, below, inherited, paths, words);
  }
}

std::string Quoted(std::string text) {
  std::ranges::replace(text, '\'', ' ');
  return "'" + text + "'";
}

}  // namespace

std::string BashCompletion(const CommandNode& root) {
  std::string paths;
  std::string words;
  AddPaths(root, "", root.options, paths, words);
  return fmt::format(R"(_headworks() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {}) path="$path $word" ;;
    esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ ${{#COMPREPLY[@]}} -eq 0 ]; then
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -F _headworks headworks
)",
                     paths, words);
}

std::string ZshCompletion(const CommandNode& root) {
  return "#compdef headworks\nautoload -U +X bashcompinit && bashcompinit\n" + BashCompletion(root);
}

std::string FishCompletion(const CommandNode& root) {
  std::string script;
  const auto add = [&](const std::string& condition, const CommandNode& node) {
    for (const std::string& option : node.options)
      script += fmt::format(
          "complete -c headworks {} {}\n", condition,
          option.starts_with("--") ? "-l " + option.substr(2) : "-o " + option.substr(1));
    for (const CommandNode& command : node.commands)
      script += fmt::format("complete -c headworks {} -a {} -d {}\n", condition, command.name,
                            Quoted(command.description));
  };
  add("-n __fish_use_subcommand", root);
  for (const CommandNode& group : root.commands) {
    std::vector<std::string> names;
    names.reserve(group.commands.size());
    for (const CommandNode& command : group.commands) names.push_back(command.name);
    add(names.empty() ? fmt::format("-n '__fish_seen_subcommand_from {}'", group.name)
                      : fmt::format("-n '__fish_seen_subcommand_from {}; and not "
                                    "__fish_seen_subcommand_from {}'",
                                    group.name, fmt::join(names, " ")),
        group);
    for (const CommandNode& command : group.commands)
      add(fmt::format("-n '__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}'",
                      group.name, command.name),
          command);
  }
  return script;
}

}  // namespace headworks::cli
