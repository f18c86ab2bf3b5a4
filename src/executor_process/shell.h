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
/// Else the program and its arguments as they stand, then a file that holds the script.
ShellCommand CommandOf(const model::ShellAction& action, const std::string& script_file);

}  // namespace headworks::executor_process
