#include "workflow_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/base/time.h"
#include "yaml_value.h"

namespace headworks::spec {
namespace {

using model::Task;
using model::TaskRole;
using model::WorkflowDefinition;
using Kind = YamlTree::Kind;
using NodeNo = YamlTree::NodeNo;

/// Keys that have a meaning to come; a file that uses one is ahead of this program, not misspelt.
constexpr auto kReserved = std::to_array<std::string_view>({"schedule",
                                                            "triggers",
                                                            "concurrency",
                                                            "start_timeout",
                                                            "queue",
                                                            "requires",
                                                            "pool",
                                                            "weight",
                                                            "resources",
                                                            "image",
                                                            "secrets",
                                                            "artifacts",
                                                            "notify",
                                                            "foreach",
                                                            "workflow",
                                                            "wait",
                                                            "http",
                                                            "container",
                                                            "when",
                                                            "matrix",
                                                            "output",
                                                            "shell",
                                                            "env_file",
                                                            "deadline",
                                                            "idempotency_key",
                                                            "labels",
                                                            "defaults",
                                                            "tags",
                                                            "max_active_runs",
                                                            "cancel_timeout"});

class Reader;

/// A key of a map and what reads its value; `T` is what the map describes.
template <typename T>
struct Entry {
  std::string_view key;
  void (*read)(Reader&, NodeNo value, T& into);
};

class Reader {
 public:
  Reader(const YamlTree& tree, Source& source) : tree_(tree), source_(source) {}

  WorkflowDefinition Workflow();

 private:
  friend struct Keys;

  void Fault(std::string_view code, NodeNo no, std::string message) {
    source_.Add(code, tree_[no].place, std::move(message));
  }
  void WrongType(NodeNo no, std::string_view wanted) {
    Fault("HW1009", no, fmt::format("{}, not {}", wanted, Describe(tree_, no)));
  }
  bool Is(NodeNo no, Kind kind) const { return tree_[no].kind == kind; }

  template <typename T>
  void Map(NodeNo map, std::span<const Entry<T>> entries, T& into);
  void UnknownKey(NodeNo key, std::span<const std::string_view> here);
  NodeNo FindKey(NodeNo map, std::string_view key) const;  // the key's node, or kNone

  void Text(NodeNo no, std::string& into);
  void Command(NodeNo no, std::string& into);
  void Bool(NodeNo no, bool& into);
  void Integer(NodeNo no, int& into);
  void Fraction(NodeNo no, double& into);
  void Time(NodeNo no, Duration& into);
  void Texts(NodeNo no, std::string_view wanted, std::vector<std::string>& into);
  void Environment(NodeNo no, std::map<std::string, std::string>& into);
  template <typename E>
  void Choice(NodeNo no, std::span<const std::string_view> names, E& into);

  void Version(NodeNo no);
  void Params(NodeNo no, std::map<std::string, model::Param>& into);
  void Tasks(NodeNo no, TaskRole role, std::vector<Task>& into);
  Task ReadTask(NodeNo key, NodeNo value, TaskRole role);
  void CheckActions(NodeNo key, NodeNo map, Task& task);
  void Exec(NodeNo no, Task& into);
  void Retry(NodeNo no, Task& into);

  static constexpr NodeNo kNone = ~NodeNo{0};
  const YamlTree& tree_;
  Source& source_;
};

/// The language: every key, by the map it stands in.
struct Keys {
  static constexpr auto kWorkflow = std::to_array<Entry<WorkflowDefinition>>({
      {"version", [](Reader& r, NodeNo v, WorkflowDefinition&) { r.Version(v); }},
      {"name", [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Text(v, d.name.workflow); }},
      {"description", [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Text(v, d.description); }},
      {"params", [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Params(v, d.params); }},
      {"env", [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Environment(v, d.env); }},
      {"max_parallel",
       [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Integer(v, d.max_parallel); }},
      {"timeout", [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Time(v, d.timeout); }},
      {"on_failure",
       [](Reader& r, NodeNo v, WorkflowDefinition& d) {
         constexpr std::array<std::string_view, 2> kNames = {"finish", "cancel_rest"};
         r.Choice(v, kNames, d.on_failure);
       }},
      {"tasks",
       [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Tasks(v, TaskRole::kMain, d.tasks); }},
      {"on_cancel", [](Reader& r, NodeNo v,
                       WorkflowDefinition& d) { r.Tasks(v, TaskRole::kOnCancel, d.tasks); }},
      {"finally",
       [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Tasks(v, TaskRole::kFinally, d.tasks); }},
      {"finally_timeout",
       [](Reader& r, NodeNo v, WorkflowDefinition& d) { r.Time(v, d.finally_timeout); }},
  });
  static constexpr auto kTask = std::to_array<Entry<Task>>({
      {"description",
       [](Reader& r, NodeNo v, Task&) {
         std::string for_readers_of_the_file;
         r.Text(v, for_readers_of_the_file);
       }},
      {"needs", [](Reader& r, NodeNo v,
                   Task& t) { r.Texts(v, "needs takes a task id or a list of them", t.needs); }},
      {"run", [](Reader& r, NodeNo v,
                 Task& t) { r.Command(v, t.action.emplace<model::ShellAction>().script); }},
      {"exec", [](Reader& r, NodeNo v, Task& t) { r.Exec(v, t); }},
      {"function",
       [](Reader& r, NodeNo v, Task& t) {
         r.Command(v, t.action.emplace<model::FunctionAction>().function);
       }},
      {"env", [](Reader& r, NodeNo v, Task& t) { r.Environment(v, t.env); }},
      {"inherit_env",
       [](Reader& r, NodeNo v, Task& t) {
         r.Texts(v, "inherit_env takes a list of names of environment variables", t.inherit_env);
       }},
      {"cwd", [](Reader& r, NodeNo v, Task& t) { r.Text(v, t.cwd); }},
      {"retry", [](Reader& r, NodeNo v, Task& t) { r.Retry(v, t); }},
      {"timeout", [](Reader& r, NodeNo v, Task& t) { r.Time(v, t.timeout); }},
      {"grace", [](Reader& r, NodeNo v, Task& t) { r.Time(v, t.grace); }},
      {"priority", [](Reader& r, NodeNo v, Task& t) { r.Integer(v, t.priority); }},
      {"trigger_rule",
       [](Reader& r, NodeNo v, Task& t) {
         std::array<std::string_view, 11> names;
         for (std::size_t i = 0; i < names.size(); ++i)
           names[i] = model::TriggerRuleName(static_cast<model::TriggerRule>(i));
         r.Choice(v, names, t.trigger_rule);
       }},
      {"allow_failure", [](Reader& r, NodeNo v, Task& t) { r.Bool(v, t.allow_failure); }},
  });
  static constexpr auto kRetry = std::to_array<Entry<model::RetryPolicy>>({
      {"max_attempts",
       [](Reader& r, NodeNo v, model::RetryPolicy& p) { r.Integer(v, p.max_attempts); }},
      {"backoff",
       [](Reader& r, NodeNo v, model::RetryPolicy& p) {
         constexpr std::array<std::string_view, 3> kNames = {"fixed", "linear", "exponential"};
         r.Choice(v, kNames, p.backoff);
       }},
      {"initial", [](Reader& r, NodeNo v, model::RetryPolicy& p) { r.Time(v, p.initial); }},
      {"max", [](Reader& r, NodeNo v, model::RetryPolicy& p) { r.Time(v, p.max); }},
      {"jitter", [](Reader& r, NodeNo v, model::RetryPolicy& p) { r.Fraction(v, p.jitter); }},
      {"max_losses",
       [](Reader& r, NodeNo v, model::RetryPolicy& p) { r.Integer(v, p.max_losses); }},
  });
};

/// Stands for tasks that could not be read, so that the check does not say that there are none.
Task Harmless() {
  Task task;
  task.id = "_";
  task.action = model::ShellAction{.script = "true"};
  return task;
}

template <typename T>
void Reader::Map(NodeNo map, std::span<const Entry<T>> entries, T& into) {
  for (std::uint32_t i = 0; i < tree_[map].size; ++i) {
    const NodeNo key = tree_.Key(map, i);
    const auto entry = std::ranges::find(entries, tree_.Text(key), &Entry<T>::key);
    if (entry != entries.end()) {
      entry->read(*this, tree_.Value(map, i), into);
      continue;
    }
    std::vector<std::string_view> here;
    for (const Entry<T>& e : entries) here.push_back(e.key);
    UnknownKey(key, here);
  }
}

void Reader::UnknownKey(NodeNo key, std::span<const std::string_view> here) {
  const std::string_view text = tree_.Text(key);
  const auto is_key_of = [&](const auto& entries) {
    return std::ranges::any_of(entries, [&](const auto& e) { return e.key == text; });
  };
  const std::string quoted = QuoteJson(text);
  if (is_key_of(Keys::kTask) || is_key_of(Keys::kRetry) || is_key_of(Keys::kWorkflow))
    return Fault("HW1006", key,
                 fmt::format("the key {} does not belong here; it belongs {}", quoted,
                             is_key_of(Keys::kTask)    ? "to a task"
                             : is_key_of(Keys::kRetry) ? "to the retry of a task"
                                                       : "to the workflow, at the left margin"));
  if (std::ranges::find(kReserved, text) != kReserved.end())
    return Fault(
        "HW1007", key,
        fmt::format("the key {} is reserved: it comes with a later version; remove it", quoted));
  const std::string hint = DidYouMean(text, here);
  Fault("HW1006", key,
        fmt::format("unknown key {}{}", quoted,
                    hint.empty() ? fmt::format("; known here: {}", fmt::join(here, ", ")) : hint));
}

NodeNo Reader::FindKey(NodeNo map, std::string_view key) const {
  for (std::uint32_t i = 0; Is(map, Kind::kMap) && i < tree_[map].size; ++i)
    if (tree_.Text(tree_.Key(map, i)) == key) return tree_.Key(map, i);
  return kNone;
}

/// Any scalar is taken as it is written: `1.10` is the text 1.10.
void Reader::Text(NodeNo no, std::string& into) {
  if (Is(no, Kind::kScalar))
    into = tree_.Text(no);
  else
    WrongType(no, "text belongs here");
}

/// As Text, but nothing is left to the check, which knows what an empty command means.
void Reader::Command(NodeNo no, std::string& into) {
  if (Is(no, Kind::kNull)) return;
  into = "true";
  Text(no, into);
}

void Reader::Bool(NodeNo no, bool& into) {
  if (Is(no, Kind::kScalar) && tree_[no].plain)
    if (const auto value = BoolOf(tree_.Text(no))) {
      into = *value;
      return;
    }
  WrongType(no, "write true or false");
}

void Reader::Integer(NodeNo no, int& into) {
  const auto number =
      Is(no, Kind::kScalar) && tree_[no].plain ? NumberOf(tree_.Text(no)) : std::nullopt;
  if (!number) return WrongType(no, "a whole number belongs here");
  const char* end = number->data() + number->size();
  int value = 0;
  const auto [stop, ec] = std::from_chars(number->data(), end, value);
  if (ec == std::errc::result_out_of_range)
    Fault("HW1010", no, fmt::format("{} is too large a number", *number));
  else if (stop != end)
    WrongType(no, "a whole number belongs here");
  else
    into = value;
}

void Reader::Fraction(NodeNo no, double& into) {
  const auto number =
      Is(no, Kind::kScalar) && tree_[no].plain ? NumberOf(tree_.Text(no)) : std::nullopt;
  if (!number) return WrongType(no, "a number belongs here");
  std::from_chars(number->data(), number->data() + number->size(), into);
}

void Reader::Time(NodeNo no, Duration& into) {
  if (!Is(no, Kind::kScalar)) return WrongType(no, "a duration such as 30s belongs here");
  const auto duration = ParseDuration(tree_.Text(no));
  if (duration)
    into = *duration;
  else
    Fault("HW1010", no, duration.error().message);
}

void Reader::Texts(NodeNo no, std::string_view wanted, std::vector<std::string>& into) {
  if (Is(no, Kind::kScalar)) {
    into.emplace_back(tree_.Text(no));
  } else if (Is(no, Kind::kList)) {
    for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
      const NodeNo element = tree_.Element(no, i);
      if (Is(element, Kind::kScalar))
        into.emplace_back(tree_.Text(element));
      else
        WrongType(element, wanted);
    }
  } else {
    WrongType(no, wanted);
  }
}

void Reader::Environment(NodeNo no, std::map<std::string, std::string>& into) {
  if (!Is(no, Kind::kMap)) return WrongType(no, "env takes a map from names to values");
  for (std::uint32_t i = 0; i < tree_[no].size; ++i) {
    const NodeNo value = tree_.Value(no, i);
    const std::string_view name = tree_.Text(tree_.Key(no, i));
    if (Is(value, Kind::kScalar))
      into.insert_or_assign(std::string(name), std::string(tree_.Text(value)));
    else if (Is(value, Kind::kNull))
      Fault("HW1009", value,
            fmt::format("{} has no value; write \"\" for an empty one, or remove it",
                        QuoteJson(name)));
    else
      WrongType(value, fmt::format("the value of {} must be text", QuoteJson(name)));
  }
}

template <typename E>
void Reader::Choice(NodeNo no, std::span<const std::string_view> names, E& into) {
  const std::string_view text = Is(no, Kind::kScalar) ? tree_.Text(no) : "";
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) {
    into = static_cast<E>(found - names.begin());
    return;
  }
  Fault("HW1010", no,
        fmt::format("{} is none of {}{}", Describe(tree_, no), fmt::join(names, ", "),
                    DidYouMean(text, names)));
}

void Reader::Version(NodeNo no) {
  if (!Is(no, Kind::kScalar) || tree_.Text(no) != "1")
    Fault(
        "HW1011", no,
        fmt::format("this program reads version 1 of the language, not {}; write `version: 1`, or "
                    "update Headworks",
                    Describe(tree_, no)));
}

void Reader::Params(NodeNo no, std::map<std::string, model::Param>& into) {
  if (!Is(no, Kind::kMap)) return WrongType(no, "params takes a map from names to default values");
  for (std::uint32_t i = 0; i < tree_[no].size; ++i)
    into.insert_or_assign(std::string(tree_.Text(tree_.Key(no, i))),
                          model::Param::Plain(ToJson(tree_, tree_.Value(no, i), source_)));
}

void Reader::Exec(NodeNo no, Task& task) {
  std::vector<std::string>& argv = task.action.emplace<model::ExecAction>().argv;
  if (Is(no, Kind::kList)) {
    Texts(no, "exec takes a list of texts: the program, then its arguments", argv);
    if (tree_[no].size > 0 && argv.empty()) argv = {"true"};
    return;
  }
  argv = {"true"};
  WrongType(no, "exec takes a list, e.g. [ls, -l]; a command line for a shell goes under `run`");
}

void Reader::Retry(NodeNo no, Task& task) {
  if (!Is(no, Kind::kMap)) return WrongType(no, "retry takes a map, e.g. {max_attempts: 3}");
  Map<model::RetryPolicy>(no, Keys::kRetry, task.retry);
}

/// Exactly one of run, exec, function.
void Reader::CheckActions(NodeNo key, NodeNo map, Task& task) {
  NodeNo first = kNone;
  for (const std::string_view name : {"run", "exec", "function"}) {
    const NodeNo action = FindKey(map, name);
    if (action == kNone) continue;
    if (first != kNone)
      Fault("HW1012", action,
            fmt::format("the task has both {} and {}; keep one", tree_.Text(first), name));
    first = action;
  }
  if (first == kNone) {
    Fault("HW1008", key,
          fmt::format("the task {} does nothing; give it one of run, exec or function",
                      QuoteJson(tree_.Text(key))));
    task.action = model::ShellAction{.script = "true"};
  }
}

Task Reader::ReadTask(NodeNo key, NodeNo value, TaskRole role) {
  Task task;
  task.id = tree_.Text(key);
  task.role = role;
  if (Is(value, Kind::kMap)) {
    Map<Task>(value, Keys::kTask, task);
    CheckActions(key, value, task);
    return task;
  }
  task.action = model::ShellAction{.script = "true"};
  if (Is(value, Kind::kNull))
    CheckActions(key, value, task);
  else
    WrongType(value, "a task is a map, e.g. {run: \"echo hello\"}");
  return task;
}

void Reader::Tasks(NodeNo no, TaskRole role, std::vector<Task>& into) {
  if (Is(no, Kind::kNull)) return;  // as an empty map: the check says whether that will do
  if (!Is(no, Kind::kMap)) {
    if (role == TaskRole::kMain) into.push_back(Harmless());
    return WrongType(no, "a map from ids to tasks belongs here, e.g. `build: {run: make}`");
  }
  into.reserve(into.size() + tree_[no].size);
  for (std::uint32_t i = 0; i < tree_[no].size; ++i)
    into.push_back(ReadTask(tree_.Key(no, i), tree_.Value(no, i), role));
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
  Map<WorkflowDefinition>(root, Keys::kWorkflow, definition);
  if (FindKey(root, "version") == kNone)
    Fault("HW1008", root, "the version is missing; begin the file with `version: 1`");
  if (FindKey(root, "tasks") == kNone) {
    definition.tasks.push_back(Harmless());
    Fault("HW1008", root, "there are no tasks; add `tasks:` with one task or more");
  }
  return definition;
}

/// Follows a field such as "tasks.build.needs[0]" down the tree.
class FieldLocator {
 public:
  explicit FieldLocator(const YamlTree& tree) : tree_(tree), node_(tree.root()), key_(node_) {}

  /// The place of the last part of `field` that there is: of its value if that is a scalar and
  /// `of_key` is false, otherwise of its key.
  Place Locate(std::string_view field, bool of_key) {
    while (!field.empty() && Descend(field)) {
    }
    return tree_[!of_key && tree_[node_].kind == Kind::kScalar ? node_ : key_].place;
  }

 private:
  /// Takes one key or index off the front of `field`.  Keys may contain dots, so the longest that
  /// fits is the one meant.
  bool Descend(std::string_view& field) {
    if (tree_[node_].kind == Kind::kList && field.starts_with('[')) {
      std::uint32_t index = 0;
      std::from_chars(field.data() + 1, field.data() + field.size(), index);
      if (index >= tree_[node_].size) return false;
      key_ = node_ = tree_.Element(node_, index);
      field.remove_prefix(field.find(']') + 1);
      return true;
    }
    if (tree_[node_].kind != Kind::kMap) return false;
    if (field.starts_with('.')) field.remove_prefix(1);
    NodeNo key = 0, value = 0;
    std::size_t length = 0;
    bool found = false;
    for (std::uint32_t i = 0; i < tree_[node_].size; ++i) {
      const std::string_view text = tree_.Text(tree_.Key(node_, i));
      if (!field.starts_with(text) || (found && text.size() <= length)) continue;
      if (field.size() > text.size() && field[text.size()] != '.' && field[text.size()] != '[')
        continue;
      key = tree_.Key(node_, i);
      value = tree_.Value(node_, i);
      length = text.size();
      found = true;
    }
    if (!found) return false;
    key_ = key;
    node_ = value;
    field.remove_prefix(length);
    return true;
  }

  const YamlTree& tree_;
  NodeNo node_;
  NodeNo key_;
};

}  // namespace

WorkflowDefinition ReadWorkflow(const YamlTree& tree, Source& source) {
  return Reader(tree, source).Workflow();
}

void AddModelFaults(const YamlTree& tree, const std::vector<model::Fault>& faults, Source& source) {
  for (const model::Fault& fault : faults) {
    if (fault.field.empty()) {
      source.AddWhole(fault.code, fault.message);
      continue;
    }
    constexpr std::array<std::string_view, 4> kOfKey = {"HW1103", "HW1104", "HW1112", "HW1113"};
    const bool of_key = std::ranges::find(kOfKey, fault.code) != kOfKey.end();
    const Place place = FieldLocator(tree).Locate(fault.field, of_key);
    source.Add(fault.code, place, fault.message);
  }
}

}  // namespace headworks::spec
