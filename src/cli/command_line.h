#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "completion.h"

namespace headworks::cli {

/// A command line that was understood.
struct ParsedCommand {
  /// Values of settings by key, and the file named with --config.
  std::map<std::string, std::string, std::less<>> flags;
  std::string config_file;
  /// What to do: either needs no settings, or gets them.
  std::function<Result<Exit>()> plain;
  std::function<Result<Exit>(const Context&)> action;
};

/// Help and version are printed here, and end in an exit code, as faults do (kUsage).
struct ParseResult {
  std::optional<Exit> exit;
  ParsedCommand command;
};
ParseResult ParseCommandLine(int argc, const char* const* argv,
                             const std::vector<std::string>& environment);

}  // namespace headworks::cli
