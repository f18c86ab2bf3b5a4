#include "headworks/spec/params.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <vector>

#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks::spec {
namespace json = boost::json;
namespace {

std::string_view TypeName(const json::value& value) {
  switch (value.kind()) {
    case json::kind::string:
      return "text";
    case json::kind::bool_:
      return "true or false";
    case json::kind::array:
      return "a JSON list, e.g. [1, 2]";
    case json::kind::object:
      return "a JSON object, e.g. {\"a\": 1}";
    case json::kind::null:
      return "anything";
    default:
      return "a number";
  }
}

bool SameType(const json::value& a, const json::value& b) {
  return a.kind() == b.kind() || (a.is_number() && b.is_number());
}

/// `text` as the type of `usual`; nullopt if it is not of that type.
std::optional<json::value> Coerce(std::string_view text, const json::value& usual) {
  const auto as_text = [&] { return json::value(json::string_view(text.data(), text.size())); };
  if (usual.is_string()) return as_text();
  const auto parsed = ParseJson(text, {});
  if (usual.is_null())
    return parsed && (parsed->is_object() || parsed->is_array()) ? *parsed : as_text();
  if (!parsed || !SameType(*parsed, usual)) return std::nullopt;
  return *parsed;
}

/// Reads assignments one by one and keeps what was wrong.
class Assigner {
 public:
  explicit Assigner(const model::WorkflowDefinition& workflow) {
    for (const auto& [name, param] : workflow.params) {
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
    const json::value& usual = usual_.at(name);
    if (auto coerced = Coerce(text, usual))
      *value = std::move(*coerced);
    else
      Fault("HW1203",
            fmt::format("parameter {} takes {}, not {}", name, TypeName(usual), QuoteJson(text)));
  }

  void Fault(std::string_view code, const std::string& message) {
    fmt::format_to(std::back_inserter(faults_), "{}{} {}", faults_.empty() ? "" : "\n", code,
                   message);
  }

  /// The values, or what was wrong.
  Result<json::object> Finish() {
    for (const auto& param : usual_)
      if (param.value().is_null() && !given_.contains(param.key()))
        Fault("HW1202", fmt::format("parameter {} has no default and must be given: -p {}=VALUE",
                                    std::string_view(param.key()), std::string_view(param.key())));
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

  std::vector<std::string_view> names_;
  json::object usual_, values_, given_;
  std::string faults_;
};

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

}  // namespace headworks::spec
