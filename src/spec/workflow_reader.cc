#include "workflow_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <climits>
#include <cmath>
#include <limits>
#include <utility>

#include "field_locator.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/spec/workflow_file.h"
#include "param_value.h"
#include "reader.h"
#include "yaml_value.h"

namespace headworks::spec {
namespace json = boost::json;

using model::Task;
using model::TaskRole;
using model::WorkflowDefinition;
using Kind = YamlTree::Kind;

namespace {

/// The words of a command line as a list in YAML: `python3 -u` is [python3, -u].
std::string AsList(std::string_view line) {
  std::string list;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    const bool plain = word.find_first_not_of(kPlain) == std::string_view::npos;
    if (word.empty()) continue;
    list +=
        fmt::format("{}{}", list.empty() ? "" : ", ", plain ? std::string(word) : QuoteJson(word));
  }
  return "[" + list + "]";
}

/// Stands for tasks that could not be read, so that the check does not say that there are none.
Task Harmless() {
  Task task;
  task.id = "_";
  task.action = model::ShellAction{.script = "true", .shell = {}};
  return task;
}

}  // namespace

/// The keys that a map for a `T` takes.
template <typename T>
std::vector<std::string_view> NamesOf(bool in_defaults = false) {
  std::vector<std::string_view> names;
  for (const Entry<T>& entry : EntriesOf<T>())
    if (!in_defaults || entry.key.in_defaults) names.push_back(entry.key.name);
  return names;
}

template <typename T>
void Reader::Map(NodeNo map, T& into, bool in_defaults) {
  const std::span<const Entry<T>> entries = EntriesOf<T>();
  for (std::uint32_t i = 0; i < tree_[map].size; ++i) {
    const NodeNo key = tree_.Key(map, i);
    const std::string_view text = tree_.Text(key);
    const auto entry =
        std::ranges::find(entries, text, [](const Entry<T>& e) { return e.key.name; });
    if (entry != entries.end()) {
      if (in_defaults && !entry->key.in_defaults)
        Fault("HW1006", key,
              fmt::format("{} cannot stand under defaults; give it to each task", QuoteJson(text)));
      else
        ReadEntry(*entry, tree_.Value(map, i), into);
    } else if (!text.starts_with("x-") && !tree_[key].faulty) {
      UnknownKey(key, tree_.Value(map, i), NamesOf<T>(in_defaults));
    }
  }
}

template <typename T>
void Reader::ReadEntry(const Entry<T>& entry, NodeNo value, T& into) {
  const Key* const outer = std::exchange(key_, &entry.key);
  entry.read(*this, value, into);
  key_ = outer;
  switch (entry.key.type) {
    case ValueType::kWhen:
    case ValueType::kKeyExpression:
    case ValueType::kExec:
    case ValueType::kTemplate:
    case ValueType::kTemplates:
    case ValueType::kTemplateMap:
      expressions_.push_back({entry.key.type, entry.key.name, value, task_});
      break;
    default:
      break;
  }
}

void Reader::Version(NodeNo no) {
  if (!Is(no, Kind::kScalar) || tree_.Text(no) != "1")
    Fault("HW1011", no,
          fmt::format("this program reads version 1 of the language, not {}; write `version: 1`, "
                      "or update Headworks",
                      Describe(tree_, no)));
}

std::string Reader::JsonOf(NodeNo no, model::ParamType type) {
  using model::ParamType;
  if (Is(no, Kind::kScalar) &&
      (type == ParamType::kString || type == ParamType::kDate || type == ParamType::kDateTime))
    return QuoteJson(tree_.Text(no));
  std::string text;
  // Of a declared number or boolean a trap matters only if it is one at all.
  if (Is(no, Kind::kScalar) && type != ParamType::kAny)
    text = ToJson(tree_, no, source_);
  else
    Json(no, text);
  return text;
}

void Reader::ParamType(NodeNo no, model::Param& into) {
  using Alias = std::pair<std::string_view, std::string_view>;
  constexpr auto kElsewhere = std::to_array<Alias>({{"int", "integer"},
                                                    {"float", "number"},
                                                    {"double", "number"},
                                                    {"bool", "boolean"},
                                                    {"str", "string"},
                                                    {"text", "string"},
                                                    {"list", "array"},
                                                    {"map", "object"},
                                                    {"dict", "object"},
                                                    {"timestamp", "datetime"}});
  const std::string_view text = Is(no, Kind::kScalar) ? tree_.Text(no) : "";
  const auto alias = std::ranges::find(kElsewhere, text, &Alias::first);
  if (alias != kElsewhere.end())
    Fault("HW1010", no, fmt::format("{} is called {} here", text, alias->second));
  const auto position =
      alias != kElsewhere.end()
          ? static_cast<std::size_t>(std::ranges::find(TypeNames(), alias->second) -
                                     TypeNames().begin())
          : Choice(no, TypeNames());
  if (position)
    into.type = static_cast<model::ParamType>(*position + 1);  // kAny has no name in a file
}

/// What the keys of a parameter say together.
void Reader::CheckParam(NodeNo map, model::Param& param) {
  using model::ParamType;
  const NodeNo usual = ValueOf(map, "default"), allowed = ValueOf(map, "enum");
  const auto infer_from = [&](NodeNo no) {
    if (const auto value = ParseJson(ToJson(tree_, no, source_), {}))
      param.type = TypeShownBy(no, *value);
  };
  if (param.type == ParamType::kAny && usual != kNone) infer_from(usual);
  if (allowed != kNone && !Is(allowed, Kind::kList)) {
    WrongType(allowed, "enum takes a list of values");
  } else if (allowed != kNone && tree_[allowed].size == 0) {
    Fault("HW1010", allowed, "the list is empty; name the values that are allowed, or remove it");
  } else if (allowed != kNone) {
    if (param.type == ParamType::kAny && tree_[allowed].size > 0)
      infer_from(tree_.Element(allowed, 0));
    for (std::uint32_t i = 0; i < tree_[allowed].size; ++i)
      param.allowed.push_back(JsonOf(tree_.Element(allowed, i), param.type));
  }
  const bool is_typed = ValueOf(map, "type") != kNone;
  if (param.type == ParamType::kAny && !is_typed) param.type = ParamType::kString;

  const bool is_number = param.type == ParamType::kInteger || param.type == ParamType::kNumber;
  for (const std::string_view bound : {"min", "max"})
    if (const NodeNo no = FindKey(map, bound); no != kNone && !is_number)
      Fault("HW1014", no, fmt::format("{} bounds integers and numbers only; remove it", bound));
  if (const NodeNo no = FindKey(map, "pattern"); no != kNone && param.type != ParamType::kString)
    Fault("HW1014", no, "a pattern is for strings only; remove it");
  if (param.required && usual != kNone)
    Fault("HW1014", FindKey(map, "default"),
          "a required parameter is always given, so its default is never used; remove one of both");

  model::Param type_only;
  type_only.type = param.type;
  bool all_allowed = true;
  for (std::size_t i = 0; i < param.allowed.size(); ++i) {
    const NodeNo no = tree_.Element(allowed, static_cast<std::uint32_t>(i));
    const auto value = ParseJson(param.allowed[i], {});
    const bool is_told = Is(no, Kind::kScalar) && value && value->is_null();
    const std::string problem = value && !is_told ? ParamProblem(type_only, *value) : "";
    all_allowed = all_allowed && value && problem.empty();
    if (problem.empty())
      CheckTrapsOf(no, param.type, is_typed);
    else
      Fault("HW1010", no,
            fmt::format("the parameter is {}, which {} is not", problem, param.allowed[i]));
  }
  // The rest would be told of what is told already.
  if (usual == kNone || Is(usual, Kind::kNull) || param.required || !all_allowed) return;
  param.default_json = JsonOf(usual, param.type);
  const auto value = ParseJson(param.default_json, {});
  if (!value || value->is_null()) return;  // told: JSON cannot hold it
  if (param.default_json.find("${{") != std::string::npos)
    expressions_.push_back({ValueType::kAny, "default", usual, ExpressionUse::kNoTask});
  if (HasTemplate(*value)) return;
  if (const std::string problem = ParamProblem(param, *value); problem.empty())
    CheckTrapsOf(usual, param.type, is_typed);
  else
    Fault("HW1010", usual,
          fmt::format("the parameter takes {}, which {} is not", problem, Describe(tree_, usual)));
}

void Reader::CheckTrapsOf(NodeNo no, model::ParamType type, bool is_typed) {
  using enum model::ParamType;
  if (!Is(no, Kind::kScalar) || !tree_[no].plain) return;
  if (!is_typed) return CheckTraps(tree_, no, source_);
  if (type != kInteger && type != kNumber && type != kBoolean) return;
  if (std::string trap = TrapOf(tree_.Text(no)); !trap.empty())
    Fault("HW1013", no, std::move(trap));
}

model::ParamType Reader::TypeShownBy(NodeNo no, const boost::json::value& value) const {
  const model::ParamType type = TypeOfValue(value);
  // 2.0 is whole, but whoever writes it so means that it need not be.
  return type == model::ParamType::kInteger && tree_.Text(no).find('.') != std::string_view::npos
             ? model::ParamType::kNumber
             : type;
}

model::Param Reader::ReadParam(NodeNo no) {
  if (!Is(no, Kind::kMap)) {
    std::string value;
    Json(no, value);
    if (!Is(no, Kind::kNull))
      expressions_.push_back({ValueType::kAny, "default", no, ExpressionUse::kNoTask});
    model::Param param = model::Param::Plain(std::move(value));
    const auto usual = ParseJson(param.default_json, {});
    // A template keeps the type of its value, which is not known yet.
    if (usual && !(usual->is_string() && HasTemplate(*usual))) param.type = TypeShownBy(no, *usual);
    return param;
  }
  model::Param param;
  const std::size_t known = static_cast<std::size_t>(std::ranges::count_if(
      EntriesOf<model::Param>(), [&](const auto& e) { return FindKey(no, e.key.name) != kNone; }));
  const bool misspelt =
      known == 0 && tree_[no].size > 0 && HasMisspeltKey(no, NamesOf<model::Param>());
  if (known == 0 && !misspelt) {
    Fault("HW1006", no,
          "a map declares a parameter, e.g. {type: integer, default: 1}; an object as default is "
          "written {type: object, default: {...}}");
    return param;
  }
  Map(no, param);
  CheckParam(no, param);
  return param;
}

void Reader::Params(NodeNo no, std::map<std::string, model::Param>& into) {
  if (Is(no, Kind::kNull)) return;
  if (!Is(no, Kind::kMap)) return WrongType(no, "params takes a map from names to default values");
  for (std::uint32_t i = 0; i < tree_[no].size; ++i)
    into.insert_or_assign(std::string(tree_.Text(tree_.Key(no, i))), ReadParam(tree_.Value(no, i)));
}

void Reader::Exec(NodeNo no, TaskDraft& task) {
  std::vector<std::string>& argv = task.action.emplace<model::ExecAction>().argv;
  if (Is(no, Kind::kList)) {
    Texts(no, "exec takes a list of texts: the program, then its arguments", argv);
    if (tree_[no].size > 0 && argv.empty()) argv = {"true"};
    return;
  }
  argv = {"true"};
  WrongType(no, "exec takes a list, e.g. [ls, -l]; a command line for a shell goes under `run`");
}

void Reader::Shell(NodeNo no, std::vector<std::string>& into) {
  into.clear();
  if (Is(no, Kind::kList)) {
    Texts(no, "shell takes sh, bash, or a list: a program and its arguments", into);
    if (into.empty() && tree_[no].size == 0)
      Fault("HW1010", no, "the list is empty; name a program, e.g. [python3, -u]");
    return;
  }
  const std::string_view text = Is(no, Kind::kScalar) ? tree_.Text(no) : "";
  if (text == "bash")
    into = {"bash", "-e", "-o", "pipefail"};
  else if (text.empty())
    WrongType(no, "shell takes sh, bash, or a list with a program and its arguments");
  else if (text != "sh")
    Fault("HW1010", no,
          fmt::format("a program other than sh and bash is written as a list, with its arguments; "
                      "write shell: {}",
                      AsList(text)));
}

void Reader::When(NodeNo no, std::vector<std::string>& into) {
  Texts(no, "when takes an expression, or a list of them", into);
}

void Reader::Concurrency(NodeNo no, std::optional<model::Concurrency>& into) {
  if (!Is(no, Kind::kMap))
    return WrongType(no, "concurrency takes a map, e.g. {key: params.customer, limit: 1}");
  Map(no, into.emplace());
  constexpr auto kLimits = std::to_array<std::string_view>({"limit", "rate"});
  // What limits nothing is said once: one of these, as written or as meant, has its fault already.
  if (into->limit == 0 && into->rate == 0 &&
      (HasMisspeltKey(no, kLimits) || FindKey(no, "limit") != kNone ||
       FindKey(no, "rate") != kNone))
    into->limit = 1;
}

void Reader::RunLimit(NodeNo no, int& into) {
  constexpr int kUnread = INT_MIN;
  int limit = kUnread;
  Integer(no, limit);
  if (limit == 0)
    Fault("HW1111", no, "a limit of 0 limits nothing; leave it out, or give it 1 to 1000000");
  else if (limit != kUnread)
    into = limit;
}

void Reader::Rate(NodeNo no, model::Concurrency& into) {
  if (!Is(no, Kind::kMap)) return WrongType(no, "rate takes a map, e.g. {limit: 10, per: 1m}");
  RateDraft rate;
  Map(no, rate);
  for (const std::string_view key : {"limit", "per"})
    if (FindKey(no, key) == kNone)
      Fault("HW1008", no, fmt::format("the rate has no {}; write {{limit: 10, per: 1m}}", key));
  if (rate.limit == 0)
    Fault("HW1111", no, "a rate of 0 lets nothing start; give it 1 to 10000, or remove it");
  // What could not be read has its fault already.
  if (rate.limit != RateDraft::kNoLimit) into.rate = rate.limit;
  into.rate_per = rate.per == RateDraft::kNoTime ? std::chrono::minutes(1) : rate.per;
}

void Reader::Retry(NodeNo no, model::Task& into) {
  using model::Gap;
  if (!Is(no, Kind::kMap)) return WrongType(no, "retry takes a map, e.g. {max_attempts: 3}");
  Map(no, into.retry);
  for (const auto& [name, gap] :
       std::initializer_list<std::pair<std::string_view, Gap>>{{"max_attempts", Gap::kMaxAttempts},
                                                               {"backoff", Gap::kBackoff},
                                                               {"initial", Gap::kInitial},
                                                               {"max", Gap::kMax},
                                                               {"jitter", Gap::kJitter},
                                                               {"max_losses", Gap::kMaxLosses}})
    if (FindKey(no, name) != kNone) into.Say(gap);
}

void Reader::StartTimeout(NodeNo no, Duration& into) {
  Time(no, into);
  if (Is(no, Kind::kScalar) && ParseDuration(tree_.Text(no)) == Duration(0))
    Fault("HW1111", no, "an attempt needs time to start; give a start_timeout above 0s");
}

void Reader::Resources(NodeNo no, model::Resources& into) {
  if (!Is(no, Kind::kMap))
    return WrongType(no, "resources takes a map, e.g. {cpu: 2, memory: 4GiB}");
  Map(no, into);
}

void Reader::Cpu(NodeNo no, double& into) {
  constexpr double kUnread = std::numeric_limits<double>::quiet_NaN();
  double cpu = kUnread;
  Fraction(no, cpu);
  if (cpu == 0)
    Fault("HW1111", no, "no task runs without a processor; give a cpu of 0.001 or more");
  else if (!std::isnan(cpu))
    into = cpu;
}

void Reader::Condition(NodeNo no, std::optional<model::RetryCondition>& into) {
  if (!Is(no, Kind::kMap)) return WrongType(no, "a condition is a map, e.g. {exit_codes: [75]}");
  if (!into) into.emplace();
  const std::size_t faults = source_.fault_count();
  Map(no, *into);
  // An entry that could not be read has its fault; the check need not say that there is none.
  if (*into == model::RetryCondition{} && source_.fault_count() > faults) into->exit_codes = {1};
}

void Reader::ExitCodes(NodeNo no, std::vector<int>& into) {
  into.clear();
  const auto add = [&](NodeNo code) {
    int value = 0;
    Integer(code, value);
    // Said here, because the check would see them in another order.
    if (value >= 1 && value <= 255)
      into.push_back(value);
    else if (value == 0 && Is(code, Kind::kScalar) && tree_.Text(code) == "0")
      Fault("HW1111", code,
            "0 is the exit code of a success, which is never tried again; remove it");
    else if (value != 0)
      Fault("HW1111", code, fmt::format("{} is out of range: it must be 1 to 255", value));
  };
  if (!Is(no, Kind::kList)) {
    add(no);
  } else {
    into.reserve(tree_[no].size);
    for (std::uint32_t i = 0; i < tree_[no].size; ++i) add(tree_.Element(no, i));
  }
  std::ranges::sort(into);
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

/// Text and lines are a result with one field; any other that is declared would fail every run.
void Reader::CheckFieldsOfStdout(NodeNo output, model::OutputMode mode) {
  const NodeNo type = output != kNone && Is(output, Kind::kMap) ? ValueOf(output, "type") : kNone;
  if (type == kNone || !Is(type, Kind::kMap) ||
      (mode != model::OutputMode::kStdout && mode != model::OutputMode::kStdoutLines))
    return;
  const bool lines = mode == model::OutputMode::kStdoutLines;
  const std::string_view field = lines ? "lines" : "text";
  // One that is no type, or several in a list, has its fault already.
  const auto is = [&](NodeNo no, std::initializer_list<std::string_view> names) {
    return Is(no, Kind::kScalar) &&
           (std::ranges::find(names, tree_.Text(no)) != names.end() ||
            std::ranges::find(TypeNames(), tree_.Text(no)) == TypeNames().end());
  };
  const auto is_text = [&](NodeNo no) { return is(no, {"string", "date", "datetime"}); };
  const auto fits = [&](NodeNo no) {
    if (!lines) return is_text(no);
    if (!Is(no, Kind::kList)) return is(no, {"array"});
    return tree_[no].size != 1 || is_text(tree_.Element(no, 0));
  };
  for (std::uint32_t i = 0; i < tree_[type].size; ++i) {
    const NodeNo key = tree_.Key(type, i);
    const NodeNo value = tree_.Value(type, i);
    if (is(value, {})) continue;
    if (tree_.Text(key) != field)
      Fault("HW1014", key,
            fmt::format("the only field of this result is {}; remove this, or take the output "
                        "from: stdout-json",
                        field));
    else if (!fits(value))
      Fault("HW1014", value,
            fmt::format("{}; or take the output from: stdout-json, where numbers are numbers",
                        lines ? "lines are a list of texts, [string]" : "text is a string"));
  }
}

void Reader::Output(NodeNo no, model::OutputSpec& into) {
  if (Is(no, Kind::kMap)) return Map(no, into);
  for (const KeyMap& map : Language())
    if (map.name == "output")
      if (const auto mode = Choice(no, map.keys.front()->names))
        into.mode = static_cast<model::OutputMode>(*mode);
}

std::string Reader::TypeOf(NodeNo no) {
  if (Is(no, Kind::kMap)) {
    std::string text = "{";
    for (std::uint32_t i = 0; i < tree_[no].size; ++i)
      text += fmt::format("{}{}:{}", i == 0 ? "" : ",", QuoteJson(tree_.Text(tree_.Key(no, i))),
                          TypeOf(tree_.Value(no, i)));
    return text + "}";
  }
  if (Is(no, Kind::kList) && tree_[no].size == 1) return "[" + TypeOf(tree_.Element(no, 0)) + "]";
  if (Is(no, Kind::kList)) {
    Fault("HW1009", no, "the type of a list has exactly one type in it, e.g. [string]");
  } else if (!Is(no, Kind::kScalar) || tree_.Text(no) != "any") {
    model::Param param;
    ParamType(no, param);
    if (param.type != model::ParamType::kAny) return QuoteJson(tree_.Text(no));
  }
  return "\"any\"";
}

void Reader::OutputType(NodeNo no, std::string& into) {
  if (!Is(no, Kind::kMap))
    return WrongType(no, "the type of an output is a map, e.g. {rows: integer, files: [string]}");
  into = TypeOf(no);
}

/// Exactly one of run, exec, function, and nothing that goes with another one only.
void Reader::CheckActions(NodeNo key, NodeNo map, TaskDraft& task) {
  constexpr auto kActions = std::to_array<std::string_view>({"run", "exec", "function"});
  NodeNo first = kNone;
  for (const std::string_view name : kActions) {
    const NodeNo action = FindKey(map, name);
    if (action == kNone) continue;
    if (first != kNone)
      Fault("HW1012", action,
            fmt::format("the task has both {} and {}; keep one", tree_.Text(first), name));
    first = action;
  }
  if (first == kNone) {
    if (!HasMisspeltKey(map, kActions))
      Fault("HW1008", key,
            fmt::format("the task {} does nothing; give it one of run, exec or function",
                        QuoteJson(tree_.Text(key))));
    task.action = model::ShellAction{.script = "true", .shell = {}};
    return;
  }
  if (auto* shell = std::get_if<model::ShellAction>(&task.action))
    shell->shell = task.shell;
  else if (const NodeNo no = FindKey(map, "shell"); no != kNone)
    Fault("HW1014", no, "shell is for run only; remove it");
  if (std::holds_alternative<model::FunctionAction>(task.action) && tree_.Text(first) == "function")
    CheckFunction(map, task);
}

/// What is for commands only; from `defaults` it comes to nothing.
void Reader::CheckFunction(NodeNo map, TaskDraft& task) {
  for (const std::string_view name : {"env", "env_file", "inherit_env", "cwd", "artifacts"})
    if (const NodeNo no = FindKey(map, name); no != kNone)
      Fault("HW1014", no,
            fmt::format("{} is for run and exec: a function runs in the process of the program; "
                        "remove it, and give the function values by params or needs",
                        name));
  task.env.clear();
  task.env_file.clear();
  task.inherit_env.clear();
  task.cwd.clear();
  task.artifacts.clear();
  task.output.mode = model::OutputMode::kFile;
  const NodeNo output = ValueOf(map, "output");
  const NodeNo from = output == kNone || Is(output, Kind::kMap) ? FindKey(output, "from") : output;
  if (from != kNone)
    Fault("HW1014", from,
          "where the output is taken from is for run and exec: a function returns its result; "
          "remove it, only its type may be given");
  for (const std::string_view name : {"when", "unless"})
    if (const NodeNo no = FindKey(ValueOf(map, "retry"), name); no != kNone)
      Fault("HW1014", no,
            fmt::format("{} looks at exit codes and output lines, which a function has none of; "
                        "remove it, and let the function return Fail for what is not to be tried "
                        "again",
                        name));
  task.retry.when.reset();
  task.retry.unless.reset();
}

/// What a task says of further tries must have some.
void Reader::CheckRetry(NodeNo map, const model::RetryPolicy& retry) {
  const NodeNo own = ValueOf(map, "retry");
  const NodeNo attempts = ValueOf(own, "max_attempts");
  if (retry.max_attempts != 1 || (attempts != kNone && tree_.Text(attempts) != "1")) return;
  const model::RetryPolicy usual;
  for (const auto& [name, differs] : std::initializer_list<std::pair<std::string_view, bool>>{
           {"backoff", retry.backoff != usual.backoff},
           {"initial", retry.initial != usual.initial},
           {"max", retry.max != usual.max},
           {"jitter", retry.jitter != usual.jitter},
           {"when", retry.when.has_value()},
           {"unless", retry.unless.has_value()}})
    if (const NodeNo no = FindKey(own, name); no != kNone && differs)
      return Fault("HW1014", no,
                   fmt::format("{} has no effect, because the task is tried once only; give it a "
                               "max_attempts above 1, or remove this",
                               name));
}

/// Each task gets a copy; if that is too much in all, none does.
void Reader::ChargeDefaults(std::size_t tasks) {
  if (defaults_node_ == kNone) return;
  copied_ += tree_[defaults_node_].weight * tasks;
  if (copied_ <= kMaxExpandedBytes) return;
  Fault("HW1003", defaults_node_,
        fmt::format("with the defaults written out for each task the file comes to more than {} "
                    "MiB; say less here",
                    kMaxExpandedBytes >> 20));
  defaults_node_ = kNone;
  defaults_ = TaskDraft();
}

TaskDraft Reader::ReadTask(NodeNo key, NodeNo value) {
  TaskDraft task = defaults_;
  task.id = tree_.Text(key);
  if (Is(value, Kind::kMap)) {
    Map(value, task);
    // Whoever takes away the pool of the defaults takes away its weight, too.
    if (FindKey(value, "pool") != kNone && task.pool.empty() && FindKey(value, "weight") == kNone)
      task.weight = Task{}.weight;
    CheckActions(key, value, task);
    CheckRetry(value, task.retry);
    if (!std::holds_alternative<model::FunctionAction>(task.action))
      CheckFieldsOfStdout(ValueOf(value, "output"), task.output.mode);
    return task;
  }
  task.action = model::ShellAction{.script = "true", .shell = {}};
  const std::vector<std::string_view> names = NamesOf<TaskDraft>();
  if (Is(value, Kind::kNull))
    CheckActions(key, value, task);
  else if (std::ranges::find(names, tree_.Text(key)) != names.end())
    Fault("HW1009", key,
          fmt::format("{} stands where the id of a task belongs; write `build: {{run: make}}`, or "
                      "indent it below the id of its task",
                      QuoteJson(tree_.Text(key))));
  else
    WrongType(value, "a task is a map, e.g. {run: \"echo hello\"}");
  return task;
}

void Reader::ReadMatrixOf(NodeNo task, const TaskDraft& draft, std::size_t position) {
  if (draft.matrix == kNone) return;
  auto matrix = ReadMatrix(tree_, draft.matrix, source_, matrix_work_);
  if (!matrix) return;
  matrix->task = position;
  copied_ += std::size_t{tree_[task].weight} * matrix->combinations.size();
  if (copied_ > kMaxExpandedBytes)
    return Fault("HW1003", draft.matrix,
                 fmt::format("with its matrices written out the file comes to more than {} MiB; "
                             "move what the combinations share into a script",
                             kMaxExpandedBytes >> 20));
  matrices_.push_back(*std::move(matrix));
}

void Reader::Tasks(NodeNo no, TaskRole role, std::vector<Task>& into) {
  if (Is(no, Kind::kNull)) return;  // as an empty map: the check says whether that will do
  if (!Is(no, Kind::kMap)) {
    if (role == TaskRole::kMain) into.push_back(Harmless());
    return WrongType(no, "a map from ids to tasks belongs here, e.g. `build: {run: make}`");
  }
  into.reserve(into.size() + tree_[no].size);
  ChargeDefaults(tree_[no].size);
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    task_ = into.size();
    TaskDraft task = ReadTask(tree_.Key(no, i), tree_.Value(no, i));
    task.role = role;
    ReadMatrixOf(tree_.Value(no, i), task, into.size());
    into.push_back(static_cast<Task&&>(task));
  }
  task_ = ExpressionUse::kNoTask;
}

void Reader::Defaults(NodeNo no) {
  if (Is(no, Kind::kMap)) {
    Map(no, defaults_, true);
    defaults_node_ = no;
  } else if (!Is(no, Kind::kNull)) {
    WrongType(no, "defaults takes a map with keys of a task, e.g. {timeout: 10m}");
  }
}

WorkflowDefinition Reader::Workflow() {
  WorkflowDefinition definition;
  const NodeNo root = tree_.root();
  if (!Is(root, Kind::kMap)) {
    const std::string_view wanted = "a workflow is a map with the keys version and tasks";
    if (Is(root, Kind::kNull))
      source_.AddWhole("HW1009", fmt::format("the file is empty; {}", wanted));
    else
      WrongType(root, wanted);
    definition.tasks.push_back(Harmless());
    return definition;
  }
  for (std::uint32_t i = 0; i < tree_[root].size; ++i)
    if (tree_.Text(tree_.Key(root, i)) == "defaults") Defaults(tree_.Value(root, i));
  Map(root, definition);
  if (const NodeNo name = ValueOf(root, "name");
      name != kNone && Is(name, Kind::kScalar) && tree_.Text(name).empty())
    Fault("HW1010", name, "the name is empty; give one, or remove it: the file's name counts then");
  constexpr auto kVersion = std::to_array<std::string_view>({"version"});
  if (FindKey(root, "version") == kNone && !HasMisspeltKey(root, kVersion))
    Fault("HW1008", root, "the version is missing; begin the file with `version: 1`");
  if (FindKey(root, "tasks") == kNone) {
    definition.tasks.push_back(Harmless());
    constexpr auto kTasks = std::to_array<std::string_view>({"tasks"});
    if (!HasMisspeltKey(root, kTasks))
      Fault("HW1008", root, "there are no tasks; add `tasks:` with one task or more");
  }
  return definition;
}

WorkflowDraft ReadWorkflow(const YamlTree& tree, Source& source) {
  Reader reader(tree, source);
  WorkflowDraft draft;
  draft.definition = reader.Workflow();
  draft.matrices = reader.TakeMatrices();
  draft.expressions = reader.TakeExpressions();
  return draft;
}

void AddModelFaults(const YamlTree& tree, const std::vector<model::Fault>& faults, Source& source) {
  for (const model::Fault& fault : faults) {
    if (fault.field.empty()) {
      source.AddWhole(fault.code, fault.message);
      continue;
    }
    constexpr std::array<std::string_view, 5> kOfKey = {"HW1103", "HW1104", "HW1112", "HW1113",
                                                        "HW1123"};
    const bool of_key = std::ranges::find(kOfKey, fault.code) != kOfKey.end();
    const Place place = FieldLocator(tree).Locate(fault.field, of_key);
    source.Add(fault.code, place, fault.message);
  }
}

}  // namespace headworks::spec
