#include "parse.h"

namespace headworks::spec {
namespace {

using Faults = std::vector<std::string>;

TEST(Recovery, OneSlipDoesNotHideTheRest) {
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a: {run: x, nope: 1}\n  b:\n    run: echo a: b\n"
                     "  c: {run: y, nope: 2}\nnope: 3\n"),
            (Faults{"3:15 HW1006", "5:16 HW1002", "6:15 HW1006", "7:1 HW1006"}));
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a:\n    run: x\n   b: 1\n  c: {run: y, nope: 2}\n"
                     "  d: {run: a: b: c}\n  e: {run: y, nope: 2}\nnope: 3\n"),
            (Faults{"5:4 HW1002", "6:15 HW1006", "7:13 HW1002", "8:15 HW1006", "9:1 HW1006"}))
      << "several slips";
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n\ta: {run: x}\n  c: {run: y}\nnope: 3\n"),
            (Faults{"3:1 HW1002", "5:1 HW1006"}))
      << "where a task cannot be left out alone, all of them are";
}

TEST(Recovery, WhatIsNeverClosedIsFoundWhereItWasOpened) {
  EXPECT_EQ(FaultsOf("version: 1\ntasks:\n  a: {run: x\n  c: {run: y, nope: 2}\n  d: {run: y}\n"),
            (Faults{"3:6 HW1002", "4:15 HW1006"}));
  EXPECT_EQ(
      FaultsOf("version: 1\ntasks:\n  a:\n    exec: [a, \"]\", '[', b\n  c: {run: y, no: 2}\n"),
      (Faults{"4:11 HW1002", "5:15 HW1006"}));
  for (const char quote : {'"', '\''})
    EXPECT_EQ(FaultsOf(fmt::format(
                  "version: 1\ntasks:\n  a:\n    run: {}x\n  c: {{run: y, no: 2}}\n", quote)),
              (Faults{"4:10 HW1002", "5:15 HW1006"}));
  EXPECT_EQ(FaultsOf("version: 1\ntasks: {a: {run: 'it''s'}}\n"), Faults{});
  EXPECT_EQ(FaultsOf("version: 1\ntasks: {a: {run: \"a\\\"\"}}"), Faults{});
  EXPECT_EQ(FaultsOf("version: 1\ntasks: {a: {run: x}}\nname: \"w\\\""), Faults{"3:7 HW1002"});
}

TEST(Recovery, SaysNothingThatTheMissingPartExplains) {
  EXPECT_EQ(FaultsOf("tasks:\n  a: {run: b: c}\n  d: {run: x, needs: a, when: needs.a.x}\n"),
            Faults{"2:13 HW1002"});
  EXPECT_EQ(FaultsOf("{\"version\": 1, \"tasks\": {\"a\": {\"run\" \"x\"}}}").size(), 1U);
}

TEST(Recovery, TheRestIsCheckedAsAWhole) {
  EXPECT_EQ(FaultsOf(R"(version: 1
tasks:
  slip: {run: a: b}
  a: {run: x, priority: 5000}
  b: {run: x, needs: [c, c]}
  c: {run: x}
  1st: {run: x}
  d: {run: x, when: 1 + 1}
  e: {exec: [sh, -c, '${{ run.id }}']}
  f: {run: "echo ${{ run.id +}}"}
)"),
            (Faults{"3:16 HW1002", "4:25 HW1111", "5:26 HW1107", "7:3 HW1103", "8:21 HW1303",
                    "9:27 HW1305", "10:30 HW1301"}));
}

TEST(Recovery, WhatDefaultsExplainIsNotTold) {
  const std::string task =
      "tasks:\n  a: {run: x, retry: {initial: 1h}}\n  b: {run: 'echo $((${{ run.id }}))'}\n";
  EXPECT_EQ(FaultsOf("version: 1\ndefaults:\n  cwd: a: b\n" + task).size(), 1U);
  EXPECT_EQ(FaultsOf("version: 1\nenv:\n  A: a: b\n" + task).size(), 4U);
  EXPECT_EQ(FaultsOf("version: 1\nparams:\n  p: a: b\nname: w\ntasks:\n"
                     "  a: {run: echo, when: params.p == 1}\n"),
            Faults{"3:7 HW1002"});
}

TEST(Recovery, IsBounded) {
  std::string text = "version: 1\ntasks:\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("  t{}: {{run: a: b}}\n", i);
  EXPECT_EQ(FaultsOf(text).size(), 21U) << "the first, and 20 readings";
}

}  // namespace
}  // namespace headworks::spec
