#include "shell.h"

#include <cstddef>

namespace headworks::executor_process {
namespace {

/// execve takes at most 128 KiB an argument.
constexpr std::size_t kInlineScriptBytes = std::size_t{96} << 10;

}  // namespace

ShellCommand CommandOf(const model::ShellAction& action, const std::string& script_file) {
  if (action.shell.empty() && action.script.size() <= kInlineScriptBytes) {
    return {.argv = {"/bin/sh", "-e", "-c", action.script}, .script = {}};
  }
  ShellCommand command{.argv = action.shell, .script = action.script};
  if (command.argv.empty()) command.argv = {"/bin/sh", "-e"};
  command.argv.push_back(script_file);
  return command;
}

}  // namespace headworks::executor_process
