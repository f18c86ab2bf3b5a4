#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exit_code.h"
#include "session.h"

namespace headworks::cli {

struct WorkerArgs {
  std::string server, name, token_file, tls_ca, state_dir;
  std::vector<std::string> queues, labels;
  std::string drain_timeout = "30s";

  // Of `token create`.
  std::string token_name = "*", token_valid = "720h";
  std::vector<std::string> token_queues;
};

/// Until it has drained (SIGTERM, Ctrl-C), or is refused.
Result<Exit> RunWorker(const Context& context, const WorkerArgs& args);
Result<Exit> CreateWorkerToken(const Context& context, const WorkerArgs& args);

}  // namespace headworks::cli
