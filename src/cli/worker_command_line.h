#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "worker_commands.h"

namespace headworks::cli {

/// Adds what is below `headworks worker`.  `leaf` adds a command that ends in the given action.
using WorkerLeaf =
    std::function<CLI::App&(CLI::App& parent, const char* name, const char* description,
                            std::function<Result<Exit>(const Context&)> action)>;
void AddWorkerCommands(CLI::App& root, WorkerArgs& args, const WorkerLeaf& leaf);
/// What is below `headworks workers`.
void AddWorkersCommands(CLI::App& workers, WorkersArgs& args, const WorkerLeaf& leaf);

}  // namespace headworks::cli
