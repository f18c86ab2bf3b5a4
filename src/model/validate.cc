#include "validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <set>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/model/artifact.h"
#include "headworks/model/resources.h"

namespace headworks::model {
namespace {

constexpr Duration kLongest = std::chrono::hours(24 * 3653);  // as ParseDuration

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// `[A-Za-z0-9_.-]{1,100}`
bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '_' || c == '.' || c == '-';
  });
}

/// `[A-Za-z_][A-Za-z0-9_]*`, with `dash` also `-` after the first, at most 100 bytes.
bool IsIdentifier(std::string_view text, bool dash) {
  return !text.empty() && text.size() <= 100 && !IsDigit(text[0]) && text[0] != '-' &&
         std::ranges::all_of(text, [&](char c) {
           return IsLetter(c) || IsDigit(c) || c == '_' || (dash && c == '-');
         });
}

std::string Join(std::string_view at, std::string_view key) {
  return at.empty() ? std::string(key) : fmt::format("{}.{}", at, key);
}

/// As a file says it; only programs can say less than nothing.
std::string Written(Duration duration) {
  return duration < Duration(0) ? "a negative time" : FormatExactly(duration);
}

class FieldChecker {
 public:
  FieldChecker(const WorkflowDefinition& definition, FaultList& faults)
      : definition_(definition), faults_(faults) {}

  void CheckWorkflow();
  void CheckTask(const Task& task);

 private:
  // A field is `at` and `key` joined, and only when it has a fault: most have none.
  void Range(std::string_view at, std::string_view key, std::int64_t value, std::int64_t least,
             std::int64_t most);
  void Range(std::string_view at, std::string_view key, Duration value, Duration least);
  void Text(std::string_view at, std::string_view key, std::string_view text);
  void Texts(std::string_view at, std::string_view key, const std::vector<std::string>& texts);
  void Environment(std::string_view at, const std::map<std::string, std::string>& env);
  void Params();
  void CheckConcurrency(const Concurrency& concurrency);
  void CheckAction(const std::string& at, const Action& action);
  void CheckRetry(const std::string& at, const RetryPolicy& retry);
  void CheckCondition(const std::string& at, const std::optional<RetryCondition>& condition);
  void CheckId(const std::string& at, const Task& task);
  void CheckPool(const std::string& at, const Task& task);
  void CheckQueue(const std::string& at, const Task& task);
  void CheckArtifacts(const std::string& at, const Task& task);

  const WorkflowDefinition& definition_;
  FaultList& faults_;
};

void FieldChecker::Range(std::string_view at, std::string_view key, std::int64_t value,
                         std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    faults_.Add("HW1111", Join(at, key),
                fmt::format("{} is out of range: it must be {} to {}", value, least, most));
}

void FieldChecker::Range(std::string_view at, std::string_view key, Duration value,
                         Duration least) {
  if (value < least || value > kLongest)
    faults_.Add("HW1111", Join(at, key),
                fmt::format("{} is out of range: it must be {} 10 years", Written(value),
                            least > Duration(0) ? "more than 0s, and at most" : "0s to"));
}

void FieldChecker::Text(std::string_view at, std::string_view key, std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    faults_.Add("HW1114", Join(at, key),
                "contains a NUL character, which no command line or environment can carry; "
                "remove it");
  else if (const std::size_t valid = ValidUtf8Prefix(text); valid != text.size())
    faults_.Add("HW1114", Join(at, key), fmt::format("is not valid UTF-8 from byte {} on", valid));
}

void FieldChecker::Texts(std::string_view at, std::string_view key,
                         const std::vector<std::string>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) Text(at, fmt::format("{}[{}]", key, i), texts[i]);
}

void FieldChecker::Environment(std::string_view at, const std::map<std::string, std::string>& env) {
  for (const auto& [name, value] : env) {
    if (!IsIdentifier(name, false))
      faults_.Add("HW1112", Join(at, name),
                  fmt::format("{} cannot name an environment variable; use letters, digits and _, "
                              "no digit first, at most 100",
                              QuoteJson(name)));
    Text(at, name, value);
  }
}

void FieldChecker::Params() {
  for (const auto& [name, param] : definition_.params) {
    if (!IsIdentifier(name, false))
      faults_.Add("HW1113", "params." + name,
                  fmt::format("{} cannot name a parameter; use letters, digits and _, no digit "
                              "first, at most 100",
                              QuoteJson(name)));
    const std::string at = "params." + name;
    if (const auto parsed = ParseJson(param.default_json, {}); !parsed)
      faults_.Add("HW1113", at, "the default value is " + parsed.error().message);
    for (std::size_t i = 0; i < param.allowed.size(); ++i)
      if (const auto parsed = ParseJson(param.allowed[i], {}); !parsed)
        faults_.Add("HW1113", fmt::format("{}.enum[{}]", at, i), parsed.error().message);
    if (param.min.value_or(0) > param.max.value_or(std::max(param.min.value_or(0), 0.0)))
      faults_.Add("HW1111", at + ".min",
                  fmt::format("{} is above max, {}; no value fits", *param.min, *param.max));
    Text(at, "description", param.description);
    Text(at, "pattern", param.pattern);
  }
}

void FieldChecker::CheckConcurrency(const Concurrency& concurrency) {
  constexpr std::string_view kAt = "concurrency";
  Text(kAt, "key", concurrency.key);
  // Zero is none of them here; a file cannot say so.
  if (concurrency.limit != 0) Range(kAt, "limit", concurrency.limit, 1, 1'000'000);
  if (concurrency.rate != 0) Range("concurrency.rate", "limit", concurrency.rate, 1, 10'000);
  if (concurrency.rate > 0) Range("concurrency.rate", "per", concurrency.rate_per, Duration(1));
  if (concurrency.limit == 0 && concurrency.rate == 0)
    faults_.Add("HW1120", std::string(kAt), "limits nothing; give it a limit or a rate");
  else if (concurrency.limit == 0 && concurrency.on_conflict == OnConflict::kCancelPrevious)
    faults_.Add(
        "HW1120", Join(kAt, "on_conflict"),
        "cancel_previous does nothing with a rate alone: what has started counts, cancelled "
        "or not; give it a limit, or say queue or skip");
}

void FieldChecker::CheckWorkflow() {
  const WorkflowDefinition& d = definition_;
  const auto name = [&](std::string_view field, std::string_view value) {
    if (!IsName(value))
      faults_.Add("HW1101", std::string(field),
                  fmt::format("{} is not a name; use 1 to 100 letters, digits, _ . and -",
                              QuoteJson(value)));
  };
  name("name", d.name.workflow);
  name("tenant", d.name.tenant);
  name("package", d.name.package);
  Text("", "description", d.description);
  Text("", "base_dir", d.base_dir);
  if (!d.base_dir.empty() && d.base_dir.front() != '/')
    faults_.Add("HW1115", "base_dir",
                fmt::format("{} is relative; give an absolute path, because runs outlive the "
                            "folder they were started in",
                            QuoteJson(d.base_dir)));
  Params();
  Environment("env", d.env);
  Range("", "timeout", d.timeout, Duration(0));
  Range("", "finally_timeout", d.finally_timeout, Duration(1));
  Range("", "cancel_timeout", d.cancel_timeout, Duration(1));
  Range("", "max_parallel", d.max_parallel, 0, Workflow::kMaxTasks);
  Range("", "max_active_runs", d.max_active_runs, 0, 1'000'000);
  if (d.concurrency) CheckConcurrency(*d.concurrency);
  Texts("", "tags", d.tags);
}

void FieldChecker::CheckAction(const std::string& at, const Action& action) {
  if (const auto* shell = std::get_if<ShellAction>(&action)) {
    if (shell->script.find_first_not_of(" \t\r\n") == std::string::npos)
      faults_.Add("HW1110", at + ".run", "the script is empty; write the commands to run");
    Text(at, "run", shell->script);
    Texts(at, "shell", shell->shell);
  } else if (const auto* exec = std::get_if<ExecAction>(&action)) {
    if (exec->argv.empty() || exec->argv.front().empty())
      faults_.Add("HW1110", at + ".exec",
                  "the program is missing; write a list: the program, then its arguments");
    Texts(at, "exec", exec->argv);
  } else {
    const std::string& function = std::get<FunctionAction>(action).function;
    if (function.empty())
      faults_.Add("HW1110", at + ".function",
                  "the function's name is empty; write the name it is registered under");
    Text(at, "function", function);
  }
}

void FieldChecker::CheckRetry(const std::string& at, const RetryPolicy& retry) {
  Range(at, "max_attempts", retry.max_attempts, 1, 1'000);
  Range(at, "max_losses", retry.max_losses, 1, 1'000);
  Range(at, "initial", retry.initial, Duration(0));
  Range(at, "max", retry.max, Duration(0));
  if (retry.initial > retry.max && retry.max >= Duration(0))
    faults_.Add("HW1111", at + ".initial",
                fmt::format("{} is above retry.max, {}; lower it or raise max",
                            Written(retry.initial), Written(retry.max)));
  CheckCondition(at + ".when", retry.when);
  CheckCondition(at + ".unless", retry.unless);
  if (!(retry.jitter >= 0 && retry.jitter <= 1))  // so that NaN is refused too
    faults_.Add("HW1111", at + ".jitter",
                fmt::format("{} is out of range: it must be 0 to 1", retry.jitter));
}

void FieldChecker::CheckCondition(const std::string& at,
                                  const std::optional<RetryCondition>& condition) {
  if (!condition) return;
  for (std::size_t i = 0; i < condition->exit_codes.size(); ++i)
    Range(at, fmt::format("exit_codes[{}]", i), condition->exit_codes[i], 0, 255);
  Text(at, "output_matches", condition->output_matches);
  if (*condition == RetryCondition{})
    faults_.Add("HW1110", at, "says nothing; give it exit_codes or output_matches, or remove it");
}

void FieldChecker::CheckId(const std::string& at, const Task& task) {
  const std::string& id = task.id;
  if (task.matrix.empty() ? !IsIdentifier(id, true) : !IsIdentifier(task.group, true))
    faults_.Add("HW1103", at,
                fmt::format("{} is not a task id; use letters, digits, _ and -, no digit or - "
                            "first, at most 100",
                            QuoteJson(task.matrix.empty() ? id : task.group)));
  if (task.matrix.empty()) return;
  const bool printable = std::ranges::none_of(id, [](char c) { return c >= 0 && c < ' '; });
  if (!id.starts_with(task.group + "[") || !id.ends_with(']') || id.size() > 250 || !printable)
    faults_.Add("HW1103", at,
                fmt::format("{} cannot name an instance; shorten the values of the matrix, and use "
                            "no control characters",
                            QuoteJson(id)));
  Text(at, "id", id);
  const auto combination = ParseJsonObject(task.matrix, "the combination", {});
  if (!combination) return faults_.Add("HW1113", at + ".matrix", combination.error().message);
  for (const std::string& axis : task.axes)
    if (!combination->contains(axis))
      faults_.Add("HW1113", at + ".matrix",
                  fmt::format("the combination has no value for {}", QuoteJson(axis)));
}

void FieldChecker::CheckTask(const Task& task) {
  const std::string at = TaskField(task);
  CheckId(at, task);
  CheckAction(at, task.action);
  CheckRetry(at + ".retry", task.retry);
  Environment(at + ".env", task.env);
  for (std::size_t i = 0; i < task.inherit_env.size(); ++i)
    if (!IsIdentifier(task.inherit_env[i], false))
      faults_.Add("HW1112", fmt::format("{}.inherit_env[{}]", at, i),
                  fmt::format("{} cannot name an environment variable; use letters, digits and _, "
                              "no digit first, at most 100",
                              QuoteJson(task.inherit_env[i])));
  Text(at, "cwd", task.cwd);
  Texts(at, "env_file", task.env_file);
  Texts(at, "when", task.when);
  Text(at, "idempotency_key", task.idempotency_key);
  Text(at, "description", task.description);
  for (const auto& [name, value] : task.labels) {
    Text(at + ".labels", QuoteJson(name), name);
    Text(at + ".labels", name, value);
  }
  if (!task.output.type_json.empty())
    if (const auto type = ParseJson(task.output.type_json, {}); !type)
      faults_.Add("HW1113", at + ".output.type", type.error().message);
  Range(at, "timeout", task.timeout, Duration(0));
  Range(at, "start_timeout", task.start_timeout, Duration(0));
  Range(at, "deadline", task.deadline, Duration(0));
  Range(at, "grace", task.grace, Duration(0));
  Range(at, "priority", task.priority, -1'000, 1'000);
  CheckPool(at, task);
  CheckQueue(at, task);
  CheckArtifacts(at, task);
  for (auto& [field, message] : CheckResources(task.resources))
    faults_.Add("HW1111", fmt::format("{}.resources.{}", at, field), std::move(message));
}

void FieldChecker::CheckPool(const std::string& at, const Task& task) {
  if (!task.pool.empty() && !IsPoolName(task.pool))
    faults_.Add("HW1117", at + ".pool",
                fmt::format("{} cannot name a pool; use letters, digits, _ and -, at most 64",
                            QuoteJson(task.pool)));
  Range(at, "weight", task.weight, 1, 1'000'000);
  if (task.pool.empty() && task.weight != Task{}.weight)
    faults_.Add("HW1117", at + ".weight",
                "says nothing without a pool; name the pool, or remove it");
}

void FieldChecker::CheckQueue(const std::string& at, const Task& task) {
  if (!task.queue.empty() && !IsPoolName(task.queue))
    faults_.Add("HW1122", at + ".queue",
                fmt::format("{} cannot name a queue; use letters, digits, _ and -, at most 64",
                            QuoteJson(task.queue)));
  if (task.required.size() > kMaxLabels)
    faults_.Add("HW1122", at + ".requires",
                fmt::format("lists {} labels; at most {}", task.required.size(), kMaxLabels));
  for (std::size_t i = 0; i < std::min(task.required.size(), kMaxLabels); ++i)
    if (const std::string& label = task.required[i];
        label.empty() || label.size() > kMaxLabelBytes || ValidUtf8Prefix(label) != label.size())
      faults_.Add("HW1122", fmt::format("{}.requires[{}]", at, i),
                  fmt::format("{} cannot be a label; use 1 to {} bytes of text",
                              QuoteJson(label.substr(0, kMaxLabelBytes)), kMaxLabelBytes));
}

void FieldChecker::CheckArtifacts(const std::string& at, const Task& task) {
  if (task.artifacts.empty()) return;
  if (std::holds_alternative<FunctionAction>(task.action))
    faults_.Add(
        "HW1124", at + ".artifacts",
        "are files that a command leaves; a function gives its result back, so remove them");
  if (task.artifacts.size() > kMaxArtifacts)
    faults_.Add("HW1124", at + ".artifacts",
                fmt::format("lists {} files; at most {}, so pack some together",
                            task.artifacts.size(), kMaxArtifacts));
  for (const auto& [name, path] : task.artifacts) {
    const std::string field = fmt::format("{}.artifacts.{}", at, name);
    if (!IsIdentifier(name, true))
      faults_.Add("HW1123", field,
                  fmt::format("{} cannot name an artifact; use letters, digits, _ and -, no digit "
                              "or - first, at most 100",
                              QuoteJson(name)));
    Text(at + ".artifacts", name, path);
    if (const std::string problem = ArtifactPathProblem(path); !problem.empty())
      faults_.Add("HW1124", field, fmt::format("{} {}", QuoteJson(path), problem));
  }
}

std::string FieldOf(TaskRole role, const std::string& id) {
  switch (role) {
    case TaskRole::kOnCancel:
      return "on_cancel." + id;
    case TaskRole::kFinally:
      return "finally." + id;
    case TaskRole::kMain:
      break;
  }
  return "tasks." + id;
}

/// What tasks ask for against what there is.
class LimitChecker {
 public:
  explicit LimitChecker(const PlatformLimits& limits) : limits_(limits) {
    if (!limits.pools) return;
    for (const auto& [name, limit] : *limits.pools) {
      names_.push_back(name);
      fmt::format_to(std::back_inserter(list_), "{}{} ({})", list_.empty() ? "" : ", ", name,
                     limit);
    }
  }

  void Check(const Task& task) {
    const bool pool = limits_.pools && !task.pool.empty();
    const auto excesses = Excesses(task.resources, limits_.max_resources);
    if (!pool && excesses.empty()) return;
    // A matrix is written once, and so is its fault.
    const std::string at = FieldOf(task.role, task.group.empty() ? task.id : task.group);
    if (!task.group.empty() && !groups_.insert(at).second) return;
    if (pool) CheckPool(at, task);
    for (const auto& [field, message] : excesses)
      faults_.Add("HW1121", fmt::format("{}.resources.{}", at, field),
                  message + " (max_task_resources); ask for less, or have the operator raise it");
  }

  std::vector<Fault> Take() { return faults_.Take(); }

 private:
  void CheckPool(const std::string& at, const Task& task) {
    const std::string& name = task.pool;
    const std::string set =
        fmt::format("`headworks pool set {} N`, or under `pools` in the configuration", name);
    const auto pool = limits_.pools->find(name);
    if (pool == limits_.pools->end())
      return faults_.Add("HW1118", at + ".pool",
                         fmt::format("there is no pool {}{}; declared are: {}; declare it with {}",
                                     QuoteJson(name), DidYouMean(name, names_),
                                     list_.empty() ? "none" : list_, set));
    if (pool->second == 0)
      faults_.Add("HW1119", at + ".pool",
                  fmt::format("pool {} has 0 permits, so that nothing that names it runs; declared "
                              "are: {}; raise its limit with {}",
                              QuoteJson(name), list_, set));
    else if (task.weight > pool->second)
      faults_.Add("HW1119", at + ".weight",
                  fmt::format("{} is above the limit of pool {}, which is {}; declared are: {}; "
                              "lower the weight, or raise the limit with {}",
                              task.weight, QuoteJson(name), pool->second, list_, set));
  }

  const PlatformLimits& limits_;
  FaultList faults_;
  std::vector<std::string_view> names_;
  std::string list_;
  std::set<std::string> groups_;
};

}  // namespace

void FaultList::Add(std::string_view code, std::string field, std::string message) {
  if (faults_.size() < kMost)
    faults_.push_back({code, std::move(field), std::move(message)});
  else
    ++dropped_;
}

std::vector<Fault> FaultList::Take() {
  if (dropped_ > 0)
    faults_.push_back(
        {"HW1116", "", fmt::format("and {} more faults; mend these first", dropped_)});
  return std::move(faults_);
}

std::string TaskField(const Task& task) { return FieldOf(task.role, task.id); }

bool IsPoolName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '_' || c == '-';
  });
}

std::vector<Fault> CheckLimits(const WorkflowDefinition& definition, const PlatformLimits& limits) {
  LimitChecker checker(limits);
  for (const Task& task : definition.tasks) checker.Check(task);
  return checker.Take();
}

std::vector<Fault> CheckPools(const WorkflowDefinition& definition, const PoolLimits& declared) {
  return CheckLimits(definition, {.pools = declared});
}

bool CheckFields(const WorkflowDefinition& definition, FaultList& faults) {
  const std::vector<Task>& tasks = definition.tasks;
  if (tasks.size() > Workflow::kMaxTasks) {
    faults.Add("HW1102", "tasks",
               fmt::format("{} tasks, at most {} are taken; split the workflow", tasks.size(),
                           Workflow::kMaxTasks));
    return false;
  }
  if (std::ranges::find(tasks, TaskRole::kMain, &Task::role) == tasks.end())
    faults.Add("HW1102", "tasks", "there is no task; a workflow needs at least one");
  FieldChecker checker(definition, faults);
  checker.CheckWorkflow();
  for (const Task& task : tasks) checker.CheckTask(task);
  return true;
}

Error ToError(const std::vector<Fault>& faults, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, faults.size()); ++i) {
    const Fault& fault = faults[i];
    fmt::format_to(std::back_inserter(text), "{}{} {}{}{}", i == 0 ? "" : "\n", fault.code,
                   fault.field, fault.field.empty() ? "" : ": ", fault.message);
  }
  if (faults.size() > most)
    fmt::format_to(std::back_inserter(text), "\nand {} more", faults.size() - most);
  return Error{Code::kInvalidArgument, std::move(text)};
}

Error FaultsError(const std::vector<Fault>& faults) { return ToError(faults, faults.size()); }

}  // namespace headworks::model
