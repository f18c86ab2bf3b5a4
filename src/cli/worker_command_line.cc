#include "worker_command_line.h"

namespace headworks::cli {

using control::WorkerCommandKind;

void AddWorkerCommands(CLI::App& root, WorkerArgs& args, const WorkerLeaf& leaf) {
  CLI::App& worker = leaf(
      root, "worker", "Run tasks for the engine of the store, or for one elsewhere, until SIGTERM",
      [&args](const Context& context) { return RunWorker(context, args); });
  worker
      .add_option("--server", args.server,
                  "Where an engine elsewhere lets workers connect (default: the store's)")
      ->type_name("HOST:PORT");
  worker.add_option("--queue", args.queues, "Serve it, so many tasks at a time; may be repeated")
      ->type_name("NAME[=SLOTS]")
      ->allow_extra_args(false);
  worker.add_option("--label", args.labels, "For tasks that require it; may be repeated")
      ->allow_extra_args(false);
  worker.add_option("--name", args.name, "Of this worker (default: the host's)");
  worker
      .add_option("--token-file", args.token_file,
                  "Holds the worker token (default: $HEADWORKS_WORKER_TOKEN is it)")
      ->type_name("FILE");
  worker.add_option("--tls-ca", args.tls_ca, "The authority of the engine's certificate (PEM)")
      ->type_name("FILE");
  worker.add_option("--state-dir", args.state_dir, "Its own folder (default: by its name)")
      ->type_name("DIR");
  worker
      .add_option("--drain-timeout", args.drain_timeout,
                  "How long leaving waits for what runs; then it is interrupted")
      ->type_name("DURATION")
      ->capture_default_str();

  CLI::App& token = *worker.add_subcommand("token", "What workers show when they connect");
  token.require_subcommand(1);
  CLI::App& create =
      leaf(token, "create", "Make one, for an engine on this store; print it",
           [&args](const Context& context) { return CreateWorkerToken(context, args); });
  create.add_option("--name", args.token_name, "The worker's name; 'gpu-*' = all that begin so")
      ->capture_default_str();
  create.add_option("--queues", args.token_queues, "That it may serve (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  create.add_option("--valid", args.token_valid, "From now on")
      ->type_name("DURATION")
      ->capture_default_str();
  leaf(token, "rotate", "Sign new ones by a new key; the one before the last is good no more",
       [](const Context& context) { return RotateTokenKeys(context); });
}

void AddWorkersCommands(CLI::App& workers, WorkersArgs& args, const WorkerLeaf& leaf) {
  CLI::App& list = leaf(workers, "list", "Those of the tenant, and who is gone since not long ago",
                        [&args](const Context& context) { return ListWorkers(context, args); });
  list.add_option("--queue", args.queue, "Only those that serve it");
  CLI::App& show = leaf(workers, "show", "One, with what it holds",
                        [&args](const Context& context) { return ShowWorker(context, args); });
  show.add_option("name", args.name, "The worker")->required();
  const auto add = [&](const char* name, const char* description, WorkerCommandKind kind) {
    leaf(workers, name, description,
         [&args, kind](const Context& context) { return CommandWorkers(context, kind, args); })
        .add_option("name", args.name, "The worker; 'gpu-*' = all that begin so")
        ->required();
  };
  add("cordon", "Give it nothing new, also after restarts", WorkerCommandKind::kCordon);
  add("uncordon", "Give it work again", WorkerCommandKind::kUncordon);
  add("drain", "Let it end what it runs, and leave", WorkerCommandKind::kDrain);
}

}  // namespace headworks::cli
