#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/json.h"
#include "headworks/expr/program.h"

namespace headworks::expr {

/// What most tests evaluate in: params and needs as a workflow would have them, x and y of any
/// type.
inline Environment TestEnvironment() {
  Environment environment;
  const Type output = Type::Object({{"n", Type::Kind::kInt}, {"url", Type::Kind::kString}}, true);
  const Type task = Type::Object({{"output", output}}, false);
  EXPECT_TRUE(
      environment.Declare("needs", Type::Object({{"a", task}, {"build-x86", task}}, false)));
  EXPECT_TRUE(
      environment.Declare("params", Type::Object({{"env", Type::Kind::kString},
                                                  {"count", Type::Kind::kInt},
                                                  {"rate", Type::Kind::kDouble},
                                                  {"tags", Type::List(Type::Kind::kString)},
                                                  {"note", Type::Nullable(Type::Kind::kString)}},
                                                 false)));
  EXPECT_TRUE(environment.Declare("x", {}));
  EXPECT_TRUE(environment.Declare("y", {}));
  return environment;
}

inline boost::json::object TestVariables() {
  return boost::json::parse(R"({
    "needs": {"a": {"output": {"n": 4, "url": "https://example.org"}},
              "build-x86": {"output": {"n": 5, "url": ""}}},
    "params": {"env": "prod", "count": 3, "rate": 2.5, "tags": ["a", "b"], "note": null},
    "x": {"list": [1, 2, 3], "map": {"k": "v"}, "null": null, "text": "tëxt", "big": 1e300,
          "huge": 18446744073709551615},
    "y": 7})")
      .as_object();
}

/// The value of `text` as canonical JSON; or "error: " and the message; or "fault: " and the
/// messages of all faults, joined by " | ".
inline std::string Evaluated(std::string_view text, const Limits& limits = {}) {
  std::vector<Fault> faults;
  const auto program = Program::Compile(text, TestEnvironment(), &faults);
  if (!program) {
    std::string all;
    for (const Fault& fault : faults) {
      EXPECT_LE(fault.offset + fault.length, text.size()) << text;
      all += (all.empty() ? "fault: " : " | ") + fault.message;
    }
    return all;
  }
  const auto value = program->Evaluate(TestVariables(), limits);
  return value ? CanonicalJson(*value) : "error: " + value.error().message;
}

}  // namespace headworks::expr
