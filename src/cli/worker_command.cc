#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "headworks/author/registry.h"
#include "headworks/base/host.h"
#include "headworks/base/random.h"
#include "headworks/rpc/rpc_client.h"
#include "headworks/token/token_keys.h"
#include "headworks/token/worker_tokens.h"
#include "headworks/worker/worker.h"
#include "monitoring.h"
#include "news.h"
#include "option_text.h"
#include "output.h"
#include "signals.h"
#include "token_mint.h"
#include "token_source.h"
#include "worker_commands.h"
#include "worker_socket.h"

namespace headworks::cli {
namespace {

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
  if (!worker_api::IsName(options.name))
    return Error{
        Code::kInvalidArgument,
        fmt::format("--name: '{}' is no name of a worker: 1 to 64 letters, digits, '-' and "
                    "'_'",
                    options.name)};
  HEADWORKS_ASSIGN(options.slots, ParseQueues(context, args.queues));
  HEADWORKS_ASSIGN(options.drain_timeout, DurationOf("--drain-timeout", args.drain_timeout));
  if (options.state_dir.empty()) {
    HEADWORKS_ASSIGN(options.state_dir, DefaultStateDir(context, "workers", options.name));
  }
  return options;
}

/// What carries the words of a worker.
struct Line {
  std::string to;  // for people
  std::unique_ptr<TokenSource> source;
  std::unique_ptr<TokenMint> mint;
  std::optional<WorkerSocket> socket;
  std::unique_ptr<rpc::RpcClient> client;
};

Result<Line> OverNetwork(const Context& context, const WorkerArgs& args) {
  // "store" is the first row of the table.
  if (context.loaded.origins.front() == "--store")
    return Error{Code::kInvalidArgument,
                 "--server and --store name an engine each; give one: --server is for engines "
                 "elsewhere, --store for the one of a store that is within reach"};
  const char* const variable = context.environment("HEADWORKS_WORKER_TOKEN");
  Line line{.to = args.server,
            .source = std::make_unique<TokenSource>(args.token_file,
                                                    variable == nullptr ? "" : variable)};
  HEADWORKS_TRY(line.source->Check());
  HEADWORKS_ASSIGN(
      line.client,
      rpc::RpcClient::Open({.target = args.server,
                            .tls_ca_file = args.tls_ca,
                            .credential = [source = line.source.get()] { return source->Get(); },
                            .clock = &context.clock}));
  return line;
}

Status CheckStore(const Context& context) {
  const std::string store = StoreName(context.settings().runner);
  struct stat about{};
  if (stat(store.c_str(), &about) != 0)
    return Error{Code::kNotFound,
                 fmt::format("there is no store {} ({}): start `headworks up` once, or name its "
                             "store with --store",
                             store, std::strerror(errno))};
  if (about.st_uid != geteuid())
    return Error{Code::kPermissionDenied,
                 fmt::format("the store {} is user {}'s, and so are its keys: run this as that "
                             "user; a worker of another one needs --server and a token",
                             store, about.st_uid)};
  return {};
}

/// To the engine of the store, whoever that is at the time; who can read the store's keys needs no
/// token.
Result<Line> ByStore(const Context& context, const WorkerArgs& args, const std::string& name,
                     Random& random) {
  if (!args.token_file.empty() || !args.tls_ca.empty())
    return Error{Code::kInvalidArgument,
                 "--token-file and --tls-ca are for --server HOST:PORT, as `headworks up "
                 "--rpc-listen` prints it; a worker that reaches the store needs neither"};
  const std::string& url = context.settings().runner.database_url;
  HEADWORKS_ASSIGN(std::string keys, TokenKeysFile(url));
  HEADWORKS_TRY(CheckStore(context));
  Line line{.to = fmt::format("the engine of {}", StoreName(context.settings().runner))};
  HEADWORKS_ASSIGN(line.socket, WorkerSocket::Open(url));
  HEADWORKS_ASSIGN(line.mint,
                   TokenMint::Open(std::move(keys), {.tenant = context.tenant(), .worker = name},
                                   context.clock, random));
  HEADWORKS_ASSIGN(
      line.client,
      rpc::RpcClient::Open({.target = line.socket->address(),
                            .name = line.to,
                            .credential = [mint = line.mint.get()] { return mint->Get(); }}));
  return line;
}

/// Waits for the worker's end, and passes signals on.
void AwaitEnd(SignalWatch& signals, News& news, worker::Worker& worker, Duration drain_timeout,
              const std::atomic<bool>& ended) {
  int seen = 0;
  while (!ended) {
    news.Wait(std::chrono::hours(24));
    for (; seen < signals.interrupts() + signals.terminations(); ++seen) {
      if (seen == 0)
        news.Say(fmt::format("draining for up to {}; a second signal interrupts what runs",
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

Result<std::string> DefaultStateDir(const Context& context, std::string_view kind,
                                    const std::string& name) {
  const std::string state = UserFolder(context.environment, "XDG_STATE_HOME", ".local/state");
  if (state.empty())
    return Error{Code::kInvalidArgument,
                 "there is no usual place for its files: neither XDG_STATE_HOME nor HOME names a "
                 "folder; name one with --state-dir"};
  return fmt::format("{}/headworks/{}/{}", state, kind, name);
}

Result<Exit> RunWorker(const Context& context, const WorkerArgs& args) {
  HEADWORKS_ASSIGN(const auto options, OptionsOf(context, args));
  SystemRandom random;
  HEADWORKS_ASSIGN(const Line line, args.server.empty()
                                        ? ByStore(context, args, options.name, random)
                                        : OverNetwork(context, args));
  TaskRegistry registry;
  HEADWORKS_TRY(registry.RegisterLinked());
  HEADWORKS_ASSIGN(SignalWatch signals, SignalWatch::Install());
  News news(signals);
  auto opened =
      worker::Worker::Open(options, {.service = *line.client,
                                     .registry = registry,
                                     .clock = context.clock,
                                     .random = random,
                                     .log = context.logger,
                                     .tell = [&](const std::string& line) { news.Say(line); }});
  // Not by its caller, who would name the store, which has no part in this.
  if (!opened) return Fail(opened.error());
  worker::Worker& worker = **opened;
  std::unique_ptr<metrics_http::HttpServer> monitoring;
  if (const std::string& address = context.settings().metrics_listen; !address.empty()) {
    HEADWORKS_ASSIGN(monitoring, ServeMonitoring(address, worker, context.logger));
    news.Say(fmt::format("metrics are at http://{}/metrics", monitoring->address()));
  }
  news.Say(fmt::format("worker {} connects to {}", options.name, line.to));
  Status end;
  std::atomic<bool> ended = false;
  std::jthread runs([&] {
    end = worker.Run();
    ended = true;
    signals.Wake();
  });
  AwaitEnd(signals, news, worker, options.drain_timeout, ended);
  runs.join();
  monitoring.reset();
  if (!end) {
    news.Complain(end.error());
    return ExitFor(end.error().code);
  }
  const auto interrupted = worker.Figures().interrupted;
  if (interrupted == 0) {
    news.Say("left");
    return Exit::kOk;
  }
  news.Say(
      interrupted == 1
          ? "left; 1 task was interrupted and runs again, at no cost"
          : fmt::format("left; {} tasks were interrupted and run again, at no cost", interrupted));
  return Exit::kTerminated;
}

Result<Exit> CreateWorkerToken(const Context& context, const WorkerArgs& args) {
  HEADWORKS_ASSIGN(const Duration valid, DurationOf("--valid", args.token_valid));
  HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(context.settings().runner.database_url));
  HEADWORKS_TRY(CheckStore(context));
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

Result<Exit> RotateTokenKeys(const Context& context) {
  HEADWORKS_ASSIGN(const std::string file, TokenKeysFile(context.settings().runner.database_url));
  HEADWORKS_TRY(CheckStore(context));
  SystemRandom random;
  HEADWORKS_TRY(token::TokenKeys::Rotate(file, random));
  Print("new tokens are signed by a new key; those made before are good until the next rotation\n");
  return Exit::kOk;
}

}  // namespace headworks::cli
