/// What workflow files and their expressions cost, in processor time: nothing of it waits.

#include <fmt/format.h>

#include <boost/json.hpp>
#include <string>

#include "bench.h"
#include "headworks/expr/program.h"
#include "headworks/spec/workflow_file.h"

namespace headworks::bench {
namespace {

using expr::Environment;
using expr::Program;
using expr::Type;

constexpr std::string_view kCondition = "needs.a.output.n > 3 && params.env == \"prod\"";

Environment Declared() {
  Environment environment;
  const Type output = Type::Object({{"n", Type::Kind::kInt}}, true);
  const Type task = Type::Object({{"output", output}}, false);
  if (!environment.Declare("needs", Type::Object({{"a", task}}, false)) ||
      !environment.Declare("params", Type::Object({{"env", Type::Kind::kString}}, false)))
    Die("the variables cannot be declared");
  return environment;
}

Program Compiled(const Environment& environment, std::string_view text) {
  auto program = Program::Compile(text, environment, nullptr);
  if (!program) Die(program.error().message);
  return *std::move(program);
}

/// Microseconds of processor time for each of `times` calls.
template <typename Call>
double CpuMicros(int times, const Call& call) {
  const Stopwatch watch;
  for (int i = 0; i < times; ++i) call();
  return watch.Cpu() * 1e6 / times;
}

double EvaluationMicros(std::string_view text, int times) {
  const Program program = Compiled(Declared(), text);
  const auto variables =
      boost::json::parse(R"({"needs": {"a": {"output": {"n": 4, "url": "https://example.org"}}},
                             "params": {"env": "prod"}})")
          .as_object();
  const expr::Limits limits;
  return CpuMicros(times, [&] {
    const auto value = program.EvaluateBool(variables, limits);
    if (!value || !*value) Die("an expression is not true");
  });
}

/// A file whose tasks have what the fullest have: a script with an expression, a condition,
/// retries.
double FileMicros(int tasks) {
  std::string text = "version: 1\nparams: {env: dev, n: 1}\ntasks:\n";
  for (int i = 0; i < tasks; ++i)
    text += fmt::format(
        "  task_{}:\n    needs: [{}]\n    run: echo ${{{{ params.n }}}} {}\n"
        "    when: params.env == 'dev'\n    retry: {{max_attempts: 3}}\n",
        i, i == 0 ? "" : fmt::format("task_{}", i / 2), i);
  return CpuMicros(1,
                   [&] {
                     const auto definition = spec::ParseWorkflow(text, "bench.yaml", "/");
                     if (!definition) Die(definition.error().message);
                   }) /
         tasks;
}

}  // namespace

Figures LanguageCost(const Options& options) {
  const int times = options.quick ? 1'000 : 1'000'000;
  const int tasks = options.quick ? 1'000 : 100'000;
  Figures figures;
  const auto add = [&](std::string what, double micros, std::string aim = {}) {
    figures.push_back({.workload = "lang",
                       .what = std::move(what),
                       .unit = "us",
                       .engine = micros,
                       .smaller_is_better = true,
                       .engine_cpu_us = micros,
                       .aim = std::move(aim)});
  };
  add("evaluating a condition", EvaluationMicros(kCondition, times), "1 us");
  add("evaluating a macro over ten elements",
      EvaluationMicros("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].exists(x, x * 2 == 20)", times));
  add("evaluating a match of a regular expression",
      EvaluationMicros("needs.a.output.url.matches('^https?://[a-z.]+$')", times));
  const Environment environment = Declared();
  add("compiling a condition", CpuMicros(times / 10, [&] { Compiled(environment, kCondition); }),
      "20 us");
  add(fmt::format("reading and checking a file, for each of its {} tasks", tasks),
      FileMicros(tasks), "30 us");
  return figures;
}

}  // namespace headworks::bench
