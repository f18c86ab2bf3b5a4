#pragma once

#include <functional>
#include <string>
#include <string_view>
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

/// Of the host, as a worker may be called.
std::string DefaultName();
/// Where a worker or runner of that name keeps what it knows; `kind` = "workers" or "runners".
Result<std::string> DefaultStateDir(const Context& context, std::string_view kind,
                                    const std::string& name);

/// Until it has drained (SIGTERM, Ctrl-C), or is refused.
Result<Exit> RunWorker(const Context& context, const WorkerArgs& args);
Result<Exit> CreateWorkerToken(const Context& context, const WorkerArgs& args);
/// Engines on the store take the new keys by themselves.
Result<Exit> RotateTokenKeys(const Context& context);

// Of workers as the engine of the store last wrote them down.
struct WorkersArgs {
  std::string name;
  std::string queue;
};
Result<Exit> ListWorkers(const Context& context, const WorkersArgs& args);
/// All incarnations of one name.
Result<Exit> ShowWorker(const Context& context, const WorkersArgs& args);
Result<Exit> CommandWorkers(const Context& context, control::WorkerCommandKind kind,
                            const WorkersArgs& args);

}  // namespace headworks::cli
