#include "environment.h"

#include <unistd.h>

#include <string_view>

#include "env_file.h"

extern char** environ;

namespace headworks::executor_process {

bool IsSecret(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return name.starts_with("HEADWORKS_") && name.ends_with("_TOKEN");
}

Environment OwnEnvironment() {
  Environment own;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0 && !IsSecret(text)) {
      own.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return own;
}

Result<Environment> TaskEnvironment(const executor::Attempt& attempt,
                                    const executor::Rendered& texts, const AttemptFiles& files,
                                    const Environment& own) {
  const model::Task& task = attempt.task();
  Environment env;
  const auto inherit = [&](const std::string& name) {
    if (const auto it = own.find(name); it != own.end()) env[name] = it->second;
  };
  for (const char* name : {"PATH", "HOME", "LANG", "TZ"}) inherit(name);
  for (const std::string& name : task.inherit_env) inherit(name);
  for (const auto& [name, value] : texts.workflow_env) env[name] = value;
  for (const std::string& file : texts.env_file) HEADWORKS_TRY(ReadEnvFile(file, env));
  for (const auto& [name, value] : texts.env) env[name] = value;
  for (const auto& [name, value] : texts.bound) env[name] = value;
  env["HEADWORKS_INPUT"] = files.input;
  env.erase("HEADWORKS_OUTPUT");
  if (task.output.mode == model::OutputMode::kFile) env["HEADWORKS_OUTPUT"] = files.output;
  env["HEADWORKS_SCRATCH"] = files.scratch;
  env["HEADWORKS_RUN_ID"] = attempt.run_id.value;
  env["HEADWORKS_TASK"] = task.id;
  env["HEADWORKS_EPOCH"] = std::to_string(attempt.key.epoch.value);
  env["HEADWORKS_TRY"] = std::to_string(attempt.try_no);
  env["HEADWORKS_IDEMPOTENCY_KEY"] =
      texts.idempotency_key.empty() ? attempt.IdempotencyKey() : texts.idempotency_key;
  if (attempt.key.map_index >= 0) {
    env["HEADWORKS_MAP_INDEX"] = std::to_string(attempt.key.map_index);
  }
  // Names every process of the attempt to those who clean up: only the supervisor client sets it.
  env.erase("HEADWORKS_ATTEMPT");
  return env;
}

std::vector<std::string> ToStrings(const Environment& environment) {
  std::vector<std::string> strings;
  strings.reserve(environment.size() + 1);
  for (const auto& [name, value] : environment) strings.push_back(name + '=' + value);
  return strings;
}

}  // namespace headworks::executor_process
