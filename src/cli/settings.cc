#include "settings.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "headworks/alert/alert.h"
#include "headworks/base/file.h"
#include "headworks/base/tenant.h"
#include "headworks/base/text.h"
#include "headworks/base/time.h"
#include "headworks/metrics_http/http_server.h"
#include "headworks/model/resources.h"
#include "headworks/rpc/rpc_server.h"
#include "number.h"

namespace headworks::cli {
namespace {

Error Bad(std::string_view text, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("'{}' is not {}", text, expected)};
}

template <auto Member, std::int64_t Low, std::int64_t High>
Status SetNumber(Settings& settings, std::string_view text) {
  HEADWORKS_ASSIGN(const std::int64_t number, ParseNumber(text, Low, High));
  settings.runner.*Member = static_cast<std::uint32_t>(number);
  return {};
}
template <auto Member>
std::string GetNumber(const Settings& settings) {
  return fmt::format("{}", settings.runner.*Member);
}

/// As short as ParseDuration reads it back.
std::string ShowDuration(Duration duration) {
  const auto us = duration.count();
  if (us % 1'000 != 0) return fmt::format("{}us", us);
  if (us % 1'000'000 != 0) return fmt::format("{}ms", us / 1'000);
  return fmt::format("{}s", us / 1'000'000);
}
Status ParseTime(std::string_view text, std::int64_t low_ms, Duration& into) {
  HEADWORKS_ASSIGN(const Duration duration, ParseDuration(text));
  if (duration < std::chrono::milliseconds(low_ms))
    return Bad(text, fmt::format("at least {}ms", low_ms));
  into = duration;
  return {};
}
template <auto Member, std::int64_t LowMs>
Status SetDuration(Settings& settings, std::string_view text) {
  return ParseTime(text, LowMs, settings.runner.*Member);
}
template <auto Member>
std::string GetDuration(const Settings& settings) {
  return ShowDuration(settings.runner.*Member);
}

std::string AbsolutePath(std::string_view text) {
  return text.empty() ? std::string() : std::filesystem::absolute(text).lexically_normal().string();
}

template <auto Member>
Status SetPath(Settings& settings, std::string_view text) {
  settings.runner.*Member = AbsolutePath(text);
  return {};
}
template <auto Member>
std::string GetText(const Settings& settings) {
  return settings.runner.*Member;
}

Status SetStore(Settings& settings, std::string_view text) {
  if (text.empty()) return Bad(text, "a path or an URL");
  if (text == "memory:") {
    settings.runner.database_url = text;
    return {};
  }
  if (text.starts_with("sqlite:")) text.remove_prefix(7);
  if (text.empty()) return Bad("sqlite:", "sqlite:PATH");
  if (const auto colon = text.find("://"); colon != std::string_view::npos)
    return Bad(text, "a store that this program knows: give a path, sqlite:PATH or memory:");
  settings.runner.database_url = "sqlite:" + RealPath(std::string(text));
  return {};
}

Status SetTenant(Settings& settings, std::string_view text) {
  HEADWORKS_TRY(CheckTenantName(text));
  settings.runner.tenant = text;
  return {};
}

/// Calls `set(name, value)` for each "name=value" of a list; a name may stand once.
template <typename Set>
Status ForEachPair(std::string_view text, std::string_view example, const Set& set) {
  std::set<std::string_view> names;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == item.size())
      return Bad(item, fmt::format("a name and its value, e.g. {}", example));
    const std::string_view name = item.substr(0, equals);
    if (!names.insert(name).second) return Bad(name, "named once only");
    HEADWORKS_TRY(set(name, item.substr(equals + 1)));
  }
  return {};
}

Error UnknownName(std::string_view name, std::span<const std::string_view> known) {
  return {Code::kInvalidArgument, fmt::format("'{}' is none of {}{}", name, fmt::join(known, ", "),
                                              DidYouMean(name, known))};
}

Status SetTenantWeights(Settings& settings, std::string_view text) {
  auto& weights = settings.runner.tenant_weights;
  weights.clear();
  return ForEachPair(text, "acme=3",
                     [&](std::string_view tenant, std::string_view value) -> Status {
                       HEADWORKS_TRY(CheckTenantName(tenant));
                       HEADWORKS_ASSIGN(const auto weight, ParseNumber(value, 1, kMaxTenantWeight));
                       weights.emplace(tenant, weight);
                       return {};
                     });
}

Status SetPools(Settings& settings, std::string_view text) {
  auto& pools = settings.runner.pools;
  pools.clear();
  return ForEachPair(text, "gpu=2", [&](std::string_view pool, std::string_view value) -> Status {
    if (!model::IsPoolName(pool)) return Bad(pool, "a pool and its permits, e.g. gpu=2");
    HEADWORKS_ASSIGN(const auto permits, ParseNumber(value, 0, store::LimitStore::kMaxLimit));
    pools.emplace(pool, permits);
    return {};
  });
}

Status SetTenantExecutors(Settings& settings, std::string_view text) {
  auto& executors = settings.runner.tenant_executors;
  executors.clear();
  return ForEachPair(text, "acme=process",
                     [&](std::string_view tenant, std::string_view key) -> Status {
                       HEADWORKS_TRY(CheckTenantName(tenant));
                       executors.emplace(tenant, key);
                       return {};
                     });
}

Result<double> ParseFraction(std::string_view text) {
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size()) return Bad(text, "a number");
  return number;
}

Status SetResources(model::Resources& resources, std::string_view text) {
  static constexpr std::string_view kNames[] = {"cpu", "memory"};
  model::Resources read;
  HEADWORKS_TRY(ForEachPair(text, "memory=512MiB",
                            [&](std::string_view name, std::string_view value) -> Status {
                              if (name == "cpu") {
                                HEADWORKS_ASSIGN(read.cpu, ParseFraction(value));
                                if (read.cpu == 0)
                                  return Bad(value, "enough: no task runs without a processor");
                              } else if (name == "memory") {
                                HEADWORKS_ASSIGN(read.memory, ParseBytes(value));
                              } else {
                                return UnknownName(name, kNames);
                              }
                              return {};
                            }));
  if (const auto faults = model::CheckResources(read); !faults.empty())
    return Error{Code::kInvalidArgument, fmt::format("{} {}", faults[0].field, faults[0].message)};
  resources = read;
  return {};
}

std::string GetResources(const model::Resources& resources) {
  std::vector<std::string> parts;
  if (resources.cpu > 0) parts.push_back(fmt::format("cpu={}", resources.cpu));
  if (resources.memory > 0) parts.push_back("memory=" + FormatBytes(resources.memory));
  return fmt::format("{}", fmt::join(parts, ","));
}

template <typename Enum>
using Choice = std::pair<std::string_view, Enum>;

template <typename Enum, std::size_t N>
Status Choose(Enum& target, std::string_view text, const Choice<Enum> (&choices)[N]) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) {
      target = value;
      return {};
    }
    names.push_back(name);
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("'{}' is none of {}{}", text, fmt::join(names, ", "), DidYouMean(text, names))};
}
template <typename Enum, std::size_t N>
std::string Chosen(Enum value, const Choice<Enum> (&choices)[N]) {
  for (const auto& [name, choice] : choices)
    if (choice == value) return std::string(name);
  return {};
}

constexpr Choice<model::Backoff> kBackoffs[] = {{"fixed", model::Backoff::kFixed},
                                                {"linear", model::Backoff::kLinear},
                                                {"exponential", model::Backoff::kExponential}};

Status SetRetry(Settings& settings, std::string_view text) {
  static constexpr std::string_view kNames[] = {"max_attempts", "backoff", "initial",
                                                "max",          "jitter",  "max_losses"};
  model::PlatformDefaults defaults = settings.runner.defaults;
  model::RetryPolicy& retry = defaults.retry = {};
  const auto count = [](std::string_view value, int& into) -> Status {
    HEADWORKS_ASSIGN(const auto number, ParseNumber(value, 1, 1'000));
    into = static_cast<int>(number);
    return {};
  };
  HEADWORKS_TRY(ForEachPair(text, "max_attempts=3",
                            [&](std::string_view name, std::string_view value) -> Status {
                              if (name == "max_attempts") return count(value, retry.max_attempts);
                              if (name == "max_losses") return count(value, retry.max_losses);
                              if (name == "backoff") return Choose(retry.backoff, value, kBackoffs);
                              if (name == "initial") return ParseTime(value, 0, retry.initial);
                              if (name == "max") return ParseTime(value, 0, retry.max);
                              if (name != "jitter") return UnknownName(name, kNames);
                              HEADWORKS_ASSIGN(retry.jitter, ParseFraction(value));
                              return {};
                            }));
  HEADWORKS_TRY(defaults.Check());
  settings.runner.defaults = defaults;
  return {};
}

std::string GetRetry(const Settings& settings) {
  const model::RetryPolicy& retry = settings.runner.defaults.retry;
  return fmt::format("max_attempts={},backoff={},initial={},max={},jitter={},max_losses={}",
                     retry.max_attempts, Chosen(retry.backoff, kBackoffs),
                     ShowDuration(retry.initial), ShowDuration(retry.max), retry.jitter,
                     retry.max_losses);
}

constexpr Choice<OutputFormat> kOutputs[] = {
    {"table", OutputFormat::kTable}, {"json", OutputFormat::kJson}, {"yaml", OutputFormat::kYaml}};
constexpr Choice<ColorMode> kColors[] = {
    {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};
constexpr Choice<LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                        {"info", LogLevel::kInfo},
                                        {"warning", LogLevel::kWarning},
                                        {"error", LogLevel::kError}};
constexpr Choice<StderrLogger::Format> kLogFormats[] = {{"text", StderrLogger::Format::kText},
                                                        {"json", StderrLogger::Format::kJson}};

Status SetMetricsListen(Settings& settings, std::string_view text) {
  if (!text.empty()) HEADWORKS_TRY(metrics_http::HttpServer::CheckAddress(text));
  settings.metrics_listen = text;
  return {};
}

Status SetRpcListen(Settings& settings, std::string_view text) {
  if (!text.empty()) HEADWORKS_TRY(rpc::CheckAddress(text));
  settings.rpc_listen = text;
  return {};
}

/// Here, by the executor `here`, or with workers.
Status ChooseExecutor(std::string& executor, std::string_view text, std::string_view here) {
  const std::string_view known[] = {here, "queue"};
  if (std::ranges::find(known, text) == std::end(known)) return UnknownName(text, known);
  executor = text;
  return {};
}

using R = RunnerOptions;
constexpr std::int64_t kMillion = 1'000'000;

constexpr Setting kSettings[] = {
    {"store", "path", "The database with all state: a path, sqlite:PATH, or memory: for none.",
     "$XDG_STATE_HOME/headworks/headworks.db, or else ~/.local/state/headworks/headworks.db",
     SetStore, [](const Settings& s) { return StoreName(s.runner); }},
    {"tenant", "name", "Whose runs are started and seen: 1 to 100 letters, digits, _ . and -.", "",
     SetTenant, GetText<&R::tenant>},
    {"format", "table|json|yaml", "How results are printed; also -o.", "",
     [](Settings& s, std::string_view t) { return Choose(s.output, t, kOutputs); },
     [](const Settings& s) { return Chosen(s.output, kOutputs); }},
    {"color", "auto|always|never",
     "Colours and the live view. auto = on a terminal, unless NO_COLOR is set.", "",
     [](Settings& s, std::string_view t) { return Choose(s.color, t, kColors); },
     [](const Settings& s) { return Chosen(s.color, kColors); }},
    {"log_level", "debug|info|warning|error", "What the engine reports on standard error.", "",
     [](Settings& s, std::string_view t) { return Choose(s.log_level, t, kLevels); },
     [](const Settings& s) { return Chosen(s.log_level, kLevels); }},
    {"log_format", "text|json", "How it reports.", "",
     [](Settings& s, std::string_view t) { return Choose(s.log_format, t, kLogFormats); },
     [](const Settings& s) { return Chosen(s.log_format, kLogFormats); }},
    {"metrics_listen", "host:port",
     "Where `headworks up` and `headworks worker` serve /metrics and /healthz; without a host on "
     "127.0.0.1. Empty = nowhere.",
     "", SetMetricsListen, [](const Settings& s) { return s.metrics_listen; }},
    {"rpc_listen", "host:port",
     "Where `headworks up` lets workers of other hosts connect; without a host on 127.0.0.1. Empty "
     "= "
     "nowhere.",
     "", SetRpcListen, [](const Settings& s) { return s.rpc_listen; }},
    {"rpc_tls_cert", "path", "Certificate that workers are shown (PEM). Empty = no encryption.", "",
     [](Settings& s, std::string_view t) {
       s.rpc_tls_cert = AbsolutePath(t);
       return Status();
     },
     [](const Settings& s) { return s.rpc_tls_cert; }},
    {"rpc_tls_key", "path", "Its key (PEM).", "",
     [](Settings& s, std::string_view t) {
       s.rpc_tls_key = AbsolutePath(t);
       return Status();
     },
     [](const Settings& s) { return s.rpc_tls_key; }},
    {"max_concurrent_tasks", "number",
     "Commands that run at once. 0 = twice the number of processors.", "",
     SetNumber<&R::max_concurrent_tasks, 0, 10'000>, GetNumber<&R::max_concurrent_tasks>},
    {"inline_threads", "number", "Threads for C++ functions. 0 = the number of processors.", "",
     SetNumber<&R::inline_threads, 0, 1'024>, GetNumber<&R::inline_threads>},
    {"inline_queue_depth", "number", "C++ functions handed out ahead of the threads.", "",
     SetNumber<&R::inline_queue_depth, 1, kMillion>, GetNumber<&R::inline_queue_depth>},
    {"dispatch_buffer_size", "number",
     "Attempts that may wait to be handed to each executor, where one answers slowly. 0 = none "
     "waits: the engine hands them over itself.",
     "", SetNumber<&R::dispatch_buffer_size, 0, kMillion>, GetNumber<&R::dispatch_buffer_size>},
    {"dispatch_workers", "number", "Threads that hand them to each executor, where they may wait.",
     "", SetNumber<&R::dispatch_workers, 1, 1'024>, GetNumber<&R::dispatch_workers>},
    {"dispatch_drain_timeout", "duration",
     "How long leaving waits for an executor to answer what is being handed over.", "",
     SetDuration<&R::dispatch_drain_timeout, 0>, GetDuration<&R::dispatch_drain_timeout>},
    {"task_timeout", "duration", "For tasks without a timeout of their own. 0s = none.", "",
     [](Settings& s, std::string_view t) { return ParseTime(t, 0, s.runner.defaults.timeout); },
     [](const Settings& s) { return ShowDuration(s.runner.defaults.timeout); }},
    {"task_start_timeout", "duration",
     "For tasks without a start_timeout of their own: then the executor of an attempt is asked "
     "why it has not started.",
     "",
     [](Settings& s, std::string_view t) {
       return ParseTime(t, 1, s.runner.defaults.start_timeout);
     },
     [](const Settings& s) { return ShowDuration(s.runner.defaults.start_timeout); }},
    {"task_retry", "name=value,...",
     "For tasks that do not say so themselves, field by field: max_attempts, backoff, initial, "
     "max, jitter, max_losses.",
     "max_attempts=1,backoff=exponential,initial=1s,max=5m,jitter=0.2,max_losses=6", SetRetry,
     GetRetry},
    {"task_resources", "name=value,...",
     "What tasks ask for that do not say so themselves: cpu, memory; within max_task_resources.",
     "",
     [](Settings& s, std::string_view t) { return SetResources(s.runner.defaults.resources, t); },
     [](const Settings& s) { return GetResources(s.runner.defaults.resources); }},
    {"max_task_resources", "name=value,...",
     "What a task may ask for, or it is refused: cpu, memory. What is not named has no limit.", "",
     [](Settings& s, std::string_view t) { return SetResources(s.runner.max_resources, t); },
     [](const Settings& s) { return GetResources(s.runner.max_resources); }},
    {"pending_timeout", "duration",
     "How long an attempt that has not started in time may stay pending with its executor, or "
     "unknown to it, before its task fails.",
     "", SetDuration<&R::pending_timeout, 0>, GetDuration<&R::pending_timeout>},
    {"command_executor", "process|queue",
     "Where commands run: here, or with workers that come for them.", "",
     [](Settings& s, std::string_view t) {
       return ChooseExecutor(s.runner.command_executor, t, "process");
     },
     GetText<&R::command_executor>},
    {"function_executor", "inline|queue", "The same for C++ functions.", "",
     [](Settings& s, std::string_view t) {
       return ChooseExecutor(s.runner.function_executor, t, "inline");
     },
     GetText<&R::function_executor>},
    {"worker_lease", "duration",
     "How long a worker may be silent before what it runs is lost, and runs again elsewhere.", "",
     SetDuration<&R::worker_lease, 100>, GetDuration<&R::worker_lease>},
    {"worker_heartbeat", "duration",
     "How often workers say that they live; at most a third of worker_lease.",
     "a quarter of worker_lease", SetDuration<&R::worker_heartbeat, 1>,
     GetDuration<&R::worker_heartbeat>},
    {"max_waiting_for_workers", "number",
     "Attempts that may wait for workers; those of one queue and set of labels take half of it at "
     "most, those of one tenant three quarters.",
     "", SetNumber<&R::max_waiting_for_workers, 2, kMillion>,
     GetNumber<&R::max_waiting_for_workers>},
    {"tenant_executors", "name=executor,...",
     "Tenants all of whose tasks go to another executor than those of the others.", "",
     SetTenantExecutors,
     [](const Settings& s) {
       std::vector<std::string> all;
       all.reserve(s.runner.tenant_executors.size());
       for (const auto& [tenant, key] : s.runner.tenant_executors)
         all.push_back(fmt::format("{}={}", tenant, key));
       return fmt::format("{}", fmt::join(all, ","));
     }},
    {"priority_ageing", "duration",
     "Waiting so long counts as much as one step of priority. 0s = nothing.", "",
     SetDuration<&R::priority_ageing, 0>, GetDuration<&R::priority_ageing>},
    {"tenant_weights", "name=number,...",
     "Ready tasks that a tenant may queue in its turn, 1 to 1000. Tenants not named: 1.", "",
     SetTenantWeights,
     [](const Settings& s) {
       std::vector<std::string> weights;
       weights.reserve(s.runner.tenant_weights.size());
       for (const auto& [tenant, weight] : s.runner.tenant_weights)
         weights.push_back(fmt::format("{}={}", tenant, weight));
       return fmt::format("{}", fmt::join(weights, ","));
     }},
    {"pools", "name=number,...",
     "Pools of the engine's own tenant, and the permits that each has, 0 to 1000000; tasks name "
     "them with `pool`. Others are declared by `headworks pool set`.",
     "", SetPools,
     [](const Settings& s) {
       std::vector<std::string> pools;
       pools.reserve(s.runner.pools.size());
       for (const auto& [pool, permits] : s.runner.pools)
         pools.push_back(fmt::format("{}={}", pool, permits));
       return fmt::format("{}", fmt::join(pools, ","));
     }},
    {"alert_command", "shell command",
     "What `headworks up` runs for each alert, which is its standard input: an item is dead, a "
     "task "
     "ended failed, a run is stuck. Empty = nothing.",
     "",
     [](Settings& s, std::string_view t) {
       s.runner.alert_command = t;
       return Status();
     },
     GetText<&R::alert_command>},
    {"alert_timeout", "duration", "After so long the alert command is ended, and has failed.", "",
     [](Settings& s, std::string_view t) -> Status {
       HEADWORKS_TRY(ParseTime(t, 100, s.runner.alert_timeout));
       return s.runner.alert_timeout <= std::chrono::hours(1) ? Status() : Bad(t, "at most 1h");
     },
     GetDuration<&R::alert_timeout>},
    {"alert_queue", "name",
     "Alerts become items of this durable queue of the tenant that they are about. Empty = none.",
     "",
     [](Settings& s, std::string_view t) -> Status {
       HEADWORKS_TRY(alert::CheckQueue(t));
       s.runner.alert_queue = t;
       return {};
     },
     GetText<&R::alert_queue>},
    {"drain_timeout", "duration",
     "How long leaving waits for running tasks before it stops them; they run again later.", "",
     SetDuration<&R::drain_timeout, 0>, GetDuration<&R::drain_timeout>},
    {"lease_ttl", "duration", "How long an engine owns its work without renewing.", "",
     SetDuration<&R::lease_ttl, 1'000>, GetDuration<&R::lease_ttl>},
    {"inbox_poll", "duration",
     "How often requests of other processes are looked for where they cannot ring.", "",
     SetDuration<&R::inbox_poll, 1>, GetDuration<&R::inbox_poll>},
    {"max_runs_in_memory", "number", "Runs that are active at once; the others wait in the store.",
     "", SetNumber<&R::max_runs_in_memory, 1, kMillion>, GetNumber<&R::max_runs_in_memory>},
    {"max_task_states_in_memory", "number", "Tasks of those runs, in sum.", "",
     SetNumber<&R::max_task_states_in_memory, 1, 100 * kMillion>,
     GetNumber<&R::max_task_states_in_memory>},
    {"max_log_bytes", "size", "Output kept per attempt; the rest is dropped with a note.", "",
     [](Settings& s, std::string_view t) -> Status {
       HEADWORKS_ASSIGN(s.runner.max_log_bytes, ParseBytes(t));
       return {};
     },
     [](const Settings& s) { return FormatBytes(s.runner.max_log_bytes); }},
    {"max_workflow_bytes", "size", "Larger workflow files are refused unread.", "",
     [](Settings& s, std::string_view t) -> Status {
       HEADWORKS_ASSIGN(s.max_workflow_bytes, ParseBytes(t));
       return {};
     },
     [](const Settings& s) { return FormatBytes(s.max_workflow_bytes); }},
    {"supervisor_path", "path", "The headworks-supervisor program.",
     "beside this program, or as installed", SetPath<&R::supervisor_path>,
     GetText<&R::supervisor_path>},
    {"scratch_dir", "path", "Folder for scratch files of runs.", "beside the store",
     SetPath<&R::scratch_dir>, GetText<&R::scratch_dir>},
    {"artifact_dir", "path", "Folder for artifacts of tasks.", "beside the store",
     SetPath<&R::artifact_dir>, GetText<&R::artifact_dir>},
    {"max_artifact_bytes", "size", "Of one artifact; a larger one fails its task.", "",
     [](Settings& s, std::string_view t) -> Status {
       HEADWORKS_ASSIGN(s.runner.max_artifact_bytes, ParseBytes(t));
       return {};
     },
     [](const Settings& s) { return FormatBytes(s.runner.max_artifact_bytes); }},
};

std::vector<std::string_view> Keys() {
  std::vector<std::string_view> keys;
  for (const Setting& setting : kSettings) keys.push_back(setting.key);
  return keys;
}

std::string DefaultFile(const SettingSources& sources) {
  const char* config = sources.environment("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return fmt::format("{}/headworks/config.yaml", config);
  const char* home = sources.environment("HOME");
  return home == nullptr ? std::string() : fmt::format("{}/.config/headworks/config.yaml", home);
}

struct FileValue {
  std::string text;
  std::string origin;
};
using FileValues = std::map<std::string, FileValue, std::less<>>;

Result<FileValues> ParseFile(const std::string& path) {
  FileValues values;
  const YAML::Node root = YAML::LoadFile(path);
  const auto at = [&](const YAML::Node& node) {
    return fmt::format("{}:{}", path, node.Mark().line + 1);
  };
  if (root.IsNull()) return values;
  if (!root.IsMap())
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: a configuration is a list of 'key: value' lines", path)};
  const auto keys = Keys();
  for (const auto& entry : root) {
    const auto key = entry.first.as<std::string>();
    if (std::ranges::find(keys, key) == keys.end())
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: unknown setting '{}'{}; `headworks config show` lists all",
                               at(entry.first), key, DidYouMean(key, keys))};
    if (!entry.second.IsScalar())
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: '{}' takes one value", at(entry.first), key)};
    if (!values.emplace(key, FileValue{entry.second.Scalar(), at(entry.first)}).second)
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: '{}' is set a second time", at(entry.first), key)};
  }
  return values;
}

Result<FileValues> ReadFile(const std::string& path) {
  try {
    return ParseFile(path);
  } catch (const YAML::BadFile&) {
    return Error{Code::kInvalidArgument,
                 fmt::format("cannot read the configuration {}: check the path", path)};
  } catch (const YAML::Exception& error) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}:{}: {}", path, error.mark.line + 1, error.msg)};
  }
}

/// What no setting can check alone.
Status CheckTogether(const LoadedSettings& loaded) {
  const auto named = [&](std::string_view key) {
    const Setting* const setting = std::ranges::find(kSettings, key, &Setting::key);
    return fmt::format("{} ({})", key,
                       loaded.origins[static_cast<std::size_t>(setting - kSettings)]);
  };
  if (loaded.settings.rpc_tls_cert.empty() != loaded.settings.rpc_tls_key.empty())
    return Error{Code::kInvalidArgument, fmt::format("{} and {} belong together: give both or none",
                                                     named("rpc_tls_cert"), named("rpc_tls_key"))};
  const RunnerOptions& runner = loaded.settings.runner;
  if (runner.worker_heartbeat > runner.worker_lease / 3)
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is {}, above a third of {}, {}; lower the one or raise the other",
                             named("worker_heartbeat"), FormatDuration(runner.worker_heartbeat),
                             named("worker_lease"), FormatDuration(runner.worker_lease / 3))};
  if (const auto why = model::Excess(runner.defaults.resources, runner.max_resources); !why.empty())
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is above {}: {}; lower the one or raise the other",
                             named("task_resources"), named("max_task_resources"), why)};
  return {};
}

/// Read elsewhere, or set for tasks (docs/workflow-files.md), in which this program may run, too:
/// not settings, but no mistakes either.
constexpr std::string_view kOtherVariables[] = {
    "HEADWORKS_CONFIG",    "HEADWORKS_WORKER_TOKEN", "HEADWORKS_INPUT",
    "HEADWORKS_OUTPUT",    "HEADWORKS_SCRATCH",      "HEADWORKS_RUN_ID",
    "HEADWORKS_TASK",      "HEADWORKS_EPOCH",        "HEADWORKS_TRY",
    "HEADWORKS_MAP_INDEX", "HEADWORKS_ATTEMPT",      "HEADWORKS_IDEMPOTENCY_KEY"};

/// A value that a script takes, by the number of its place: HEADWORKS_V1, ...
bool IsScriptValue(std::string_view name) {
  constexpr std::string_view kPrefix = "HEADWORKS_V";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

}  // namespace

std::string Setting::EnvironmentName() const {
  std::string name = "HEADWORKS_";
  for (const char c : key) name += c == '_' ? '_' : static_cast<char>(c - 'a' + 'A');
  return name;
}

std::string Setting::FlagName() const {
  std::string name = "--" + std::string(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::span<const Setting> AllSettings() { return kSettings; }

Result<LoadedSettings> LoadSettings(const SettingSources& sources) {
  LoadedSettings loaded;
  std::string file = sources.file;
  if (const char* named = sources.environment("HEADWORKS_CONFIG"); file.empty() && named != nullptr)
    file = named;
  if (file.empty()) {
    file = DefaultFile(sources);
    std::error_code ignored;  // a default file that cannot be seen counts as missing
    if (!std::filesystem::exists(file, ignored)) file.clear();
  }
  FileValues in_file;
  if (!file.empty()) {
    HEADWORKS_ASSIGN(in_file, ReadFile(file));
  }
  loaded.file = file;
  HEADWORKS_TRY(SetStore(loaded.settings, DefaultDatabaseUrl()));
  for (const Setting& setting : kSettings) {
    std::string origin = "default";
    std::optional<std::string> text;
    if (const auto found = in_file.find(setting.key); found != in_file.end()) {
      text = found->second.text;
      origin = found->second.origin;
    }
    const std::string variable = setting.EnvironmentName();
    if (const char* value = sources.environment(variable.c_str());
        value != nullptr && *value != '\0') {
      text = value;
      origin = variable;
    }
    if (const auto flag = sources.flags.find(setting.key); flag != sources.flags.end()) {
      text = flag->second;
      origin = setting.FlagName();
    }
    if (text)
      if (auto set = setting.set(loaded.settings, *text); !set)
        return Error{set.error().code, fmt::format("{}: {}", origin, set.error().message)};
    if (setting.key == "worker_heartbeat" && !text)
      loaded.settings.runner.worker_heartbeat = loaded.settings.runner.worker_lease / 4;
    loaded.origins.push_back(std::move(origin));
  }
  HEADWORKS_TRY(CheckTogether(loaded));
  return loaded;
}

std::vector<std::string> UnknownVariables(std::span<const std::string> variables) {
  std::set<std::string, std::less<>> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const Setting& setting : kSettings) known.insert(setting.EnvironmentName());
  std::vector<std::string> unknown;
  for (const std::string& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.starts_with("HEADWORKS_") && !known.contains(name) && !IsScriptValue(name))
      unknown.push_back(name);
  }
  return unknown;
}

std::string SettingsMarkdown() {
  std::string page =
      "# Configuration\n\n"
      "Every setting can be given on the command line, in the environment, or in a file of\n"
      "`key: value` lines; the first of these that names it wins. The file is `--config FILE`,\n"
      "`$HEADWORKS_CONFIG`, or `$XDG_CONFIG_HOME/headworks/config.yaml` (`~/.config` if unset),\n"
      "which may be missing. An unknown key is refused. `headworks config show` prints each\n"
      "value and where it came from; `headworks config docs` prints this page.\n\n"
      "| key | flag | environment | value | default | meaning |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  const Settings defaults;
  for (const Setting& setting : kSettings) {
    std::string type(setting.type);
    for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2)
      type.insert(at, "\\");
    const std::string value =
        setting.default_text.empty() ? setting.get(defaults) : std::string(setting.default_text);
    page += fmt::format("| `{}` | `{}` | `{}` | {} | {} | {} |\n", setting.key, setting.FlagName(),
                        setting.EnvironmentName(), type, value, setting.help);
  }
  return page;
}

std::string StoreName(const RunnerOptions& options) {
  const std::string_view url = options.database_url;
  return std::string(url.starts_with("sqlite:") ? url.substr(7) : url);
}

}  // namespace headworks::cli
