#include "definition_json.h"

#include <fmt/format.h>

#include <array>

#include "records.h"

namespace headworks::cli {
namespace {

namespace json = boost::json;

/// Exactly, as a file says it: "1h30m", "1s500ms".
std::string Exactly(Duration duration) {
  using std::chrono::microseconds, std::chrono::milliseconds, std::chrono::seconds,
      std::chrono::minutes, std::chrono::hours, std::chrono::days;
  static constexpr std::array<std::pair<Duration, std::string_view>, 6> kUnits{
      {{days(1), "d"},
       {hours(1), "h"},
       {minutes(1), "m"},
       {seconds(1), "s"},
       {milliseconds(1), "ms"},
       {microseconds(1), "us"}}};
  std::string text;
  for (const auto& [unit, name] : kUnits) {
    if (duration / unit != 0) text += fmt::format("{}{}", duration / unit, name);
    duration %= unit;
  }
  return text.empty() ? "0s" : text;
}

json::array List(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

/// Adds only what there is.
void AddText(json::object& object, std::string_view key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}
void AddTime(json::object& object, std::string_view key, Duration duration) {
  if (duration > Duration(0)) object[key] = Exactly(duration);
}
void AddList(json::object& object, std::string_view key, const std::vector<std::string>& texts) {
  if (!texts.empty()) object[key] = List(texts);
}
void AddMap(json::object& object, std::string_view key,
            const std::map<std::string, std::string>& map) {
  if (map.empty()) return;
  json::object& values = object[key].emplace_object();
  for (const auto& [name, value] : map) values[name] = value;
}

json::value ParamJson(const model::Param& param) {
  if (param == model::Param::Plain(param.default_json)) return ParsedJson(param.default_json);
  json::object object{{"type", model::ParamTypeName(param.type)}};
  if (param.default_json != "null") object["default"] = ParsedJson(param.default_json);
  object["required"] = param.required;
  if (!param.allowed.empty()) {
    json::array& allowed = object["enum"].emplace_array();
    for (const std::string& value : param.allowed) allowed.push_back(ParsedJson(value));
  }
  if (param.min) object["min"] = *param.min;
  if (param.max) object["max"] = *param.max;
  AddText(object, "pattern", param.pattern);
  AddText(object, "description", param.description);
  return object;
}

json::object ConditionJson(const model::RetryCondition& condition) {
  json::object object;
  if (!condition.exit_codes.empty())
    object["exit_codes"] = json::array(condition.exit_codes.begin(), condition.exit_codes.end());
  AddText(object, "output_matches", condition.output_matches);
  return object;
}

json::object RetryJson(const model::RetryPolicy& retry) {
  static constexpr std::array<std::string_view, 3> kBackoffs{"fixed", "linear", "exponential"};
  json::object object{{"max_attempts", retry.max_attempts},
                      {"backoff", kBackoffs.at(static_cast<std::size_t>(retry.backoff))},
                      {"initial", Exactly(retry.initial)},
                      {"max", Exactly(retry.max)},
                      {"jitter", retry.jitter},
                      {"max_losses", retry.max_losses}};
  if (retry.when) object["when"] = ConditionJson(*retry.when);
  if (retry.unless) object["unless"] = ConditionJson(*retry.unless);
  return object;
}

void AddAction(json::object& object, const model::Action& action) {
  if (const auto* shell = std::get_if<model::ShellAction>(&action)) {
    object["run"] = shell->script;
    if (!shell->shell.empty()) object["shell"] = List(shell->shell);
  } else if (const auto* exec = std::get_if<model::ExecAction>(&action)) {
    object["exec"] = List(exec->argv);
  } else {
    object["function"] = std::get<model::FunctionAction>(action).function;
  }
}

void AddOutput(json::object& object, const model::OutputSpec& output) {
  if (output == model::OutputSpec{}) return;
  const std::string mode(model::OutputModeName(output.mode));
  if (output.type_json.empty())
    object["output"] = mode;
  else
    object["output"] = {{"from", mode}, {"type", ParsedJson(output.type_json)}};
}

json::object EffectiveTask(const model::Task& task) {
  json::object object;
  AddText(object, "description", task.description);
  if (!task.matrix.empty()) object["matrix"] = ParsedJson(task.matrix);
  AddList(object, "needs", task.needs);
  object["trigger_rule"] = model::TriggerRuleName(task.trigger_rule);
  AddList(object, "when", task.when);
  AddAction(object, task.action);
  AddText(object, "cwd", task.cwd);
  AddMap(object, "env", task.env);
  AddList(object, "env_file", task.env_file);
  AddList(object, "inherit_env", task.inherit_env);
  AddOutput(object, task.output);
  object["retry"] = RetryJson(task.retry);
  AddTime(object, "timeout", task.timeout);
  AddTime(object, "deadline", task.deadline);
  object["grace"] = Exactly(task.grace);
  object["priority"] = task.priority;
  object["allow_failure"] = task.allow_failure;
  AddText(object, "idempotency_key", task.idempotency_key);
  AddMap(object, "labels", task.labels);
  return object;
}

}  // namespace

json::object DefinitionJson(const model::Workflow& workflow) {
  const model::WorkflowDefinition& definition = workflow.definition();
  json::object object{{"version", 1}, {"name", definition.name.workflow}};
  AddText(object, "description", definition.description);
  AddList(object, "tags", definition.tags);
  if (!definition.params.empty()) {
    json::object& params = object["params"].emplace_object();
    for (const auto& [name, param] : definition.params) params[name] = ParamJson(param);
  }
  AddMap(object, "env", definition.env);
  AddTime(object, "timeout", definition.timeout);
  if (definition.max_parallel > 0) object["max_parallel"] = definition.max_parallel;
  if (definition.max_active_runs > 0) object["max_active_runs"] = definition.max_active_runs;
  object["on_failure"] =
      definition.on_failure == model::OnFailure::kFinish ? "finish" : "cancel_rest";
  static constexpr std::array<std::pair<model::TaskRole, std::string_view>, 3> kSections{
      {{model::TaskRole::kMain, "tasks"},
       {model::TaskRole::kOnCancel, "on_cancel"},
       {model::TaskRole::kFinally, "finally"}}};
  for (const auto& [role, key] : kSections) {
    const auto [first, end] = workflow.range(role);
    if (first == end) continue;
    json::object& tasks = object[key].emplace_object();
    for (TaskNo no = first; no != end; ++no.value)
      tasks[workflow.task(no).id] = EffectiveTask(workflow.task(no));
  }
  object["finally_timeout"] = Exactly(definition.finally_timeout);
  return object;
}

}  // namespace headworks::cli
