#include "parse.h"

namespace headworks::spec {
namespace {

using All = std::vector<std::string>;

/// "line:column message" of each warning about a workflow with these tasks.
All WarningsOf(std::string_view tasks) {
  std::vector<Fault> warnings;
  const auto result =
      ParseWorkflow(fmt::format("version: 1\ntasks:\n{}", tasks), "w.yaml", "/srv", &warnings);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  All all;
  for (const Fault& warning : warnings) {
    EXPECT_EQ(warning.code, "HW1307");
    EXPECT_NE(Explain(warning.code), nullptr);
    all.push_back(fmt::format("{}:{} {}", warning.line, warning.column, warning.message));
  }
  return all;
}

/// Of a task `t` with these keys that needs `a`, which may fail.
All OfFailing(std::string_view keys) {
  return WarningsOf(
      fmt::format("  a: {{run: x, allow_failure: true, output: {{type: {{n: integer}}}}}}\n"
                  "  t: {{needs: a, {}}}\n",
                  keys));
}

TEST(MissingOutput, OfATaskThatMayFailIsWarnedOf) {
  EXPECT_EQ(OfFailing("run: x, when: needs.a.output.n > 3"),
            All{"4:31 needs.a.output is {} where a failed, which its allow_failure permits: ask "
                "first, has(needs.a.output.n) ? needs.a.output.n : ..., or for needs.a.state"});
  for (const char* text :
       {"run: 'echo ${{ needs.a.output.n }}'", "exec: [x, '${{ needs.a.output.n }}']",
        "run: x, env: {N: '${{ needs.a.output.n }}'}", "run: x, when: 'needs[\"a\"].output.n > 1'"})
    EXPECT_EQ(OfFailing(text).size(), 1U) << text;
  EXPECT_EQ(WarningsOf("  a-b: {run: x, allow_failure: true}\n"
                       "  t: {needs: a-b, run: x, when: 'needs[\"a-b\"].output.n > 3'}\n"),
            All{"4:34 needs[\"a-b\"].output is {} where a-b failed, which its allow_failure "
                "permits: ask first, has(needs[\"a-b\"].output.n) ? needs[\"a-b\"].output.n : ..., "
                "or for needs[\"a-b\"].state"})
      << "also where no type is declared";
}

TEST(MissingOutput, WhoAsksIsNotWarned) {
  for (const char* text :
       {"run: x, when: has(needs.a.output.n) && needs.a.output.n > 3",
        "run: x, when: 'has(needs.a.output.n) ? needs.a.output.n > 3 : false'",
        "run: x, when: needs.a.state == 'succeeded' && needs.a.output.n > 3",
        "run: x, when: 'needs.a.output != {} && needs.a.output.n > 3'",
        "run: x, when: [needs.a.state == 'succeeded', needs.a.output.n > 3]",
        "run: 'echo ${{ needs.a.output.n }}', when: needs.a.state == 'succeeded'",
        "run: 'echo ${{ needs.a.output.n }}', when: has(needs.a.output.n)",
        "exec: [x, '${{ has(needs.a.output.n) ? needs.a.output.n : 0 }}']",
        "run: 'echo ${{ needs.a.state }}'", "run: x"})
    EXPECT_EQ(OfFailing(text), All{}) << text;
}

/// Of a task with this rule that reads the output of `c`, which a condition of `b` may skip.
All OfSkipped(std::string_view rule, std::string_view when = ", when: 1 < 2") {
  return WarningsOf(
      fmt::format("  b: {{run: x{}}}\n  c: {{run: x, needs: b}}\n"
                  "  t: {{needs: c, trigger_rule: {}, run: 'echo ${{{{ needs.c.output.n }}}}'}}\n",
                  when, rule));
}

TEST(MissingOutput, TheTriggerRuleSaysWhoMayLackIt) {
  EXPECT_EQ(OfSkipped("all_success"), All{}) << "runs only if c did";
  EXPECT_EQ(OfSkipped("none_failed"),
            All{"5:59 needs.c.output is {} where c was skipped, which the trigger_rule none_failed "
                "permits: ask first, has(needs.c.output.n) ? needs.c.output.n : ..., or for "
                "needs.c.state"});
  EXPECT_EQ(OfSkipped("none_failed", ""), All{}) << "nothing skips c";
  EXPECT_EQ(OfSkipped("none_failed_min_one_success").size(), 1U);
  for (const char* rule : {"all_done", "always", "one_success", "none_skipped", "all_failed"})
    EXPECT_EQ(OfSkipped(rule, "").size(), 1U) << rule;
  EXPECT_NE(OfSkipped("all_done")
                .at(0)
                .find("where c did not succeed, which the trigger_rule "
                      "all_done permits"),
            std::string::npos);
}

TEST(MissingOutput, IsSaidOnceWhereSeveralShareTheText) {
  EXPECT_EQ(OfFailing("run: 'echo ${{ needs.a.output.n }}', matrix: {k: [1, 2, 3]}").size(), 1U);
}

}  // namespace
}  // namespace headworks::spec
