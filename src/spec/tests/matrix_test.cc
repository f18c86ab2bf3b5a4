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
            (Faults{"5:36 HW1016", "5:45 HW1016", "5:54 HW1009", "5:57 HW1009"}));
  EXPECT_EQ(FaultsOfMatrix("{os: [a], exclude: [{os: a}]}"), Faults{"5:32 HW1016"});
  EXPECT_EQ(FaultsOfMatrix("{os: [a], py: [1], include: [{os: a}, {os: b}, {os: b, py: 1}]}"),
            (Faults{"5:42 HW1016", "5:51 HW1016"}));
  EXPECT_EQ(FaultsOfMatrix("{os: [a], include: x, exclude: y}"),
            (Faults{"5:32 HW1009", "5:44 HW1009"}));
  EXPECT_EQ(FaultsOfMatrix("{include: [{a: 1}, {a: 1}]}"), Faults{"5:13 HW1016"});
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
