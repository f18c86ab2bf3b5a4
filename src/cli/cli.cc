#include "headworks/cli/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "command_line.h"
#include "headworks/base/host.h"
#include "headworks/base/text.h"
#include "output.h"
#include "session.h"

namespace headworks::cli {
namespace {

constexpr std::size_t kLongestUser = 64;

std::string Actor(const std::function<const char*(const char*)>& environment) {
  const char* user = environment("USER");
  // It stands in rows that are text: whatever is in the variable, it may not be in the way.
  std::string name = user == nullptr ? fmt::format("uid{}", getuid()) : ReplaceInvalidUtf8(user);
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  name.resize(ValidUtf8Prefix(std::string_view(name).substr(0, kLongestUser)));
  return fmt::format("{}@{}", name, HostName());
}

Result<Exit> RunCommand(const ParsedCommand& command, const std::vector<std::string>& variables) {
  if (command.plain) return command.plain();
  const auto environment = [&variables](std::string_view name) -> const char* {
    for (const std::string& variable : variables)
      if (variable.starts_with(name) && variable.size() > name.size() &&
          variable[name.size()] == '=')
        return variable.c_str() + name.size() + 1;
    return nullptr;
  };
  HEADWORKS_ASSIGN(LoadedSettings loaded, LoadSettings({.flags = command.flags,
                                                        .file = command.config_file,
                                                        .environment = environment}));
  SystemClock clock;
  StderrLogger logger(loaded.settings.log_format, loaded.settings.log_level);
  const Context context{.loaded = std::move(loaded),
                        .environment = environment,
                        .clock = clock,
                        .logger = logger,
                        .actor = Actor(environment)};
  auto exit = command.action(context);
  // What the request is not to blame for, the store is.
  if (!exit && ExitFor(exit.error().code) == Exit::kUnavailable)
    return NameStore(context, std::move(exit).error());
  return exit;
}

/// What has gone wrong otherwise is the worse news.
Exit WithOutput(Exit exit) {
  const int why = OutputError();
  if (why == 0) return exit;
  if (why != EPIPE)
    Note(
        fmt::format("headworks: cannot write to standard output: {}; what the command has done "
                    "stands, but not all of what it said is there",
                    std::strerror(why)));
  if (exit != Exit::kOk) return exit;
  return why == EPIPE ? Exit::kReaderLeft : Exit::kUnavailable;
}

Exit RunProgram(int argc, const char* const* argv, const char* const* environment) {
  try {
    std::vector<std::string> variables;
    for (const char* const* variable = environment; *variable != nullptr; ++variable)
      variables.emplace_back(*variable);
    const ParseResult parsed = ParseCommandLine(argc, argv, variables);
    if (parsed.exit) return *parsed.exit;
    const Result<Exit> exit = RunCommand(parsed.command, variables);
    return exit ? *exit : Fail(exit.error());
  } catch (const std::exception& error) {
    return Fail({Code::kInternal, fmt::format("{}; this is a fault in headworks: please report it "
                                              "with the command that led to it",
                                              error.what())});
  }
}

}  // namespace

int Main(int argc, const char* const* argv, const char* const* environment) {
  HoldClosedStreams();
  return static_cast<int>(WithOutput(RunProgram(argc, argv, environment)));
}

}  // namespace headworks::cli
