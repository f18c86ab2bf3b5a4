#include "headworks/spec/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <map>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "matrix.h"

namespace headworks::spec {
namespace {

namespace json = boost::json;

json::array List(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

/// Adds only what there is.
void AddText(json::object& object, std::string_view key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}
void AddTime(json::object& object, std::string_view key, Duration duration) {
  if (duration > Duration(0)) object[key] = FormatExactly(duration);
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
  if (param == model::Param::Plain(param.default_json)) return json::parse(param.default_json);
  json::object object{{"type", model::ParamTypeName(param.type)}};
  if (param.default_json != "null") object["default"] = json::parse(param.default_json);
  object["required"] = param.required;
  if (!param.allowed.empty()) {
    json::array& allowed = object["enum"].emplace_array();
    for (const std::string& value : param.allowed) allowed.push_back(json::parse(value));
  }
  if (param.min) object["min"] = *param.min;
  if (param.max) object["max"] = *param.max;
  AddText(object, "pattern", param.pattern);
  AddText(object, "description", param.description);
  return object;
}

json::object ConcurrencyJson(const model::Concurrency& concurrency) {
  static constexpr std::array<std::string_view, 3> kNames{"queue", "skip", "cancel_previous"};
  json::object object;
  AddText(object, "key", concurrency.key);
  if (concurrency.limit > 0) object["limit"] = concurrency.limit;
  object["on_conflict"] = kNames.at(static_cast<std::size_t>(concurrency.on_conflict));
  if (concurrency.rate > 0)
    object["rate"] = {{"limit", concurrency.rate}, {"per", FormatExactly(concurrency.rate_per)}};
  return object;
}

json::object ConditionJson(const model::RetryCondition& condition) {
  json::object object;
  if (!condition.exit_codes.empty())
    object["exit_codes"] = json::array(condition.exit_codes.begin(), condition.exit_codes.end());
  AddText(object, "output_matches", condition.output_matches);
  return object;
}

/// What is said of it; `effective`: all of it.
json::object RetryJson(const model::Task& task, bool effective) {
  using model::Gap;
  static constexpr std::array<std::string_view, 3> kBackoffs{"fixed", "linear", "exponential"};
  const model::RetryPolicy& retry = task.retry;
  json::object object;
  const auto add = [&](std::string_view key, Gap gap, const auto& value) {
    if (effective || task.Says(gap)) object[key] = value;
  };
  add("max_attempts", Gap::kMaxAttempts, retry.max_attempts);
  add("backoff", Gap::kBackoff, kBackoffs.at(static_cast<std::size_t>(retry.backoff)));
  add("initial", Gap::kInitial, FormatExactly(retry.initial));
  add("max", Gap::kMax, FormatExactly(retry.max));
  add("jitter", Gap::kJitter, retry.jitter);
  add("max_losses", Gap::kMaxLosses, retry.max_losses);
  if (retry.when) object["when"] = ConditionJson(*retry.when);
  if (retry.unless) object["unless"] = ConditionJson(*retry.unless);
  return object;
}

void AddResources(json::object& object, const model::Resources& resources) {
  if (resources == model::Resources{}) return;
  json::object& asked = object["resources"].emplace_object();
  if (resources.cpu > 0) asked["cpu"] = resources.cpu;
  if (resources.memory > 0) asked["memory"] = FormatBytes(resources.memory);
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
  if (output.type_json.empty()) {
    object["output"] = mode;
    return;
  }
  json::object taken{{"type", json::parse(output.type_json)}};
  if (output.mode != model::OutputSpec{}.mode) taken["from"] = mode;
  object["output"] = std::move(taken);
}

/// Turns the instances of a matrix back into what makes them, in their order.
class MatrixWriter {
 public:
  MatrixWriter(const model::Workflow& workflow, const std::vector<TaskNo>& instances)
      : axes_(workflow.task(instances.front()).axes) {
    combinations_.reserve(instances.size());
    for (const TaskNo no : instances) {
      const model::Task& task = workflow.task(no);
      json::object values = json::parse(task.matrix).as_object();
      json::object& combination = combinations_.emplace_back();
      for (const std::string& axis : task.axes) combination[axis] = std::move(values.at(axis));
      for (const auto& member : values) combination.insert(member);
      alike_ &= task.axes == axes_ && !task.axes.empty();
    }
    for (const char* word : {"include", "exclude"})
      alike_ &= std::ranges::find(axes_, word) == axes_.end();
  }

  json::object Write() && {
    json::object matrix;
    // Entries that are told apart by different names can only come from `include`.
    if (!alike_) {
      matrix["include"] = json::array(combinations_.begin(), combinations_.end());
      return matrix;
    }
    if (WriteProduct(matrix)) return matrix;
    // One by one: the lists make the first, all others are further ones.
    for (const std::string& axis : axes_)
      matrix[axis] = json::array{combinations_.front().at(axis)};
    json::array& include = matrix["include"].emplace_array();
    for (const json::object& combination : combinations_)
      if (&combination != &combinations_.front() || HasExtras(combination))
        include.emplace_back(combination);
    return matrix;
  }

 private:
  bool HasExtras(const json::object& combination) const {
    return combination.size() > axes_.size();
  }
  bool IsAt(const json::object& combination, const std::vector<json::array>& lists,
            std::size_t product_index) const {
    for (std::size_t a = axes_.size(); a-- > 0; product_index /= lists[a].size())
      if (combination.at(axes_[a]) != lists[a][product_index % lists[a].size()]) return false;
    return true;
  }
  json::object ProductAt(const std::vector<json::array>& lists, std::size_t index) const {
    json::object combination;
    for (const std::string& axis : axes_) combination[axis] = nullptr;
    for (std::size_t a = axes_.size(); a-- > 0; index /= lists[a].size())
      combination[axes_[a]] = lists[a][index % lists[a].size()];
    return combination;
  }

  /// The lists whose combinations these are, in this order, but for some that are excluded; false
  /// if there are none, or more would be excluded than stay.
  bool WriteProduct(json::object& matrix) const {
    std::vector<json::array> lists(axes_.size());
    std::size_t size = 1;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      for (const json::object& combination : combinations_)
        if (std::ranges::find(lists[a], combination.at(axes_[a])) == lists[a].end())
          lists[a].push_back(combination.at(axes_[a]));
      size *= lists[a].size();
      if (size > kMaxInstances) return false;
    }
    json::array excluded;
    std::size_t next = 0;
    for (std::size_t i = 0; i < size; ++i) {
      if (next < combinations_.size() && IsAt(combinations_[next], lists, i))
        ++next;
      else
        excluded.emplace_back(ProductAt(lists, i));
    }
    if (next < combinations_.size() || excluded.size() > combinations_.size()) return false;
    for (std::size_t a = 0; a < axes_.size(); ++a) matrix[axes_[a]] = std::move(lists[a]);
    if (!excluded.empty()) matrix["exclude"] = std::move(excluded);
    json::array extended;
    for (const json::object& combination : combinations_)
      if (HasExtras(combination)) extended.emplace_back(combination);
    if (!extended.empty()) matrix["include"] = std::move(extended);
    return true;
  }

  const std::vector<std::string>& axes_;
  std::vector<json::object> combinations_;  // the names of axes first
  bool alike_ = true;                       // all are told apart by the same names
};

/// A need of instances is written as one of their matrix.
json::array NeedsJson(const model::Workflow& workflow, const model::Task& task) {
  json::array needs;
  for (const std::string& need : task.needs) {
    const auto up = workflow.Find(need);
    const std::string& group = up ? workflow.task(*up).group : need;
    const json::string name(group.empty() ? need : group);
    if (group.empty() || needs.empty() || needs.back() != name) needs.emplace_back(name);
  }
  return needs;
}

/// `instances`: the task, or all of its matrix.
json::object TaskJson(const model::Workflow& workflow, const std::vector<TaskNo>& instances,
                      bool effective) {
  const model::Task& task = workflow.task(instances.front());
  json::object object;
  AddText(object, "description", task.description);
  if (!task.matrix.empty()) object["matrix"] = MatrixWriter(workflow, instances).Write();
  if (!task.needs.empty()) object["needs"] = NeedsJson(workflow, task);
  object["trigger_rule"] = model::TriggerRuleName(task.trigger_rule);
  AddList(object, "when", task.when);
  AddAction(object, task.action);
  AddText(object, "cwd", task.cwd);
  AddMap(object, "env", task.env);
  AddList(object, "env_file", task.env_file);
  AddList(object, "inherit_env", task.inherit_env);
  AddOutput(object, task.output);
  AddMap(object, "artifacts", task.artifacts);
  if (json::object retry = RetryJson(task, effective); !retry.empty())
    object["retry"] = std::move(retry);
  if (effective || task.Says(model::Gap::kTimeout)) object["timeout"] = FormatExactly(task.timeout);
  AddTime(object, "start_timeout", task.start_timeout);
  AddResources(object, task.resources);
  AddTime(object, "deadline", task.deadline);
  object["grace"] = FormatExactly(task.grace);
  object["priority"] = task.priority;
  AddText(object, "pool", task.pool);
  if (!task.pool.empty()) object["weight"] = task.weight;
  AddText(object, "queue", task.queue);
  AddList(object, "requires", task.required);
  object["allow_failure"] = task.allow_failure;
  AddText(object, "idempotency_key", task.idempotency_key);
  AddMap(object, "labels", task.labels);
  return object;
}

}  // namespace

json::object DefinitionJson(const model::Workflow& workflow, Detail detail) {
  const bool effective = detail == Detail::kEffective;
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
  if (const auto& concurrency = definition.concurrency)
    object["concurrency"] = ConcurrencyJson(*concurrency);
  object["on_failure"] =
      definition.on_failure == model::OnFailure::kFinish ? "finish" : "cancel_rest";
  static constexpr std::array<std::pair<model::TaskRole, std::string_view>, 3> kSections{
      {{model::TaskRole::kMain, "tasks"},
       {model::TaskRole::kOnCancel, "on_cancel"},
       {model::TaskRole::kFinally, "finally"}}};
  for (const auto& [role, key] : kSections) {
    const auto [first, end] = workflow.range(role);
    if (first == end) continue;
    std::map<std::string_view, std::vector<TaskNo>> instances;
    for (TaskNo no = first; no != end; ++no.value)
      if (!workflow.task(no).group.empty()) instances[workflow.task(no).group].push_back(no);
    json::object& tasks = object[key].emplace_object();
    for (TaskNo no = first; no != end; ++no.value) {
      const model::Task& task = workflow.task(no);
      if (task.group.empty())
        tasks[task.id] = TaskJson(workflow, {no}, effective);
      else if (instances.at(task.group).front() == no)
        tasks[task.group] = TaskJson(workflow, instances.at(task.group), effective);
    }
  }
  object["finally_timeout"] = FormatExactly(definition.finally_timeout);
  return object;
}

}  // namespace headworks::spec
