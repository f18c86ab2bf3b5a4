#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "headworks/artifact_store/artifact_store.h"
#include "headworks/base/json.h"
#include "headworks/runner/runner.h"

// Files that tasks leave, through a whole engine: who gets them, and how long they stay.
namespace headworks {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Paths = std::map<std::string, std::string>;

class ArtifactsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headworks-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.database_url =
        std::string(GetParam()) == "memory" ? "memory:" : "sqlite:" + (folder_ / "hw.db").string();
    // Beside its database, where it has one.
    if (options_.database_url == "memory:") options_.artifact_dir = folder_ / "hw.db-artifacts";
    definition_.name.workflow = "w";
    definition_.base_dir = folder_;
    Open();
  }
  void TearDown() override {
    runner_.reset();
    fs::remove_all(folder_);
  }

  void Open() {
    auto opened = Runner::Open(options_);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    runner_ = std::move(*opened);
  }
  model::Task& Add(std::string id, std::vector<std::string> needs, std::string script,
                   Paths artifacts = {}) {
    model::Task task;
    task.id = std::move(id);
    task.needs = std::move(needs);
    task.action = model::ShellAction{.script = std::move(script), .shell = {}};
    task.artifacts = std::move(artifacts);
    return definition_.tasks.emplace_back(std::move(task));
  }
  RunHandle Start() {
    auto workflow = model::Workflow::Create(definition_);
    EXPECT_TRUE(workflow.has_value()) << workflow.error().message;
    EXPECT_TRUE(runner_->Register(*workflow));
    auto handle = runner_->Start("w");
    EXPECT_TRUE(handle.has_value()) << handle.error().message;
    return *handle;
  }
  static model::RunState End(const RunHandle& handle) {
    const auto result = handle.Wait(60s);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result->state;
  }
  fs::path FolderOf(const RunHandle& handle) const {
    return folder_ / "hw.db-artifacts/runs/public" / handle.run_id().value;
  }
  model::Outcome LastOf(const RunHandle& handle, std::string_view task) {
    const auto header = handle.Status().value();
    const auto workflow = model::Workflow::Create(definition_).value();
    const auto attempts =
        runner_->query().ListAttempts(header.tenant, handle.run(), *workflow->Find(task), {}, 100);
    EXPECT_TRUE(attempts && !attempts->empty());
    return attempts->back().outcome;
  }
  static void Await(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(2ms);  // tidy-allow(sleep): another thread's work
    }
  }

  fs::path folder_;
  RunnerOptions options_;
  model::WorkflowDefinition definition_;
  std::unique_ptr<Runner> runner_;
};
INSTANTIATE_TEST_SUITE_P(Stores, ArtifactsTest, testing::Values("memory", "sqlite"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(ArtifactsTest, AreReadByTheirNamesInExpressionsAndInInput) {
  Add("a", {}, "echo bytes >\"$HEADWORKS_SCRATCH/r.txt\"; echo n=1 >\"$HEADWORKS_OUTPUT\"",
      {{"report", "$HEADWORKS_SCRATCH/${{ 'r' + '.txt' }}"}});
  Add("b", {"a"},
      "cat \"$FROM\"; grep -q \"\\\"report\\\":\\\"$FROM\\\"\" \"$HEADWORKS_INPUT\"; "
      "cat ${{ needs.a.artifacts.report }}")
      .env = {{"FROM", "${{ needs.a.artifacts.report }}"}};
  definition_.tasks.back().output.mode = model::OutputMode::kStdout;
  const RunHandle run = Start();
  ASSERT_EQ(End(run), model::RunState::kSucceeded) << LastOf(run, "b").error;
  EXPECT_EQ(run.Output("a").value(), R"({"n":"1"})");
  EXPECT_EQ(run.Output("b").value(), R"({"text":"bytes\nbytes"})");
}

TEST_P(ArtifactsTest, OfWhatMayFailAreThereOrNot) {
  Add("a", {}, "echo 1 >file; exit 1", {{"f", "file"}}).allow_failure = true;
  Add("b", {"a"}, "test ${{ has(needs.a.artifacts.f) }} = false");
  Add("c", {"a"}, "cat ${{ needs.a.artifacts.f }}");
  const RunHandle run = Start();
  EXPECT_EQ(End(run), model::RunState::kFailed);
  EXPECT_EQ(LastOf(run, "b").verdict, model::Verdict::kSucceeded) << LastOf(run, "b").error;
  EXPECT_EQ(LastOf(run, "c").reason, model::Reason::kExpression);
}

TEST_P(ArtifactsTest, OfAMatrixComeInItsOrder) {
  for (const char* os : {"linux", "a/b"}) {
    model::Task& task = Add("m[" + std::string(os) + "]", {},
                            "echo " + std::string(os) + " >\"$HEADWORKS_SCRATCH/$N\"",
                            {{"f", "$HEADWORKS_SCRATCH/${{ env.N }}"}});
    task.group = "m";
    task.axes = {"os"};
    task.matrix = R"({"os":")" + std::string(os) + "\"}";
    task.env = {{"N", std::to_string(definition_.tasks.size())}};
  }
  Add("use", {"m[linux]", "m[a/b]"},
      "cat ${{ needs.m.artifacts[0].f }} ${{ needs.m.artifacts[1].f }}");
  definition_.tasks.back().output.mode = model::OutputMode::kStdout;
  const RunHandle run = Start();
  ASSERT_EQ(End(run), model::RunState::kSucceeded) << LastOf(run, "use").error;
  EXPECT_EQ(run.Output("use").value(), R"({"text":"linux\na/b"})");
}

TEST_P(ArtifactsTest, ARerunKeepsThoseOfWhatItKeepsAndMakesTheOthersAnew) {
  Add("a", {}, "echo $HEADWORKS_EPOCH >>count; cp count file", {{"f", "file"}});
  Add("b", {"a"}, "test -e go; cat ${{ needs.a.artifacts.f }}");
  definition_.tasks.back().output.mode = model::OutputMode::kStdout;
  const RunHandle run = Start();
  EXPECT_EQ(End(run), model::RunState::kFailed);
  std::ofstream(folder_ / "go") << "";
  ASSERT_TRUE(run.RerunFailed());
  EXPECT_EQ(End(run), model::RunState::kSucceeded) << LastOf(run, "b").error;
  EXPECT_EQ(run.Output("b").value(), R"({"text":"1"})");
  EXPECT_EQ(std::distance(fs::directory_iterator(FolderOf(run)), {}), 1);
  ASSERT_TRUE(run.RerunFrom("a"));
  EXPECT_EQ(End(run), model::RunState::kSucceeded) << LastOf(run, "b").error;
  EXPECT_NE(run.Output("b").value(), R"({"text":"1"})");
}

TEST_P(ArtifactsTest, DamageIsFoundByWhoNeedsThem) {
  Add("a", {}, "echo good >file", {{"f", "file"}});
  Add("b", {"a"}, "test -e go");
  const RunHandle run = Start();
  EXPECT_EQ(End(run), model::RunState::kFailed);
  const fs::path blob = FolderOf(run) / Sha256Hex("good\n");
  ASSERT_TRUE(fs::exists(blob));
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(blob) << "evil\n";
  std::ofstream(folder_ / "go") << "";
  ASSERT_TRUE(run.RerunFailed());
  EXPECT_EQ(End(run), model::RunState::kFailed);
  EXPECT_EQ(LastOf(run, "b").reason, model::Reason::kArtifact);
  EXPECT_NE(LastOf(run, "b").error.find("artifact a.f: "), std::string::npos)
      << LastOf(run, "b").error;
  ASSERT_TRUE(run.RerunFrom("a"));
  EXPECT_EQ(End(run), model::RunState::kSucceeded) << LastOf(run, "b").error;
}

TEST_P(ArtifactsTest, GoWithTheirRun) {
  Add("a", {}, "echo 1 >file", {{"f", "file"}});
  const RunHandle gone = Start();
  EXPECT_EQ(End(gone), model::RunState::kSucceeded);
  const RunHandle kept = Start();
  EXPECT_EQ(End(kept), model::RunState::kSucceeded);
  ASSERT_TRUE(fs::exists(FolderOf(gone)));
  ASSERT_TRUE(runner_->control().Execute({.tenant = TenantId("public"),
                                          .kind = control::CommandKind::kDelete,
                                          .run = gone.run(),
                                          .actor = "test"},
                                         30s));
  Await([&] { return !fs::exists(FolderOf(gone)); });
  EXPECT_TRUE(fs::exists(FolderOf(kept) / Sha256Hex("1\n")));
}

TEST_P(ArtifactsTest, AnEngineThatOpensSweepsWhatCrashesLeft) {
  if (std::string(GetParam()) == "memory") GTEST_SKIP() << "no run outlives such a store";
  Add("a", {}, "echo 1 >file", {{"f", "file"}});
  const RunHandle kept = Start();
  EXPECT_EQ(End(kept), model::RunState::kSucceeded);
  const fs::path blob = FolderOf(kept) / Sha256Hex("1\n");
  ASSERT_TRUE(runner_->Shutdown());
  runner_.reset();
  const fs::path lost =
      folder_ / "hw.db-artifacts/runs/public/01900000-0000-7000-8000-000000000000";
  fs::create_directories(lost);
  std::ofstream(lost / "blob") << "of a run that is deleted";
  std::ofstream(folder_ / "hw.db-artifacts/incoming/abcdef") << "half";
  Open();
  Await([&] { return !fs::exists(lost) && fs::is_empty(folder_ / "hw.db-artifacts/incoming"); });
  EXPECT_TRUE(fs::exists(blob));
}

TEST_P(ArtifactsTest, AFolderThatOtherStoresMayUseKeepsWhatThisOneDoesNotKnow) {
  ASSERT_TRUE(runner_->Shutdown());
  runner_.reset();
  options_.artifact_dir = folder_ / "shared";
  const fs::path other = folder_ / "shared/runs/public/01900000-0000-7000-8000-000000000000";
  fs::create_directories(other);
  fs::create_directories(folder_ / "shared/incoming");
  std::ofstream(other / "blob") << "of a run of another store";
  std::ofstream(folder_ / "shared/incoming/abcdef") << "half";
  Open();
  Await([&] { return fs::is_empty(folder_ / "shared/incoming"); });
  EXPECT_TRUE(fs::exists(other / "blob"));
}

}  // namespace
}  // namespace headworks
