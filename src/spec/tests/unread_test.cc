#include "parse.h"

namespace headworks::spec {
namespace {

/// "line:column message" of each warning about a workflow with this task.
std::vector<std::string> WarningsOf(std::string_view task, std::string_view before = "") {
  std::vector<Fault> warnings;
  const auto result =
      ParseWorkflow(fmt::format("version: 1\n{}tasks:\n  t: {{{}}}\n", before, task), "w.yaml",
                    "/srv", &warnings);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  std::vector<std::string> all;
  for (const Fault& warning : warnings) {
    EXPECT_EQ(warning.code, "HW1018");
    EXPECT_NE(Explain(warning.code), nullptr);
    all.push_back(fmt::format("{}:{} {}", warning.line, warning.column, warning.message));
  }
  return all;
}

using All = std::vector<std::string>;

TEST(Unread, VariablesWhereNoShellReads) {
  EXPECT_EQ(
      WarningsOf("run: x, env: {W: $HEADWORKS_SCRATCH}"),
      All{"3:24 no shell reads $HEADWORKS_SCRATCH here, so it is text; write ${{ run.dir }}"});
  EXPECT_EQ(WarningsOf("run: x, env: {DAY: 'd-${DAY}'}", "params: {day: x}\n"), All{})
      << "in the middle of a word it may be a password";
  EXPECT_EQ(WarningsOf("run: x, env: {W: '/srv/${DAY}'}", "params: {day: x}\n"),
            All{"4:30 no shell reads $DAY here, so it is text; write ${{ params.day }}"});
  EXPECT_EQ(
      WarningsOf("run: x, env: {P: '/opt/bin:$PATH'}"),
      All{"3:34 no shell reads $PATH here, so it is text; let a script read it, under run, or "
          "write an expression, ${{ }}"});
  EXPECT_EQ(WarningsOf("run: x, env: {D: $(date +%F)}").size(), 1U);
  EXPECT_EQ(WarningsOf("exec: [cp, $SRC, --to=$DST]").size(), 2U);
  EXPECT_EQ(WarningsOf("run: x", "env: {A: $HOME}\n").size(), 1U);
  EXPECT_EQ(WarningsOf("run: x", "defaults: {env: {A: $HOME}}\n").size(), 1U);
  EXPECT_EQ(WarningsOf("run: x, matrix: {a: [1, 2]}, env: {W: $HOME}").size(), 1U) << "once";
}

TEST(Unread, WhatAShellOrAnotherProgramReadsIsLeftAlone) {
  EXPECT_EQ(WarningsOf("run: 'echo $HOME ${HOME} $(date)'"), All{});
  EXPECT_EQ(WarningsOf("exec: [/bin/sh, -c, 'echo $HOME']"), All{});
  EXPECT_EQ(WarningsOf("exec: [awk, '{print $NF}', f]"), All{});
  EXPECT_EQ(WarningsOf("exec: [grep, '$1', 'x$']"), All{});
  EXPECT_EQ(WarningsOf("run: x, env: {PASSWORD: 'a$B1c', PRICE: $5, S: $x, J: '$A'}"), All{});
  EXPECT_EQ(WarningsOf("run: x, env: {D: '${{ run.dir }}', E: '$${{ run.id }}'}"), All{});
}

TEST(Unread, TemplatesOfOtherTools) {
  EXPECT_EQ(WarningsOf("run: 'echo {{ params.day }}'"),
            All{"3:18 this is text as it stands; an expression begins with a dollar, "
                "${{ params.day }}"});
  EXPECT_EQ(WarningsOf("run: x, env: {D: '{{ ds }}'}").size(), 1U);
  EXPECT_EQ(WarningsOf("exec: [cat, '{{inputs.file}}']").size(), 1U);
  EXPECT_EQ(WarningsOf("run: x", "params: {day: '{{ ds }}'}\n").size(), 1U);
  EXPECT_EQ(WarningsOf("run: \"docker inspect -f '{{.State}} {{json .Mounts}}' c\""), All{});
  EXPECT_EQ(WarningsOf("run: 'echo ${{ run.id }} {{ x }} {{ runner }}'"), All{});
}

}  // namespace
}  // namespace headworks::spec
