#include "parse.h"

namespace headworks::spec {
namespace {

using Faults = std::vector<std::string>;
using Ids = std::vector<std::string>;

const model::Task* Find(const model::WorkflowDefinition& d, std::string_view id) {
  for (const model::Task& task : d.tasks)
    if (task.id == id) return &task;
  ADD_FAILURE() << "no task " << id;
  return nullptr;
}

Ids IdsOf(const model::WorkflowDefinition& d) {
  Ids ids;
  for (const model::Task& task : d.tasks) ids.push_back(task.id);
  return ids;
}

Ids InstancesOf(std::string_view matrix) {
  return IdsOf(Good(fmt::format("version: 1\ntasks:\n  t:\n    run: x\n    matrix:\n{}", matrix)));
}

Faults FaultsOfMatrix(std::string_view matrix) {
  return FaultsOf(fmt::format("version: 1\ntasks:\n  t:\n    run: x\n    matrix: {}\n", matrix));
}

TEST(Matrix, OneTaskPerCombinationTheLastAxisFastest) {
  const auto d = Good(
      "version: 1\ntasks:\n  t:\n    run: make\n    matrix: {os: [linux, mac], py: ['3.10', 4]}\n");
  EXPECT_EQ(IdsOf(d), (Ids{"t[linux,3.10]", "t[linux,4]", "t[mac,3.10]", "t[mac,4]"}));
  EXPECT_EQ(d.tasks[3].group, "t");
  EXPECT_EQ(d.tasks[3].matrix, R"({"os":"mac","py":4})");
  EXPECT_EQ(d.tasks[3].action, d.tasks[0].action);
}

TEST(Matrix, ExcludeTakesAwayThenIncludeAdds) {
  EXPECT_EQ(InstancesOf(R"(
      os: [linux, mac]
      py: [3, 4]
      exclude: [{os: mac, py: 3}]
      include:
        - {os: bsd, py: 4, slow: true}
        - {os: linux, flags: -O2}
        - {os: mac, py: 3, flags: -O0}
)"),
            (Ids{"t[linux,3]", "t[linux,4]", "t[mac,4]", "t[bsd,4]", "t[mac,3]"}));
  const auto d = Good(R"(version: 1
tasks:
  t:
    run: x
    matrix: {os: [linux, mac], include: [{os: linux, flags: -O2}, {flags: -g}]}
)");
  EXPECT_EQ(d.tasks[0].matrix, R"({"flags":"-g","os":"linux"})") << "later entries win";
  EXPECT_EQ(d.tasks[1].matrix, R"({"flags":"-g","os":"mac"})");
  EXPECT_EQ(InstancesOf("      include: [{a: 1, b: x}, {a: 2}]\n"), (Ids{"t[1,x]", "t[2]"}));
}

TEST(Matrix, NeedsMeanTheSameCombinationOrAll) {
  const auto d = Good(R"(version: 1
tasks:
  build: {run: x, matrix: {os: [linux, mac], mode: [debug, fast]}}
  test: {needs: build, run: x, matrix: {os: [linux, mac, bsd]}}
  lint: {needs: [build, plain], run: x, matrix: {tool: [a, b]}}
  plain: {run: x}
  pack: {needs: [test, plain], run: x}
)");
  EXPECT_EQ(Find(d, "test[linux]")->needs, (Ids{"build[linux,debug]", "build[linux,fast]"}));
  EXPECT_EQ(Find(d, "test[mac]")->needs, (Ids{"build[mac,debug]", "build[mac,fast]"}));
  EXPECT_EQ(Find(d, "test[bsd]")->needs.size(), 4U) << "no partner: all of them";
  EXPECT_EQ(Find(d, "lint[a]")->needs.size(), 5U) << "no common axis: all of them";
  EXPECT_EQ(Find(d, "pack")->needs, (Ids{"test[linux]", "test[mac]", "test[bsd]", "plain"}));
  EXPECT_TRUE(model::Workflow::Create(d).has_value());
}

TEST(Matrix, WithoutListsNeedsCompareTheNamesThatAllEntriesHave) {
  const auto d = Good(R"(version: 1
tasks:
  build: {run: x, matrix: {include: [{os: linux, cc: gcc}, {os: mac, cc: clang, slow: true}]}}
  test: {needs: build, run: x, matrix: {include: [{cc: clang, os: mac}, {os: linux}]}}
  pack: {needs: build, run: x, matrix: {slow: [true]}}
)");
  EXPECT_EQ(Find(d, "test[clang,mac]")->needs, (Ids{"build[mac,clang,true]"}));
  EXPECT_EQ(Find(d, "test[clang,mac]")->axes, (Ids{"cc", "os"}));
  EXPECT_EQ(Find(d, "test[linux]")->needs, (Ids{"build[linux,gcc]"}));
  EXPECT_EQ(Find(d, "test[linux]")->axes, (Ids{"os"}));
  EXPECT_EQ(Find(d, "pack[true]")->needs.size(), 2U) << "slow is not of all entries";
}

TEST(Matrix, FaultsPointAtTheValue) {
  EXPECT_EQ(FaultsOfMatrix("[a]"), Faults{"5:13 HW1009"});
  EXPECT_EQ(FaultsOfMatrix("{}"), Faults{"5:13 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: linux}"), Faults{"5:18 HW1009"});
  EXPECT_EQ(FaultsOfMatrix("{os: []}"), Faults{"5:18 HW1009"});
  EXPECT_EQ(FaultsOfMatrix("{os: [[a], {b: 1}, ~]}"),
            (Faults{"5:19 HW1009", "5:24 HW1009", "5:32 HW1009"}));
  EXPECT_EQ(FaultsOfMatrix("{o-s: [a]}"), Faults{"5:14 HW1010"});
  EXPECT_EQ(FaultsOfMatrix("{py: [3.10, yes, 1.50, 2]}"),
            (Faults{"5:19 HW1013", "5:25 HW1013", "5:30 HW1013"}));
  EXPECT_EQ(FaultsOfMatrix("{n: [1e400, '1e400']}"), Faults{"5:18 HW1010"});
  EXPECT_NE(MessageOf("version: 1\ntasks: {t: {run: x, matrix: {n: [10.0]}}}\n")
                .find("10.0 is the number 10; write \"10.0\" for the text, or 10 for the number"),
            std::string::npos);
  EXPECT_EQ(
      FaultsOfMatrix("{n: [+1, 0x10, 0o10, -0, 5., 1.20e3, 0.12345678901234567890123]}").size(),
      7U);
  EXPECT_EQ(InstancesOf("      rate: [0.0001, 1e-5, 1.5E-3, .5, 1e3]\n"),
            (Ids{"t[1e-04]", "t[1e-05]", "t[0.0015]", "t[0.5]", "t[1000]"}));
  EXPECT_EQ(FaultsOfMatrix("{n: [0.001, 1e-3]}"), Faults{"5:25 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: [a, b, a]}"), Faults{"5:25 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: [1, '1']}"), Faults{"5:22 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: ['${{ params.os }}']}"), Faults{"5:19 HW1010"});
  EXPECT_EQ(FaultsOfMatrix("{os: [a, b], exclude: [{os: c}, {so: a}, x, {}]}"),
            (Faults{"5:41 HW1016", "5:46 HW1016", "5:54 HW1009", "5:57 HW1009"}));
  EXPECT_EQ(FaultsOfMatrix("{os: [a], exclude: [{os: a}]}"), Faults{"5:32 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: [a], py: [1], include: [{os: a}, {os: b}, {os: b, py: 1}]}"),
            (Faults{"5:42 HW1016", "5:51 HW1016"}));
  EXPECT_EQ(FaultsOfMatrix("{os: [a], include: x, exclude: y}"),
            (Faults{"5:32 HW1009", "5:44 HW1009"}));
  EXPECT_EQ(FaultsOfMatrix("{include: [{a: 1}, {a: 1}]}"), Faults{"5:13 HW1016"});
}

TEST(Matrix, AnExcludeSaysWhatItMeantToName) {
  const auto says = [](std::string_view matrix, std::string_view text) {
    const std::string message =
        MessageOf(fmt::format("version: 1\ntasks: {{t: {{run: x, matrix: {}}}}}\n", matrix));
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says("{os: [linux, mac], exclude: [{os: linx}]}", "os is never linx, did you mean 'linux'?");
  says("{os: [linux, mac], exclude: [{os: bsd}]}", "os is never bsd; its values are linux, mac");
  says("{os: [linux, mac], exclude: [{so: mac}]}",
       "the matrix has no list \"so\", did you mean 'os'?");
  says("{os: [linux, mac], exclude: [{arch: x}]}",
       "the matrix has no list \"arch\"; its lists are os");
  says("{os: [a, b], exclude: [{cc: x}], include: [{os: a, cc: x}]}",
       "its lists are os, and exclude comes before include");
  says("{py: ['3.1', '3.2'], exclude: [{py: 3.1}]}",
       "py is the text \"3.1\" in its list, and 3.1 is something else; write \"3.1\" here");
  says("{py: [3.1, 3.2], exclude: [{py: '3.1'}]}",
       "py is 3.1 in its list, and the text \"3.1\" is something else; write 3.1 here");
  says("{a: [1, 2], b: [1, 2], exclude: [{a: 1}, {a: 1, b: 2}]}",
       "entries before this one take these combinations away; remove it");
}

TEST(Matrix, AnIncludeOfAnotherTypeIsNoFurtherCombination) {
  EXPECT_NE(MessageOf("version: 1\ntasks: {t: {run: x, matrix: {py: ['3.1'], os: [a], include: "
                      "[{py: 3.1, os: b}]}}}\n")
                .find("2:67: HW1016 py is the text \"3.1\" in its list"),
            std::string::npos);
}

TEST(Matrix, ANeedOfAnotherTypeIsAFault) {
  const std::string message = MessageOf(
      "version: 1\ntasks:\n  a: {run: x, matrix: {py: ['3.1', '3.2']}}\n"
      "  b: {needs: a, run: x, matrix: {py: [3.1, 3.2]}}\n");
  EXPECT_NE(message.find("4:33: HW1016 b[3.1] would need all of a: py is 3.1 here and the text "
                         "\"3.1\" there; write both in one way"),
            std::string::npos)
      << message;
}

TEST(Matrix, WhatMayBeASlipIsAWarning) {
  const auto warning = [](std::string_view tasks) {
    std::vector<Fault> warnings;
    const auto result =
        ParseWorkflow(fmt::format("version: 1\ntasks:\n{}", tasks), "w.yaml", "/srv", &warnings);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return warnings.empty() ? "" : warnings.front().ToString();
  };
  const auto of_include = [&](std::string_view entry) {
    return warning(fmt::format(
        "  t: {{run: x, matrix: {{os: [linux, mac], py: [gcc-12], include: [{}]}}}}\n", entry));
  };
  EXPECT_TRUE(of_include("{os: linx, py: gcc-12, flags: x}")
                  .starts_with("w.yaml:3:71: HW1017 this makes a further combination, with linx "
                               "for os, did you mean 'linux'?\n"))
      << of_include("{os: linx, py: gcc-12, flags: x}");
  EXPECT_TRUE(
      of_include("{so: linux, flags: x}")
          .starts_with("w.yaml:3:67: HW1017 \"so\" is none of the lists, so each combination "
                       "that the entry fits gets it, did you mean 'os'?\n"))
      << of_include("{so: linux, flags: x}");
  EXPECT_EQ(of_include("{os: bsd, py: gcc-12}"), "") << "a further combination";
  EXPECT_EQ(of_include("{os: mac, py: gcc-13}"), "") << "another number is another value";
  EXPECT_EQ(of_include("{os: mac, cc: x}"), "") << "a further name";
  const std::string need = "  a: {run: x, matrix: {os: [linux, mac]}}\n";
  EXPECT_TRUE(warning(need + "  b: {needs: a, run: x, matrix: {os: [linx, mac]}}\n")
                  .starts_with("w.yaml:4:33: HW1017 b[linx] needs all of a, for none of it agrees "
                               "in os, did you mean 'linux'?\n"))
      << warning(need + "  b: {needs: a, run: x, matrix: {os: [linx, mac]}}\n");
  EXPECT_TRUE(warning(need + "  b: {needs: a, run: x, matrix: {os: [bsd, win]}}\n")
                  .starts_with("w.yaml:4:33: HW1017 b[bsd] needs all of a, for none of it agrees "
                               "in os\n"));
  EXPECT_EQ(warning(need + "  b: {needs: a, run: x, matrix: {os: [mac]}}\n"), "");
  EXPECT_EQ(warning(need + "  b: {needs: a, run: x, matrix: {arch: [arm]}}\n"), "");
}

TEST(Matrix, FaultsOfATaskAreToldOnceAsItIsWritten) {
  EXPECT_EQ(FaultsOf(R"(version: 1
tasks:
  a: {run: x, matrix: {n: [1, 2, 3]}, needs: [gone, b], priority: 5000}
  b: {run: x, matrix: {n: [1, 2, 3]}, needs: a}
)"),
            (Faults{"3:39 HW1109", "3:47 HW1105", "3:67 HW1111"}));
}

TEST(Matrix, SizeHoldsAtTheBound) {
  const auto list = [](int n) {
    std::string text = "[0";
    for (int i = 1; i < n; ++i) text += fmt::format(", {}", i);
    return text + "]";
  };
  const auto matrix = [&](int a, int b, std::string_view more) {
    return fmt::format("{{a: {}, b: {}{}}}", list(a), list(b), more);
  };
  EXPECT_EQ(InstancesOf("      a: " + list(1'000)).size(), 1'000U);
  EXPECT_EQ(FaultsOfMatrix(matrix(10, 100, "")), Faults{});
  EXPECT_EQ(FaultsOfMatrix(matrix(7, 143, "")), Faults{"5:13 HW1015"});
  EXPECT_EQ(FaultsOfMatrix(matrix(10, 100, ", exclude: [{a: 1, b: 1}], include: [{a: x, b: 1}]")),
            Faults{});
  EXPECT_EQ(FaultsOfMatrix(matrix(10, 100, ", include: [{a: x, b: 1}]")).size(), 1U);
  EXPECT_EQ(FaultsOfMatrix(fmt::format("{{a: {0}, b: {0}, c: {0}, d: {0}}}", list(3'000))),
            Faults{"5:13 HW1015"});
}

TEST(Matrix, NeedsBetweenInstancesAreBounded) {
  std::string numbers = "[0";
  for (int i = 1; i < 1'000; ++i) numbers += fmt::format(", {}", i);
  numbers += "]";
  std::string text = "version: 1\ntasks:\n";
  for (int i = 0; i < 3; ++i)
    text += fmt::format("  t{}: {{run: x, matrix: {{a{}: {}}}}}\n", i, i, numbers);
  EXPECT_EQ(
      Good(text + "  z: {run: x, needs: [t0, t1], matrix: {z: " + numbers + "}}\n").tasks.size(),
      4'000U);
  EXPECT_EQ(FaultsOf(text + "  z: {run: x, needs: [t0, t1, t2], matrix: {z: " + numbers + "}}\n"),
            Faults{"0:0 HW1015"});
}

TEST(Matrix, CopiesCountAsTheFileWrittenOut) {
  std::string numbers = "[0";
  for (int i = 1; i < 1'000; ++i) numbers += fmt::format(", {}", i);
  const std::string script(600'000, 'x');
  EXPECT_EQ(FaultsOf(fmt::format("version: 1\ntasks:\n  t:\n    matrix: {{n: {}]}}\n    run: {}\n",
                                 numbers, script)),
            Faults{"4:13 HW1003"});
}

}  // namespace
}  // namespace headworks::spec
