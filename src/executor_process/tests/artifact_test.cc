#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>

#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/base/json.h"
#include "tests/harness.h"

// Files that tasks leave, and those that they need.
namespace headworks::executor_process::testing {
namespace {

namespace fs = std::filesystem;
using artifact_store::Blob;
using artifact_store::Owner;
using model::Reason;
using model::Verdict;
using Paths = std::map<std::string, std::string>;

class NoRoom final : public artifact_store::Writer {
 public:
  Status Append(std::string_view) override {
    return Error{Code::kUnavailable, "no space left on device"};
  }
  Result<Blob> Commit() override { return Blob(); }
};

/// Lets a test stop a writer in the middle, and take the room away.
class WatchedStore final : public artifact_store::ArtifactStore {
 public:
  class Slow final : public artifact_store::Writer {
   public:
    Slow(WatchedStore& store, std::unique_ptr<artifact_store::Writer> writer)
        : store_(store), writer_(std::move(writer)) {}
    Status Append(std::string_view bytes) override {
      if (store_.lost > 0) {
        --store_.lost;
        return Error{Code::kConflict, "lost"};
      }
      if (bytes.starts_with("stuck")) {
        ++store_.stuck;
        store_.freed.wait(false);
      }
      if (bytes.starts_with("slow") && !store_.held.exchange(true)) {
        store_.entered.set_value();
        store_.go_on.get_future().wait();
      }
      return writer_->Append(bytes);
    }
    Result<Blob> Commit() override { return writer_->Commit(); }

   private:
    WatchedStore& store_;
    std::unique_ptr<artifact_store::Writer> writer_;
  };

  explicit WatchedStore(const std::string& folder)
      : inner_(artifact_store_files::NewFileArtifactStore(folder)) {}

  Result<std::unique_ptr<artifact_store::Writer>> Begin(const Owner& owner) override {
    ++begun;
    if (full) return std::make_unique<NoRoom>();
    HEADWORKS_ASSIGN(auto writer, inner_->Begin(owner));
    return std::make_unique<Slow>(*this, std::move(writer));
  }
  Result<std::unique_ptr<artifact_store::Reader>> Open(const Owner& owner,
                                                       const Blob& blob) override {
    return inner_->Open(owner, blob);
  }
  Status Settle(const Owner& owner) override { return inner_->Settle(owner); }
  Status Remove(const Owner& owner) override { return inner_->Remove(owner); }
  Status Sweep(const std::function<Result<bool>(const Owner&)>& kept) override {
    return inner_->Sweep(kept);
  }

  bool full = false;
  std::atomic<int> begun = 0;
  /// Pieces that are appended in vain, because what came before is lost.
  std::atomic<int> lost = 0;
  /// Writers that wait until they are freed.
  std::atomic<int> stuck = 0;
  std::atomic<bool> freed = false;
  std::promise<void> entered, go_on;
  std::atomic<bool> held = false;

 private:
  std::unique_ptr<artifact_store::ArtifactStore> inner_;
};

class ArtifactTest : public ExecutorTest {
 protected:
  void SetUp() override {
    auto store = std::make_unique<WatchedStore>(folder_.path() + "/blobs");
    store_ = store.get();
    artifacts_ = std::move(store);
    Open();
  }
  ProcessExecutorOptions Options() const override {
    ProcessExecutorOptions options = ExecutorTest::Options();
    options.max_artifact_bytes = 1 << 20;
    return options;
  }

  static model::Task Leaves(std::string script, Paths paths) {
    model::Task task = Shell(std::move(script));
    task.artifacts = std::move(paths);
    return task;
  }
  /// Of a success.
  model::TaskResult ResultOf(model::Task task) {
    const model::Outcome outcome = Run(std::move(task));
    EXPECT_EQ(outcome.verdict, Verdict::kSucceeded) << outcome.error;
    return model::ReadResult(outcome.output).value();
  }
  /// The error of a task whose artifact is refused.
  std::string Refused(model::Task task) {
    const model::Outcome outcome = Run(std::move(task));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_EQ(outcome.reason, Reason::kArtifact);
    EXPECT_TRUE(outcome.output.empty());
    return outcome.error;
  }
  std::string BytesOf(const model::Artifact& artifact) {
    auto reader = store_->Open(owner_, {artifact.sha256, artifact.size});
    EXPECT_TRUE(reader) << reader.error().message;
    std::string bytes;
    char piece[1'000];
    while (reader) {
      const auto count = (*reader)->Read(piece);
      EXPECT_TRUE(count);
      if (!count || *count == 0) break;
      bytes.append(piece, *count);
    }
    return bytes;
  }
  /// Makes `bytes` an artifact that the next tasks need.
  model::Artifact Need(const std::string& bytes, const std::string& path, bool executable = false) {
    auto writer = store_->Begin(owner_).value();
    EXPECT_TRUE(writer->Append(bytes));
    const Blob blob = writer->Commit().value();
    const model::Artifact artifact{fs::path(path).filename().string(), blob.sha256, blob.size,
                                   executable};
    resolver_.artifacts.push_back({artifact, "a.file", path});
    return artifact;
  }
  std::string Blobs() const { return folder_.path() + "/blobs/runs/public/run-1/"; }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }

  WatchedStore* store_ = nullptr;
  const Owner owner_{TenantId("public"), RunId("run-1")};
};

constexpr char kNeeds[] = "cd \"${HEADWORKS_INPUT%/*}/needs\"; ";

TEST_F(ArtifactTest, ASuccessLeavesItsFilesBesideItsOutput) {
  const auto result = ResultOf(
      Leaves("mkdir -p out; printf report >out/r.txt; printf tool >\"$HEADWORKS_SCRATCH/t\"; "
             "chmod +x \"$HEADWORKS_SCRATCH/t\"; : >empty; echo rows=1 >\"$HEADWORKS_OUTPUT\"",
             {{"report", "out/r.txt"}, {"tool", "$HEADWORKS_SCRATCH/t"}, {"none", "empty"}}));
  EXPECT_EQ(result.output, R"({"rows":"1"})");
  ASSERT_EQ(result.artifacts.size(), 3U);
  EXPECT_EQ(result.artifacts.at("report"),
            (model::Artifact{"r.txt", Sha256Hex("report"), 6, false}));
  EXPECT_EQ(result.artifacts.at("tool"), (model::Artifact{"t", Sha256Hex("tool"), 4, true}));
  EXPECT_EQ(BytesOf(result.artifacts.at("report")), "report");
  EXPECT_EQ(BytesOf(result.artifacts.at("tool")), "tool");
  EXPECT_EQ(BytesOf(result.artifacts.at("none")), "");
}

TEST_F(ArtifactTest, OneThatIsNotThereFailsTheTaskAndSaysWhere) {
  const std::string error = Refused(Leaves("true", {{"report", "no/such.txt"}}));
  EXPECT_EQ(error,
            "artifact report (no/such.txt) is not there: the command succeeded, and left no " +
                File("no/such.txt"));
}

TEST_F(ArtifactTest, OnlyFilesAreTaken) {
  EXPECT_NE(Refused(Leaves("mkdir -p out", {{"all", "out"}})).find("tar"), std::string::npos);
  EXPECT_NE(Refused(Leaves("mkfifo pipe", {{"p", "pipe"}})).find("is no regular file"),
            std::string::npos);
}

TEST_F(ArtifactTest, LinksLeadNowhereElse) {
  EXPECT_EQ(
      BytesOf(ResultOf(Leaves("echo 1 >one; ln -s one two", {{"f", "two"}})).artifacts.at("f")),
      "1\n");
  const auto in = [](const std::string& cwd, std::string script, Paths paths) {
    model::Task task = Leaves(std::move(script), std::move(paths));
    task.cwd = cwd;
    return task;
  };
  fs::create_directory(File("sub"));
  std::ofstream(File("secret")) << "secret";
  EXPECT_NE(Refused(in("sub", "ln -s ../secret file", {{"f", "file"}})).find("is a link to"),
            std::string::npos);
  EXPECT_NE(Refused(in("sub", "ln -s .. up", {{"f", "up/secret"}})).find("is a link to"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(Blobs() + Sha256Hex("secret")));
}

TEST_F(ArtifactTest, TheLargestIsTakenAndOneByteMoreIsNot) {
  const std::string script = "head -c $SIZE /dev/zero >big";
  auto task = Leaves(script, {{"big", "big"}});
  task.env = {{"SIZE", "1048576"}};
  EXPECT_EQ(ResultOf(task).artifacts.at("big").size, 1U << 20);
  task.env = {{"SIZE", "1048577"}};
  EXPECT_NE(Refused(task).find("has more than 1048576 bytes"), std::string::npos);
  EXPECT_EQ(store_->begun, 1) << "its size says it, before a byte of it is stored";
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/blobs/incoming"));
}

TEST_F(ArtifactTest, AFailureLeavesNone) {
  const model::Outcome outcome = Run(Leaves("echo 1 >file; exit 3", {{"f", "file"}}));
  EXPECT_EQ(outcome.reason, Reason::kExitCode);
  EXPECT_TRUE(outcome.output.empty());
  EXPECT_FALSE(fs::exists(Blobs()));
}

TEST_F(ArtifactTest, AStoreWithoutRoomIsNoFaultOfTheTasksForGood) {
  store_->full = true;
  const model::Outcome outcome = Run(Leaves("echo 1 >file", {{"f", "file"}}));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.reason, Reason::kArtifact);
  EXPECT_EQ(outcome.error, "artifact f cannot be stored: no space left on device");
  store_->full = false;
  EXPECT_EQ(ResultOf(Leaves("echo 1 >file", {{"f", "file"}})).artifacts.size(), 1U);
}

TEST_F(ArtifactTest, WhatIsNeededIsThereBeforeTheStartAndGoneAfterTheEnd) {
  Need("report", "a/report/r.txt");
  Need("#!/bin/sh\necho ran", "a/tool/t", true);
  // Twice, because the second finds the folders of the first.
  for (int i = 0; i < 2; ++i) {
    const auto attempt =
        Next(Shell(std::string(kNeeds) + "cat a/report/r.txt; echo; ./a/tool/t; "
                                         "stat -c %a a/report/r.txt a/tool/t; pwd"));
    ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
    const auto lines = Texts(attempt);
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(std::vector<std::string>(lines.begin(), lines.begin() + 4),
              (std::vector<std::string>{"report", "ran", "400", "500"}));
    EXPECT_TRUE(WaitUntil([&] { return !fs::exists(lines[4]); })) << lines[4];
  }
}

TEST_F(ArtifactTest, WhatATaskDoesToItsCopyIsItsOwnAffair) {
  const model::Artifact artifact = Need("report", "a/report/r.txt");
  const auto attempt =
      Next(Shell(std::string(kNeeds) + "chmod +w a/report/r.txt; echo no >a/report/r.txt"));
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(BytesOf(artifact), "report");
}

TEST_F(ArtifactTest, WithoutWhatItNeedsATaskDoesNotStart) {
  const model::Artifact gone = Need("gone", "a/f/f");
  ASSERT_TRUE(store_->Remove(owner_));
  const std::string missing = Refused(Shell("echo 1 >ran"));
  EXPECT_TRUE(missing.starts_with("artifact a.file: ")) << missing;
  EXPECT_TRUE(missing.ends_with("is not there")) << missing;

  resolver_.artifacts.clear();
  const model::Artifact spoiled = Need("whole", "a/f/f");
  const std::string blob = Blobs() + spoiled.sha256;
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(blob) << "spoil";
  EXPECT_NE(Refused(Shell("echo 1 >ran")).find("is damaged"), std::string::npos);
  EXPECT_FALSE(fs::exists(File("ran")));
  EXPECT_EQ(sink_.starts(), 0U);
}

TEST_F(ArtifactTest, APlaceThatCannotBeWrittenIsTriedAgain) {
  Need("one", "a/f/f");
  Need("two", "a/f/f");  // as any file that is in the way
  const model::Outcome outcome = Run(Shell("true"));
  EXPECT_EQ(outcome.verdict, Verdict::kSnoozed);
  EXPECT_EQ(outcome.reason, Reason::kArtifact);
  resolver_.artifacts.pop_back();
  EXPECT_EQ(Run(Shell("true")).verdict, Verdict::kSucceeded);
}

TEST_F(ArtifactTest, ALargeOneHoldsUpNobodyElse) {
  const auto slow = Next(Leaves("echo slow >file", {{"f", "file"}}));
  ASSERT_EQ(executor_->Offer(slow).disposition, model::Disposition::kDispatched);
  store_->entered.get_future().wait();
  EXPECT_EQ(Run(Shell("true")).verdict, Verdict::kSucceeded);
  EXPECT_EQ(ResultOf(Leaves("echo 1 >other", {{"f", "other"}})).artifacts.size(), 1U);
  EXPECT_EQ(executor_->List().size(), 1U);
  store_->go_on.set_value();
  EXPECT_EQ(sink_.Await(slow.key).verdict, Verdict::kSucceeded);
}

TEST_F(ArtifactTest, WhatAStoreHasLostIsStoredAnewTenTimesAtMost) {
  store_->lost = 10;
  const auto left = ResultOf(Leaves("echo 1 >file", {{"f", "file"}})).artifacts.at("f");
  EXPECT_EQ(BytesOf(left), "1\n");
  store_->lost = 11;
  const model::Outcome outcome = Run(Leaves("echo 1 >file", {{"f", "file"}}));
  EXPECT_EQ(outcome.verdict, Verdict::kRetry);
  EXPECT_EQ(outcome.error, "artifact f cannot be stored: lost");
}

TEST_F(ArtifactTest, ManyLargeOnesHoldUpNeitherAStartNorACancel) {
  std::vector<executor::Attempt> stuck;
  for (int i = 0; i < 3; ++i) {
    const std::string file = "file" + std::to_string(i);
    stuck.push_back(Next(Leaves("echo stuck >" + file, {{"f", file}})));
    ASSERT_EQ(executor_->Offer(stuck.back()).disposition, model::Disposition::kDispatched);
  }
  ASSERT_TRUE(WaitUntil([&] { return store_->stuck == 3; }));
  const auto waits = Next(Leaves("echo $$ >pid; echo stuck >file", {{"f", "file"}}));
  ASSERT_EQ(executor_->Offer(waits).disposition, model::Disposition::kDispatched);
  const pid_t pid = PidFrom(File("pid"));
  ASSERT_TRUE(WaitUntil([&] { return !Alive(pid); }));
  Need("small", "a/f/f");
  // Its end comes after that of the other, which so is in line.
  EXPECT_EQ(Run(Shell("true")).verdict, Verdict::kSucceeded);
  executor_->Cancel(waits.key);
  const model::Outcome outcome = sink_.Await(waits.key);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(outcome.error, "stopped while its artifacts were stored");
  store_->freed = true;
  store_->freed.notify_all();
  for (const auto& attempt : stuck)
    EXPECT_EQ(sink_.Await(attempt.key).verdict, Verdict::kSucceeded);
  EXPECT_EQ(store_->stuck, 3);
}

TEST_F(ArtifactTest, WhatIsNeededGoesWhereItWasSaidToGo) {
  Need("report", "a/report/r.txt");
  const std::string folder = executor_->ArtifactRoot() + "/1-7";
  model::Task task = Shell("cat \"$PLACE/a/report/r.txt\"; echo");
  task.env = {{"PLACE", folder}};
  auto attempt = Next(task);
  attempt.artifact_dir = folder;
  ASSERT_EQ(Run(attempt).verdict, Verdict::kSucceeded);
  EXPECT_EQ(Texts(attempt), std::vector<std::string>{"report"});
  EXPECT_TRUE(WaitUntil([&] { return !fs::exists(attempt.artifact_dir); }));
}

TEST_F(ArtifactTest, CancelStopsTheStoring) {
  const auto slow =
      Next(Leaves("{ echo slow; head -c 1000000 /dev/zero; } >file", {{"f", "file"}}));
  ASSERT_EQ(executor_->Offer(slow).disposition, model::Disposition::kDispatched);
  store_->entered.get_future().wait();
  executor_->Cancel(slow.key);
  store_->go_on.set_value();
  const model::Outcome outcome = sink_.Await(slow.key);
  EXPECT_EQ(outcome.verdict, Verdict::kCancelled);
  EXPECT_TRUE(outcome.output.empty());
  EXPECT_EQ(outcome.error, "stopped while its artifacts were stored");
  EXPECT_FALSE(fs::exists(Blobs()));
}

TEST_F(ArtifactTest, DrainStopsTheStoringAndItIsNobodysFault) {
  auto task = Leaves("{ echo slow; head -c 1000000 /dev/zero; } >file", {{"f", "file"}});
  task.grace = Duration(0);
  const auto slow = Next(std::move(task));
  ASSERT_EQ(executor_->Offer(slow).disposition, model::Disposition::kDispatched);
  store_->entered.get_future().wait();
  // The store does not answer for longer than Drain waits.
  const Status drained = executor_->Drain(Duration(0));
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, Code::kDrainTimeout);
  store_->go_on.set_value();
  EXPECT_EQ(sink_.Await(slow.key).verdict, Verdict::kInterrupted);
}

TEST_F(ArtifactTest, WithoutAStoreSuchTasksAreNotTaken) {
  executor_.reset();
  artifacts_.reset();
  Open();
  const auto offered = executor_->Offer(Next(Leaves("echo 1 >file", {{"f", "file"}})));
  EXPECT_EQ(offered.disposition, model::Disposition::kRefused);
  EXPECT_NE(offered.cause.find("leaves artifacts"), std::string::npos) << offered.cause;
}

}  // namespace
}  // namespace headworks::executor_process::testing
