#include <benchmark/benchmark.h>

#include <boost/json/parse.hpp>
#include <cstdlib>

#include "headworks/expr/program.h"
#include "headworks/expr/template.h"

// What a condition costs.  `expr_bench --benchmark_counters_tabular=true`; the time of an iteration
// is that of one evaluation or compilation.
namespace headworks::expr {
namespace {

constexpr char kCondition[] = "needs.a.output.n > 3 && params.env == \"prod\"";

Environment Declared() {
  Environment environment;
  const Type output = Type::Object({{"n", Type::Kind::kInt}}, true);
  const Type task = Type::Object({{"output", output}}, false);
  if (!environment.Declare("needs", Type::Object({{"a", task}}, false)) ||
      !environment.Declare("params", Type::Object({{"env", Type::Kind::kString}}, false))) {
    std::abort();
  }
  return environment;
}

boost::json::object Variables() {
  return boost::json::parse(
             R"({"needs": {"a": {"output": {"n": 4, "url": "https://example.org"}}},
                 "params": {"env": "prod", "count": 3}})")
      .as_object();
}

void Evaluate(benchmark::State& state, const char* text) {
  const auto program = Program::Compile(text, Declared(), nullptr);
  if (!program) return state.SkipWithError(program.error().message.c_str());
  const auto variables = Variables();
  const Limits limits;
  for (auto unused : state) {
    auto value = program->EvaluateBool(variables, limits);
    if (!value || !*value) return state.SkipWithError("not true");
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK_CAPTURE(Evaluate, condition, kCondition);
BENCHMARK_CAPTURE(Evaluate, macro, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].exists(x, x * 2 == 20)");
BENCHMARK_CAPTURE(Evaluate, matches, "needs.a.output.url.matches('^https?://[a-z.]+$')");

void Compile(benchmark::State& state) {
  const Environment environment = Declared();
  for (auto unused : state) {
    auto program = Program::Compile(kCondition, environment, nullptr);
    if (!program) return state.SkipWithError("does not compile");
    benchmark::DoNotOptimize(program);
  }
}
BENCHMARK(Compile);

void Render(benchmark::State& state) {
  const auto made =
      Template::Parse("n is ${{ needs.a.output.n }} in ${{ params.env }}", Declared(), nullptr);
  if (!made) return state.SkipWithError("does not compile");
  const auto variables = Variables();
  for (auto unused : state) {
    auto value = made->Render(variables, {});
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK(Render);

}  // namespace
}  // namespace headworks::expr

BENCHMARK_MAIN();
