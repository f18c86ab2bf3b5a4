#include "headworks/model/artifact.h"

#include <gtest/gtest.h>

#include "headworks/model/workflow.h"

namespace headworks::model {
namespace {

const std::string kDigest(64, 'a');

TEST(TaskResult, IsReadAsItWasWritten) {
  for (const TaskResult& result :
       {TaskResult{}, TaskResult{R"({"n":1})", {}}, TaskResult{"", {{"r", {"r.txt", kDigest, 0}}}},
        TaskResult{"{\n  \"spaced\": true\n}",
                   {{"a-b", {"a \"b\".txt", kDigest, 9'000'000'000'000'000'000U, true}},
                    {"r", {"r.txt", kDigest, 7}}}}})
    EXPECT_EQ(ReadResult(WriteResult(result)).value(), result);
}

TEST(TaskResult, WithoutArtifactsIsTheOutputAlone) {
  EXPECT_EQ(WriteResult({R"({"n":1})", {}}), R"({"n":1})");
}

TEST(TaskResult, DamageIsFoundOut) {
  const auto with = [](std::string_view file, std::string_view digest, std::string_view size) {
    return "{}\x1e{\"r\":{\"file\":\"" + std::string(file) + "\",\"sha256\":\"" +
           std::string(digest) + "\",\"size\":" + std::string(size) + "}}";
  };
  EXPECT_TRUE(ReadResult(with("r", kDigest, "1")));
  for (const std::string& bad :
       {std::string("{}\x1e"), std::string("{}\x1e[]"), std::string("{}\x1e{\"r\":1}"),
        std::string("{}\x1e{\"r\":{}}"), with("", kDigest, "1"), with("..", kDigest, "1"),
        with("a/b", kDigest, "1"), with("r", kDigest.substr(1), "1"),
        with("r", std::string(64, 'A'), "1"), with("r", kDigest, "-1"),
        with("r", kDigest, "1.5")}) {
    const auto read = ReadResult(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
}

TEST(ArtifactPath, IsBelowTheWorkingFolderOrThatOfTheRun) {
  for (const char* good : {"report.pdf", "out/a b.txt", "./x", "$HEADWORKS_SCRATCH/x", "..x/y..",
                           "${{ params.day }}.csv", "out/${{ '..' }}"})
    EXPECT_EQ(ArtifactPathProblem(good), "") << good;
  for (const char* bad :
       {"", "/etc/passwd", "../x", "out/../../x", "out/..", "out/", "/", "$HEADWORKS_SCRATCH/",
        "$HEADWORKS_SCRATCH//etc/passwd", "$HEADWORKS_SCRATCH/../x"})
    EXPECT_NE(ArtifactPathProblem(bad), "") << bad;
}

std::vector<std::string> FaultsOf(const Task& task) {
  WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks = {task};
  std::vector<std::string> faults;
  for (const Fault& fault : Workflow::Check(definition))
    faults.push_back(std::string(fault.code) + " " + fault.field);
  return faults;
}

using Faults = std::vector<std::string>;

TEST(Artifacts, OfATaskHaveBounds) {
  Task task{.id = "a", .action = ShellAction{.script = "true"}};
  for (std::size_t i = 0; i < kMaxArtifacts; ++i) task.artifacts["n" + std::to_string(i)] = "f";
  EXPECT_EQ(FaultsOf(task), Faults{});
  task.artifacts["more"] = "f";
  EXPECT_EQ(FaultsOf(task), Faults{"HW1124 tasks.a.artifacts"});
}

TEST(Artifacts, NamesAndPathsAreChecked) {
  Task task{.id = "a", .action = ShellAction{.script = "true"}};
  task.artifacts = {{std::string(100, 'n'), "f"}, {"a-b", "f"}};
  EXPECT_EQ(FaultsOf(task), Faults{});
  task.artifacts = {{std::string(101, 'n'), "f"}};
  EXPECT_EQ(FaultsOf(task), Faults{"HW1123 tasks.a.artifacts." + std::string(101, 'n')});
  task.artifacts = {{"-x", "f"}, {"up", "../f"}, {"zero", std::string("a\0b", 3)}};
  EXPECT_EQ(FaultsOf(task), (Faults{"HW1123 tasks.a.artifacts.-x", "HW1124 tasks.a.artifacts.up",
                                    "HW1114 tasks.a.artifacts.zero"}));
}

TEST(Artifacts, AreOfCommandsOnly) {
  Task task{.id = "a", .action = FunctionAction{"f"}};
  task.artifacts = {{"r", "r.txt"}};
  EXPECT_EQ(FaultsOf(task), Faults{"HW1124 tasks.a.artifacts"});
}

TEST(Artifacts, ArePartOfTheVersion) {
  WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks = {{.id = "a", .action = ShellAction{.script = "true"}}};
  const auto without = Workflow::Create(definition).value();
  definition.tasks[0].artifacts = {{"r", "out/r.txt"}};
  const auto with = Workflow::Create(definition).value();
  EXPECT_NE(with->version(), without->version());
  EXPECT_EQ(without->canonical_json().find("artifacts"), std::string::npos);
  EXPECT_EQ(Workflow::FromCanonicalJson(with->canonical_json()).value()->definition(),
            with->definition());
}

}  // namespace
}  // namespace headworks::model
