#include "settings.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "headworks/base/text.h"
#include "headworks/base/time.h"
#include "headworks/metrics_http/http_server.h"

namespace headworks::cli {
namespace {

Error Bad(std::string_view text, std::string_view expected) {
  return {Code::kInvalidArgument, fmt::format("'{}' is not {}", text, expected)};
}

Result<std::uint64_t> ParseNumber(std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size() || number < low || number > high)
    return Bad(text, fmt::format("a number from {} to {}", low, high));
  return number;
}

Result<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  std::uint64_t unit = 1;
  std::string_view digits = text;
  for (const auto& [suffix, bytes] : {std::pair{"KiB", std::uint64_t{1} << 10},
                                      {"MiB", std::uint64_t{1} << 20},
                                      {"GiB", std::uint64_t{1} << 30}}) {
    if (!digits.ends_with(suffix)) continue;
    unit = bytes;
    digits.remove_suffix(3);
    break;
  }
  const auto number = ParseNumber(digits, 1, kMost / unit);
  if (!number) return Bad(text, "a size from 1 byte to 1024 GiB, e.g. 64MiB");
  return *number * unit;
}

std::string FormatBytes(std::uint64_t bytes) {
  for (const auto& [suffix, shift] : {std::pair{"GiB", 30}, {"MiB", 20}, {"KiB", 10}})
    if (bytes >> shift != 0 && bytes % (std::uint64_t{1} << shift) == 0)
      return fmt::format("{}{}", bytes >> shift, suffix);
  return fmt::format("{}", bytes);
}

template <auto Member, std::uint64_t Low, std::uint64_t High>
Status SetNumber(Settings& settings, std::string_view text) {
  HEADWORKS_ASSIGN(const std::uint64_t number, ParseNumber(text, Low, High));
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
template <auto Member, std::int64_t LowMs>
Status SetDuration(Settings& settings, std::string_view text) {
  HEADWORKS_ASSIGN(const Duration duration, ParseDuration(text));
  if (duration < std::chrono::milliseconds(LowMs))
    return Bad(text, fmt::format("at least {}ms", LowMs));
  settings.runner.*Member = duration;
  return {};
}
template <auto Member>
std::string GetDuration(const Settings& settings) {
  return ShowDuration(settings.runner.*Member);
}

template <auto Member>
Status SetPath(Settings& settings, std::string_view text) {
  settings.runner.*Member =
      text.empty() ? std::string() : std::filesystem::absolute(text).lexically_normal().string();
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
  if (const auto colon = text.find("://"); colon != std::string_view::npos)
    return Bad(text, "a store that this program knows: give a path, sqlite:PATH or memory:");
  settings.runner.database_url =
      "sqlite:" + std::filesystem::absolute(text).lexically_normal().string();
  return {};
}

Status SetTenant(Settings& settings, std::string_view text) {
  if (text.empty()) return Bad(text, "a tenant");
  settings.runner.tenant = text;
  return {};
}

Status SetTenantWeights(Settings& settings, std::string_view text) {
  settings.runner.tenant_weights.clear();
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      return Bad(item, "a tenant and its weight, e.g. acme=3");
    HEADWORKS_ASSIGN(const auto weight, ParseNumber(item.substr(equals + 1), 1, kMaxTenantWeight));
    const std::string_view tenant = item.substr(0, equals);
    if (!settings.runner.tenant_weights.emplace(tenant, weight).second)
      return Bad(tenant, "named once only");
  }
  return {};
}

Status SetPools(Settings& settings, std::string_view text) {
  settings.runner.pools.clear();
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto equals = item.find('=');
    const std::string_view pool = item.substr(0, equals);
    if (equals == std::string_view::npos || !model::IsPoolName(pool))
      return Bad(item, "a pool and its permits, e.g. gpu=2");
    HEADWORKS_ASSIGN(const auto permits,
                     ParseNumber(item.substr(equals + 1), 0, store::LimitStore::kMaxLimit));
    if (!settings.runner.pools.emplace(pool, permits).second) return Bad(pool, "named once only");
  }
  return {};
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

using R = RunnerOptions;
constexpr std::uint64_t kMillion = 1'000'000;

constexpr Setting kSettings[] = {
    {"store", "path", "The database with all state: a path, sqlite:PATH, or memory: for none.",
     "$XDG_STATE_HOME/headworks/headworks.db, or else ~/.local/state/headworks/headworks.db",
     SetStore, [](const Settings& s) { return StoreName(s.runner); }},
    {"tenant", "name", "Whose runs are started and seen.", "", SetTenant, GetText<&R::tenant>},
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
     "Where `headworks up` serves /metrics and /healthz; without a host on 127.0.0.1. Empty = "
     "nowhere.",
     "", SetMetricsListen, [](const Settings& s) { return s.metrics_listen; }},
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
     SetDuration<&R::task_timeout, 0>, GetDuration<&R::task_timeout>},
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
     "Pools, and the permits that each has, 0 to 1000000; tasks name them with `pool`. Others are "
     "declared by `headworks pool set`.",
     "", SetPools,
     [](const Settings& s) {
       std::vector<std::string> pools;
       pools.reserve(s.runner.pools.size());
       for (const auto& [pool, permits] : s.runner.pools)
         pools.push_back(fmt::format("{}={}", pool, permits));
       return fmt::format("{}", fmt::join(pools, ","));
     }},
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

/// Set for the tasks, or read elsewhere: not settings, but no mistakes either.
constexpr std::string_view kOtherVariables[] = {
    "HEADWORKS_CONFIG", "HEADWORKS_INPUT",   "HEADWORKS_OUTPUT",         "HEADWORKS_EPOCH",
    "HEADWORKS_TRY",    "HEADWORKS_SCRATCH", "HEADWORKS_IDEMPOTENCY_KEY"};

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
    loaded.origins.push_back(std::move(origin));
  }
  return loaded;
}

std::vector<std::string> UnknownVariables(std::span<const std::string> variables) {
  std::set<std::string, std::less<>> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const Setting& setting : kSettings) known.insert(setting.EnvironmentName());
  std::vector<std::string> unknown;
  for (const std::string& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.starts_with("HEADWORKS_") && !known.contains(name)) unknown.push_back(name);
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
