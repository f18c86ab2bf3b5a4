#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "expressions.h"
#include "headworks/expr/template.h"

namespace headworks::expr {
namespace {

TEST(Program, ManyThreadsShareOne) {
  const auto program = Program::Compile(
      "params.env.matches('^p.*d$') && x.list.exists(e, e == 3) && '%s'.format([y]) == '7'",
      TestEnvironment(), nullptr);
  ASSERT_TRUE(program) << program.error().message;
  const auto made = Template::Parse("${{ params.env }}-${{ y }}", TestEnvironment(), nullptr);
  ASSERT_TRUE(made) << made.error().message;
  const auto variables = TestVariables();
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([copy = *program, &made, &variables] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(copy.EvaluateBool(variables, {}).value_or(false));
        EXPECT_EQ(made->Render(variables, {}), "prod-7");
      }
    });
  }
}

}  // namespace
}  // namespace headworks::expr
