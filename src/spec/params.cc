#include "headworks/spec/params.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <vector>

#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/expr/program.h"
#include "headworks/expr/template.h"
#include "headworks/model/declared_type.h"
#include "param_value.h"

namespace headworks::spec {
namespace json = boost::json;
namespace {

/// The declared type, or what the default shows.
model::ParamType TypeOf(const model::Param& param, const json::value& usual) {
  return param.type == model::ParamType::kAny ? TypeOfValue(usual) : param.type;
}

/// `text` as a value of `type`; nullopt if JSON was needed and it is none.
std::optional<json::value> Coerce(std::string_view text, model::ParamType type) {
  using model::ParamType;
  const auto as_text = [&] { return json::value(json::string_view(text.data(), text.size())); };
  if (type == ParamType::kString || type == ParamType::kDate || type == ParamType::kDateTime)
    return as_text();
  const auto parsed = ParseJson(text, {});
  if (type == ParamType::kAny)
    return parsed && (parsed->is_object() || parsed->is_array()) ? *parsed : as_text();
  return parsed ? std::optional(*parsed) : std::nullopt;
}

/// Reads assignments one by one and keeps what was wrong.
class Assigner {
 public:
  explicit Assigner(const model::WorkflowDefinition& workflow) : params_(workflow.params) {
    for (const auto& [name, param] : params_) {
      names_.push_back(name);
      const auto value = ParseJson(param.default_json, {});
      values_[name] = value ? *value : json::value();
    }
    usual_ = values_;
  }

  void Assign(std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return Fault("HW1204",
                   fmt::format("{} is no assignment; write name=value", QuoteJson(assignment)));
    const std::string_view name = assignment.substr(0, equals);
    const std::string_view text = assignment.substr(equals + 1);
    json::value* value = values_.if_contains(name);
    if (value == nullptr) return Unknown(name);
    if (ValidUtf8Prefix(text) != text.size())
      return Fault("HW1203", fmt::format("the value of parameter {} is not UTF-8", name));
    if (!given_.emplace(name, json::value()).second)
      return Fault("HW1204", fmt::format("parameter {} is given twice; keep one", name));
    model::Param param = params_.at(std::string(name));
    param.type = TypeOf(param, usual_.at(name));
    // A number is a number, however the default is written.
    if (param.type == model::ParamType::kInteger &&
        params_.at(std::string(name)).type != param.type)
      param.type = model::ParamType::kNumber;
    auto coerced = Coerce(text, param.type);
    const std::string problem =
        coerced ? ParamProblem(param, *coerced) : std::string(model::DescribeType(param.type));
    if (problem.empty())
      *value = std::move(*coerced);
    else
      Fault("HW1203", fmt::format("parameter {} takes {}, not {}", name, problem, QuoteJson(text)));
  }

  void Fault(std::string_view code, const std::string& message) {
    fmt::format_to(std::back_inserter(faults_), "{}{} {}", faults_.empty() ? "" : "\n", code,
                   message);
  }

  /// The values, or what was wrong.
  Result<json::object> Finish() {
    for (const auto& [name, param] : params_) {
      if (given_.contains(name)) continue;
      if (param.required)
        Fault("HW1202",
              fmt::format("parameter {0} has no default and must be given: -p {0}=VALUE", name));
      if (HasTemplate(usual_.at(name))) values_.erase(name);
    }
    if (!faults_.empty()) return Error{Code::kInvalidArgument, std::move(faults_)};
    return std::move(values_);
  }

 private:
  void Unknown(std::string_view name) {
    const std::string hint = DidYouMean(name, names_);
    std::string known = names_.empty() ? std::string("; the workflow takes none")
                                       : fmt::format("; known: {}", fmt::join(names_, ", "));
    Fault("HW1201", fmt::format("the workflow has no parameter {}{}", QuoteJson(name),
                                hint.empty() ? known : hint));
  }

  const std::map<std::string, model::Param>& params_;
  std::vector<std::string_view> names_;
  json::object usual_, values_, given_;
  std::string faults_;
};

/// Puts values into all templates of `value`.
Status RenderTexts(json::value& value, const expr::Environment& environment,
                   const json::object& variables) {
  if (json::array* array = value.if_array())
    for (json::value& element : *array) HEADWORKS_TRY(RenderTexts(element, environment, variables));
  if (json::object* object = value.if_object())
    for (auto& member : *object) HEADWORKS_TRY(RenderTexts(member.value(), environment, variables));
  if (!value.is_string() || !HasTemplate(value)) return {};
  HEADWORKS_ASSIGN(const auto made, expr::Template::Parse(std::string_view(value.get_string()),
                                                          environment, nullptr));
  HEADWORKS_ASSIGN(value, made.Render(variables, {}));
  return {};
}

}  // namespace

Result<std::string> ParseParams(const model::WorkflowDefinition& workflow,
                                std::span<const std::string> assignments,
                                std::string_view input_json) {
  Assigner assigner(workflow);
  for (const std::string& assignment : assignments) assigner.Assign(assignment);
  auto input = ParseJsonObject(input_json.empty() ? "{}" : input_json, "the input", {});
  if (!input) assigner.Fault("HW1205", input.error().message);
  HEADWORKS_ASSIGN(json::object params, assigner.Finish());
  return CanonicalJson(json::object{{"input", *std::move(input)}, {"params", std::move(params)}});
}

Result<std::optional<std::string>> ConcurrencyKey(const model::WorkflowDefinition& workflow,
                                                  std::string_view input_json) {
  constexpr std::size_t kLongest = 256;
  if (!workflow.concurrency) return std::optional<std::string>();
  const std::string& text = workflow.concurrency->key;
  if (text.empty()) return std::optional<std::string>("");
  const auto wrong = [&](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("concurrency.key `{}` of workflow {}: {}",
                                                     text, workflow.name.workflow, what)};
  };
  expr::Environment environment;
  for (const char* variable : {"params", "input"})
    HEADWORKS_TRY(environment.Declare(variable, expr::Type()));
  HEADWORKS_ASSIGN(const json::object variables, ParseJsonObject(input_json, "the input", {}));
  const auto program = expr::Program::Compile(text, environment, nullptr);
  if (!program) return wrong(program.error().message);
  const auto value = program->Evaluate(variables, {});
  if (!value) return wrong(value.error().message);
  std::string key;
  if (value->is_string())
    key = std::string_view(value->get_string());
  else if (value->is_int64() || value->is_uint64() || value->is_bool())
    key = CanonicalJson(*value);
  else
    return wrong("its value is no text, whole number or boolean");
  if (key.size() > kLongest)
    return wrong(fmt::format("its value has {} bytes, at most {} are taken", key.size(), kLongest));
  return std::optional(std::move(key));
}

bool HasTemplateDefault(const model::Param& param) {
  const auto value = ParseJson(param.default_json, {});
  return value && HasTemplate(*value);
}

Result<json::value> RenderDefault(std::string_view name, const model::Param& param,
                                  const json::object& variables) {
  expr::Environment environment;
  for (const char* variable : {"run", "slot"})
    HEADWORKS_TRY(environment.Declare(variable, expr::Type()));
  HEADWORKS_ASSIGN(json::value value, ParseJson(param.default_json, {}));
  const Status rendered = RenderTexts(value, environment, variables);
  if (!rendered)
    return Error{rendered.error().code,
                 fmt::format("parameter {}: {}", name, rendered.error().message)};
  if (value.is_null()) return value;
  HEADWORKS_TRY(CheckParam(name, param, value));
  return value;
}

Status RenderDefaults(const model::WorkflowDefinition& workflow, json::object& context) {
  json::object& given = context.at("params").as_object();
  for (const auto& [name, param] : workflow.params) {
    if (given.contains(name) || !HasTemplateDefault(param)) continue;
    HEADWORKS_ASSIGN(given[name], RenderDefault(name, param, context));
  }
  return {};
}

}  // namespace headworks::spec
