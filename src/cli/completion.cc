#include "completion.h"

#include <fmt/format.h>

#include <functional>

namespace headworks::cli {
namespace {

/// Calls `visit` for `node` and all below it with where they are: "", " runs", " runs list".
void ForEach(const CommandNode& node, const std::string& path,
             const std::function<void(const std::string&, const CommandNode&)>& visit) {
  visit(path, node);
  for (const CommandNode& command : node.commands)
    ForEach(command, path + " " + command.name, visit);
}

/// In single quotes, as all three shells read them; the texts are the program's own.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("’") : std::string(1, c);
  return quoted + "'";
}

/// The paths of all commands as a pattern of `case`.
std::string CommandPattern(const CommandNode& root) {
  std::string pattern;
  ForEach(root, "", [&](const std::string& path, const CommandNode&) {
    if (!path.empty()) pattern += fmt::format("{}\"{}\"", pattern.empty() ? "" : " | ", path);
  });
  return pattern;
}

/// `case` branches over "PATH OPTION" for options that take a value: `line` of the values.
/// Options of the root hold below it, too.
std::string ValueBranches(const CommandNode& root, const std::string& line) {
  std::string branches;
  ForEach(root, "", [&](const std::string& path, const CommandNode& node) {
    for (const OptionNode& option : node.options)
      if (option.takes_value)
        branches += fmt::format("    {}\" {}\") {} ;;\n",
                                path.empty() ? "*" : fmt::format("\"{}\"", path), option.name,
                                fmt::format(fmt::runtime(line), fmt::join(option.values, " ")));
  });
  return branches;
}

/// Names of what may stand after `path`: options, and its commands or values.
std::vector<std::string> OptionNames(const CommandNode& root, const CommandNode& node) {
  std::vector<std::string> names;
  names.reserve(root.options.size() + node.options.size());
  for (const OptionNode& option : root.options) names.push_back(option.name);
  if (&node != &root)
    for (const OptionNode& option : node.options) names.push_back(option.name);
  return names;
}

}  // namespace

std::string BashCompletion(const CommandNode& root) {
  std::string branches;
  ForEach(root, "", [&](const std::string& path, const CommandNode& node) {
    std::vector<std::string> words = node.values;
    for (const CommandNode& command : node.commands) words.push_back(command.name);
    for (std::string& name : OptionNames(root, node)) words.push_back(std::move(name));
    branches += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(words, " "));
  });
  return fmt::format(R"(_headworks() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" place="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$place $word" in
      {}) place="$place $word" ;;
    esac
  done
  case "$place" in
{}  esac
  case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _headworks headworks
)",
                     CommandPattern(root), branches, ValueBranches(root, "words=\"{}\""));
}

std::string ZshCompletion(const CommandNode& root) {
  std::string branches;
  ForEach(root, "", [&](const std::string& path, const CommandNode& node) {
    std::string commands;
    for (const CommandNode& command : node.commands)
      commands += " " + Quoted(fmt::format("{}:{}", command.name, command.description));
    branches +=
        fmt::format("    \"{}\") commands=({}) values=({}) options=({}) ;;\n", path, commands,
                    fmt::join(node.values, " "), fmt::join(OptionNames(root, node), " "));
  });
  return fmt::format(R"(#compdef headworks
_headworks() {{
  local place="" word
  local -a commands values options
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$place $word" in
      {}) place="$place $word" ;;
    esac
  done
  case "$place ${{words[CURRENT-1]}}" in
{}  esac
  case "$place" in
{}  esac
  (( $#commands )) && _describe -t commands command commands
  (( $#values )) && compadd -- $values
  (( $#commands + $#values )) || _files
  [[ $PREFIX == -* ]] && compadd -- $options
}}
if [[ "$funcstack[1]" == _headworks ]]; then
  _headworks "$@"
else
  compdef _headworks headworks
fi
)",
                     CommandPattern(root),
                     ValueBranches(root,
                                   "values=({}); (( $#values )) && compadd -- $values || "
                                   "_files; return"),
                     branches);
}

std::string FishCompletion(const CommandNode& root) {
  std::vector<std::string> paths;
  std::string lines;
  ForEach(root, "", [&](const std::string& path, const CommandNode& node) {
    if (!path.empty()) paths.push_back(fmt::format("\"{}\"", path));
    // Options of the root are offered everywhere.
    const std::string here =
        fmt::format("complete -c headworks -n 'test \"$(__headworks_place)\" = \"{}\"'", path);
    for (const OptionNode& option : node.options)
      lines += fmt::format("{} {} -d {}{}{}\n", path.empty() ? "complete -c headworks" : here,
                           option.name.starts_with("--") ? "-l " + option.name.substr(2)
                                                         : "-s " + option.name.substr(1),
                           Quoted(option.description), option.takes_value ? " -r" : "",
                           option.values.empty()
                               ? std::string()
                               : fmt::format(" -f -a '{}'", fmt::join(option.values, " ")));
    if (!node.values.empty())
      lines += fmt::format("{} -f -a '{}'\n", here, fmt::join(node.values, " "));
    for (const CommandNode& command : node.commands)
      lines += fmt::format("{} -f -a {} -d {}\n", here, command.name, Quoted(command.description));
  });
  return fmt::format(R"(function __headworks_place
  set -l place ""
  for word in (commandline -opc)[2..-1]
    switch "$place $word"
      case {}
        set place "$place $word"
    end
  end
  echo $place
end
{})",
                     fmt::join(paths, " "), lines);
}

}  // namespace headworks::cli
