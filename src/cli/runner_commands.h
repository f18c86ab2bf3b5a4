#pragma once

#include <string>

#include "commands.h"
#include "headworks/model/workflow.h"

namespace headworks::cli {

struct RunnerArgs {
  std::string queue = "default=1", name, state_dir;
  std::string lease = "60s", drain_timeout = "30s", keep = "168h";
};

/// Runs what is in a queue of this store, until it has drained (SIGTERM, Ctrl-C).
Result<Exit> TakeRuns(const Context& context, const RunnerArgs& args);
/// Hands a run over; `input` is {"input", "params"} as spec::ParseParams makes it.
Result<Exit> PushRun(const Context& context, const RunArgs& args, const model::Workflow& workflow,
                     const std::string& input);

}  // namespace headworks::cli
