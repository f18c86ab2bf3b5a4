#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "queue_commands.h"

namespace headworks::cli {

/// Makes a subcommand of `queue` that does `action`.
using QueueLeaf = std::function<CLI::App&(const char* name, const char* description,
                                          std::function<Result<Exit>(const Context&)> action)>;

/// All subcommands of `headworks queue`; `args` must outlive them.
void AddQueueCommands(QueueArgs& args, const QueueLeaf& leaf);

}  // namespace headworks::cli
