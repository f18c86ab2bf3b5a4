#include "shell.h"

#include <string_view>

namespace headworks::executor_process {
namespace {

/// execve takes at most 128 KiB an argument.
constexpr std::size_t kInlineScriptBytes = std::size_t{96} << 10;

std::vector<std::string> DefaultArguments(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name == "bash") return {"-e", "-o", "pipefail"};
  if (name == "sh" || name == "dash") return {"-e"};
  return {};
}

}  // namespace

ShellCommand CommandOf(const model::ShellAction& action, const std::string& script_file) {
  if (action.shell.empty() && action.script.size() <= kInlineScriptBytes) {
    return {.argv = {"/bin/sh", "-e", "-c", action.script}, .script = {}};
  }
  ShellCommand command{.argv = action.shell, .script = action.script};
  if (command.argv.empty()) command.argv = {"/bin/sh"};
  if (command.argv.size() == 1) {
    for (std::string& argument : DefaultArguments(command.argv.front())) {
      command.argv.push_back(std::move(argument));
    }
  }
  command.argv.push_back(script_file);
  return command;
}

}  // namespace headworks::executor_process
