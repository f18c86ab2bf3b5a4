#pragma once

#include <string>
#include <vector>

#include "headworks/model/workflow.h"

namespace headworks::executor_process {

/// How a script is run.
struct ShellCommand {
  std::vector<std::string> argv;
  /// To be written to the file that is the last of `argv`; empty = it is an argument itself.
  std::string script;
};

/// Without `shell`: `/bin/sh -e`, with the script as an argument while that can be so long.
/// Else the program and its arguments, then a file that holds the script.  A shell that is named
/// alone ends at the first command that fails: `sh` and `dash` run with -e, `bash` with -e and -o
/// pipefail; any other program, and a list of more than one, is taken as it stands.
ShellCommand CommandOf(const model::ShellAction& action, const std::string& script_file);

}  // namespace headworks::executor_process
