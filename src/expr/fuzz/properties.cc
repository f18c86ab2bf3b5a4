#include "fuzz/properties.h"

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/expr/program.h"
#include "headworks/expr/shell_template.h"
#include "headworks/expr/template.h"

namespace headworks::expr {
namespace {

constexpr Limits kLimits = {.max_cost = 20'000, .max_bytes = 1U << 20};

const Environment& Declared() {
  static const Environment kEnvironment = [] {
    using Kind = Type::Kind;
    const Type output = Type::Object({{"n", Kind::kInt}, {"url", Kind::kString}}, true);
    const Type task = Type::Object({{"output", output}}, false);
    const Type params = Type::Object({{"env", Kind::kString},
                                      {"count", Kind::kInt},
                                      {"rate", Kind::kDouble},
                                      {"tags", Type::List(Kind::kString)},
                                      {"note", Type::Nullable(Kind::kString)}},
                                     false);
    Environment environment;
    HEADWORKS_CHECK(environment.Declare("params", params));
    HEADWORKS_CHECK(
        environment.Declare("needs", Type::Object({{"a", task}, {"build-x86", task}}, false)));
    HEADWORKS_CHECK(environment.Declare("x", {}) && environment.Declare("y", {}));
    return environment;
  }();
  return kEnvironment;
}

const boost::json::object& Variables() {
  static const boost::json::object kVariables = boost::json::parse(R"({
    "params": {"env": "prod", "count": 3, "rate": 2.5, "tags": ["a", "b"], "note": null},
    "needs": {"a": {"output": {"n": 4, "url": "u"}}, "build-x86": {"output": {"n": 5, "url": ""}}},
    "x": {"list": [1, 2, 3], "map": {"k": "v"}, "huge": 18446744073709551615}, "y": 7})")
                                                    .as_object();
  return kVariables;
}

/// Whether a value may have come from an expression of `type`.
bool IsOf(const boost::json::value& value, const Type& type) {
  if (type.is_dyn() || (value.is_null() && type.nullable())) return true;
  switch (type.kind()) {
    case Type::Kind::kNull:
      return value.is_null();
    case Type::Kind::kBool:
      return value.is_bool();
    case Type::Kind::kInt:
    case Type::Kind::kUint:
      return value.is_int64();
    case Type::Kind::kDouble:
      return value.is_double();
    case Type::Kind::kString:
    case Type::Kind::kBytes:
    case Type::Kind::kTimestamp:
    case Type::Kind::kDuration:
      return value.is_string();
    case Type::Kind::kList:
      if (!value.is_array()) return false;
      for (const auto& element : value.get_array()) {
        if (!IsOf(element, type.element())) return false;
      }
      return true;
    case Type::Kind::kMap:
    case Type::Kind::kObject:
      return value.is_object();
    default:
      return false;
  }
}

void CheckFaults(bool made, const std::vector<Fault>& faults, std::string_view text) {
  HEADWORKS_CHECK(made == faults.empty());
  for (const Fault& fault : faults) {
    HEADWORKS_CHECK(!fault.message.empty());
    HEADWORKS_CHECK(fault.offset <= text.size() && fault.length <= text.size() - fault.offset);
  }
}

template <typename T>
void CheckError(const Result<T>& result) {
  if (result) return;
  const Error& error = result.error();
  HEADWORKS_CHECK(error.code == Code::kInvalidArgument || error.code == Code::kAtCapacity);
  HEADWORKS_CHECK(!error.message.empty());
}

}  // namespace

void CheckExpression(std::string_view text) {
  std::vector<Fault> faults;
  const auto program = Program::Compile(text, Declared(), &faults);
  CheckFaults(program.has_value(), faults, text);
  if (!program) return;
  for (const Reference& reference : program->references()) {
    HEADWORKS_CHECK(text.substr(reference.offset).starts_with(reference.variable));
  }
  const auto value = program->Evaluate(Variables(), kLimits);
  const auto again = program->Evaluate(Variables(), kLimits);
  CheckError(value);
  CheckError(program->EvaluateText(Variables(), kLimits));
  HEADWORKS_CHECK(value.has_value() == again.has_value());
  if (!value) {
    HEADWORKS_CHECK(value.error() == again.error());
    return;
  }
  HEADWORKS_CHECK(CanonicalJson(*value) == CanonicalJson(*again));
  HEADWORKS_CHECK(IsOf(*value, program->type()));
}

void CheckTemplate(std::string_view text) {
  std::vector<Fault> faults;
  const auto made = Template::Parse(text, Declared(), &faults);
  CheckFaults(made.has_value(), faults, text);
  if (made) {
    CheckError(made->Render(Variables(), kLimits));
    CheckError(made->RenderArgument(Variables(), kLimits));
    if (text.find("${{") == std::string_view::npos) {
      const auto same = made->Render(Variables(), kLimits);
      HEADWORKS_CHECK(same && same->as_string() == text);
    }
  }
  for (const Shell shell : {Shell::kSh, Shell::kBash, Shell::kOther}) {
    faults.clear();
    const auto script = ShellTemplate::Parse(text, shell, Declared(), &faults);
    CheckFaults(script.has_value(), faults, text);
    if (!script) continue;
    CheckError(script->Bind(Variables(), kLimits));
    if (text.find("${{") == std::string_view::npos) HEADWORKS_CHECK(script->script() == text);
    HEADWORKS_CHECK(script->has_expressions() ==
                        (script->script().find("${HEADWORKS_V1}") != std::string::npos) ||
                    text.find("${HEADWORKS_V1}") != std::string_view::npos);
  }
}

}  // namespace headworks::expr
