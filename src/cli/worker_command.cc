#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <map>
#include <thread>

#include "headworks/author/registry.h"
#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/token/token_keys.h"
#include "headworks/token/worker_tokens.h"
#include "headworks/worker/worker.h"
#include "monitoring.h"
#include "option_text.h"
#include "output.h"
#include "signals.h"
#include "token_source.h"
#include "worker_commands.h"

namespace headworks::cli {
namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

/// "mail=4" → 4 slots for mail; without a number as many as this host would run by itself.
Result<std::map<std::string, std::uint32_t>> ParseQueues(const Context& context,
                                                         const std::vector<std::string>& texts) {
  const std::uint32_t own = context.settings().runner.max_concurrent_tasks;
  const std::uint32_t usual = own > 0 ? own : 2 * std::max(1U, std::thread::hardware_concurrency());
  std::map<std::string, std::uint32_t> queues;
  if (texts.empty()) queues["default"] = usual;
  for (const std::string& text : texts) {
    HEADWORKS_ASSIGN(const auto given, QueueSlotsOf(text, usual, worker_api::kMaxSlots));
    if (!queues.emplace(given.queue, given.slots).second)
      return Error{Code::kInvalidArgument, fmt::format("--queue {} is given twice", given.queue)};
  }
  return queues;
}

Result<worker::WorkerOptions> OptionsOf(const Context& context, const WorkerArgs& args) {
  worker::WorkerOptions options{.tenant = context.tenant(),
                                .name = args.name.empty() ? DefaultName() : args.name,
                                .labels = args.labels,
                                .version = HEADWORKS_VERSION,
                                .host = HostName(),
                                .state_dir = args.state_dir,
                                .supervisor_path = context.settings().runner.supervisor_path};
  HEADWORKS_ASSIGN(options.slots, ParseQueues(context, args.queues));
  HEADWORKS_ASSIGN(options.drain_timeout, DurationOf("--drain-timeout", args.drain_timeout));
  if (options.state_dir.empty())
    options.state_dir = DefaultStateDir(context, "workers", options.name);
  return options;
}

/// Waits for the worker's end, and passes signals on.
void AwaitEnd(SignalWatch& signals, worker::Worker& worker, Duration drain_timeout,
              const std::atomic<bool>& ended) {
  int seen = 0;
  while (!ended) {
    signals.Wait(std::chrono::hours(24));
    for (; seen < signals.interrupts() + signals.terminations(); ++seen) {
      if (seen == 0)
        Print(fmt::format("draining for up to {}; a second signal interrupts what runs\n",
                          FormatDuration(drain_timeout)));
      worker.Drain();
    }
  }
}

}  // namespace

std::string DefaultName() {
  std::string name = HostName().substr(0, worker_api::kMaxNameBytes);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '-';
  return name;
}

std::string DefaultStateDir(const Context& context, std::string_view kind,
                            const std::string& name) {
  namespace fs = std::filesystem;
  const auto variable = [&](const char* key) -> std::string {
    const char* value = context.environment(key);
    return value == nullptr ? "" : value;
  };
  fs::path state = variable("XDG_STATE_HOME");
  if (state.empty())
    state = fs::path(variable("HOME").empty() ? "/" : variable("HOME")) / ".local/state";
  return (state / "headworks" / kind / name).string();
}

Result<Exit> RunWorker(const Context& context, const WorkerArgs& args) {
  if (args.server.empty())
    return Error{Code::kInvalidArgument,
                 "give --server HOST:PORT, as `headworks up --rpc-listen` prints it"};
  const char* const variable = context.environment("HEADWORKS_WORKER_TOKEN");
  TokenSource token(args.token_file, variable == nullptr ? "" : variable);
  HEADWORKS_TRY(token.Check());
  HEADWORKS_ASSIGN(const auto options, OptionsOf(context, args));
  HEADWORKS_ASSIGN(
      const auto client,
      rpc::RpcClient::Open({.target = args.server, .tls_ca_file = args.tls_ca, .credential = [&] {
                              return token.Get();
                            }}));
  TaskRegistry registry;
  HEADWORKS_TRY(registry.RegisterLinked());
  SystemRandom random;
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  auto opened =
      worker::Worker::Open(options, {.service = *client,
                                     .registry = registry,
                                     .clock = context.clock,
                                     .random = random,
                                     .log = context.logger,
                                     .tell = [](const std::string& line) { Print(line + "\n"); }});
  // Not by its caller, who would name the store, which has no part in this.
  if (!opened) return Fail(opened.error());
  worker::Worker& worker = **opened;
  std::unique_ptr<metrics_http::HttpServer> monitoring;
  if (const std::string& address = context.settings().metrics_listen; !address.empty()) {
    HEADWORKS_ASSIGN(monitoring, ServeMonitoring(address, worker, context.logger));
    Print(fmt::format("metrics are at http://{}/metrics\n", monitoring->address()));
  }
  Print(fmt::format("worker {} connects to {}\n", options.name, args.server));
  Status end;
  std::atomic<bool> ended = false;
  std::jthread runs([&] {
    end = worker.Run();
    ended = true;
    signals.Wake();
  });
  AwaitEnd(signals, worker, options.drain_timeout, ended);
  runs.join();
  monitoring.reset();
  if (!end) return Fail(end.error());
  Print("left\n");
  return Exit::kOk;
}

Result<Exit> CreateWorkerToken(const Context& context, const WorkerArgs& args) {
  HEADWORKS_ASSIGN(const Duration valid, DurationOf("--valid", args.token_valid));
  HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(context.settings().runner.database_url));
  const auto folder = std::filesystem::path(file).parent_path();
  if (std::error_code ec; !std::filesystem::is_directory(folder, ec))
    return Error{Code::kNotFound,
                 fmt::format("there is no store in {}: start `headworks up` once, or name its "
                             "store with --store",
                             folder.string())};
  const std::string store = StoreName(context.settings().runner);
  if (std::error_code ec; !std::filesystem::exists(store, ec))
    return Error{Code::kNotFound,
                 fmt::format("there is no store {}, so no engine would take the token: start "
                             "`headworks up` once, or name its store with --store",
                             store)};
  SystemRandom random;
  HEADWORKS_ASSIGN(auto keys, token::TokenKeys::LoadOrCreate(file, random));
  const token::WorkerTokens tokens(std::move(keys), context.clock);
  HEADWORKS_ASSIGN(const std::string made, tokens.Mint({.tenant = context.tenant(),
                                                        .worker = args.token_name,
                                                        .queues = args.token_queues},
                                                       valid));
  Print(made + "\n");
  return Exit::kOk;
}

}  // namespace headworks::cli
