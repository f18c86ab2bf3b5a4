#include "expression_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/model/run.h"
#include "headworks/spec/params.h"
#include "param_value.h"

namespace headworks::spec {
namespace json = boost::json;
using expr::Type;
namespace {

using Fields = std::vector<Type::Field>;

void Declare(expr::Environment& environment, std::string name, Type type) {
  const Status declared = environment.Declare(std::move(name), std::move(type));
  HEADWORKS_CHECK(declared.has_value());
}

Type OfParamType(model::ParamType type) {
  using model::ParamType;
  switch (type) {
    case ParamType::kString:
    case ParamType::kDate:
    case ParamType::kDateTime:
      return Type::Kind::kString;
    case ParamType::kInteger:
      return Type::Kind::kInt;
    case ParamType::kBoolean:
      return Type::Kind::kBool;
    case ParamType::kArray:
      return Type::List({});
    case ParamType::kObject:
      return Type::Object({}, true);
    case ParamType::kNumber:
      return Type::Kind::kDouble;
    case ParamType::kAny:
      break;
  }
  return {};
}

Type OfValue(const json::value& value) {
  switch (value.kind()) {
    case json::kind::string:
      return Type::Kind::kString;
    case json::kind::bool_:
      return Type::Kind::kBool;
    case json::kind::int64:
      return Type::Kind::kInt;
    default:
      return {};
  }
}

/// Of a parameter with a list of texts, as JSON.
Type OneOfTexts(const std::vector<std::string>& allowed) {
  std::vector<std::string> texts;
  for (const std::string& one : allowed)
    if (const auto text = ParseJson(one, {}); text && text->is_string())
      texts.emplace_back(text->get_string());
  return Type::OneOf(std::move(texts));
}

Type OfParam(const model::Param& param) {
  const auto usual = ParseJson(param.default_json, {});
  if (param.type == model::ParamType::kAny) {
    // Any number may be given for a number, and what a template gives is known later.
    if (!usual || usual->is_number() || (usual->is_string() && HasTemplate(*usual))) return {};
    if (usual->is_array()) return Type::List({});
    return usual->is_object() ? Type::Object({}, true) : OfValue(*usual);
  }
  const Type type = param.type == model::ParamType::kString && !param.allowed.empty()
                        ? OneOfTexts(param.allowed)
                        : OfParamType(param.type);
  const bool may_be_null =
      !param.required && usual && (usual->is_null() || (usual->is_string() && HasTemplate(*usual)));
  return may_be_null ? Type::Nullable(type) : type;
}

/// Of a declared output: names of types, [type], maps of fields.
Type OfDeclared(const json::value& declared) {
  if (const json::object* object = declared.if_object()) {
    Fields fields;
    for (const auto& member : *object)
      fields.push_back({std::string(member.key()), OfDeclared(member.value())});
    return Type::Object(std::move(fields), false);
  }
  if (const json::array* array = declared.if_array())
    return Type::List(array->empty() ? Type() : OfDeclared(array->front()));
  if (!declared.is_string()) return {};
  const std::string_view name = declared.get_string();
  const std::span<const std::string_view> names = TypeNames();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return {};
  return OfParamType(static_cast<model::ParamType>(found - names.begin() + 1));
}

Type OutputType(const model::Task& task) {
  using enum model::OutputMode;
  const auto declared = ParseJson(task.output.type_json, {});
  Type type = declared ? OfDeclared(*declared) : Type::Object({}, true);
  const model::OutputMode mode = task.output.mode;
  if (mode != kStdout && mode != kStdoutLines) return type;
  Fields fields = type.fields();
  const char* name = mode == kStdout ? "text" : "lines";
  if (type.FindField(name) == nullptr)
    fields.push_back(
        {name, mode == kStdout ? Type::Kind::kString : Type::List(Type::Kind::kString)});
  return Type::Object(std::move(fields), false);
}

/// Of needs.ID.state: how it ended, or under a rule that does not wait for all any state.
Type StateType(model::TriggerRule rule) {
  using enum model::TriggerRule;
  const bool early =
      rule == kOneSuccess || rule == kOneFailed || rule == kOneDone || rule == kAlways;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model::kTaskStateCount; ++i)
    if (const auto state = static_cast<model::TaskState>(i); early || model::IsTerminal(state))
      names.emplace_back(model::TaskStateName(state));
  return Type::OneOf(std::move(names));
}

/// "with os = mac; give it a value there": the combination that lacks `name`; empty if all have it.
std::string AbsentIn(const Matrix& matrix, std::string_view name) {
  for (const json::object& combination : matrix.combinations) {
    if (combination.contains(name)) continue;
    std::string values;
    for (const auto& member : combination)
      values += fmt::format("{}{} = {}", values.empty() ? "with " : ", ",
                            std::string_view(member.key()), CanonicalJson(member.value()));
    return values + "; give it a value there";
  }
  return "";
}

/// One object for all combinations: a text is one of those that they have, a field whose type
/// differs is dyn, and one that some lack says where, unless it is `asked` about before.
Type OfMatrix(const Matrix& matrix, bool asked = false) {
  Fields fields;
  std::map<std::string_view, std::set<std::string_view>> texts;
  for (const json::object& combination : matrix.combinations)
    for (const auto& member : combination) {
      const Type type = OfValue(member.value());
      const auto known = std::ranges::find(fields, member.key(), &Type::Field::name);
      if (known == fields.end())
        fields.push_back({std::string(member.key()), type});
      else if (!(known->type == type))
        known->type = {};
      if (member.value().is_string()) texts[member.key()].insert(member.value().get_string());
    }
  for (Type::Field& field : fields) {
    if (field.type == Type(Type::Kind::kString) && !matrix.faulty)
      field.type = Type::OneOf({texts[field.name].begin(), texts[field.name].end()});
    if (!asked) field.absent = AbsentIn(matrix, field.name);
  }
  return Type::Object(std::move(fields), matrix.faulty);
}

/// The lists of a need that has a matrix, and `one`, what each instance has, as far as it is there.
Type OfInstances(Fields one, Instances needed) {
  constexpr std::pair<std::string_view, std::string_view> kLists[] = {
      {"state", "states"},
      {"output", "outputs"},
      {"matrix", "matrices"},
      {"artifacts", "all_artifacts"}};
  Fields fields;
  for (const auto& [name, list] : kLists) {
    const auto found = std::ranges::find(one, name, &Type::Field::name);
    if (found == one.end()) continue;
    fields.push_back({std::string(list), Type::List(found->type)});
    if (name == "artifacts" && needed == Instances::kSeveral)
      fields.push_back({"artifacts", Type::List(found->type)});
    // A map here and a list there could be read by nobody.
    if (needed == Instances::kSeveral || (name == "artifacts" && needed == Instances::kEither))
      continue;
    if (needed == Instances::kEither)
      found->absent = fmt::format(
          "in combinations that need several; read {}, a list that is there in all", list);
    fields.push_back(std::move(*found));
  }
  return Type::Object(std::move(fields), false);
}

}  // namespace

ExpressionTypes::ExpressionTypes(const WorkflowDraft& draft) : draft_(draft) {
  for (std::size_t i = 0; i < draft.definition.tasks.size(); ++i)
    by_id_.emplace(draft.definition.tasks[i].id, i);
  for (const Matrix& matrix : draft.matrices) matrices_.emplace(matrix.task, &matrix);
  Fields params;
  for (const auto& [name, param] : draft.definition.params)
    params.push_back({name, spec::OfParam(param)});
  params_ = Type::Object(std::move(params), false);
  // The file's own names, so that a misspelt one is found; of very many the list is not made anew
  // for each task that adds one.
  constexpr std::size_t kMostNames = 1'000;
  Fields env;
  for (const auto& [name, value] : draft.definition.env) env.push_back({name, Type::Kind::kString});
  env_ = env.size() > kMostNames ? Type::Map(Type::Kind::kString, Type::Kind::kString)
                                 : Type::Object(std::move(env), false);
  Fields run;
  for (const char* name : {"id", "workflow", "created_at", "date"})
    run.push_back({name, Type::Kind::kString});
  run_ = Type::Object(run, false);
  Fields of_finally = run;
  of_finally.push_back({"outcome", Type::OneOf({"succeeded", "failed", "cancelled"})});
  of_finally.push_back(
      {"reason", Type::OneOf({"", "cancel_requested", "cancel_rest", "run_timeout"})});
  of_finally.push_back({"failed_tasks", Type::List(Type::Kind::kString)});
  run_of_finally_ = Type::Object(of_finally, false);
  for (Fields* fields : {&run, &of_finally}) fields->push_back({"dir", Type::Kind::kString});
  run_of_command_ = Type::Object(std::move(run), false);
  run_of_finally_command_ = Type::Object(std::move(of_finally), false);
}

const Type& ExpressionTypes::RunType(const model::Task& task, bool rendered) const {
  // A function has no folder, and a condition is asked before there is one.
  const bool command = rendered && !std::holds_alternative<model::FunctionAction>(task.action);
  if (task.role == model::TaskRole::kFinally)
    return command ? run_of_finally_command_ : run_of_finally_;
  return command ? run_of_command_ : run_;
}

const Matrix* ExpressionTypes::MatrixOf(std::size_t task) const {
  const auto found = matrices_.find(task);
  return found == matrices_.end() ? nullptr : found->second;
}

Type ExpressionTypes::EnvType(const model::Task& task) const {
  const auto is_new = [&](const auto& variable) {
    return !draft_.definition.env.contains(variable.first);
  };
  if (env_.kind() == Type::Kind::kMap || std::ranges::none_of(task.env, is_new)) return env_;
  Fields fields = env_.fields();
  for (const auto& variable : task.env)
    if (is_new(variable)) fields.push_back({variable.first, Type::Kind::kString});
  return Type::Object(std::move(fields), false);
}

Type ExpressionTypes::NeedType(std::size_t task, std::size_t need, bool rendered) const {
  const model::Task& needed = draft_.definition.tasks[need];
  const Type state = StateType(draft_.definition.tasks[task].trigger_rule);
  Fields one = {{"state", state}, {"output", OutputType(needed)}};
  // Files come to commands, once their conditions hold.
  if (rendered && !needed.artifacts.empty() &&
      !std::holds_alternative<model::FunctionAction>(draft_.definition.tasks[task].action)) {
    Fields paths;
    for (const auto& [name, path] : needed.artifacts) paths.push_back({name, Type::Kind::kString});
    one.push_back({"artifacts", Type::Object(std::move(paths), false)});
  }
  const Matrix* matrix = MatrixOf(need);
  if (matrix == nullptr) return Type::Object(std::move(one), false);
  one.push_back({"matrix", OfMatrix(*matrix)});
  return OfInstances(std::move(one), NeededInstances(MatrixOf(task), *matrix));
}

Type ExpressionTypes::NeedsType(std::size_t task, bool rendered) const {
  Fields fields;
  std::unordered_set<std::string_view> seen;
  for (const std::string& need : draft_.definition.tasks[task].needs) {
    const auto found = by_id_.find(need);
    if (!seen.insert(need).second) continue;
    // One that does not exist is a fault already, and not worth a second.
    fields.push_back(
        {need, found == by_id_.end() ? Type() : NeedType(task, found->second, rendered)});
  }
  return Type::Object(std::move(fields), false);
}

expr::Environment ExpressionTypes::OfParam() const {
  expr::Environment environment;
  Declare(environment, "run", run_);
  Declare(environment, "slot", {});
  return environment;
}

expr::Environment ExpressionTypes::OfKey() const {
  Fields known;
  for (const auto& [name, param] : draft_.definition.params)
    if (!HasTemplateDefault(param)) known.push_back({name, spec::OfParam(param)});
  expr::Environment environment;
  Declare(environment, "params", Type::Object(std::move(known), false));
  Declare(environment, "input", Type::Object({}, true));
  return environment;
}

expr::Environment ExpressionTypes::OfWorkflow() const {
  expr::Environment environment;
  Declare(environment, "run", run_of_command_);
  Declare(environment, "slot", {});
  Declare(environment, "params", params_);
  Declare(environment, "input", Type::Object({}, true));
  Declare(environment, "env", Type::Map(Type::Kind::kString, Type::Kind::kString));
  return environment;
}

expr::Environment ExpressionTypes::OfTask(std::size_t task, bool rendered) const {
  const model::Task& of = draft_.definition.tasks[task];
  expr::Environment environment;
  Declare(environment, "params", params_);
  Declare(environment, "input", Type::Object({}, true));
  Declare(environment, "needs", NeedsType(task, rendered));
  Declare(environment, "run", RunType(of, rendered));
  Declare(environment, "slot", {});
  // A condition about the combination decides for the other texts of the task.
  const auto asks = [](const std::string& when) { return when.find("matrix") != when.npos; };
  if (const Matrix* matrix = MatrixOf(task))
    Declare(environment, "matrix",
            OfMatrix(*matrix, rendered && std::ranges::any_of(of.when, asks)));
  if (rendered) Declare(environment, "env", EnvType(of));
  return environment;
}

}  // namespace headworks::spec
