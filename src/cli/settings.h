#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/runner/runner.h"
#include "headworks/spec/workflow_file.h"

namespace headworks::cli {

enum class OutputFormat : unsigned char { kTable, kJson, kYaml };
enum class ColorMode : unsigned char { kAuto, kAlways, kNever };

/// Everything that can be configured, for one invocation.
struct Settings {
  RunnerOptions runner;
  OutputFormat output = OutputFormat::kTable;
  ColorMode color = ColorMode::kAuto;
  LogLevel log_level = LogLevel::kWarning;
  /// Where `up` is watched; empty = nowhere.
  std::string metrics_listen;
  /// Where workers connect to `up`; empty = nowhere.
  std::string rpc_listen;
  /// PEM files; empty = unencrypted.
  std::string rpc_tls_cert, rpc_tls_key;
  StderrLogger::Format log_format = StderrLogger::Format::kText;
  std::size_t max_workflow_bytes = spec::kMaxFileBytes;
};

/// One row of the table from which file, environment and flags are read, and `config show` and the
/// documentation are made.
struct Setting {
  /// In the file.  The environment variable is HEADWORKS_KEY, the flag --key with dashes.
  std::string_view key;
  /// What a value looks like: "number", "duration", "path", "table|json|yaml".
  std::string_view type;
  std::string_view help;
  /// How the default reads in the documentation; empty = as `get` shows it.
  std::string_view default_text;
  Status (*set)(Settings& settings, std::string_view text);
  std::string (*get)(const Settings& settings);

  std::string EnvironmentName() const;
  std::string FlagName() const;
};

std::span<const Setting> AllSettings();

/// Settings and where each came from.
struct LoadedSettings {
  Settings settings;
  /// In the order of AllSettings(): "default", "FILE:LINE", "HEADWORKS_X", "--x".
  std::vector<std::string> origins;
  /// The file that was read; empty = none.
  std::string file;
};

struct SettingSources {
  /// Value by key, from the command line.
  std::map<std::string, std::string, std::less<>> flags;
  /// Empty = $HEADWORKS_CONFIG, or else the default file, which may be missing.
  std::string file;
  /// Value of an environment variable; nullptr = unset.
  std::function<const char*(const char* name)> environment;
};

/// Flags over environment over file over defaults.  kInvalidArgument names the source of a bad
/// value, and an unknown key with the nearest known one.
Result<LoadedSettings> LoadSettings(const SettingSources& sources);

/// Names among `variables` ("NAME=value") that start with HEADWORKS_ and mean nothing.
std::vector<std::string> UnknownVariables(std::span<const std::string> variables);

/// The reference page, as Markdown.
std::string SettingsMarkdown();

/// `store` as people name it: without "sqlite:".
std::string StoreName(const RunnerOptions& options);

}  // namespace headworks::cli
